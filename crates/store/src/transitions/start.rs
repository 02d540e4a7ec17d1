//! Starts runs: their record, their place in line, and their key.
//!
//! Everything is one flight, keyed or not: a keyed run takes its id from the key's row, which may have
//! been reserved by a message that came first. A repeat finds the record, and neither adds a second
//! place in line nor revives a run that has ended: the record is inserted first, which waits for an
//! earlier try that is still under way, and the next statement then sees the place or the result.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{NodeId, Payload, RunId, Status};

use super::agenda::fence;
use super::flight::{Flight, Place};
use super::keys::{self, KeyName, KeyRow};
use super::orphans;
use super::start_short::start_rows;
use super::unique;
use crate::rows::{ReadRow, cells, micros, payload_cells};
use crate::{Cell, Dialect, Due, Hold, NewRun, Scope, Signal, Sql, Started, StoreError, Tx, Type, code};

/// Starts runs, and lets `hold`'s node have those at once that are due now.
///
/// Unkeyed runs all start or none; a keyed one may find that its key belongs to a run already, and
/// several with one key find the first of them.
pub(crate) async fn start(
    tx: &mut dyn Tx,
    runs: &[NewRun],
    hold: Option<Hold>,
) -> Result<Vec<Started>, StoreError> {
    if runs.iter().any(|run| run.unique.is_some()) {
        return unique::start(tx, runs, hold).await;
    }
    if tx.dialect() == Dialect::Sqlite
        && let Some(started) = start_rows(tx, runs, hold).await?
    {
        return Ok(started);
    }
    Ok(start_all(tx, &[(runs, hold)]).await?.pop().unwrap_or_default())
}

/// Several starts in one transaction: each is answered as if it had come alone, in this order.
pub(crate) async fn start_all(
    tx: &mut dyn Tx,
    calls: &[(&[NewRun], Option<Hold>)],
) -> Result<Vec<Vec<Started>>, StoreError> {
    let runs = || calls.iter().flat_map(|(runs, hold)| runs.iter().map(|run| (run, *hold)));
    let first = first_of_each_key(runs().map(|(run, _)| run));
    let all: Vec<&NewRun> = runs().map(|(run, _)| run).collect();
    let late = orphans::late_for(tx, &all).await?;
    let mut flight = Flight::default();
    let reserve = first.iter().map(|(name, run)| (name.clone(), run.id)).collect();
    let locks = keys::add_reserve(&mut flight, &reserve, true, true);
    let inputs = add_inputs(&mut flight, &first);
    let is_first = |run: &NewRun| {
        name_of(run).is_none_or(|name| first.get(&name).is_some_and(|first| first.id == run.id))
    };
    let new: Vec<(&NewRun, Option<Hold>)> = runs().filter(|(run, _)| is_first(run)).collect();
    let held = add_runs(&mut flight, &new);
    orphans::add_late(&mut flight, tx, &all, &late);

    let mut answers = flight.send_last(tx).await?;
    let keys = keys::found(&mut answers, &locks)?;
    let mut stored = HashMap::new();
    for place in inputs {
        for row in answers.take(place) {
            stored.insert(row.run(0)?, row.payload(1)?.unwrap_or_default());
        }
    }
    let mut ours = HashSet::new();
    for place in held {
        for row in answers.take(place) {
            ours.insert(row.run(0)?);
        }
    }

    let answer = |run: &NewRun| -> Result<Started, StoreError> {
        let Some(name) = name_of(run) else {
            return Ok(Started::Created { id: run.id, held: ours.contains(&run.id) });
        };
        let row = keys::held(&keys, &name)?;
        let first = first.get(&name).copied().filter(|first| created(first, row));
        Ok(match first {
            Some(first) if first.id == run.id => {
                Started::Created { id: row.run, held: ours.contains(&row.run) }
            }
            Some(first) => compared(row.run, &first.input, run),
            None => compared(row.run, stored.get(&row.run).unwrap_or(&run.input), run),
        })
    };
    let started: Vec<Vec<Started>> =
        calls.iter().map(|(runs, _)| runs.iter().map(answer).collect()).collect::<Result<_, _>>()?;
    if started.iter().flatten().any(|started| matches!(started, Started::Created { held: false, .. })) {
        tx.signal(Signal::Due);
    }
    Ok(started)
}

