//! Runs that are the only ones of their kind: unique, debounced, throttled.
//!
//! A kind (tenant, definition, key) has a row that names its run. Whoever starts one locks the row, looks whether the
//! run still stands for its kind, and either takes the row over or does with it what was asked. The runs of a kind lie
//! in its shard.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{RunId, Status};

use super::agenda::{self, AgendaRow, by_shard};
use super::flight::{Flight, Place};
use super::keys::KeyName;
use super::purge::PURGE_TAGS;
use super::start::{TAG, roles_cell, start_all, tag_rows};
use crate::rows::{ReadRow, cells, ids, micros, payload_cells};
use crate::sql::look_each;
use crate::{
    Cell, Clash, Due, Hold, NewRun, Row, Scope, Signal, Sql, Started, StoreError, Tx, Type, Unique, code,
};

/// Starts runs of which some are unique; answers in their order.
pub(crate) async fn start(
    tx: &mut dyn Tx,
    runs: &[NewRun],
    hold: Option<Hold>,
) -> Result<Vec<Started>, StoreError> {
    let verdicts = settle(tx, runs).await?;
    let verdict = |run: &NewRun| verdicts.get(&run.id).cloned();
    let new: Vec<NewRun> = runs.iter().filter(|run| verdict(run).is_none()).cloned().collect();
    let mut created = start_all(tx, &[(&new, hold)]).await?.pop().unwrap_or_default().into_iter();
    let lost = || StoreError::Refused("a start has no answer".into());
    runs.iter().map(|run| verdict(run).or_else(|| created.next()).ok_or_else(lost)).collect()
}

/// Answers those starts that make no run of their own; for all others their kind's row is theirs.
async fn settle(tx: &mut dyn Tx, runs: &[NewRun]) -> Result<HashMap<RunId, Started>, StoreError> {
    let mut first: BTreeMap<KeyName, (&NewRun, &Unique)> = BTreeMap::new();
    let mut verdicts = HashMap::new();
    for run in runs {
        let Some(unique) = &run.unique else { continue };
        match first.entry(name(run, unique)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((run, unique));
            }
            // Of several in one call the first counts.
            std::collections::btree_map::Entry::Occupied(entry) => {
                verdicts.insert(run.id, (entry.get().0.id, unique.clash));
            }
        }
    }
    let (holders, started) = lock(tx, &first).await?;
    let others = holders.iter().filter(|(name, row)| first[*name].0.id != row.run);
    let others = by_shard(others.map(|(_, row)| row.run));
    let mut unfinished = HashMap::new();
    if !others.is_empty() {
        let mut flight = Flight::default();
        let locks = agenda::add_locks(&mut flight, &others, true);
        unfinished = agenda::found(&mut flight.send(tx).await?, &locks)?;
    }

    let mut flight = Flight::default();
    let mut settled: HashMap<RunId, Started> = HashMap::new();
    for (key, (run, unique)) in &first {
        let holder = holders.get(key).ok_or_else(freed)?;
        // By this call or, however long ago, an earlier try of it.
        if holder.run == run.id || started.contains(&run.id) {
            continue;
        }
        let row = unfinished.get(&holder.run);
        if !stands(holder, row, unique.scope) {
            flight.each(&UNIQUES_TAKE, vec![kind_row(key, run.id, unique.scope)], cells![key.shard]);
            continue;
        }
        if unique.clash == Clash::Replace && row.is_some_and(has_not_begun) {
            add_replace(&mut flight, run, holder.run);
            tx.signal(Signal::Due);
        }
        settled.insert(run.id, answer(holder.run, unique.clash));
    }
    flight.send(tx).await?;
    for (run, (of, clash)) in verdicts {
        let first = settled.get(&of).map_or(of, |started| match started {
            Started::Existing { id } | Started::Taken { id } => *id,
            _ => of,
        });
        settled.insert(run, answer(first, clash));
    }
    Ok(settled)
}

fn name(run: &NewRun, unique: &Unique) -> KeyName {
    KeyName::in_shard(run.id.shard(), &run.tenant, &run.definition, &unique.key)
}

/// Whom a kind's row names.
struct Holder {
    run: RunId,
    /// Whether its time is not over.
    in_time: bool,
    /// For how long it said it would stand for its kind; an older version did not write it down.
    scope: Option<i64>,
}

impl Holder {
    /// From a row of [`UNIQUES_LOCK`].
    fn read(row: &Row) -> Result<Holder, StoreError> {
        Ok(Holder { run: row.run(3)?, in_time: row.int(4)? == 1, scope: row.opt_int(5)? })
    }
}

