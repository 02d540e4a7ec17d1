//! What each of our metrics says, for whoever reads them where they are gathered: the words of docs/operate.md.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// What a figure is.
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

use Kind::{Counter, Gauge, Histogram};

/// All that this process may tell of.
const METRICS: &[(&str, Kind, &str)] = &[
    (
        "outlast_claimed_total",
        Counter,
        "runs taken from the queues (not those that started in this process with a free slot)",
    ),
    ("outlast_lateness_seconds", Histogram, "from when a claimed run was due until it was claimed"),
    ("outlast_running", Gauge, "runs in hand"),
    (
        "outlast_turns_total",
        Counter,
        "turns of workflows: waiting, released, blocked, completed, failed, cancelled",
    ),
    (
        "outlast_verified_turns_total",
        Counter,
        "turns that were replayed to see that their code repeats itself (Settings::verify): fits, or why not",
    ),
    ("outlast_turn_seconds", Histogram, "from the beginning of a turn to its durable end"),
    ("outlast_claim_seconds", Histogram, "how long a claim took, found something or not"),
    ("outlast_attempt_seconds", Histogram, "how long one attempt of a job took"),
    ("outlast_attempts_total", Counter, "attempts of jobs: completed, failed (a timeout or a panic is one)"),
    ("outlast_failed_step_attempts_total", Counter, "attempts of steps that failed, timed out or panicked"),
    ("outlast_commit_runs", Histogram, "how many runs shared one commit"),
    ("outlast_commit_entries_total", Counter, "journal entries given to commits"),
    ("outlast_commit_retries_total", Counter, "commits that had to be tried again"),
    ("outlast_fenced_writes_total", Counter, "writes that were refused because another node has the run"),
    (
        "outlast_lost_leases_total",
        Counter,
        "times that this node lost its lease or dropped its work for fear of it",
    ),
    ("outlast_runtime_lag_seconds", Gauge, "for how long the runtime where handlers run has not answered"),
    (
        "outlast_http_calls_total",
        Counter,
        "calls to other services: answered (with any status), unreachable, timeout, circuit_open, egress_denied, payload_too_large, too_many_redirects, invalid_argument",
    ),
    ("outlast_takeovers_total", Counter, "runs that this node freed from dead ones"),
    ("outlast_schedule_starts_total", Counter, "times of schedules that started a run on this node"),
    ("outlast_schedule_skips_total", Counter, "times of schedules that passed on this node without a run"),
    ("outlast_retired_total", Counter, "ended runs that this node deleted because their retention was over"),
    (
        "outlast_requests_total",
        Counter,
        "requests to the HTTP API, by the route's name (run.start) and the status of the answer",
    ),
    ("outlast_request_seconds", Histogram, "how long requests took, without streams and waits for results"),
];

/// Tells the recorder of this process.
pub(crate) fn describe() {
    for (name, kind, words) in METRICS {
        match kind {
            Counter => describe_counter!(*name, *words),
            Gauge => describe_gauge!(*name, *words),
            Histogram => describe_histogram!(*name, *words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_described_in_the_words_of_the_documentation() {
        let docs = include_str!("../../../docs/operate.md").replace('`', "");
        let mut told = Vec::new();
        for row in docs.lines().filter(|line| line.starts_with("| outlast_")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            // Roles of a database are called so, too.
            if !["counter", "gauge", "histogram"].contains(&cells[2]) {
                continue;
            }
            told.push((cells[1].split('{').next().unwrap(), cells[2], cells[3]));
        }
        let described = METRICS.iter().map(|(name, kind, words)| match kind {
            Counter => (*name, "counter", *words),
            Gauge => (*name, "gauge", *words),
            Histogram => (*name, "histogram", *words),
        });
        assert_eq!(described.collect::<Vec<_>>(), told);
    }
}
