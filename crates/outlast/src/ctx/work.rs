//! The user's futures, and what becomes of panics in them.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure};

use crate::engine::drive::panic_message;

/// A future of the user's. Nobody is there to take a panic of what it drops unfinished: it is logged.
pub(crate) struct Work<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Work<'a, T> {
    pub(crate) fn new(work: BoxFuture<'a, T>) -> Work<'a, T> {
        Work(Some(work))
    }
}

impl<T> Future for Work<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Some(work) => work.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Work<'_, T> {
    fn drop(&mut self) {
        let work = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
            tracing::error!(
                "work that was given up panicked when it was dropped: {}",
                panic_message(&*panic)
            );
        }
    }
}

/// Runs the user's part of an attempt: a panic in it fails the attempt, with the message.
pub(super) async fn guarded<T, E>(
    what: impl Display,
    work: impl Future<Output = Result<T, Failure<E>>>,
) -> Result<T, Failure<E>> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(Failure::Outlast(panicked(&what.to_string(), &*panic))))
}

pub(super) fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    Error::Panicked { what: what.to_owned(), message: panic_message(panic) }
}
