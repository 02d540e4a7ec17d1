//! The workflow that performs programs, on whichever node.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use outlast::prelude::*;
use outlast::{RunId, StepCtx};
use serde::{Deserialize, Serialize};

use crate::cast::{self, Cast};
use crate::ledger::{Body, Ledger};
use crate::program::{Act, How, RETRY_MS, What};
use crate::work::{Work, count, job};

/// In place of its attempt: a transaction is tried until it went through.
pub(crate) const TRANSACTION: u32 = 0;

/// What a run of `play` is called with; what it performs is in the [`Cast`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Input {
    pub(crate) label: String,
    /// Where this life begins, which one it is, and what those before it saw.
    pub(crate) from: usize,
    pub(crate) life: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) saw: Vec<Saw>,
}

/// What an act came to.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub(crate) enum Saw {
    Did(u64),
    GaveUp,
    Committed(u64),
    Slept,
    Heard(Vec<u32>),
    Settled(u32),
    Child(RunId, Option<Vec<Saw>>),
    Worked(RunId, u64),
    Counted(u64),
    LetGo(RunId),
    Posted,
    All(Vec<Saw>),
    First(usize, Box<Saw>),
}

/// What a node's handlers know of the world outside.
pub(crate) struct Stage {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) cast: Arc<Cast>,
    pub(crate) node: usize,
}

/// The definition.
pub(crate) fn definition() -> Workflow<Input, Vec<Saw>, AnyError> {
    Workflow::new("play", play)
}

impl Input {
    pub(crate) fn new(label: String) -> Input {
        Input { label, from: 0, life: 0, saw: Vec::new() }
    }

    /// What the ledger calls this life of the run.
    fn name(&self) -> String {
        format!("{}/{}", self.label, self.life)
    }
}

async fn play(ctx: Ctx, input: Input) -> Result<Vec<Saw>, AnyError> {
    let stage = ctx.state::<Stage>();
    let program = stage.cast.of(&input.label).ok_or_else(|| AnyError::new("a run that nobody wrote"))?;
    let player = Player { stage, ctx, run: input.name(), label: input.label.clone() };
    let mut saw = input.saw.clone();
    let mut basis = Basis::default();
    saw.iter().for_each(|saw| basis.add(saw));
    for (at, act) in program.acts.iter().enumerate().skip(input.from) {
        if act.what == What::StartOver {
            let life = input.life + 1;
            return player.ctx.continue_as_new(Input { from: at + 1, life, saw, ..input }).await;
        }
        let seen = player.perform(act, basis.number()).await?;
        basis.add(&seen);
        saw.push(seen);
    }
    match program.fails {
        true => Err(AnyError::new("as planned")),
        false => Ok(saw),
    }
}

/// All that a run has seen so far, as a number.
#[derive(Default)]
pub(crate) struct Basis(DefaultHasher);

impl Basis {
    pub(crate) fn add(&mut self, saw: &Saw) {
        saw.hash(&mut self.0);
    }

    pub(crate) fn number(&self) -> u64 {
        self.0.finish()
    }
}

struct Player {
    ctx: Ctx,
    stage: Arc<Stage>,
    run: String,
    label: String,
}

impl Player {
    /// Performs one act.
    fn perform<'a>(&'a self, act: &'a Act, basis: u64) -> BoxFuture<'a, Result<Saw, AnyError>> {
        async move {
            match &act.what {
                What::Step { ms, fails, undo } => self.step(act, *ms, *fails, *undo, basis).await,
                What::Doomed { attempts } => {
                    let step = self.ctx.step(&act.name(), |s| {
                        let body = self.body(act, false, s.attempt());
                        let stage = self.stage.clone();
                        async move {
                            stage.run(&body, 0, basis).await;
                            Err::<u64, _>(AnyError::new("doomed"))
                        }
                    });
                    match step.retry(Retry::fixed(*attempts, Duration::from_millis(RETRY_MS))).await {
                        Err(Failure::Own(_)) => Ok(Saw::GaveUp),
                        Err(Failure::Outlast(error)) => Err(error.into()),
                        Ok(_) => Err(AnyError::new("a doomed step succeeded")),
                    }
                }
                What::Transaction { ms, undo } => self.transaction(act, *ms, *undo, basis).await,
                What::Sleep { ms } => {
                    let name = act.name();
                    self.stage.ledger.sleeps(&self.run, &name);
                    self.ctx.scope(&name).sleep(Duration::from_millis(*ms)).await?;
                    self.stage.ledger.woke(&self.run, &name);
                    Ok(Saw::Slept)
                }
                What::Events { count } => {
                    let mut heard = Vec::new();
                    for _ in 0..*count {
                        heard.push(self.ctx.event::<u32>(&act.name()).await?);
                    }
                    Ok(Saw::Heard(heard))
                }
                What::Promise => Ok(Saw::Settled(self.ctx.promise::<u32>(&act.name()).await?)),
                What::Child { program, mails, how } => {
                    let mailbox = program.acts.last().map(Act::name).unwrap_or_default();
                    self.child(act, &mailbox, *mails, *how).await
                }
                What::Job { ms, fails, line } => {
                    let label = cast::child(&self.label, act.number);
                    let work = Work { label, ms: *ms, fails: *fails };
                    let run = self.ctx.scope(&act.name()).start(job(*line), work).await?;
                    Ok(Saw::Worked(run.id(), run.result().await?))
                }
                What::Count => Ok(Saw::Counted(count(&self.ctx.scope(&act.name())).await?)),
                What::Post { to, count } => {
                    let ctx = self.ctx.scope(&act.name());
                    let to = self.stage.cast.run(to).ok_or_else(|| AnyError::new("nobody has this label"))?;
                    for mail in 0..*count {
                        ctx.send(to, "a1", &mail).await?;
                    }
                    Ok(Saw::Posted)
                }
                What::Join(acts) => {
                    let all = join_all(acts.iter().map(|act| self.perform(act, basis))).await;
                    Ok(Saw::All(all.into_iter().collect::<Result<_, _>>()?))
                }
                What::Race(acts) => {
                    let branches = acts.iter().map(|act| self.perform(act, basis)).collect();
                    let (nth, saw) = Race { branches }.await;
                    Ok(Saw::First(nth, Box::new(saw?)))
                }
                What::StartOver => Err(AnyError::new("a life ends only between acts")),
            }
        }
        .boxed()
    }

