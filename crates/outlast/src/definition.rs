//! Definitions: workflows and jobs as values that can be registered and started.
//!
//! A [`Workflow`] or [`Job`] knows its name, its options and its types; the registry keeps them with
//! the types erased. The macros make the same values that [`Workflow::new`] and [`Job::new`] make.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, FailureDoc, Limits, Payload, Retry};
use outlast_store::RunKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Work;
use crate::of_jobs::{Batch, OfJobs, Undo};
use crate::registry::{Body, Registered};
use crate::{BatchCtx, Ctx, JobCtx, Retention};

/// A value that crosses the durable boundary. Everything that serde can write and read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored",
    label = "this type cannot cross the durable boundary",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it"
)]
pub trait Stored: Serialize + DeserializeOwned + Send + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Stored for T {}

/// An error that crosses the durable boundary as itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept as the error of durable code",
    label = "this error cannot cross the durable boundary",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it and implement `Display`, or use `outlast::AnyError`, into which `?` turns any error"
)]
pub trait StoredError: Serialize + DeserializeOwned + Display + Send + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Display + Send + 'static> StoredError for T {}

/// What every definition has: a name, a version, and where its runs stand in line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Its name, unique together with the version.
    pub name: &'static str,
    /// Its version; new runs take the highest registered one.
    pub version: u32,
    /// The queue of its runs.
    pub queue: &'static str,
    /// The priority of its runs, from 0 (most urgent) to 9.
    pub priority: u8,
    /// How long a run may take from its start to its end (workflows), or one attempt (jobs).
    pub timeout: Option<Duration>,
    /// Attempts and pauses (jobs).
    pub retry: Retry,
    /// The role without which its runs fail.
    pub role: Option<&'static str>,
    /// How long a call to another service may take unless told (feature `http`): 30 s unless given here.
    pub http_timeout: Option<Duration>,
    /// Whether a run is the only one with its arguments: until it has ended, or for a period.
    pub unique: Option<UniqueArgs>,
    /// How long its runs are kept after their end, where that is not as for all others.
    pub retention: Option<Retention>,
    /// Whether its runs go on only with the code that they began with (workflows).
    pub strict: bool,
    /// What its input looks like, as JSON Schema: for forms that start runs. Nothing is refused because of it.
    pub input_schema: Option<&'static str>,
}

/// For how long a run is the only one with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueArgs {
    /// Until it has ended.
    Unfinished,
    /// For this long from its start.
    For(Duration),
}

impl Options {
    /// The defaults: version 1, queue `default`, priority 5, no timeout, five attempts for jobs, no role.
    pub const fn new(name: &'static str) -> Options {
        Options {
            name,
            version: 1,
            queue: "default",
            priority: 5,
            timeout: None,
            retry: Retry::times(5),
            role: None,
            http_timeout: None,
            unique: None,
            retention: None,
            strict: false,
            input_schema: None,
        }
    }
}

type Handler<C, I, O, E> = Arc<dyn Fn(C, I) -> BoxFuture<'static, Result<O, E>> + Send + Sync>;
type HandlerFn<C, I, O, E> = fn(C, I) -> BoxFuture<'static, Result<O, E>>;

enum Code<C, I, O, E> {
    Plain(HandlerFn<C, I, O, E>),
    Shared(Handler<C, I, O, E>),
}

impl<C, I, O, E> Clone for Code<C, I, O, E> {
    fn clone(&self) -> Self {
        match self {
            Code::Plain(handler) => Code::Plain(*handler),
            Code::Shared(handler) => Code::Shared(handler.clone()),
        }
    }
}

impl<C, I, O, E> Code<C, I, O, E> {
    fn call(&self, ctx: C, input: I) -> BoxFuture<'static, Result<O, E>> {
        match self {
            Code::Plain(handler) => handler(ctx, input),
            Code::Shared(handler) => handler(ctx, input),
        }
    }
}