/// Whether the run that the key's row names is this one: now, by an earlier try, or by adoption.
fn created(run: &NewRun, row: KeyRow) -> bool {
    row.run == run.id || !row.started
}

fn compared(id: RunId, stored: &Payload, run: &NewRun) -> Started {
    if stored.means_the_same(&run.input) { Started::Existing { id } } else { Started::Conflict { id } }
}

/// The key of a run. Its shard is the id's: the caller made it so.
pub(crate) fn name_of(run: &NewRun) -> Option<KeyName> {
    let key = run.key.as_deref()?;
    Some(KeyName::in_shard(run.id.shard(), &run.tenant, &run.definition, key))
}

/// Of several runs with one key the first counts; the others are compared with it.
pub(crate) fn first_of_each_key<'a>(
    runs: impl IntoIterator<Item = &'a NewRun>,
) -> BTreeMap<KeyName, &'a NewRun> {
    let mut first = BTreeMap::new();
    for run in runs {
        if let Some(name) = name_of(run) {
            first.entry(name).or_insert(run);
        }
    }
    first
}

/// Adds looks at what the runs were started with that have these keys already.
fn add_inputs(flight: &mut Flight, first: &BTreeMap<KeyName, &NewRun>) -> Vec<Place> {
    let mut shards: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for name in first.keys() {
        shards.entry(name.shard).or_default().push(name.cells());
    }
    shards.into_iter().filter_map(|(shard, rows)| flight.each(&KEYS_INPUTS, rows, cells![shard])).collect()
}

/// Adds everything that makes `runs` exist; no two have the same key, and the keys' rows are locked.
/// The rows at the places given back are the runs that nodes hold by this.
pub(crate) fn add_runs(flight: &mut Flight, runs: &[(&NewRun, Option<Hold>)]) -> Vec<Place> {
    let mut shards: BTreeMap<u16, Vec<(&NewRun, Option<Hold>)>> = BTreeMap::new();
    for run in runs {
        shards.entry(run.0.id.shard()).or_default().push(*run);
    }
    let mut held = Vec::new();
    for (shard, runs) in shards {
        let mut claims: BTreeMap<NodeId, Vec<i64>> = BTreeMap::new();
        for hold in runs.iter().filter_map(|(_, hold)| *hold) {
            claims.entry(hold.node).or_default().push(hold.claim);
        }
        for node in claims.keys() {
            flight.add(fence(shard, *node));
        }
        let (keyed, plain): (Vec<_>, Vec<_>) = runs.into_iter().partition(|(run, _)| run.key.is_some());
        add_plain(flight, shard, &plain);
        add_keyed(flight, shard, &keyed);
        for (node, claims) in claims {
            held.push(flight.add(HELD.with(cells![shard, node, Cell::Ints(claims)])));
        }
    }
    held
}

fn add_plain(flight: &mut Flight, shard: u16, runs: &[(&NewRun, Option<Hold>)]) {
    flight.each(&RUNS_START, runs.iter().map(|(run, _)| record_row(run)).collect(), cells![shard]);
    flight.each(&TAGS_START, runs.iter().flat_map(|(run, _)| tag_rows(run)).collect(), cells![shard]);
    let agenda = runs.iter().map(|(run, hold)| agenda_row(run, *hold)).collect();
    flight.each(&AGENDA_START, agenda, places(shard));
}

