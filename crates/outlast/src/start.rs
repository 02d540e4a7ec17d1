//! Starting runs: the builder whose `.await` makes the run durable.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, FailureDoc, Payload, RunId, check_count};
use outlast_store::{NewRun, RunRecord, RunView, Started};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::{Client, Untyped};
use crate::definition::Definition;
use crate::draft::{StartOptions, started};
use crate::in_tx::InTx;
use crate::unique::Unique;

/// What can be said of every run about to be started: when, where in line, by what it is found.
macro_rules! place_options {
    () => {
        /// The queue, when not the definition's own.
        pub fn queue(mut self, queue: impl Into<String>) -> Self {
            self.options.queue = Some(queue.into());
            self
        }

        /// What it belongs to in its queue (a customer, an account), when not to its tenant: see
        /// [`Queue`](crate::Queue).
        pub fn group(mut self, group: impl Into<String>) -> Self {
            self.options.group = Some(group.into());
            self
        }

        /// The priority, from 0 (most urgent) to 9, when not the definition's own.
        pub fn priority(mut self, priority: u8) -> Self {
            self.options.priority = Some(priority);
            self
        }

        /// Starts it this much later, by the database's clock. Its timeout has to be longer.
        pub fn delay(mut self, delay: std::time::Duration) -> Self {
            self.options.delay = Some(delay);
            self
        }

        /// Starts it at this time.
        pub fn at(mut self, time: impl Into<outlast_core::Timestamp>) -> Self {
            self.options.at = Some(time.into());
            self
        }

        /// How long it may take from now until it ends.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// A searchable attribute.
        pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.options.tags.push((name.into(), value.into()));
            self
        }
    };
}
pub(crate) use place_options;

/// For whom a run acts. A child acts for whoever its parent acts for.
macro_rules! origin_options {
    () => {
        /// Who starts it.
        pub fn owner(mut self, owner: impl Into<String>) -> Self {
            self.options.owner = Some(owner.into());
            self
        }

        /// Whose run it is.
        pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
            self.options.tenant = tenant.into();
            self
        }

        /// A role with which it acts.
        pub fn role(mut self, role: impl Into<String>) -> Self {
            self.options.roles.push(role.into());
            self
        }

        /// The W3C trace context of whoever starts it: a `traceparent`, and behind a `;` perhaps a `tracestate`.
        pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
            self.options.trace = Some(traceparent.into());
            self
        }

        /// The run it belongs to. That run is not told of its end.
        pub fn parent(mut self, run: outlast_core::RunId) -> Self {
            self.options.parent = Some(outlast_store::Parent { run, op: None });
            self
        }
    };
}

/// A run about to be started: see [`Client::start`].
#[must_use = "a run is not started unless awaited"]
pub struct Start<D> {
    client: Client,
    run: Result<NewRun, Error>,
    options: StartOptions,
    by_name: bool,
    kind: PhantomData<fn() -> D>,
}

