//! What commands ask: a database itself, or a server that has one.
//!
//! Commands know only [`Backend`]. Behind it is either a client on the database, or the HTTP API of a running server
//! (`remote.rs`), whose JSON is read back (`read.rs`) into the very views that a client gives. So no command is written
//! twice, and both ways say the same.

mod asks;
mod direct;
mod noted;
mod read;
mod remote;

use std::time::Duration;

use outlast::{
    BulkReport, Client, DefinitionCard, Entry, Explained, Filter, LogLine, NodeView, Preview, QueueCard,
    QueueRules, QueueView, RepairPlan, RunId, RunView, ScheduleView, Target, Timestamp,
};
use outlast_store::{AuditList, FailureGroup, Link, Signal, TokenView};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

pub(crate) use self::asks::{
    BulkAsk, ForkAsk, MadeToken, RepairAsk, ScheduleAsk, StartAsk, TokenAsk, Version,
};
use self::noted::{Change, Made};
pub(crate) use self::noted::{stoppable, until};
pub(crate) use self::remote::{Remote, ServerUrl};
use crate::fault::Fault;
use crate::http::{AuditJson, CHAIN_LINES, ChainJson, look_at_chain};
use crate::standing;
use crate::words::took;

/// Where commands find what they ask for.
pub(crate) enum Backend {
    /// A client on the database.
    Direct(Client),
    /// A server, over HTTP.
    Remote(Remote),
}

/// How a run is named: by its id, or by definition and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    Id(RunId),
    Key { definition: String, key: String },
}

impl Which {
    /// Reads `run_…`, or `definition/key`.
    pub(crate) fn read(text: &str) -> Result<Which, Fault> {
        // Keys hold no slash; names of definitions may.
        if let Some((definition, key)) = text.rsplit_once('/') {
            return Ok(Which::Key { definition: definition.to_owned(), key: key.to_owned() });
        }
        match text.parse::<RunId>() {
            Ok(run) => Ok(Which::Id(run)),
            Err(_) => Err(Fault::usage(format!(
                "{text:?} names no run: write its id (run_ and 26 letters and digits) or DEFINITION/KEY"
            ))),
        }
    }

    pub(crate) fn target(&self) -> Target {
        match self {
            Which::Id(run) => (*run).into(),
            Which::Key { definition, key } => Target::key(definition, key),
        }
    }

    /// As a part of a path; the slash between definition and key is encoded by whoever makes the path.
    fn part(&self) -> String {
        match self {
            Which::Id(run) => run.to_string(),
            Which::Key { definition, key } => format!("{definition}/{key}"),
        }
    }
}

impl From<RunId> for Which {
    fn from(run: RunId) -> Which {
        Which::Id(run)
    }
}

/// Whatever has journals.
pub(crate) trait Journals {
    /// Entries of a run's journal after `after`, at most `limit`.
    fn entries(
        &self,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Entry>, Fault>> + Send;
}

impl Journals for Client {
    async fn entries(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, Fault> {
        Ok(self.journal(run, after, limit).await?)
    }
}

impl Journals for Backend {
    async fn entries(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, Fault> {
        match self {
            Backend::Direct(client) => client.entries(run, after, limit).await,
            Backend::Remote(server) => server.journal(run, after, limit).await,
        }
    }
}

/// Wakes whoever looks at one run again and again: at a hint of the database, or when its server tells of something.
pub(crate) enum News<'a> {
    Hints(Receiver<Signal>),
    Told(remote::Stream<'a>),
}

impl News<'_> {
    /// Waits for something new, at most so long; says whether to look again. Without anything new that is so too where
    /// not everything that happens is told.
    pub(crate) async fn within(&mut self, most: Duration) -> bool {
        match self {
            // A missed hint means to look as well, and steps inside of a turn give none.
            News::Hints(signals) => {
                drop(tokio::time::timeout(most, signals.recv()).await);
                true
            }
            News::Told(stream) => stream.within(most).await,
        }
    }
}

/// Both ways, for every question that commands have.
macro_rules! both {
    ($self:ident, $backend:ident => $direct:expr, $server:ident => $remote:expr) => {
        match $self {
            Backend::Direct($backend) => $direct,
            Backend::Remote($server) => $remote,
        }
    };
}

impl Backend {
    /// The client, for what only a database can do; else says how to ask for it.
    pub(crate) fn direct(&self, command: &str) -> Result<&Client, Fault> {
        match self {
            Backend::Direct(client) => Ok(client),
            Backend::Remote(_) => Err(only_direct(command)),
        }
    }

