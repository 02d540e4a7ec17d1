//! The load: runs that are started, fed what they wait for, and followed to their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use outlast::{Definition, Error, RunHandle, RunId, Start, Target};
use tokio::task::JoinSet;

use crate::beats;
use crate::calls::{Answer, Asked};
use crate::gates::{Gate, Ticket};
use crate::plan::{self, Act, Did, Plan, Score, Work};
use crate::play::{Miss, Planned, play};
use crate::sagas::{self, Halt, Saga};
use crate::scene::Scene;

/// How many runs are under way at once, their children not counted.
const LOAD: u64 = 24;
/// The same for runs that take longer than a lease.
const LONG_LOAD: u64 = 8;
/// The same for plain runs, of which it is measured how many end; and how long they go on before it is.
const PACE: u64 = 16;
const WARM: Duration = Duration::from_secs(2);
/// The journal of one run in so many is read on its way, within so many milliseconds of its start.
const GLANCES: u64 = 4;
const GLANCE_MS: u64 = 100;
/// How many runs are still started when no more faults come.
const TAIL: u64 = 20;
/// How long after the last kill everything must have ended.
pub(crate) const HEAL: Duration = Duration::from_secs(120);

/// A run that was started by other means than the client.
pub(crate) struct Early {
    pub(crate) key: String,
    pub(crate) plan: Plan,
    pub(crate) run: RunId,
}

