//! Traces for a collector, by OTLP over HTTP: requests, runs and steps.
//!
//! Only with the feature `otlp`, and only where `OTEL_EXPORTER_OTLP_ENDPOINT` says where to; the other variables of
//! OpenTelemetry count too (`OTEL_SERVICE_NAME`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER`). A run may take hours:
//! its turns are no children of the request that started it, whose trace has long been told, but linked to it.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use crate::http::traceparent;

/// Says where to send traces; without it nothing is sent.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// What of a run's span names whoever started it.
const TRACE: &str = "run.trace";

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Tells spans of requests, runs and steps to a collector, where one is named.
pub(crate) fn layer<S>() -> Option<impl Layer<S>>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    std::env::var_os(ENDPOINT).filter(|endpoint| !endpoint.is_empty())?;
    // For collectors that are reached by TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = match opentelemetry_otlp::SpanExporter::builder().with_http().build() {
        Ok(exporter) => exporter,
        Err(error) => {
            crate::output::note(&format!("no traces are sent: {ENDPOINT} cannot be used: {error}"));
            return None;
        }
    };
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name("outlast") };
    let provider = SdkTracerProvider::builder()
        .with_span_processor(LinkRuns)
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    let tracer = provider.tracer("outlast");
    let _ = PROVIDER.set(provider);
    let ours = Targets::new()
        .with_target("outlast", LevelFilter::INFO)
        .with_target("outlast_server", LevelFilter::INFO);
    Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours))
}

/// Sends what was not sent yet. Waits for that, within bounds.
pub(crate) fn stop() {
    if let Some(provider) = PROVIDER.get()
        && let Err(error) = provider.shutdown_with_timeout(Duration::from_secs(5))
    {
        tracing::warn!(%error, "some traces were not sent");
    }
}

/// Makes a request's span the child of what its caller named.
pub(crate) fn adopt(span: &tracing::Span, headers: &HeaderMap) {
    if PROVIDER.get().is_some()
        && let Some(parent) = traceparent(headers).and_then(|text| context_of(&text))
    {
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

/// What a `traceparent` names; a `tracestate` may follow behind a `;`.
fn context_of(text: &str) -> Option<SpanContext> {
    let (parent, state) = text.split_once(';').unwrap_or((text, ""));
    let [_, trace, span, flags] = parent.split('-').collect::<Vec<_>>()[..] else { return None };
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let state = state.parse::<TraceState>().unwrap_or_default();
    let context =
        SpanContext::new(TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, flags, true, state);
    context.is_valid().then_some(context)
}

/// Links a run's spans to the request that started it.
#[derive(Debug)]
struct LinkRuns;

impl SpanProcessor for LinkRuns {
    fn on_start(&self, span: &mut Span, _: &Context) {
        let Some(data) = span.exported_data() else { return };
        let trace = data.attributes.iter().find(|attribute| attribute.key.as_str() == TRACE);
        if let Some(Value::String(text)) = trace.map(|attribute| &attribute.value)
            && let Some(context) = context_of(text.as_str())
        {
            span.add_link(context, Vec::new());
        }
    }

    fn on_end(&self, _: SpanData) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_context_says_is_read_and_what_is_none_is_not() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01;congo=t61";
        let context = context_of(text).unwrap();
        assert_eq!(context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id().to_string(), "00f067aa0ba902b7");
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.trace_state().get("congo"), Some("t61"));
        for wrong in ["", "00-0-0-0", "nope", "00-00000000000000000000000000000000-0000000000000000-01"] {
            assert!(context_of(wrong).is_none(), "{wrong}");
        }
    }
}
