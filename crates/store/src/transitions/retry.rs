//! Tries a run again that ended without a result, or an undo that gave up; and repairs one that has not ended.

use outlast_core::{Change, Payload, RunId, ShardCount, Status};

use super::agenda::{self, AgendaRow, by_shard};
use super::flight::Flight;
use super::keys::KeyName;
use super::orphans;
use super::post::Post;
use super::repair::{self, Tellers};
use super::unique;
use crate::rows::{ReadRow, cells, payload_cells};
use crate::{Controlled, Hears, PURGING, Repair, Row, RunKind, Signal, Sql, StoreError, Tx, Type, code};

/// Takes the run's end away and gives it a place in line, as at its start but for the epoch: that is greater than every
/// one before, so that nothing fits which earlier turns may still write. One that was the only one of its kind is so again,
/// or is refused while another is.
///
/// Its parent and whoever else listened have heard of the end that is taken away. They may have gone on because of it,
/// so nobody is told of the next one; nor does it stop any more because its parent did not end well.
///
/// It stands in line anew, so it has not begun until a node takes it. One that has not ended ([`go_on`]) began when it did.
pub(crate) async fn retry(
    tx: &mut dyn Tx,
    run: RunId,
    epoch: Option<i64>,
    input: Option<&Payload>,
    repair: Option<&Repair>,
    shards: ShardCount,
) -> Result<Controlled, StoreError> {
    let nothing = Hears::default();
    let hears = repair.map_or(&nothing, |repair| &repair.hears);
    let (shard, own) = (run.shard(), by_shard([run]));
    let mut flight = Flight::default();
    if !hears.ends.is_empty() {
        orphans::add_locks(&mut flight, shards, run);
    }
    let all = by_shard(hears.ends.iter().map(|(run, _)| *run).chain([run]));
    let locks = agenda::add_locks(&mut flight, &all, true);
    let end = flight.add(RETRY_LOCK.with(cells![shard, run]));
    let record = flight.add(RETRY_LOOK.with(cells![shard, run, PURGING]));
    // Whoever waited for the end's lock may find that another made the run ready.
    let looks = agenda::add_looks(&mut flight, &own);
    let ends = repair::add_looks(&mut flight, hears);
    let mut answers = flight.send(tx).await?;

    let mut unfinished = agenda::found(&mut answers, &[locks, looks].concat())?;
    let row = unfinished.remove(&run);
    let tellers = repair::found(&mut answers, &ends, unfinished)?;
    let (end, record) = (answers.take(end).pop(), answers.take(record).pop());
    if let Some(row) = row {
        return go_on(tx, row, epoch, repair, &tellers).await;
    }
    let (Some(end), Some(record)) = (end, record) else {
        return Flight::default().send_last(tx).await.map(|_| Controlled::Unknown);
    };
    let (status, ended_in) = (end.status(0)?, end.int(1)?);
    let refused = match status.after(Change::Revive) {
        _ if record.opt_int(9)?.is_some() => Some(Controlled::Purging { run }),
        None => Some(Controlled::Final { run, status, by_this: false }),
        Some(_) if epoch.is_some_and(|known| known != ended_in) => {
            Some(Controlled::Retried { run, by_this: false })
        }
        Some(_) => None,
    };
    if let Some(answer) = refused {
        return Flight::default().send_last(tx).await.map(|_| answer);
    }
    let (definition, tenant) = (record.text(1)?, record.text(5)?);
    if let Some(key) = record.opt_text(7)? {
        let kind = KeyName::in_shard(shard, &tenant, &definition, &key);
        if let Some(by) = unique::stand_again(tx, &kind, run).await? {
            return Flight::default().send_last(tx).await.map(|_| Controlled::Taken { definition, by });
        }
    }

    let mut flight = Flight::default();
    // What a job saved was about its input.
    if input.is_none() {
        flight.add(RETRY_SAVED.with(cells![shard, run, RunKind::Job]));
    }
    flight.add(RETRY_END.with(cells![shard, run]));
    flight.add(RETRY_RECORD.with(cells![shard, run]));
    if input.is_some() {
        let (codec, input) = payload_cells(input);
        flight.add(RETRY_INPUT.with(cells![shard, run, codec, input]));
    }
    // It waits for its children again: nobody is to stop them.
    (0..shards.max(1)).for_each(|shard| orphans::add_forget(&mut flight, shard, run));
    // What it has not read comes after what it hears again.
    let unread = record.opt_int(8)?.unwrap_or_default();
    add_place(&mut flight, run, &record, ended_in + 1, unread)?;
    if let Some(repair) = repair {
        let heard = (hears.news.len() + hears.ends.len()) as i64;
        if unread > 0 && heard > 0 {
            flight.add(REPAIR_UNREAD.with(cells![shard, run, unread + heard]));
        }
        repair::add_journal(&mut flight, run, ended_in, repair);
        let mut post = Post::to([(run, AgendaRow::started(run, unread))].into());
        tellers.add(&mut flight, &mut post, run, hears);
        post.add(&mut flight, tx);
        if unread > 0 && heard > 0 {
            flight.add(REPAIR_NEWS.with(cells![shard, run, 2 * unread + heard]));
        }
    }
    flight.send_last(tx).await?;
    tx.signal(Signal::Due);
    Ok(Controlled::Retried { run, by_this: true })
}

