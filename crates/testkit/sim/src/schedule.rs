//! One schedule from its seed to its verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outlast_store::{SharedMemory, StoreError, Value};
use tokio::task::JoinSet;

use crate::faults::{Fault, Watch};
use crate::plan::Plan;
use crate::play::{Input, definition};
use crate::program::{Act, Program, What};
use crate::story;
use crate::world::World;
use crate::{beats, check};

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

/// A place for schedules, one after another: the database is made once.
#[derive(Debug)]
pub struct Theatre {
    memory: SharedMemory,
}

/// What a schedule came to.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
    /// What must not be, in words.
    pub violations: Vec<String>,
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
        let memory = SharedMemory::new(1)?;
        memory.execute(
            "create table sim_rows (run text not null, act text not null, value integer not null)",
        )?;
        Ok(Theatre { memory })
    }

    /// Plays the schedule of a seed.
    pub fn play(&self, seed: u64, watch: Watch) -> Outcome {
        fastrand::seed(seed);
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::random(&mut rng);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let played = match runtime {
            Ok(runtime) => runtime.block_on(play(&self.memory, &plan, rng, watch)),
            Err(error) => Err(StoreError::Unavailable(error.into())),
        };
        played.unwrap_or_else(|error| Outcome {
            violations: vec![format!("the schedule could not be played: {error}")],
            ..Outcome::default()
        })
    }
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
    for at in plan.looks.clone() {
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
    wrong.extend(check::check(&world, plan).await?);
    let history = match watch {
        Watch::Nothing => String::new(),
        _ => world.weather.trace() + &check::dump(&world).await?,
    };
    Ok(Outcome {
        violations: wrong,
        nodes: world.nodes.len(),
        runs: plan.runs(),
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

/// Every node finishes new work.
async fn tail(world: &Arc<World>) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    for node in 0..world.nodes.len() {
        wrong.extend(works(world, node).await?);
    }
    Ok(wrong)
}

/// Whether a node does what it starts itself; not at the first try, if it only now finds out that it lost its lease.
async fn works(world: &Arc<World>, node: usize) -> Result<Option<String>, StoreError> {
    let program = Program {
        acts: vec![Act { number: 1, what: What::Step { ms: 0, fails: 0, undo: false } }],
        fails: false,
    };
    for nth in 0..TAILS {
        let label = format!("tail{node}-{nth}");
        let client = loop {
            match world.client_of(node) {
                Some((client, _)) => break client,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        match client.start(definition(), Input::new(label.clone(), program.clone())).await {
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
