//! Ends runs that no turn has to be asked about: what a cancellation and a timeout share.

use std::collections::HashMap;

use outlast_core::{RunId, Timestamp};

use super::agenda::{AgendaRow, ByShard, by_shard};
use super::commit::{DOING_CLEAR, INBOX_LEAVE};
use super::flight::{Answers, Flight, Place};
use super::listen::{self, Listener};
use super::orphans;
use crate::rows::{ReadRow, cells, ids};
use crate::sql::look_each;
use crate::{Ended, RunKind, Signal, Sql, StoreError, Tx, Type};

/// What has to be known of a run to end it.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) created_at: Timestamp,
    /// Who hears of its end: its parent, and whoever listens.
    pub(crate) listeners: Vec<Listener>,
}

/// Adds looks at `runs`, behind their locks.
pub(crate) fn add_looks(flight: &mut Flight, runs: &ByShard) -> (Vec<Place>, Vec<Place>) {
    let records = runs.iter().map(|(shard, runs)| flight.add(END_LOOK.with(cells![*shard, ids(runs)])));
    (records.collect(), listen::add_looks(flight, runs))
}

/// What the looks found.
pub(crate) fn found(
    answers: &mut Answers,
    (records, listeners): &(Vec<Place>, Vec<Place>),
) -> Result<HashMap<RunId, Record>, StoreError> {
    let mut listeners = listen::found(answers, listeners)?;
    let mut found = HashMap::new();
    for row in records.iter().flat_map(|place| answers.take(*place)) {
        let run = row.run(0)?;
        let mut listeners = listeners.remove(&run).unwrap_or_default();
        let parent = row.opt_id(2)?.map(RunId::from_uuid).zip(row.opt_text(3)?);
        listeners.extend(parent.map(|(run, name)| Listener { run, name }));
        found.insert(run, Record { created_at: row.time(1)?, listeners });
    }
    Ok(found)
}

/// Adds what ends a locked run.
pub(crate) fn add_end(flight: &mut Flight, tx: &mut dyn Tx, row: &AgendaRow, end: &Ended) {
    let (run, shard) = (row.id, row.id.shard());
    let ended = cells![shard, run, end.status, row.epoch, end.error.clone(), RunKind::Job, row.began_at];
    flight.add(END_RESULT.with(ended));
    flight.add(END_AGENDA.with(cells![shard, run]));
    flight.add(INBOX_LEAVE.with(cells![shard, ids(&[run])]));
    flight.add(DOING_CLEAR.with(cells![shard, ids(&[run])]));
    listen::add_clear(flight, &by_shard([run]));
    if orphans::add_ended(flight, run, end).is_some() {
        tx.signal(Signal::Orphans);
    }
}

pub(crate) static STATEMENTS: &[&Sql] = &[&END_LOOK, &END_RESULT, &END_AGENDA];

static END_LOOK: Sql = look_each!(
    "end_look",
    "select r.id, r.created_at, r.parent, r.parent_op from outlast.runs as r where r.shard = {p1} and r.id"
)
.takes(&[Type::Int, Type::Ids]);

// What a job saved tells how far it had come.
static END_RESULT: Sql = Sql::new(
    "end_result",
    "insert into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
     select r.shard, r.id, {p3}, {p4}, {p7}, {now}, d.codec, d.saved, {p5}
       from outlast.runs as r
            left join outlast.doing as d on d.shard = r.shard and d.run = r.id and d.name = r.definition and r.kind = {p6}
      where r.shard = {p1} and r.id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int, Type::Text, Type::Int, Type::Int]);

static END_AGENDA: Sql =
    Sql::new("end_agenda", "delete from outlast.agenda where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id]);
