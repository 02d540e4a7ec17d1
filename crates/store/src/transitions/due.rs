//! Has a run go on at another time than it would by itself.
//!
//! The caller says at what time it saw the run due. So a repeated call finds it due at another, and changes nothing; and
//! nobody ends a wait that has begun since.

use outlast_core::{Payload, RunId, Status, Timestamp};

use super::control::unfinished;
use super::flight::Flight;
use super::post::{Post, Receiver};
use crate::rows::{ReadRow, SKIP, cells};
use crate::{Controlled, NewsKind, Signal, Sql, StoreError, Tx, Type};

/// Makes a ready run due at `at`, or now; tells one that waits that its timers of that time are over.
pub(super) async fn due(
    tx: &mut dyn Tx,
    run: RunId,
    seen: Timestamp,
    at: Option<Timestamp>,
) -> Result<Controlled, StoreError> {
    let row = match unfinished(tx, run).await? {
        Ok((row, _)) => row,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    let mut flight = Flight::default();
    let look = flight.add(DUE_LOOK.with(cells![run.shard(), run]));
    let found = flight.send(tx).await?.take(look);
    let due_at = found.first().map(|row| row.opt_time(0)).transpose()?.flatten();

    let mut flight = Flight::default();
    let is_as_seen = row.node.is_none() && due_at == Some(seen);
    let by_this = match row.status {
        Status::Ready if is_as_seen => {
            flight.add(DUE_SET.with(cells![run.shard(), run, at]));
            flight.add(DUE_WANTED.with(cells![run.shard(), run]));
            tx.signal(Signal::Due);
            true
        }
        // What ends then may also be its own time, which nobody makes shorter.
        Status::Waiting if is_as_seen && at.is_none() && row.expires_at != Some(seen) => {
            let body = Payload { codec: None, bytes: seen.micros().to_string().into() };
            let mut post = Post::to([(run, row)].into());
            post.put(&Receiver::Run(run), NewsKind::Skip, SKIP, Some(&body));
            post.add(&mut flight, tx);
            true
        }
        _ => false,
    };
    flight.send_last(tx).await.map(|_| Controlled::Due { run, by_this })
}

pub(crate) static STATEMENTS: &[&Sql] = &[&DUE_LOOK, &DUE_SET, &DUE_WANTED];

static DUE_LOOK: Sql =
    Sql::new("due_look", "select a.due_at from outlast.agenda as a where a.shard = {p1} and a.id = {p2}")
        .takes(&[Type::Int, Type::Id]);

static DUE_SET: Sql = Sql::new(
    "due_set",
    "update outlast.agenda
        set due_at = case when {p3} is null or {p3} < {now} then {now}
                          when expires_at < {p3} then expires_at else {p3} end
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

// Whoever was to begin later begins to stand in line then.
static DUE_WANTED: Sql = Sql::new(
    "due_wanted",
    "update outlast.runs
        set wanted_at = (select a.due_at from outlast.agenda as a where a.shard = {p1} and a.id = {p2})
      where shard = {p1} and id = {p2}
        and exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = {p2} and a.began_at is null)",
)
.takes(&[Type::Int, Type::Id]);
