//! Claim: due runs, most urgent first, each in the hands of one node.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use outlast_core::{NodeId, RunId, Status};
use outlast_store::{Claim, Due, NewRun};
use outlast_testkit::{World, store_test};

use crate::{MINUTE, SECOND};

#[store_test]
async fn runs_come_by_priority_then_by_due_time_then_by_id(world: World) {
    let now = world.now().await;
    let at = |seconds: u64| {
        Due::At(outlast_core::Timestamp::from_micros(now.micros() - 100_000_000) + SECOND * seconds as u32)
    };
    let run = |priority, due| world.start("greet").shard(0).priority(priority).due(due).asked();
    let mut twins = [run(5, at(7)), run(5, at(7))];
    twins.sort_by_key(|run| run.id);
    let wanted =
        [run(0, at(50)), run(1, at(60)), run(5, at(3)), twins[0].clone(), twins[1].clone(), run(9, at(1))];
    let mut mixed: Vec<NewRun> = wanted.to_vec();
    mixed.reverse();
    mixed.swap(0, 3);
    world.store().start(&mixed, None).await.unwrap();

    let wanted: Vec<RunId> = wanted.iter().map(|run| run.id).collect();
    let two = world.claim(&Claim { limit: 2, ..world.ask("node", 0).await }).await.runs;
    let rest = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await.runs;
    assert_eq!(two.iter().map(|run| run.id).collect::<Vec<_>>(), wanted[..2]);
    assert_eq!(rest.iter().map(|run| run.id).collect::<Vec<_>>(), wanted[2..]);
    assert_eq!(rest.iter().map(|run| run.priority).collect::<Vec<_>>(), [5, 5, 5, 9]);
}

#[store_test]
async fn a_claim_may_begin_where_an_earlier_one_ended(world: World) {
    let now = world.now().await;
    let at = |seconds: i64| outlast_core::Timestamp::from_micros(now.micros() - seconds * 1_000_000);
    let mut runs = Vec::new();
    for seconds in [30, 20, 10] {
        runs.push(world.start("greet").shard(0).due(Due::At(at(seconds))).await);
    }
    let ask = Claim { limit: 10, from: Some(at(20)), ..world.ask("node", 0).await };
    let taken: Vec<RunId> = world.claim(&ask).await.runs.iter().map(|run| run.id).collect();
    assert_eq!(taken, [runs[1].id, runs[2].id]);
    let claims = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await;
    assert_eq!(
        claims.runs.iter().map(|run| run.id).collect::<Vec<_>>(),
        [runs[0].id],
        "a look at everything"
    );
}

#[store_test]
async fn among_equal_priorities_queues_come_in_the_order_asked(world: World) {
    for queue in ["a", "b", "c"] {
        world.start("greet").shard(0).queue(queue).await;
    }
    let urgent = world.start("greet").shard(0).queue("b").priority(1).await;
    let ask = world.ask("node", 0).await;
    let claim = Claim { queues: vec!["c".into(), "a".into(), "b".into()], limit: 1, ..ask };
    assert_eq!(world.claim(&claim).await.runs[0].id, urgent.id);
    for wanted in ["c", "a", "b"] {
        let got = world.claim(&Claim { number: world.number(), ..claim.clone() }).await.runs;
        assert_eq!(world.view(got[0].id).await.record.queue, wanted);
    }
}

#[store_test]
async fn a_claim_raises_the_epoch_and_makes_the_run_the_nodes(world: World) {
    let run = world.start("greet").await;
    for epoch in 1..=3 {
        let turn = world.claim_as("node").await;
        let claimed = &turn.claimed;
        assert_eq!((turn.epoch, claimed.attempt, claimed.crashes, claimed.news), (epoch, 1, 0, 0));
        assert_eq!((&*claimed.code, claimed.priority, claimed.expires_at), ("greet@1", 5, None));
        let view = world.view(run.id).await;
        assert_eq!(
            (view.status, view.node, view.epoch, view.due_at),
            (Status::Running, Some(turn.node), epoch, None)
        );
        world.commit(turn.release()).await;
    }
}

#[store_test]
async fn a_claim_says_when_the_run_was_due(world: World) {
    let run = world.start("greet").await;
    let due = world.view(run.id).await.due_at.unwrap();
    assert_eq!(world.claim_as("node").await.claimed.due_at, due);
}

#[store_test]
async fn only_code_that_the_node_knows_is_claimed(world: World) {
    let known = world.start("greet").shard(0).await;
    world.start("unheard").shard(0).await;
    world.start("greet").shard(0).version(2).await;
    let claims = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await;
    assert_eq!(claims.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [known.id]);
    assert_eq!(claims.next_due, None);

    world.join("newer", &["greet@2"]).await;
    let claims = world.claim(&world.ask("newer", 0).await).await;
    assert_eq!(claims.runs[0].code, "greet@2");
    let nothing = Claim { codes: vec![], limit: 10, ..world.ask("node", 0).await };
    assert_eq!(world.claim(&nothing).await.runs, []);
}

