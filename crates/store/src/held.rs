//! In whose hands a request with an idempotency key is, for what is done on its behalf.
//!
//! Whoever controls a run while they hold such a request notes in the same transaction that it was done: whoever takes the
//! request over later knows, and does nothing twice. The right goes along with the task, so that clients are called the same
//! way by everybody.

use uuid::Uuid;

tokio::task_local! {
    static HOLDER: Uuid;
}

/// Does something on behalf of a request that `holder` has reserved ([`crate::Access::Reserve`]).
pub async fn holding<T>(holder: Uuid, work: impl Future<Output = T>) -> T {
    HOLDER.scope(holder, work).await
}

/// Who holds the request on whose behalf this is done.
pub(crate) fn holder() -> Option<Uuid> {
    HOLDER.try_with(|holder| *holder).ok()
}
