//! Edges: the longest, the largest, and text that a database cannot hold. One must not fail its batch.

use std::time::Duration;

use bytes::Bytes;
use outlast_core::{Limits, Payload, Status, Timestamp};
use outlast_store::{
    Address, Committed, Control, Controlled, Due, LogPlace, Next, Purge, Purged, Renew, Sweep,
};
use outlast_testkit::{World, event, store_test, sweep_of};

use crate::MINUTE;

#[store_test]
async fn no_time_is_too_long(world: World) {
    let forever = Duration::MAX;
    let far = world.start("greet").delayed(forever).with(|run| run.timeout = Some(forever)).await;
    assert!(world.view(far.id).await.due_at.unwrap() > world.now().await);
    let last = world.start("greet").due(Due::At(Timestamp::MAX)).await;
    assert_eq!(world.view(last.id).await.due_at, Some(Timestamp::MAX));

    let turn = world.start("greet").held_by("node").await;
    assert_eq!(world.commit(turn.suspend_until(Timestamp::MAX)).await, Committed::Done);
    let turn = world.start("mail").held_by("node").await;
    assert_eq!(world.commit(turn.retry(forever, u32::MAX)).await, Committed::Done);
    assert_eq!(world.status(turn.run).await, Status::Ready);

    assert!(world.renew(&Renew { lease: forever, ..world.renewal("node").await }).await.alive);
    for shard in 0..world.shards() {
        let ask = Sweep { unknown_after: forever, forget_after: forever, limit: u32::MAX, ..sweep_of(shard) };
        assert_eq!(world.store().sweep(&ask).await.unwrap(), outlast_store::Swept::default());
    }
    let purge = Control::Purge(Purge::older_than(forever, u32::MAX));
    assert!(matches!(world.control(&purge).await, Controlled::Purged(Purged { runs: 0, .. })));
    world.pass(MINUTE * 1_000_000).await;
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
}

#[store_test]
async fn text_that_a_database_cannot_hold_does_not_fail_its_batch(world: World) {
    let logs = world.start("greet").shard(0).held_by("node").await;
    let blocks = world.start("greet").shard(0).held_by("node").await;
    let fine = world.start("greet").shard(0).held_by("node").await;
    let batch = vec![
        logs.writes().logs(1, "before\0after").logs(2, "\u{1f4e6}\u{202e}\u{7}"),
        blocks.block("entry \0 fits nothing"),
        fine.complete("done"),
    ];
    assert_eq!(world.commit_all(batch).await, [Committed::Done; 3]);
    let lines = world.store().logs(logs.run, LogPlace::default(), 10).await.unwrap();
    assert!(lines[0].message.starts_with("before") && lines[0].message.ends_with("after"));
    assert_eq!(lines[1].message, "\u{1f4e6}\u{202e}\u{7}");
    assert!(world.view(blocks.run).await.reason.unwrap().starts_with("entry "));

    assert_eq!(world.cancel(logs.run, "because\0of it").await, Controlled::Asked { run: logs.run });
    assert!(world.view(logs.run).await.cancel_reason.unwrap().starts_with("because"));
    assert_eq!(world.inbox(logs.run).await, ["because\0of it"], "as JSON any text can be held");
}

#[store_test]
async fn more_lines_than_a_turn_may_log_are_dropped(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut writing = turn.records(1, "chatter");
    for n in 1..=1_200 {
        writing = writing.logs(n, "on and on");
    }
    assert_eq!(world.commit(writing).await, Committed::Done);
    assert_eq!(world.store().logs(turn.run, LogPlace::default(), 10_000).await.unwrap().len(), 1_000);
}

#[store_test]
async fn the_largest_payloads_fit_everywhere(world: World) {
    let bytes = Bytes::from(vec![7; Limits::HARD_PAYLOAD]);
    let large = || Payload { codec: Some("own".into()), bytes: bytes.clone() };
    let turn = world.start("greet").with(|run| run.input = large()).held_by("node").await;
    let mut message = event(Address::Run(turn.run), "large", "");
    message.body = Some(large());
    world.deliver(&message).await;
    let mut writing = turn.records(1, "large").doing("large", 1, None);
    writing.commit.entries[0].body = Some(large());
    writing.commit.doing[0].saved = Some(large());
    assert_eq!(world.commit(writing).await, Committed::Done);

    let loaded = world.store().load(&[turn.run]).await.unwrap().remove(0);
    assert_eq!((&loaded.record.input, loaded.entries[0].body.as_ref()), (&large(), Some(&large())));
    assert_eq!(loaded.doing[0].saved, Some(large()));
    let news = world.store().inbox(&[(turn.run, 0)]).await.unwrap();
    assert_eq!(news[0].1.body, Some(large()));
    let end = outlast_store::Ended { status: Status::Completed, output: Some(large()), error: None };
    assert_eq!(world.commit(turn.writes().next(Next::Finish(end))).await, Committed::Done);
    assert_eq!(world.view(turn.run).await.ended.unwrap().output, Some(large()));
}

#[store_test]
async fn a_batch_may_be_as_large_as_it_gets(world: World) {
    let runs: Vec<_> = (0..500).map(|_| world.start("greet").shard(0).asked()).collect();
    let hold = outlast_store::Hold { node: world.node("node").await, claim: world.number() };
    world.store().start(&runs, Some(hold)).await.unwrap();
    let one = world.start("greet").shard(0).held_by("node").await;
    let writing = |run: &outlast_store::NewRun| {
        let mut writing =
            one.records(1, "one").entry(2, "two").logs(1, "on").tag("stage", "done").complete("done");
        writing.commit.run = run.id;
        writing
    };
    let answers = world.commit_all(runs.iter().map(writing).collect()).await;
    assert_eq!(answers, [Committed::Done; 500]);
    assert_eq!(world.count("select count(*) from outlast.journal").await, 1_000);
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    assert_eq!(world.store().ended(&ids).await.unwrap().len(), 500);
    assert_eq!(world.store().load(&ids).await.unwrap().len(), 500);
}
