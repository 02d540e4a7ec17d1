//! What a process remembers of a line from one look to the next, which changes nothing of what it finds.

use std::time::Duration;

use outlast_core::{QueueRules, Timestamp};
use outlast_store::{Claim, Due, QueueClaim, Value};
use outlast_testkit::{QUEUE, World, store_test};

use crate::queues::limit;
use crate::{MINUTE, SECOND};

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
