//! Runs that a workflow starts: children whose end it can await, and others it lets go.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, FailureDoc, Op, OpenNote, Phase, Retry, RunId, name_in_life};
use outlast_store::{Ended, Listen, Parent};
use serde::{Deserialize, Serialize};

use super::StepCtx;
use super::place::result_of;
use super::undo::Undo;
use super::wait::Waiting;
use super::{Ctx, note_of, waiting};
use crate::definition::{Definition, StoredError};
use crate::draft::StartOptions;
use crate::engine::turn::Handed;
use crate::start::place_options;
use crate::verdict::Source;

/// What becomes of a child when its parent does not end well: see [`ChildStart::when_parent_ends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentEnd {
    /// It is asked to stop, as by [`Client::cancel`](crate::Client::cancel): it undoes what it did, and so do its own children.
    Cancel,
    /// It goes on.
    Leave,
}

/// A child about to be started: see [`Ctx::start`]. `.await` starts it and gives its handle.
#[must_use = "a child is not started unless awaited"]
pub struct ChildStart<D: Definition> {
    ctx: Ctx,
    names: Result<(Arc<str>, Arc<str>), Error>,
    definition: D,
    input: D::Input,
    options: StartOptions,
    detached: bool,
    /// What the code says; by default whoever is not detached stops with this run.
    when_parent_ends: Option<ParentEnd>,
    undo: Option<Undo>,
    /// Where in the user's code it was made.
    source: Source,
}

/// A child with a key, and whether its end is told to this run: always, unless it was started detached or this
/// was recorded when nobody but its parent could hear of it.
#[derive(Clone, Serialize, Deserialize)]
struct Found {
    run: RunId,
    told: bool,
    /// Under what name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl<D: Definition> ChildStart<D> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, definition: D, input: D::Input) -> ChildStart<D> {
        let names = ctx.identity(Op::Child, definition.options().name);
        let options = StartOptions::default();
        let source = Location::caller();
        ChildStart {
            ctx: ctx.clone(),
            names,
            definition,
            input,
            options,
            detached: false,
            when_parent_ends: None,
            undo: None,
            source,
        }
    }

    /// An idempotency key: the same key never starts twice. Whoever started it, this run hears of its end.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    place_options!();

    /// What becomes of it when this run fails, is cancelled or killed, or its time is over: by default
    /// [`ParentEnd::Cancel`], and [`ParentEnd::Leave`] for one that is [detached](ChildStart::detached). One with a key
    /// that somebody else has started is left.
    pub fn when_parent_ends(mut self, what: ParentEnd) -> Self {
        self.when_parent_ends = Some(what);
        self
    }

    /// Nobody waits for its end: this run is not told, and it goes on whatever becomes of this run.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// What reverts that the child was started, and whatever it did, when this run fails or is cancelled: as
    /// [`Step::undo`](super::Step::undo), given the child's id.
    pub fn undo<F, Fut, U>(mut self, undo: F) -> Self
    where
        F: Fn(StepCtx, RunId) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), U>> + Send + 'static,
        U: StoredError,
    {
        self.undo = Some(Undo::with_value(undo));
        self
    }

    /// How often the undo is tried, which is said first.
    pub fn undo_retry(mut self, retry: Retry) -> Self {
        if let Some(undo) = &mut self.undo {
            undo.retry = retry;
        }
        self
    }

    async fn begin(mut self) -> Result<Child<D>, Error> {
        let (undo, turn, names) = (self.undo.take(), self.ctx.turn.clone(), self.names.clone());
        let source = self.source;
        let child = self.start().await?;
        if let (Some(undo), Ok((_, name))) = (undo, names) {
            turn.can_undo(undo.of(Op::Child, &name, Some(note_of(&child.id)), source));
        }
        Ok(child)
    }

    async fn start(self) -> Result<Child<D>, Error> {
        let ChildStart {
            ctx, names, definition, input, mut options, detached, when_parent_ends, source, ..
        } = self;
        ctx.check_cancelled()?;
        let (_, name) = names?;
        let turn = ctx.turn.clone();
        // Names begin anew with every life, while a child of an earlier one may still tell its end.
        let told = name_in_life(&turn.name_for_others(Op::Child, &name), turn.life);
        options.act_for(&turn.record);
        options.parent = Some(Parent { run: turn.id(), op: (!detached).then(|| told.clone()) });
        options.shard = Some(turn.id().shard());
        let default = if detached { ParentEnd::Leave } else { ParentEnd::Cancel };
        options.stops_with_parent = when_parent_ends.unwrap_or(default) == ParentEnd::Cancel;
        if options.key.is_some() {
            return Self::begin_keyed(ctx, told, name, definition, input, options, source).await;
        }
        let known = turn.state().replay.opened(Op::Child, &name).cloned();
        let id = match known.map(|entry| entry.note::<OpenNote>()).transpose()?.and_then(|note| note.run) {
            Some(id) => id,
            None => {
                let run = turn.engine.client.new_run(&definition, &input, options)?;
                let id = run.id;
                let mut state = turn.state();
                state.replaying = false;
                let note = OpenNote { run: Some(id), detached, ..OpenNote::default() };
                state.record(Op::Child, Phase::Opened, name.clone(), Some(note_of(&note)));
                state.outbox.starts.push(run);
                id
            }
        };
        Ok(Child { ctx, name, id, definition, told: (!detached).then_some(told), source })
    }

    /// A key may belong to a run that exists: who that is has to be recorded.
    async fn begin_keyed(
        ctx: Ctx,
        told: String,
        name: Arc<str>,
        definition: D,
        input: D::Input,
        options: StartOptions,
        source: Source,
    ) -> Result<Child<D>, Error> {
        let client = ctx.turn.engine.client.clone();
        let run = client.new_run(&definition, &input, options)?;
        let step = ctx.step(&format!("start {}", definition.options().name), |_| {
            let (client, run) = (client.clone(), run.clone());
            async move {
                let parent = run.parent.clone();
                let (run, created) = client.start_run(run).await?;
                let Some(Parent { run: listener, op: Some(name) }) = parent.clone() else {
                    return Ok(Found { run, told: false, name: None });
                };
                // One that is there already may be ours: started by this step before a crash.
                if !created && client.status(run).await?.record.parent != parent {
                    client.listen(Listen { run, listener, name: name.clone() }).await?;
                }
                Ok(Found { run, told: true, name: Some(name) })
            }
        });
        // One that was purged in between leaves its key to a new one.
        let retry_if =
            |error: &Error| matches!(error, Error::Store { retryable: true, .. } | Error::UnknownRun { .. });
        let found = step.made_at(source).retry(Retry::times(100)).retry_if(retry_if).await;
        match found {
            Ok(found) => {
                let told = found.told.then_some(told);
                Ok(Child { ctx, name, id: found.run, definition, told, source })
            }
            Err(Failure::Own(error) | Failure::Outlast(error)) => Err(error),
        }
    }
}

