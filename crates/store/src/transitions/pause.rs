//! Holds a run back until somebody lets it go on.
//!
//! A run that nobody has is paused at once: it is due at no time, so that nobody claims it, and what comes for it is
//! kept and wakes nobody. One that a node holds is asked, in its row; whatever ends its turn (a wait, a retry, the node's
//! death) then pauses it instead. So no way leads past the request, whoever has heard of it.

use outlast_core::{RunId, Status};

use super::control::unfinished;
use super::flight::Flight;
use crate::rows::{cells, plain};
use crate::{Controlled, Signal, Sql, StoreError, Tx, Type};

/// Pauses the run, or asks for it. The first reason stays.
pub(super) async fn pause(tx: &mut dyn Tx, run: RunId, reason: &str) -> Result<Controlled, StoreError> {
    let row = match unfinished(tx, run).await? {
        Ok((row, _)) => row,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    let mut flight = Flight::default();
    let controlled = match row.status {
        Status::Paused => Controlled::Paused { run, by_this: false },
        Status::UndoFailed => Controlled::GaveUp { run },
        _ if row.node.is_none() => {
            let cells = cells![run.shard(), run, plain(reason), Status::Paused, Status::Ready];
            flight.add(PAUSE.with(cells));
            Controlled::Paused { run, by_this: true }
        }
        _ => {
            if row.pause_asked.is_none() {
                flight.add(PAUSE_ASK.with(cells![run.shard(), run, plain(reason)]));
            }
            // Also if it was asked before: that hint may have got lost.
            tx.signal(Signal::Pause(run));
            Controlled::Asked { run }
        }
    };
    flight.send_last(tx).await.map(|_| controlled)
}

/// Lets a run go on that is paused, or is about to be. It is due now, or when it was due before.
pub(super) async fn resume(tx: &mut dyn Tx, run: RunId) -> Result<Controlled, StoreError> {
    let row = match unfinished(tx, run).await? {
        Ok((row, _)) => row,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    let mut flight = Flight::default();
    let by_this = row.status == Status::Paused || row.pause_asked.is_some();
    if row.status == Status::Paused {
        add_resume(&mut flight, run, false);
        tx.signal(Signal::Due);
    } else if by_this {
        flight.add(PAUSE_TAKE_BACK.with(cells![run.shard(), run]));
    }
    flight.send_last(tx).await.map(|_| Controlled::Resumed { run, by_this })
}

/// Adds what ends the pause of a locked run: due now if so, otherwise when it was due before.
pub(super) fn add_resume(flight: &mut Flight, run: RunId, now: bool) {
    flight.add(RESUME.with(cells![run.shard(), run, Status::Ready, i64::from(now)]));
}

pub(crate) static STATEMENTS: &[&Sql] = &[&PAUSE, &PAUSE_ASK, &PAUSE_TAKE_BACK, &RESUME];

// What waits looks again when it is resumed; what is due later must not be early.
static PAUSE: Sql = Sql::new(
    "pause",
    "update outlast.agenda set status = {p4}, reason = {p3}, due_at = null,
            resume_at = case when status = {p5} then due_at end
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Text, Type::Int, Type::Int]);

static PAUSE_ASK: Sql =
    Sql::new("pause_ask", "update outlast.agenda set pause_asked = {p3} where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id, Type::Text]);

static PAUSE_TAKE_BACK: Sql = Sql::new(
    "pause_take_back",
    "update outlast.agenda set pause_asked = null where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id]);

static RESUME: Sql = Sql::new(
    "resume",
    "update outlast.agenda set status = {p3}, reason = null, resume_at = null,
            due_at = case when {p4} = 1 or resume_at is null or resume_at < {now} then {now}
                          when expires_at < resume_at then expires_at else resume_at end
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int]);
