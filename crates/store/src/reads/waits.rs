//! What suspended runs wait for: what is open in their journals, and which runs will tell them of their end.

use std::collections::{BTreeMap, HashMap};

use outlast_core::{
    RunId, ShardCount, Status, Timestamp, Unread, Wait, WaitOn, live_waits, name_in_any_life, split_life,
    strip_anew,
};

use super::turns::lives;
use crate::rows::{self, ReadRow, cells, ids};
use crate::transitions::{Flight, Place};
use crate::{Cell, Row, RunView, Sql, StoreError, Tx, Type};

/// How many of a run's children are named.
const CHILDREN: u32 = 10;
/// Among how many entries at the end of a journal a wait is looked for where many runs are looked at.
const LATELY: u32 = 64;

/// A run that is suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspended {
    pub(super) run: RunId,
    pub(super) due_at: Option<Timestamp>,
    /// Whether it was asked to stop: it waits for that no more.
    pub(super) asked_to_stop: bool,
}

/// What each of those of `runs` that wait has waited for longest. What was opened long before the end of a long journal is
/// not seen: a list must not cost what journals do.
pub(crate) async fn waited_for(
    tx: &mut dyn Tx,
    runs: &[RunView],
    shards: ShardCount,
) -> Result<HashMap<RunId, Wait>, StoreError> {
    let waiting = runs.iter().filter(|view| view.status == Status::Waiting);
    let waiting: Vec<Suspended> = waiting
        .map(|view| {
            let asked_to_stop = view.cancel_reason.is_some();
            Suspended { run: view.record.id, due_at: view.due_at, asked_to_stop }
        })
        .collect();
    if waiting.is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(HashMap::new());
    }
    let found = look(tx, &waiting, shards, Depth::Lately).await?;
    Flight::default().send_last(tx).await?;
    let first = |(run, waits): (RunId, Vec<Wait>)| Some((run, waits.into_iter().next()?));
    Ok(found.into_iter().filter_map(first).collect())
}

/// What can still wake each of `runs`. The transaction goes on.
pub(super) async fn waits(
    tx: &mut dyn Tx,
    runs: &[Suspended],
    shards: ShardCount,
) -> Result<HashMap<RunId, Vec<Wait>>, StoreError> {
    look(tx, runs, shards, Depth::Whole).await
}

/// How much of a journal is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Whole,
    Lately,
}

