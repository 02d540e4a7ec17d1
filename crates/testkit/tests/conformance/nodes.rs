//! Join and leave: nodes come with what they know and go with what they hold.

use std::time::Duration;

use futures_util::future::join_all;
use outlast_core::{NodeId, Status};
use outlast_store::{DefinitionCard, NodeCard, RunKind};
use outlast_testkit::{LEASE, World, card, store_test};

#[store_test]
async fn a_node_has_a_row_in_every_shard_and_is_seen_once(world: World) {
    let before = world.now().await;
    let id = world.node("node").await;
    assert_eq!(world.count("select count(*) from outlast.nodes").await, i64::from(world.shards()));
    let nodes = world.store().nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!(
        (node.id, &*node.name, &*node.host, node.pid, node.holds),
        (id, "node", "here", std::process::id(), 0)
    );
    assert!(node.joined_at >= before && node.lease_until >= before + LEASE);
    assert!(node.lease_until <= world.now().await + LEASE);
}

#[store_test]
async fn what_a_node_holds_is_counted_over_all_shards(world: World) {
    for _ in 0..5 {
        world.start("greet").held_by("busy").await;
    }
    world.node("idle").await;
    let holds: Vec<u64> = world.store().nodes().await.unwrap().iter().map(|node| node.holds).collect();
    assert_eq!(holds, [5, 0]);
}

#[store_test]
async fn definitions_are_recorded_for_those_without_the_code(world: World) {
    let definition = |name: &str, version, kind| DefinitionCard {
        name: name.into(),
        version,
        kind,
        active: true,
        signature: "fn(Order) -> Receipt".into(),
        queue: "mail".into(),
        priority: 2,
        options: r#"{"attempts":5}"#.into(),
    };
    let definitions = vec![
        definition("b", 1, RunKind::Job),
        definition("a", 2, RunKind::Workflow),
        definition("a", 1, RunKind::Workflow),
    ];
    let node = NodeCard { definitions: definitions.clone(), ..card("node", &[]) };
    world.store().join(&node).await.unwrap();
    let known = world.store().definitions().await.unwrap();
    assert_eq!(known, [definitions[2].clone(), definitions[1].clone(), definitions[0].clone()]);

    world.store().leave(node.id).await.unwrap();
    assert_eq!(world.store().definitions().await.unwrap().len(), 3, "they outlive the node");
}

#[store_test]
async fn a_newer_active_version_takes_over_from_older_ones(world: World) {
    world.join("old", &["greet@1", "order@1"]).await;
    world.join("new", &["greet@2"]).await;
    let active = |known: Vec<DefinitionCard>| {
        let active = known.into_iter().filter(|card| card.active).map(|card| (card.name, card.version));
        active.collect::<Vec<_>>()
    };
    let known = active(world.store().definitions().await.unwrap());
    assert_eq!(known, [("greet".to_owned(), 2), ("order".to_owned(), 1)]);

    let mut quiet = card("canary", &["greet@3"]);
    quiet.definitions[0].active = false;
    world.store().join(&quiet).await.unwrap();
    assert_eq!(
        active(world.store().definitions().await.unwrap()),
        known,
        "one that is not active takes over nothing"
    );
    world.join("late", &["greet@1"]).await;
    let still = active(world.store().definitions().await.unwrap());
    assert_eq!(still, known, "an older build that comes during a deploy takes nothing back");

    world.leave("new").await;
    world.store().leave(quiet.id).await.unwrap();
    assert_eq!(
        active(world.store().definitions().await.unwrap())[0],
        ("greet".to_owned(), 1),
        "a deploy that was taken back serves again what is left"
    );
}

#[store_test]
async fn blocked_runs_become_due_when_their_code_joins(world: World) {
    let run = world.start("greet").await;
    world.commit(run.claimed_by("node").await.block("entry 2 fits nothing")).await;
    let other = world.start("order").await;
    world.commit(other.claimed_by("node").await.block("entry 3 fits nothing")).await;

    world.join("fixed", &["greet@1"]).await;
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.reason), (Status::Ready, None));
    assert!(view.due_at.unwrap() <= world.now().await);
    assert_eq!(world.status(other.id).await, Status::Blocked);
    assert_eq!(world.claim_as("fixed").await.run, run.id);
}

#[store_test]
async fn a_node_that_leaves_frees_its_runs_without_a_crash(world: World) {
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(world.start("greet").held_by("gone").await);
    }
    let others = world.start("greet").held_by("node").await;
    world.leave("gone").await;
    assert_eq!(world.store().nodes().await.unwrap().len(), 1);
    assert_eq!(world.status(others.run).await, Status::Running);

    let freed = world.claims_as("node", 10).await;
    assert_eq!(freed.len(), 4);
    assert!(freed.iter().all(|turn| turn.claimed.crashes == 0 && turn.epoch > 1));
    for turn in turns {
        assert_eq!(world.commit(turn.complete("late")).await, outlast_store::Committed::LeaseLost);
    }
}

#[store_test]
async fn a_node_that_left_before_its_runs_were_claimed_again_has_lost_them(world: World) {
    let turn = world.start("greet").held_by("gone").await;
    world.leave("gone").await;
    assert_eq!(world.commit(turn.complete("late")).await, outlast_store::Committed::LeaseLost);
    assert_eq!(world.status(turn.run).await, Status::Ready);
}

#[store_test]
async fn leaving_is_fine_for_whoever_is_not_there(world: World) {
    world.store().leave(NodeId::new(42)).await.unwrap();
    assert_eq!(world.store().nodes().await.unwrap(), []);
}

#[store_test]
async fn a_node_whose_lease_ran_out_is_not_shown(world: World) {
    world.node("node").await;
    world.pass(LEASE + Duration::from_secs(1)).await;
    assert_eq!(world.store().nodes().await.unwrap(), []);
}

#[store_test]
async fn nodes_that_start_together_do_not_get_in_each_others_way(world: World) {
    let run = world.start("greet").await;
    world.commit(run.claimed_by("first").await.block("does not fit")).await;
    let stores = join_all((0..4).map(|_| world.second_store())).await;
    let joins = (0..16).map(|n: usize| {
        let store = std::sync::Arc::clone(&stores[n % 4]);
        let codes = if n.is_multiple_of(2) { ["greet@1", "order@1"] } else { ["order@1", "greet@1"] };
        let card = card(&format!("node {n}"), &codes);
        tokio::spawn(async move { store.join(&card).await })
    });
    for joined in join_all(joins).await {
        joined.unwrap().unwrap();
    }
    assert_eq!(world.store().nodes().await.unwrap().len(), 17);
    assert_eq!(world.status(run.id).await, Status::Ready);
}
