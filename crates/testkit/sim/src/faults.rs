//! The store as a node sees it: the real one, behind everything that may go wrong on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlast::testing::Process;
use outlast_store::StoreError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What becomes of what happens, call by call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Nobody looks.
    Nothing,
    /// It is written down.
    History,
    /// It is printed at once.
    Aloud,
}

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum CallFault {
    /// It does not reach the database.
    ErrorBefore,
    /// It happens, and nobody hears so.
    ErrorAfter,
    /// It arrives late.
    DelayBefore(Duration),
    /// Its answer arrives late.
    DelayAfter(Duration),
    /// It happens twice, and the first answer arrives.
    Duplicate,
    /// Its process dies first.
    CrashBefore,
    /// It happens, and its process dies.
    CrashAfter,
}

/// What can go wrong, as the report calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    ErrorBefore,
    ErrorAfter,
    Delay,
    Duplicate,
    CrashAtCall,
    Crash,
    Pause,
    LongPause,
    Outage,
    Skew,
    Deaf,
    LostHint,
}

impl Fault {
    pub(crate) const ALL: [Fault; 12] = [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::Delay,
        Fault::Duplicate,
        Fault::CrashAtCall,
        Fault::Crash,
        Fault::Pause,
        Fault::LongPause,
        Fault::Outage,
        Fault::Skew,
        Fault::Deaf,
        Fault::LostHint,
    ];

    /// Whether it happens at a moment; the others are there from the beginning, or hardly hurt.
    pub(crate) fn is_sudden(self) -> bool {
        !matches!(self, Fault::Skew | Fault::Deaf | Fault::LostHint)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Fault::ErrorBefore => "error before",
            Fault::ErrorAfter => "error after",
            Fault::Delay => "delay",
            Fault::Duplicate => "duplicate",
            Fault::CrashAtCall => "crash at a call",
            Fault::Crash => "crash",
            Fault::Pause => "pause",
            Fault::LongPause => "pause past the lease",
            Fault::Outage => "outage",
            Fault::Skew => "clock skew",
            Fault::Deaf => "node without hints",
            Fault::LostHint => "hint lost",
        }
    }
}

/// A node's work may have been cut off, or taken from it, in this time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interruption {
    pub(crate) node: usize,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// The weather of one schedule: which calls go wrong, what has gone wrong, and what was asked of the store.
pub(crate) struct Weather {
    start: Instant,
    state: Mutex<State>,
    watch: Watch,
    /// Nothing goes wrong any more.
    pub(crate) healed: CancellationToken,
}

struct State {
    /// Calls so far, of all nodes.
    calls: u64,
    /// What goes wrong with which call.
    planned: BTreeMap<u64, CallFault>,
    hits: BTreeMap<Fault, u64>,
    /// How often something went wrong with a call of this name.
    at: BTreeMap<&'static str, u64>,
    interruptions: Vec<Interruption>,
    /// Which nodes cannot reach the database.
    outages: BTreeMap<usize, Outage>,
    trace: String,
}

/// A node cannot reach the database.
#[derive(Debug, Clone, Copy)]
struct Outage {
    until: Instant,
    /// Calls wait until then; otherwise they fail at once.
    hangs: bool,
    has_hit: bool,
}

impl Weather {
    pub(crate) fn new(planned: BTreeMap<u64, CallFault>, watch: Watch) -> Weather {
        let state = State {
            calls: 0,
            planned,
            hits: BTreeMap::new(),
            at: BTreeMap::new(),
            interruptions: Vec::new(),
            outages: BTreeMap::new(),
            trace: String::new(),
        };
        Weather { start: Instant::now(), state: Mutex::new(state), watch, healed: CancellationToken::new() }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn clear(&self) {
        {
            let mut state = self.state.lock();
            state.planned.clear();
            state.outages.clear();
        }
        self.healed.cancel();
    }

    /// Something went wrong.
    pub(crate) fn hit(&self, fault: Fault) {
        *self.state.lock().hits.entry(fault).or_default() += 1;
    }

    pub(crate) fn hits(&self) -> BTreeMap<Fault, u64> {
        self.state.lock().hits.clone()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// A node's work may be cut off from now on, for so long.
    pub(crate) fn interrupts(&self, node: usize, time: Duration) {
        let from = self.start.elapsed();
        self.state.lock().interruptions.push(Interruption { node, from, to: from + time });
    }

    /// A node's work may have been cut off since then.
    fn interrupted(&self, node: usize, since: Instant) {
        let (from, to) = (since - self.start, self.start.elapsed());
        self.state.lock().interruptions.push(Interruption { node, from, to });
    }

    pub(crate) fn interruptions(&self) -> Vec<Interruption> {
        self.state.lock().interruptions.clone()
    }

    /// A node cannot reach the database for so long: calls hang until then, or fail at once.
    pub(crate) fn outage(&self, node: usize, time: Duration, hangs: bool) {
        self.interrupts(node, time);
        let outage = Outage { until: Instant::now() + time, hangs, has_hit: false };
        self.state.lock().outages.insert(node, outage);
    }

    /// Notes what happened, where somebody wants to read it.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.watch == Watch::Nothing {
            return;
        }
        let line = format!("{:>10} {}\n", self.start.elapsed().as_micros(), what());
        match self.watch {
            Watch::Aloud => print!("{line}"),
            _ => self.state.lock().trace.push_str(&line),
        }
    }

    /// What happened so far.
    pub(crate) fn trace(&self) -> String {
        self.state.lock().trace.clone()
    }

    /// Whether everything that was planned for a call has happened.
    pub(crate) fn is_spent(&self) -> bool {
        self.state.lock().planned.is_empty()
    }

