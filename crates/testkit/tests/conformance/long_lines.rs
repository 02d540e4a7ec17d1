//! Queues with rules and more in line than one claim looks at: nobody who may go is hidden by those who may not.

use std::collections::HashMap;

use outlast_core::{QueueRules, RunId};
use outlast_store::NewRun;
use outlast_testkit::{QUEUE, World, store_test};

use crate::{MINUTE, SECOND};

/// The group of each run that was started.
#[derive(Default)]
struct Line(HashMap<RunId, String>);

impl Line {
    /// Starts so many more of a group.
    async fn up(&mut self, world: &World, group: &str, count: usize) {
        let runs: Vec<NewRun> = (0..count).map(|_| world.start("greet").group(group).asked()).collect();
        world.store().start(&runs, None).await.unwrap();
        self.0.extend(runs.iter().map(|run| (run.id, group.to_owned())));
    }

    /// Whose runs are let go.
    async fn claimed(&self, world: &World, limit: u32) -> Vec<&str> {
        let claims = world.claim_queue("node", QUEUE, limit).await;
        let mut groups: Vec<&str> = claims.runs.iter().map(|run| &*self.0[&run.id]).collect();
        groups.sort_unstable();
        groups
    }
}

fn per_group(limit: u32) -> QueueRules {
    QueueRules { per_group: Some(limit), ..QueueRules::default() }
}

#[store_test]
async fn a_group_with_many_in_line_hides_no_other(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let mut line = Line::default();
    line.up(&world, "big", 60).await;
    line.up(&world, "a", 1).await;
    line.up(&world, "z", 1).await;
    assert_eq!(line.claimed(&world, 3).await, ["a", "big", "z"]);
}

#[store_test]
async fn whoever_takes_only_those_at_the_head_is_told_that_there_may_be_more(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let mut line = Line::default();
    for (group, count) in [("a", 1), ("b", 1), ("a", 60), ("c", 1), ("d", 1)] {
        line.up(&world, group, count).await;
        world.pass(SECOND).await;
    }
    let heads = world.claim_queue("node", QUEUE, 4).await;
    assert_eq!((heads.runs.len(), heads.is_full), (2, false));
    assert_eq!(line.claimed(&world, 2).await, ["c", "d"]);
    assert!(world.claim_queue("node", QUEUE, 2).await.is_full, "now it is for a slot that they wait");
}

#[store_test]
async fn groups_with_nobody_due_hide_no_group_behind_them(world: World) {
    world.rules(QUEUE, QueueRules { fair: true, ..QueueRules::default() }).await;
    let waiting = |n| world.start("greet").group(&format!("n{n:05}")).delayed(MINUTE).asked();
    let waiting: Vec<NewRun> = (0..1_100).map(waiting).collect();
    world.store().start(&waiting, None).await.unwrap();
    let mut line = Line::default();
    line.up(&world, "a", 40).await;
    line.up(&world, "z", 1).await;
    assert_eq!(line.claimed(&world, 1).await, ["a"]);
    // One walk may end among those who wait; the next one goes on from there.
    let begun = [line.claimed(&world, 1).await, line.claimed(&world, 1).await].concat();
    assert_eq!(begun.first(), Some(&"z"), "{begun:?}");
}

#[store_test]
async fn in_a_line_of_few_groups_each_gets_its_share(world: World) {
    world.rules(QUEUE, QueueRules { fair: true, ..QueueRules::default() }).await;
    let mut line = Line::default();
    line.up(&world, "a", 60).await;
    line.up(&world, "b", 60).await;
    let begun = line.claimed(&world, 20).await;
    assert_eq!(begun.iter().filter(|group| **group == "a").count(), 10, "{begun:?}");
    assert_eq!(begun.len(), 20);
}

#[store_test]
async fn a_run_that_is_let_go_is_told_what_was_sent_to_it(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let run = world.start("greet").group("a").await;
    world.send(run.id, "hello", "there").await;
    let claims = world.claim_queue("node", QUEUE, 1).await;
    assert_eq!((claims.runs[0].news, claims.runs[0].inbox.len()), (1, 1));
}

#[store_test]
async fn ordered_groups_whose_first_waits_hold_up_no_other(world: World) {
    world.rules(QUEUE, QueueRules { ordered: true, ..QueueRules::default() }).await;
    let names: Vec<String> = (0..150).map(|n| format!("g{n:03}")).collect();
    let two = names.iter().flat_map(|group| [group, group]);
    let runs: Vec<NewRun> = two.map(|group| world.start("greet").group(group).asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    for turn in world.turns_of("node", QUEUE, 200).await {
        world.commit(turn.retry(MINUTE, 2)).await;
    }
    let mut line = Line::default();
    line.up(&world, "z", 1).await;
    assert_eq!(line.claimed(&world, 1).await, ["z"]);
    assert!(world.claim_queue("node", QUEUE, 1).await.is_full, "they wait for those before them");
}

#[store_test]
async fn a_run_without_a_group_is_not_hidden_by_a_full_one(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let mut line = Line::default();
    line.up(&world, "big", 300).await;
    world.pass(SECOND).await;
    let loose = world.start("greet").await;
    let claims = world.claim_queue("node", QUEUE, 5).await;
    assert!(claims.runs.iter().any(|run| run.id == loose.id));
}

/// Claims until this run is among those claimed. Each claim looks further than the one before.
async fn claims_until(world: &World, run: RunId, limit: u32) {
    for _ in 1..20 {
        let claims = world.claim_queue("node", QUEUE, limit).await;
        if claims.runs.iter().any(|claimed| claimed.id == run) {
            return;
        }
    }
    panic!("never found");
}

#[store_test]
async fn a_run_without_a_group_is_found_behind_however_many_of_a_full_one(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let mut line = Line::default();
    line.up(&world, "big", 4500).await;
    world.pass(SECOND).await;
    let loose = world.start("greet").await;
    claims_until(&world, loose.id, 5).await;
    // Whoever asks for the others hears that they wait, and asks less and less often.
    for _ in 0..10 {
        let rest = world.claim_queue("node", QUEUE, 5).await;
        assert!(rest.runs.is_empty() && rest.is_full, "{rest:?}");
    }
}

#[store_test]
async fn a_run_without_a_group_that_two_looks_come_by_goes_once(world: World) {
    world.rules(QUEUE, per_group(1)).await;
    let mut line = Line::default();
    line.up(&world, "big", 1050).await;
    world.pass(SECOND).await;
    let loose = world.start("greet").await;
    world.pass(SECOND).await;
    line.up(&world, "big", 1200).await;
    world.pass(SECOND).await;
    // The first look ends before it, the next one begins there and at the head, and both reach it.
    let mut gone = Vec::new();
    for limit in [1, 1, 200] {
        gone.extend(world.claim_queue("node", QUEUE, limit).await.runs.into_iter().map(|run| run.id));
    }
    assert_eq!(gone.iter().filter(|run| **run == loose.id).count(), 1, "{gone:?}");
    assert_eq!(gone.len(), 2, "and the first of its group");
}

#[store_test]
async fn a_run_without_a_group_gets_its_turn_behind_however_many_of_others(world: World) {
    world.rules(QUEUE, QueueRules { fair: true, ..QueueRules::default() }).await;
    let mut line = Line::default();
    for group in ["a", "b"] {
        line.up(&world, group, 1500).await;
    }
    world.pass(SECOND).await;
    let loose = world.start("greet").await;
    claims_until(&world, loose.id, 1).await;
}
