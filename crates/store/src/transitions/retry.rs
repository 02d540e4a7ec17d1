//! Tries a job again that ended without a result, or an undo that gave up.

use outlast_core::{Change, Payload, RunId, Status};

use super::agenda::{self, by_shard};
use super::flight::Flight;
use super::keys::KeyName;
use super::unique;
use crate::rows::{ReadRow, cells, payload_cells};
use crate::{Controlled, RunKind, Signal, Sql, StoreError, Tx, Type, code};

/// Takes the run's end away and gives it a place in line, as at its start but for the epoch: that is greater than every
/// one before, so that nothing fits which earlier turns may still write. One that was the only one of its kind is so again,
/// or is refused while another is.
///
/// Its parent and whoever else listened have heard of the end that is taken away. They may have gone on because of it,
/// so nobody is told of the next one.
pub(crate) async fn retry(
    tx: &mut dyn Tx,
    run: RunId,
    epoch: Option<i64>,
    input: Option<&Payload>,
) -> Result<Controlled, StoreError> {
    let (shard, runs) = (run.shard(), by_shard([run]));
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, true);
    let end = flight.add(RETRY_LOCK.with(cells![shard, run]));
    let record = flight.add(RETRY_LOOK.with(cells![shard, run]));
    // Whoever waited for the end's lock may find that another made the run ready.
    let looks = agenda::add_looks(&mut flight, &runs);
    let mut answers = flight.send(tx).await?;

    let unfinished = agenda::found(&mut answers, &[locks, looks].concat())?;
    let gave_up = unfinished.get(&run).filter(|row| row.status == Status::UndoFailed);
    if gave_up.is_some_and(|row| epoch.is_none_or(|known| known == row.epoch)) {
        let mut flight = Flight::default();
        flight.add(RETRY_UNDO.with(cells![shard, run, Status::Ready]));
        flight.send_last(tx).await?;
        tx.signal(Signal::Due);
        return Ok(Controlled::Retried { run, by_this: true });
    }
    let is_unfinished = !unfinished.is_empty();
    let (end, record) = (answers.take(end).pop(), answers.take(record).pop());
    let refused = match (end, &record) {
        _ if is_unfinished => Err(Controlled::Retried { run, by_this: false }),
        (Some(end), Some(record)) => {
            let (status, ended_in) = (end.status(0)?, end.int(1)?);
            match status.after(Change::Revive) {
                None => Err(Controlled::Final { run, status, by_this: false }),
                Some(_) if record.kind(0)? != RunKind::Job => Err(Controlled::NoJob { run }),
                Some(_) if epoch.is_some_and(|known| known != ended_in) => {
                    Err(Controlled::Retried { run, by_this: false })
                }
                Some(ready) => Ok((ready, ended_in, record)),
            }
        }
        _ => Err(Controlled::Unknown),
    };
    let (status, ended_in, record) = match refused {
        Ok(found) => found,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    let (definition, tenant) = (record.text(1)?, record.text(5)?);
    if let Some(key) = record.opt_text(7)? {
        let kind = KeyName::in_shard(shard, &tenant, &definition, &key);
        if let Some(by) = unique::stand_again(tx, &kind, run).await? {
            return Flight::default().send_last(tx).await.map(|_| Controlled::Taken { definition, by });
        }
    }

    let mut flight = Flight::default();
    flight.add(RETRY_END.with(cells![shard, run]));
    flight.add(RETRY_RECORD.with(cells![shard, run]));
    if input.is_some() {
        let (codec, input) = payload_cells(input);
        flight.add(RETRY_INPUT.with(cells![shard, run, codec, input]));
    }
    flight.add(RETRY_AGENDA.with(cells![
        shard,
        run,
        status,
        RunKind::Job,
        record.int(4)?,
        ended_in + 1,
        record.text(3)?,
        // What an older version started does not say its group; most are the tenant's.
        record.opt_text(6)?.or(Some(tenant).filter(|tenant| !tenant.is_empty())),
        code(&definition, record.number(2)?),
    ]));
    flight.send_last(tx).await?;
    tx.signal(Signal::Due);
    Ok(Controlled::Retried { run, by_this: true })
}

pub(crate) static STATEMENTS: &[&Sql] =
    &[&RETRY_LOCK, &RETRY_LOOK, &RETRY_END, &RETRY_RECORD, &RETRY_INPUT, &RETRY_AGENDA, &RETRY_UNDO];

static RETRY_LOCK: Sql = Sql::new(
    "retry_lock",
    "select r.status, r.epoch from outlast.results as r where r.shard = {p1} and r.run = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Id]);

static RETRY_LOOK: Sql = Sql::new(
    "retry_look",
    "select r.kind, r.definition, r.version, r.queue, r.priority, r.tenant, r.group_key, r.unique_key
       from outlast.runs as r where r.shard = {p1} and r.id = {p2}",
)
.takes(&[Type::Int, Type::Id]);

static RETRY_END: Sql =
    Sql::new("retry_end", "delete from outlast.results where shard = {p1} and run = {p2}")
        .takes(&[Type::Int, Type::Id]);

static RETRY_RECORD: Sql = Sql::new(
    "retry_record",
    "update outlast.runs set parent_op = null where shard = {p1} and id = {p2} and parent_op is not null",
)
.takes(&[Type::Int, Type::Id]);

static RETRY_INPUT: Sql = Sql::new(
    "retry_input",
    "update outlast.runs set codec = {p3}, input = {p4} where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Text, Type::Bytes]);

static RETRY_AGENDA: Sql = Sql::new(
    "retry_agenda",
    "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, epoch, news, queue,
         group_key, code)
     values ({p1}, {p2}, {p3}, {p4}, {p5}, 1, 0, {now}, {p6}, 0, {p7}, {p8}, {p9})",
)
.takes(&[
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Text,
    Type::Text,
    Type::Text,
]);

static RETRY_UNDO: Sql = Sql::new(
    "retry_undo",
    "update outlast.agenda set status = {p3}, due_at = {now}, reason = null, epoch = epoch + 1, crashes = 0
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Int]);
