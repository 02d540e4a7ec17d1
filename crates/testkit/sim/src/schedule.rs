//! One schedule from its seed to its verdict.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use outlast_core::ShardCount;
use outlast_store::{SharedMemory, StoreError, Value};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::faults::{Fault, Watch};
use crate::plan::{Plan, SHARDS};
use crate::play::{Input, definition};
use crate::program::{Act, Program, What};
use crate::script::Script;
use crate::world::World;
use crate::{beats, check, panics, story};

/// How long a schedule may take in virtual time: whoever asks again and again for something that never comes must not hang
/// for ever.
const LONGEST: Duration = Duration::from_secs(600);
/// How long everything may take to end once nothing goes wrong any more, in virtual time.
const HEAL: Duration = Duration::from_secs(180);
/// How often it is looked whether all has ended.
const LOOK: Duration = Duration::from_millis(500);

/// How many looks the storm lasts at most when people have nothing left to do.
const STORM: u32 = 60;

/// How often a node is asked to work after the heal, and how long it has in between: more than from one renewal of its
/// lease to the next.
const TAILS: u32 = 4;
const RECOVERY: Duration = Duration::from_secs(4);

/// How the labels of the runs begin that nodes are asked to do after the heal.
pub(crate) const TAIL: &str = "tail";

/// A place for schedules, one after another: the databases are made once.
#[derive(Debug)]
pub struct Theatre {
    /// By how many shards they have.
    databases: Mutex<BTreeMap<ShardCount, SharedMemory>>,
}

/// What a schedule came to.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
    /// What must not be, in words.
    pub violations: Vec<String>,
    pub(crate) shards: ShardCount,
    pub(crate) nodes: usize,
    pub(crate) runs: usize,
    pub(crate) calls: u64,
    pub(crate) virtual_time: Duration,
    pub(crate) hits: BTreeMap<Fault, u64>,
    pub(crate) at: BTreeMap<&'static str, u64>,
    /// Every call of the store and every row that is left, where it was asked for.
    pub history: String,
}

impl Theatre {
    /// An empty one.
    pub fn open() -> Result<Theatre, StoreError> {
        let databases = [1, SHARDS].map(|shards| Ok((shards, empty(shards)?)));
        let databases: Result<_, StoreError> = databases.into_iter().collect();
        Ok(Theatre { databases: Mutex::new(databases?) })
    }

    /// Plays the schedule of a seed.
    pub fn play(&self, seed: u64, watch: Watch) -> Outcome {
        self.perform(&Script::of(seed), watch)
    }

    /// Plays a schedule. Whatever goes wrong with it is in what it came to.
    pub fn perform(&self, script: &Script, watch: Watch) -> Outcome {
        panics::watch();
        let mut databases = self.databases.lock();
        let shards = script.plan.shards;
        let played = panic::catch_unwind(AssertUnwindSafe(|| match databases.get(&shards) {
            Some(memory) => perform(memory, script, watch),
            None => perform(&empty(shards)?, script, watch),
        }));
        let mut outcome = match played {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::wrong(format!("the schedule could not be played: {error}")),
            Err(_) => Outcome::default(),
        };
        outcome.violations.extend(panics::seen().iter().map(|panic| format!("something {panic}")));
        if !outcome.violations.is_empty() {
            // Nobody knows in which state it was left.
            match empty(shards) {
                Ok(new) => drop(databases.insert(shards, new)),
                Err(error) => outcome.violations.push(format!("there is no other database: {error}")),
            }
        }
        outcome
    }
}

impl Outcome {
    fn wrong(what: String) -> Outcome {
        Outcome { violations: vec![what], ..Outcome::default() }
    }
}

/// A new database.
fn empty(shards: ShardCount) -> Result<SharedMemory, StoreError> {
    let memory = SharedMemory::new(shards)?;
    memory.execute("create table sim_rows (run text not null, act text not null, value integer not null)")?;
    Ok(memory)
}

fn perform(memory: &SharedMemory, script: &Script, watch: Watch) -> Result<Outcome, StoreError> {
    fastrand::seed(script.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| StoreError::Unavailable(error.into()))?;
    let played = play(memory, &script.plan, script.dice(), watch);
    let in_time = runtime.block_on(async { tokio::time::timeout(LONGEST, played).await });
    in_time.unwrap_or_else(|_| Ok(Outcome::wrong(format!("it has not ended after {LONGEST:?}"))))
}

