//! Queues with rules: what they let go, whoever asks and however many.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use outlast_core::{QueueRules, Rate, RunId};
use outlast_testkit::{LEASE, QUEUE, Turn, World, store_test};

use crate::{MINUTE, SECOND};

pub(crate) fn limit(limit: u32) -> QueueRules {
    QueueRules { limit: Some(limit), ..QueueRules::default() }
}

fn per_group(limit: u32) -> QueueRules {
    QueueRules { per_group: Some(limit), ..QueueRules::default() }
}

fn ordered() -> QueueRules {
    QueueRules { ordered: true, ..QueueRules::default() }
}

pub(crate) fn fair() -> QueueRules {
    QueueRules { fair: true, ..QueueRules::default() }
}

pub(crate) fn ids(turns: &[Turn]) -> Vec<RunId> {
    turns.iter().map(|turn| turn.run).collect()
}

#[store_test]
async fn a_limit_holds_over_all_nodes(world: World) {
    world.rules(QUEUE, limit(3)).await;
    for _ in 0..10 {
        world.start("greet").await;
    }
    let first = world.claim_queue("one", QUEUE, 2).await;
    assert_eq!((first.runs.len(), first.is_full), (2, false), "it got all that it wanted");
    let second = world.claim_queue("two", QUEUE, 10).await;
    assert_eq!((second.runs.len(), second.is_full), (1, true));
    let third = world.claim_queue("one", QUEUE, 10).await;
    assert_eq!((third.runs.len(), third.is_full), (0, true));
}

#[store_test]
async fn a_slot_is_free_when_its_run_ends_waits_or_is_put_back(world: World) {
    world.rules(QUEUE, limit(1)).await;
    for _ in 0..6 {
        world.start("greet").await;
    }
    for leave in [
        |turn: &Turn| turn.complete("done"),
        |turn: &Turn| turn.suspend(),
        |turn: &Turn| turn.retry(MINUTE, 2),
        |turn: &Turn| turn.block("does not fit"),
        |turn: &Turn| turn.release(),
    ] {
        let turn = world.turns_of("node", QUEUE, 10).await.pop().expect("the slot is free");
        assert!(world.turns_of("other", QUEUE, 10).await.is_empty());
        world.commit(leave(&turn)).await;
    }
}

#[store_test]
async fn a_node_that_dies_gives_its_slots_back_with_its_runs(world: World) {
    world.rules(QUEUE, limit(2)).await;
    for _ in 0..4 {
        world.start("greet").await;
    }
    let held = world.turns_of("dead", QUEUE, 10).await;
    assert_eq!(held.len(), 2);
    world.pass(LEASE * 2).await;
    world.join("live", &["greet@1"]).await;
    assert!(world.turns_of("live", QUEUE, 10).await.is_empty(), "nobody has noticed yet");
    world.sweep().await;
    assert_eq!(world.turns_of("live", QUEUE, 10).await.len(), 2);
    assert!(world.turns_of("live", QUEUE, 10).await.is_empty());
}

#[store_test]
async fn a_node_without_a_lease_gets_nothing(world: World) {
    world.rules(QUEUE, limit(2)).await;
    world.start("greet").await;
    let ask = world.ask("gone", 0).await;
    world.store().leave(ask.node).await.unwrap();
    let ask = outlast_store::QueueClaim {
        node: ask.node,
        number: ask.number,
        queue: QUEUE.into(),
        codes: ask.codes,
        limit: 5,
    };
    assert!(world.store().claim_queue(&ask).await.unwrap().runs.is_empty());
}

#[store_test]
async fn a_limit_per_group_holds_for_each_and_holds_up_no_other(world: World) {
    world.rules(QUEUE, per_group(2)).await;
    for group in ["a", "a", "a", "a", "b", "b", "b"] {
        world.start("greet").group(group).await;
    }
    let turns = world.turns_of("one", QUEUE, 3).await;
    let more = world.turns_of("two", QUEUE, 100).await;
    assert_eq!(turns.len() + more.len(), 4);
    assert!(world.turns_of("one", QUEUE, 100).await.is_empty());
    let of_a = turns.into_iter().next().unwrap();
    of_a.completed("done").await;
    assert_eq!(world.turns_of("two", QUEUE, 100).await.len(), 1);
}