async fn look(
    tx: &mut dyn Tx,
    runs: &[Suspended],
    shards: ShardCount,
    depth: Depth,
) -> Result<HashMap<RunId, Vec<Wait>>, StoreError> {
    let mut by_shard: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for Suspended { run, .. } in runs {
        by_shard.entry(run.shard()).or_default().push(*run);
    }
    let rows = |runs: &[RunId]| -> Vec<Vec<Cell>> { runs.iter().map(|run| cells![*run]).collect() };
    let all: Vec<RunId> = runs.iter().map(|suspended| suspended.run).collect();

    let children = if depth == Depth::Whole { CHILDREN } else { 1 };
    let mut flight = Flight::default();
    let (mut open, mut unread, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (shard, runs) in &by_shard {
        open.extend(match depth {
            Depth::Whole => flight.each(&WAITS_OPEN, rows(runs), cells![*shard]),
            Depth::Lately => flight.each(&WAITS_LATELY, rows(runs), cells![*shard, LATELY]),
        });
        unread.push(flight.add(WAITS_UNREAD.with(cells![*shard, ids(runs)])));
    }
    // A child with a key lives in the shard of that.
    for shard in 0..shards.max(1) {
        ends.extend(flight.each(&WAITS_CHILDREN, rows(&all), cells![shard, children]));
        ends.push(flight.add(WAITS_LISTENED.with(cells![shard, ids(&all)])));
    }
    let mut answers = flight.send(tx).await?;
    let mut take = |places: Vec<Place>| -> Vec<Row> {
        places.into_iter().flat_map(|place| answers.take(place)).collect()
    };

    let mut found: HashMap<RunId, Vec<Wait>> = HashMap::new();
    for row in take(open) {
        let (run, entry) = rows::entry(&row)?;
        found.entry(run).or_default().extend(Wait::opened(&entry));
    }
    let mut messages: HashMap<RunId, Vec<Unread>> = HashMap::new();
    for row in take(unread) {
        let on = if row.int(1)? == 1 { WaitOn::Event } else { WaitOn::Promise };
        messages.entry(row.run(0)?).or_default().push(Unread { on, name: row.text(2)? });
    }
    in_this_life(tx, &mut messages).await?;
    for row in take(ends) {
        let wait = Wait {
            on: WaitOn::Child,
            name: strip_anew(split_life(&row.text(2)?).0).to_owned(),
            since: row.time(3)?,
            until: None,
            run: Some(row.run(1)?),
            attempt: None,
        };
        found.entry(row.run(0)?).or_default().push(wait);
    }
    for Suspended { run, due_at, asked_to_stop } in runs {
        if let Some(waits) = found.get_mut(run) {
            waits.retain(|wait| wait.on != WaitOn::Stop || !asked_to_stop);
            let unread = messages.remove(run).unwrap_or_default();
            *waits = live_waits(std::mem::take(waits), *due_at, &unread);
            waits.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        }
    }
    Ok(found)
}

/// Promises by the names that they have in the journal. A value that was meant for another life answers nobody here.
async fn in_this_life(tx: &mut dyn Tx, messages: &mut HashMap<RunId, Vec<Unread>>) -> Result<(), StoreError> {
    let is_promise = |unread: &Unread| unread.on == WaitOn::Promise;
    let settled = messages.iter().filter(|(_, unread)| unread.iter().any(is_promise)).map(|(run, _)| *run);
    let settled: Vec<RunId> = settled.collect();
    if settled.is_empty() {
        return Ok(());
    }
    let lives = lives(tx, &settled).await?;
    let any = name_in_any_life("");
    for (run, unread) in messages.iter_mut() {
        let life = lives.get(run).copied().unwrap_or_default();
        unread.retain_mut(|unread| {
            if unread.on == WaitOn::Promise {
                let (name, meant) = match unread.name.strip_suffix(&any) {
                    Some(name) => (name, life),
                    None => {
                        let (name, meant) = split_life(&unread.name);
                        (name, meant.unwrap_or_default())
                    }
                };
                let is_ours = meant == life;
                unread.name = name.to_owned();
                return is_ours;
            }
            true
        });
    }
    Ok(())
}

pub(super) static STATEMENTS: &[&Sql] =
    &[&WAITS_OPEN, &WAITS_LATELY, &WAITS_UNREAD, &WAITS_CHILDREN, &WAITS_LISTENED];

// Of every operation that has no end the last entry: 0 and 1 are the phases before an end. Only kinds that can wait:
// steps and transactions (between attempts), sleeps, events, promises, and the request to stop.
static WAITS_OPEN: Sql = Sql::new(
    "waits_open",
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from {batch} cross join lateral (
               select max(o.pos) as pos from outlast.journal as o
                where o.shard = {p1} and o.run = b.run and (o.kind < 50 or o.kind / 10 = 9)
                group by o.kind / 10, o.name having max(o.kind % 10) < 2) as g
            join outlast.journal as j on j.shard = {p1} and j.run = b.run and j.pos = g.pos",
)
.on_sqlite(
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from (select max(o.pos) as pos from outlast.journal as o
              where o.shard = {p1} and o.run = {b:run} and (o.kind < 50 or o.kind / 10 = 9)
              group by o.kind / 10, o.name having max(o.kind % 10) < 2) as g
            join outlast.journal as j on j.shard = {p1} and j.run = {b:run} and j.pos = g.pos",
)
.rows(&[("run", Type::Id)])
.takes(&[Type::Int]);

// The same among the last entries alone. An operation that was opened before them is not found, and none that ended is.
static WAITS_LATELY: Sql = Sql::new(
    "waits_lately",
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from {batch} cross join lateral (
               select max(o.pos) as pos
                 from (select e.pos, e.kind, e.name from outlast.journal as e
                        where e.shard = {p1} and e.run = b.run order by e.pos desc limit {p2}) as o
                where o.kind < 50 or o.kind / 10 = 9
                group by o.kind / 10, o.name having max(o.kind % 10) < 2) as g
            join outlast.journal as j on j.shard = {p1} and j.run = b.run and j.pos = g.pos",
)
.on_sqlite(
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from (select max(o.pos) as pos
               from (select e.pos, e.kind, e.name from outlast.journal as e
                      where e.shard = {p1} and e.run = {b:run} order by e.pos desc limit {p2}) as o
              where o.kind < 50 or o.kind / 10 = 9
              group by o.kind / 10, o.name having max(o.kind % 10) < 2) as g
            join outlast.journal as j on j.shard = {p1} and j.run = {b:run} and j.pos = g.pos",
)
.rows(&[("run", Type::Id)])
.takes(&[Type::Int, Type::Int]);

// Events, and values of promises.
static WAITS_UNREAD: Sql = Sql::new(
    "waits_unread",
    "select distinct i.run, case when i.kind = 1 then 1 else 2 end, i.name
       from unnest({p2}) as k(run) cross join lateral (
            select i.run, i.kind, i.name from outlast.inbox as i
             where i.shard = {p1} and i.run = k.run and i.kind <= 3 offset 0) as i",
)
.on_sqlite(
    "select distinct i.run, case when i.kind = 1 then 1 else 2 end, i.name from outlast.inbox as i
      where i.shard = {p1} and i.run {in:p2} and i.kind <= 3",
)
.takes(&[Type::Int, Type::Ids]);

// Detached ones tell nobody.
static WAITS_CHILDREN: Sql = Sql::new(
    "waits_children",
    "select c.* from {batch} cross join lateral (
         select r.parent, r.id, r.parent_op, r.created_at
           from outlast.runs as r join outlast.agenda as a on a.shard = r.shard and a.id = r.id
          where r.shard = {p1} and r.parent = b.run and r.parent_op is not null limit {p2}) as c",
)
.on_sqlite(
    "select r.parent, r.id, r.parent_op, r.created_at
       from outlast.runs as r indexed by outlast.runs_by_parent
            cross join outlast.agenda as a on a.shard = r.shard and a.id = r.id
      where r.shard = {p1} and r.parent = {b:run} and r.parent_op is not null limit {p2}",
)
.rows(&[("run", Type::Id)])
.takes(&[Type::Int, Type::Int])
.by("runs_by_parent");

static WAITS_LISTENED: Sql = Sql::new(
    "waits_listened",
    "select l.listener, l.run, l.name, r.created_at
       from outlast.listeners as l join outlast.runs as r on r.shard = l.shard and r.id = l.run
      where l.shard = {p1} and l.listener {in:p2}",
)
.takes(&[Type::Int, Type::Ids]);
