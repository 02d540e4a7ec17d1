//! The audit log of what commands change in a database themselves, where no server notes it.
//!
//! Lines as a server writes them: who, what, to what and why; also of what was refused. Whoever has the database is who
//! the system says they are. A command that is stopped while it changes something ends when that has its line.

use std::time::Duration;

use outlast::{Client, RunId};
use outlast_store::{Access, AuditNote};
use serde_json::Value;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::dev::StopSignals;
use crate::fault::{Exit, Fault};
use crate::http::{Code, token_name};
use crate::schedule_commands::Plan;
use crate::standing;
use crate::words::user;

/// Read by every change in hand. Whoever writes waits for those, and no other begins meanwhile.
static IN_HAND: RwLock<()> = RwLock::const_new(());
/// How long a command that is stopped waits for the change in hand.
const GRACE: Duration = Duration::from_secs(5);

/// Does something until Ctrl-C.
pub(crate) async fn stoppable<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let mut signals = StopSignals::new()?;
    let stop = async {
        signals.next().await;
        Fault::new(Exit::Interrupted, "interrupted", "stopped by Ctrl-C")
    };
    until(stop, work).await
}

/// Does something until `stop` says why no longer. A change in hand comes to its end before that.
pub(crate) async fn until<T>(
    stop: impl Future<Output = Fault>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut work = std::pin::pin!(work);
    let why = tokio::select! {
        done = &mut work => return done,
        why = stop => why,
    };
    tokio::select! {
        // Asked for first, so that the next change waits behind it.
        biased;
        _ = IN_HAND.write() => Err(why),
        done = &mut work => done,
        () = tokio::time::sleep(GRACE) => Err(why),
    }
}

/// A change about to be made.
pub(super) struct Change {
    /// As the API calls it: `run.cancel`.
    pub(super) action: &'static str,
    pub(super) target: String,
    pub(super) tenant: String,
    pub(super) reason: Option<String>,
    /// The run that it changes, of which is looked afterwards how it stands.
    run: Option<RunId>,
    before: Option<Value>,
    after: Option<Value>,
}

/// What is told of a change once it is made.
#[derive(Default)]
pub(super) struct Made {
    /// What has a name only now.
    pub(super) target: Option<String>,
    /// How it stands.
    pub(super) after: Option<Value>,
}

impl Made {
    /// It stands like this.
    pub(super) fn stands(after: Value) -> Made {
        Made { target: None, after: Some(after) }
    }
}

impl Change {
    pub(super) fn new(action: &'static str, target: impl ToString) -> Change {
        let target = target.to_string();
        Change { action, target, tenant: String::new(), reason: None, run: None, before: None, after: None }
    }

    /// A change of a run, whose tenant finds it in the log too. Asked before: afterwards it may be gone.
    pub(super) async fn of_run(client: &Client, action: &'static str, run: RunId) -> Change {
        let view = client.status(run).await.ok();
        let before = view.as_ref().map(standing::run);
        let tenant = view.map(|view| view.record.tenant).unwrap_or_default();
        Change { tenant, before, run: Some(run), ..Change::new(action, run) }
    }

    /// A change of a queue.
    pub(super) async fn of_queue(client: &Client, action: &'static str, name: &str) -> Change {
        let card = crate::queue_commands::known(client, name).await.ok();
        Change { before: card.as_ref().map(standing::queue), ..Change::new(action, name) }
    }

    /// A change of a schedule, whose tenant finds it in the log too.
    pub(super) async fn of_schedule(client: &Client, action: &'static str, name: &str) -> Change {
        let views = client.schedules().await.unwrap_or_default();
        let found = views.iter().find(|view| view.name == name);
        let tenant = found.map(|view| Plan::read(&view.card).options.tenant).unwrap_or_default();
        Change { tenant, before: found.map(standing::schedule), ..Change::new(action, name) }
    }

    /// A change of a token.
    pub(super) async fn of_token(client: &Client, action: &'static str, name: &str) -> Change {
        let views = client.store().tokens().await.unwrap_or_default();
        let found = views.iter().find(|view| token_name(view.card.id) == name);
        Change { before: found.map(standing::token), ..Change::new(action, name) }
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
        self.made(client, change, |_| Made::default()).await
    }

    /// The same for what has a name only once it is made, or says itself how it stands.
    pub(super) async fn made<T, E: Into<Fault>>(
        mut self,
        client: &Client,
        change: impl IntoFuture<Output = Result<T, E>>,
        tell: impl FnOnce(&T) -> Made,
    ) -> Result<T, Fault> {
        let _in_hand = IN_HAND.read().await;
        match change.await.map_err(Into::into) {
            Ok(done) => {
                let Made { target, after } = tell(&done);
                self.target = target.unwrap_or(self.target);
                self.after = match (after, self.run) {
                    (None, Some(run)) => client.status(run).await.ok().as_ref().map(standing::run),
                    (after, _) => after,
                };
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
            ip: None,
            before: self.before.as_ref().map(standing::text),
            after: self.after.as_ref().map(standing::text),
        };
        client.store().access(&Access::Note(note)).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use outlast::{AnyError, Job, JobCtx, Outlast, Schedule};
    use outlast_store::AuditList;

    use super::*;

    async fn tidy(_: JobCtx, (): ()) -> Result<(), AnyError> {
        Ok(())
    }

    #[tokio::test]
    async fn a_tenant_finds_in_the_log_what_was_done_to_its_schedules() {
        let client = Outlast::open("sqlite::memory:").await.unwrap().client();
        let nightly = Schedule::cron("nightly", "0 3 * * *").tenant("acme");
        client.schedule(nightly, &Job::new("tidy", tidy), &()).await.unwrap();
        let change = Change::of_schedule(&client, "schedule.pause", "nightly").await;
        change.noted(&client, async { Ok::<_, Fault>(()) }).await.unwrap();
        let ask = AuditList { tenant: Some("acme".to_owned()), limit: 10, ..AuditList::default() };
        let lines = client.store().audit(&ask).await.unwrap();
        assert_eq!(lines.iter().map(|line| line.note.target.as_str()).collect::<Vec<_>>(), ["nightly"]);
    }

    #[tokio::test]
    async fn a_command_that_is_stopped_while_it_changes_something_ends_with_its_line() {
        let client = Outlast::open("sqlite::memory:").await.unwrap().client();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (go_on, mut goes_on) = tokio::sync::mpsc::channel::<()>(1);
        // It is stopped in the middle of the first change, and comes to no second.
        let change = async {
            stop.send(()).unwrap();
            goes_on.recv().await.unwrap();
            Ok::<_, Fault>(())
        };
        let work = async {
            Change::new("queue.pause", "mail").noted(&client, change).await?;
            Change::new("queue.pause", "report").noted(&client, async { Ok::<_, Fault>(()) }).await?;
            std::future::pending::<Result<(), Fault>>().await
        };
        let why = async {
            stopped.await.unwrap();
            go_on.send(()).await.unwrap();
            Fault::new(Exit::Interrupted, "interrupted", "stopped by Ctrl-C")
        };
        assert_eq!(until(why, work).await.unwrap_err().code(), "interrupted");
        let ask = AuditList { limit: 10, ..AuditList::default() };
        let lines = client.store().audit(&ask).await.unwrap();
        assert_eq!(lines.iter().map(|line| line.note.target.as_str()).collect::<Vec<_>>(), ["mail"]);
    }
}
