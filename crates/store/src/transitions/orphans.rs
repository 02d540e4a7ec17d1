//! Asks the children of a run to stop that did not end well.
//!
//! Whoever ends such a run, or begins to undo it, notes that in its own transaction, in the shards in which it has
//! children. Whoever sweeps takes a note, asks a page of children, and writes down how far it came: so there is no limit
//! to how many there are, and a crash at any point leaves the rest of the work noted. A child that ends by this, now or
//! later, notes its own children likewise.

use std::collections::{BTreeMap, HashSet};

use outlast_core::{FailureDoc, Limits, RunId, ShardCount, Status, shorten};

use super::agenda::{self, AgendaRow, by_shard};
use super::control::{cancel_locked, lock_families};
use super::flight::{Flight, Place};
use super::results;
use crate::rows::{ReadRow, cells, plain};
use crate::{Cell, Ended, NewRun, Signal, Sql, StoreError, Sweep, Tx, Type};

/// The most children of one transaction.
const PAGE: u32 = 100;

/// Notes that a run has ended, if it has not ended well. The place given back has a row for each shard with children.
pub(super) fn add_ended(flight: &mut Flight, run: RunId, end: &Ended) -> Option<Place> {
    let failure = end.error.as_deref().and_then(|error| serde_json::from_str::<FailureDoc>(error).ok());
    let why = failure.map(|failure| failure.message()).unwrap_or_default();
    let reason = match end.status {
        Status::Completed => return None,
        // What it says begins with that word.
        Status::Cancelled if !why.is_empty() => format!("its parent {run} was {why}"),
        status => format!("its parent {run} has {status}: {why}"),
    };
    Some(add(flight, run, &reason))
}

/// Notes that what a run did is undone from here on: its children stop before that is through.
pub(super) fn add_undone(flight: &mut Flight, row: &AgendaRow) -> Place {
    let run = row.id;
    let reason = match &row.cancel_reason {
        Some(reason) => format!("its parent {run} was cancelled: {reason}"),
        None => format!("its parent {run} did not end well, and is undone"),
    };
    add(flight, run, &reason)
}

fn add(flight: &mut Flight, run: RunId, reason: &str) -> Place {
    flight.add(ORPHANS_NOTE.with(cells![run, plain(&shorten(reason, Limits::MESSAGE))]))
}

/// The parents of keyed runs that are about to start, which have ended, and not well: whoever starts a child by its key
/// does so beside the parent's own turn, and may come late. The others are locked, so that they do not end meanwhile.
pub(super) async fn late_for(tx: &mut dyn Tx, runs: &[&NewRun]) -> Result<HashSet<RunId>, StoreError> {
    let wards = runs.iter().filter(|run| run.stops_with_parent && run.key.is_some());
    let parents = by_shard(wards.filter_map(|run| Some(run.parent.as_ref()?.run)));
    if parents.is_empty() {
        return Ok(HashSet::new());
    }
    let mut flight = Flight::default();
    agenda::add_locks(&mut flight, &parents, true);
    let results = results::add_looks(&mut flight, &parents);
    let ended = results::found(&mut flight.send(tx).await?, &results)?;
    Ok(ended.into_iter().filter(|(_, end)| end.status != Status::Completed).map(|(run, _)| run).collect())
}

/// Notes children that came late.
pub(super) fn add_late(flight: &mut Flight, tx: &mut dyn Tx, runs: &[&NewRun], late: &HashSet<RunId>) {
    let mut shards: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.stops_with_parent) {
        if let Some(parent) = run.parent.as_ref().filter(|parent| late.contains(&parent.run)) {
            let reason = format!("its parent {} has ended", parent.run);
            shards.entry(run.id.shard()).or_default().push(cells![parent.run, reason]);
        }
    }
    for (shard, rows) in shards {
        flight.each(&ORPHANS_LATE, rows, cells![shard]);
        tx.signal(Signal::Orphans);
    }
}

/// Locks the notes about a run's children: whoever stops them has the note first, and then the children.
pub(super) fn add_locks(flight: &mut Flight, shards: ShardCount, parent: RunId) {
    for shard in 0..shards.max(1) {
        flight.add(ORPHANS_LOCK.with(cells![shard, parent]));
    }
}

/// Takes back that a run's children in a shard are to stop: it goes on.
pub(super) fn add_forget(flight: &mut Flight, shard: u16, parent: RunId) {
    flight.add(ORPHANS_DONE.with(cells![shard, parent]));
}

/// Whether there is a note of children that have to stop.
pub(crate) async fn are_orphans(tx: &mut dyn Tx, ask: &Sweep) -> Result<bool, StoreError> {
    let mut flight = Flight::default();
    let noted = flight.add(ORPHANS_ANY.with(cells![ask.shard]));
    Ok(!flight.send_last(tx).await?.take(noted).is_empty())
}