#[store_test]
async fn groups_take_turns_however_many_one_has(world: World) {
    world.rules(QUEUE, fair()).await;
    let mut groups = HashMap::new();
    let mut runs = Vec::new();
    for _ in 0..60 {
        runs.push(world.start("greet").group("big").asked());
    }
    for group in ["small", "tiny"] {
        for _ in 0..3 {
            runs.push(world.start("greet").group(group).asked());
        }
    }
    for run in &runs {
        groups.insert(run.id, run.group.clone().unwrap());
    }
    world.store().start(&runs, None).await.unwrap();
    let mut begun: HashMap<String, usize> = HashMap::new();
    for _ in 0..9 {
        for run in ids(&world.turns_of("node", QUEUE, 1).await) {
            *begun.entry(groups[&run].clone()).or_default() += 1;
        }
    }
    assert_eq!((begun["big"], begun["small"], begun["tiny"]), (3, 3, 3), "{begun:?}");
    assert!(world.turns_of("node", QUEUE, 100).await.len() >= 12, "a share of those that are left");
}

#[store_test]
async fn runs_without_a_group_go_beside_those_with_one(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    for _ in 0..3 {
        world.start("greet").group("a").await;
        world.start("greet").await;
    }
    assert_eq!(world.turns_of("node", QUEUE, 100).await.len(), 4, "one of the group, and all without");
}

#[store_test]
async fn the_most_urgent_go_first(world: World) {
    for rules in [limit(1), fair()] {
        world.rules(QUEUE, rules).await;
        world.start("greet").group("a").await;
        let urgent = world.start("greet").group("b").priority(0).await;
        let turns = world.turns_of("node", QUEUE, 1).await;
        assert_eq!(ids(&turns), [urgent.id]);
        world.commit(turns[0].complete("done")).await;
        let rest = world.turns_of("node", QUEUE, 1).await;
        world.commit(rest[0].complete("done")).await;
    }
}

#[store_test]
async fn an_ordered_group_goes_one_after_another_whatever_becomes_of_each(world: World) {
    world.rules(QUEUE, ordered()).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(world.start("greet").job().group("account").await.id);
        world.pass(SECOND).await;
    }
    let other = world.start("greet").job().group("other").await;

    let turns = world.turns_of("one", QUEUE, 10).await;
    assert_eq!(ids(&turns).into_iter().collect::<HashSet<_>>(), HashSet::from([runs[0], other.id]));
    assert!(world.turns_of("two", QUEUE, 10).await.is_empty());
    // It failed and is tried again later: until then nobody passes it.
    let first = turns.into_iter().find(|turn| turn.run == runs[0]).unwrap();
    world.commit(first.retry(MINUTE, 2)).await;
    assert!(world.turns_of("two", QUEUE, 10).await.is_empty());
    world.pass(MINUTE * 2).await;
    for run in runs {
        world.join("two", &["greet@1"]).await;
        let turns = world.turns_of("two", QUEUE, 10).await;
        assert_eq!(ids(&turns), [run]);
        world.commit(turns[0].complete("done")).await;
    }
}

#[store_test]
async fn an_ordered_group_whose_first_a_node_does_not_know_is_left_to_those_that_do(world: World) {
    world.rules(QUEUE, ordered()).await;
    let first = world.start("letter").job().group("account").await.id;
    world.pass(SECOND).await;
    let second = world.start("greet").job().group("account").await.id;
    let other = world.start("greet").job().group("other").await.id;

    assert_eq!(ids(&world.turns_of("one", QUEUE, 10).await), [other]);
    world.join("two", &["greet@1", "letter@1"]).await;
    let turns = world.turns_of("two", QUEUE, 10).await;
    assert_eq!(ids(&turns), [first]);
    world.commit(turns[0].complete("done")).await;
    assert_eq!(ids(&world.turns_of("one", QUEUE, 10).await), [second]);
}

#[store_test]
async fn an_ordered_group_whose_first_nobody_knows_goes_on_when_that_is_blocked(world: World) {
    world.rules(QUEUE, ordered()).await;
    world.start("letter").job().group("account").await;
    let second = world.start("greet").job().group("account").await.id;
    world.join("one", &["greet@1"]).await;
    assert_eq!(ids(&world.turns_of("one", QUEUE, 10).await), []);
    world.pass(SECOND * 2).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    assert_eq!(ids(&world.turns_of("one", QUEUE, 10).await), [second]);
}

