//! What people and programs ask of runs and queues: cancel one, purge many.

use outlast_core::{Error, FailureDoc, Payload, RunId, ShardCount, Status};

use super::agenda::{self, AgendaRow, by_shard};
use super::commit::{DOING_CLEAR, INBOX_CLEAR};
use super::end;
use super::flight::{Flight, Place};
use super::keys;
use super::listen::{self, LISTENERS_CLEAR, Listener};
use super::post::{self, Post, Receiver};
use super::queue;
use super::results;
use super::schedule;
use super::unique::UNIQUES_PURGE;
use crate::rows::{ReadRow, cells, ids, micros, plain};
use crate::{Address, Control, Controlled, Ended, NewsKind, Signal, Sql, StoreError, Tx, Type};

/// Does what is asked.
pub(crate) async fn control(
    tx: &mut dyn Tx,
    control: &Control,
    shards: ShardCount,
) -> Result<Controlled, StoreError> {
    match control {
        Control::Cancel { run, reason } => match named(tx, run, shards).await? {
            Some(run) => cancel(tx, run, reason).await,
            None => Flight::default().send_last(tx).await.map(|_| Controlled::Unknown),
        },
        Control::Purge { older_than, limit } => purge(tx, micros(*older_than), *limit, shards).await,
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

/// Ends a run that no turn has to be asked about; any other gets the request as news, once.
async fn cancel(tx: &mut dyn Tx, run: RunId, reason: &str) -> Result<Controlled, StoreError> {
    let runs = by_shard([run]);
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, true);
    let results = results::add_looks(&mut flight, &runs);
    let records = end::add_looks(&mut flight, &runs);
    let mut answers = flight.send(tx).await?;
    let ended = results::found(&mut answers, &results)?;
    let record = end::found(&mut answers, &records)?.remove(&run).unwrap_or_default();
    let mut post = Post::to(agenda::found(&mut answers, &locks)?);

    let Some(row) = post.runs.get(&run).cloned() else {
        Flight::default().send_last(tx).await?;
        return Ok(match ended.get(&run) {
            Some(end) => Controlled::Final { run, status: end.status, by_this: false },
            None => Controlled::Unknown,
        });
    };
    if ends_at_once(&row) {
        return end(tx, &row, reason, &record.listeners).await;
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
        flight.add(CANCEL_ASK.with(cells![run.shard(), run, plain(reason)]));
    }
    flight.send_last(tx).await?;
    Ok(Controlled::Asked { run })
}

/// Whether a run never began, or cannot go on by itself: it has nothing to say about its cancellation.
fn ends_at_once(row: &AgendaRow) -> bool {
    match row.status {
        Status::Ready => row.epoch == 0,
        Status::Paused | Status::Blocked => true,
        _ => false,
    }
}

/// Ends a locked run as cancelled and tells its parent and whoever else listens.
async fn end(
    tx: &mut dyn Tx,
    row: &AgendaRow,
    reason: &str,
    listeners: &[Listener],
) -> Result<Controlled, StoreError> {
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
    end::add_end(&mut flight, row, &end);
    flight.send_last(tx).await?;
    tx.signal(Signal::Ended(row.id));
    Ok(Controlled::Final { run: row.id, status: Status::Cancelled, by_this: true })
}

/// Deletes runs that ended before `age` microseconds ago, oldest first in each shard.
async fn purge(tx: &mut dyn Tx, age: i64, limit: u32, shards: ShardCount) -> Result<Controlled, StoreError> {
    let mut flight = Flight::default();
    let shards = 0..shards.max(1);
    let picks: Vec<(u16, Place)> =
        shards.map(|shard| (shard, flight.add(PURGE_PICK.with(cells![shard, age, limit])))).collect();
    let mut answers = flight.send(tx).await?;

    let mut flight = Flight::default();
    let mut purged: usize = 0;
    for (shard, place) in picks {
        let picked = answers.take(place).iter().map(|row| row.run(0)).collect::<Result<Vec<_>, _>>()?;
        let room = (limit as usize).saturating_sub(purged);
        let runs: Vec<RunId> = picked.into_iter().take(room).collect();
        if runs.is_empty() {
            continue;
        }
        purged += runs.len();
        for sql in PURGES {
            flight.add(sql.with(cells![shard, ids(&runs)]));
        }
    }
    flight.send_last(tx).await?;
    Ok(Controlled::Purged(purged as u64))
}

pub(crate) fn statements() -> Vec<&'static Sql> {
    let own: &[&Sql] = &[&CANCEL_ASK, &PURGE_PICK];
    // Some of the purges are others' own.
    let purges = PURGES.iter().copied().filter(|sql| sql.name.starts_with("purge"));
    own.iter().copied().chain(purges).collect()
}

static CANCEL_ASK: Sql =
    Sql::new("cancel_ask", "update outlast.agenda set cancel_reason = {p3} where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id, Type::Text]);

static PURGE_PICK: Sql = Sql::new(
    "purge_pick",
    "select r.run from outlast.results as r where r.shard = {p1} and r.finished_at < {now} - {p2}
      order by r.finished_at, r.run limit {p3} {skip_locked}",
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("results_by_time");

/// Everything of a run. The key goes with it: it is free again.
static PURGES: [&Sql; 11] = [
    &PURGE_JOURNAL,
    &INBOX_CLEAR,
    &PURGE_PROMISES,
    &DOING_CLEAR,
    &LISTENERS_CLEAR,
    &PURGE_LOGS,
    &PURGE_TAGS,
    &PURGE_KEYS,
    &UNIQUES_PURGE,
    &PURGE_RUNS,
    &PURGE_RESULTS,
];

static PURGE_JOURNAL: Sql =
    purge_sql("purge_journal", "delete from outlast.journal where shard = {p1} and run {in:p2}");
static PURGE_PROMISES: Sql =
    purge_sql("purge_promises", "delete from outlast.promises where shard = {p1} and run {in:p2}");
static PURGE_LOGS: Sql =
    purge_sql("purge_logs", "delete from outlast.logs where shard = {p1} and run {in:p2}");
static PURGE_TAGS: Sql =
    purge_sql("purge_tags", "delete from outlast.tags where shard = {p1} and run {in:p2}");
static PURGE_KEYS: Sql =
    purge_sql("purge_keys", "delete from outlast.keys where shard = {p1} and run {in:p2}");
static PURGE_RUNS: Sql =
    purge_sql("purge_runs", "delete from outlast.runs where shard = {p1} and id {in:p2}");
static PURGE_RESULTS: Sql =
    purge_sql("purge_results", "delete from outlast.results where shard = {p1} and run {in:p2}");

const fn purge_sql(name: &'static str, text: &'static str) -> Sql {
    Sql::new(name, text).takes(&[Type::Int, Type::Ids])
}
