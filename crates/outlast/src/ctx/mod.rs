//! The context of a workflow: every durable operation begins here.

mod batch;
mod child;
mod job;
mod kv;
mod place;
mod policy;
mod step;
mod step_ctx;
mod transaction;
mod undo;
mod wait;
mod work;

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{
    Error, Limits, Op, OpenNote, Payload, Phase, RunId, Timestamp, check_count, check_name,
    check_operation_name,
};
use outlast_store::{Address, Delivery, NewsKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use self::batch::BatchCtx;
pub use self::child::{Child, ChildStart, ParentEnd};
pub use self::job::JobCtx;
pub(crate) use self::kv::Recording;
pub use self::step::Step;
pub use self::step_ctx::StepCtx;
pub use self::transaction::TransactionStep;
pub use self::wait::{CancelWait, EventWait, PromiseWait, Sleep};

pub(crate) use self::undo::{Undoable, undo_all};
use self::wait::Waiting;
pub(crate) use self::work::Work;
use crate::definition::{Definition, Stored, StoredError};
use crate::engine::turn::{Cancelled, Deadline, PATCH, Turn};
use crate::{Tx, Verdict};

/// What a workflow is given: the door to every durable operation. Cheap to clone.
///
/// An operation is a future; builder methods come first. Each has an identity, fixed when it is made:
/// its name, and its occurrence when the name was used before (`charge`, `charge#2`).
#[derive(Clone)]
pub struct Ctx {
    turn: Arc<Turn>,
    /// What its names begin with, or why they cannot: every operation in here says so.
    scope: Result<Option<Arc<str>>, Error>,
}

impl Ctx {
    pub(crate) fn new(turn: Arc<Turn>) -> Ctx {
        Ctx { turn, scope: Ok(None) }
    }

    /// The same context with names of its own: what is called in here does not change the occurrences
    /// of names outside. With a name that cannot be, every operation in here fails with that error.
    pub fn scope(&self, name: &str) -> Ctx {
        let scope = check_operation_name("scope", name).and_then(|name| self.scoped(name));
        let full = scope.map(|plain| self.turn.name(Op::State, &format!("@{plain}").into()));
        Ctx { turn: self.turn.clone(), scope: full.map(|full| Some(full[1..].into())) }
    }

    /// The name with the scopes that it is called in.
    fn scoped(&self, name: &str) -> Result<Arc<str>, Error> {
        let plain: Arc<str> = match &self.scope {
            Ok(Some(scope)) => format!("{scope}/{name}").into(),
            Ok(None) => name.into(),
            Err(error) => return Err(error.clone()),
        };
        check_name("name with its scopes", &plain)?;
        Ok(plain)
    }

    /// The name of an operation as the journal has it, or why it cannot have one.
    fn identity(&self, op: Op, name: &str) -> Result<(Arc<str>, Arc<str>), Error> {
        let what = match op {
            Op::Event => "event name",
            Op::Promise => "promise name",
            Op::State => "name of a saved value",
            _ => "step name",
        };
        check_operation_name(what, name)?;
        let plain = self.scoped(name)?;
        let full = self.turn.name(op, &plain);
        Ok((plain, full))
    }

    // ---- about the run

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.turn.id()
    }

    /// The run's idempotency key.
    pub fn key(&self) -> Option<&str> {
        self.turn.record.key.as_deref()
    }

    /// Whose run it is; empty for nobody's in particular.
    pub fn tenant(&self) -> &str {
        &self.turn.record.tenant
    }

    /// Who started the run.
    pub fn owner(&self) -> Option<&str> {
        self.turn.record.owner.as_deref()
    }

    /// The roles with which the run acts.
    pub fn roles(&self) -> &[String] {
        &self.turn.record.roles
    }

    /// The W3C trace context (`traceparent`) with which the run was started; children have it too.
    pub fn trace(&self) -> Option<&str> {
        self.turn.record.trace.as_deref().map(|trace| trace.split(';').next().unwrap_or(trace))
    }

    /// The `tracestate` that came with it.
    pub fn trace_state(&self) -> Option<&str> {
        self.turn.record.trace.as_deref()?.split_once(';').map(|(_, state)| state)
    }

    /// Whether the code is repeating what it did before.
    pub fn is_replaying(&self) -> bool {
        self.turn.state().replaying
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Without one the run
    /// is blocked until a node that has it appears.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.turn.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => self.block(missing_state::<T>()),
        }
    }

    /// Stops the code where it cannot be given an error: the run is blocked with this reason.
    fn block(&self, reason: String) -> ! {
        self.turn.state().misfit = Some(Verdict::Blocks { reason: reason.clone() });
        std::panic::resume_unwind(Box::new(reason))
    }

    // ---- effects

    /// Runs `work` once and remembers its result.
    ///
    /// A replay returns the remembered result without calling `work`. A crash after `work`, before its
    /// result is stored, runs `work` again: pass `s.key()` on to whatever must not happen twice. One
    /// attempt is made unless [`Step::retry`] says otherwise.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// async fn charge(key: String, cents: u64) -> Result<String, AnyError> { Ok(format!("{key}: {cents}")) }
    /// # outlast::testing::check(async |ctx| {
    /// let receipt = ctx.step("charge", |s| charge(s.key(), 42)).retry(Retry::times(5)).await?;
    /// # assert!(receipt.ends_with(": 42")); Ok(()) });
    /// ```
    #[doc(alias = "activity")]
    #[track_caller]
    pub fn step<'a, F, Fut, T, E>(&self, name: &str, work: F) -> Step<'a, T, E>
    where
        F: FnMut(StepCtx) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
        T: Stored,
        E: StoredError,
    {
        Step::new(self, name, work)
    }

    /// Runs `work` in a transaction of the database in which the run lives: the rows it writes and the
    /// step's record commit together. Killed at any point, it happened exactly once or not at all.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(ctx: Ctx) -> Result<(), AnyError> {
    /// let left = ctx.transaction("debit", |tx| async move {
    ///     tx.execute("update accounts set cents = cents - $1 where id = $2", (500i64, "alice")).await?;
    ///     let rows = tx.query("select cents from accounts where id = $1", ("alice",)).await?;
    ///     Ok::<i64, AnyError>(rows[0].int(0)?)
    /// }).await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn transaction<'a, F, Fut, T, E>(&self, name: &str, work: F) -> TransactionStep<'a, T, E>
    where
        F: FnMut(Tx) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
        T: Stored,
        E: StoredError,
    {
        TransactionStep::new(self, name, work)
    }

    /// Calls other services. Each call is a step of its own, named after method and host, whose recorded answer
    /// a replay gets: see [`http`](crate::http).
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(ctx: Ctx) -> Result<(), AnyError> {
    /// let answer = ctx.http().get("https://api.example.com/rates").retry(Retry::times(5)).send().await?;
    /// let rates: Vec<f64> = answer.error_for_status()?.json()?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn http(&self) -> crate::http::Http<crate::http::Recorded> {
        crate::http::Http::recorded(&self.turn.engine, &self.turn.record, self.clone())
    }

    // ---- waits

    /// Waits this long, through any number of restarts. Never less, and more only by milliseconds.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// ctx.sleep(30.days()).await?;
    /// # Ok(()) });
    /// ```
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let checked = crate::definition::check_duration("sleep", duration);
        Sleep::new(self, checked.map(|()| Deadline::After(duration)))
    }

    /// Waits until a time.
    #[track_caller]
    pub fn sleep_until(&self, time: impl Into<Timestamp>) -> Sleep {
        Sleep::new(self, Ok(Deadline::At(time.into())))
    }

    /// Waits for an event that someone sends to this run. One that came before anybody waited is kept;
    /// each is consumed once, in the order sent.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// let late = ctx.event::<bool>("approval").timeout(2.days()).await;
    /// assert!(matches!(late, Err(Error::TimedOut { .. })));
    /// # Ok(()) });
    /// ```
    #[doc(alias = "signal")]
    #[track_caller]
    pub fn event<T: Stored>(&self, name: &str) -> EventWait<T> {
        EventWait::new(self, name)
    }

    /// A value that somebody settles once, from anywhere, with the promise's token (or by run and name, which
    /// after [`Ctx::continue_as_new`] means the promise of the current life).
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// let paid = ctx.promise::<u64>("paid");
    /// println!("call back with {}", paid.token()?);
    /// let late = paid.timeout(1.hour()).await;
    /// # assert!(late.is_err()); Ok(()) });
    /// ```
    #[doc(alias = "deferred")]
    #[track_caller]
    pub fn promise<T: Stored>(&self, name: &str) -> PromiseWait<T> {
        PromiseWait::new(self, name)
    }

    /// Waits until someone asks this run to stop; gives the reason. Where somebody awaits this, open
    /// operations are not disturbed: the code decides how to end, and the run ends as cancelled.
    #[track_caller]
    pub fn cancelled(&self) -> CancelWait {
        CancelWait::new(self)
    }

    // ---- undo

    /// Reverts everything that this run did and that says how ([`Step::undo`]), newest first, each as a durable step of
    /// its own. A run that fails, or is cancelled, does so by itself: this is for code that goes on. Where an undo
    /// gives up, the run does not go on: it is `undo_failed` until somebody wants it tried again.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # async fn book() -> Result<u32, AnyError> { Ok(7) }
    /// # async fn pay() -> Result<(), AnyError> { Err(AnyError::new("no money")) }
    /// # async fn unbook(seat: u32) -> Result<(), AnyError> { assert_eq!(seat, 7); Ok(()) }
    /// # outlast::testing::check(async |ctx| {
    /// ctx.step("book", |_| book()).undo(|_, seat| unbook(seat)).await?;
    /// if ctx.step("pay", |_| pay()).await.is_err() {
    ///     ctx.undo_all().await;
    ///     // Try another way.
    /// }
    /// # Ok(()) });
    /// ```
    #[doc(alias = "compensate")]
    #[doc(alias = "saga")]
    pub async fn undo_all(&self) {
        undo_all(&self.turn).await;
    }

    // ---- other runs

    /// Starts another workflow or job; `.await` gives its handle, whose `result()` can be awaited.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(ctx: Ctx, ship: Workflow<u32, String, AnyError>) -> Result<(), AnyError> {
    /// let parcel = ctx.start(ship, 42).await?.result().await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn start<D: Definition>(&self, definition: D, input: D::Input) -> ChildStart<D> {
        ChildStart::new(self, definition, input)
    }

    /// Sends an event to another run. It leaves with the commit that records this operation: that there is no
    /// such run, or that it has ended, is no error here.
    pub async fn send<T: Serialize + ?Sized>(&self, to: RunId, name: &str, value: &T) -> Result<(), Error> {
        check_name("event name", name)?;
        self.check_cancelled()?;
        let body = Payload::encode(format_args!("event {name:?}"), value, &self.turn.limits)?;
        let (_, full) = self.identity(Op::Send, "send")?;
        let sent = note_of(&OpenNote { run: Some(to), ..OpenNote::default() });
        let mut fresh = false;
        self.turn.fixed(Op::Send, &full, || {
            fresh = true;
            Ok(sent)
        })?;
        if fresh {
            let id = Uuid::from_u128(fastrand::u128(..));
            let delivery = Delivery {
                id,
                to: Address::Run(to),
                kind: NewsKind::Event,
                name: name.to_owned(),
                body: Some(body),
            };
            self.turn.state().outbox.sends.push(delivery);
        }
        Ok(())
    }

    // ---- values fixed at their first use

    /// The time, fixed at its first use.
    pub fn now(&self) -> Timestamp {
        self.value("now", || self.turn.engine.clock.at_least())
    }

    /// A random number, fixed at its first use.
    pub fn random(&self) -> u64 {
        self.value("random", || fastrand::u64(..))
    }

    /// A random (version 4) UUID, fixed at its first use.
    pub fn uuid(&self) -> Uuid {
        let bytes = self.value("uuid", || fastrand::u128(..).to_string());
        let random = bytes.parse::<u128>().unwrap_or_default();
        uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
    }

    /// Whether this run began with code that had the patch `name`: lets code change in place.
    ///
    /// Runs that had passed this point before the patch existed get `false`, for ever; all others `true`.
    /// A name that cannot be blocks the run.
    pub fn patched(&self, name: &str) -> bool {
        if let Err(error) = check_name("patch", name) {
            self.block(error.to_string());
        }
        let name = format!("{PATCH}{name}");
        let mut state = self.turn.state();
        if let Some(had) = state.patches.get(&name) {
            return *had;
        }
        let recorded = state.replay.take(Op::Value, &name).is_some();
        // Results that were not asked for yet lie ahead.
        let old_code_was_here = state.replay.is_due() || !state.replay.leftovers().is_empty();
        let had = recorded || !old_code_was_here;
        if had && !recorded {
            state.replaying = false;
            state.record(Op::Value, Phase::Done, name.as_str().into(), Some(note_of(&true)));
        }
        // A loop that comes here again gets the same answer, also when nothing lies ahead any more.
        state.patches.insert(name, had);
        had
    }

    fn value<T: Serialize + DeserializeOwned>(&self, name: &str, make: impl FnOnce() -> T) -> T {
        let plain = self.scoped(name).unwrap_or_else(|error| self.block(error.to_string()));
        let full = self.turn.name(Op::Value, &plain);
        let value = make();
        let payload = self.turn.fixed(Op::Value, &full, || Ok(note_of(&value))).unwrap_or_default();
        payload.decode(name).unwrap_or(value)
    }

    // ---- state and attributes

    /// Saves a value with the run: seen from outside, and carried over by [`Ctx::continue_as_new`].
    pub fn save<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), Error> {
        let (plain, full) = self.identity(Op::State, name)?;
        let payload = Payload::encode(format_args!("saved value {name:?}"), value, &self.turn.limits)?;
        let payload = self.turn.fixed(Op::State, &full, || Ok(payload))?;
        self.turn.state().saved.insert(plain.to_string(), payload);
        Ok(())
    }

    /// What was last saved under `name`.
    pub fn saved<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let payload = self.turn.state().saved.get(&*self.scoped(name)?).cloned();
        payload.map(|payload| payload.decode(format_args!("saved value {name:?}"))).transpose()
    }

    /// Sets a searchable attribute of the run: at most [`Limits::TAGS`] different ones in one life.
    pub fn tag(&self, name: &str, value: &str) -> Result<(), Error> {
        check_name("tag", name)?;
        check_name("tag value", value)?;
        let mut state = self.turn.state();
        if !state.tags.contains(name) {
            check_count("tags", state.tags.len() + 1, Limits::TAGS)?;
            state.tags.insert(name.to_owned());
        }
        state.outbox.tags.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Starts over with a new input and an empty journal: the same run, key and inbox. Names begin anew: steps
    /// of the new life have other keys, its promises other tokens. For loops that never end. Returns from the
    /// workflow at once: `return ctx.continue_as_new(next).await`.
    ///
    /// An input of another type than the workflow's blocks the run before its journal is gone.
    pub async fn continue_as_new<I: Serialize, O, E>(&self, input: I) -> Result<O, E> {
        match self.next_input(&input) {
            Ok(payload) => self.turn.state().continue_with = Some(payload),
            Err(error) => self.turn.state().misfit = Some(Verdict::Blocks { reason: error.to_string() }),
        }
        std::future::pending().await
    }

    /// An input for the next life. The old one goes with its journal: what cannot be read again is refused now.
    fn next_input<I: Serialize>(&self, input: &I) -> Result<Payload, Error> {
        let record = &self.turn.record;
        let what = format_args!("the input of {}", record.definition);
        let payload = Payload::encode(what, input, &self.turn.limits)?;
        let code = outlast_store::code(&record.definition, record.version);
        self.turn.engine.registry.get(&code).map_or(Ok(()), |code| code.check_input(&payload))?;
        Ok(payload)
    }

    fn check_cancelled(&self) -> Result<(), Error> {
        match &self.turn.state().cancelled {
            Cancelled::Enforced(reason) => Err(Error::Cancelled { reason: reason.clone() }),
            _ => Ok(()),
        }
    }
}

