//! The supervisor: starts runs, feeds them, kills the nodes that run them, heals, and asks the checker.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use outlast::{
    Client, Definition, Entry, Error, Filter, Outlast, RunHandle, RunId, RunView, Start, Target, Tx,
};
use outlast_store::OpenOptions;
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};

use crate::calls::{Answer, Asked, Log};
use crate::check::{self, Effect, Evidence, Verdict, Violation};
use crate::ledger::{Ledger, Line};
use crate::plan::{self, Act, Plan, Work};
use crate::play::{EFFECTS, play, work};

/// How many runs are under way at once, their children not counted.
const LOAD: u64 = 24;
/// How many runs must still be started and end after the last kill.
const TAIL: u64 = 20;
/// How long after the last kill everything must have ended.
const HEAL: Duration = Duration::from_secs(120);
/// The lease of victims: short, so that the next takes over soon.
const LEASE: Duration = Duration::from_millis(2000);
/// From this number of kills on, it would be strange if none hit anything.
const MANY: usize = 50;
/// Of so many runs the whole story is told when something is wrong.
const TOLD: usize = 3;

/// What to do.
#[derive(Debug, Clone)]
pub struct Supervisor {
    /// Decides about plans and moments; the same seed makes the same plans.
    pub seed: u64,
    /// How often to kill.
    pub kills: u32,
    /// An empty database.
    pub database_url: String,
    /// The program that is killed.
    pub victim: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Everything that must not be; empty when all is well.
    pub violations: Vec<Violation>,
    /// How many kills hit a node in the middle of a body.
    pub hits: usize,
    /// How many attempts were begun again because a kill came before their record.
    pub repeated: usize,
    seed: u64,
    kills: usize,
    runs: usize,
    steps: usize,
    lost: usize,
    lapses: usize,
    /// What is known about the runs with violations.
    stories: String,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for violation in &self.violations {
            let run = violation.run.map(|run| format!("run {run}: ")).unwrap_or_default();
            writeln!(f, "violation (seed {}): {run}{}", self.seed, violation.what)?;
        }
        f.write_str(&self.stories)?;
        let Report { seed, hits, lapses, kills, runs, steps, repeated, lost, .. } = self;
        writeln!(f, "kill: seed={seed} in_a_body={hits} lapses={lapses}")?;
        let violations = self.violations.len();
        write!(
            f,
            "kill: kills={kills} runs={runs} steps={steps} repeated={repeated} lost={lost} violations={violations}"
        )
    }
}

impl Supervisor {
    /// Starts, kills, heals and checks.
    pub async fn run(&self) -> Result<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let folder = TempDir::new().context("cannot make a folder for the ledger")?;
        let scene = Scene::open(self, folder.path(), &mut rng).await?;
        let load = scene.begin_load(self.seed);

        let mut nodes = scene.kill_again_and_again(self, &mut rng).await?;
        while nodes.len() < scene.most_nodes() {
            nodes.push(scene.spawn(&mut rng)?);
        }
        for node in &mut nodes {
            node.wait_until_up(&scene.folder).await?;
        }
        let healed = Instant::now();
        scene.tail.store(scene.next.load(Ordering::Relaxed) + TAIL, Ordering::Relaxed);
        let in_time = scene.drain(load, healed).await?;
        drop(nodes);

        let evidence = scene.evidence().await?;
        let mut verdict = check::check(&evidence);
        if !in_time {
            verdict.violations.push(about_all(format!("not everything ended within {HEAL:?}")));
        }
        if verdict.kills >= MANY && (verdict.hits == 0 || verdict.repeated == 0) {
            verdict.violations.push(about_all("the kills hit nothing: this proves nothing".to_owned()));
        }
        Ok(self.report(verdict, &evidence, &scene))
    }

    fn report(&self, verdict: Verdict, evidence: &Evidence, scene: &Scene) -> Report {
        let mut stories = String::new();
        if !verdict.violations.is_empty() {
            let mut told = Vec::new();
            for run in verdict.violations.iter().filter_map(|violation| violation.run) {
                if told.len() < TOLD && !told.contains(&run) {
                    told.push(run);
                    story(run, evidence, &mut stories);
                }
            }
            let said = std::fs::read_to_string(scene.folder.join("victims.log")).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            let _ = writeln!(stories, "what the victims said last:\n{last}");
        }
        Report {
            violations: verdict.violations,
            hits: verdict.hits,
            repeated: verdict.repeated,
            seed: self.seed,
            kills: verdict.kills,
            runs: evidence.runs.len(),
            steps: verdict.steps,
            lost: verdict.lost,
            lapses: verdict.lapses,
            stories,
        }
    }
}

