//! What people and code say of a queue: paused, draining, with other rules; and what they see of it.

use std::collections::HashSet;
use std::time::Duration;

use outlast_core::{QueueRules, QueueState};
use outlast_store::{NewRun, NodeCard, Parent, QueueChange};
use outlast_testkit::{QUEUE, World, card, store_test};

use crate::queues::{fair, ids, limit};
use crate::{MINUTE, SECOND};

#[store_test]
async fn a_paused_queue_gives_nothing_until_it_is_resumed(world: World) {
    let run = world.start("greet").await;
    let card = world.change_queue(QUEUE, QueueChange::Pause).await;
    assert!(card.state == QueueState::Paused && card.since.is_some() && card.is_managed());
    assert!(world.claim_queue("node", QUEUE, 10).await.runs.is_empty());
    let again = world.change_queue(QUEUE, QueueChange::Pause).await;
    assert_eq!(again, card, "nothing to do");
    let card = world.change_queue(QUEUE, QueueChange::Resume).await;
    assert!(card.state == QueueState::Open && card.since.is_none() && !card.is_managed());
    assert_eq!(ids(&world.turns_of("node", QUEUE, 10).await), [run.id]);
}

#[store_test]
async fn a_draining_queue_works_off_what_it_had_and_keeps_what_comes(world: World) {
    for rules in [limit(10), fair()] {
        world.rules(QUEUE, rules).await;
        let (had, loose) = (world.start("greet").group("a").await, world.start("greet").await);
        world.pass(SECOND).await;
        world.change_queue(QUEUE, QueueChange::Drain).await;
        world.pass(SECOND).await;
        let late = world.start("greet").group("a").await;
        let turns = world.turns_of("node", QUEUE, 10).await;
        assert_eq!(ids(&turns).into_iter().collect::<HashSet<_>>(), HashSet::from([had.id, loose.id]));
        // Tried again it still is what was there.
        world.commit(turns[0].release()).await;
        let again = world.turns_of("node", QUEUE, 10).await;
        assert_eq!(again.len(), 1);
        world.change_queue(QUEUE, QueueChange::Resume).await;
        let rest = world.turns_of("node", QUEUE, 10).await;
        assert_eq!(ids(&rest), [late.id]);
        for turn in turns[1..].iter().chain(&again).chain(&rest) {
            world.commit(turn.complete("done")).await;
        }
    }
}

#[store_test]
async fn a_draining_queue_works_off_the_children_of_what_it_had(world: World) {
    let parent = world.start("greet").await;
    world.pass(SECOND).await;
    world.change_queue(QUEUE, QueueChange::Drain).await;
    world.pass(SECOND).await;
    let turn = world.turns_of("node", QUEUE, 10).await.pop().unwrap();
    let child = NewRun { parent: Some(Parent { run: parent.id, op: None }), ..world.start("greet").asked() };
    world.store().start(std::slice::from_ref(&child), None).await.unwrap();
    world.start("greet").await;
    assert_eq!(ids(&world.turns_of("node", QUEUE, 10).await), [child.id], "the other came too late");
    drop(turn);
}

#[store_test]
async fn what_people_say_of_a_queue_holds_against_code_until_they_take_it_back(world: World) {
    let declares = |rules: QueueRules| NodeCard { rules: vec![("mail".into(), rules)], ..card("n", &[]) };
    world.store().join(&declares(limit(5))).await.unwrap();
    let rules = async || world.store().queues().await.unwrap().pop().unwrap();
    assert_eq!((rules().await.rules, rules().await.is_own), (limit(5), false));
    world.rules("mail", limit(1)).await;
    world.store().join(&declares(limit(7))).await.unwrap();
    assert_eq!((rules().await.rules, rules().await.is_own), (limit(1), true));
    world.change_queue("mail", QueueChange::Rules(None)).await;
    assert_eq!((rules().await.rules, rules().await.is_own), (limit(7), false));
}

#[store_test]
async fn a_renewal_tells_whether_rules_were_changed_whatever_the_clock_says(world: World) {
    let renewal = world.renewal("node").await;
    let changes = async || world.renew(&renewal).await.rules_changes;
    assert_eq!(changes().await, 0);
    world.rules("mail", limit(1)).await;
    let first = changes().await;
    assert!(first > 0);
    world.rules("mail", limit(1)).await;
    assert_eq!(changes().await, first, "the same rules again are no change");
    world.rules("parcels", limit(2)).await;
    let second = changes().await;
    assert!(second > first);
    // As if the clock had been a day ahead, and went back.
    world.raw("update outlast.queues set changed_at = changed_at + 86400000000").await;
    world.change_queue("mail", QueueChange::Pause).await;
    assert!(changes().await > second);
}

// A claim has the queue's row until it commits, and one whose node was cut off in the middle has it for seconds.
#[store_test(postgres)]
async fn a_node_that_says_nothing_new_of_a_queue_joins_although_somebody_has_its_row(world: World) {
    let node = |name| NodeCard { rules: vec![(QUEUE.to_owned(), limit(3))], ..card(name, &["greet@1"]) };
    world.store().join(&node("one")).await.unwrap();
    let mut claims = world.begin().await;
    claims.query(&world.named("select name from outlast.queues for update"), &[]).await.unwrap();
    world.store().join(&node("two")).await.expect("nobody waits for the row");
    claims.rollback().await.unwrap();
}

#[store_test]
async fn a_view_counts_what_stands_in_each_queue(world: World) {
    world.rules("empty", limit(1)).await;
    for _ in 0..3 {
        world.start("greet").await;
    }
    world.start("greet").delayed(MINUTE).await;
    world.start("greet").queue("mail").await;
    let held = world.turns_of("node", QUEUE, 2).await;
    world.commit(held[0].suspend()).await;
    let views = world.store().queue_views().await.unwrap();
    let told: Vec<_> = views
        .iter()
        .map(|view| (&*view.queue.name, view.due, view.later, view.running, view.waiting))
        .collect();
    assert_eq!(told, [("empty", 0, 0, 0, 0), ("mail", 1, 0, 0, 0), (QUEUE, 1, 1, 1, 1)]);
    assert!(views[2].oldest.is_some() && views[0].oldest.is_none());
}

#[store_test]
async fn a_view_tells_those_who_are_to_begin_from_those_whose_wait_ends(world: World) {
    for delay in [Duration::ZERO, Duration::ZERO, Duration::ZERO, MINUTE, MINUTE, MINUTE] {
        world.start("greet").delayed(delay).await;
    }
    let held = world.turns_of("node", QUEUE, 3).await;
    let now = world.now().await;
    world.commit(held[0].suspend_until(now + SECOND)).await;
    world.commit(held[1].suspend_until(now + MINUTE * 10)).await;
    world.pass(SECOND * 2).await;
    world.start("greet").await;
    let views = world.store().queue_views().await.unwrap();
    let [view] = &views[..] else { panic!("{views:?}") };
    assert_eq!((view.due, view.queued), (2, 1), "what one waited for has come");
    assert_eq!((view.later, view.scheduled), (4, 3), "one waits for longer");
}
