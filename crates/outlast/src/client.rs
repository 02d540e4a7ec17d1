//! The client: start runs, talk to them, look at them. Works with or without an engine in this process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use outlast_core::{
    Error, Limits, Payload, RunId, Status, check_key, check_name, check_reason, mark_life, split_life,
};
use outlast_store::{
    Address, Control, Controlled, Cursor, DefinitionCard, Delivered, Delivery, DynStore, Ended, Filter,
    Listen, Listened, LogLine, LogPlace, LostNode, NewsKind, NodeView, Page, Purge, RunView, StoreError,
};
use serde::Serialize;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::RunHandle;
use crate::definition::{Definition, check_duration};
use crate::draft::{StartOptions, active};
use crate::engine::Engine;
use crate::registry::{Registry, is_built_in};
use crate::start::{Start, StartMany};
use crate::waiter::Waiter;

/// How often a call that may work in a moment is repeated, within about a second.
const REPEATS: u32 = 5;
/// How many entries of a journal are looked through at once.
const JOURNAL_PAGE: u32 = 1_000;

/// Starts runs, sends to them, settles their promises, cancels, kills, pauses, retries, lists and purges them. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    store: DynStore,
    limits: Limits,
    waiter: Waiter,
    engine: OnceLock<Weak<Engine>>,
    /// What it was made with, where nothing of it runs here.
    code: Registry,
    notify_in_tx: bool,
}

/// How a run is addressed: by its id, or by definition and key (also before it exists).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(pub(crate) Address);

impl From<RunId> for Target {
    fn from(run: RunId) -> Target {
        Target(Address::Run(run))
    }
}

impl Target {
    /// The run of `definition` with `key`, whether it exists yet or not.
    pub fn key(definition: impl Into<String>, key: impl Into<String>) -> Target {
        Target(Address::Key { tenant: String::new(), definition: definition.into(), key: key.into() })
    }

    /// The same, of a tenant.
    pub fn of_tenant(mut self, of: impl Into<String>) -> Target {
        if let Address::Key { tenant, .. } = &mut self.0 {
            *tenant = of.into();
        }
        self
    }

    pub(crate) fn check(self) -> Result<Address, Error> {
        if let Address::Key { tenant, definition, key } = &self.0 {
            check_name("definition name", definition)?;
            check_key(key)?;
            if !tenant.is_empty() {
                check_name("tenant", tenant)?;
            }
        }
        Ok(self.0)
    }

    pub(crate) fn shown(address: &Address) -> String {
        match address {
            Address::Run(run) => run.to_string(),
            Address::Key { definition, key, .. } => format!("{definition} with key {key:?}"),
        }
    }
}

impl Client {
    pub(crate) fn new(
        store: DynStore,
        limits: Limits,
        code: Registry,
        notify_in_tx: bool,
        home: Option<Handle>,
    ) -> Client {
        let waiter = Waiter::new(store.clone(), home);
        Client(Arc::new(Inner { store, limits, waiter, engine: OnceLock::new(), code, notify_in_tx }))
    }

    pub(crate) fn attach(&self, engine: &Arc<Engine>) {
        let _ = self.0.engine.set(Arc::downgrade(engine));
        self.0.waiter.attach(engine);
    }

    /// Tells whoever waits here that a run of this process has ended, durably.
    pub(crate) fn tell_end(&self, run: RunId, ended: &Ended) {
        self.0.waiter.ended(run, ended);
    }

    /// What this client accepts.
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Whether what happens in a transaction of the user's driver is announced.
    pub(crate) fn notifies_in_tx(&self) -> bool {
        self.0.notify_in_tx
    }

