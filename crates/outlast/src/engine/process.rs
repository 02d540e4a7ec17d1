//! The process that a node lives in, as far as it can be imitated: stopped in the middle of everything while time goes
//! on, or killed without a word. For the simulator, which has many of them in one thread.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Whether what a node does is done. Clones are the same process.
#[derive(Debug, Clone, Default)]
pub struct Process(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    killed: bool,
    /// Its tasks, by number, so that what they hold goes at once when it is killed.
    parts: BTreeMap<u64, Waker>,
    made: u64,
    /// Who wanted to go on meanwhile, in their order.
    waiting: Vec<Waker>,
}

impl Process {
    /// Nothing of it goes on any more, until it is let.
    pub fn stop(&self) {
        self.0.lock().stopped = true;
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.stopped = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Nothing of it goes on ever again, and all that it held is gone.
    pub fn kill(&self) {
        let parts = {
            let mut state = self.0.lock();
            state.killed = true;
            std::mem::take(&mut state.parts)
        };
        parts.into_values().for_each(Waker::wake);
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.0.lock().killed
    }

    /// Whether it stands still.
    pub fn is_stopped(&self) -> bool {
        self.0.lock().stopped
    }

    /// Does `work` as a part of this process.
    pub fn of<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: F,
    ) -> impl Future<Output = ()> + Send + 'static {
        let number = {
            let mut state = self.0.lock();
            state.made += 1;
            state.made
        };
        Part { process: self.clone(), number, work: Some(Box::pin(work)) }
    }

    /// Whether a part may go on; if not now, it is woken when that changes.
    fn lets(&self, number: u64, cx: &Context<'_>) -> Option<bool> {
        let mut state = self.0.lock();
        if !state.killed && state.parts.get(&number).is_none_or(|known| !known.will_wake(cx.waker())) {
            state.parts.insert(number, cx.waker().clone());
        }
        match (state.killed, state.stopped) {
            (true, _) => Some(false),
            (false, false) => Some(true),
            (false, true) => {
                state.waiting.push(cx.waker().clone());
                None
            }
        }
    }
}

/// A task of a process.
struct Part<F> {
    process: Process,
    number: u64,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Future for Part<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.process.lets(self.number, cx) {
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
        self.process.0.lock().parts.remove(&self.number);
    }
}