fn add_keyed(flight: &mut Flight, shard: u16, runs: &[(&NewRun, Option<Hold>)]) {
    let named = |run: &NewRun, row: Vec<Cell>| -> Vec<Cell> {
        row.into_iter().chain(cells![&*run.tenant, &*run.definition, run.key.clone()]).collect()
    };
    // The record has tenant, definition and key already.
    flight.each(&RUNS_ADOPT, runs.iter().map(|(run, _)| record_row(run)).collect(), cells![shard]);
    let tags = runs.iter().flat_map(|(run, _)| tag_rows(run).into_iter().map(move |row| named(run, row)));
    flight.each(&TAGS_ADOPT, tags.collect(), cells![shard]);
    let agenda = runs.iter().map(|(run, hold)| named(run, agenda_row(run, *hold))).collect();
    flight.each(&AGENDA_ADOPT, agenda, places(shard));
    let names = runs.iter().map(|(run, _)| named(run, Vec::new())).collect();
    flight.each(&KEYS_ADOPT, names, cells![shard]);
}

pub(super) fn places(shard: u16) -> Vec<Cell> {
    cells![shard, Status::Ready, Status::Running]
}

pub(super) fn record_row(run: &NewRun) -> Vec<Cell> {
    let (codec, input) = payload_cells(Some(&run.input));
    let parent = run.parent.as_ref().map(|parent| parent.run.uuid());
    let op = run.parent.as_ref().and_then(|parent| parent.op.clone());
    let [at, delay, ..] = place(run, None);
    cells![
        run.id,
        &*run.tenant,
        &*run.definition,
        run.version,
        run.kind,
        run.key.clone(),
        &*run.queue,
        run.priority,
        run.owner.clone(),
        roles_cell(run),
        run.trace.clone(),
        parent,
        op,
        codec,
        input,
        run.group.clone(),
        unique_cell(run),
        run.stops_with_parent.then_some(1_i64),
        at,
        delay,
    ]
}

/// Only whoever is the only one that has not ended must be it again when it is tried again: a time or a place in line
/// that another counts from is over then.
fn unique_cell(run: &NewRun) -> Option<String> {
    run.unique.as_ref().filter(|unique| unique.scope == Scope::Unfinished).map(|unique| unique.key.clone())
}

pub(super) fn roles_cell(run: &NewRun) -> Option<String> {
    (!run.roles.is_empty()).then(|| serde_json::json!(run.roles).to_string())
}

pub(super) fn tag_rows(run: &NewRun) -> Vec<Vec<Cell>> {
    run.tags.iter().map(|(name, value)| cells![run.id, &**name, &**value]).collect()
}

pub(super) fn agenda_row(run: &NewRun, hold: Option<Hold>) -> Vec<Cell> {
    let [at, delay, node, claim, timeout] = place(run, hold);
    let code = code(&run.definition, run.version);
    cells![
        run.id,
        run.kind,
        run.priority,
        at,
        delay,
        node,
        claim,
        timeout,
        &*run.queue,
        run.group.clone(),
        code
    ]
}

/// When a run is due and whose it is: at, delay, node, claim and timeout.
pub(super) fn place(run: &NewRun, hold: Option<Hold>) -> [Cell; 5] {
    let (at, delay) = match run.due {
        Due::Now => (Cell::Null, Cell::Int(0)),
        Due::After(span) => (Cell::Null, Cell::Int(micros(span))),
        Due::At(time) => (Cell::from(time), Cell::Null),
    };
    let hold = hold.filter(|_| run.due == Due::Now);
    let (node, claim) = (hold.map(|hold| hold.node.uuid()), hold.map(|hold| hold.claim));
    [at, delay, Cell::from(node), Cell::from(claim), Cell::from(run.timeout.map(micros))]
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &RUNS_START,
    &RUNS_ADOPT,
    &TAGS_START,
    &TAGS_ADOPT,
    &AGENDA_START,
    &AGENDA_ADOPT,
    &KEYS_ADOPT,
    &KEYS_INPUTS,
    &HELD,
];

pub(super) const RECORD: &[(&str, Type)] = &[
    ("id", Type::Id),
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("version", Type::Int),
    ("kind", Type::Int),
    ("key", Type::Text),
    ("queue", Type::Text),
    ("priority", Type::Int),
    ("owner", Type::Text),
    ("roles", Type::Text),
    ("trace", Type::Text),
    ("parent", Type::Id),
    ("parent_op", Type::Text),
    ("codec", Type::Text),
    ("input", Type::Bytes),
    ("group_key", Type::Text),
    ("unique_key", Type::Text),
    ("stops_with_parent", Type::Int),
    ("due_at", Type::Int),
    ("delay", Type::Int),
];

