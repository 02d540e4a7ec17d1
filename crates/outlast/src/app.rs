//! Opening Outlast: where runs live, what this process knows how to run, and the engine that runs it.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Error, Limits, Payload, QueueRules};
use outlast_store::{DynStore, OpenOptions, ScheduleCard};
use tokio::runtime::Handle;

use crate::definition::Definition;
use crate::engine::{Engine, Settings, States};
use crate::queue::Queue;
use crate::registry::Registry;
use crate::schedule::Schedule;
use crate::{Client, Retention};

/// A schedule that code declares, made when the rest is known.
type Declared = Box<dyn FnOnce(&Client) -> Result<(String, ScheduleCard), Error> + Send>;

/// Outlast with its database open, about to run or to be used as a client.
///
/// ```
/// use outlast::prelude::*;
///
/// async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
///     let hello = ctx.step("greet", |_| async { Ok::<_, AnyError>(format!("Hello, {name}!")) }).await?;
///     ctx.sleep(5.millis()).await?;
///     Ok(hello)
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let greet = Workflow::new("greet", greet);
/// let app = Outlast::open("sqlite::memory:").await?.workflow(greet.clone()).run().await?;
/// let run = app.start(greet, "world".to_owned()).await?;
/// assert_eq!(run.result().await?, "Hello, world!");
/// app.shutdown(1.second()).await?;
/// # Ok::<(), AnyError>(()) }).unwrap();
/// ```
#[must_use = "nothing runs until .run() is called"]
pub struct Outlast {
    store: DynStore,
    registry: Registry,
    queues: BTreeMap<String, QueueRules>,
    schedules: Vec<Declared>,
    states: States,
    settings: Settings,
    limits: Limits,
    notify_in_tx: bool,
    /// Where it was opened, and so where the store's own tasks are.
    home: Option<Handle>,
    wrong: Option<Error>,
}

impl Outlast {
    /// Opens the database at `url`: `sqlite://orders.db`, `sqlite::memory:` or `postgres://…`. The
    /// schema is made or brought up to date.
    pub async fn open(url: &str) -> Result<Outlast, Error> {
        Ok(Outlast::on(outlast_store::open(url, OpenOptions::default()).await?))
    }

    /// The same on a store that is open already.
    #[doc(hidden)]
    pub fn on(store: DynStore) -> Outlast {
        Outlast {
            store,
            registry: Registry::default(),
            queues: BTreeMap::new(),
            schedules: Vec::new(),
            states: States::default(),
            settings: Settings::default(),
            limits: Limits::default(),
            notify_in_tx: true,
            home: Handle::try_current().ok(),
            wrong: None,
        }
    }

    /// Registers a workflow.
    pub fn workflow<D: Definition>(self, workflow: D) -> Outlast {
        self.register(workflow)
    }

    /// Registers a job.
    pub fn job<D: Definition>(self, job: D) -> Outlast {
        self.register(job)
    }

    fn register<D: Definition>(mut self, definition: D) -> Outlast {
        if let Err(error) = self.registry.add(definition.erase()) {
            self.wrong.get_or_insert(error);
        }
        self
    }

    /// Says what a queue allows. That holds on every node, until code says otherwise or people do
    /// ([`Client::set_queue_rules`]).
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(mail: Job<String, (), AnyError>) -> Result<(), AnyError> {
    /// let app = Outlast::open("sqlite://mail.db").await?
    ///     .job(mail)
    ///     .queue(Queue::new("mail").limit(20).per_group(2).rate(500, 1.minute()))
    ///     .run().await?;
    /// # Ok(()) }
    /// ```
    pub fn queue(mut self, queue: Queue) -> Outlast {
        match queue.checked() {
            Ok((name, _)) if self.queues.contains_key(&name) => {
                let error = Error::misconfigured(format!("queue {name:?} is described twice"));
                self.wrong.get_or_insert(error);
            }
            Ok((name, rules)) => {
                self.queues.insert(name, rules);
            }
            Err(error) => {
                self.wrong.get_or_insert(error);
            }
        }
        self
    }

    /// Starts runs of `definition` with `input` at times. The schedule is there when the node runs, and stays when this
    /// code is gone, until it is deleted ([`Client::delete_schedule`]); one that people paused stays paused.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(report: Job<String, (), AnyError>) -> Result<(), AnyError> {
    /// let app = Outlast::open("sqlite://reports.db").await?
    ///     .job(report.clone())
    ///     .schedule(Schedule::cron("weekly", "0 8 * * MON").zone("Europe/Berlin"), &report, "sales".into())
    ///     .run().await?;
    /// # Ok(()) }
    /// ```
    pub fn schedule<D: Definition>(mut self, schedule: Schedule, definition: &D, input: D::Input) -> Outlast {
        let name = definition.options().name;
        self.schedules.push(Box::new(move |client| {
            let payload = Payload::encode(format_args!("the input of {name}"), &input, client.limits())?;
            schedule.card(client, name, payload)
        }));
        self
    }

    /// How long ended runs are kept, unless their definition says it itself: for ever, if nothing is said here. It holds
    /// for runs that ended before too, and should be the same on every node: the shortest counts.
    ///
    /// Nodes look about once a minute and delete a bounded number at a time, without waiting for anybody. What has not
    /// ended stays, however old it is.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(mail: Job<String, (), AnyError>) -> Result<(), AnyError> {
    /// let app = Outlast::open("sqlite://mail.db").await?
    ///     .job(mail)
    ///     .retention(Retention::all(7.days()).failed(90.days()))
    ///     .run().await?;
    /// # Ok(()) }
    /// ```
    pub fn retention(mut self, retention: Retention) -> Outlast {
        self.settings.retention = retention;
        self
    }

    /// Gives handlers a shared value of its type: see [`Ctx::state`](crate::Ctx::state).
    pub fn state<T: Any + Send + Sync>(mut self, value: T) -> Outlast {
        self.states.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// How many runs this node runs at once.
    pub fn concurrency(mut self, runs: usize) -> Outlast {
        self.settings.concurrency = runs;
        self
    }

    /// Changes the engine's settings.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Outlast {
        change(&mut self.settings);
        self
    }

    /// Changes what is accepted.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Outlast {
        change(&mut self.limits);
        self
    }

