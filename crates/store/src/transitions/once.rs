//! Controls on behalf of a request with an idempotency key: done by whoever holds it, and noted in the same transaction.
//!
//! Most can be repeated, but not for ever: a run that was cancelled may have been tried again since, by others, and must not
//! be cancelled by the same request a second time.

use async_trait::async_trait;
use outlast_core::{ShardCount, Timestamp};
use uuid::Uuid;

use super::access::HOME;
use super::control::control;
use super::flight::Flight;
use crate::rows::cells;
use crate::{Call, Control, Controlled, Dialect, Row, Signal, Sql, StoreError, Tx, Type};

/// Does what is asked, if the holder still has the right to, and notes that.
pub(crate) async fn control_once(
    tx: &mut dyn Tx,
    ask: &Control,
    shards: ShardCount,
    holder: Uuid,
) -> Result<Controlled, StoreError> {
    let mut flight = Flight::default();
    let held = flight.add(REPLY_HELD.with(cells![HOME, holder]));
    if flight.send(tx).await?.take(held).is_empty() {
        // Whoever has it now does it.
        Flight::default().send_last(tx).await?;
        return Err(StoreError::Unavailable("somebody else has taken this request over".into()));
    }
    let controlled = control(&mut Unended(tx), ask, shards).await?;
    let mut flight = Flight::default();
    if let Some(changed) = changed(&controlled) {
        flight.add(REPLY_DONE.with(cells![HOME, holder, i64::from(changed)]));
    }
    flight.send_last(tx).await?;
    Ok(controlled)
}

/// Whether it changed something; `None` where it was refused, which may be otherwise another time.
fn changed(controlled: &Controlled) -> Option<bool> {
    use Controlled::{
        Asked, Begun, Due, Final, Forked, GaveUp, Held, Paused, Purged, Purging, Queue, Resumed, Retried,
        Schedule, Taken, Unknown,
    };
    match controlled {
        Final { by_this, .. } | Resumed { by_this, .. } | Due { by_this, .. } | Retried { by_this, .. } => {
            Some(*by_this)
        }
        Asked { .. } | Paused { .. } | Forked { .. } | Purged(_) | Queue(_) | Schedule(Some(_)) => Some(true),
        Begun { .. }
        | GaveUp { .. }
        | Held { .. }
        | Purging { .. }
        | Taken { .. }
        | Schedule(None)
        | Unknown => None,
    }
}

/// A transaction whose end is somebody else's.
struct Unended<'t>(&'t mut dyn Tx);

#[async_trait]
impl Tx for Unended<'_> {
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.0.flight(calls).await
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.0.flight(calls).await
    }

    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn is_users(&self) -> bool {
        self.0.is_users()
    }

    fn signal(&mut self, signal: Signal) {
        self.0.signal(signal);
    }

    fn machine_now(&self) -> Timestamp {
        self.0.machine_now()
    }
}

pub(crate) static STATEMENTS: &[&Sql] = &[&REPLY_HELD, &REPLY_DONE];

static REPLY_HELD: Sql = Sql::new(
    "reply_held",
    "select r.holder from outlast.replies as r
      where r.shard = {p1} and r.holder = {p2} and r.status is null {for_update}",
)
.takes(&[Type::Int, Type::Id]);

// A try whose reply got lost may have been what did it: what it noted stays.
static REPLY_DONE: Sql = Sql::new(
    "reply_done",
    "update outlast.replies set changed = coalesce(changed, {p3})
      where shard = {p1} and holder = {p2} and status is null",
)
.takes(&[Type::Int, Type::Id, Type::Int]);