#[store_test]
async fn a_rate_counts_what_begins_in_any_span(world: World) {
    world.rules(QUEUE, QueueRules { rate: Some(Rate::new(3, MINUTE)), ..QueueRules::default() }).await;
    for _ in 0..10 {
        world.start("greet").job().await;
    }
    let first = world.claim_queue("one", QUEUE, 2).await;
    assert_eq!(first.runs.len(), 2);
    let second = world.claim_queue("two", QUEUE, 10).await;
    assert_eq!(second.runs.len(), 1);
    let freer = second.next_due.expect("it says when more may begin");
    assert!(freer > second.now && freer <= second.now + MINUTE + SECOND * 3, "{freer:?} {:?}", second.now);
    world.pass(Duration::from_secs(55)).await;
    world.join("one", &["greet@1"]).await;
    assert!(world.claim_queue("one", QUEUE, 10).await.runs.is_empty());
    world.pass(Duration::from_secs(10)).await;
    world.join("one", &["greet@1"]).await;
    assert_eq!(world.claim_queue("one", QUEUE, 10).await.runs.len(), 3);
}

#[store_test]
async fn a_rate_per_group_counts_for_each_and_not_what_only_goes_on(world: World) {
    let rate_per_group = Some(Rate::new(1, MINUTE));
    world.rules(QUEUE, QueueRules { rate_per_group, ..QueueRules::default() }).await;
    let going = world.start("greet").group("b").await;
    for _ in 0..2 {
        world.start("greet").group("a").await;
    }
    let turns = world.turns_of("node", QUEUE, 10).await;
    assert_eq!(turns.len(), 2);
    assert!(world.turns_of("node", QUEUE, 10).await.is_empty());
    // A workflow that was begun is not counted when it goes on.
    let turn = turns.into_iter().find(|turn| turn.run == going.id).unwrap();
    world.commit(turn.suspend()).await;
    world.send(going.id, "approval", "yes").await;
    assert_eq!(ids(&world.turns_of("node", QUEUE, 10).await), [going.id]);
}

#[store_test]
async fn a_group_is_forgotten_when_nothing_has_to_be_remembered_of_it(world: World) {
    world.rules(QUEUE, ordered()).await;
    world.start("greet").group("short").await;
    let long = world.start("greet").group("long").await;
    let turns = world.turns_of("node", QUEUE, 10).await;
    assert_eq!((turns.len(), world.snapshot().await.rows("groups").len()), (2, 2));
    for turn in turns {
        world.commit(if turn.run == long.id { turn.suspend() } else { turn.complete("done") }).await;
    }
    world.sweep().await;
    assert_eq!(world.snapshot().await.rows("groups").len(), 2, "not at once");
    world.pass(MINUTE * 20).await;
    world.sweep().await;
    assert_eq!(world.snapshot().await.rows("groups").len(), 1);
    world.join("node", &["greet@1"]).await;
    world.start("greet").group("long").await;
    assert!(world.turns_of("node", QUEUE, 10).await.is_empty(), "one that was begun is not passed");
}

#[store_test]
async fn eight_who_claim_at_once_never_have_more_than_the_limits(world: World) {
    world.rules(QUEUE, QueueRules { limit: Some(7), ..per_group(2) }).await;
    let groups = ["a", "b", "c", "d", "e"];
    let runs: Vec<_> =
        (0..150).map(|n| world.start("greet").job().group(groups[n % groups.len()]).asked()).collect();
    let group: HashMap<RunId, String> = runs.iter().map(|run| (run.id, run.group.clone().unwrap())).collect();
    world.store().start(&runs, None).await.unwrap();
    let held = parking_lot::Mutex::new(HashSet::new());
    let worker = async |name: String| {
        world.join(&name, &["greet@1"]).await;
        loop {
            let turns = world.turns_of(&name, QUEUE, 3).await;
            if turns.is_empty() && world.store().queue_views().await.unwrap().iter().all(|q| q.due == 0) {
                return;
            }
            {
                let mut held = held.lock();
                held.extend(ids(&turns));
                assert!(held.len() <= 7, "{} run at once", held.len());
                for name in groups {
                    let of = held.iter().filter(|run| group[*run] == name).count();
                    assert!(of <= 2, "{of} of {name} run at once");
                }
            }
            tokio::task::yield_now().await;
            for turn in turns {
                held.lock().remove(&turn.run);
                world.commit_patiently(turn.complete("done")).await;
            }
        }
    };
    join_all((0..8).map(|n| worker(format!("node {n}")))).await;
    assert!(held.into_inner().is_empty());
}
