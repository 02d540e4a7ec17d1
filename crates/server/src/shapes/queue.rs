//! A queue, its rules, and what is left of its rate.

use outlast::{QueueRules, QueueState, QueueView, Rate};
use outlast_store::RateView;
use serde::Serialize;
use utoipa::ToSchema;

use super::millis;
use crate::when::When;

/// A queue.
#[derive(Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueJson {
    pub(crate) name: String,
    #[schema(value_type = String)]
    state: QueueState,
    since: Option<When>,
    due: u64,
    later: u64,
    /// Those of `due` that are to begin or to be tried again; what the others waited for has come.
    queued: u64,
    /// The same of `later`; the others wait until then.
    scheduled: u64,
    running: u64,
    waiting: u64,
    oldest_due_at: Option<When>,
    rules: RulesJson,
    /// How its rate stands; `null` where it has none.
    rate_state: Option<RateStateJson>,
    /// Whether people set the rules, and not code.
    own_rules: bool,
    /// How often it was changed.
    changes: i64,
}

/// What a queue allows.
#[derive(Serialize, ToSchema)]
#[schema(as = Rules)]
struct RulesJson {
    limit: Option<u32>,
    per_node: Option<u32>,
    per_group: Option<u32>,
    rate: Option<RateJson>,
    rate_per_group: Option<RateJson>,
    fair: bool,
    ordered: bool,
}

/// So many in any span of so long.
#[derive(Serialize, ToSchema)]
#[schema(as = Rate)]
struct RateJson {
    count: u32,
    per_ms: u64,
}

/// How a rate stands.
#[derive(Serialize, ToSchema)]
#[schema(as = RateState)]
struct RateStateJson {
    /// How many began within its span.
    used: u32,
    /// How many more may begin now.
    free: u32,
    /// When more may begin than now.
    freer_at: Option<When>,
}

impl RateStateJson {
    fn new(RateView { used, free, freer_at }: RateView) -> RateStateJson {
        RateStateJson { used, free, freer_at: freer_at.map(When) }
    }
}

impl QueueJson {
    pub(crate) fn new(view: &QueueView) -> QueueJson {
        QueueJson {
            name: view.queue.name.clone(),
            state: view.queue.state,
            since: view.queue.since.map(When),
            due: view.due,
            later: view.later,
            queued: view.queued,
            scheduled: view.scheduled,
            running: view.running,
            waiting: view.waiting,
            oldest_due_at: view.oldest.map(When),
            rules: RulesJson::new(&view.queue.rules),
            rate_state: view.rate.map(RateStateJson::new),
            own_rules: view.queue.is_own,
            changes: view.queue.changes,
        }
    }
}

impl RulesJson {
    fn new(rules: &QueueRules) -> RulesJson {
        let rate = |rate: Rate| RateJson { count: rate.count, per_ms: millis(rate.per) };
        RulesJson {
            limit: rules.limit,
            per_node: rules.per_node,
            per_group: rules.per_group,
            rate: rules.rate.map(rate),
            rate_per_group: rules.rate_per_group.map(rate),
            fair: rules.fair,
            ordered: rules.ordered,
        }
    }
}
