//! What a repair writes: entries that count no more, the entry that says so, what is heard again; and forks, which
//! begin with a journal that another run has recorded.

use std::collections::HashMap;

use outlast_core::{Entry, RunId, Timestamp};

use super::agenda::{self, AgendaRow, by_shard};
use super::flight::{Answers, Flight, Place};
use super::listen::{LISTENERS_ADD, LISTENERS_SAY, Listener, tell};
use super::post::{Post, Receiver};
use super::start;
use crate::rows::{self, ReadRow, cells, ids, payload_cells, took_cell};
use crate::{Cell, Controlled, Ended, Fork, Hears, Repair, Signal, Sql, StoreError, Tx, Type};

/// What is known of those whose end is to be heard, behind their locks.
pub(super) struct Tellers {
    goes_on: HashMap<RunId, AgendaRow>,
    ends: HashMap<RunId, Ended>,
    /// To whom each tells its end anyway.
    tells: HashMap<RunId, Listener>,
}

/// Adds looks at those whose end is to be heard; their agenda rows are locked before.
pub(super) fn add_looks(flight: &mut Flight, hears: &Hears) -> Vec<Place> {
    let runs = by_shard(hears.ends.iter().map(|(run, _)| *run));
    runs.iter().map(|(shard, runs)| flight.add(REPAIR_ENDS.with(cells![*shard, ids(runs)]))).collect()
}

/// What the looks found.
pub(super) fn found(
    answers: &mut Answers,
    looks: &[Place],
    goes_on: HashMap<RunId, AgendaRow>,
) -> Result<Tellers, StoreError> {
    let mut tellers = Tellers { goes_on, ends: HashMap::new(), tells: HashMap::new() };
    for row in looks.iter().flat_map(|place| answers.take(*place)) {
        let run = row.run(0)?;
        if let Some((parent, name)) = row.opt_id(1)?.map(RunId::from_uuid).zip(row.opt_text(2)?) {
            tellers.tells.insert(run, Listener { run: parent, name });
        }
        if row.opt_int(3)?.is_some() {
            tellers.ends.insert(run, rows::ended(&row, 3)?);
        }
    }
    Ok(tellers)
}

impl Tellers {
    /// Adds what lets `run`, whose row `post` has, hear all of it.
    pub(super) fn add(&self, flight: &mut Flight, post: &mut Post, run: RunId, hears: &Hears) {
        for (kind, name, body) in &hears.news {
            post.put(&Receiver::Run(run), *kind, name, body.as_ref());
        }
        for (teller, name) in &hears.ends {
            let listener = Listener { run, name: name.clone() };
            let shard = teller.shard();
            let goes_on = self.goes_on.contains_key(teller);
            // Who tells it anyway must not tell it twice.
            if goes_on && self.tells.get(teller) != Some(&listener) {
                flight.add(LISTENERS_ADD.with(cells![shard, *teller, run, &**name]));
                flight.add(LISTENERS_SAY.with(cells![shard, *teller]));
            } else if !goes_on && let Some(end) = self.ends.get(teller) {
                tell(post, &[listener], end);
            }
        }
    }
}

/// Adds what changes of the journal.
pub(super) fn add_journal(flight: &mut Flight, run: RunId, epoch: i64, repair: &Repair) {
    let void = repair.void.iter().map(|pos| i64::from(*pos)).collect();
    flight.add(REPAIR_VOID.with(cells![run.shard(), run, Cell::Ints(void)]));
    flight.each(&REPAIR_ENTRIES, vec![entry_row(&repair.entry)], cells![run.shard(), run, epoch]);
}

fn entry_row(entry: &Entry) -> Vec<Cell> {
    let (codec, body) = payload_cells(entry.body.as_ref());
    let at = (entry.at != Timestamp::default()).then_some(entry.at);
    let kind = Entry::kind_code(entry.op, entry.phase);
    cells![entry.pos, kind, at, &*entry.name, codec, body, took_cell(entry)]
}

/// Starts a run with the journal of another.
pub(super) async fn fork(tx: &mut dyn Tx, fork: &Fork) -> Result<Controlled, StoreError> {
    let (run, shard) = (fork.run.id, fork.run.id.shard());
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &by_shard(fork.hears.ends.iter().map(|(run, _)| *run)), true);
    let looks = add_looks(&mut flight, &fork.hears);
    let there = flight.add(FORK_LOOK.with(cells![shard, run]));
    let mut answers = flight.send(tx).await?;
    if !answers.take(there).is_empty() {
        return Flight::default().send_last(tx).await.map(|_| Controlled::Forked { run });
    }
    let goes_on = agenda::found(&mut answers, &locks)?;
    let tellers = found(&mut answers, &looks, goes_on)?;

    let mut flight = Flight::default();
    start::add_runs(&mut flight, &[(&fork.run, None)]);
    let entries = fork.entries.iter().map(entry_row).collect();
    flight.each(&REPAIR_ENTRIES, entries, cells![shard, run, 0i64]);
    let mut post = Post::to(HashMap::from([(run, AgendaRow::started(run, 0))]));
    tellers.add(&mut flight, &mut post, run, &fork.hears);
    post.add(&mut flight, tx);
    flight.send_last(tx).await?;
    tx.signal(Signal::Due);
    Ok(Controlled::Forked { run })
}

pub(crate) static STATEMENTS: &[&Sql] = &[&REPAIR_ENDS, &REPAIR_VOID, &REPAIR_ENTRIES, &FORK_LOOK];

static FORK_LOOK: Sql =
    Sql::new("fork_look", "select 1 from outlast.runs as r where r.shard = {p1} and r.id = {p2}")
        .takes(&[Type::Int, Type::Id]);

static REPAIR_ENDS: Sql = Sql::new(
    "repair_ends",
    "select r.id, r.parent, r.parent_op, e.status, e.codec, e.output, e.error
       from outlast.runs as r left join outlast.results as e on e.shard = r.shard and e.run = r.id
      where r.shard = {p1} and r.id {in:p2}",
)
.takes(&[Type::Int, Type::Ids]);

// 1000 is what `outlast_core::VOID` says.
static REPAIR_VOID: Sql = Sql::new(
    "repair_void",
    "update outlast.journal set kind = kind + 1000
      where shard = {p1} and run = {p2} and pos {in:p3} and kind < 1000",
)
.takes(&[Type::Int, Type::Id, Type::Ints]);

static REPAIR_ENTRIES: Sql = Sql::new(
    "repair_entries",
    "insert into outlast.journal (shard, run, pos, kind, epoch, at, name, codec, body, took)
     select {p1}, {p2}, b.pos, b.kind, {p3}, coalesce(b.at, {now}), b.name, b.codec, b.body, b.took
       from {batch} where true
     on conflict do nothing",
)
.rows(&[
    ("pos", Type::Int),
    ("kind", Type::Int),
    ("at", Type::Int),
    ("name", Type::Text),
    ("codec", Type::Text),
    ("body", Type::Bytes),
    ("took", Type::Int),
])
.takes(&[Type::Int, Type::Id, Type::Int]);