    /// What handlers may call with [`Ctx::http`](crate::Ctx::http) and its like: everything public, unless told
    /// here.
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn egress(mut self, egress: crate::http::Egress) -> Outlast {
        self.settings.egress = egress;
        self
    }

    /// Whether what happens in a transaction of your own driver is announced on commit: yes, unless
    /// switched off here.
    ///
    /// PostgreSQL's `NOTIFY` makes the nodes look at once, but has all transactions that use it commit
    /// one after the other, and cannot be part of a two-phase commit. Without it nodes find out by
    /// themselves, within [`Settings::poll_every`]. SQLite needs no announcement.
    pub fn notify_in_tx(mut self, notify: bool) -> Outlast {
        self.notify_in_tx = notify;
        self
    }

    /// Does nothing but bulk operations ([`Client::bulk`]): for a process that is there for one where no other node is. It
    /// fires no schedule, and nobody's run is blocked because this process does not know its code.
    #[doc(hidden)]
    pub fn only_bulks(mut self) -> Outlast {
        self.settings.only_bulks = true;
        self
    }

    /// Has the node live in `process`, which can be stopped and killed.
    #[doc(hidden)]
    pub fn process(mut self, process: crate::testing::Process) -> Outlast {
        self.settings.process = Some(process);
        self
    }

    /// A client only: starts, sends and looks, but runs nothing. With definitions that were registered it refuses inputs
    /// that they cannot decode, as long as nodes have the same build of them.
    pub fn client(self) -> Client {
        Client::new(self.store, self.limits, self.registry, self.notify_in_tx, self.home)
    }

    /// The engine, which does nothing yet.
    pub(crate) fn into_engine(mut self) -> Result<Arc<Engine>, Error> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        self.registry.add_built_in()?;
        self.settings.check()?;
        self.registry.check_batches(self.settings.concurrency)?;
        let client =
            Client::new(self.store.clone(), self.limits, Registry::default(), self.notify_in_tx, self.home);
        let rules = self.queues.into_iter().collect();
        let (store, registry, states) = (self.store, self.registry, self.states);
        Ok(Engine::new(store, registry, rules, states, self.settings, self.limits, client))
    }

    /// Joins as a node and begins to run what is registered.
    pub async fn run(mut self) -> Result<App, Error> {
        let schedules = std::mem::take(&mut self.schedules);
        let engine = self.into_engine()?;
        let client = engine.client.clone();
        let schedules = schedules.into_iter().map(|declared| declared(&client));
        let schedules = schedules.collect::<Result<Vec<_>, _>>()?;
        client.check_schedules(&schedules, &engine.registry).await?;
        engine.begin().await?;
        client.attach(&engine);
        let app = App { client, engine: Arc::new(Stopper(engine)) };
        // Whoever is told that it does not run must not have it run.
        match app.declare(schedules).await {
            Ok(()) => Ok(app),
            Err(error) => {
                if let Err(unsaid) = app.shutdown(Duration::ZERO).await {
                    tracing::warn!(error = %unsaid, "a node that could not begin went without a good-bye");
                }
                Err(error)
            }
        }
    }
}

/// A running node. It is a [`Client`] too. Cheap to clone; dropping the last one stops the work at once
/// (use [`App::shutdown`] to end it well).
#[derive(Clone)]
pub struct App {
    client: Client,
    engine: Arc<Stopper>,
}

struct Stopper(Arc<Engine>);

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.halt();
    }
}

impl App {
    /// The client of this node.
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn declare(&self, schedules: Vec<(String, ScheduleCard)>) -> Result<(), Error> {
        for (name, card) in schedules {
            self.client.put_schedule(name, card).await?;
        }
        Ok(())
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine.0
    }

    /// Whether this node has nothing in hand and takes nothing up just now. Runs may be waiting.
    pub fn is_idle(&self) -> bool {
        self.engine.0.quiet().is_some()
    }

    /// Stops: no new work, work in hand is finished or handed back within `grace`, and whatever is left
    /// then is due for other nodes at once.
    pub async fn shutdown(self, grace: Duration) -> Result<(), Error> {
        self.engine.0.shut_down(grace).await
    }
}

impl Deref for App {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