/// Asks a page of children of one parent to stop. Says whether there may be more to do.
pub(crate) async fn stop_orphans(tx: &mut dyn Tx, ask: &Sweep) -> Result<bool, StoreError> {
    let mut flight = Flight::default();
    let noted = flight.add(ORPHANS_NEXT.with(cells![ask.shard]));
    let Some(noted) = flight.send(tx).await?.take(noted).pop() else {
        Flight::default().send_last(tx).await?;
        return Ok(false);
    };
    let (parent, reason, after) = (noted.run(0)?, noted.text(1)?, noted.opt_id(2)?);
    let mut flight = Flight::default();
    let page: Place = flight.add(ORPHANS_PAGE.with(cells![ask.shard, parent, after, PAGE]));
    let page = flight.send(tx).await?.take(page);
    let children = page.iter().map(|row| row.run(0)).collect::<Result<Vec<RunId>, _>>()?;
    let mut unfinished = Vec::new();
    for (child, row) in children.iter().zip(&page) {
        // One that had ended, and is tried again just now, is so because somebody wants it.
        if row.opt_int(1)?.is_some() {
            unfinished.push(*child);
        }
    }
    if !unfinished.is_empty() {
        lock_families(tx, &by_shard(unfinished.iter().copied())).await?;
    }
    for child in unfinished {
        let (flight, _) = cancel_locked(tx, child, &reason).await?;
        flight.send(tx).await?;
    }
    let mut flight = Flight::default();
    match children.last().filter(|_| children.len() == PAGE as usize) {
        Some(last) => flight.add(ORPHANS_PASS.with(cells![ask.shard, parent, *last])),
        None => flight.add(ORPHANS_DONE.with(cells![ask.shard, parent])),
    };
    flight.send_last(tx).await?;
    Ok(true)
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &ORPHANS_NOTE,
    &ORPHANS_LATE,
    &ORPHANS_LOCK,
    &ORPHANS_ANY,
    &ORPHANS_NEXT,
    &ORPHANS_PAGE,
    &ORPHANS_PASS,
    &ORPHANS_DONE,
];

// Children with keys may be in any shard. SQLite, which may have no statistics yet, is told by which index to look.
macro_rules! note {
    ($by:literal) => {
        concat!(
            "with recursive shards(shard) as (
                 select 0
                 union all
                 select s.shard + 1 from shards as s
                  where s.shard + 1
                      < (select cast(m.value as integer) from outlast.meta as m where m.name = 'shards')
             )
             insert into outlast.orphans (shard, parent, reason)
             select s.shard, {p1}, {p2} from shards as s
              where (select 1 from outlast.runs as c ",
            $by,
            " where c.shard = s.shard and c.parent = {p1} and c.stops_with_parent = 1 limit 1) = 1
             on conflict (shard, parent) do nothing returning shard"
        )
    };
}

static ORPHANS_NOTE: Sql = Sql::new("orphans_note", note!(""))
    .on_sqlite(note!("indexed by outlast.runs_by_parent"))
    .takes(&[Type::Id, Type::Text])
    .by("runs_by_parent");

static ORPHANS_LATE: Sql = Sql::new(
    "orphans_late",
    "insert into outlast.orphans (shard, parent, reason) select {p1}, b.parent, b.reason from {batch} where true
     on conflict (shard, parent) do update set after = null",
)
.rows(&[("parent", Type::Id), ("reason", Type::Text)])
.takes(&[Type::Int]);

static ORPHANS_LOCK: Sql = Sql::new(
    "orphans_lock",
    "select o.parent from outlast.orphans as o where o.shard = {p1} and o.parent = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Id]);

static ORPHANS_ANY: Sql =
    Sql::new("orphans_any", "select 1 from outlast.orphans as o where o.shard = {p1} limit 1")
        .takes(&[Type::Int]);

static ORPHANS_NEXT: Sql = Sql::new(
    "orphans_next",
    "select o.parent, o.reason, o.after from outlast.orphans as o where o.shard = {p1}
      order by o.parent limit 1 {skip_locked}",
)
.takes(&[Type::Int]);

// Those that have ended are passed over one by one: they are no more than the parent started.
macro_rules! page {
    ($by:literal) => {
        concat!(
            "select c.id, (select 1 from outlast.agenda as a where a.shard = c.shard and a.id = c.id)
               from outlast.runs as c ",
            $by,
            " where c.shard = {p1} and c.parent = {p2} and c.stops_with_parent = 1 and (c.id > {p3} or {p3} is null)
              order by c.id limit {p4}"
        )
    };
}

static ORPHANS_PAGE: Sql = Sql::new("orphans_page", page!(""))
    .on_sqlite(page!("indexed by outlast.runs_by_parent"))
    .takes(&[Type::Int, Type::Id, Type::Id, Type::Int])
    .by("runs_by_parent");

static ORPHANS_PASS: Sql =
    Sql::new("orphans_pass", "update outlast.orphans set after = {p3} where shard = {p1} and parent = {p2}")
        .takes(&[Type::Int, Type::Id, Type::Id]);

static ORPHANS_DONE: Sql =
    Sql::new("orphans_done", "delete from outlast.orphans where shard = {p1} and parent = {p2}")
        .takes(&[Type::Int, Type::Id]);