impl<D: 'static> Start<D> {
    pub(crate) fn new(client: Client, run: Result<NewRun, Error>) -> Start<D> {
        Start { client, run, options: StartOptions::default(), by_name: false, kind: PhantomData }
    }

    pub(crate) fn by_name(client: Client, run: Result<NewRun, Error>) -> Start<D> {
        Start { by_name: true, ..Start::new(client, run) }
    }

    /// Has it act for whoever this run acts for, where nothing else is said.
    pub(crate) fn act_for(mut self, run: &RunRecord) -> Self {
        self.options.act_for(run);
        self
    }

    /// An idempotency key: the same key and input never start twice, another input is a conflict.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// The only one of its kind: another is not started beside it, refused, or takes its place. See [`Unique`].
    ///
    /// A child of a workflow is never asked whether it is the only one: it is started once.
    pub fn unique(mut self, unique: Unique) -> Self {
        self.options.is_unique_twice |= self.options.unique.replace(unique).is_some();
        self
    }

    /// Starts after `wait`, and if it is started again with this key until then, waits anew and takes the newer input:
    /// of many in quick succession the last one runs, once. It is never put off for longer than a hundred times `wait`.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(app: App, index: Job<u32, (), AnyError>) -> Result<(), AnyError> {
    /// app.start(index, 42).debounce("doc-42", 5.seconds()).await?;
    /// # Ok(()) }
    /// ```
    pub fn debounce(mut self, key: impl Into<String>, wait: Duration) -> Self {
        let at_most = wait.saturating_mul(100).min(outlast_core::Limits::DURATION);
        self.options.wait = Some(wait);
        self.unique(Unique::by_key(key).until_begun(Some(at_most)).replace())
    }

    /// Starts at most once in any `period` with this key; whoever comes too soon is given the run that was started.
    pub fn throttle(self, key: impl Into<String>, period: Duration) -> Self {
        self.unique(Unique::by_key(key).within(period))
    }

    place_options!();
    origin_options!();

    /// The run as it will be started.
    pub(crate) async fn prepare(self) -> Result<(Client, NewRun), Error> {
        let mut run = self.run?;
        if self.by_name {
            self.client.resolve(&mut run, &self.options, self.client.definitions().await?)?;
        }
        self.client.apply(&mut run, self.options)?;
        Ok((self.client, run))
    }

    /// Starts it inside a transaction: when that commits, the run exists; when it rolls back, it never did.
    ///
    /// The transaction may be Outlast's own or your driver's: see [`InTx`]. The handle is of use once it
    /// has committed.
    pub async fn in_tx(self, tx: impl InTx) -> Result<RunHandle<D>, Error> {
        let (client, run) = self.prepare().await?;
        let answers = client.perform(tx, std::slice::from_ref(&run)).await?;
        let (id, created) = started(&run, answers.into_iter().next())?;
        Ok(RunHandle::new(client, id, created))
    }

    /// Starts it inside an SQLite transaction of rusqlite: a `&rusqlite::Transaction`, or a connection on
    /// which one is open.
    ///
    /// Begin the transaction as `Immediate`: one that reads first and writes later fails when anybody else
    /// wrote in between. While it is open nobody else writes, Outlast included. In a server, do all of it
    /// inside `tokio::task::spawn_blocking`.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// use rusqlite::TransactionBehavior::Immediate;
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = std::env::temp_dir().join(format!("outlast-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let file = folder.join("orders.db").display().to_string();
    /// # let double = Workflow::new("double", |_: Ctx, n: u32| async move { Ok::<u32, AnyError>(2 * n) });
    /// # let app = Outlast::open(&format!("sqlite://{file}")).await?.workflow(double.clone()).run().await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// connection.execute_batch("create table orders (id integer primary key)")?;
    ///
    /// let tx = connection.transaction_with_behavior(Immediate)?;
    /// tx.execute("insert into orders values (21)", [])?;
    /// let run = app.start(double, 21).key("order-21").in_tx_blocking(&tx)?;
    /// tx.commit()?;
    /// assert_eq!(run.result().await?, 42);
    /// # drop((app, connection));
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    #[cfg(feature = "rusqlite")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rusqlite")))]
    pub fn in_tx_blocking(self, tx: &rusqlite::Connection) -> Result<RunHandle<D>, Error> {
        let mut run = self.run?;
        if self.by_name {
            let cards = outlast_store::adapters::rusqlite::definitions(tx, self.client.store())?;
            self.client.resolve(&mut run, &self.options, cards)?;
        }
        self.client.apply(&mut run, self.options)?;
        let answers = self.client.perform_blocking(tx, std::slice::from_ref(&run))?;
        let (id, created) = started(&run, answers.into_iter().next())?;
        Ok(RunHandle::new(self.client, id, created))
    }
}

impl Start<Untyped> {
    /// With this version of the code, instead of the one that new runs take. Some node must have registered it.
    pub fn version(mut self, version: u32) -> Self {
        self.options.version = Some(version);
        self
    }

    /// With an id that is made of this alone and of where the run lives: whoever starts it again with the same starts
    /// nothing new.
    #[doc(hidden)]
    pub fn seed(mut self, time: outlast_core::Timestamp, random: u64) -> Self {
        self.options.seed = Some((time, random));
        self
    }
}

impl<D: 'static> IntoFuture for Start<D> {
    type Output = Result<RunHandle<D>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.prepared().await?.start().await })
    }
}