/// What a keyed run is joined with: its key's row, if that names this run or nobody's yet.
macro_rules! keyed {
    () => {
        " join outlast.keys as k on k.shard = {p1} and k.tenant = b.tenant and k.definition = b.definition
              and k.key = b.key and (k.run = b.id or k.started = 0) "
    };
}

/// Neither in line nor ended: this start has not happened yet. Values and not joins (or `not exists`, which
/// becomes one), so that no planner goes through all results.
macro_rules! absent {
    ($id:literal) => {
        concat!(
            " (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = ",
            $id,
            ") is null and (select 1 from outlast.results as r where r.shard = {p1} and r.run = ",
            $id,
            ") is null on conflict do nothing"
        )
    };
}

/// The same on SQLite, where the key of a row says whether it is in line: whoever asks the table into which it inserts has
/// SQLite make another one first.
macro_rules! not_ended {
    ($id:literal) => {
        concat!(
            " (select 1 from outlast.results as r where r.shard = {p1} and r.run = ",
            $id,
            ") is null on conflict do nothing"
        )
    };
}

/// From when on a run is wanted, where that is not at once.
macro_rules! wanted_at {
    ($at:literal, $delay:literal) => {
        concat!("coalesce(", $at, ", case when ", $delay, " > 0 then {now} + ", $delay, " end)")
    };
}
pub(super) use wanted_at;

macro_rules! insert_run {
    ($id:literal, $from:expr) => {
        concat!(
            "insert into outlast.runs (shard, id, tenant, definition, version, kind, key, queue, priority,
                 created_at, owner, roles, trace, parent, parent_op, codec, input, group_key, unique_key,
                 stops_with_parent, wanted_at)
             select {p1}, ",
            $id,
            ", b.tenant, b.definition, b.version, b.kind, b.key, b.queue, b.priority, {now}, b.owner,
                 b.roles, b.trace, b.parent, b.parent_op, b.codec, b.input, b.group_key, b.unique_key,
                 b.stops_with_parent, ",
            wanted_at!("b.due_at", "b.delay"),
            " from {batch}",
            $from,
            " where true on conflict do nothing"
        )
    };
}

macro_rules! insert_tags {
    ($id:literal, $from:expr) => {
        concat!(
            "insert into outlast.tags (shard, name, value, run) select {p1}, b.name, b.value, ",
            $id,
            " from {batch}",
            $from,
            " where ",
            absent!($id)
        )
    };
}

/// A run whose node has its row is held at once, one whose node has none is simply ready.
macro_rules! insert_agenda {
    ($id:literal, $news:literal, $from:expr, $quiet:literal, $absent:expr) => {
        concat!(
            "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node,
                 claim, epoch, news, expires_at, queue, group_key, code, began_at)
             select {p1}, ",
            $id,
            ", case when n.id is null then {p2} else {p3} end, b.kind, b.priority, 1, 0,
                 case when n.id is null then coalesce(b.due_at, {now} + b.delay) end, n.id,
                 case when n.id is not null then b.claim end, case when n.id is null then 0 else 1 end, ",
            $news,
            ", {now} + b.timeout, b.queue, b.group_key, b.code, case when n.id is not null then {now} end from {batch}",
            $from,
            " left join outlast.nodes as n on n.shard = {p1} and n.id = b.node",
            $quiet,
            " where ",
            $absent
        )
    };
}

static RUNS_START: Sql = Sql::new("runs_start", insert_run!("b.id", "")).rows(RECORD).takes(&[Type::Int]);

static RUNS_ADOPT: Sql =
    Sql::new("runs_adopt", insert_run!("k.run", keyed!())).rows(RECORD).takes(&[Type::Int]);

pub(super) const TAG: &[(&str, Type)] = &[("id", Type::Id), ("name", Type::Text), ("value", Type::Text)];

