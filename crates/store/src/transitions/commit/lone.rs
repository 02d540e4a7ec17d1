//! The shortest way of a commit: one run that records, or records and ends well, in a single statement.
//!
//! PostgreSQL only, where each statement costs a message and its answer. The statement locks the run's own row,
//! or passes over it, and compares node and epoch with what the lock found: so it needs no fence before it, and
//! being a transaction by itself no bounds. What it does not write goes the long way, which finds out why.

use outlast_core::{Entry, Status};

use super::entries::ENTRIES_SELDOM;
use crate::rows::{cells, payload_cells, took_cell};
use crate::transitions::flight::Flight;
use crate::{Batch, Cell, Ended, Next, RunCommit, Signal, Sql, StoreError, Tx, Type};

/// The run of a batch that may go this way. One that has consumed news has more to tidy up when it ends.
pub(super) fn lone(batch: &Batch) -> Option<&RunCommit> {
    let [run] = &batch.runs[..] else { return None };
    let plain = run.sends.is_empty() && run.starts.is_empty() && run.prunes.is_none();
    let only_entries =
        run.consumed.is_empty() && run.doing.is_empty() && run.logs.is_empty() && run.tags.is_empty();
    let moves = match &run.next {
        None => !run.entries.is_empty(),
        Some(Next::Finish(end)) => end.status == Status::Completed,
        Some(_) => false,
    };
    (plain && only_entries && moves).then_some(run)
}

/// Writes it; whether it is done.
pub(super) async fn commit(tx: &mut dyn Tx, batch: &Batch, run: &RunCommit) -> Result<bool, StoreError> {
    let entries: Vec<Vec<Cell>> = run.entries.iter().map(entry).collect();
    let held = cells![batch.shard, batch.node, run.run, run.epoch];
    let mut flight = Flight::default();
    let (wanted, place) = match &run.next {
        Some(Next::Finish(end)) => {
            let params = [held, ended(end)].concat();
            let place = match entries.is_empty() {
                true => flight.add(END_ALONE.with(params)),
                false => flight.add(RECORD_AND_END.each(entries, params)),
            };
            (1, place)
        }
        _ => (entries.len() as i64, flight.add(RECORD_ALONE.each(entries, held))),
    };
    let written = flight.send_last(tx).await?.take(place).first().map_or(Ok(0), |row| row.int(0))?;
    let done = written == wanted;
    if done && run.next.is_some() {
        tx.signal(Signal::ended(run.run));
    }
    Ok(done)
}

fn entry(entry: &Entry) -> Vec<Cell> {
    let (codec, body) = payload_cells(entry.body.as_ref());
    let kind = Entry::kind_code(entry.op, entry.phase);
    cells![entry.pos, kind, entry.name.clone(), codec, body, took_cell(entry)]
}

fn ended(end: &Ended) -> Vec<Cell> {
    let (codec, output) = payload_cells(end.output.as_ref());
    cells![end.status, codec, output, end.error.clone()]
}

pub(super) static STATEMENTS: &[&Sql] = &[&RECORD_ALONE, &RECORD_AND_END, &END_ALONE];

/// The run's row, locked, if the node holds it.
macro_rules! fit {
    ($and:literal) => {
        concat!(
            "with fit as materialized (
                 select a.shard, a.id, a.began_at from outlast.agenda as a
                  where a.shard = {p1} and a.id = {p3} and case when a.node = {p2} then a.epoch end = {p4}",
            $and,
            " for update skip locked
             )"
        )
    };
}

macro_rules! record {
    () => {
        " insert into outlast.journal (shard, run, pos, kind, epoch, at, name, codec, body, took)
          select f.shard, f.id, b.pos, b.kind, {p4}, {now}, b.name, b.codec, b.body, b.took
            from fit as f cross join {batch}"
    };
}

// Whose news are none has no inbox, and whom nobody hears tells nobody.
macro_rules! end {
    ($ahead:expr) => {
        concat!(
            fit!(" and a.heard = 0 and a.news = 0"),
            $ahead,
            ", gone as (
                 delete from outlast.agenda as a using fit as f where a.shard = f.shard and a.id = f.id
             ), idle as (
                 delete from outlast.doing as d using fit as f where d.shard = f.shard and d.run = f.id
             )
             insert into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
             select f.shard, f.id, {p5}, {p4}, f.began_at, {now}, {p6}, {p7}, {p8} from fit as f"
        )
    };
}

const ENTRY: &[(&str, Type)] = &[
    ("pos", Type::Int),
    ("kind", Type::Int),
    ("name", Type::Text),
    ("codec", Type::Text),
    ("body", Type::Bytes),
    ("took", Type::Int),
];
const HELD: &[Type] = &[Type::Int, Type::Id, Type::Id, Type::Int];
const HELD_AND_ENDED: &[Type] =
    &[Type::Int, Type::Id, Type::Id, Type::Int, Type::Int, Type::Text, Type::Bytes, Type::Text];

static RECORD_ALONE: Sql = Sql::new("record_alone", concat!(fit!(""), record!()))
    .on_sqlite("")
    .counted()
    .rows(ENTRY)
    .seldom(ENTRIES_SELDOM)
    .takes(HELD)
    .by("agenda_pkey");

static RECORD_AND_END: Sql = Sql::new("record_and_end", end!(concat!(", added as (", record!(), ")")))
    .on_sqlite("")
    .counted()
    .rows(ENTRY)
    .seldom(ENTRIES_SELDOM)
    .takes(HELD_AND_ENDED)
    .by("agenda_pkey");

static END_ALONE: Sql =
    Sql::new("end_alone", end!("")).on_sqlite("").counted().takes(HELD_AND_ENDED).by("agenda_pkey");
