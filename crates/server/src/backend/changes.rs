//! What commands change: in a database itself, each with its line in the audit log, or through a server, which notes it.

use std::time::Duration;

use outlast::{QueueCard, QueueRules, RunId, ScheduleView, Timestamp};
use outlast_store::TokenView;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::noted::{Change, Made};
use super::{Backend, BulkAsk, ForkAsk, MadeToken, RepairAsk, ScheduleAsk, StartAsk, Which, both, direct};
use crate::fault::Fault;
use crate::standing;
use crate::words::took;

impl Backend {
    /// Starts a run; says whether it was not there before.
    pub(crate) async fn start(&self, ask: StartAsk) -> Result<(RunId, bool), Fault> {
        both!(self, client => {
            let change = Change::new("run.start", &ask.definition);
            let input = standing::hash(ask.input.get().as_bytes());
            let after = json!({ "definition": ask.definition, "input": input });
            let made = |(run, created): &(RunId, bool)| {
                Made { target: Some(run.to_string()), after: Some(with(after, "created", *created)) }
            };
            change.made(client, direct::start(client, ask), made).await
        }, server => server.start(ask).await)
    }

    /// Sends an event and gives its id, where the server tells it. The same `key` sends it once.
    pub(crate) async fn send(
        &self,
        to: &Which,
        name: &str,
        data: &RawValue,
        key: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        both!(self, client => {
            let change = direct::change_of(client, "run.send", to).await;
            let hash = standing::hash(data.get().as_bytes());
            let made = |event: &String| {
                Made::stands(json!({ "sent": { "event": event, "name": name, "data": hash } }))
            };
            change.made(client, direct::send(client, to, name, data, key), made).await.map(Some)
        },
            server => server.message(to, "events", name, data, key).await)
    }

    /// Settles a promise.
    pub(crate) async fn settle(&self, of: &Which, name: &str, data: &RawValue) -> Result<(), Fault> {
        both!(self, client => {
            let change = direct::change_of(client, "run.settle", of).await;
            let hash = standing::hash(data.get().as_bytes());
            let made = |(): &()| Made::stands(json!({ "sent": { "promise": name, "data": hash } }));
            change.made(client, client.settle(of.target(), name, data), made).await
        },
            server => server.message(of, "promises", name, data, None).await.map(drop))
    }