    /// The time by which everything is judged: the database's.
    pub(crate) async fn now(&self) -> Result<Timestamp, Fault> {
        both!(self, client => Ok(client.store().now().await?), server => server.now().await)
    }

    /// What happens to a run from now on.
    pub(crate) async fn news(&self, run: RunId) -> News<'_> {
        both!(self, client => News::Hints(client.store().signals()), server => News::Told(server.news(run).await))
    }

    /// One run.
    pub(crate) async fn run(&self, which: &Which) -> Result<RunView, Fault> {
        both!(self, client => direct::run(client, which).await, server => server.run(which).await)
    }

    /// One run, or none where its key has none yet.
    pub(crate) async fn run_if_any(&self, which: &Which) -> Result<Option<RunView>, Fault> {
        match self.run(which).await {
            Ok(view) => Ok(Some(view)),
            Err(fault) if fault.code() == "not_found" => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// One run by its id.
    pub(crate) async fn status(&self, run: RunId) -> Result<RunView, Fault> {
        self.run(&run.into()).await
    }

    /// Runs that fit, newest first, and whether there are more.
    pub(crate) async fn list(&self, filter: &Filter, limit: u32) -> Result<(Vec<RunView>, bool), Fault> {
        both!(self, client => {
            let page = client.list(filter, None, limit).await?;
            Ok((page.runs, page.next.is_some()))
        }, server => server.list(filter, limit).await)
    }

    /// What a run's handlers logged, without the first `after` lines: at most so many.
    pub(crate) async fn logs(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<LogLine>, Fault> {
        both!(self, client => {
            let lines = client.logs(run, after.saturating_add(limit)).await?;
            Ok(lines.into_iter().skip(after as usize).collect())
        }, server => server.logs(run, after, limit).await)
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueView>, Fault> {
        both!(self, client => Ok(client.queues().await?), server => server.queues().await)
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleView>, Fault> {
        both!(self, client => Ok(client.schedules().await?), server => server.schedules().await)
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<NodeView>, Fault> {
        both!(self, client => Ok(client.nodes().await?), server => server.nodes().await)
    }

    pub(crate) async fn definitions(&self) -> Result<Vec<DefinitionCard>, Fault> {
        both!(self, client => Ok(client.definitions().await?), server => server.definitions().await)
    }

    /// Failures that are alike, the last first.
    pub(crate) async fn failures(&self, limit: u32) -> Result<Vec<FailureGroup>, Fault> {
        both!(self, client => direct::failures(client, limit).await, server => server.failures(limit).await)
    }

    /// Whether nodes know this workflow or job; else names that look alike.
    pub(crate) async fn known_definition(&self, name: &str) -> Result<(), Fault> {
        both!(self, client => Ok(client.definition(name).await.map(drop)?),
            server => server.known_definition(name).await)
    }

    /// Why a run is not progressing.
    pub(crate) async fn explain(&self, which: &Which) -> Result<Explained, Fault> {
        both!(self, client => Ok(client.explain(which.target()).await?), server => server.explain(which).await)
    }

    /// A run with its journal, as a file.
    pub(crate) async fn export(&self, which: &Which) -> Result<String, Fault> {
        both!(self, client => {
            let run = client.find(which.target()).await?;
            Ok(client.export(run).await?.to_json())
        }, server => server.export(which).await)
    }

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

    /// Deletes a run that has ended, with everything of it.
    pub(crate) async fn delete(&self, run: RunId, reason: &str) -> Result<(), Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.delete", run).await.because(Some(reason));
            change.made(client, direct::delete(client, run), |()| Made::stands(json!({ "deleted": true }))).await
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

    /// What that would do.
    pub(crate) async fn plan_repair(&self, run: RunId, ask: &RepairAsk) -> Result<RepairPlan, Fault> {
        both!(self, client => Ok(direct::repair(client, run, ask).plan().await?),
            server => server.plan_repair(run, ask).await)
    }

    /// Starts another run from a step of one.
    pub(crate) async fn fork(&self, run: RunId, ask: &ForkAsk) -> Result<RunId, Fault> {
        both!(self, client => {
            let change = Change::of_run(client, "run.fork", run).await.because(ask.reason.as_deref());
            let made = |fork: &RunId| Made::stands(json!({ "sent": { "fork": fork.to_string() } }));
            change.made(client, direct::fork(client, run, ask), made).await
        }, server => server.fork(run, ask).await)
    }

    /// What that would do.
    pub(crate) async fn plan_fork(&self, run: RunId, ask: &ForkAsk) -> Result<RepairPlan, Fault> {
        both!(self, client => Ok(direct::fork(client, run, ask).plan().await?),
            server => server.plan_fork(run, ask).await)
    }

    /// The queue of this name, if there are rules or runs for it, or a definition that goes there.
    pub(crate) async fn queue(&self, name: &str) -> Result<QueueCard, Fault> {
        both!(self, client => crate::queue_commands::known(client, name).await,
            server => server.queue(name).await)
    }

    pub(crate) async fn pause_queue(&self, name: &str) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.pause", name).await;
            change.made(client, client.pause_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "pause").await)
    }

    pub(crate) async fn resume_queue(&self, name: &str) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.resume", name).await;
            change.made(client, client.resume_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "resume").await)
    }

    pub(crate) async fn drain_queue(&self, name: &str) -> Result<QueueCard, Fault> {
        both!(self, client => {
            let change = Change::of_queue(client, "queue.drain", name).await;
            change.made(client, client.drain_queue(name), |card| Made::stands(standing::queue(card))).await
        },
            server => server.change_queue(name, "drain").await)
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

    pub(crate) async fn pause_schedule(&self, name: &str) -> Result<ScheduleView, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.pause", name).await;
            change.made(client, client.pause_schedule(name), |view| Made::stands(standing::schedule(view))).await
        },
            server => server.change_schedule(name, "pause").await)
    }

