//! Suspects: what the death of a node says about the runs that it held.

use std::time::Duration;

use outlast_core::crashes::{ALONE, SUSPECT, pause};
use outlast_store::{Address, Committed};
use outlast_testkit::{LEASE, Turn, World, event, store_test};

use crate::{MINUTE, SECOND};

/// A node claims all there is once its pauses are over, and tells how many died with each before.
async fn claimed(world: &World, node: &str) -> Vec<Turn> {
    world.sweep().await;
    world.pass(MINUTE).await;
    world.claims_as(node, 100).await
}

/// A run that so many nodes died with, in the hands of the next.
async fn after_deaths(world: &World, deaths: u32) -> Turn {
    world.start("greet").await;
    for n in 0..deaths {
        assert_eq!(claimed(world, &format!("dead {n}")).await.len(), 1);
        world.pass(LEASE * 2).await;
    }
    claimed(world, "node").await.pop().expect("it is due")
}

async fn single_out(world: &World, turn: &Turn) -> bool {
    world.store().single_out(turn.node, turn.run, turn.epoch).await.unwrap()
}

#[store_test]
async fn however_many_nodes_die_with_runs_that_were_not_alone_none_of_them_pays(world: World) {
    for _ in 0..3 {
        world.start("greet").await;
    }
    for deaths in 0..10 {
        let turns = claimed(&world, &format!("node {deaths}")).await;
        assert_eq!(turns.len(), 3);
        assert!(turns.iter().all(|turn| turn.claimed.crashes == deaths.min(ALONE)), "{turns:?}");
        world.pass(LEASE * 2).await;
    }
}

#[store_test]
async fn a_death_counts_against_a_run_that_was_alone_in_that_very_turn(world: World) {
    let turn = after_deaths(&world, ALONE).await;
    assert!(single_out(&world, &turn).await);
    world.pass(LEASE * 2).await;

    let turn = claimed(&world, "next").await.remove(0);
    assert_eq!(turn.claimed.crashes, ALONE + 1);
    world.pass(LEASE * 2).await;
    let turn = claimed(&world, "last").await.remove(0);
    assert_eq!(turn.claimed.crashes, ALONE + 1, "this time it had not begun");
}

#[store_test]
async fn a_run_that_was_handed_back_or_taken_is_not_singled_out(world: World) {
    let turn = after_deaths(&world, ALONE).await;
    world.commit(turn.release()).await;
    assert!(!single_out(&world, &turn).await);
    let taken = world.claim_as("other").await;
    assert!(!single_out(&world, &turn).await);
    world.pass(LEASE * 2).await;
    assert_eq!((taken.run, claimed(&world, "next").await[0].claimed.crashes), (turn.run, ALONE));
}

#[store_test]
async fn a_node_that_leaves_charges_nobody_and_lets_nobody_wait(world: World) {
    let turn = after_deaths(&world, ALONE).await;
    assert!(single_out(&world, &turn).await);
    world.leave("node").await;
    assert_eq!(world.claim_as("next").await.claimed.crashes, ALONE);
}

#[store_test]
async fn a_run_that_recorded_something_before_its_node_died_is_no_suspect(world: World) {
    let turn = after_deaths(&world, ALONE).await;
    assert!(single_out(&world, &turn).await);
    assert_eq!(world.commit(turn.records(1, "charge")).await, Committed::Done);
    world.pass(LEASE * 2).await;

    let turn = world.claim_as("next").await;
    assert_eq!(turn.claimed.crashes, 1, "and it does not wait");
    world.pass(LEASE * 2).await;
    let turn = claimed(&world, "last").await.remove(0);
    assert_eq!(turn.claimed.crashes, 2, "what it recorded before was not recorded now");
}

#[store_test]
async fn a_suspect_waits_the_longer_the_more_nodes_died_with_it(world: World) {
    let mut turn = after_deaths(&world, SUSPECT - 1).await;
    for crashes in SUSPECT..ALONE + 3 {
        single_out(&world, &turn).await;
        world.pass(LEASE * 2).await;
        world.sweep().await;
        let due = world.view(turn.run).await.due_at.unwrap();
        let left = due.since(world.now().await);
        assert!(left <= pause(crashes) && left + SECOND > pause(crashes), "{left:?} after {crashes}");
        turn = claimed(&world, &format!("node {crashes}")).await.remove(0);
        assert_eq!(turn.claimed.crashes, crashes);
    }
}

#[store_test]
async fn a_suspect_does_not_wait_beyond_its_time(world: World) {
    let timeout = LEASE * 20;
    let run = world.start("greet").with(|run| run.timeout = Some(timeout)).await;
    let ends = world.now().await + timeout;
    for n in 0..SUSPECT {
        assert_eq!(world.claims_as(&format!("dead {n}"), 1).await.len(), 1);
        world.pass(LEASE * 2).await;
    }
    world.pass(ends.since(world.now().await) - Duration::from_millis(100)).await;
    world.sweep().await;
    assert!(world.view(run.id).await.due_at.unwrap() <= ends);
}

// On SQLite there is one writer: nobody holds a row while another looks.
#[store_test(postgres)]
async fn nobody_waits_to_single_a_run_out(world: World) {
    let turn = after_deaths(&world, ALONE).await;
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(turn.run), "approval", "yes")]).await.unwrap();
    assert!(!single_out(&world, &turn).await);
    tx.commit().await.unwrap();
    assert!(single_out(&world, &turn).await);
}