/// Many runs about to be started: see [`Client::start_many`]. What is said of them holds for each.
#[must_use = "runs are not started unless awaited"]
pub struct StartMany<D: Definition> {
    client: Client,
    definition: D,
    inputs: Vec<D::Input>,
    /// One for each input, or none.
    keys: Vec<String>,
    /// One for each input, or none.
    groups: Vec<String>,
    options: StartOptions,
}

impl<D: Definition> StartMany<D> {
    /// The most runs of one call.
    pub const MOST: usize = 10_000;

    pub(crate) fn new(client: Client, definition: D, inputs: Vec<D::Input>) -> StartMany<D> {
        StartMany {
            client,
            definition,
            inputs,
            keys: Vec::new(),
            groups: Vec::new(),
            options: StartOptions::default(),
        }
    }

    /// Has them act for whoever this run acts for, where nothing else is said.
    pub(crate) fn act_for(mut self, run: &RunRecord) -> Self {
        self.options.act_for(run);
        self
    }

    /// An idempotency key for each, made of its input: the same key and input never start twice. Another
    /// input is a conflict, and the error of the call; then none of them is started.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(app: App, ship: Workflow<u32, String, AnyError>) -> Result<(), AnyError> {
    /// let runs = app.start_many(ship, 1..=100).keys(|order| format!("order-{order}")).queue("parcels").await?;
    /// # Ok(()) }
    /// ```
    pub fn keys<K: Into<String>>(mut self, key: impl FnMut(&D::Input) -> K) -> Self {
        self.keys = self.inputs.iter().map(key).map(Into::into).collect();
        self
    }

    /// A group for each, made of its input: see [`Start::group`].
    pub fn groups<G: Into<String>>(mut self, group: impl FnMut(&D::Input) -> G) -> Self {
        self.groups = self.inputs.iter().map(group).map(Into::into).collect();
        self
    }

    place_options!();
    origin_options!();

    /// Starts them inside a transaction: see [`Start::in_tx`]. After an error (a key that belongs to a run with another
    /// input, say) some of them may stand in it: roll it back.
    pub async fn in_tx(self, tx: impl InTx) -> Result<Vec<RunHandle<D>>, Error> {
        let (client, runs) = self.prepare()?;
        let answers = client.perform(tx, runs.as_slice()).await?;
        handles(&client, &runs, answers)
    }

    fn prepare(self) -> Result<(Client, Vec<NewRun>), Error> {
        let StartMany { client, definition, inputs, keys, groups, options } = self;
        check_count("runs in one call", inputs.len(), Self::MOST)?;
        let (mut keys, mut groups) = (keys.into_iter(), groups.into_iter());
        let run = |input| {
            let group = groups.next().or_else(|| options.group.clone());
            let options = StartOptions { key: keys.next(), group, ..options.clone() };
            client.new_run(&definition, input, options)
        };
        let runs = inputs.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        check_keys(&runs)?;
        Ok((client, runs))
    }
}

/// Refuses two inputs with one key: it would belong to a run that is never started.
fn check_keys(runs: &[NewRun]) -> Result<(), Error> {
    let mut inputs = HashMap::new();
    for run in runs {
        if let Some(key) = &run.key
            && inputs.insert(key, &run.input).is_some_and(|other| *other != run.input)
        {
            return Err(Error::invalid("key", key, "one for each input: two inputs of this call have it"));
        }
    }
    Ok(())
}

