//! What a process remembers of a queue from one claim to the next: who ran, and from where its line is worth a look.
//!
//! Only on PostgreSQL, and only where looks at everything have become slow (see [`WholeLook`]). Nothing is believed that
//! may have changed: whoever ran then is asked for one by one, and beside them whoever was taken since. Whoever claims
//! from a queue does so behind its lock and with a number that is a recent time, so that all who were taken since a look
//! behind the same lock have numbers that are not much smaller than its time.

use std::collections::HashMap;
use std::time::Duration;

use outlast_core::{RunId, ShardCount, Timestamp};
use parking_lot::Mutex;

use super::floors::{Firsts, Floors};
use crate::rows::{ReadRow, cells, ids};
use crate::transitions::flight::{Answers, Flight, Place};
use crate::{QueueClaim, Row, Sql, StoreError, Type, WholeLook};

/// How old the number of a claim may be. One that waited for longer takes nothing and comes again with another.
const OLDEST: Duration = Duration::from_secs(5);
/// So much before a look those begin who are asked for as taken since: twice as much, since clocks of one database may differ.
const SINCE: Duration = Duration::from_secs(10);
/// Whoever takes runs with a number older than this says so in the node's lease, since most are younger: then nobody has to pass
/// over all that was taken within the longer time.
const PROMPT: Duration = Duration::from_millis(250);
/// The same as [`SINCE`] of nodes that took nothing with an older number. Clocks of one database may differ by what is between, also
/// behind a failover.
const SINCE_PROMPT: Duration = Duration::from_secs(2);
/// Nobody's time is so small: nodes of older versions count their claims from one.
const COUNTS: i64 = 100_000_000_000_000;
/// More than so many are not asked for one by one.
const MOST: usize = 1000;
/// For so long nobody looks at all who run: each look at those who ran and those who were taken since knows all who do.
const RARELY: Duration = Duration::from_secs(120);

/// What is remembered of every queue that this process claims from.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    queues: Mutex<HashMap<String, Kept>>,
    /// Every look counts as slow.
    slow_looks: bool,
}

#[derive(Debug, Clone)]
struct Kept {
    /// The last look at the line from its front.
    whole: WholeLook,
    /// The last look at all who run.
    counted: WholeLook,
    /// The database's time of the last look, from wherever.
    at: Timestamp,
    /// The code of the runs that were looked at: others may be due before them.
    codes: Vec<String>,
    ran: Ran,
    /// Whether the rules count who runs.
    counts: bool,
    floors: Floors,
}

/// Who ran then.
#[derive(Debug, Clone)]
enum Ran {
    /// They were only counted.
    Unasked,
    /// Too many to ask for them one by one.
    Many,
    These(Vec<RunId>),
}

/// How a claim looks.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    who: Who,
    /// Whether the rules were seen not to count who runs: then nobody is asked for.
    uncounted: bool,
    pub(super) floors: Floors,
    /// The time of the look that is remembered, if one is.
    at: Option<Timestamp>,
    /// How soon the line is worth a look from its front, where this one is not.
    pub(super) whole_in: Option<Duration>,
}

/// What a look found beside runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The database's time of it.
    pub(super) now: Timestamp,
    pub(super) took: Duration,
    /// Whether groups go in order: then whoever was there first must not be passed over, however late they are seen.
    pub(super) ordered: bool,
    /// Whether the rules count who runs.
    pub(super) counts: bool,
}

#[derive(Debug, Default)]
enum Who {
    /// All who run, counted.
    #[default]
    Counted,
    /// All who run, by name, to be remembered.
    Named,
    /// Those who ran then, as far as they still do, and those who were taken since.
    Since(Timestamp, Vec<RunId>),
}

/// Where those who run stand in a flight.
pub(super) struct Held(Vec<Place>);

impl Memory {
    pub(crate) fn new(slow_looks: bool) -> Memory {
        Memory { slow_looks, ..Memory::default() }
    }