macro_rules! definition {
    ($(#[$doc:meta])* $name:ident, $ctx:ty, $extra:ident) => {
        $(#[$doc])*
        pub struct $name<I, O, E> {
            options: Options,
            code: Code<$ctx, I, O, E>,
            /// The signature of its code, where a macro made one.
            signed: Option<&'static str>,
            extra: $extra<I, O, E>,
        }

        impl<I, O, E> Clone for $name<I, O, E> {
            fn clone(&self) -> Self {
                let (options, code, extra) = (self.options, self.code.clone(), self.extra.clone());
                Self { options, code, signed: self.signed, extra }
            }
        }

        impl<I: Stored, O: Stored, E: StoredError> $name<I, O, E> {
            /// Makes a definition of a plain `async fn` or closure, without any macro.
            pub fn new<F, Fut>(name: &'static str, handler: F) -> Self
            where
                F: Fn($ctx, I) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = Result<O, E>> + Send + 'static,
            {
                let handler: Handler<$ctx, I, O, E> = Arc::new(move |ctx, input| Box::pin(handler(ctx, input)));
                let (options, code) = (Options::new(name), Code::Shared(handler));
                Self { options, code, signed: None, extra: $extra::new() }
            }

            /// What the macros call.
            #[doc(hidden)]
            pub const fn from_parts(options: Options, handler: HandlerFn<$ctx, I, O, E>) -> Self {
                Self { options, code: Code::Plain(handler), signed: None, extra: $extra::new() }
            }

            /// What the macros call, too.
            #[doc(hidden)]
            pub const fn signed(mut self, signature: &'static str) -> Self {
                self.signed = Some(signature);
                self
            }

            /// Another version of the same name, registered beside the others.
            pub fn version(mut self, version: u32) -> Self {
                self.options.version = version;
                self
            }

            /// The queue of its runs.
            pub fn queue(mut self, queue: &'static str) -> Self {
                self.options.queue = queue;
                self
            }

            /// What its input looks like, as JSON Schema: the dashboard makes a form of it. Inputs are judged by their type
            /// alone.
            pub fn input_schema(mut self, schema: &'static str) -> Self {
                self.options.input_schema = Some(schema);
                self
            }

            /// The priority of its runs, from 0 (most urgent) to 9.
            pub fn priority(mut self, priority: u8) -> Self {
                self.options.priority = priority;
                self
            }

            /// The role that its runs must act with. One that was started without it, whoever and however, fails
            /// with [`Error::MissingRole`] before any of its code is called; one that had begun before its code
            /// asked for the role goes on.
            pub fn role(mut self, role: &'static str) -> Self {
                self.options.role = Some(role);
                self
            }

            /// A run is the only one with its arguments until it has ended; whoever starts another is given that one.
            /// [`Start::unique`](crate::Start::unique) says it for a single run.
            pub fn unique(mut self) -> Self {
                self.options.unique = Some(UniqueArgs::Unfinished);
                self
            }

            /// A run is the only one with its arguments for this long from its start.
            pub fn unique_for(mut self, period: Duration) -> Self {
                self.options.unique = Some(UniqueArgs::For(period));
                self
            }

            /// How long its runs are kept after their end, instead of what holds for all others
            /// ([`Outlast::retention`](crate::Outlast::retention)). The active version's counts for those of all.
            pub fn retention(mut self, retention: Retention) -> Self {
                self.options.retention = Some(retention);
                self
            }

            /// How long a run (of a workflow) or one attempt (of a job) may take.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.options.timeout = Some(timeout);
                self
            }

            /// How long a call to another service may take, unless the call itself says (feature `http`).
            pub fn http_timeout(mut self, timeout: Duration) -> Self {
                self.options.http_timeout = Some(timeout);
                self
            }
        }

        impl<I: Stored, O: Stored, E: StoredError> sealed::Sealed for $name<I, O, E> {}
    };
}

/// What workflows have beside their code.
struct Nothing<I, O, E>(PhantomData<fn(I) -> Result<O, E>>);

impl<I, O, E> Nothing<I, O, E> {
    const fn new() -> Self {
        Nothing(PhantomData)
    }
}

impl<I, O, E> Clone for Nothing<I, O, E> {
    fn clone(&self) -> Self {
        Nothing::new()
    }
}

definition! {
    /// A workflow: code that is run durably, with a journal.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn greet(_ctx: Ctx, name: String) -> Result<String, AnyError> { Ok(format!("Hello, {name}!")) }
    /// let greet = Workflow::new("greet", greet).queue("fast");
    /// ```
    Workflow, Ctx, Nothing
}

definition! {
    /// A job: one unit of work without a journal, tried again when it fails.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn mail(_job: JobCtx, to: String) -> Result<(), AnyError> { println!("to {to}"); Ok(()) }
    /// let mail = Job::new("mail", mail).retry(Retry::times(3));
    /// ```
    Job, JobCtx, OfJobs
}

impl<I: Stored, O: Stored, E: StoredError> Workflow<I, O, E> {
    /// Its runs go on only with the very code that they began with; with any other they are blocked, until that code
    /// is back. Without it a run goes on with whatever fits its journal.
    ///
    /// The code is what `#[outlast::workflow]` has seen: the tokens of the function, without layout and comments, and
    /// its types; for a workflow that was made without the macro the types alone. What the function calls does not
    /// count. To change it, register the new code as another [version](Workflow::version) beside the old.
    ///
    /// A run records what it began with before its first step. One that starts over
    /// ([`Ctx::continue_as_new`](crate::Ctx::continue_as_new)) begins anew, with the code that is there then.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// #[outlast::workflow]
    /// async fn transfer(ctx: Ctx, cents: u64) -> Result<u64, AnyError> { Ok(cents) }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let app = Outlast::open("sqlite::memory:").await?.workflow(transfer().strict()).run().await?;
    /// # app.shutdown(1.second()).await?;
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub fn strict(mut self) -> Self {
        self.options.strict = true;
        self
    }
}

impl<I: Stored, O: Stored, E: StoredError> Job<I, O, E> {
    /// How often, and after what pauses, a failed attempt is tried again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// Tries again only after errors for which this holds; all others are terminal, whatever attempts are left.
    pub fn retry_if(mut self, holds: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.extra.judge.retry_if = Some(Arc::new(holds));
        self
    }

    /// Errors that know themselves when another attempt makes sense: their pause instead of the policy's.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Debug, Serialize, Deserialize)]
    /// struct Busy { seconds: u64 }
    /// # impl std::fmt::Display for Busy {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "busy") }
    /// # }
    /// async fn call(_job: JobCtx, url: String) -> Result<(), Busy> { Err(Busy { seconds: 30 }) }
    /// let call = Job::new("call", call).retry_after(|busy: &Busy| Some(busy.seconds.seconds()));
    /// ```
    pub fn retry_after(mut self, pause: impl Fn(&E) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.extra.judge.retry_after = Some(Arc::new(pause));
        self
    }

    /// What is done when a run that has begun is cancelled, before it has ended as cancelled: also after a crash, on any
    /// node. It is called at least once, and tried again like the job itself, with the same pauses and as often; if that
    /// does not help the run is `undo_failed` with the reason, and tries again when somebody retries it. A run that was
    /// cancelled before it began has nothing to undo.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn upload(_job: JobCtx, file: String) -> Result<(), AnyError> { Ok(()) }
    /// async fn remove(_job: JobCtx, file: String) -> Result<(), AnyError> { Ok(()) }
    /// let upload = Job::new("upload", upload).undo(remove);
    /// ```
    pub fn undo<F, Fut>(mut self, undo: F) -> Self
    where
        F: Fn(JobCtx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.extra.undo = Some(Undo::new(undo));
        self
    }

    /// The pause after each failed attempt, by its number from 1, as a function of your own.
    pub fn backoff(mut self, pause: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.extra.judge.backoff = Some(Arc::new(pause));
        self
    }
}

impl<I: Stored, E: StoredError> Job<I, (), E> {
    /// A job that is done many at a time: `handler` gets `most` inputs, or as many as have come when the first of them
    /// has waited for `wait`. Each is a run of its own, with its own attempts; they succeed or fail together.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn index(batch: BatchCtx, docs: Vec<String>) -> Result<(), AnyError> {
    ///     println!("{} documents in one request", docs.len());
    ///     Ok(())
    /// }
    /// let index = Job::batch("index", 100, 5.seconds(), index).queue("search");
    /// ```
    ///
    /// A node gathers what it has claimed: `most` should not be more than a node runs at once
    /// ([`Outlast::concurrency`](crate::Outlast::concurrency)).
    pub fn batch<F, Fut>(name: &'static str, most: usize, wait: Duration, handler: F) -> Self
    where
        F: Fn(BatchCtx, Vec<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let batch = Batch::new(most, wait, handler);
        let one = batch.clone();
        let mut job = Job::new(name, move |job: JobCtx, input: I| one.call(job.alone(), vec![input]));
        job.extra.batch = Some(batch);
        job
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What can be registered and started: a [`Workflow`], a [`Job`], or a function that gives one, as the
/// macros make it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no workflow or job",
    label = "neither a workflow nor a job",
    note = "put `#[outlast::workflow]` or `#[outlast::job]` on the function, or wrap it: `Workflow::new(\"name\", function)`"
)]
pub trait Definition: sealed::Sealed + Send + Sync + 'static {
    /// What it is called with.
    type Input: Stored;
    /// What it gives.
    type Output: Stored;
    /// How it fails.
    type Error: StoredError;
    /// Its name and options.
    fn options(&self) -> Options;
    /// Workflow or job.
    #[doc(hidden)]
    fn kind(&self) -> RunKind;
    /// The definition with its types erased.
    #[doc(hidden)]
    fn erase(self) -> Registered;
}

impl<I: Stored, O: Stored, E: StoredError> Definition for Workflow<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;

    fn options(&self) -> Options {
        self.options
    }

    fn kind(&self) -> RunKind {
        RunKind::Workflow
    }

    fn erase(self) -> Registered {
        let Self { options, code, signed, extra: _ } = self;
        let call = erase_code(options, code, |_| |_: Option<&E>| {});
        let signature = signature::<I, O, E>(signed);
        let body = Body::Workflow(call);
        Registered { options, signature, body, backoff: None, undo: None, accepts: accepts::<I> }
    }
}

impl<I: Stored, O: Stored, E: StoredError> Definition for Job<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;

    fn options(&self) -> Options {
        self.options
    }

    fn kind(&self) -> RunKind {
        RunKind::Job
    }

    fn erase(self) -> Registered {
        let Self { options, code, signed, extra: OfJobs { judge, undo, batch } } = self;
        let backoff = judge.backoff.clone();
        let undo = undo.map(|undo| undo.erase(options));
        let signature = signature::<I, O, E>(signed);
        let body = match batch {
            Some(batch) => Body::Batch(batch.erase(options, judge)),
            None => Body::Job(erase_code(options, code, move |job: &JobCtx| {
                let (judge, job) = (judge.clone(), job.clone());
                move |error: Option<&E>| match error {
                    Some(error) => judge.judge(std::slice::from_ref(job.turn()), error),
                    // Another attempt would do it all once more and have no better output.
                    None => job.turn().give_up(),
                }
            })),
        };
        Registered { options, signature, body, backoff, undo, accepts: accepts::<I> }
    }
}