impl<D: Definition> IntoFuture for ChildStart<D> {
    type Output = Result<Child<D>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

/// A child that was started.
#[must_use = "await .result() to hear of its end, or start it .detached()"]
pub struct Child<D: Definition> {
    ctx: Ctx,
    name: Arc<str>,
    id: RunId,
    definition: D,
    /// Under what name its end is told to this run, if it is.
    told: Option<String>,
    /// Where in the user's code it was started.
    source: Source,
}

impl<D: Definition> Child<D> {
    /// The child's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Waits for the child's end.
    pub async fn result(&self) -> Result<D::Output, Failure<D::Error>> {
        if let Some(told) = &self.told {
            let inner = waiting(&self.ctx, Op::Child, Ok((told.as_str().into(), self.name.clone())));
            let handed = ChildWait(inner.made_at(self.source)).await?;
            return result_of(handed, &self.name);
        }
        // Its end is not told to us: look for it ourselves.
        let client = self.ctx.turn.engine.client.clone();
        let id = self.id;
        let step = self.ctx.step(&format!("await {}", self.definition.options().name), move |_| {
            let client = client.clone();
            async move { client.wait_ended(id).await.map(End::from) }
        });
        match step.made_at(self.source).retry(Retry::times(1000)).await {
            Ok(end) => end.typed::<D>(),
            Err(Failure::Own(error) | Failure::Outlast(error)) => Err(Failure::Outlast(error)),
        }
    }

    /// Sends an event to the child.
    pub async fn send<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), Error> {
        self.ctx.send(self.id, name, value).await
    }
}

/// The end of a run as a step keeps it.
#[derive(Serialize, Deserialize)]
struct End {
    output: Option<serde_json::Value>,
    error: Option<FailureDoc>,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> End {
        End {
            output: ended.output.and_then(|output| output.decode("output").ok()),
            error: ended.error.and_then(|error| serde_json::from_str(&error).ok()),
        }
    }
}

impl End {
    fn typed<D: Definition>(self) -> Result<D::Output, Failure<D::Error>> {
        match self.error {
            Some(error) => Err(error.typed()),
            None => serde_json::from_value(self.output.unwrap_or_default()).map_err(|refused| {
                Failure::Outlast(Error::Undecodable {
                    what: "the output of a run".into(),
                    wanted: std::any::type_name::<D::Output>().into(),
                    detail: refused.to_string(),
                })
            }),
        }
    }
}

struct ChildWait(Waiting);

impl Future for ChildWait {
    type Output = Result<Handed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}