    /// How to look at a queue.
    pub(super) fn recall(&self, ask: &QueueClaim) -> Recalled {
        let queues = self.queues.lock();
        let is_slow = |kept: &&Kept| kept.whole.is_slow() || kept.counted.is_slow();
        let kept = queues.get(&ask.queue).filter(is_slow).filter(|kept| kept.codes == ask.codes);
        let Some(kept) = kept else { return Recalled::default() };
        let who = match &kept.ran {
            Ran::These(runs) if kept.counted.is_within(RARELY) => Who::Since(kept.at, runs.clone()),
            Ran::Many if kept.counted.is_within(RARELY) => Who::Counted,
            _ => Who::Named,
        };
        let is_spared = kept.whole.is_slow() && kept.whole.is_recent();
        let floors = if is_spared { kept.floors } else { Floors::default() };
        let whole_in = (floors != Floors::default()).then(|| kept.whole.left());
        Recalled { who, uncounted: !kept.counts, floors, at: Some(kept.at), whole_in }
    }

    /// Keeps what a look found; says whether what was recalled may be believed. It may not when time went back, or where
    /// groups have to go in order since, or who runs has to be counted.
    pub(super) fn keep(
        &self,
        ask: &QueueClaim,
        recalled: &Recalled,
        seen: Seen,
        names: Vec<RunId>,
        firsts: &Firsts,
    ) -> bool {
        let mut queues = self.queues.lock();
        let went_back = recalled.at.is_some_and(|at| seen.now < at);
        let is_passed_over = seen.ordered && recalled.floors != Floors::default();
        if went_back || is_passed_over || (seen.counts && recalled.uncounted) {
            queues.remove(&ask.queue);
            return false;
        }
        let floors = |look: &mut WholeLook| match seen.ordered {
            true => Floors::default(),
            false => firsts.floors(look.next(seen.now)),
        };
        let ran = match recalled.who {
            Who::Counted => None,
            // Nobody was asked for: nothing is known of who runs, and nothing of how long a look at them takes.
            _ if recalled.uncounted => None,
            Who::Named | Who::Since(..) if names.len() <= MOST => Some(Ran::These(names)),
            Who::Named | Who::Since(..) => Some(Ran::Many),
        };
        let mut look = if self.slow_looks { WholeLook::endless() } else { WholeLook::over(seen.took) };
        let Some(at) = recalled.at else {
            let (codes, ran) = (ask.codes.clone(), ran.unwrap_or(Ran::Unasked));
            let floors = floors(&mut look);
            let counts = seen.counts;
            let kept = Kept { whole: look, counted: look, at: seen.now, codes, ran, counts, floors };
            queues.insert(ask.queue.clone(), kept);
            return true;
        };
        // Whoever looked meanwhile is believed.
        let kept = queues.get_mut(&ask.queue).filter(|kept| kept.at == at && kept.codes == ask.codes);
        if let Some(kept) = kept {
            if recalled.floors == Floors::default() {
                kept.whole = look;
            }
            (kept.at, kept.counts, kept.floors) = (seen.now, seen.counts, floors(&mut kept.whole));
            if matches!(recalled.who, Who::Named) && !recalled.uncounted {
                kept.counted = look;
            }
            kept.ran = ran.unwrap_or_else(|| kept.ran.clone());
        }
        true
    }
}

impl Recalled {
    /// Adds looks at who runs, unless nobody is known to want that.
    pub(super) fn add(&self, flight: &mut Flight, queue: &str, shards: ShardCount) -> Held {
        if self.uncounted {
            return Held(Vec::new());
        }
        let look = |shard: u16| match &self.who {
            Who::Counted => flight.add(QUEUE_HELD.with(cells![shard, queue])),
            Who::Named => flight.add(QUEUE_HELD_NAMED.with(cells![shard, queue])),
            Who::Since(at, held) => {
                let here: Vec<RunId> = held.iter().copied().filter(|run| run.shard() == shard).collect();
                let before = |span: Duration| at.micros() - span.as_micros() as i64;
                let (since, late) = (before(SINCE), before(OLDEST));
                let numbers = cells![since, COUNTS, before(SINCE_PROMPT), late];
                flight.add(QUEUE_HELD_SINCE.with([cells![shard, queue, ids(&here)], numbers].concat()))
            }
        };
        Held((0..shards).map(look).collect())
    }
}

/// Who runs.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// How many of each group.
    pub(super) counts: Vec<(Option<String>, u32)>,
    /// Who, where they were asked for by name.
    pub(super) names: Vec<RunId>,
}

