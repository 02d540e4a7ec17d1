//! What handlers log through `tracing` is kept with the run.
//!
//! [`RunLogs`] is a layer for the subscriber that the application installs. It sends what is logged
//! inside a handler to the run in hand, which keeps a bounded number of lines and stays quiet while it
//! replays.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context as LayerContext;

use crate::engine::job::JobTurn;
use crate::engine::turn::Turn;

/// The longest line that is kept, in bytes.
const LINE: usize = 4096;

/// Where lines go.
#[derive(Clone)]
pub(crate) enum Sink {
    Turn(Weak<Turn>),
    Job(Weak<JobTurn>),
}

thread_local! {
    static CURRENT: RefCell<Option<Sink>> = const { RefCell::new(None) };
    static STEP: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Calls or polls the body of a step, whose lines have its name.
pub(crate) fn in_step<T>(name: Arc<str>, work: impl FnOnce() -> T) -> T {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            STEP.with(|step| *step.borrow_mut() = None);
        }
    }
    STEP.with(|step| *step.borrow_mut() = Some(name));
    let _over = Over;
    work()
}

/// The step whose body is being polled.
fn step() -> Option<String> {
    STEP.with(|step| step.try_borrow().ok()?.as_deref().map(str::to_owned))
}

/// Runs `work` so that what it logs goes to `sink`.
pub(crate) fn keep<F: Future>(sink: Sink, work: F) -> impl Future<Output = F::Output> {
    let mut work = Box::pin(work);
    std::future::poll_fn(move |cx| scoped(&sink, work.as_mut(), cx))
}

fn scoped<F: Future>(sink: &Sink, work: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
    struct Restore(Option<Sink>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            CURRENT.with(|current| *current.borrow_mut() = before);
        }
    }
    let before = CURRENT.with(|current| current.borrow_mut().replace(sink.clone()));
    let _restore = Restore(before);
    work.poll(cx)
}

/// A `tracing` layer that keeps what handlers log with their run.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// let subscriber = tracing_subscriber::registry().with(outlast::RunLogs::default());
/// # drop(subscriber);
/// ```
#[derive(Debug, Clone)]
pub struct RunLogs {
    most_verbose: Level,
}

impl Default for RunLogs {
    /// Keeps `info` and what is more urgent.
    fn default() -> RunLogs {
        RunLogs { most_verbose: Level::INFO }
    }
}

impl RunLogs {
    /// Keeps lines of this level and what is more urgent.
    pub fn up_to(level: Level) -> RunLogs {
        RunLogs { most_verbose: level }
    }
}

impl<S: Subscriber> Layer<S> for RunLogs {
    fn on_event(&self, event: &Event<'_>, _ctx: LayerContext<'_, S>) {
        let meta = event.metadata();
        // Our own lines are about the run, not of it.
        if *meta.level() > self.most_verbose || is_ours(meta.target()) {
            return;
        }
        let sink = CURRENT.with(|current| current.try_borrow().ok().and_then(|sink| sink.clone()));
        let Some(sink) = sink else { return };
        let mut line = Line::default();
        event.record(&mut line);
        let level = meta.level().as_str().to_ascii_lowercase();
        match sink {
            Sink::Turn(turn) => {
                if let Some(turn) = turn.upgrade() {
                    turn.log(&level, line.text(), step());
                }
            }
            Sink::Job(job) => {
                if let Some(job) = job.upgrade() {
                    job.log(&level, line.text());
                }
            }
        }
    }
}

/// Whether a line comes from one of our own crates, and not from one whose name begins like ours.
fn is_ours(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    matches!(krate, "outlast" | "outlast_store" | "outlast_core")
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        let cut = (0..=LINE.min(self.message.len())).rev().find(|at| self.message.is_char_boundary(*at));
        self.message.truncate(cut.unwrap_or(0));
        self.message.replace('\0', "\u{fffd}")
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing into a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
