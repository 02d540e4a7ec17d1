//! Housekeeping of one shard: dead nodes, runs that nobody will take or whose time was over before they began, values
//! whose time is over, old ids of deliveries and writes.
//!
//! Any node does it, as many as like: each passes over what another has locked.

use std::collections::{BTreeSet, HashSet};

use outlast_core::{NodeId, Status, Timestamp, not_served};

use super::flight::Flight;
use super::forget::GROUP_REST;
use super::takeover::{self, Gone};
use crate::rows::{ReadRow, cells, ids, micros};
use crate::{Mark, Row, Signal, Sql, StoreError, Sweep, Swept, Tx, Type, WholeLook};

/// How many overdue runs are looked at for each that may be blocked. Most wait for their turn, in a queue that is
/// paused or full: the next sweep goes on behind them.
const LOOKS: u32 = 10;

/// Frees the runs of dead nodes, blocks overdue runs that no live node will take, deletes values whose time is over
/// and forgets old deliveries and writes. At most `ask.limit` of each.
///
/// Nothing that was due before `from` is overdue, as far as is known.
pub(crate) async fn sweep(
    tx: &mut dyn Tx,
    ask: &Sweep,
    from: Option<Timestamp>,
) -> Result<Swept, StoreError> {
    let overdue_since = micros(ask.unknown_after);
    let mut flight = Flight::default();
    let dead = flight.add(NODES_DEAD.with(cells![ask.shard, ask.limit, ask.by]));
    let nodes = flight.add(NODES_ALL.with(cells![ask.shard]));
    let looks = ask.limit.saturating_mul(LOOKS).min(i32::MAX as u32);
    let after = from.map_or(ask.after, |at| ask.after.max(Mark { at, ..Mark::default() }));
    let overdue = OVERDUE.with(cells![ask.shard, overdue_since, after.at, after.run, looks]);
    let overdue = flight.add(overdue);
    let mut answers = flight.send(tx).await?;

    let dead = takeover::nodes(&mut answers, Some(dead))?;
    // Not by its lease alone: one that is late and just renewing, or sweeping, is not dead.
    let mut live = Vec::new();
    for row in answers.take(nodes) {
        if !dead.contains(&NodeId::from_uuid(row.id(2)?)) {
            live.push(Serves::read(&row)?);
        }
    }
    let mut stuck = Vec::new();
    let overdue = answers.take(overdue);
    // Behind the last of them it begins from the front again.
    let mut next = Mark::default();
    let is_page = overdue.len() >= looks as usize;
    for (index, row) in overdue.iter().enumerate() {
        if why_stuck(&live, row)?.is_some() {
            stuck.push(row.run(0)?);
        }
        let is_full = stuck.len() >= ask.limit as usize;
        if is_full || (is_page && index + 1 == overdue.len()) {
            next = Mark { at: row.time(4)?, run: row.run(0)? };
            break;
        }
    }

    let (mut freed, mut blocked) = (Vec::new(), Vec::new());
    if !dead.is_empty() || !stuck.is_empty() {
        let mut flight = Flight::default();
        let held = takeover::add_locks(&mut flight, ask.shard, &dead, ask.limit);
        let lost = OVERDUE_LOCK.with(cells![ask.shard, ids(&stuck), overdue_since]);
        let lost = (!stuck.is_empty()).then(|| flight.add(lost));
        let mut answers = flight.send(tx).await?;
        freed = takeover::runs(&mut answers, held)?;
        for row in answers.take_any(lost) {
            let due = row.int(4)? == 1;
            if let Some(why) = why_stuck(&live, &row)?.filter(|_| due) {
                blocked.push(cells![row.run(0)?, why]);
            }
        }
    }

    let mut swept =
        Swept { freed: freed.len() as u64, blocked: blocked.len() as u64, next, ..Swept::default() };
    if !freed.is_empty() {
        tx.signal(Signal::Due);
    }
    let mut flight = Flight::default();
    let removed = takeover::add_free(&mut flight, ask.shard, &dead, &freed, Gone::Died);
    flight.each(&BLOCK, blocked, cells![ask.shard, Status::Blocked]);
    let old = cells![ask.shard, micros(ask.forget_after), ask.limit];
    let forgets = [
        flight.add(DELIVERIES_FORGET.with(old.clone())),
        flight.add(KV_WRITES_FORGET.with(old)),
        flight.add(KV_EXPIRE.with(cells![ask.shard, ask.limit])),
    ];
    let mut answers = flight.send_last(tx).await?;
    swept.dead_nodes = takeover::nodes(&mut answers, removed)?;
    for forgotten in forgets {
        let rows = answers.take(forgotten);
        let count = rows.first().map_or(Ok(0), |row| row.int(0))?;
        swept.forgotten = swept.forgotten.max(count as u64);
    }
    Ok(swept)
}

