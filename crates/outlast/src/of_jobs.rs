//! What jobs have beside their code: what their errors say, how they are undone, how many are done at once.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, FailureDoc, Limits, Payload};

use crate::ctx::{Work, note_of};
use crate::definition::{Erased, Options, Outcome, Stored, StoredError, check_duration, decode_input};
use crate::judge::Judge;
use crate::{BatchCtx, JobCtx};

/// The most jobs of one batch.
const MOST: usize = 10_000;

/// What a job has beside its code.
pub(crate) struct OfJobs<I, O, E> {
    pub(crate) judge: Judge<E>,
    pub(crate) undo: Option<Undo<I, E>>,
    pub(crate) batch: Option<Batch<I, O, E>>,
}

impl<I, O, E> OfJobs<I, O, E> {
    pub(crate) const fn new() -> Self {
        OfJobs { judge: Judge::new(), undo: None, batch: None }
    }
}

impl<I, O, E> Clone for OfJobs<I, O, E> {
    fn clone(&self) -> Self {
        OfJobs { judge: self.judge.clone(), undo: self.undo.clone(), batch: self.batch.clone() }
    }
}

type Handler<C, I, O, E> = Arc<dyn Fn(C, I) -> BoxFuture<'static, Result<O, E>> + Send + Sync>;

/// What is done when a job is cancelled.
pub(crate) struct Undo<I, E>(Handler<JobCtx, I, (), E>);

pub(crate) type ErasedUndo = Erased<JobCtx>;

impl<I, E> Clone for Undo<I, E> {
    fn clone(&self) -> Self {
        Undo(self.0.clone())
    }
}

impl<I: Stored, E: StoredError> Undo<I, E> {
    pub(crate) fn new<F, Fut>(undo: F) -> Self
    where
        F: Fn(JobCtx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        Undo(Arc::new(move |job, input| Box::pin(undo(job, input))))
    }

    pub(crate) fn erase(self, options: Options) -> ErasedUndo {
        Box::new(move |job, input, limits| {
            let input = decode_input::<I>(options.name, input)?;
            let work = Work::new((self.0)(job, input));
            Ok(Box::pin(async move { outcome(work.await, &limits) }))
        })
    }
}

/// How many are done at once, and by what.
pub(crate) struct Batch<I, O, E> {
    most: usize,
    wait: Duration,
    handler: Handler<BatchCtx, Vec<I>, O, E>,
}

impl<I, O, E> Clone for Batch<I, O, E> {
    fn clone(&self) -> Self {
        Batch { most: self.most, wait: self.wait, handler: self.handler.clone() }
    }
}

impl<I: Stored, O: Stored, E: StoredError> Batch<I, O, E> {
    pub(crate) fn new<F, Fut>(most: usize, wait: Duration, handler: F) -> Self
    where
        F: Fn(BatchCtx, Vec<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        Batch { most, wait, handler: Arc::new(move |ctx, inputs| Box::pin(handler(ctx, inputs))) }
    }

    pub(crate) fn call(&self, ctx: BatchCtx, inputs: Vec<I>) -> BoxFuture<'static, Result<O, E>> {
        (self.handler)(ctx, inputs)
    }

    pub(crate) fn erase(self, options: Options, judge: Judge<E>) -> ErasedBatch {
        let Batch { most, wait, handler } = self;
        ErasedBatch {
            most,
            wait,
            decode: Box::new(move |input| Ok(Box::new(decode_input::<I>(options.name, input)?))),
            call: Box::new(move |ctx, inputs, limits| {
                // All of them were decoded by the line above.
                let inputs = inputs.into_iter().filter_map(|input| input.downcast::<I>().ok());
                let work = Work::new(handler(ctx.clone(), inputs.map(|input| *input).collect()));
                let judge = judge.clone();
                Box::pin(async move {
                    let done = work.await.map(|_| ());
                    if let Err(error) = &done {
                        judge.judge(ctx.jobs(), error);
                    }
                    outcome(done, &limits)
                })
            }),
        }
    }
}

/// The code of a batch without its types.
pub(crate) struct ErasedBatch {
    pub(crate) most: usize,
    pub(crate) wait: Duration,
    pub(crate) decode: BatchDecode,
    pub(crate) call: BatchCall,
}

type BatchDecode = Box<dyn Fn(&Payload) -> Result<Box<dyn Any + Send>, Error> + Send + Sync>;
type BatchCall =
    Box<dyn Fn(BatchCtx, Vec<Box<dyn Any + Send>>, Limits) -> BoxFuture<'static, Outcome> + Send + Sync>;

impl ErasedBatch {
    /// Accepts a batch that can come together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.most == 0 || self.most > MOST {
            return Err(Error::invalid("jobs of a batch", self.most, format!("1 to {MOST}")));
        }
        check_duration("wait of a batch", self.wait)
    }
}

fn outcome<E: StoredError>(result: Result<(), E>, limits: &Limits) -> Outcome {
    match result {
        Ok(()) => Ok(note_of(&())),
        Err(error) => Err(FailureDoc::new(&Failure::Own(error), limits)),
    }
}
