//! The process that a node lives in, as far as it can be imitated: stopped in the middle of everything while time goes
//! on, or killed without a word. For the simulator, which has many of them in one thread.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Whether what a node does is done. Clones are the same process.
#[derive(Debug, Clone, Default)]
pub struct Process(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    // Beside the lock, since every part asks whenever it is polled.
    stopped: AtomicBool,
    killed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Its tasks, by number, so that what they hold goes at once when it is killed.
    parts: BTreeMap<u64, Waker>,
    made: u64,
    /// Who wanted to go on meanwhile, in their order.
    waiting: Vec<Waker>,
}

impl Process {
    /// Nothing of it goes on any more, until it is let.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        let waiting = {
            let mut state = self.0.state.lock();
            self.0.stopped.store(false, Ordering::Release);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Nothing of it goes on ever again, and all that it held is gone.
    pub fn kill(&self) {
        let parts = {
            let mut state = self.0.state.lock();
            self.0.killed.store(true, Ordering::Release);
            std::mem::take(&mut state.parts)
        };
        parts.into_values().for_each(Waker::wake);
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.0.killed.load(Ordering::Acquire)
    }

    /// Whether it stands still.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Does `work` as a part of this process.
    pub fn of<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: F,
    ) -> impl Future<Output = ()> + Send + 'static {
        let number = {
            let mut state = self.0.state.lock();
            state.made += 1;
            state.made
        };
        Part { process: self.clone(), number, woken_by: None, work: Some(Box::pin(work)) }
    }

    /// Whoever is killed wakes this part as well.
    fn knows(&self, number: u64, waker: &Waker) {
        let mut state = self.0.state.lock();
        if !self.is_killed() {
            state.parts.insert(number, waker.clone());
        }
    }

    /// Whether a part may go on; if not now, it is woken when that changes.
    fn lets(&self, cx: &Context<'_>) -> Option<bool> {
        if !self.is_killed() && self.is_stopped() {
            let mut state = self.0.state.lock();
            // It may have been let go on meanwhile, or killed.
            if !self.is_killed() && self.is_stopped() {
                state.waiting.push(cx.waker().clone());
                return None;
            }
        }
        Some(!self.is_killed())
    }
}

/// A task of a process.
struct Part<F> {
    process: Process,
    number: u64,
    /// What its process wakes it by.
    woken_by: Option<Waker>,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Future for Part<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.woken_by.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            self.process.knows(self.number, cx.waker());
            self.woken_by = Some(cx.waker().clone());
        }
        match self.process.lets(cx) {
            None => return Poll::Pending,
            Some(false) => {
                self.work = None;
                return Poll::Ready(());
            }
            Some(true) => {}
        }
        let Some(work) = self.work.as_mut() else { return Poll::Ready(()) };
        let polled = work.as_mut().poll(cx);
        // It may have been killed by something that it did, or nobody would ever wake it.
        if self.process.is_killed() {
            self.work = None;
            return Poll::Ready(());
        }
        polled
    }
}

impl<F> Drop for Part<F> {
    fn drop(&mut self) {
        self.process.0.state.lock().parts.remove(&self.number);
    }
}