    /// The store underneath.
    #[doc(hidden)]
    pub fn store(&self) -> &DynStore {
        &self.0.store
    }

    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.0.engine.get().and_then(Weak::upgrade)
    }

    /// The code that it was made with.
    pub(crate) fn code(&self) -> &Registry {
        &self.0.code
    }

    // ---- start

    /// Starts a workflow or a job; `.await` gives its handle once the run is durable.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(app: App, greet: Workflow<String, String, AnyError>) -> Result<(), AnyError> {
    /// let run = app.start(greet, "you".into()).key("greet-you").await?;   // the same key never starts twice
    /// println!("{}", run.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn start<D: Definition>(&self, definition: D, input: D::Input) -> Start<D> {
        let run = self.new_run(&definition, &input, StartOptions::default());
        Start::new(self.clone(), run)
    }

    /// Starts a run by the name of its definition, with JSON, for callers without the code. Some node
    /// must have registered the definition.
    pub fn start_by_name(&self, name: &str, input: impl Into<String>) -> Start<Untyped> {
        let payload = Payload::from_json("input", input.into(), &self.0.limits);
        let run = check_name("definition name", name).map(str::to_owned).and_then(|name| {
            Ok(self.draft(&name, 1, outlast_store::RunKind::Workflow, "default", 5, payload?))
        });
        Start::by_name(self.clone(), run)
    }

    /// Starts many runs of one definition in one transaction. All of them or none.
    pub fn start_many<D: Definition>(
        &self,
        definition: D,
        inputs: impl IntoIterator<Item = D::Input>,
    ) -> StartMany<D> {
        StartMany::new(self.clone(), definition, inputs.into_iter().collect())
    }

    // ---- talk to runs

    /// Sends an event. It is kept until the run waits for it, also when the run does not exist yet
    /// (addressed by definition and key).
    pub async fn send<T: Serialize + ?Sized>(
        &self,
        to: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        let delivery = self.delivery(to.into(), NewsKind::Event, name, value)?;
        self.deliver(delivery).await
    }

    /// Sends an event that is the same event whenever it is sent with this id: it arrives once.
    #[doc(hidden)]
    pub async fn send_as<T: Serialize + ?Sized>(
        &self,
        id: Uuid,
        to: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        let delivery = self.delivery(to.into(), NewsKind::Event, name, value)?;
        self.deliver(Delivery { id, ..delivery }).await
    }

    /// Settles a promise of a run. The first value stays.
    ///
    /// Where the run has started over ([`Ctx::continue_as_new`](crate::Ctx::continue_as_new)), a name means the
    /// promise of its current life, whether that waits for it yet or not, and a value that nobody awaited there is
    /// kept for the next; a token means exactly one promise.
    pub async fn settle<T: Serialize + ?Sized>(
        &self,
        of: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        let delivery = self.delivery(of.into(), NewsKind::Settled, name, value)?;
        self.deliver(delivery).await
    }

    /// Settles a promise by the token that its run gave out. One of a life that is over is settled without
    /// effect.
    pub async fn settle_token<T: Serialize + ?Sized>(&self, token: &str, value: &T) -> Result<(), Error> {
        let wrong = || Error::invalid("promise token", token, "what PromiseWait::token gave");
        let (run, name) = token.split_once('.').ok_or_else(wrong)?;
        let (run, life) = run.split_once('@').unwrap_or((run, "0"));
        let run: RunId = run.parse().map_err(|_| wrong())?;
        let life: u32 = life.parse().map_err(|_| wrong())?;
        self.settle(run, &mark_life(name, life), value).await
    }

    pub(crate) fn delivery<T: Serialize + ?Sized>(
        &self,
        to: Target,
        kind: NewsKind,
        name: &str,
        value: &T,
    ) -> Result<Delivery, Error> {
        let what = if kind == NewsKind::Event { "event name" } else { "promise name" };
        check_name(what, name)?;
        let body = Payload::encode(format_args!("{what} {name:?}"), value, &self.0.limits)?;
        let id = Uuid::from_u128(fastrand::u128(..));
        Ok(Delivery { id, to: to.check()?, kind, name: name.to_owned(), body: Some(body) })
    }

    async fn deliver(&self, delivery: Delivery) -> Result<(), Error> {
        // A run that waits in this very process goes on at once: nobody has to claim it.
        if let Address::Run(run) = delivery.to
            && let Some(engine) = self.engine()
            && let Some((epoch, slot, claim)) = engine.try_wake(run)
        {
            let (answer, claimed) = repeated(|| self.0.store.wake(&delivery, claim.hold, epoch)).await?;
            if let Some(claimed) = claimed {
                engine.begin_woken(claimed, slot).await;
            }
            return delivered(&delivery, Some(answer));
        }
        let messages = std::slice::from_ref(&delivery);
        let answers = repeated(|| self.0.store.deliver(messages)).await?;
        delivered(&delivery, answers.into_iter().next())
    }

    /// Asks a run to stop, in whatever state it is. `true` when the request was taken; `false` when the
    /// run had ended before.
    pub async fn cancel(&self, run: impl Into<Target>, reason: &str) -> Result<bool, Error> {
        self.stop(self.cancel_control(run.into(), reason)?).await
    }

    /// Has a run cancelled or killed.
    pub(crate) async fn stop(&self, control: Control) -> Result<bool, Error> {
        let tries = AtomicU32::new(0);
        let ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            self.0.store.control(&control)
        };
        match repeated(ask).await? {
            // The try whose reply got lost may be what ended it.
            Controlled::Final { status: Status::Cancelled, .. } if tries.into_inner() > 1 => Ok(true),
            answer => cancelled(&control, answer),
        }
    }

    pub(crate) fn cancel_control(&self, run: Target, reason: &str) -> Result<Control, Error> {
        Ok(Control::Cancel { run: run.check()?, reason: check_reason(reason)?.to_owned() })
    }

    /// Deletes one run, with everything of it, that has ended or never began. One that never began, that no node has ever
    /// taken and that has recorded nothing, ends as cancelled first, of which its parent and whoever else waits for it
    /// hears. `false` when there is no such run any more, it has begun and not ended, is paused or blocked, or stands for
    /// its kind for a period ([`Unique::within`](crate::Unique::within)).
    ///
    /// A crash leaves it as it was, cancelled, or deleted.
    pub async fn delete_run(&self, run: RunId, reason: &str) -> Result<bool, Error> {
        let view = self.status(run).await?;
        if !view.status.is_final() && !self.withdraw(&view, reason).await? {
            return Ok(false);
        }
        self.purge_run(run).await
    }

    /// Ends a run that never began. A fork, or one that was tried again, has a journal already.
    async fn withdraw(&self, view: &RunView, reason: &str) -> Result<bool, Error> {
        let run = view.record.id;
        let never_began = view.status == Status::Ready && view.epoch == 0;
        if !never_began || !self.journal(run, 0, 1).await?.is_empty() {
            return Ok(false);
        }
        let control = Control::Withdraw { run: Address::Run(run), reason: check_reason(reason)?.to_owned() };
        // By whomever: what has ended can be deleted.
        Ok(matches!(repeated(|| self.0.store.control(&control)).await?, Controlled::Final { .. }))
    }

    /// Deletes runs that ended longer ago than this, with everything of them, in bounded batches; one that stands for its
    /// kind for a period ([`Unique::within`](crate::Unique::within), `throttle`) stays until that is over. Gives their
    /// number, without those of a batch whose reply got lost.
    pub async fn purge(&self, older_than: Duration) -> Result<u64, Error> {
        check_duration("age", older_than)?;
        const BATCH: u32 = 1000;
        let mut purge = Purge::older_than(older_than, BATCH);
        let mut purged = 0;
        loop {
            let control = Control::Purge(purge.clone());
            let Controlled::Purged(batch) = repeated(|| self.0.store.control(&control)).await? else {
                return Ok(purged);
            };
            purged += batch.runs;
            purge.after = batch.marks;
            if !batch.more {
                return Ok(purged);
            }
        }
    }

    /// Deletes one run that has ended, with everything of it. `false` when there is no such run, it has not ended, or it
    /// stands for its kind for a period ([`Unique::within`](crate::Unique::within)).
    pub async fn purge_run(&self, run: RunId) -> Result<bool, Error> {
        let control = Control::Purge(Purge::one(run));
        loop {
            match repeated(|| self.0.store.control(&control)).await? {
                // A long journal goes page by page.
                Controlled::Purged(purged) if purged.more && purged.runs == 0 => {}
                Controlled::Purged(purged) => return Ok(purged.runs > 0),
                _ => return Ok(false),
            }
        }
    }

    // ---- look at runs

    /// A handle to a run that exists, typed by its definition.
    pub fn handle<D: Definition>(&self, _definition: &D, run: RunId) -> RunHandle<D> {
        RunHandle::new(self.clone(), run, false)
    }

    /// The run that a key names.
    pub async fn find(&self, run: impl Into<Target>) -> Result<RunId, Error> {
        let address = run.into().check()?;
        let found = repeated(|| self.0.store.find(&address)).await?;
        found.ok_or_else(|| Error::UnknownRun { run: Target::shown(&address) })
    }

    /// Everything about a run.
    pub async fn status(&self, run: RunId) -> Result<RunView, Error> {
        let found = repeated(|| self.0.store.run(run)).await?;
        found.ok_or_else(|| Error::UnknownRun { run: run.to_string() })
    }

    /// Runs, newest first unless the filter says otherwise, a page at a time.
    pub async fn list(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Page, Error> {
        match limit {
            1..=500 => Ok(repeated(|| self.0.store.list(filter, after, limit)).await?),
            _ => Err(Error::invalid("page size", limit, "1 to 500")),
        }
    }

    /// How many runs fit a filter; no more than `cap` are counted.
    pub async fn count(&self, filter: &Filter, cap: u32) -> Result<u64, Error> {
        Ok(repeated(|| self.0.store.count(filter, cap)).await?)
    }

    /// What a run has recorded, after a position, at most `limit` entries.
    pub async fn journal(
        &self,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<outlast_core::Entry>, Error> {
        Ok(repeated(|| self.0.store.journal(run, after, limit)).await?)
    }

    /// What a run last saved under a name with [`Ctx::save`](crate::Ctx::save), as its journal has it; `None` when it
    /// saved nothing of that name. A name of a scope has the scope in front: `scope/name`.
    pub async fn saved(&self, run: RunId, name: &str) -> Result<Option<outlast_core::Entry>, Error> {
        let is_it = |entry: &outlast_core::Entry| {
            // As what was carried over, or with its occurrence.
            let saved = entry.name.strip_prefix('=').unwrap_or(&entry.name);
            let is_named = match saved.rsplit_once('#') {
                Some((plain, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => plain == name,
                _ => saved == name,
            };
            entry.op == outlast_core::Op::State && entry.phase == outlast_core::Phase::Done && is_named
        };
        let (mut found, mut after) = (None, 0);
        loop {
            let page = self.journal(run, after, JOURNAL_PAGE).await?;
            let next = page.last().map(|entry| entry.pos);
            let is_last = page.len() < JOURNAL_PAGE as usize;
            found = page.into_iter().rev().find(is_it).or(found);
            match next {
                Some(next) if !is_last => after = next,
                _ => return Ok(found),
            }
        }
    }

    /// What a run's handlers logged, from the first line on.
    pub async fn logs(&self, run: RunId, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.logs_after(run, LogPlace::default(), limit).await
    }

    /// What a run's handlers logged behind `after`, the [`LogLine::place`] of the last line that is known. What has been
    /// read stays as it is: whoever follows a log asks for each line once.
    pub async fn logs_after(&self, run: RunId, after: LogPlace, limit: u32) -> Result<Vec<LogLine>, Error> {
        Ok(repeated(|| self.0.store.logs(run, after, limit)).await?)
    }

    /// The place of the newest line that a run's handlers logged.
    pub async fn log_end(&self, run: RunId) -> Result<LogPlace, Error> {
        Ok(repeated(|| self.0.store.log_end(run)).await?)
    }

    /// The nodes that are up.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, Error> {
        Ok(repeated(|| self.0.store.nodes()).await?)
    }

    /// The nodes that were lost in the last day, the last first, with how many runs others took over.
    pub async fn lost_nodes(&self) -> Result<Vec<LostNode>, Error> {
        Ok(repeated(|| self.0.store.lost_nodes()).await?)
    }

    /// The definitions that nodes have registered. Outlast's own are not among them.
    pub async fn definitions(&self) -> Result<Vec<DefinitionCard>, Error> {
        let cards = repeated(|| self.0.store.definitions()).await?;
        Ok(cards.into_iter().filter(|card| !is_built_in(&card.name)).collect())
    }

    /// The active version of one definition.
    pub async fn definition(&self, name: &str) -> Result<DefinitionCard, Error> {
        active(self.definitions().await?, name)
    }

    /// Has a run hear of another's end as of a child's.
    pub(crate) async fn listen(&self, ask: Listen) -> Result<(), Error> {
        match repeated(|| self.0.store.listen(&ask)).await? {
            Listened::Noted | Listened::Ended => Ok(()),
            Listened::Unknown => Err(Error::UnknownRun { run: ask.run.to_string() }),
        }
    }

    /// Waits for a run's end.
    pub(crate) async fn wait_ended(&self, run: RunId) -> Result<Ended, Error> {
        self.0.waiter.wait(run).await
    }
}

/// Calls again what may work in a moment. Only for calls that are the same call when repeated, so that one
/// whose reply got lost happens once.
pub(crate) async fn repeated<T, Fut>(call: impl Fn() -> Fut) -> Result<T, StoreError>
where
    Fut: Future<Output = Result<T, StoreError>>,
{
    let mut pause = Duration::from_millis(20);
    for _ in 0..REPEATS {
        match call().await {
            Err(error) if error.is_retryable() => {
                tracing::debug!(%error, "a call is repeated");
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause *= 2;
            }
            other => return other,
        }
    }
    call().await
}

/// Runs started by name have no types here: their results are JSON.
#[derive(Debug, Clone, Copy)]
pub enum Untyped {}

pub(crate) fn delivered(delivery: &Delivery, answer: Option<Delivered>) -> Result<(), Error> {
    match answer {
        Some(Delivered::Done { .. }) => Ok(()),
        Some(Delivered::AlreadySettled { run }) => {
            Err(Error::AlreadySettled { name: split_life(&delivery.name).0.to_owned(), run })
        }
        Some(Delivered::Closed { run, status }) => Err(Error::Closed { run, status: status.to_string() }),
        Some(Delivered::Full { run, limit }) => Err(Error::InboxFull { run, limit: limit.into() }),
        Some(Delivered::Unknown) | None => Err(Error::UnknownRun { run: Target::shown(&delivery.to) }),
    }
}

pub(crate) fn cancelled(control: &Control, answer: Controlled) -> Result<bool, Error> {
    match (answer, control) {
        (Controlled::Asked { .. }, _) => Ok(true),
        (Controlled::Final { by_this, .. }, _) => Ok(by_this),
        (_, Control::Cancel { run, .. } | Control::Kill { run, .. }) => {
            Err(Error::UnknownRun { run: Target::shown(run) })
        }
        _ => Ok(false),
    }
}