impl<D: Definition> IntoFuture for StartMany<D> {
    type Output = Result<Vec<RunHandle<D>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, runs) = self.prepare()?;
            let answers = client.start_runs(&runs).await?;
            handles(&client, &runs, answers)
        })
    }
}

/// What the starts of many answered, each as whoever asked wants to have it.
fn handles<D>(client: &Client, runs: &[NewRun], answers: Vec<Started>) -> Result<Vec<RunHandle<D>>, Error> {
    let handle = |(run, answer): (&NewRun, Started)| {
        started(run, Some(answer)).map(|(id, created)| RunHandle::new(client.clone(), id, created))
    };
    runs.iter().zip(answers).map(handle).collect()
}

/// A run that was started or found.
pub struct RunHandle<D> {
    client: Client,
    id: RunId,
    created: bool,
    kind: PhantomData<fn() -> D>,
}

impl<D> RunHandle<D> {
    pub(crate) fn new(client: Client, id: RunId, created: bool) -> RunHandle<D> {
        RunHandle { client, id, created, kind: PhantomData }
    }

    /// The run's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Whether this call made the run; `false` when its key belonged to one already.
    pub fn created(&self) -> bool {
        self.created
    }

    /// Everything about the run.
    pub async fn status(&self) -> Result<RunView, Error> {
        self.client.status(self.id).await
    }

    /// Sends an event to the run.
    pub async fn send<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), Error> {
        self.client.send(self.id, name, value).await
    }

    /// Settles a promise of the run.
    pub async fn settle<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), Error> {
        self.client.settle(self.id, name, value).await
    }

    /// Asks the run to stop.
    pub async fn cancel(&self, reason: &str) -> Result<bool, Error> {
        self.client.cancel(self.id, reason).await
    }

    /// Holds the run back until it is resumed: see [`Client::pause`].
    pub async fn pause(&self, reason: &str) -> Result<bool, Error> {
        self.client.pause(self.id, reason).await
    }

    /// Lets the run go on: see [`Client::resume`].
    pub async fn resume(&self) -> Result<bool, Error> {
        self.client.resume(self.id).await
    }

    /// Has the run go on now, or at another time: see [`Client::make_due`].
    pub async fn make_due(&self, at: Option<outlast_core::Timestamp>) -> Result<bool, Error> {
        self.client.make_due(self.id, at).await
    }

    /// Ends the run at once, without undo: see [`Client::kill`].
    pub async fn kill(&self, reason: &str) -> Result<bool, Error> {
        self.client.kill(self.id, reason).await
    }

    async fn outcome(&self) -> Result<Result<Payload, FailureDoc>, Error> {
        let ended = self.client.wait_ended(self.id).await?;
        match ended.error {
            None => Ok(Ok(ended.output.unwrap_or_else(|| crate::ctx::note_of(&())))),
            Some(error) => {
                let payload = Payload { codec: None, bytes: error.into() };
                Ok(Err(payload.decode(format_args!("the error of {}", self.id))?))
            }
        }
    }
}

impl<D: Definition> RunHandle<D> {
    /// Waits for the run's end, on whatever node it runs; gives its output or why there is none.
    pub async fn result(&self) -> Result<D::Output, Failure<D::Error>> {
        match self.outcome().await? {
            Ok(output) => Ok(output.decode(format_args!("the output of {}", self.id))?),
            Err(failure) => Err(failure.typed()),
        }
    }
}

impl RunHandle<Untyped> {
    /// Waits for the run's end; gives its output as JSON, or why there is none.
    pub async fn result_json(&self) -> Result<Box<RawValue>, FailureDoc> {
        match self.outcome().await.map_err(FailureDoc::Outlast)? {
            Ok(output) => {
                output.decode(format_args!("the output of {}", self.id)).map_err(FailureDoc::Outlast)
            }
            Err(failure) => Err(failure),
        }
    }
}
