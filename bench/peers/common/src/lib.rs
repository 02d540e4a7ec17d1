//! What every peer program shares: the command line, the rows it prints, and the ways to measure.
//!
//! Peers differ in everything but the questions asked of them. Those live here, so that two peers'
//! figures differ because of the peers: the same closed loop drives all of them, the same clock
//! judges them, and the same limit of time ends them. It links no database, because the peers'
//! drivers cannot all be linked into one program.

use std::{
    collections::HashMap,
    future::Future,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::{Child, exit},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

/// Runs a peer program to its end, whatever happens in it: a failure, a panic, an interrupt or a
/// peer that hangs all end the process with a message, a non-zero code and no child left behind.
pub fn run<F, Fut>(about: About, measure: F)
where
    F: FnOnce(Bench) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let bench = match Bench::from_args(about, std::env::args().skip(1)) {
        Ok(bench) => bench,
        Err(error) => end(2, &format!("{error:#}")),
    };
    let limit = if bench.quick { Duration::from_secs(180) } else { Duration::from_secs(900) };
    // A thread of its own, since a peer may block the runtime's.
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        end(3, &format!("not done after {limit:?}"));
    });

    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => end(1, &format!("no runtime: {error}")),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            tokio::select! {
                outcome = measure(bench) => outcome,
                () = interrupted() => end(130, "interrupted"),
            }
        })
    }));
    match outcome {
        Ok(Ok(())) => end(0, ""),
        Ok(Err(error)) => end(1, &format!("{error:#}")),
        Err(_) => end(1, "panicked"),
    }
}

/// Which peer a program measures.
pub struct About {
    /// Its name, as in the table.
    pub name: &'static str,
    /// The crate whose version is shown.
    pub package: &'static str,
    /// The program's `Cargo.lock`, which knows that version.
    pub lock: &'static str,
    /// The stores the peer can use.
    pub stores: &'static [&'static str],
}

/// What was asked for, and where the rows go.
#[derive(Clone)]
pub struct Bench {
    /// Where the peer keeps its state.
    pub url: String,
    /// `postgres` or `sqlite`, by the address, or [`OWN`].
    pub store: &'static str,
    /// Small and short, for a look rather than a figure.
    pub quick: bool,
    workloads: Vec<String>,
    runs: Option<usize>,
    peer: String,
}

/// The store of a peer that brings its own; the address of a database means nothing to it.
pub const OWN: &str = "own";

const WORKLOADS: [&str; 5] = ["W1", "W2", "W3", "W4", "W5"];

