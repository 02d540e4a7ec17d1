//! What commands ask: a database itself, or a server that has one.
//!
//! Commands know only [`Backend`]. Behind it is either a client on the database, or the HTTP API of a running server
//! (`remote.rs`), whose JSON is read back (`read.rs`) into the very views that a client gives. So no command is written
//! twice, and both ways say the same.

mod asks;
mod changes;
mod direct;
mod noted;
mod read;
mod remote;

use std::time::Duration;

use outlast::{
    BulkReport, Client, DefinitionCard, Entry, Explained, Filter, LogLine, LogPlace, NodeView, Preview,
    QueueCard, QueueView, RepairPlan, RunId, RunView, ScheduleView, Target, Timestamp,
};
use outlast_store::{AuditList, FailureGroup, Link, Signal, TokenView};
use serde_json::value::RawValue;
use tokio::sync::broadcast::Receiver;

pub(crate) use self::asks::{BulkAsk, ForkAsk, MadeToken, RepairAsk, ScheduleAsk, StartAsk, Version};
pub(crate) use self::noted::{stoppable, until};
pub(crate) use self::remote::{Remote, ServerUrl};
use crate::fault::{Exit, Fault};
use crate::http::{AuditJson, CHAIN_LINES, ChainJson, look_at_chain};

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
            Err(_) => {
                let message = format!(
                    "{text:?} names no run: write its id (run_ and 26 letters and digits) or DEFINITION/KEY"
                );
                Err(Fault::new(Exit::Usage, "invalid_id", message))
            }
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

use both;

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

    /// From now on a server that is away is waited for; a database always is.
    pub(crate) fn be_patient(&self) {
        if let Backend::Remote(server) = self {
            server.be_patient();
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

    /// What a run's handlers logged behind `after`, at most so many lines, and what to ask behind for more. Servers count
    /// lines or have numbers for them: only 0, before all of them, is the same everywhere.
    pub(crate) async fn logs(
        &self,
        run: RunId,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<LogLine>, u64), Fault> {
        both!(self, client => {
            let lines = client.logs_after(run, LogPlace::of_number(after), limit).await?;
            let next_after = lines.last().map_or(after, |line| line.place().number());
            Ok((lines, next_after))
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

    /// Refuses what whoever asks a server may not do, as it would; whoever has a database may do everything.
    pub(crate) async fn may(&self, action: &str) -> Result<(), Fault> {
        both!(self, _client => Ok(()), server => server.may(action).await)
    }

    /// The run that a start would give because it is there already; refuses what a start would refuse.
    pub(crate) async fn plan_start(&self, ask: StartAsk) -> Result<Option<RunId>, Fault> {
        both!(self, client => Ok(direct::to_start(client, ask).rehearse().await?),
            server => server.plan_start(ask).await)
    }

    /// Refuses an event that would be refused.
    pub(crate) async fn plan_send(&self, to: &Which, name: &str, data: &RawValue) -> Result<(), Fault> {
        both!(self, client => Ok(client.rehearse_send(to.target(), name, data).await?),
            server => server.plan_message(to, "events", name, data).await)
    }

    /// Refuses a promise's value that would be refused.
    pub(crate) async fn plan_settle(&self, of: &Which, name: &str, data: &RawValue) -> Result<(), Fault> {
        both!(self, client => Ok(client.rehearse_settle(of.target(), name, data).await?),
            server => server.plan_message(of, "promises", name, data).await)
    }

    /// Refuses a schedule that would be refused.
    pub(crate) async fn plan_schedule(&self, ask: ScheduleAsk) -> Result<(), Fault> {
        both!(self, client => {
            let schedule = direct::schedule(&ask);
            Ok(client.rehearse_schedule(schedule, &ask.definition, ask.input.get()).await?)
        }, server => server.plan_schedule(ask).await)
    }

    /// What that would do.
    pub(crate) async fn plan_repair(&self, run: RunId, ask: &RepairAsk) -> Result<RepairPlan, Fault> {
        both!(self, client => Ok(direct::repair(client, run, ask).rehearse().await?),
            server => server.plan_repair(run, ask).await)
    }

    /// What that would do.
    pub(crate) async fn plan_fork(&self, run: RunId, ask: &ForkAsk) -> Result<RepairPlan, Fault> {
        both!(self, client => Ok(direct::fork(client, run, ask).rehearse().await?),
            server => server.plan_fork(run, ask).await)
    }

    /// The queue of this name, if there are rules or runs for it, or a definition that goes there.
    pub(crate) async fn queue(&self, name: &str) -> Result<QueueCard, Fault> {
        both!(self, client => crate::queue_commands::known(client, name).await,
            server => server.queue(name).await)
    }

    /// What a bulk would do.
    pub(crate) async fn preview(&self, ask: &BulkAsk) -> Result<Preview, Fault> {
        both!(self, client => Ok(direct::bulk(client, ask).preview().await?), server => server.preview(ask).await)
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
}

/// Why a command wants the database itself.
pub(crate) fn only_direct(command: &str) -> Fault {
    Fault::usage(format!(
        "`{command}` works on the database itself, not through a server: leave --url away (and unset OUTLAST_URL, and \
         choose a profile without one) and name the database with --database-url"
    ))
}
