//! Traces of the real binary, as a collector receives them.

#![cfg(feature = "otlp")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use parking_lot::Mutex;
use support::Shop;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What was sent: the path's own type, and the bytes.
type Received = Arc<Mutex<Vec<(String, Bytes)>>>;

/// A collector that takes everything.
async fn collector() -> (String, Received) {
    let received = Received::default();
    let keep = received.clone();
    let take = async move |headers: HeaderMap, body: Bytes| {
        let kind = headers["content-type"].to_str().unwrap().to_owned();
        keep.lock().push((kind, body));
    };
    let router = Router::new().route("/v1/traces", post(take));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(outlast_server::http::serve(listener, router, CancellationToken::new()));
    (url, received)
}

/// Whether bytes are among others. Texts and ids stand in protobuf as they are.
fn has(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_hears_of_requests_and_of_runs_with_links_to_who_started_them() {
    let (collector, received) = collector().await;
    let shop = Shop::new();
    let server = shop.spawned_with(
        &["dev", "--port", "0", "-v"],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector), ("OTEL_BSP_SCHEDULE_DELAY", "100")],
    );
    server.until_told("http://");
    let told = server.told();
    let url =
        told.split("http://").nth(1).unwrap().split(['/', '\n', ' ', '\u{1b}']).next().unwrap().to_owned();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let answer = http
        .post(format!("http://{url}/api/v1/runs"))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))
        .body(r#"{"definition":"order","input":{"item":"pen","cents":100},"key":"traced-1"}"#)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
    let run: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let run = run["id"].as_str().unwrap().to_owned();
    let ended = http.get(format!("http://{url}/api/v1/runs/{run}/result?wait=60s")).send().await.unwrap();
    assert_eq!(ended.status(), 200);
    // What was not sent yet is sent before it ends.
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));

    let received = received.lock();
    assert!(received.iter().all(|(kind, _)| kind == "application/x-protobuf"), "{received:?}");
    let all: Vec<u8> = received.iter().flat_map(|(_, body)| body.to_vec()).collect();
    let id: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&trace[at * 2..at * 2 + 2], 16).unwrap()).collect();
    for part in [&b"service.name"[..], b"outlast", b"POST", run.as_bytes(), &id] {
        assert!(has(&all, part), "{} of {} bytes", String::from_utf8_lossy(part), all.len());
    }
    // The request is of the caller's trace, and a turn of the run is linked to it (field 13 of a span, in it field 1).
    let link: Vec<u8> = [&[10, 16][..], &id].concat();
    let mentions = all.windows(link.len()).filter(|window| *window == link).count();
    assert!(mentions >= 2, "the request's own, and a link: {mentions}");
    // Neither inputs nor outputs are told.
    assert!(!has(&all, b"cents"));
}
