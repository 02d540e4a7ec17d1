//! Queues with rules: what they let go, whoever asks and however many.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use outlast_core::{QueueRules, QueueState, Rate, RunId, Timestamp};
use outlast_store::{Claim, Due, NewRun, NodeCard, Parent, QueueChange, QueueClaim, Value};
use outlast_testkit::{LEASE, QUEUE, Turn, World, card, store_test};

use crate::{MINUTE, SECOND};

fn limit(limit: u32) -> QueueRules {
    QueueRules { limit: Some(limit), ..QueueRules::default() }
}

fn per_group(limit: u32) -> QueueRules {
    QueueRules { per_group: Some(limit), ..QueueRules::default() }
}

fn ordered() -> QueueRules {
    QueueRules { ordered: true, ..QueueRules::default() }
}

fn fair() -> QueueRules {
    QueueRules { fair: true, ..QueueRules::default() }
}

fn ids(turns: &[Turn]) -> Vec<RunId> {
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

// Where looks are slow, a claim asks for those who ran by the last look and for those who were taken since: by numbers of
// claims that are times, and by those of older nodes, which count from one.
#[store_test]
async fn whoever_was_taken_by_another_process_counts_whatever_this_one_remembers(world: World) {
    world.rules(QUEUE, limit(4)).await;
    for _ in 0..10 {
        world.start("greet").await;
    }
    let others = world.second_store().await;
    let ours = world.turns_of("ours", QUEUE, 1).await;
    let more = world.turns_of("ours", QUEUE, 1).await;
    let theirs = world.ask("theirs", 0).await;
    let counted = world.ask("older", 0).await;
    let claim = async |ask: &Claim, number| {
        let ask =
            QueueClaim { node: ask.node, number, queue: QUEUE.into(), codes: ask.codes.clone(), limit: 1 };
        others.claim_queue(&ask).await.unwrap()
    };
    assert_eq!(claim(&theirs, theirs.number).await.runs.len(), 1);
    assert_eq!(claim(&counted, 7).await.runs.len(), 1);
    let full = world.claim_queue("ours", QUEUE, 10).await;
    assert_eq!((full.runs.len(), full.is_full), (0, true), "two of ours, and one of each of the others");

    ours[0].completed("done").await;
    assert_eq!(
        world.claim_queue("ours", QUEUE, 10).await.runs.len(),
        1,
        "one of those it remembered has ended"
    );
    more[0].completed("done").await;
    let stale = claim(&theirs, theirs.number - 60_000_000).await;
    assert_eq!(
        (stale.runs.len(), stale.is_full),
        (0, true),
        "others would not find what it took: it asks again"
    );
    let late = claim(&theirs, world.number() - 2_500_000).await;
    assert_eq!(late.runs.len(), 1, "it says that it was late");
    assert!(world.claim_queue("ours", QUEUE, 10).await.runs.is_empty());
}

#[store_test]
async fn a_claim_from_a_queue_says_when_the_next_is_due_or_when_to_look_again(world: World) {
    world.rules(QUEUE, limit(5)).await;
    let due = world.now().await + MINUTE * 5;
    world.start("greet").due(Due::At(due)).await;
    for _ in 0..3 {
        let claims = world.claim_queue("node", QUEUE, 10).await;
        let looks_again = claims.look_again.is_some_and(|left| left < SECOND);
        assert!(claims.runs.is_empty() && (claims.next_due == Some(due) || looks_again), "{claims:?}");
    }
}

// A program of the schema before takes as late, and says nothing.
#[store_test(postgres)]
async fn whoever_was_taken_late_by_a_program_that_does_not_say_so_counts(world: World) {
    world.rules(QUEUE, limit(2)).await;
    for _ in 0..4 {
        world.start("greet").await;
    }
    let others = world.second_store().await;
    let theirs = world.ask("theirs", 0).await;
    assert_eq!(world.turns_of("ours", QUEUE, 1).await.len(), 1);
    // What "ours" remembers is looked at anew, so that the next look only asks for those who were taken since.
    assert!(world.claim_queue("ours", QUEUE, 0).await.runs.is_empty());
    let late = async || {
        let mut look = world.begin().await;
        let late = world.named(
            "select count(*) from outlast.leases as l join outlast.nodes as n on n.shard = l.shard and n.id = l.node
              where n.name = 'theirs' and l.late_at > 0",
        );
        let found = look.query(&late, &[]).await.unwrap()[0][0].clone();
        look.rollback().await.unwrap();
        found
    };
    assert_eq!(late().await, Value::Int(0), "they took nobody yet");
    let number = world.number() - 2_500_000;
    let ask =
        QueueClaim { node: theirs.node, number, queue: QUEUE.into(), codes: theirs.codes.clone(), limit: 1 };
    assert_eq!(others.claim_queue(&ask).await.unwrap().runs.len(), 1);
    assert_eq!(late().await, Value::Int(1));
    let mut earlier = world.begin().await;
    earlier.query(&world.named("update outlast.leases set late_at = null"), &[]).await.unwrap();
    earlier.commit().await.unwrap();
    let full = world.claim_queue("ours", QUEUE, 10).await;
    assert_eq!((full.runs.len(), full.is_full), (0, true));
}

#[store_test]
async fn a_line_is_looked_at_from_its_first_whatever_was_taken_before(world: World) {
    world.rules(QUEUE, limit(100)).await;
    let first = world.start("greet").await;
    assert_eq!(world.turns_of("node", QUEUE, 1).await[0].run, first.id);
    let behind = world.start("greet").priority(9).await;
    let urgent = world.start("greet").priority(0).await;
    let second = world.start("greet").await;
    for expected in [urgent, second, behind] {
        assert_eq!(world.turns_of("node", QUEUE, 1).await[0].run, expected.id);
        world.pass(SECOND).await;
    }
}

fn before(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(time.micros() - by.as_micros() as i64)
}

#[store_test]
async fn an_ordered_group_goes_from_its_first_however_late_that_came(world: World) {
    world.rules(QUEUE, QueueRules { ordered: true, ..QueueRules::default() }).await;
    // What a process remembers of a line it remembers after some looks.
    for _ in 0..4 {
        world.start("greet").group("books").await;
        world.turns_of("node", QUEUE, 1).await[0].completed("done").await;
    }
    let now = world.now().await;
    let second = world.start("greet").group("books").await;
    // As if its transaction had begun long before it could commit.
    let first = world.start("greet").group("books").due(Due::At(before(now, MINUTE))).await;
    for expected in [first, second] {
        let turn = &world.turns_of("node", QUEUE, 2).await[0];
        assert_eq!(turn.run, expected.id);
        turn.completed("done").await;
    }
}

#[store_test]
async fn one_look_tells_in_which_queues_somebody_is_or_will_be_due(world: World) {
    let queues = ["busy", "later", "empty"].map(str::to_owned);
    // A look at a part of the lines does not see far ahead, and says when to look again.
    let tells = async |told: &[(&str, Timestamp)]| {
        let mut lines = world.store().lines(&queues).await.unwrap();
        let short = lines.look_again.map(|left| left < SECOND);
        assert_ne!(short, Some(false));
        let horizon = world.now().await + if short.is_some() { SECOND } else { MINUTE * 60 };
        lines.due.sort();
        let told =
            told.iter().filter(|(_, due)| *due <= horizon).map(|(queue, due)| ((*queue).to_owned(), *due));
        assert_eq!(lines.due, told.collect::<Vec<_>>());
    };
    tells(&[]).await;
    let now = world.now().await;
    for _ in 0..3 {
        world.start("greet").queue("busy").due(Due::At(now)).await;
    }
    let due = before(now, SECOND / 5);
    let urgent = world.start("greet").queue("busy").priority(0).due(Due::At(due)).await;
    world.start("greet").queue("later").due(Due::At(now + MINUTE)).await;
    world.start("greet").queue("elsewhere").await;
    for _ in 0..2 {
        tells(&[("busy", due), ("later", now + MINUTE)]).await;
    }

    // Whoever runs stands in no line.
    let turns = world.turns_of("node", "busy", 1).await;
    assert_eq!(turns[0].run, urgent.id);
    tells(&[("busy", now), ("later", now + MINUTE)]).await;
    world.pass(MINUTE).await;
    world.turns_of("node", "busy", 3).await;
    tells(&[("later", now + MINUTE)]).await;
}
