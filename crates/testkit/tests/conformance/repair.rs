//! Repairs and forks: what a journal takes back, what is heard again, and who may be repaired.

use std::time::Duration;

use outlast_core::{Entry, Op, Phase, RunId, Status, Timestamp};
use outlast_store::{Address, Control, Controlled, Ended, Fork, Hears, News, NewsKind, Next, Repair};
use outlast_testkit::{Turn, World, payload, step, store_test};

/// The entry that says that a run was repaired.
fn revision(pos: u32) -> Entry {
    let body = Some(payload(serde_json::json!({ "by": "ops" })));
    Entry {
        pos,
        op: Op::Revise,
        phase: Phase::Done,
        name: "repair".into(),
        at: Timestamp::default(),
        took: None,
        body,
    }
}

fn repair(turn: &Turn, pos: u32, void: &[u32], hears: Hears) -> Control {
    let repair = Some(Repair { entry: revision(pos), void: void.to_vec(), hears });
    Control::Retry { run: Address::Run(turn.run), epoch: Some(turn.epoch), input: None, repair }
}

fn failed() -> Next {
    Next::Finish(Ended { status: Status::Failed, output: None, error: Some("\"broken\"".into()) })
}

/// What a journal says, entry by entry: its operation and whether it counts.
async fn told(world: &World, run: RunId) -> Vec<(Op, Phase)> {
    let entries = world.store().journal(run, 0, 100).await.unwrap();
    entries.into_iter().map(|entry| (entry.op, entry.phase)).collect()
}

/// What lies in an inbox, oldest first.
async fn heard(world: &World, run: RunId) -> Vec<String> {
    let news = world.store().inbox(&[(run, 0)]).await.unwrap();
    let body = |news: News| news.body.and_then(|body| body.json().map(str::to_owned)).unwrap_or_default();
    news.into_iter().map(|(_, news)| format!("{} {}", news.name.clone(), body(news))).collect()
}

#[store_test]
async fn a_repair_takes_entries_back_and_keeps_them(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.writes().entry(1, "one").entry(2, "two").entry(3, "three").next(failed())).await;
    let ask = repair(&turn, 4, &[2, 3], Hears::default());
    assert_eq!(world.control(&ask).await, Controlled::Retried { run: turn.run, by_this: true });
    let (done, void) = ((Op::Step, Phase::Done), (Op::Step, Phase::Void));
    assert_eq!(told(&world, turn.run).await, [done, void, void, (Op::Revise, Phase::Done)]);
    assert_eq!(world.journal(turn.run).await.len(), 4, "nothing is deleted");
    assert_eq!(world.status(turn.run).await, Status::Ready);
    let again = world.claim_as("node").await;
    assert_eq!((again.run, again.epoch), (turn.run, turn.epoch + 2));
    world.commit(again.records(5, "two").complete("done")).await;
    assert_eq!(world.status(turn.run).await, Status::Completed);
}

#[store_test]
async fn what_a_repaired_run_hears_again_is_in_its_inbox_in_order(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let ended = world.start("kid").child_of(turn.run, "kid").held_by("node").await;
    let goes_on = world.start("kid").child_of(turn.run, "slow").held_by("node").await;
    let stranger = world.start("kid").held_by("node").await;
    world.commit(turn.records(1, "one").next(failed())).await;
    ended.completed("grown").await;
    let news = |name: &str, body: &str| (NewsKind::Event, name.to_owned(), Some(payload(body)));
    let ends = [(&ended, "kid"), (&goes_on, "slow"), (&stranger, "other")];
    let hears = Hears {
        news: vec![news("go", "one"), news("go", "two")],
        ends: ends.map(|(turn, name)| (turn.run, name.to_owned())).to_vec(),
    };
    world.control(&repair(&turn, 2, &[], hears)).await;
    let inbox = heard(&world, turn.run).await;
    assert_eq!(inbox.len(), 3, "{inbox:?}");
    assert!(inbox[0].contains("one") && inbox[1].contains("two") && inbox[2].contains("grown"), "{inbox:?}");
    // Whose turn tells its parent by itself is not listened to as well: it would be told twice.
    goes_on.completed("slowly").await;
    stranger.completed("too").await;
    let inbox = heard(&world, turn.run).await;
    assert!(inbox.len() == 4 && inbox[3].contains("other"), "{inbox:?}");
}

#[store_test]
async fn a_run_that_waits_is_repaired_and_one_that_a_node_holds_is_not(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.records(1, "one")).await;
    let ask = repair(&turn, 2, &[1], Hears::default());
    let before = world.snapshot().await;
    assert_eq!(world.control(&ask).await, Controlled::Held { run: turn.run });
    assert_eq!(world.snapshot().await, before);
    turn.suspended().await;
    assert_eq!(world.control(&ask).await, Controlled::Retried { run: turn.run, by_this: true });
    assert_eq!(world.status(turn.run).await, Status::Ready);
    assert_eq!(
        world.claim_as("node").await.epoch,
        turn.epoch + 2,
        "what was kept warm does not fit any more"
    );
}

#[store_test]
async fn a_repair_that_comes_too_late_changes_nothing(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.records(1, "one").next(failed())).await;
    let ask = repair(&turn, 2, &[1], Hears::default());
    world.control(&ask).await;
    let again = world.claim_as("node").await;
    world.commit(again.records(3, "one").next(failed())).await;
    let before = world.snapshot().await;
    assert_eq!(world.control(&ask).await, Controlled::Retried { run: turn.run, by_this: false });
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_fork_has_the_journal_it_is_given_and_the_other_keeps_its_own(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.writes().entry(1, "one").entry(2, "two")).await;
    turn.completed("done").await;
    let before = told(&world, turn.run).await;
    let took = Some(Duration::from_millis(7));
    let entries = vec![Entry { took, ..step(1, "one") }, Entry { name: "fork".into(), ..revision(2) }];
    let hears =
        Hears { news: vec![(NewsKind::Event, "go".into(), None)], ends: vec![(turn.run, "end".into())] };
    let run = world.start("greet").asked();
    let fork = Control::Fork(Box::new(Fork { run: run.clone(), entries, hears }));
    assert_eq!(world.control(&fork).await, Controlled::Forked { run: run.id });
    assert_eq!(told(&world, run.id).await, [(Op::Step, Phase::Done), (Op::Revise, Phase::Done)]);
    assert_eq!(world.store().journal(run.id, 0, 1).await.unwrap()[0].took, took);
    assert_eq!(told(&world, turn.run).await, before);
    assert_eq!(heard(&world, run.id).await.len(), 2);
    let claimed = world.claim_as("node").await;
    assert_eq!(claimed.run, run.id);
    world.commit(claimed.records(3, "two").complete("too")).await;
    assert_eq!(world.status(run.id).await, Status::Completed);
}