    /// Asks a run to stop; `false` when it has ended.
    pub(crate) async fn cancel(&self, run: RunId, reason: &str) -> Result<bool, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.cancel", run).await.because(Some(reason));
            change.noted(client, client.cancel(run, reason)).await
        },
            server => server.act(run, "cancel", Some(reason)).await)
    }

    /// Ends a run at once; `false` when it has ended.
    pub(crate) async fn kill(&self, run: RunId, reason: &str) -> Result<bool, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.kill", run).await.because(Some(reason));
            change.noted(client, client.kill(run, reason)).await
        },
            server => server.act(run, "kill", Some(reason)).await)
    }

    /// Holds a run back; `false` when it has ended.
    pub(crate) async fn pause(&self, run: RunId, reason: &str) -> Result<bool, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.pause", run).await.because(Some(reason));
            change.noted(client, client.pause(run, reason)).await
        },
            server => server.act(run, "pause", Some(reason)).await)
    }

    /// Lets a run go on; `false` when it was not paused.
    pub(crate) async fn resume(&self, run: RunId, reason: Option<&str>) -> Result<bool, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.resume", run).await.because(reason);
            change.noted(client, client.resume(run)).await
        }, server => server.act(run, "resume", reason).await)
    }

    /// Has a run go on now, or at another time; `false` when there was no time to change.
    pub(crate) async fn make_due(
        &self,
        run: RunId,
        at: Option<Timestamp>,
        reason: Option<&str>,
    ) -> Result<bool, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.due", run).await.because(reason);
            change.noted(client, client.make_due(run, at)).await
        }, server => server.make_due(run, at, reason).await)
    }

    /// Deletes a run that has ended or never began, with everything of it.
    pub(crate) async fn delete(&self, run: RunId, reason: &str) -> Result<(), Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.delete", run).await.because(Some(reason));
            change.made(client, direct::delete(client, run, reason), |()| Made::stands(json!({ "deleted": true }))).await
        }, server => server.delete(run, reason).await)
    }

    /// Deletes runs that ended so long ago; says how many.
    pub(crate) async fn purge(&self, older_than: Duration) -> Result<u64, Fault> {
        let client = self.direct("purge")?;
        let change = Change::new("run.purge", format!("older than {}", took(older_than)));
        let made = |runs: &u64| Made::stands(json!({ "deleted": runs }));
        change.made(client, client.purge(older_than), made).await
    }

    /// Tries a run again, or gives a step of it another result.
    pub(crate) async fn repair(&self, run: RunId, ask: &RepairAsk) -> Result<bool, Fault> {
        both!(self, client => {
            let action = if ask.replace.is_some() { "run.replace" } else { "run.retry" };
            let change = Change::of_run(client, action, run).await.because(ask.reason.as_deref());
            change.noted(client, direct::repair(client, run, ask)).await
        },
            server => server.repair(run, ask).await)
    }

    /// Starts another run from a step of one.
    pub(crate) async fn fork(&self, run: RunId, ask: &ForkAsk) -> Result<RunId, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.fork", run).await.because(ask.reason.as_deref());
            let made = |fork: &RunId| Made::stands(json!({ "sent": { "fork": fork.to_string() } }));
            change.made(client, direct::fork(client, run, ask), made).await
        }, server => server.fork(run, ask).await)
    }

    pub(crate) async fn pause_queue(&self, name: &str, reason: Option<&str>) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.pause", name).await.because(reason);
            change.made(client, client.pause_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "pause", reason).await)
    }

    pub(crate) async fn resume_queue(&self, name: &str, reason: Option<&str>) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.resume", name).await.because(reason);
            change.made(client, client.resume_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "resume", reason).await)
    }

    pub(crate) async fn drain_queue(&self, name: &str, reason: Option<&str>) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.drain", name).await.because(reason);
            change.made(client, client.drain_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "drain", reason).await)
    }

    /// Sets rules of people's own; `None`: back to what code says.
    pub(crate) async fn set_queue_rules(
        &self,
        name: &str,
        rules: Option<QueueRules>,
    ) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let action = if rules.is_some() { "queue.limit" } else { "queue.reset" };
            let change = Change::of_queue(client, action, name).await;
            let made = |card: &QueueCard| Made::stands(standing::queue(card));
            change.made(client, client.set_queue_rules(name, rules), made).await
        },
            server => server.set_queue_rules(name, rules).await)
    }

    pub(crate) async fn set_schedule(&self, ask: ScheduleAsk) -> Result<ScheduleView, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.set", &ask.name).await;
            let made = |view: &ScheduleView| Made::stands(standing::schedule(view));
            change.made(client, direct::set_schedule(client, ask), made).await
        },
            server => server.set_schedule(ask).await)
    }

    pub(crate) async fn pause_schedule(
        &self,
        name: &str,
        reason: Option<&str>,
    ) -> Result<ScheduleView, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.pause", name).await.because(reason);
            change.made(client, client.pause_schedule(name), |view| Made::stands(standing::schedule(view))).await
        },
            server => server.change_schedule(name, "pause", reason).await)
    }

    pub(crate) async fn resume_schedule(
        &self,
        name: &str,
        reason: Option<&str>,
    ) -> Result<ScheduleView, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.resume", name).await.because(reason);
            change.made(client, client.resume_schedule(name), |view| Made::stands(standing::schedule(view))).await
        },
            server => server.change_schedule(name, "resume", reason).await)
    }

    pub(crate) async fn trigger_schedule(&self, name: &str, reason: Option<&str>) -> Result<RunId, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.trigger", name).await.because(reason);
            let made = |run: &RunId| Made::stands(json!({ "started": run.to_string() }));
            change.made(client, client.trigger_schedule(name), made).await
        },
            server => server.trigger_schedule(name, reason).await)
    }

    pub(crate) async fn delete_schedule(&self, name: &str) -> Result<(), Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.delete", name).await;
            change.made(client, client.delete_schedule(name), |_| Made::stands(json!({ "deleted": true }))).await
        },
            server => server.delete_schedule(name).await)
    }

    /// Starts a run for each time that has none; gives those.
    pub(crate) async fn backfill(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<RunId>, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.backfill", name).await;
            let span = json!({ "from": from.exact(), "to": to.exact() });
            let made = |runs: &Vec<RunId>| Made::stands(with(span, "started", runs.len()));
            change.made(client, client.backfill(name, from, to), made).await
        },
            server => server.backfill(name, from, to).await)
    }

    /// Begins a bulk.
    pub(crate) async fn bulk(&self, ask: &BulkAsk) -> Result<RunId, Fault> {
        both!(self, client => {
            let bulk = direct::bulk(client, ask);
            let change = Change::new("bulk.create", ask.op.word()).because(ask.why());
            let made = |run: &outlast::BulkRun| {
                let after = json!({ "op": ask.op.word(), "all": ask.all });
                Made { target: Some(run.id().to_string()), after: Some(after) }
            };
            change.made(client, bulk.start(), made).await.map(|run| run.id())
        },
            server => server.bulk(ask).await)
    }

    pub(crate) async fn create_token(&self, ask: crate::http::TokenAsk) -> Result<MadeToken, Fault> {
        both!(self, client => {
            let change = Change::new("token.create", &ask.subject);
            let made = |made: &MadeToken| Made {
                target: Some(crate::http::token_name(made.view.card.id)),
                after: Some(standing::token(&made.view)),
            };
            change.made(client, direct::create_token(client, ask), made).await
        },
            server => server.create_token(ask).await)
    }

    /// From now on it opens nothing; `None` where there is no such token.
    pub(crate) async fn revoke_token(&self, name: &str) -> Result<Option<TokenView>, Fault> {
        both!(self, client => {
            let change = Change::of_token(client, "token.revoke", name).await;
            let made = |view: &TokenView| Made::stands(standing::token(view));
            match change.made(client, direct::revoke_token(client, name), made).await {
                Err(fault) if fault.code() == "not_found" => Ok(None),
                revoked => revoked.map(Some),
            }
        },
            server => server.revoke_token(name).await)
    }
}

/// An object with one more field.
fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    object[name] = value.into();
    object
}