#[store_test]
async fn only_the_queues_that_were_asked_are_claimed(world: World) {
    world.start("greet").shard(0).queue("mail").await;
    let mine = world.start("greet").shard(0).await;
    let all = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await;
    assert_eq!(all.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [mine.id]);
    let none = Claim { queues: vec![], limit: 10, ..world.ask("node", 0).await };
    assert_eq!(world.claim(&none).await.runs, []);
    let both = Claim { queues: vec!["main".into(), "mail".into()], limit: 10, ..world.ask("node", 0).await };
    assert_eq!(world.claim(&both).await.runs.len(), 1);
}

#[store_test]
async fn no_more_than_asked_for_are_claimed(world: World) {
    let runs: Vec<NewRun> = (0..20).map(|_| world.start("greet").shard(0).asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    for wanted in [7, 7, 6, 0] {
        let claims = world.claim(&Claim { limit: 7, ..world.ask("node", 0).await }).await;
        assert_eq!((claims.runs.len(), claims.next_due), (wanted, None));
    }
    let zero = world.claim(&Claim { limit: 0, ..world.ask("node", 0).await }).await;
    assert_eq!(zero.runs, []);
}

#[store_test]
async fn a_claim_takes_from_its_own_shard(world: World) {
    let runs: Vec<NewRun> = (0..4).map(|shard| world.start("greet").shard(shard).asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    for shard in 0..world.shards() {
        let claims = world.claim(&Claim { limit: 10, ..world.ask("node", shard).await }).await;
        assert!(claims.runs.iter().all(|run| run.id.shard() == shard));
        assert_eq!(claims.runs.len(), 4 / usize::from(world.shards()));
    }
}

#[store_test]
async fn the_next_due_time_is_exact(world: World) {
    let now = world.now().await;
    let due = |minutes: u32| Due::At(now + MINUTE * minutes);
    for (definition, queue, minutes) in
        [("greet", "main", 9), ("greet", "main", 5), ("greet", "mail", 2), ("unheard", "main", 1)]
    {
        world.start(definition).shard(0).queue(queue).priority(3).due(due(minutes)).await;
    }
    let ready = world.start("greet").shard(0).await;

    let ask = Claim { limit: 2, ..world.ask("node", 0).await };
    let claims = world.claim(&ask).await;
    assert_eq!(claims.runs.len(), 1);
    assert_eq!(claims.next_due, Some(now + MINUTE * 5));
    assert!(claims.now >= now && claims.now <= world.now().await);
    let both = vec!["main".into(), "mail".into()];
    let claims = world.claim(&Claim { queues: both, number: world.number(), ..ask.clone() }).await;
    assert_eq!(claims.next_due, Some(now + MINUTE * 2));

    world.start("greet").shard(0).await;
    let full = world.claim(&Claim { limit: 1, number: world.number(), ..ask }).await;
    assert_eq!((full.runs.len(), full.next_due), (1, None), "whoever got all it asked for asks again");
    assert_eq!(world.store().next_due().await.unwrap(), Some(now + MINUTE), "of any queue and any code");
    assert_ne!(full.runs[0].id, ready.id);
}

// What was to be due later and went before stands in the way of whoever looks that far.
#[store_test(postgres)]
async fn a_claim_that_looks_at_a_part_of_a_line_does_not_look_far_ahead_and_says_when_to_look_again(
    world: World,
) {
    let now = world.now().await;
    world.start("greet").shard(0).due(Due::At(now + MINUTE * 5)).await;
    let part = Claim { from: Some(now), limit: 10, ..world.ask("node", 0).await };
    let claims = world.claim(&part).await;
    assert!(claims.runs.is_empty() && claims.look_again.is_some_and(|left| left < SECOND));

    let soon = claims.now + SECOND / 10 * 9;
    world.start("greet").shard(0).due(Due::At(soon)).await;
    let claims = world.claim(&Claim { number: world.number(), ..part }).await;
    match &claims.runs[..] {
        [] => assert_eq!((claims.next_due, claims.look_again), (Some(soon), None)),
        // The database's clock went on.
        runs => assert_eq!(runs.iter().map(|run| run.due_at).collect::<Vec<_>>(), [soon]),
    }
}

#[store_test]
async fn with_nothing_to_do_a_claim_gives_nothing(world: World) {
    let claims = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await;
    assert_eq!((claims.runs.len(), claims.next_due), (0, None));
    assert_eq!(world.store().next_due().await.unwrap(), None);
}

#[store_test]
async fn the_same_number_gives_the_same_runs_again(world: World) {
    let runs: Vec<NewRun> = (0..3).map(|_| world.start("greet").shard(0).asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    world.send(runs[0].id, "approval", "yes").await;

    let ask = Claim { limit: 2, ..world.ask("node", 0).await };
    let first = world.claim(&ask).await.runs;
    let again = world.claim(&ask).await.runs;
    let told = |runs: &[outlast_store::Claimed]| {
        let told = runs.iter().map(|run| (run.id, run.epoch, run.news, run.inbox.clone()));
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|(id, ..)| *id);
        told
    };
    assert_eq!(told(&again), told(&first));
    assert_eq!(world.claim(&Claim { number: world.number(), ..ask }).await.runs.len(), 1);
}

#[store_test]
async fn a_node_without_its_row_gets_nothing(world: World) {
    world.start("greet").shard(0).await;
    let stranger = Claim { node: NodeId::new(42), ..world.ask("node", 0).await };
    assert_eq!(world.claim(&stranger).await.runs, []);
    let gone = world.ask("gone", 0).await;
    world.leave("gone").await;
    assert_eq!(world.claim(&gone).await.runs, []);
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
}

#[store_test]
async fn a_claim_hands_over_the_unread_news(world: World) {
    let run = world.start("greet").await;
    world.send(run.id, "approval", "one").await;
    world.send(run.id, "approval", "two").await;
    let turn = run.claimed_by("node").await;
    assert_eq!(turn.claimed.inbox.iter().map(|news| news.seq).collect::<Vec<_>>(), [1, 2]);

    world.commit(turn.records(1, "approval").consumes(&[1]).suspend(1)).await;
    let turn = run.claimed_by("node").await;
    assert_eq!(turn.claimed.inbox.iter().map(|news| news.seq).collect::<Vec<_>>(), [2]);
    assert_eq!(turn.claimed.news, 2);
}

#[store_test]
async fn a_waiting_run_is_claimed_when_its_timer_is_due(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.suspend_until(world.now().await + MINUTE)).await;
    assert_eq!(world.claims_as("node", 1).await.len(), 0);
    world.pass(MINUTE).await;
    assert_eq!(world.claim_as("node").await.epoch, 2);
}

#[store_test]
async fn eight_racing_claimers_never_share_a_run(world: World) {
    let runs: Vec<NewRun> = (0..240).map(|_| world.start("greet").shard(0).asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    let stores = join_all((0..8).map(|_| world.second_store())).await;
    let mut claimers = Vec::new();
    for (n, store) in stores.into_iter().enumerate() {
        let (world, name) = (world.clone(), format!("node {n}"));
        world.node(&name).await;
        claimers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let ask = Claim { limit: 5, ..world.ask(&name, 0).await };
                let got = Arc::clone(&store).claim(&ask).await.unwrap().runs;
                // Others may hold locks on what is left, so an empty hand is not yet the end.
                if got.is_empty() && world.store().next_due().await.unwrap().is_none() {
                    return mine;
                }
                assert!(got.iter().all(|run| run.epoch == 1));
                mine.extend(got.into_iter().map(|run| run.id));
            }
        }));
    }
    let claimed: Vec<RunId> = join_all(claimers).await.into_iter().flat_map(Result::unwrap).collect();
    let distinct: HashSet<RunId> = claimed.iter().copied().collect();
    assert_eq!((claimed.len(), distinct.len()), (240, 240));
}

#[store_test]
async fn a_run_that_waits_may_be_taken_before_its_time_and_no_other(world: World) {
    let now = world.now().await;
    let soon = now + SECOND;
    let waits = world.start("greet").shard(0).await;
    let turn = world.claim_as("node").await;
    world.commit(turn.suspend_until(soon)).await;
    let later = world.start("greet").shard(0).await;
    let turn = world.claim_as("node").await;
    world.commit(turn.suspend_until(now + MINUTE)).await;
    // Due before the others, but it would begin.
    let begins = world.start("greet").shard(0).due(Due::At(now + SECOND / 2)).await;

    let plain = world.claim(&Claim { limit: 10, ..world.ask("node", 0).await }).await;
    assert!(plain.runs.is_empty(), "{:?}", plain.runs);
    let early = Claim { limit: 10, early: 2 * SECOND, ..world.ask("node", 0).await };
    let taken = world.claim(&early).await;
    assert_eq!(taken.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [waits.id]);
    assert_eq!(taken.runs[0].due_at, soon, "whoever has it knows when its time comes");
    assert_eq!(taken.next_due, Some(now + SECOND / 2));
    assert_eq!(world.status(begins.id).await, Status::Ready);
    assert_eq!(world.status(later.id).await, Status::Waiting);
}
