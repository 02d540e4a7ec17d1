//! What people and programs ask of runs and queues: cancel one, withdraw one, kill one, pause one, have one sooner, try one again, purge many.

use outlast_core::{Entry, Error, FailureDoc, Op, Payload, Phase, RunId, ShardCount, Status};

use super::agenda::{self, AgendaRow, ByShard, by_shard};
use super::due::due;
use super::end;
use super::flight::{Flight, Place};
use super::keys;
use super::kill::kill;
use super::listen::{self, Listener};
use super::pause::{self, pause, resume};
use super::post::{self, Post, Receiver};
use super::purge::purge;
use super::queue;
use super::repair;
use super::results;
use super::retry::retry;
use super::schedule;
use crate::rows::{cells, plain};
use crate::{Address, Control, Controlled, Ended, NewsKind, Signal, Sql, StoreError, Tx, Type};

/// Does what is asked.
pub(crate) async fn control(
    tx: &mut dyn Tx,
    control: &Control,
    shards: ShardCount,
) -> Result<Controlled, StoreError> {
    match control {
        Control::Cancel { run, reason } => match named(tx, run, shards).await? {
            Some(run) => {
                let (flight, controlled) = cancel(tx, run, reason).await?;
                flight.send_last(tx).await.map(|_| controlled)
            }
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Withdraw { run, reason } => match named(tx, run, shards).await? {
            Some(run) => withdraw(tx, run, reason).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Fork(fork) => repair::fork(tx, fork).await,
        Control::Kill { run, reason } => match named(tx, run, shards).await? {
            Some(run) => kill(tx, run, reason).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Pause { run, reason } => match named(tx, run, shards).await? {
            Some(run) => pause(tx, run, reason).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Resume { run } => match named(tx, run, shards).await? {
            Some(run) => resume(tx, run).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Due { run, seen, at } => match named(tx, run, shards).await? {
            Some(run) => due(tx, run, *seen, *at).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Retry { run, epoch, input, repair } => match named(tx, run, shards).await? {
            Some(run) => retry(tx, run, *epoch, input.as_ref(), repair.as_ref(), shards).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Purge(ask) => purge(tx, ask, shards).await.map(Controlled::Purged),
        Control::Queue { name, change } => {
            queue::change(tx, name, change, shards).await.map(Controlled::Queue)
        }
        Control::Schedule { name, change } => {
            schedule::change(tx, name, change, shards).await.map(Controlled::Schedule)
        }
    }
}

/// The run that an address names; a key that nobody has started names none.
async fn named(tx: &mut dyn Tx, address: &Address, shards: ShardCount) -> Result<Option<RunId>, StoreError> {
    let name = match address {
        Address::Run(run) => return Ok(Some(*run)),
        Address::Key { .. } => post::key_of(address, shards),
    };
    let Some(name) = name else { return Ok(None) };
    let mut flight = Flight::default();
    let look: Vec<(u16, Place)> = keys::add_look(&mut flight, &name).into_iter().collect();
    let found = keys::found(&mut flight.send(tx).await?, &look)?;
    Ok(found.get(&name).filter(|row| row.started).map(|row| row.run))
}

/// Ends a run that no turn has to be asked about; any other gets the request as news, once. What is to be written is
/// for the caller to send.
pub(super) async fn cancel(
    tx: &mut dyn Tx,
    run: RunId,
    reason: &str,
) -> Result<(Flight, Controlled), StoreError> {
    lock_families(tx, &by_shard([run])).await?;
    cancel_locked(tx, run, reason).await
}

/// The same for a run whose family is locked.
pub(super) async fn cancel_locked(
    tx: &mut dyn Tx,
    run: RunId,
    reason: &str,
) -> Result<(Flight, Controlled), StoreError> {
    let (row, listeners) = match unfinished(tx, run).await? {
        Ok(found) => found,
        Err(answer) => return Ok((Flight::default(), answer)),
    };
    let mut post = Post::to([(run, row.clone())].into());
    if ends_at_once(&row) && !has_to_undo(tx, &row).await? {
        return end(tx, &row, reason, &listeners).await;
    }

    let mut flight = Flight::default();
    if row.cancel_reason.is_none() {
        let body = Payload { codec: None, bytes: serde_json::json!(reason).to_string().into() };
        post.put(&Receiver::Run(run), NewsKind::Cancel, "cancel", Some(&body));
        // A job between two attempts, or a run about to be claimed again.
        if row.status == Status::Ready {
            post.wake(run);
        }
        post.add(&mut flight, tx);
    }
    // It goes on, if only to end: nobody holds it back any longer.
    if row.cancel_reason.is_none() || row.pause_asked.is_some() {
        flight.add(CANCEL_ASK.with(cells![run.shard(), run, plain(reason)]));
    }
    if row.status == Status::Paused {
        pause::add_resume(&mut flight, run, true);
        tx.signal(Signal::Due);
    }
    Ok((flight, Controlled::Asked { run }))
}

/// Ends a run that no node has ever taken. Who takes it locks it, too: either it began before this, and stays as it is, or
/// it never does.
async fn withdraw(tx: &mut dyn Tx, run: RunId, reason: &str) -> Result<Controlled, StoreError> {
    lock_families(tx, &by_shard([run])).await?;
    let (row, listeners) = match unfinished(tx, run).await? {
        Ok(found) => found,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    if row.status != Status::Ready || row.epoch != 0 {
        return Flight::default().send_last(tx).await.map(|_| Controlled::Begun { run });
    }
    let (flight, controlled) = end(tx, &row, reason, &listeners).await?;
    flight.send_last(tx).await.map(|_| controlled)
}

/// Locks runs that may end by this, together with those who hear of their ends, in the order in which everybody locks:
/// whoever locks the one and then the other waits in a circle for those who do it the other way round. Who comes to
/// listen between the look and the lock is locked late, which the database sorts out if it has to.
pub(super) async fn lock_families(tx: &mut dyn Tx, runs: &ByShard) -> Result<(), StoreError> {
    let mut flight = Flight::default();
    let looks = agenda::add_looks(&mut flight, runs);
    let records = end::add_looks(&mut flight, runs);
    let mut answers = flight.send(tx).await?;
    let unfinished = agenda::found(&mut answers, &looks)?;
    let records = end::found(&mut answers, &records)?;
    let records = unfinished.keys().filter_map(|run| records.get(run));
    let hear = records.flat_map(|record| &record.listeners).map(|listener| listener.run);
    let all = by_shard(hear.chain(unfinished.keys().copied()));
    // Its own lock comes with what is looked at behind it.
    if all == *runs && runs.values().flatten().count() == 1 {
        return Ok(());
    }
    let mut flight = Flight::default();
    agenda::add_locks(&mut flight, &all, true);
    flight.send(tx).await.map(drop)
}

/// Locks a run, and tells who hears of its end; of one that is unfinished no more, what is to be answered.
pub(super) async fn unfinished(
    tx: &mut dyn Tx,
    run: RunId,
) -> Result<Result<(AgendaRow, Vec<Listener>), Controlled>, StoreError> {
    let runs = by_shard([run]);
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, true);
    let results = results::add_looks(&mut flight, &runs);
    let records = end::add_looks(&mut flight, &runs);
    let mut answers = flight.send(tx).await?;
    let ended = results::found(&mut answers, &results)?;
    let record = end::found(&mut answers, &records)?.remove(&run).unwrap_or_default();
    Ok(match (agenda::found(&mut answers, &locks)?.remove(&run), ended.get(&run)) {
        (Some(row), _) => Ok((row, record.listeners)),
        (None, Some(end)) => Err(Controlled::Final { run, status: end.status, by_this: false }),
        (None, None) => Err(Controlled::Unknown),
    })
}

/// Whether a run never began, or cannot go on by itself: it has nothing to say about its cancellation.
fn ends_at_once(row: &AgendaRow) -> bool {
    match row.status {
        Status::Ready => row.epoch == 0,
        Status::Paused | Status::Blocked => true,
        _ => false,
    }
}

/// Whether a run has done what is to be undone: then it waits for code that knows how. A workflow has noted it, a job's
/// definition says so.
async fn has_to_undo(tx: &mut dyn Tx, row: &AgendaRow) -> Result<bool, StoreError> {
    if row.epoch == 0 {
        return Ok(false);
    }
    let opened = Entry::kind_code(Op::Undo, Phase::Opened);
    let mut flight = Flight::default();
    let found = flight.add(UNDO_LOOK.with(cells![row.id.shard(), row.id, opened]));
    Ok(!flight.send(tx).await?.take(found).is_empty())
}

/// Ends a locked run as cancelled and tells its parent and whoever else listens.
pub(super) async fn end(
    tx: &mut dyn Tx,
    row: &AgendaRow,
    reason: &str,
    listeners: &[Listener],
) -> Result<(Flight, Controlled), StoreError> {
    let failure = FailureDoc::Outlast(Error::Cancelled { reason: reason.into() });
    let error = serde_json::to_string(&failure).ok();
    let end = Ended { status: Status::Cancelled, output: None, error };

    let mut post = Post::default();
    if !listeners.is_empty() {
        let mut flight = Flight::default();
        let runs = by_shard(listeners.iter().map(|listener| listener.run));
        let locks = agenda::add_locks(&mut flight, &runs, true);
        post.runs = agenda::found(&mut flight.send(tx).await?, &locks)?;
        listen::tell(&mut post, listeners, &end);
    }

    let mut flight = Flight::default();
    post.add(&mut flight, tx);
    end::add_end(&mut flight, tx, row, &end);
    tx.signal(Signal::ended(row.id));
    Ok((flight, Controlled::Final { run: row.id, status: Status::Cancelled, by_this: true }))
}

pub(crate) static STATEMENTS: &[&Sql] = &[&CANCEL_ASK, &UNDO_LOOK];

static UNDO_LOOK: Sql = Sql::new(
    "undo_look",
    "select 1 from outlast.journal as j where j.shard = {p1} and j.run = {p2} and j.kind = {p3}
     union all
     select 1 from outlast.runs as r join outlast.definitions as d
            on d.shard = 0 and d.name = r.definition and d.version = r.version
      where r.shard = {p1} and r.id = {p2} and d.options like '%\"undo\":true%'
      limit 1",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

static CANCEL_ASK: Sql = Sql::new(
    "cancel_ask",
    "update outlast.agenda set cancel_reason = coalesce(cancel_reason, {p3}), pause_asked = null
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Text]);