    /// With which calls something went wrong, and how often.
    pub(crate) fn at(&self) -> BTreeMap<&'static str, u64> {
        self.state.lock().at.clone()
    }

    /// What goes wrong with the next call. What cannot happen to it happens to the next one.
    fn next(&self, name: &'static str, can: impl Fn(CallFault) -> bool) -> Option<CallFault> {
        let mut state = self.state.lock();
        state.calls += 1;
        let number = state.calls;
        let fault = state.planned.remove(&number)?;
        if !can(fault) {
            let later = (number + 1..).find(|later| !state.planned.contains_key(later))?;
            state.planned.insert(later, fault);
            return None;
        }
        *state.at.entry(name).or_default() += 1;
        Some(fault)
    }

    /// The outage that a call of this node meets.
    fn outage_of(&self, node: usize) -> Option<Outage> {
        let mut state = self.state.lock();
        let outage = state.outages.get_mut(&node).filter(|outage| outage.until > Instant::now())?;
        let (is_first, outage) = (!std::mem::replace(&mut outage.has_hit, true), *outage);
        if is_first {
            *state.hits.entry(Fault::Outage).or_default() += 1;
        }
        Some(outage)
    }
}

/// How a node reaches the database.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) node: usize,
    pub(crate) process: Process,
    pub(crate) weather: Arc<Weather>,
    /// Who hears of its death.
    pub(crate) died: Arc<Notify>,
    /// Whether it can die.
    pub(crate) mortal: bool,
}

/// From how long on a delay may have cost a node its lease.
const LONG: Duration = Duration::from_secs(2);

impl Way {
    /// Whether this can happen to a call of this node's.
    fn can(&self, fault: CallFault) -> bool {
        self.mortal || !matches!(fault, CallFault::CrashBefore | CallFault::CrashAfter)
    }

    /// Makes a call, or what the weather leaves of it.
    pub(crate) async fn call<T, F>(&self, name: &'static str, call: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
        T: std::fmt::Debug,
    {
        self.before(name).await?;
        let fault = self.weather.next(name, |fault| self.can(fault));
        self.tell(name, fault);
        let began = Instant::now();
        let answer = match fault {
            Some(CallFault::ErrorBefore) => {
                self.weather.hit(Fault::ErrorBefore);
                return Err(StoreError::Unavailable("it is out of reach".into()));
            }
            Some(CallFault::CrashBefore) => return self.dies().await,
            Some(CallFault::DelayBefore(time)) => {
                self.delay(time).await;
                call().await
            }
            Some(CallFault::Duplicate) => {
                self.weather.hit(Fault::Duplicate);
                let answer = call().await;
                let _ = call().await;
                answer
            }
            _ => call().await,
        };
        self.weather.tell(|| format!("n{} {name} -> {answer:?}", self.node));
        self.note_time(began);
        self.after(fault, answer).await
    }

    /// A call that took long (somebody's transaction held the database) may have cost its node its lease.
    fn note_time(&self, began: Instant) {
        if began.elapsed() >= LONG {
            self.weather.interrupted(self.node, began);
        }
    }

    /// The same for what can be called but once.
    pub(crate) async fn call_once<T, F>(&self, name: &'static str, call: F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.before(name).await?;
        let fault = self.weather.next(name, |fault| self.can(fault) && fault != CallFault::Duplicate);
        self.tell(name, fault);
        match fault {
            Some(CallFault::ErrorBefore) => {
                self.weather.hit(Fault::ErrorBefore);
                return Err(StoreError::Unavailable("it is out of reach".into()));
            }
            Some(CallFault::CrashBefore) => return self.dies().await,
            Some(CallFault::DelayBefore(time)) => self.delay(time).await,
            _ => {}
        }
        let began = Instant::now();
        let answer = call.await;
        self.note_time(began);
        self.after(fault, answer).await
    }

    async fn before(&self, name: &'static str) -> Result<(), StoreError> {
        if self.process.is_killed() {
            std::future::pending::<()>().await;
        }
        while let Some(outage) = self.weather.outage_of(self.node) {
            if !outage.hangs {
                self.weather.tell(|| format!("n{} {name}: cut off", self.node));
                return Err(StoreError::Unavailable("the network is cut".into()));
            }
            self.wait_until(outage.until).await;
        }
        Ok(())
    }

    async fn after<T>(
        &self,
        fault: Option<CallFault>,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match fault {
            Some(CallFault::ErrorAfter) => {
                self.weather.hit(Fault::ErrorAfter);
                Err(StoreError::Unavailable("the reply got lost".into()))
            }
            Some(CallFault::DelayAfter(time)) => {
                self.delay(time).await;
                answer
            }
            Some(CallFault::CrashAfter) => self.dies().await,
            _ => answer,
        }
    }

    async fn delay(&self, time: Duration) {
        self.weather.hit(Fault::Delay);
        if time >= LONG {
            self.weather.interrupts(self.node, time);
        }
        self.wait_until(Instant::now() + time).await;
    }

    /// Waits, but not longer than anything goes wrong.
    async fn wait_until(&self, time: Instant) {
        tokio::select! {
            biased;
            () = self.weather.healed.cancelled() => {}
            () = tokio::time::sleep_until(time) => {}
        }
    }

    /// The process ends here.
    async fn dies<T>(&self) -> Result<T, StoreError> {
        self.weather.hit(Fault::CrashAtCall);
        self.weather.interrupts(self.node, Duration::ZERO);
        self.process.kill();
        self.died.notify_one();
        std::future::pending().await
    }

    fn tell(&self, name: &'static str, fault: Option<CallFault>) {
        self.weather.tell(|| match fault {
            Some(fault) => format!("n{} {name} ({fault:?})", self.node),
            None => format!("n{} {name}", self.node),
        });
    }
}