    pub(crate) async fn resume_schedule(&self, name: &str) -> Result<ScheduleView, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.resume", name).await;
            change.made(client, client.resume_schedule(name), |view| Made::stands(standing::schedule(view))).await
        },
            server => server.change_schedule(name, "resume").await)
    }

    pub(crate) async fn trigger_schedule(&self, name: &str) -> Result<RunId, Fault> {
        both!(self, client => {
            let change = Change::of_schedule(client, "schedule.trigger", name).await;
            let made = |run: &RunId| Made::stands(json!({ "started": run.to_string() }));
            change.made(client, client.trigger_schedule(name), made).await
        },
            server => server.trigger_schedule(name).await)
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
            let span = json!({ "from": from.to_string(), "to": to.to_string() });
            let made = |runs: &Vec<RunId>| Made::stands(with(span, "started", runs.len()));
            change.made(client, client.backfill(name, from, to), made).await
        },
            server => server.backfill(name, from, to).await)
    }

    /// What a bulk would do.
    pub(crate) async fn preview(&self, ask: &BulkAsk) -> Result<Preview, Fault> {
        both!(self, client => Ok(direct::bulk(client, ask).preview().await?), server => server.preview(ask).await)
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

    /// What became of a bulk.
    pub(crate) async fn bulk_report(&self, run: RunId) -> Result<BulkReport, Fault> {
        both!(self, client => Ok(client.bulk_run(run).report().await?),
            server => server.bulk_report(run).await)
    }

    /// Lines of the audit log, newest first.
    pub(crate) async fn audit(&self, target: Option<String>, limit: u32) -> Result<Vec<AuditJson>, Fault> {
        both!(self, client => {
            let ask = AuditList { target, limit, ..AuditList::default() };
            Ok(client.store().audit(&ask).await?.into_iter().map(AuditJson::new).collect())
        },
            server => server.audit(target, limit).await)
    }

    /// Looks through the next part of the audit log's chain.
    pub(crate) async fn look_at_chain(
        &self,
        after: Option<&Link>,
        known: Option<&Link>,
    ) -> Result<ChainJson, Fault> {
        both!(self, client => Ok(look_at_chain(client, after, known, CHAIN_LINES).await?),
            server => server.look_at_chain(after, known).await)
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<TokenView>, Fault> {
        both!(self, client => Ok(client.store().tokens().await?), server => server.tokens().await)
    }

    pub(crate) async fn create_token(&self, ask: TokenAsk) -> Result<MadeToken, Fault> {
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
            let made = |view: &Option<TokenView>| Made { target: None, after: view.as_ref().map(standing::token) };
            change.made(client, direct::revoke_token(client, name), made).await
        },
            server => server.revoke_token(name).await)
    }
}

/// An object with one more field.
fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    object[name] = value.into();
    object
}

/// Why a command wants the database itself.
pub(crate) fn only_direct(command: &str) -> Fault {
    Fault::usage(format!(
        "`{command}` works on the database itself, not through a server: leave --url away (and unset OUTLAST_URL, and \
         choose a profile without one) and name the database with --database-url"
    ))
}