impl Bench {
    fn from_args(about: About, mut args: impl Iterator<Item = String>) -> Result<Self> {
        let (mut url, mut runs, mut quick) = (None, None, false);
        let mut workloads: Vec<String> = WORKLOADS.iter().map(ToString::to_string).collect();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--database-url" => url = Some(value()?),
                "--workloads" => workloads = value()?.split(',').map(|w| w.trim().to_owned()).collect(),
                "--runs" => runs = Some(value()?.parse().context("--runs needs a number")?),
                "--quick" => quick = true,
                _ => bail!("unknown argument {arg}; {USAGE}"),
            }
        }
        if let Some(unknown) = workloads.iter().find(|w| !WORKLOADS.contains(&w.as_str())) {
            bail!("unknown workload {unknown}; there are {}", WORKLOADS.join(", "));
        }
        let own = about.stores == [OWN];
        let url =
            url.or(own.then(String::new)).with_context(|| format!("--database-url is missing; {USAGE}"))?;
        let store = if own {
            OWN
        } else if url.starts_with("sqlite:") {
            "sqlite"
        } else {
            "postgres"
        };
        if !about.stores.contains(&store) {
            bail!("{} does not run on {store}", about.name);
        }
        let peer = format!("{} {}", about.name, locked_version(about.lock, about.package)?);
        Ok(Bench { url, store, quick, workloads, runs, peer })
    }

    /// With `first` before the peer's name, for what is not in `Cargo.lock`.
    pub fn after(self, first: &str) -> Self {
        Bench { peer: format!("{first}{}", self.peer), ..self }
    }

    /// Whether this workload was asked for.
    pub fn wants(&self, workload: &str) -> bool {
        self.workloads.iter().any(|w| w == workload)
    }

    /// The first when the measure is to be a full one, the second when a quick one.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The file of a `sqlite:///path/file.db` address.
    pub fn sqlite_path(&self) -> Result<&str> {
        self.url.strip_prefix("sqlite://").context("an SQLite address looks like sqlite:///path/file.db")
    }

    /// How many runs may be alive at once in W2.
    pub fn levels(&self) -> &'static [usize] {
        self.pick(&[1, 64, 256], &[256])
    }

    /// No more than this many runs in one measure of W2; slow peers end earlier, by time.
    pub fn runs(&self) -> usize {
        self.runs.unwrap_or(self.pick(20_000, 2_000))
    }

    /// How long one measure may keep beginning new work.
    pub fn budget(&self) -> Duration {
        self.pick(Duration::from_secs(12), Duration::from_secs(5))
    }

    /// How many samples of a latency to take.
    pub fn samples(&self) -> usize {
        self.pick(500, 100)
    }

    /// How long before they are due the timers of W5 are set.
    ///
    /// Long enough for most peers to write 2,000 of them down; a measure in which it was not gives
    /// no figure.
    pub fn lead(&self) -> Duration {
        Duration::from_secs(6)
    }

    /// A row with a figure.
    pub fn row(&self, workload: &str, variant: &str, concurrency: usize, value: f64, unit: &str, note: &str) {
        self.print(workload, variant, Some(concurrency), Some(value), unit, note);
    }

    /// Two rows: half of the samples were faster than the first, all but a hundredth than the second.
    pub fn latency(
        &self,
        workload: &str,
        variant: &str,
        mut samples: Vec<Duration>,
        note: &str,
    ) -> Result<()> {
        if samples.is_empty() {
            bail!("{workload} {variant}: no sample was taken");
        }
        samples.sort_unstable();
        let note = if note.is_empty() {
            format!("{} samples", samples.len())
        } else {
            format!("{} samples; {note}", samples.len())
        };
        let at = |part: f64| samples[((samples.len() - 1) as f64 * part).round() as usize];
        self.row(workload, variant, 1, at(0.50).as_secs_f64() * 1e3, "ms p50", &note);
        self.row(workload, variant, 1, at(0.99).as_secs_f64() * 1e3, "ms p99", &note);
        Ok(())
    }

    /// The rows of W5: how long after `due` each timer fired.
    pub fn lateness(
        &self,
        due: SystemTime,
        fired: Vec<SystemTime>,
        set: SystemTime,
        note: &str,
    ) -> Result<()> {
        if set > due {
            let why = "the timers were due before the last of them was set; the measure says nothing";
            self.cannot("W5", "timers due together", "ms p50", why);
            return Ok(());
        }
        let early = fired.iter().filter(|at| **at < due).count();
        let count = fired.len();
        let mut late: Vec<_> =
            fired.into_iter().map(|at| at.duration_since(due).unwrap_or_default()).collect();
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part).round() as usize].as_secs_f64() * 1e3;
        let mut note = note.to_owned();
        if early > 0 {
            note = format!("{early} timers fired early; {note}");
        }
        self.row("W5", "timers due together", count, at(0.50), "ms p50", &note);
        self.row("W5", "timers due together", count, at(0.99), "ms p99", &note);
        Ok(())
    }

    /// Whether fewer timers than wanted could be set in time; then a row says so.
    pub fn too_few_timers(&self, set: usize, wanted: usize) -> bool {
        if set < wanted {
            let why = format!("only {set} of {wanted} timers could be set before they were due");
            self.cannot("W5", "timers due together", "ms p50", &why);
        }
        set < wanted
    }

    /// A row that says what the peer cannot do.
    pub fn cannot(&self, workload: &str, variant: &str, unit: &str, why: &str) {
        self.print(workload, variant, None, None, unit, why);
    }

    fn print(
        &self,
        workload: &str,
        variant: &str,
        concurrency: Option<usize>,
        value: Option<f64>,
        unit: &str,
        note: &str,
    ) {
        let value = value.map(|value| (value * 1000.0).round() / 1000.0);
        let (store, peer) = (self.store, self.peer.as_str());
        let row = Row { workload, store, concurrency, value, unit, peer, variant, note };
        let line = serde_json::to_string(&row).expect("a row of texts and numbers is JSON");
        let mut out = std::io::stdout().lock();
        // Nobody reads on: the figures have nowhere to go.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            end(1, "stdout is closed");
        }
    }
}

const USAGE: &str = "usage: --database-url URL [--workloads W1,W2,W3,W4,W5] [--runs N] [--quick]";

#[derive(Serialize)]
struct Row<'a> {
    workload: &'a str,
    store: &'a str,
    concurrency: Option<usize>,
    value: Option<f64>,
    unit: &'a str,
    peer: &'a str,
    variant: &'a str,
    note: &'a str,
}

/// What a [`closed_loop`] did.
pub struct Pace {
    /// How many pieces of work ended.
    pub done: usize,
    /// From the first beginning to the last end.
    pub took: Duration,
}

impl Pace {
    /// Pieces a second.
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }
}