pub(crate) fn note_of<T: Serialize>(note: &T) -> Payload {
    crate::engine::turn::note_payload(note)
}

pub(crate) fn missing_state<T>() -> String {
    let name = std::any::type_name::<T>();
    format!("no state of type {name} was registered: add .state(value) when opening Outlast")
}

/// The run and, after [`Ctx::continue_as_new`], which of its lives: names begin anew in each.
fn life(turn: &Turn) -> String {
    match turn.life {
        0 => turn.id().to_string(),
        life => format!("{}@{life}", turn.id()),
    }
}

/// Waits until the request to stop is there; gives its reason.
pub(crate) async fn stop_asked(asked: &tokio::sync::watch::Sender<Option<String>>) -> String {
    let mut asked = asked.subscribe();
    let there = asked.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
    match there {
        Ok(reason) => reason,
        // The run is no longer in hand: nobody will ask any more.
        Err(_) => std::future::pending().await,
    }
}

/// The limits by which payloads are judged.
pub(crate) fn limits_of(turn: &Turn) -> &Limits {
    &turn.limits
}

/// What waits have in common: see [`Waiting`].
#[track_caller]
pub(crate) fn waiting(ctx: &Ctx, op: Op, name: Result<(Arc<str>, Arc<str>), Error>) -> Waiting {
    Waiting::new(ctx.turn.clone(), op, name)
}