/// What a look found before a sweep.
pub(crate) struct ToSweep {
    /// Whether there is anything to sweep.
    pub(crate) is_any: bool,
    /// Since when the first overdue run is due.
    first: Option<Timestamp>,
    /// The database's now.
    now: Timestamp,
}

impl ToSweep {
    /// Since when runs are due that the next look is for.
    pub(crate) fn next(&self, ask: &Sweep) -> Timestamp {
        let overdue = Timestamp::from_micros(self.now.micros() - micros(ask.unknown_after));
        self.first.unwrap_or(overdue).min(WholeLook::back(overdue))
    }
}

/// Whether there is anything to sweep: a look that nobody waits for, and that changes nothing.
pub(crate) async fn to_sweep(
    tx: &mut dyn Tx,
    ask: &Sweep,
    from: Option<Timestamp>,
) -> Result<ToSweep, StoreError> {
    let mut flight = Flight::default();
    let (overdue, old) = (micros(ask.unknown_after), micros(ask.forget_after));
    let from = from.map_or(i64::MIN, Timestamp::micros);
    let look = flight.add(TO_SWEEP.with(cells![ask.shard, ask.by, overdue, old, micros(GROUP_REST), from]));
    let mut answers = flight.send_last(tx).await?;
    let rows = answers.take(look);
    let row = rows.first().ok_or_else(|| StoreError::Refused("a look answers nothing".into()))?;
    let first = row.opt_time(1)?;
    Ok(ToSweep { is_any: row.int(0)? == 1 || first.is_some(), first, now: row.time(2)? })
}

/// The code that live nodes know, from the rows of [`NODES_LIVE`].
pub(crate) fn live_codes(rows: &[Row]) -> Result<HashSet<String>, StoreError> {
    let mut known = HashSet::new();
    for row in rows {
        known.extend(Serves::read(row)?.codes);
    }
    Ok(known)
}

/// What a live node takes: runs with this code, from these queues.
struct Serves {
    codes: HashSet<String>,
    queues: HashSet<String>,
}

impl Serves {
    /// From a row of [`NODES_LIVE`].
    fn read(row: &Row) -> Result<Serves, StoreError> {
        let all = |text: String| serde_json::from_str(&text).unwrap_or_default();
        Ok(Serves { codes: all(row.text(0)?), queues: all(row.text(1)?) })
    }

    /// One that names no queue is of an older version, and may take from all.
    fn serves(&self, queue: &str) -> bool {
        self.queues.is_empty() || self.queues.contains(queue)
    }
}

/// Why none of the `live` nodes will take a run, if none will, from a row of [`OVERDUE`] or [`OVERDUE_LOCK`].
///
/// Nor has it to be taken when its time is over: it has done nothing that its code would have to undo.
fn why_stuck(live: &[Serves], row: &Row) -> Result<Option<String>, StoreError> {
    let (code, queue, is_late) = (row.text(1)?, row.text(2)?, row.int(3)? == 1);
    let knowing: Vec<&Serves> = live.iter().filter(|node| node.codes.contains(&code)).collect();
    if knowing.is_empty() {
        return Ok(Some(format!("no node knows {code}{}", other_versions(live, &code))));
    }
    if !knowing.iter().any(|node| node.serves(&queue)) {
        return Ok(Some(not_served(&code, &queue)));
    }
    Ok(is_late.then(|| format!("queue {queue} did not let it begin in time")))
}

/// Which other versions of the same definition they know, in words; nothing when none.
fn other_versions(live: &[Serves], code: &str) -> String {
    let name = code.rsplit_once('@').map_or(code, |(name, _)| name);
    let version = |known: &String| known.rsplit_once('@').filter(|(other, _)| *other == name)?.1.parse().ok();
    let known: BTreeSet<u32> = live.iter().flat_map(|node| &node.codes).filter_map(version).collect();
    let known: Vec<String> = known.into_iter().map(|version| format!("{name}@{version}")).collect();
    if known.is_empty() { String::new() } else { format!(", only {}", known.join(", ")) }
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &TO_SWEEP,
    &NODES_DEAD,
    &NODES_ALL,
    &NODES_LIVE,
    &OVERDUE,
    &OVERDUE_LOCK,
    &BLOCK,
    &DELIVERIES_FORGET,
    &KV_WRITES_FORGET,
    &KV_EXPIRE,
];