impl Scene {
    /// Starts runs and feeds them, so many at a time, until there is a last one.
    pub(crate) fn begin_load(&self, seed: u64) -> JoinSet<Result<()>> {
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

    /// Keeps some runs under way that are not over when a node comes back after its lease: whatever it writes then is
    /// about a run that is another's by now, and not about one that has ended.
    pub(crate) fn begin_long_load(&self, load: &mut JoinSet<Result<()>>, seed: u64) {
        for place in 0..LONG_LOAD {
            let scene = self.clone();
            load.spawn(async move {
                let mut rng = Rng::with_seed(seed ^ place.wrapping_mul(0x2545_f491_4f6c_dd1d));
                for number in 0.. {
                    if scene.tail.load(Ordering::Relaxed) < u64::MAX {
                        break;
                    }
                    let lease = scene.orders.lease.as_millis() as u64;
                    let mut step = || Act::Step { ms: rng.u64(lease / 2..lease * 2) };
                    let acts = vec![step(), Act::Transaction { ms: 5 }, Act::Count, step(), Act::Random];
                    scene.play(&format!("long-{place}-{number}"), Plan { acts, from: 0 }, &mut rng).await?;
                }
                Ok(())
            });
        }
    }

    /// How many plain runs end in a second, looked at for so long: all alike, each started when the last of its place has
    /// ended. The other load does not tell, because its places fill with the stories that last longest.
    pub(crate) async fn pace(&self, look: Duration) -> Result<f64> {
        let (ended, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut places: JoinSet<Result<()>> = JoinSet::new();
        for _ in 0..PACE {
            let (scene, ended, is_over) = (self.clone(), ended.clone(), is_over.clone());
            places.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let number = scene.paced.fetch_add(1, Ordering::Relaxed);
                    let acts = (0..3).map(|_| Act::Step { ms: 1 }).collect();
                    let plan = Plan { acts, from: 0 };
                    scene.play(&format!("pace-{number}"), plan, &mut Rng::with_seed(number)).await?;
                    ended.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        tokio::time::sleep(WARM).await;
        let (before, since) = (ended.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(look).await;
        let pace = (ended.load(Ordering::Relaxed) - before) as f64 / since.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        while let Some(place) = places.join_next().await {
            place??;
        }
        Ok(pace)
    }

    /// Feeds a run that began before there was a client, and follows it to its end.
    pub(crate) fn begin_early(&self, load: &mut JoinSet<Result<()>>, early: Early, mut rng: Rng) {
        let scene = self.clone();
        let noted = self.log.invoke(&early.key, Asked::Play(early.plan.clone()));
        self.log.answered(noted, Answer::Ok(Some(early.run)));
        load.spawn(async move {
            let Early { key, plan, run } = early;
            scene.follow(&key, scene.client.handle(&play(), run), Feed::of(&plan), &mut rng).await
        });
    }

    async fn one_story(&self, number: u64, mut rng: Rng) -> Result<()> {
        let key = format!("run-{number}");
        match rng.u8(..25) {
            // Nodes of the schema before do not know them.
            20.. if !self.orders.is_begun => {
                let halt = Halt::random(&mut rng);
                self.saga(&key, Saga::random(&mut rng), halt).await
            }
            0 => self.work(&key, plan::work(&mut rng)).await,
            1..=2 => self.correspondence(&key, rng).await,
            3..=5 => {
                let line: Vec<Work> = (0..rng.usize(1..=4)).map(|_| plan::work(&mut rng)).collect();
                // A group of its own where order matters: only then is it known.
                match Gate::ALL[rng.usize(..Gate::ALL.len())] {
                    Gate::Ordered => self.queue_up(&key, Gate::Ordered, number, &line).await,
                    gate => self.queue_up(&key, gate, rng.u64(..2), &line).await,
                }
            }
            _ => {
                let plan = Plan::random(&mut rng);
                // One that starts over lets go of what it did before.
                match number.is_multiple_of(GLANCES) && !plan.acts.contains(&Act::StartOver) {
                    true => self.play_watched(&key, plan, &mut rng).await,
                    false => self.play(&key, plan, &mut rng).await,
                }
            }
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

    /// The same, and somebody reads the journal on the way.
    async fn play_watched(&self, key: &str, plan: Plan, rng: &mut Rng) -> Result<()> {
        let (feed, after) = (Feed::of(&plan), Duration::from_millis(rng.u64(..GLANCE_MS)));
        let run = self.start(key, plan, rng).await?;
        let id = run.id();
        let glance = async {
            tokio::time::sleep(after).await;
            self.glance(id).await;
        };
        tokio::join!(self.follow(key, run, feed, rng), glance).0
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

    /// A saga that is perhaps stopped on its way.
    pub(crate) async fn saga(&self, key: &str, saga: Saga, halt: Option<(Halt, Duration)>) -> Result<()> {
        let asked = Asked::Saga(saga.clone());
        let run = self.sure(key, asked, || self.client.start(sagas::saga(), saga.clone())).await?;
        if let Some((halt, after)) = halt {
            tokio::time::sleep(after).await;
            self.halt(key, run.id(), halt).await;
        }
        let _ = run.result().await;
        Ok(())
    }

    /// Asks until the answer is sure.
    async fn halt(&self, key: &str, run: RunId, halt: Halt) {
        loop {
            let noted = self.log.invoke(key, Asked::Halt(halt));
            let answer = Answer::of(halt.ask(&self.client, run).await.map(|_| None));
            let is_sure = !matches!(answer, Answer::Unknown(_));
            self.log.answered(noted, answer);
            if is_sure {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn work(&self, key: &str, input: Work) -> Result<()> {
        let _ = self.start_work(key, input).await?.result().await;
        Ok(())
    }

    pub(crate) async fn start_work(&self, key: &str, input: Work) -> Result<RunHandle<WorkDefinition>> {
        let start = || {
            let start = self.client.start(input.job(), input);
            input.ticket.iter().fold(start, |start, ticket| start.group(ticket.group()))
        };
        self.sure(key, Asked::Work(input), start).await
    }

    /// Runs of one group, started one after another, which is the order that a gate may have to keep.
    pub(crate) async fn queue_up(&self, key: &str, gate: Gate, group: u64, line: &[Work]) -> Result<()> {
        let mut runs = Vec::new();
        for (nth, work) in (0..).zip(line) {
            let ticket = Some(Ticket { gate, group, nth });
            runs.push(self.start_work(&format!("{key}-{nth}"), Work { ticket, ..*work }).await?);
        }
        for run in runs {
            let _ = run.result().await;
        }
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
    pub(crate) async fn sure<D: Definition>(
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

    /// A few more runs are started, and then no more.
    pub(crate) fn last_runs(&self) {
        self.tail.store(self.next.load(Ordering::Relaxed) + TAIL, Ordering::Relaxed);
    }

    /// Waits until everything has ended; `false` when that takes too long.
    pub(crate) async fn drain(&self, mut load: JoinSet<Result<()>>, since: Instant) -> Result<bool> {
        let drained = tokio::time::timeout(HEAL.saturating_sub(since.elapsed()), async {
            while let Some(ended) = load.join_next().await {
                ended??;
            }
            beats::end(&self.client).await?;
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
}

type PlayDefinition = outlast::Workflow<Plan, Score, Miss>;
type WorkDefinition = outlast::Job<Work, Did, Planned>;

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