impl<F: Fn() -> D + Send + Sync + 'static, D: Definition> sealed::Sealed for F {}

impl<F: Fn() -> D + Send + Sync + 'static, D: Definition> Definition for F {
    type Input = D::Input;
    type Output = D::Output;
    type Error = D::Error;

    fn options(&self) -> Options {
        self().options()
    }

    fn kind(&self) -> RunKind {
        self().kind()
    }

    fn erase(self) -> Registered {
        self().erase()
    }
}

/// What a handler gives, without its types.
pub(crate) type Outcome = Result<Payload, FailureDoc>;
pub(crate) type Erased<C> =
    Box<dyn Fn(C, &Payload, Limits) -> Result<BoxFuture<'static, Outcome>, Error> + Send + Sync>;

/// The code without its types. What `judge` gives sees an error before that becomes words, and hears of an output that
/// cannot be kept.
fn erase_code<C, I, O, E, J>(
    options: Options,
    code: Code<C, I, O, E>,
    judge: impl Fn(&C) -> J + Send + Sync + 'static,
) -> Erased<C>
where
    C: 'static,
    J: FnOnce(Option<&E>) + Send + 'static,
    I: Stored,
    O: Stored,
    E: StoredError,
{
    Box::new(move |ctx, input, limits| {
        let input = decode_input::<I>(options.name, input)?;
        let judge = judge(&ctx);
        let work = Work::new(code.call(ctx, input));
        Ok(Box::pin(async move {
            match work.await {
                Ok(output) => {
                    Payload::encode(format_args!("the output of {}", options.name), &output, &limits)
                        .inspect_err(|_| judge(None))
                        .map_err(FailureDoc::Outlast)
                }
                Err(error) => {
                    judge(Some(&error));
                    Err(FailureDoc::new(&Failure::Own(error), &limits))
                }
            }
        }))
    })
}

pub(crate) fn decode_input<I: Stored>(name: &str, input: &Payload) -> Result<I, Error> {
    input.decode(format_args!("the input of {name}"))
}

/// Whether the definition can be called with this.
fn accepts<I: Stored>(name: &str, input: &Payload) -> Result<(), Error> {
    decode_input::<I>(name, input).map(drop)
}

/// Tells two builds of one version apart when the types at its boundary differ or, where a macro has seen it, its code.
fn signature<I, O, E>(signed: Option<&str>) -> String {
    let types = std::any::type_name::<(I, O, E)>();
    signed.map_or_else(|| types.to_owned(), |code| format!("{types} {code}"))
}

pub(crate) fn check_priority(priority: u8) -> Result<(), Error> {
    match priority {
        0..=9 => Ok(()),
        _ => Err(Error::invalid("priority", priority, "0 (most urgent) to 9")),
    }
}

pub(crate) fn check_duration(what: &str, duration: Duration) -> Result<(), Error> {
    match duration <= Limits::DURATION {
        true => Ok(()),
        false => Err(Error::invalid(what, format!("{duration:?}"), "at most 100 years")),
    }
}