    fn body(&self, act: &Act, undo: bool, attempt: u32) -> Body {
        (self.run.clone(), act.name(), undo, attempt)
    }

    async fn step(&self, act: &Act, ms: u64, fails: u32, undo: bool, basis: u64) -> Result<Saw, AnyError> {
        let step = self.ctx.step(&act.name(), |s: StepCtx| {
            let (body, stage) = (self.body(act, false, s.attempt()), self.stage.clone());
            async move {
                let value = stage.run(&body, ms, basis).await;
                if s.attempt() <= fails { Err(AnyError::new("not yet")) } else { Ok(value) }
            }
        });
        let step = step.retry(Retry::fixed(fails + 1, Duration::from_millis(RETRY_MS)));
        let step = if undo { step.undo(self.undo(act)) } else { step };
        Ok(Saw::Did(step.await?))
    }

    async fn transaction(&self, act: &Act, ms: u64, undo: bool, basis: u64) -> Result<Saw, AnyError> {
        let step = self.ctx.transaction(&act.name(), |tx: Tx| {
            let (body, stage) = (self.body(act, false, TRANSACTION), self.stage.clone());
            async move {
                let value = stage.ledger.begins(&body, stage.node, basis);
                let row = "insert into sim_rows (run, act, value) values ($1, $2, $3)";
                tx.execute(row, (body.0.as_str(), body.1.as_str(), value as i64)).await?;
                if ms > 0 {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                stage.ledger.ends(&body, value);
                Ok::<_, AnyError>(value)
            }
        });
        // A lost connection is an error of the attempt's.
        let step = step.retry(Retry::fixed(20, Duration::from_millis(RETRY_MS)));
        let step = if undo { step.undo(self.undo(act)) } else { step };
        Ok(Saw::Committed(step.await?))
    }

    /// What takes an act back.
    fn undo(&self, act: &Act) -> impl Fn(StepCtx, u64) -> BoxFuture<'static, Result<(), AnyError>> + use<> {
        let (run, name, stage) = (self.run.clone(), act.name(), self.stage.clone());
        move |s, value| {
            let (body, stage) = ((run.clone(), name.clone(), true, s.attempt()), stage.clone());
            async move {
                stage.run(&body, 0, value).await;
                Ok(())
            }
            .boxed()
        }
    }

    async fn child(&self, act: &Act, mailbox: &str, mails: u32, how: How) -> Result<Saw, AnyError> {
        let label = cast::child(&self.label, act.number);
        // Branches of a race are polled in any order, and so are children of one name made.
        let start = self.ctx.scope(&act.name()).start(definition(), Input::new(label.clone()));
        let start = match how {
            How::Plain => start,
            How::Keyed => start.key(label),
            How::Detached => start.detached(),
        };
        let child = start.await?;
        for mail in 0..mails {
            child.send(mailbox, &mail).await?;
        }
        if how == How::Detached {
            return Ok(Saw::LetGo(child.id()));
        }
        match child.result().await {
            Ok(saw) => Ok(Saw::Child(child.id(), Some(saw))),
            Err(Failure::Own(_)) => Ok(Saw::Child(child.id(), None)),
            Err(Failure::Outlast(error)) => Err(error.into()),
        }
    }
}

impl Stage {
    /// A body: takes its time, and is in the ledger.
    pub(crate) async fn run(&self, body: &Body, ms: u64, basis: u64) -> u64 {
        let value = self.ledger.begins(body, self.node, basis);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        self.ledger.ends(body, value);
        value
    }
}

/// The first of several to end. Polls them in an order that is random, as tokio's `select!` does, and the seed's.
struct Race<'a> {
    branches: Vec<BoxFuture<'a, Result<Saw, AnyError>>>,
}

impl Future for Race<'_> {
    type Output = (usize, Result<Saw, AnyError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let count = self.branches.len();
        let first = fastrand::usize(..count);
        for nth in (0..count).map(|at| (first + at) % count) {
            if let Poll::Ready(saw) = self.branches[nth].poll_unpin(cx) {
                return Poll::Ready((nth, saw));
            }
        }
        Poll::Pending
    }
}