/// Makes a run that is tried again stand for its kind, or says who does instead.
pub(super) async fn stand_again(
    tx: &mut dyn Tx,
    kind: &KeyName,
    run: RunId,
) -> Result<Option<RunId>, StoreError> {
    let taken = vec![kind_row(kind, run, Scope::Unfinished)];
    let mut flight = Flight::default();
    flight.each(&UNIQUES_RESERVE, taken.clone(), cells![kind.shard]);
    let place = flight.each(&UNIQUES_LOCK, vec![kind.cells()], cells![kind.shard]);
    let row = flight.send(tx).await?.take_any(place).pop();
    let holder = Holder::read(&row.ok_or_else(freed)?)?;
    if holder.run == run {
        return Ok(None);
    }
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &by_shard([holder.run]), true);
    let unfinished = agenda::found(&mut flight.send(tx).await?, &locks)?;
    if stands(&holder, unfinished.get(&holder.run), Scope::Unfinished) {
        return Ok(Some(holder.run));
    }
    let mut flight = Flight::default();
    flight.each(&UNIQUES_TAKE, taken, cells![kind.shard]);
    flight.send(tx).await?;
    Ok(None)
}

/// A kind whose run was purged between our insert and our lock is gone: the transaction begins again and makes it anew.
fn freed() -> StoreError {
    StoreError::Conflict("a kind was freed at this moment".into())
}

/// Makes rows for kinds that have none, and locks all of them; says which of the runs are there already.
async fn lock(
    tx: &mut dyn Tx,
    first: &BTreeMap<KeyName, (&NewRun, &Unique)>,
) -> Result<(HashMap<KeyName, Holder>, HashSet<RunId>), StoreError> {
    let mut shards: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for (name, (run, unique)) in first {
        shards.entry(name.shard).or_default().push(kind_row(name, run.id, unique.scope));
    }
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, rows) in shards {
        let named = rows.iter().map(|row| row[..3].to_vec()).collect();
        flight.each(&UNIQUES_RESERVE, rows, cells![shard]);
        places.extend(flight.each(&UNIQUES_LOCK, named, cells![shard]).map(|place| (shard, place)));
    }
    let runs = by_shard(first.values().map(|(run, _)| run.id));
    let looks: Vec<Place> =
        runs.iter().map(|(shard, runs)| flight.add(RUNS_LOOK.with(cells![*shard, ids(runs)]))).collect();
    let mut answers = flight.send(tx).await?;
    let started = looks.into_iter().flat_map(|place| answers.take(place)).map(|row| row.run(0));
    let started = started.collect::<Result<_, _>>()?;
    let mut holders = HashMap::new();
    for (shard, place) in places {
        for row in answers.take(place) {
            let name = KeyName::in_shard(shard, &row.text(0)?, &row.text(1)?, &row.text(2)?);
            holders.insert(name, Holder::read(&row)?);
        }
    }
    Ok((holders, started))
}

/// Whether a kind's run still stands for it, as it said itself: whoever comes next does not decide that.
fn stands(holder: &Holder, row: Option<&AgendaRow>, asked: Scope) -> bool {
    match holder.scope.unwrap_or_else(|| scope_number(asked)) {
        UNFINISHED => row.is_some(),
        NOT_BEGUN => row.is_some_and(has_not_begun),
        _ => holder.in_time,
    }
}

const UNFINISHED: i64 = 0;
const NOT_BEGUN: i64 = 1;
const FOR: i64 = 2;

fn scope_number(scope: Scope) -> i64 {
    match scope {
        Scope::Unfinished => UNFINISHED,
        Scope::NotBegun { .. } => NOT_BEGUN,
        Scope::For(_) => FOR,
    }
}

fn has_not_begun(row: &AgendaRow) -> bool {
    matches!(row.status, Status::Ready | Status::Paused) && row.epoch == 0
}

/// Until when the row means something, from now: how long the kind is taken, or how long a run may be put off.
fn until(scope: Scope) -> Option<i64> {
    match scope {
        Scope::Unfinished => None,
        Scope::NotBegun { at_most } => at_most.map(micros),
        Scope::For(span) => Some(micros(span)),
    }
}

/// What the kind's row says of a run that stands for it.
fn kind_row(kind: &KeyName, run: RunId, scope: Scope) -> Vec<Cell> {
    kind.row(cells![run, until(scope), scope_number(scope)])
}

fn answer(id: RunId, clash: Clash) -> Started {
    if clash == Clash::Refuse { Started::Taken { id } } else { Started::Existing { id } }
}