static TAGS_START: Sql = Sql::new("tags_start", insert_tags!("b.id", "")).rows(TAG).takes(&[Type::Int]);

static TAGS_ADOPT: Sql = Sql::new("tags_adopt", insert_tags!("k.run", keyed!()))
    .rows(&[
        ("id", Type::Id),
        ("name", Type::Text),
        ("value", Type::Text),
        ("tenant", Type::Text),
        ("definition", Type::Text),
        ("key", Type::Text),
    ])
    .takes(&[Type::Int]);

static AGENDA_START: Sql = Sql::new("agenda_start", insert_agenda!("b.id", "0", "", "", absent!("b.id")))
    .on_sqlite(insert_agenda!("b.id", "0", "", "", not_ended!("b.id")))
    .rows(PLACE)
    .takes(&[Type::Int, Type::Int, Type::Int]);

/// A place in line, and behind it the key by which it is found.
const KEYED_PLACE: &[(&str, Type)] = &[
    ("id", Type::Id),
    ("kind", Type::Int),
    ("priority", Type::Int),
    ("due_at", Type::Int),
    ("delay", Type::Int),
    ("node", Type::Id),
    ("claim", Type::Int),
    ("timeout", Type::Int),
    ("queue", Type::Text),
    ("group_key", Type::Text),
    ("code", Type::Text),
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("key", Type::Text),
];
pub(super) const PLACE: &[(&str, Type)] = KEYED_PLACE.split_at(KEYED_PLACE.len() - 3).0;

// Messages that came first make the run one to claim: a claim hands them over, a start does not.
static AGENDA_ADOPT: Sql = Sql::new(
    "agenda_adopt",
    insert_agenda!("k.run", "k.news", keyed!(), " and k.news = 0", absent!("k.run")),
)
.on_sqlite(insert_agenda!("k.run", "k.news", keyed!(), " and k.news = 0", not_ended!("k.run")))
.rows(KEYED_PLACE)
.takes(&[Type::Int, Type::Int, Type::Int]);

static KEYS_ADOPT: Sql = Sql::new(
    "keys_adopt",
    "update outlast.keys as k set started = 1 from {batch}
      where k.shard = {p1} and k.tenant = b.tenant and k.definition = b.definition and k.key = b.key
        and k.started = 0",
)
.on_sqlite(
    "update outlast.keys set started = 1
      where shard = {p1} and tenant = {b:tenant} and definition = {b:definition} and key = {b:key} and started = 0",
)
.rows(&[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text)])
.takes(&[Type::Int]);

static KEYS_INPUTS: Sql = Sql::new(
    "keys_inputs",
    // Key by key, and then run by run, whatever a planner knows of them.
    "select r.id, r.codec, r.input
       from {batch} cross join lateral (
                select k.run from outlast.keys as k
                 where k.shard = {p1} and k.tenant = b.tenant and k.definition = b.definition and k.key = b.key offset 0) as k
            cross join lateral (
                select r.id, r.codec, r.input from outlast.runs as r where r.shard = {p1} and r.id = k.run offset 0) as r",
)
.on_sqlite(
    "select r.id, r.codec, r.input from outlast.keys as k cross join outlast.runs as r
      where k.shard = {p1} and k.tenant = {b:tenant} and k.definition = {b:definition} and k.key = {b:key}
        and r.shard = {p1} and r.id = k.run",
)
.rows(&[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text)])
.takes(&[Type::Int]);

// Claim by claim: a planner that takes them for a few of few looks at all that the node has held.
static HELD: Sql = Sql::new(
    "start_held",
    "select a.id from unnest({p3}) as k(claim) cross join lateral (
         select a.id from outlast.agenda as a
          where a.shard = {p1} and a.node = {p2} and a.claim = k.claim and a.epoch = 1 offset 0) as a",
)
.on_sqlite(
    "select a.id from outlast.agenda as a
      where a.shard = {p1} and a.node = {p2} and a.claim {in:p3} and a.epoch = 1",
)
.takes(&[Type::Int, Type::Id, Type::Ints])
.by("agenda_node");