/// Adds the place in line of a run with this record.
fn add_place(flight: &mut Flight, run: RunId, record: &Row, epoch: i64, news: i64) -> Result<(), StoreError> {
    let (definition, tenant) = (record.text(1)?, record.text(5)?);
    flight.add(RETRY_AGENDA.with(cells![
        run.shard(),
        run,
        Status::Ready,
        record.kind(0)?,
        record.int(4)?,
        epoch,
        record.text(3)?,
        // What an older version started does not say its group; most are the tenant's.
        record.opt_text(6)?.or(Some(tenant).filter(|tenant| !tenant.is_empty())),
        code(&definition, record.number(2)?),
        news,
    ]));
    Ok(())
}

/// Lets a run go on that has not ended: one whose undo gave up, one that is blocked, or one that is repaired and that no
/// node holds.
async fn go_on(
    tx: &mut dyn Tx,
    row: AgendaRow,
    epoch: Option<i64>,
    repair: Option<&Repair>,
    tellers: &Tellers,
) -> Result<Controlled, StoreError> {
    let (run, shard, ended_in) = (row.id, row.id.shard(), row.epoch);
    let stays = match repair {
        _ if epoch.is_some_and(|known| known != row.epoch) => {
            Some(Controlled::Retried { run, by_this: false })
        }
        Some(_) if row.node.is_some() => Some(Controlled::Held { run }),
        None if !matches!(row.status, Status::UndoFailed | Status::Blocked) => {
            Some(Controlled::Retried { run, by_this: false })
        }
        _ => None,
    };
    if let Some(answer) = stays {
        return Flight::default().send_last(tx).await.map(|_| answer);
    }
    // Whoever is paused goes on when somebody says so.
    let is_paused = row.status == Status::Paused;
    let mut flight = Flight::default();
    let mut post = Post::to([(run, row)].into());
    if let Some(repair) = repair {
        repair::add_journal(&mut flight, run, ended_in, repair);
        tellers.add(&mut flight, &mut post, run, &repair.hears);
        post.add(&mut flight, tx);
    }
    match is_paused {
        true => flight.add(REPAIR_PAUSED.with(cells![shard, run])),
        false => flight.add(RETRY_UNDO.with(cells![shard, run, Status::Ready])),
    };
    flight.send_last(tx).await?;
    tx.signal(Signal::Due);
    Ok(Controlled::Retried { run, by_this: true })
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &RETRY_LOCK,
    &RETRY_LOOK,
    &RETRY_SAVED,
    &RETRY_END,
    &RETRY_RECORD,
    &RETRY_INPUT,
    &RETRY_AGENDA,
    &RETRY_UNDO,
    &REPAIR_PAUSED,
    &REPAIR_UNREAD,
    &REPAIR_NEWS,
];

static RETRY_LOCK: Sql = Sql::new(
    "retry_lock",
    "select r.status, r.epoch from outlast.results as r where r.shard = {p1} and r.run = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Id]);

static RETRY_LOOK: Sql = Sql::new(
    "retry_look",
    "select r.kind, r.definition, r.version, r.queue, r.priority, r.tenant, r.group_key, r.unique_key,
            (select max(i.seq) from outlast.inbox as i where i.shard = {p1} and i.run = {p2}),
            (select 1 from outlast.tags as t where t.shard = {p1} and t.run = {p2} and t.name = {p3} limit 1)
       from outlast.runs as r where r.shard = {p1} and r.id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Text]);

static RETRY_SAVED: Sql = Sql::new(
    "retry_saved",
    "insert into outlast.doing (shard, run, name, attempt, since, codec, saved)
     select e.shard, e.run, r.definition, 1, {now}, e.codec, e.output
       from outlast.results as e join outlast.runs as r on r.shard = e.shard and r.id = e.run
      where e.shard = {p1} and e.run = {p2} and r.kind = {p3} and e.output is not null
     on conflict do nothing",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

static RETRY_END: Sql =
    Sql::new("retry_end", "delete from outlast.results where shard = {p1} and run = {p2}")
        .takes(&[Type::Int, Type::Id]);

// From now on it stands in line again, and not since it was started.
static RETRY_RECORD: Sql = Sql::new(
    "retry_record",
    "update outlast.runs set parent_op = null, stops_with_parent = 0, wanted_at = {now} where shard = {p1} and id = {p2}",
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
     values ({p1}, {p2}, {p3}, {p4}, {p5}, 1, 0, {now}, {p6}, {p10}, {p7}, {p8}, {p9})",
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
    Type::Int,
]);

static RETRY_UNDO: Sql = Sql::new(
    "retry_undo",
    "update outlast.agenda set status = {p3}, due_at = {now}, reason = null, epoch = epoch + 1, crashes = 0
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

static REPAIR_PAUSED: Sql =
    Sql::new("repair_paused", "update outlast.agenda set epoch = epoch + 1 where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id]);

// By more than the greatest of them: no two meet on the way.
static REPAIR_UNREAD: Sql =
    Sql::new("repair_unread", "update outlast.inbox set seq = seq + {p3} where shard = {p1} and run = {p2}")
        .takes(&[Type::Int, Type::Id, Type::Int]);

static REPAIR_NEWS: Sql =
    Sql::new("repair_news", "update outlast.agenda set news = {p3} where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id, Type::Int]);