static TO_SWEEP: Sql = Sql::new(
    "to_sweep",
    "select case when exists (select 1 from outlast.members as n
                               where n.shard = {p1} and n.lease_until < {now} and n.id <> {p2})
                   or exists (select 1 from outlast.agenda as a
                               where a.shard = {p1} and a.reason is not null and a.expires_at <= {now})
                   or exists (select 1 from outlast.orphans as o where o.shard = {p1})
                   or exists (select 1 from outlast.deliveries as d
                               where d.shard = {p1} and d.at < {now} - {p4})
                   or exists (select 1 from outlast.groups as g
                               where g.shard = {p1} and g.used_until < {now} - {p5})
                   or exists (select 1 from outlast.kv_writes as w
                               where w.shard = {p1} and w.at < {now} - {p4})
                   or exists (select 1 from outlast.kv as k
                               where k.shard = {p1} and k.expires_at <= {now} and k.version < {now})
            then 1 else 0 end,
            (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and a.due_at >= {p6} and a.due_at < {now} - {p3} and a.attempt > 0 order by a.due_at limit 1),
            {now}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int, Type::Int, Type::Int])
.by("agenda_next");

// A batch of the node that is still under way holds its row: then it is not dead yet.
static NODES_DEAD: Sql = Sql::new(
    "nodes_dead",
    "select n.id from outlast.nodes as n
      where n.shard = {p1} and n.id <> {p3}
        and coalesce((select l.lease_until from outlast.leases as l where l.shard = {p1} and l.node = n.id), n.lease_until) < {now}
      order by n.id limit {p2} {skip_locked}",
)
.takes(&[Type::Int, Type::Int, Type::Id]);

static NODES_ALL: Sql =
    Sql::new("nodes_all", "select n.codes, n.queues, n.id from outlast.nodes as n where n.shard = {p1}")
        .takes(&[Type::Int]);

/// What nodes with a lease know, and the queues they take from.
pub(crate) static NODES_LIVE: Sql = Sql::new(
    "nodes_live",
    "select n.codes, n.queues from outlast.members as n
      where n.shard = {p1} and n.lease_until >= {now}",
)
.takes(&[Type::Int]);

/// What has to be known of an overdue run. One that was never claimed has not begun.
macro_rules! overdue {
    () => {
        "select a.id, a.code, a.queue, case when a.epoch = 0 and a.expires_at <= {now} then 1 else 0 end"
    };
}

static OVERDUE: Sql = Sql::new(
    "overdue",
    concat!(
        overdue!(),
        ", a.due_at from outlast.agenda as a
      where a.shard = {p1} and a.due_at < {now} - {p2} and a.attempt > 0 and (a.due_at, a.id) > ({p3}, {p4})
      order by a.due_at, a.id limit {p5}"
    ),
)
.takes(&[Type::Int, Type::Int, Type::Int, Type::Id, Type::Int])
.by("agenda_next");

static OVERDUE_LOCK: Sql = Sql::new(
    "overdue_lock",
    concat!(
        overdue!(),
        ", case when a.node is null and a.due_at < {now} - {p3} then 1 else 0 end
           from outlast.agenda as a where a.shard = {p1} and a.id {in:p2} order by a.id {skip_locked}"
    ),
)
.takes(&[Type::Int, Type::Ids, Type::Int]);

static BLOCK: Sql = Sql::new(
    "block",
    "update outlast.agenda as a set status = {p2}, due_at = null, reason = b.reason from {batch}
      where a.shard = {p1} and a.id = b.run and a.node is null",
)
.rows(&[("run", Type::Id), ("reason", Type::Text)])
.takes(&[Type::Int, Type::Int]);

static DELIVERIES_FORGET: Sql = Sql::new(
    "deliveries_forget",
    "delete from outlast.deliveries where shard = {p1} and id in (
         select d.id from outlast.deliveries as d
          where d.shard = {p1} and d.at < {now} - {p2} order by d.at limit {p3} {skip_locked})",
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("deliveries_by_time")
.counted();

static KV_WRITES_FORGET: Sql = Sql::new(
    "kv_writes_forget",
    "delete from outlast.kv_writes where shard = {p1} and id in (
         select w.id from outlast.kv_writes as w
          where w.shard = {p1} and w.at < {now} - {p2} order by w.at limit {p3} {skip_locked})",
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("kv_writes_by_time")
.counted();

// A key that begins anew gets the time as its version: a row whose version is not over yet has to stay until it is.
static KV_EXPIRE: Sql = Sql::new(
    "kv_expire",
    "delete from outlast.kv where shard = {p1} and (tenant, space, key) in (
         select k.tenant, k.space, k.key from outlast.kv as k
          where k.shard = {p1} and k.expires_at <= {now} and k.version < {now}
          order by k.expires_at limit {p2} {skip_locked})",
)
.takes(&[Type::Int, Type::Int])
.by("kv_expired")
.counted();