async fn play(memory: &SharedMemory, plan: &Plan, mut rng: Rng, watch: Watch) -> Result<Outcome, StoreError> {
    memory.clear()?;
    let world = World::open(memory, plan, &mut rng, watch)?;
    for node in 0..world.nodes.len() {
        tokio::spawn(world.clone().keep(node));
    }
    let mut acts = JoinSet::new();
    let mut others = rng.fork();
    if plan.beats {
        let (world, mut rng) = (world.clone(), rng.fork());
        acts.spawn(async move { beats::begin(&world, &mut rng).await });
    }
    for story in plan.stories.clone() {
        acts.spawn(story::tell(world.clone(), story, rng.fork()));
    }
    for (at, blow) in plan.blows.clone() {
        let world = world.clone();
        acts.spawn(async move {
            tokio::time::sleep(at).await;
            world.strike(blow).await;
        });
    }
    if let Some(at) = plan.look {
        let world = world.clone();
        acts.spawn(async move {
            tokio::time::sleep(at).await;
            if let Ok(wrong) = check::look(&world, "in the middle").await {
                world.facts.lock().wrong.extend(wrong);
                let _ = check::remember(&world).await;
            }
        });
    }
    while acts.join_next().await.is_some() {}
    // Nodes ask the store from time to time, whatever they do: all that was planned hits.
    for _ in 0..STORM {
        if world.weather.is_spent() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    world.heal();
    if plan.beats {
        beats::end(&world, &mut others).await;
    }

    let mut wrong = Vec::new();
    let stuck = drain(&world).await?;
    if stuck.is_empty() {
        wrong.extend(tail(&world).await?);
    }
    wrong.extend(stuck);
    let (contradictions, runs) = check::check(&world, plan).await?;
    wrong.extend(contradictions);
    let history = match watch {
        Watch::Nothing => String::new(),
        _ => world.weather.trace() + &check::dump(&world).await?,
    };
    Ok(Outcome {
        violations: wrong,
        shards: plan.shards,
        nodes: world.nodes.len(),
        runs,
        calls: world.weather.calls(),
        virtual_time: world.ledger.now(),
        hits: world.weather.hits(),
        at: world.weather.at(),
        history,
    })
}

/// Waits until all has ended; says what has not.
async fn drain(world: &Arc<World>) -> Result<Vec<String>, StoreError> {
    let until = tokio::time::Instant::now() + HEAL;
    loop {
        let left = world.memory.query("select id from outlast_agenda order by id").await?;
        if left.is_empty() {
            return Ok(Vec::new());
        }
        if tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let mut stuck = Vec::new();
        for row in left {
            if let Some(Value::Bytes(id)) = row.first()
                && let Ok(id) = uuid::Uuid::from_slice(id)
            {
                let explained = world.store.explain(outlast::RunId::from_uuid(id)).await?;
                stuck.push(format!("{id} has not ended {HEAL:?} after the heal: {explained:?}"));
            }
        }
        return Ok(stuck);
    }
}

/// Every node finishes new work: all at once, since time that passes costs renewals and sweeps.
async fn tail(world: &Arc<World>) -> Result<Vec<String>, StoreError> {
    let all = join_all((0..world.nodes.len()).map(|node| works(world, node))).await;
    Ok(all.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Whether a node does what it starts itself; not at the first try, if it only now finds out that it lost its lease.
async fn works(world: &Arc<World>, node: usize) -> Result<Option<String>, StoreError> {
    let program = Arc::new(Program {
        acts: vec![Act { number: 1, what: What::Step { ms: 0, fails: 0, undo: false } }],
        fails: false,
    });
    for nth in 0..TAILS {
        let label = format!("{TAIL}{node}-{nth}");
        world.cast.give(&label, &program);
        let client = loop {
            match world.client_of(node) {
                Some((client, _)) => break client,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        match client.start(definition(), Input::new(label.clone())).await {
            Ok(run) => {
                world.facts.lock().started.entry(label.clone()).or_default().insert(run.id());
            }
            Err(error) => return Ok(Some(format!("n{node} starts nothing after the heal: {error}"))),
        }
        if !drain(world).await?.is_empty() {
            return Ok(Some(format!("n{node} does not finish what it started after the heal")));
        }
        let has_worked = world.ledger.read(|notes| {
            let body = (format!("{label}/0"), "a1".to_owned(), false, 1);
            notes.bodies.get(&body).is_some_and(|all| all.iter().any(|one| one.node == node))
        });
        if has_worked {
            return Ok(None);
        }
        tokio::time::sleep(RECOVERY).await;
    }
    Ok(Some(format!("n{node} did no work after the heal")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Blow;

    fn violations_after(blow: Blow) -> (Theatre, String) {
        let theatre = Theatre::open().unwrap();
        let mut script = Script::of(1);
        script.plan.blows = vec![(Duration::ZERO, blow)];
        let violations = theatre.perform(&script, Watch::Nothing).violations.join("\n");
        (theatre, violations)
    }

    #[test]
    fn a_schedule_that_does_not_end_is_told_of() {
        let (_, violations) = violations_after(Blow::Pause { node: 0, time: LONGEST * 2 });
        assert!(violations.contains("has not ended"), "{violations}");
    }

    #[test]
    fn a_panic_that_a_task_kept_to_itself_is_told_of_and_the_next_schedule_is_played() {
        // There is no such node.
        let (theatre, violations) = violations_after(Blow::Crash { node: 99 });
        assert!(violations.contains("panicked"), "{violations}");
        assert_eq!(theatre.play(1, Watch::Nothing).violations, Vec::<String>::new());
    }
}