/// Adds what gives a run that has not begun the input and the time of another, and whatever says for whom it acts: with
/// the roles of its first starter, the input of anybody would do what only they may.
fn add_replace(flight: &mut Flight, run: &NewRun, replaced: RunId) {
    let (codec, input) = payload_cells(Some(&run.input));
    let (at, delay) = match run.due {
        Due::Now => (Cell::Null, Cell::Int(0)),
        Due::After(span) => (Cell::Null, Cell::Int(micros(span))),
        Due::At(time) => (Cell::from(time), Cell::Null),
    };
    let shard = replaced.shard();
    let (owner, trace) = (run.owner.clone(), run.trace.clone());
    flight.add(REPLACE_ASKED.with(cells![
        shard,
        replaced,
        codec,
        input,
        owner,
        roles_cell(run),
        trace,
        run.version,
        run.kind,
        run.priority,
    ]));
    flight.add(PURGE_TAGS.with(cells![shard, ids(&[replaced])]));
    flight.each(&REPLACE_TAGS, tag_rows(run), cells![shard, replaced]);
    flight.add(REPLACE_PLACE.with(cells![
        shard,
        replaced,
        at,
        delay,
        run.priority,
        Status::Paused,
        run.timeout.map(micros),
        run.kind,
        code(&run.definition, run.version),
        FOR,
    ]));
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &UNIQUES_RESERVE,
    &UNIQUES_LOCK,
    &RUNS_LOOK,
    &UNIQUES_TAKE,
    &REPLACE_ASKED,
    &REPLACE_TAGS,
    &REPLACE_PLACE,
];

const ROW: &[(&str, Type)] = &[
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("key", Type::Text),
    ("run", Type::Id),
    ("until", Type::Int),
    ("scope", Type::Int),
];

static UNIQUES_RESERVE: Sql = Sql::new(
    "uniques_reserve",
    "insert into outlast.uniques (shard, tenant, definition, key, run, until, scope)
     select {p1}, b.tenant, b.definition, b.key, b.run, {now} + b.until, b.scope from {batch} where true
     on conflict do nothing",
)
.rows(ROW)
.takes(&[Type::Int]);

static UNIQUES_LOCK: Sql = Sql::new(
    "uniques_lock",
    "select u.tenant, u.definition, u.key, u.run, case when u.until > {now} then 1 else 0 end, u.scope
       from outlast.uniques as u
      where u.shard = {p1}
        and (u.tenant, u.definition, u.key) in (select b.tenant, b.definition, b.key from {batch})
      order by u.tenant, u.definition, u.key {for_update}",
)
.rows(&[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text)])
.takes(&[Type::Int]);

static RUNS_LOOK: Sql =
    look_each!("runs_look", "select r.id from outlast.runs as r where r.shard = {p1} and r.id")
        .takes(&[Type::Int, Type::Ids]);

static UNIQUES_TAKE: Sql = Sql::new(
    "uniques_take",
    "update outlast.uniques as u set run = b.run, until = {now} + b.until, scope = b.scope from {batch}
      where u.shard = {p1} and u.tenant = b.tenant and u.definition = b.definition and u.key = b.key",
)
.rows(ROW)
.takes(&[Type::Int]);

static REPLACE_ASKED: Sql = Sql::new(
    "replace_asked",
    "update outlast.runs set codec = {p3}, input = {p4}, owner = {p5}, roles = {p6}, trace = {p7}, version = {p8},
            kind = {p9}, priority = {p10}
      where shard = {p1} and id = {p2}",
)
.takes(&[
    Type::Int,
    Type::Id,
    Type::Text,
    Type::Bytes,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Int,
    Type::Int,
    Type::Int,
]);

static REPLACE_TAGS: Sql = Sql::new(
    "replace_tags",
    "insert into outlast.tags (shard, name, value, run) select {p1}, b.name, b.value, {p2} from {batch} where true
     on conflict do nothing",
)
.rows(TAG)
.takes(&[Type::Int, Type::Id]);

/// When a run that is replaced begins: put off, but not for longer than was said when it was started. For how long it is
/// the only one of its kind says nothing about that.
macro_rules! put_off {
    () => {
        "when u.until < coalesce({p3}, {now} + {p4}) and coalesce(u.scope, 0) <> {p10} then u.until
         else coalesce({p3}, {now} + {p4}) end"
    };
}

static REPLACE_PLACE: Sql = Sql::new(
    "replace_place",
    concat!(
        "update outlast.agenda as a set priority = {p5}, kind = {p8}, code = {p9}, expires_at = {now} + {p7},
                due_at = case when a.status = {p6} then null ",
        put_off!(),
        ", resume_at = case when a.status <> {p6} then null ",
        put_off!(),
        " from outlast.uniques as u where a.shard = {p1} and a.id = {p2} and u.shard = {p1} and u.run = a.id"
    ),
)
.takes(&[
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Text,
    Type::Int,
]);

/// The kinds that purged runs stood for.
pub(crate) static UNIQUES_PURGE: Sql =
    Sql::new("purge_uniques", "delete from outlast.uniques where shard = {p1} and run {in:p2}")
        .takes(&[Type::Int, Type::Ids]);