fn about_all(what: String) -> Violation {
    Violation { run: None, what }
}

/// Everything that is known about one run.
fn story(run: RunId, evidence: &Evidence, out: &mut String) {
    let Some(view) = evidence.runs.iter().find(|view| view.record.id == run) else { return };
    let input = String::from_utf8_lossy(&view.record.input.bytes);
    let _ = writeln!(out, "--- run {run}, key {:?}, {}", view.record.key, view.status);
    let _ = writeln!(
        out,
        "due {:?}, node {:?}, epoch {}, attempt {}, reason {:?}\ninput {input}\nended {:?}\ndoing {:?}",
        view.due_at, view.node, view.epoch, view.attempt, view.reason, view.ended, view.doing
    );
    for entry in evidence.journals.get(&run).into_iter().flatten() {
        let body = entry.body.as_ref().map(|body| String::from_utf8_lossy(&body.bytes).into_owned());
        let Entry { pos, op, phase, name, at, .. } = entry;
        let _ = writeln!(out, "journal {pos} {op:?} {phase:?} {name} at {at}: {}", body.unwrap_or_default());
    }
    let nodes: Vec<u32> = evidence.ledger.iter().filter_map(|line| body_of(line, run)).collect();
    for (place, line) in evidence.ledger.iter().enumerate() {
        let about = match line {
            Line::Kill { node } | Line::Lapse { node } | Line::Up { node } => nodes.contains(node),
            line => body_of(line, run).is_some(),
        };
        if about {
            let _ = writeln!(out, "ledger {place} {line:?}");
        }
    }
    for call in evidence.calls.iter().filter(|call| view.record.key.as_ref() == Some(&call.key)) {
        let _ = writeln!(out, "client {:?}: {:?}", call.asked, call.answer);
    }
}

fn body_of(line: &Line, of: RunId) -> Option<u32> {
    match line {
        Line::Begin(body) | Line::End(body) => (body.run == of).then_some(body.node),
        _ => None,
    }
}