/// Keeps `concurrency` pieces of work under way until `most` are done or `budget` is over.
///
/// Work that has begun is waited for, and its time counts: a peer cannot look fast by leaving work
/// undone.
pub async fn closed_loop<F, Fut>(concurrency: usize, most: usize, budget: Duration, work: F) -> Result<Pace>
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let (work, next) = (Arc::new(work), Arc::new(AtomicUsize::new(0)));
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (work, next) = (work.clone(), next.clone());
        tasks.spawn(async move {
            let mut done = 0;
            while begin.elapsed() < budget {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    break;
                }
                work(number).await.with_context(|| format!("piece {number}"))?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let everything = async {
        let mut done = 0;
        while let Some(task) = tasks.join_next().await {
            done += task.context("a task of the closed loop died")??;
        }
        anyhow::Ok(done)
    };
    let patience = budget + Duration::from_secs(60);
    let done = tokio::time::timeout(patience, everything)
        .await
        .with_context(|| format!("{concurrency} at once: not done after {patience:?}"))??;
    Ok(Pace { done, took: begin.elapsed() })
}

/// Counts what workers did, and wakes whoever waits for a number of it.
#[derive(Default)]
pub struct Tally {
    count: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

impl Tally {
    /// A tally for a `static`.
    pub const fn new() -> Self {
        Tally {
            count: AtomicUsize::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            reached: Notify::const_new(),
        }
    }

    /// One more.
    pub fn add(&self) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= self.wanted.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Back to none.
    pub fn clear(&self) {
        self.wanted.store(usize::MAX, Ordering::SeqCst);
        self.count.store(0, Ordering::SeqCst);
    }

    /// Waits until there are `wanted`.
    pub async fn reach(&self, wanted: usize, patience: Duration) -> Result<()> {
        self.wanted.store(wanted, Ordering::SeqCst);
        let all = async {
            while self.count() < wanted {
                self.reached.notified().await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            bail!("{} of {wanted} were done after {patience:?}", self.count());
        }
        Ok(())
    }
}

/// Where work running somewhere in the peer says that it arrived, and when.
///
/// The peer carries a number to the work; the work lands with that number. Both ends are in one
/// process, so that one clock judges both.
#[derive(Default)]
pub struct Landings(Mutex<Option<HashMap<u64, oneshot::Sender<(Instant, SystemTime)>>>>);

/// Waits for one landing.
pub struct Landing(oneshot::Receiver<(Instant, SystemTime)>);

impl Landings {
    /// Landings for a `static`.
    pub const fn new() -> Self {
        Landings(Mutex::new(None))
    }

    /// Announces that `number` will land.
    pub fn expect(&self, number: u64) -> Landing {
        let (send, receive) = oneshot::channel();
        self.lock().get_or_insert_default().insert(number, send);
        Landing(receive)
    }

    /// `number` is here. Repetitions, as after a retry, change nothing.
    pub fn land(&self, number: u64) {
        let now = (Instant::now(), SystemTime::now());
        if let Some(waiting) = self.lock().as_mut().and_then(|all| all.remove(&number)) {
            // Whoever waited may have given up: then nobody wants to know.
            let _ = waiting.send(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<(Instant, SystemTime)>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Landing {
    /// How long after `since` it landed.
    pub async fn after(self, since: Instant) -> Result<Duration> {
        let (at, _) = self.wait(Duration::from_secs(30)).await?;
        Ok(at.saturating_duration_since(since))
    }

    /// When it landed, by the clock on the wall.
    pub async fn at(self, patience: Duration) -> Result<SystemTime> {
        Ok(self.wait(patience).await?.1)
    }

    async fn wait(self, patience: Duration) -> Result<(Instant, SystemTime)> {
        let landed = tokio::time::timeout(patience, self.0).await;
        landed
            .with_context(|| format!("nothing landed within {patience:?}"))?
            .context("the landing was dropped")
    }
}

/// Takes one sample after another until there are enough or `budget` is over.
///
/// The first few do not count: they open connections and begin to listen.
pub async fn one_by_one<F>(samples: usize, budget: Duration, mut sample: F) -> Result<Vec<Duration>>
where
    F: AsyncFnMut(usize) -> Result<Duration>,
{
    const WARM_UP: usize = 5;
    let mut begin = Instant::now();
    let mut taken = Vec::with_capacity(samples);
    for number in 0..WARM_UP + samples {
        let one = tokio::time::timeout(Duration::from_secs(60), sample(number)).await;
        let one = one.context("a sample took longer than a minute")??;
        if number < WARM_UP {
            begin = Instant::now();
            continue;
        }
        taken.push(one);
        if begin.elapsed() > budget {
            break;
        }
    }
    Ok(taken)
}

/// The instant of a [`SystemTime`] in milliseconds, for peers that carry times as numbers.
pub fn millis(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// How long until `millis` past the epoch; nothing when that is over.
pub fn until(millis: i64) -> Duration {
    let at = UNIX_EPOCH + Duration::from_millis(millis.max(0) as u64);
    at.duration_since(SystemTime::now()).unwrap_or_default()
}

static ADOPTED: Mutex<Vec<(Child, PathBuf)>> = Mutex::new(Vec::new());

/// Takes over a process that must not outlive this one, and the folder it writes to.
pub fn adopt(child: Child, folder: PathBuf) {
    ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).push((child, folder));
}

/// Ends the process at once: some peers never let go of their tasks, and the figures are out.
fn end(code: i32, message: &str) -> ! {
    for (mut child, folder) in ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Both may be gone already, which is as good.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(folder);
    }
    if !message.is_empty() {
        eprintln!("{message}");
    }
    exit(code)
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => std::future::pending().await,
    }
}

/// The version of `package` in a `Cargo.lock`, so that a row never names another than was measured.
fn locked_version(lock: &str, package: &str) -> Result<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \""));
    let version = version.and_then(|rest| rest.strip_suffix('"'));
    Ok(version.with_context(|| format!("Cargo.lock does not name {package}"))?.to_owned())
}
