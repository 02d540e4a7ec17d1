//! Stories that nobody wrote: whatever happens, every run has exactly one reason, and what the reason names is true.
//!
//! After each act every run is asked why it is not progressing. At the end each is followed: what its reason names is
//! brought about, again and again, until the run has ended. A reason that names the wrong thing stays, and is found.

use std::time::Duration;

use outlast_core::{QueueRules, Rate, Status, Why};
use outlast_store::{Control, QueueChange};
use outlast_testkit::{StoreKind, World, tell};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::follow::{End, NODES, Play, QUEUES};
use crate::verify::verified;

/// What happens in a story. Numbers choose among whatever there is.
#[derive(Debug, Clone)]
enum Act {
    Start { code: usize, queue: usize, group: usize, later: bool, bounded: bool },
    Claim { node: usize, limit: u32 },
    End { turn: usize, end: End },
    Send { run: usize },
    Settle { run: usize },
    Cancel { run: usize },
    Kill { run: usize },
    Pause { run: usize },
    Resume { run: usize },
    Pass { seconds: u64 },
    Die { node: usize },
    Join { node: usize },
    Leave { node: usize },
    Sweep { blocks: bool },
    Queue { queue: usize, change: usize },
}

/// Mostly the one with runs in line.
fn queue() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0_usize), 3 => Just(1_usize), 1 => Just(2_usize)]
}

fn act() -> impl Strategy<Value = Act> {
    let end = prop_oneof![
        3 => Just(End::Complete),
        4 => (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(event, promise, child, sleep)| End::Suspend { event, promise, child, sleep }),
        2 => Just(End::Suspend { event: false, promise: false, child: false, sleep: true }),
        1 => Just(End::StepFails),
        1 => Just(End::Retry),
        1 => Just(End::Release),
        1 => Just(End::Block),
    ];
    prop_oneof![
        6 => (0..4_usize, queue(), 0..3_usize, prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(code, queue, group, later, bounded)| Act::Start { code, queue, group, later, bounded }),
        5 => (0..NODES, 1..4_u32).prop_map(|(node, limit)| Act::Claim { node, limit }),
        8 => (any::<usize>(), end).prop_map(|(turn, end)| Act::End { turn, end }),
        2 => any::<usize>().prop_map(|run| Act::Send { run }),
        1 => any::<usize>().prop_map(|run| Act::Settle { run }),
        1 => any::<usize>().prop_map(|run| Act::Cancel { run }),
        1 => any::<usize>().prop_map(|run| Act::Kill { run }),
        2 => any::<usize>().prop_map(|run| Act::Pause { run }),
        1 => any::<usize>().prop_map(|run| Act::Resume { run }),
        2 => (1..25_u64).prop_map(|seconds| Act::Pass { seconds }),
        1 => (0..NODES).prop_map(|node| Act::Die { node }),
        2 => (0..NODES).prop_map(|node| Act::Join { node }),
        1 => (0..NODES).prop_map(|node| Act::Leave { node }),
        2 => any::<bool>().prop_map(|blocks| Act::Sweep { blocks }),
        3 => (queue(), 0..9_usize).prop_map(|(queue, change)| Act::Queue { queue, change }),
    ]
}

fn changes() -> [QueueChange; 9] {
    let rules = |rules: QueueRules| QueueChange::Rules(Some(rules));
    let none = QueueRules::default;
    [
        QueueChange::Pause,
        QueueChange::Drain,
        QueueChange::Resume,
        rules(QueueRules { limit: Some(1), ..none() }),
        rules(QueueRules { per_group: Some(1), ..none() }),
        rules(QueueRules { rate: Some(Rate::new(1, Duration::from_secs(30))), ..none() }),
        rules(QueueRules { rate_per_group: Some(Rate::new(1, Duration::from_secs(30))), ..none() }),
        rules(QueueRules { ordered: true, limit: Some(2), ..none() }),
        rules(QueueRules { per_node: Some(1), fair: true, ..none() }),
    ]
}