/// Where it all happens.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) client: Client,
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    folder: PathBuf,
    url: String,
    victim: PathBuf,
    nodes: Arc<AtomicU64>,
    /// The number of the next run.
    next: Arc<AtomicU64>,
    /// The number of the last.
    tail: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Scene {
    /// Makes the schema and the table for effects, in a database that must be empty.
    pub(crate) async fn open(told: &Supervisor, folder: &Path, rng: &mut Rng) -> Result<Scene> {
        let shards = if rng.bool() { 1 } else { 4 };
        let options = OpenOptions { shards, ..OpenOptions::default() };
        let client = Outlast::on(outlast_store::open(&told.database_url, options).await?).client();
        let page = client.list(&Filter::default(), None, 1).await?;
        ensure!(page.runs.is_empty(), "the database holds runs already: give me an empty one");
        client
            .transaction(async |tx: Tx| {
                tx.execute(EFFECTS, ()).await?;
                Ok::<(), Error>(())
            })
            .await?;
        Ok(Scene {
            client,
            log: Arc::default(),
            ledger: Arc::new(Ledger::open(&folder.join("ledger"), 0)?),
            folder: folder.to_owned(),
            url: told.database_url.clone(),
            victim: told.victim.clone(),
            nodes: Arc::default(),
            next: Arc::default(),
            tail: Arc::new(AtomicU64::new(u64::MAX)),
            broken: Arc::default(),
        })
    }

    fn is_sqlite(&self) -> bool {
        self.client.store().name() == "sqlite"
    }

    /// SQLite's file has one owner.
    fn most_nodes(&self) -> usize {
        if self.is_sqlite() { 1 } else { 2 }
    }

    // ---- nodes

    /// Kills so often, and gives back the nodes that are left.
    async fn kill_again_and_again(&self, told: &Supervisor, rng: &mut Rng) -> Result<Vec<Node>> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut kills = 0;
        // Where the load cannot go on, waiting for its end tells why.
        while kills < told.kills && !self.broken.load(Ordering::Relaxed) {
            let wanted = rng.usize(1..=self.most_nodes());
            while nodes.len() < wanted {
                nodes.push(self.spawn(rng)?);
            }
            if rng.u8(..8) == 0 {
                // Whatever it is doing: opening, migrating, joining, taking over.
                tokio::time::sleep(Duration::from_micros(rng.u64(..60_000))).await;
            } else {
                for node in &mut nodes {
                    node.wait_until_up(&self.folder).await?;
                }
                tokio::time::sleep(Duration::from_micros(rng.u64(1_000..400_000))).await;
            }
            // Mostly one of them, sometimes all.
            let all = rng.u8(..4) == 0;
            while kills < told.kills && !nodes.is_empty() {
                let mut node = nodes.swap_remove(rng.usize(..nodes.len()));
                node.kill(&self.folder)?;
                self.ledger.write(&Line::Kill { node: node.number });
                kills += 1;
                if !all {
                    break;
                }
            }
        }
        Ok(nodes)
    }

    fn spawn(&self, rng: &mut Rng) -> Result<Node> {
        let number = u32::try_from(self.nodes.fetch_add(1, Ordering::Relaxed) + 1)?;
        let said = File::options().create(true).append(true).open(self.folder.join("victims.log"))?;
        let mut command = Command::new(&self.victim);
        command.args(["--database-url", &self.url, "--ledger"]).arg(self.folder.join("ledger"));
        command.args(["--node", &number.to_string(), "--lease-ms", &LEASE.as_millis().to_string()]);
        // With every turn replayed, or with waiting runs kept warm; with few slots, or with enough.
        command.args(["--warm", if rng.bool() { "0" } else { "1000" }]);
        command.args(["--concurrency", if rng.u8(..4) == 0 { "5" } else { "100" }]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let spawned = command.spawn();
        let mut child = spawned.with_context(|| format!("cannot run {}", self.victim.display()))?;
        let stdout = child.stdout.take().context("the victim has no output")?;
        let up = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).is_ok() && line == "up\n"
        });
        Ok(Node { number, child, up: Some(up) })
    }

    // ---- load

    /// Starts runs and feeds them, so many at a time, until there is a last one.
    fn begin_load(&self, seed: u64) -> JoinSet<Result<()>> {
        let mut load = JoinSet::new();
        for _ in 0..LOAD {
            let scene = self.clone();
            load.spawn(async move {
                loop {
                    let number = scene.next.fetch_add(1, Ordering::Relaxed);
                    if number >= scene.tail.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let rng = Rng::with_seed(seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    if let Err(error) = scene.one_story(number, rng).await {
                        scene.broken.store(true, Ordering::Relaxed);
                        return Err(error.context(format!("run-{number}")));
                    }
                }
            });
        }
        load
    }

    async fn one_story(&self, number: u64, mut rng: Rng) -> Result<()> {
        let key = format!("run-{number}");
        match rng.u8(..8) {
            0 => self.work(&key, plan::work(&mut rng)).await,
            1 => self.correspondence(&key, rng).await,
            _ => self.play(&key, Plan::random(&mut rng), &mut rng).await,
        }
    }

    /// One run, fed until it ends. News may come before it.
    pub(crate) async fn play(&self, key: &str, plan: Plan, rng: &mut Rng) -> Result<()> {
        let mut feed = Feed::of(&plan);
        for _ in 0..rng.usize(..4).saturating_sub(1) {
            self.feed_once(key, None, &mut feed, rng).await?;
        }
        let run = self.start(key, plan, rng).await?;
        self.follow(key, run, feed, rng).await
    }

    /// Two runs, of which one writes to the other.
    async fn correspondence(&self, key: &str, mut rng: Rng) -> Result<()> {
        let count = rng.u32(1..=3);
        let reader = Plan::random(&mut rng).with(Act::Mail { count }, &mut rng);
        let mut feeds = vec![Feed::of(&reader)];
        let to = self.start(key, reader, &mut rng).await?.id();
        let writer = Plan::random(&mut rng).with(Act::Post { to, count }, &mut rng);
        feeds.push(Feed::of(&writer));
        let writers = format!("{key}-writer");
        let from = self.start(&writers, writer, &mut rng).await?.id();
        let (mut one, mut two) = (rng.fork(), rng);
        let (one, two) = tokio::join!(
            self.follow(key, self.client.handle(&play(), to), feeds.remove(0), &mut one),
            self.follow(&writers, self.client.handle(&play(), from), feeds.remove(0), &mut two),
        );
        one.and(two)
    }

    pub(crate) async fn work(&self, key: &str, input: Work) -> Result<()> {
        let run = self.sure(key, Asked::Work(input), || self.client.start(work(), input));
        let _ = run.await?.result().await;
        Ok(())
    }

    /// Starts a run, sometimes twice: the key makes it one.
    async fn start(&self, key: &str, plan: Plan, rng: &mut Rng) -> Result<RunHandle<PlayDefinition>> {
        let start = || {
            let asked = Asked::Play(plan.clone());
            self.sure(key, asked, || self.client.start(play(), plan.clone()))
        };
        if rng.u8(..4) > 0 {
            return start().await;
        }
        let (one, two) = tokio::join!(start(), start());
        let (one, two) = (one?, two?);
        ensure!(one.id() == two.id() && !(one.created() && two.created()), "{key} was started twice");
        Ok(one)
    }

    /// Asks until the answer is sure.
    async fn sure<D: Definition>(
        &self,
        key: &str,
        asked: Asked,
        call: impl Fn() -> Start<D>,
    ) -> Result<RunHandle<D>> {
        loop {
            let place = self.log.invoke(key, asked.clone());
            let answer = call().key(key).await;
            let noted = answer.as_ref().map(|run| Some(run.id())).map_err(Clone::clone);
            self.log.answered(place, Answer::of(noted));
            match answer {
                Err(Error::Store { retryable: true, .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Feeds a run whatever it still needs and waits for its end.
    async fn follow(
        &self,
        key: &str,
        run: RunHandle<PlayDefinition>,
        mut feed: Feed,
        rng: &mut Rng,
    ) -> Result<()> {
        while !feed.0.is_empty() {
            self.feed_once(key, Some(run.id()), &mut feed, rng).await?;
            tokio::time::sleep(Duration::from_millis(rng.u64(..15))).await;
        }
        // How it ended is for the checker.
        let _ = run.result().await;
        Ok(())
    }

    /// One message, by key or by id.
    async fn feed_once(&self, key: &str, run: Option<RunId>, feed: &mut Feed, rng: &mut Rng) -> Result<()> {
        if feed.0.is_empty() {
            return Ok(());
        }
        let place = rng.usize(..feed.0.len());
        let lane = &mut feed.0[place];
        let to = match run.filter(|_| rng.bool()) {
            Some(run) => Target::from(run),
            None => Target::key("play", key),
        };
        let (name, value) = (lane.name.clone(), lane.next);
        let asked = match lane.is_promise {
            true => Asked::Settle { name: name.clone(), value },
            false => Asked::Send { name: name.clone(), value },
        };
        let noted = self.log.invoke(key, asked);
        let answer = match lane.is_promise {
            true => self.client.settle(to, &name, &value).await,
            false => self.client.send(to, &name, &value).await,
        };
        let answer = Answer::of(answer.map(|()| None));
        // One that may not have arrived is followed by another: nobody knows it by its number.
        lane.next += 1;
        lane.left -= u32::from(!matches!(answer, Answer::Unknown(_)));
        if lane.left == 0 {
            feed.0.swap_remove(place);
        }
        self.log.answered(noted, answer);
        Ok(())
    }

    /// Waits until everything has ended; `false` when that takes too long.
    async fn drain(&self, mut load: JoinSet<Result<()>>, since: Instant) -> Result<bool> {
        let drained = tokio::time::timeout(HEAL.saturating_sub(since.elapsed()), async {
            while let Some(ended) = load.join_next().await {
                ended??;
            }
            // Nobody waits for runs that were let go.
            while !self.runs().await?.iter().all(|view| view.status.is_final()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        });
        match drained.await {
            Ok(drained) => drained.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    // ---- evidence

    async fn runs(&self) -> Result<Vec<RunView>> {
        let (mut runs, mut after) = (Vec::new(), None);
        loop {
            let page = self.client.list(&Filter::default(), after, 500).await?;
            runs.extend(page.runs);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(runs),
            }
        }
    }

    pub(crate) async fn evidence(&self) -> Result<Evidence> {
        let runs = self.runs().await?;
        let mut journals = HashMap::new();
        for view in &runs {
            let mut entries: Vec<Entry> = Vec::new();
            loop {
                let after = entries.last().map_or(0, |entry| entry.pos);
                let page = self.client.journal(view.record.id, after, 1000).await?;
                if page.is_empty() {
                    break;
                }
                entries.extend(page);
            }
            journals.insert(view.record.id, entries);
        }
        let (effects, integrity) = self
            .client
            .transaction(async |tx: Tx| {
                let mut effects = Vec::new();
                for row in tx.query("select run, step, value from effects", ()).await? {
                    let (run, step) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
                    effects.push(Effect { run, step, value: row.int(2)?.cast_unsigned() });
                }
                let integrity = match self.is_sqlite() {
                    true => Some(tx.query("pragma integrity_check", ()).await?[0].text(0)?.to_owned()),
                    false => None,
                };
                Ok::<_, Error>((effects, integrity))
            })
            .await?;
        let ledger = Ledger::read(&self.folder.join("ledger"))?;
        Ok(Evidence { calls: self.log.calls(), ledger, runs, journals, effects, integrity })
    }
}

type PlayDefinition = outlast::Workflow<Plan, crate::plan::Score, crate::play::Miss>;

/// What the supervisor still has to tell a run.
struct Feed(Vec<Lane>);

/// Messages under one name, in their order.
struct Lane {
    name: String,
    is_promise: bool,
    next: u32,
    left: u32,
}

impl Feed {
    fn of(plan: &Plan) -> Feed {
        let lane = |name, is_promise, left| Lane { name, is_promise, next: 1, left };
        let mut lanes: Vec<Lane> = plan.letters().into_iter().map(|name| lane(name, false, 1)).collect();
        // Settled twice: the first value must stay.
        lanes.extend(plan.promises().into_iter().map(|name| lane(name, true, 2)));
        if plan.ticks() > 0 {
            lanes.push(lane("tick".to_owned(), false, plan.ticks()));
        }
        Feed(lanes)
    }
}

/// A victim. Dropping it kills it.
struct Node {
    number: u32,
    child: Child,
    up: Option<JoinHandle<bool>>,
}

impl Node {
    async fn wait_until_up(&mut self, folder: &Path) -> Result<()> {
        let Some(up) = self.up.take() else { return Ok(()) };
        let up = tokio::time::timeout(Duration::from_secs(60), up).await;
        if !matches!(up, Ok(Ok(true))) {
            let said = std::fs::read_to_string(folder.join("victims.log")).unwrap_or_default();
            bail!("victim {} does not come up; victims said:\n{said}", self.number);
        }
        Ok(())
    }

    fn kill(&mut self, folder: &Path) -> Result<()> {
        if let Some(ended) = self.child.try_wait()? {
            let said = std::fs::read_to_string(folder.join("victims.log")).unwrap_or_default();
            bail!("victim {} ended by itself ({ended}); victims said:\n{said}", self.number);
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
