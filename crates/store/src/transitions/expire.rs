//! Ends blocked runs whose time is over, and the pause of others.
//!
//! Any other run is ended by the node that holds it then, or claims it; one that no queue let begin in time is blocked for
//! that first. A blocked one has no code that could be
//! asked: whoever sweeps ends it, whether its code does not fit or nobody knows it. One that has something to undo
//! waits for code that knows how. A paused one is let go: the node that claims it finds that its time is over, and ends
//! it as it would any other, undoing what it did.

use std::collections::HashMap;

use outlast_core::{Entry, Error, FailureDoc, Op, Phase, RunId, Status};

use super::agenda::{self, AgendaRow, by_shard};
use super::end::{self, Record};
use super::flight::Flight;
use super::listen;
use super::post::Post;
use crate::rows::{ReadRow, cells};
use crate::{Ended, Signal, Sql, StoreError, Sweep, Tx, Type};

/// Ends them, at most `ask.limit`, and says how many. It waits for nobody: a run is left to the next sweep if
/// someone has locked it, or a run that has to hear of its end.
pub(crate) async fn expire(tx: &mut dyn Tx, ask: &Sweep) -> Result<u64, StoreError> {
    let mut flight = Flight::default();
    let undo = Entry::kind_code(Op::Undo, Phase::Opened);
    let late = flight.add(BLOCKED_LATE.with(cells![ask.shard, ask.limit, undo, Status::Blocked]));
    let paused = cells![ask.shard, ask.limit, Status::Paused, Status::Ready];
    let paused = flight.add(PAUSED_LATE.with(paused));
    let mut why: HashMap<RunId, String> = HashMap::new();
    let mut answers = flight.send(tx).await?;
    if !answers.take(paused).is_empty() {
        tx.signal(Signal::Due);
    }
    for row in answers.take(late) {
        why.insert(row.run(0)?, row.text(1)?);
    }
    if why.is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(0);
    }

    let runs = by_shard(why.keys().copied());
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, false);
    let looks = end::add_looks(&mut flight, &runs);
    let mut answers = flight.send(tx).await?;
    let locked = agenda::found(&mut answers, &locks)?;
    let records = end::found(&mut answers, &looks)?;
    // What fits again goes on, if only to be told that it is late.
    let mut blocked: Vec<(AgendaRow, &Record)> = Vec::new();
    for row in locked.into_values().filter(|row| row.status == Status::Blocked) {
        if let Some(record) = records.get(&row.id) {
            blocked.push((row, record));
        }
    }

    let listeners = blocked.iter().flat_map(|(_, record)| &record.listeners).map(|listener| listener.run);
    let listeners = by_shard(listeners);
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &listeners, false);
    let looks = agenda::add_looks(&mut flight, &listeners);
    let mut answers = flight.send(tx).await?;
    let mut post = Post::to(agenda::found(&mut answers, &locks)?);
    let there = agenda::found(&mut answers, &looks)?;

    let mut ends = Flight::default();
    let mut ended = 0;
    for (row, record) in &blocked {
        let busy = |run: &RunId| there.contains_key(run) && !post.runs.contains_key(run);
        if record.listeners.iter().any(|listener| busy(&listener.run)) {
            continue;
        }
        let end = end_of(row, record, why.get(&row.id).map_or("", String::as_str));
        listen::tell(&mut post, &record.listeners, &end);
        end::add_end(&mut ends, tx, row, &end);
        tx.signal(Signal::ended(row.id));
        ended += 1;
    }
    post.add(&mut ends, tx);
    ends.send_last(tx).await?;
    Ok(ended)
}

/// How it ends: as cancelled if somebody had asked for that, and says why it did not come to an end by itself.
fn end_of(row: &AgendaRow, record: &Record, why: &str) -> Ended {
    let (status, error) = match &row.cancel_reason {
        Some(reason) => (Status::Cancelled, Error::Cancelled { reason: reason.clone() }),
        None => {
            let allowed = row.expires_at.unwrap_or_default().since(record.created_at);
            let what = format!("run {} (blocked: {why})", row.id);
            (Status::Failed, Error::TimedOut { what, after_ms: allowed.as_millis() as u64 })
        }
    };
    let error = serde_json::to_string(&FailureDoc::Outlast(error)).ok();
    Ended { status, output: None, error }
}

pub(crate) static STATEMENTS: &[&Sql] = &[&BLOCKED_LATE, &PAUSED_LATE];

static BLOCKED_LATE: Sql = Sql::new(
    "blocked_late",
    "select a.id, a.reason from outlast.agenda as a
      where a.shard = {p1} and a.reason is not null and a.expires_at <= {now} and a.status = {p4}
        and not exists (select 1 from outlast.journal as j
                         where j.shard = a.shard and j.run = a.id and j.kind = {p3})
      order by a.expires_at limit {p2}",
)
.takes(&[Type::Int, Type::Int, Type::Int, Type::Int])
.by("agenda_blocked_until");

static PAUSED_LATE: Sql = Sql::new(
    "paused_late",
    "update outlast.agenda set status = {p4}, due_at = {now}, reason = null, resume_at = null
      where shard = {p1} and id in (
         select a.id from outlast.agenda as a
          where a.shard = {p1} and a.reason is not null and a.expires_at <= {now} and a.status = {p3}
          order by a.expires_at limit {p2} {skip_locked})
     returning id",
)
.takes(&[Type::Int, Type::Int, Type::Int, Type::Int])
.by("agenda_blocked_until");
