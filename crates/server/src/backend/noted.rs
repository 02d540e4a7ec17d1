//! The audit log of what commands change in a database themselves, where no server notes it.
//!
//! Lines as a server writes them: who, what, to what and why; also of what was refused. Whoever has the database is who
//! the system says they are.

use outlast::{Client, RunId};
use outlast_store::{Access, AuditNote};
use uuid::Uuid;

use crate::fault::Fault;
use crate::http::Code;
use crate::words::user;

/// A change about to be made.
pub(super) struct Change {
    /// As the API calls it: `run.cancel`.
    pub(super) action: &'static str,
    pub(super) target: String,
    pub(super) tenant: String,
    pub(super) reason: Option<String>,
}

impl Change {
    pub(super) fn new(action: &'static str, target: impl ToString) -> Change {
        Change { action, target: target.to_string(), tenant: String::new(), reason: None }
    }

    /// A change of a run, whose tenant finds it in the log too. Asked before: afterwards it may be gone.
    pub(super) async fn of_run(client: &Client, action: &'static str, run: RunId) -> Change {
        let tenant = client.status(run).await.map(|view| view.record.tenant).unwrap_or_default();
        Change { tenant, ..Change::new(action, run) }
    }

    pub(super) fn because(self, reason: Option<&str>) -> Change {
        Change { reason: reason.map(str::to_owned), ..self }
    }

    /// Makes it, and waits for its line in the log.
    pub(super) async fn noted<T, E: Into<Fault>>(
        self,
        client: &Client,
        change: impl IntoFuture<Output = Result<T, E>>,
    ) -> Result<T, Fault> {
        self.named(client, change, |_| None).await
    }

    /// The same for what has a name only once it is made.
    pub(super) async fn named<T, E: Into<Fault>>(
        mut self,
        client: &Client,
        change: impl IntoFuture<Output = Result<T, E>>,
        name: impl FnOnce(&T) -> Option<String>,
    ) -> Result<T, Fault> {
        match change.await.map_err(Into::into) {
            Ok(done) => {
                self.target = name(&done).unwrap_or(self.target);
                self.note(client, 200).await?;
                Ok(done)
            }
            Err(fault) => {
                let status = Code::of(fault.code()).map_or(500, |code| code.status);
                // What went wrong is told first of all; the log may be as far away as the rest.
                let _ = self.note(client, status).await;
                Err(fault)
            }
        }
    }

    async fn note(self, client: &Client, status: u16) -> Result<(), Fault> {
        let note = AuditNote {
            id: Uuid::from_u128(fastrand::u128(..)),
            tenant: self.tenant,
            actor: user().unwrap_or_else(|| "command line".to_owned()),
            token: None,
            action: self.action.to_owned(),
            target: outlast_core::shorten(&self.target, 200),
            reason: self.reason.map(|reason| outlast_core::shorten(&reason, 1000)),
            request: "command line".to_owned(),
            status,
        };
        client.store().access(&Access::Note(note)).await?;
        Ok(())
    }
}
