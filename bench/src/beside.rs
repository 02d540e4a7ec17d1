//! Ours beside the best of the peers, for every figure that both have.

use crate::report::Figure;

/// What is the same work: a workload, what ours is called, what the peers' is, and the unit.
const SAME: [(&str, &str, &str, &str); 8] = [
    ("W1", "bulk enqueue", "bulk enqueue", "jobs/s"),
    ("W1", "drain", "drain", "jobs/s"),
    ("W1", "enqueue one by one", "enqueue one by one, 16 tasks", "jobs/s"),
    ("W2", "runs of 10 steps", "", "steps/s"),
    ("W3", "one-step workflow, start to result", "workflow", "ms p50"),
    ("W3", "job, start to result", "job", "ms p50"),
    ("W4", "event to continuation", "send to continuation", "ms p50"),
    ("W5", "lateness of 2000 timers", "timers due together", "ms p99"),
];

/// One of our figures, and the best that a peer did with the same kind of store.
#[derive(Debug)]
pub struct Beside<'a> {
    pub ours: &'a Figure,
    pub peer: &'a Figure,
    /// How many times as good ours is.
    pub times: f64,
}

/// Every figure of ours that a peer has as well.
pub fn best(figures: &[Figure]) -> Vec<Beside<'_>> {
    let mut rows = Vec::new();
    for (workload, our_name, their_name, unit) in SAME {
        let is_same = |figure: &Figure| figure.workload == workload && figure.unit == unit;
        let ours = |figure: &&Figure| {
            is_same(figure) && figure.peer.is_none() && figure.variant.ends_with(our_name) && is_usual(figure)
        };
        for ours in figures.iter().filter(ours) {
            let peers = figures.iter().filter(|peer| {
                // A store of its own stands beside a server.
                let store = if peer.store == "own" { "postgres" } else { &peer.store };
                is_same(peer) && peer.peer.is_some() && peer.variant == their_name && store == ours.store
            });
            let beside = peers.filter_map(|peer| {
                let (our_value, their_value) = (ours.value?, peer.value?);
                let times = if ours.is_rate() { our_value / their_value } else { their_value / our_value };
                Some(Beside { ours, peer, times })
            });
            rows.extend(beside.min_by(|a, b| a.times.total_cmp(&b.times)));
        }
    }
    rows
}

/// Peers are measured with so many runs of steps at a time.
fn is_usual(figure: &Figure) -> bool {
    figure.workload != "W2" || figure.concurrency == Some(256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_of_the_same_store_counts_whether_more_or_less_is_better() {
        let ours = |store, value| {
            Figure::new("W2", store, 256, value, "steps/s").variant("2000 runs of 10 steps")
        };
        let peer = |name: &str, figure: Figure| Figure { peer: Some(name.to_owned()), ..figure };
        let figures = [
            ours("postgres", 60_000.0),
            ours("sqlite", 80_000.0),
            peer("slow", Figure::new("W2", "postgres", 256, 2_000.0, "steps/s")),
            peer("quick", Figure::new("W2", "own", 256, 6_000.0, "steps/s")),
            Figure::new("W3", "postgres", 1, 0.5, "ms p50").variant("job, start to result"),
            peer("late", Figure::new("W3", "postgres", 1, 4.0, "ms p50").variant("job")),
            peer("soon", Figure::new("W3", "postgres", 1, 2.0, "ms p50").variant("job")),
            peer("other", Figure::new("W3", "sqlite", 1, 0.1, "ms p50").variant("job")),
        ];
        let rows: Vec<(&str, f64)> = best(&figures)
            .into_iter()
            .map(|row| (row.peer.peer.as_deref().unwrap_or_default(), row.times))
            .collect();
        assert_eq!(rows, [("quick", 10.0), ("soon", 4.0)]);
    }
}