async fn perform(play: &mut Play, act: &Act) {
    match act {
        Act::Start { code, queue, group, later, bounded } => {
            play.start(*code, QUEUES[*queue], *group, *later, *bounded).await;
        }
        Act::Claim { node, limit } => play.claim(*node, *limit).await,
        Act::End { turn, end } => {
            if let Some(run) = play.nth_turn(*turn) {
                play.end(run, *end).await;
            }
        }
        Act::Send { run } => play.send_to(*run).await,
        Act::Settle { run } => play.settle_of(*run).await,
        Act::Cancel { run } => play.cancel(*run).await,
        Act::Kill { run } => play.ask(*run, |run| Control::Kill { run, reason: "a story".into() }).await,
        Act::Pause { run } => play.ask(*run, |run| Control::Pause { run, reason: "a story".into() }).await,
        Act::Resume { run } => play.ask(*run, |run| Control::Resume { run }).await,
        Act::Pass { seconds } => play.pass(Duration::from_secs(*seconds)).await,
        Act::Die { node } => play.die(*node).await,
        Act::Join { node } => play.join(*node).await,
        Act::Leave { node } => play.leave(*node).await,
        Act::Sweep { blocks } => play.sweep(*blocks).await,
        Act::Queue { queue, change } => {
            play.world.change_queue(QUEUES[*queue], changes()[*change].clone()).await;
        }
    }
}

/// Every run has a reason that fits its status, and something wakes it.
async fn look(play: &mut Play) {
    for run in play.runs.clone() {
        let told = play.world.store().explain(run).await.unwrap().expect("the run exists");
        let fits = match (&told.why, told.status) {
            (Why::NoWake { .. }, _) => false,
            (Why::Ended { .. }, status) => status.is_final(),
            (Why::Held { .. } | Why::NodeLost { .. }, status) => status == Status::Running,
            (Why::Blocked { .. }, status) => status == Status::Blocked,
            (Why::Paused { reason }, status) => status == Status::Paused && reason.is_some(),
            (Why::Waiting { .. } | Why::Sleeping { .. }, status) => status == Status::Waiting,
            (_, status) => matches!(status, Status::Ready | Status::Waiting),
        };
        assert!(fits, "{} does not fit: {:?}", told.status, told.why);
        play.seen.insert(told.why.kind());
    }
    let (wakes, without) = verified(&play.world, 20).await;
    assert!(without.is_empty(), "{without:?}");
    let found: u64 = wakes.iter().map(|(_, count)| count).sum();
    assert_eq!(found, play.unfinished().await, "verify looks at every unfinished run once");
}

async fn story(world: &World, acts: &[Act], seen: &mut std::collections::BTreeSet<&'static str>) {
    let mut play = Play::begin(world).await;
    for act in acts {
        perform(&mut play, act).await;
        play.renew().await;
        look(&mut play).await;
    }
    for run in play.runs.clone() {
        play.follow(run, 0).await;
    }
    look(&mut play).await;
    seen.extend(play.seen);
}

/// Tells so many stories in one world, which is emptied before each.
fn stories(kind: StoreKind, shards: u16, cases: u32) {
    tell(kind, shards, async |world: World| {
        // The same acts every time; `OUTLAST_STORIES=400` tells so many that nobody has heard, about as many as fit
        // into the time that a test has.
        let more = std::env::var("OUTLAST_STORIES").ok().and_then(|cases| cases.parse().ok());
        let cases = more.unwrap_or(cases);
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
        let mut runner = match more {
            Some(_) => TestRunner::new(config),
            None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        };
        let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
        let began = std::time::Instant::now();
        let told = runner.run(&prop::collection::vec(act(), 1..24), |acts| {
            block_in_place(|| Handle::current().block_on(story(&world, &acts, &mut seen.borrow_mut())));
            Ok(())
        });
        println!("{cases} stories in {:?}; reasons: {:?}", began.elapsed(), seen.borrow());
        match told {
            Ok(()) => {}
            Err(TestError::Fail(why, acts)) => panic!("{why}\nin the story {acts:#?}"),
            Err(other) => panic!("{other}"),
        }
        // What are stories worth that do not come to most of the reasons?
        assert!(cases < 100 || seen.borrow().len() >= 15, "they came to {:?} only", seen.borrow());
    });
}

mod in_every_story_each_run_has_a_reason_whose_wake_is_true {
    use super::*;

    #[test]
    fn sqlite() {
        stories(StoreKind::Sqlite, 1, 100);
    }

    #[test]
    fn sqlite_4_shards() {
        stories(StoreKind::Sqlite, 4, 40);
    }

    #[test]
    fn postgres() {
        stories(StoreKind::Postgres, 1, 40);
    }

    #[test]
    fn postgres_4_shards() {
        stories(StoreKind::Postgres, 4, 25);
    }
}