impl Held {
    pub(super) fn read(self, answers: &mut Answers) -> Result<Running, StoreError> {
        let rows: Vec<Row> = self.0.into_iter().flat_map(|place| answers.take(place)).collect();
        let mut running = Running::default();
        for row in rows {
            running.counts.push((row.opt_text(0)?, row.number(1)?));
            running.names.extend(row.opt_id(2)?.map(RunId::from_uuid));
        }
        Ok(running)
    }
}

/// Whether a claim's number is too old for those who look for what was taken since their last look.
pub(super) fn is_stale(ask: &QueueClaim, now: Timestamp) -> bool {
    is_older(ask, now, OLDEST)
}

/// Whether it is so old that those who look have to be told.
pub(super) fn is_late(ask: &QueueClaim, now: Timestamp) -> bool {
    is_older(ask, now, PROMPT)
}

fn is_older(ask: &QueueClaim, now: Timestamp, than: Duration) -> bool {
    ask.number >= COUNTS && ask.number < now.micros() - than.as_micros() as i64
}

pub(super) static STATEMENTS: &[&Sql] = &[&QUEUE_HELD, &QUEUE_HELD_NAMED, &QUEUE_HELD_SINCE, &LATE];

/// Says that a node takes runs with a number that is old. Once in a second, which those who look have to spare: each time leaves a
/// version of the row that renewals write. A program of an earlier schema says nothing, and neither does this for it.
pub(super) static LATE: Sql = Sql::new(
    "queue_late",
    "update outlast.leases set late_at = {now} where shard = {p1} and node = {p2} and late_at < {now} - 1000000",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Id]);

// Behind the lock, in a statement of its own: it sees what the one before took.
static QUEUE_HELD: Sql = Sql::new(
    "queue_held",
    "select a.group_key, count(*), null from outlast.agenda as a
      where a.shard = {p1} and a.node is not null and a.queue = {p2} group by a.group_key",
)
.takes(&[Type::Int, Type::Text])
.by("agenda_node");

