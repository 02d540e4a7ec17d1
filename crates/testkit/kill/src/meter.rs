//! What the engine counts about itself, as far as faults have to show there: each count goes to the ledger.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use metrics::{Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder};
use metrics::{SharedString, Unit};

use crate::ledger::{Ledger, Line};

/// Writes that came too late, because the run was another node's by then.
pub(crate) const FENCED: &str = "outlast_fenced_writes_total";
/// Leases that a node lost.
pub(crate) const LOST_LEASES: &str = "outlast_lost_leases_total";
/// Runs that were taken over from dead nodes.
pub(crate) const TAKEOVERS: &str = "outlast_takeovers_total";
/// How long a claim took.
pub(crate) const CLAIM: &str = "outlast_claim_seconds";

const COUNTED: [&str; 3] = [FENCED, LOST_LEASES, TAKEOVERS];

/// Notes what is counted under these names.
pub(crate) struct Meter {
    ledger: Arc<Ledger>,
    node: u32,
    samples: bool,
}

struct Noted {
    ledger: Arc<Ledger>,
    node: u32,
    name: String,
}

impl Meter {
    /// From now on, in this process.
    pub(crate) fn install(ledger: Ledger, node: u32, samples: bool) -> Result<()> {
        let meter = Meter { ledger: Arc::new(ledger), node, samples };
        metrics::set_global_recorder(meter).map_err(|error| anyhow!("there is a recorder already: {error}"))
    }

    fn noted(&self, key: &Key) -> Arc<Noted> {
        let (ledger, name) = (Arc::clone(&self.ledger), key.name().to_owned());
        Arc::new(Noted { ledger, node: self.node, name })
    }
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match COUNTED.contains(&key.name()) {
            true => Counter::from_arc(self.noted(key)),
            false => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.samples && key.name() == CLAIM {
            true => Histogram::from_arc(self.noted(key)),
            false => Histogram::noop(),
        }
    }
}

impl CounterFn for Noted {
    fn increment(&self, by: u64) {
        self.ledger.write(&Line::Metric { node: self.node, name: self.name.clone(), by });
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Noted {
    fn record(&self, seconds: f64) {
        let micros = (seconds * 1e6) as u64;
        self.ledger.write(&Line::Sample { node: self.node, name: self.name.clone(), micros });
    }
}