static QUEUE_HELD_NAMED: Sql = Sql::new(
    "queue_held_named",
    "select a.group_key, 1, a.id from outlast.agenda as a
      where a.shard = {p1} and a.node is not null and a.queue = {p2}",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Text])
.by("agenda_node");

// Node by node, which `offset 0` leaves no way around (joined with all that any node holds it passes over all that was ever held):
// the numbers of their claims are in the index behind them. Of a node that may have taken something with an old
// number lately, or whose program would not say so, from further back.
static QUEUE_HELD_SINCE: Sql = Sql::new(
    "queue_held_since",
    "select h.group_key, 1, h.id from (
         select a.id, a.group_key from unnest({p3}) as k(id) cross join lateral (
             select a.id, a.group_key from outlast.agenda as a
              where a.shard = {p1} and a.id = k.id and a.node is not null and a.queue = {p2} offset 0) as a
         union
         select a.id, a.group_key
           from outlast.nodes as n left join outlast.leases as l on l.shard = {p1} and l.node = n.id cross join lateral (
             select a.id, a.group_key from outlast.agenda as a
              where a.shard = {p1} and a.node = n.id and a.queue = {p2}
                and a.claim >= case when l.late_at < {p7} then {p6} else {p4} end offset 0) as a
          where n.shard = {p1}
         union
         select a.id, a.group_key from outlast.nodes as n cross join lateral (
             select a.id, a.group_key from outlast.agenda as a
              where a.shard = {p1} and a.node = n.id and a.claim < {p5} and a.queue = {p2} offset 0) as a
          where n.shard = {p1}
     ) as h",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Text, Type::Ids, Type::Int, Type::Int, Type::Int, Type::Int])
.by("agenda_node");

#[cfg(test)]
mod tests {
    use outlast_core::NodeId;

    use super::*;
    use crate::whole_look::PART;

    const SLOW: Duration = Duration::from_millis(50);

    fn ask(code: &str) -> QueueClaim {
        let codes = vec![code.to_owned()];
        QueueClaim { node: NodeId::new(1), number: 1, queue: "mail".into(), codes, limit: 10 }
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(COUNTS + micros)
    }

    fn seen(now: Timestamp, took: Duration) -> Seen {
        Seen { now, took, ordered: false, counts: true }
    }

    /// A look at `now` that finds `runs`; whether it may be believed.
    fn look(memory: &Memory, seen: Seen, runs: usize) -> bool {
        let names =
            (1..=runs as u128).map(|number| RunId::from_uuid(uuid::Uuid::from_u128(number))).collect();
        memory.keep(&ask("a"), &memory.recall(&ask("a")), seen, names, &Firsts::of_all())
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_slow_look_those_who_run_are_asked_for_by_name_and_then_those_taken_since() {
        let memory = Memory::default();
        assert!(look(&memory, seen(at(1), Duration::from_millis(1)), 0));
        assert!(matches!(memory.recall(&ask("a")).who, Who::Counted), "a quick one leaves all as it is");
        assert!(look(&memory, seen(at(2), SLOW), 0));
        assert!(matches!(memory.recall(&ask("a")).who, Who::Named));
        assert!(look(&memory, seen(at(3), SLOW), 2));
        let recalled = memory.recall(&ask("a"));
        assert!(matches!(&recalled.who, Who::Since(since, runs) if *since == at(3) && runs.len() == 2));
        assert!(recalled.whole_in.is_some_and(|left| left <= SLOW * PART), "and everything soon after");
        assert!(memory.recall(&ask("b")).at.is_none(), "others may be due before those of other code");

        tokio::time::advance(SLOW * PART).await;
        let recalled = memory.recall(&ask("a"));
        assert!(
            matches!(recalled.who, Who::Since(..)) && recalled.floors == Floors::default(),
            "the whole line"
        );
        assert!(look(&memory, seen(at(4), SLOW), 3));
        let recalled = memory.recall(&ask("a"));
        assert!(matches!(&recalled.who, Who::Since(since, runs) if *since == at(4) && runs.len() == 3));
        assert!(recalled.floors != Floors::default());

        tokio::time::advance(RARELY).await;
        assert!(matches!(memory.recall(&ask("a")).who, Who::Named), "all who run once more");
        assert!(look(&memory, seen(at(5), SLOW), MOST + 1));
        assert!(matches!(memory.recall(&ask("a")).who, Who::Counted), "too many to ask for one by one");
    }

    #[tokio::test(start_paused = true)]
    async fn who_runs_of_a_queue_whose_rules_count_nobody_is_counted_once_and_not_again() {
        let memory = Memory::default();
        let uncounted = |now, took| Seen { counts: false, ..seen(now, took) };
        assert!(look(&memory, uncounted(at(1), SLOW), 0), "its rules are not known yet");
        for now in 2..5 {
            assert!(memory.recall(&ask("a")).uncounted);
            assert!(look(&memory, uncounted(at(now), Duration::from_millis(1)), 0));
            tokio::time::advance(RARELY).await;
        }
        assert!(memory.recall(&ask("a")).uncounted, "however quick the looks at its line are");
        assert!(!look(&memory, seen(at(5), SLOW), 0), "until its rules count");
        assert!(matches!(memory.recall(&ask("a")).who, Who::Counted));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_believed_where_time_went_back_or_groups_have_to_go_in_order_since() {
        let memory = Memory::new(true);
        let slow = |now| seen(now, SLOW);
        assert!(look(&memory, slow(at(5)), 0) && look(&memory, slow(at(6)), 0));
        assert!(!look(&memory, slow(at(1)), 0), "the clock went back");
        assert!(look(&memory, slow(at(2)), 0) && look(&memory, slow(at(3)), 0), "and is asked anew");

        let ordered = Seen { ordered: true, ..slow(at(9)) };
        assert!(!look(&memory, ordered, 0));
        assert!(look(&memory, ordered, 0) && look(&memory, ordered, 0));
        let recalled = memory.recall(&ask("a"));
        assert!(matches!(recalled.who, Who::Since(..)));
        assert_eq!((recalled.floors, recalled.whole_in), (Floors::default(), None), "from the front");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looked_at_everything_meanwhile_is_believed() {
        let memory = Memory::new(true);
        let first = |due: i64| {
            let mut firsts = Firsts::of_all();
            firsts.found(5, Some(due));
            firsts
        };
        let keep = |recalled: &Recalled, now, due| {
            assert!(memory.keep(&ask("a"), recalled, seen(now, SLOW), Vec::new(), &first(due)));
        };
        let whole = Recalled { who: Who::Named, ..Recalled::default() };
        keep(&whole, at(6), 60);
        let late = memory.recall(&ask("a"));
        keep(&whole, at(7), 10);
        keep(&late, at(8), 80);
        assert_eq!(memory.recall(&ask("a")).floors.of(5), 10, "the one that came late is not");
    }
}
