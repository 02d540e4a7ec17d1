//! Commit, what a run records: entries in order, once, and never by a node that lost its lease.

use std::time::Duration;

use outlast_core::{Entry, NodeId, Op, Phase, Status, Timestamp};
use outlast_store::{Batch, Claim, Committed, Filter, LogLine, LogPlace};
use outlast_testkit::{LEASE, Turn, World, Writing, payload, step, store_test};

#[store_test]
async fn entries_are_recorded_in_order_with_everything_they_say(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let entry = |pos, op, phase, name: &str, body| Entry {
        pos,
        op,
        phase,
        name: name.into(),
        at: Timestamp::default(),
        took: None,
        body,
    };
    let took = |micros, entry| Entry { took: Some(Duration::from_micros(micros)), ..entry };
    let mut own = payload("done");
    own.codec = Some("own".into());
    let entries = vec![
        entry(1, Op::Step, Phase::Opened, "charge", None),
        took(1_500_000, entry(2, Op::Step, Phase::Attempt, "charge", Some(payload("declined")))),
        took(0, entry(3, Op::Step, Phase::Done, "charge", Some(own))),
        entry(4, Op::Sleep, Phase::Opened, "sleep#2", Some(payload("until"))),
        entry(5, Op::Child, Phase::Failed, "ship", Some(payload(""))),
    ];
    let before = world.now().await;
    let mut writing = turn.writes();
    writing.commit.entries = entries[..2].to_vec();
    assert_eq!(world.commit(writing).await, Committed::Done);
    let mut writing = turn.writes();
    writing.commit.entries = entries[2..].to_vec();
    assert_eq!(world.commit(writing).await, Committed::Done);

    let stored = world.store().journal(turn.run, 0, 100).await.unwrap();
    assert!(stored.iter().all(|entry| entry.at >= before));
    let stored: Vec<Entry> =
        stored.into_iter().map(|entry| Entry { at: Timestamp::default(), ..entry }).collect();
    assert_eq!(stored, entries);
    assert_eq!(world.status(turn.run).await, Status::Running, "the turn goes on");
}

#[store_test]
async fn a_batch_records_for_many_runs_at_once(world: World) {
    let mut turns = Vec::new();
    for _ in 0..50 {
        turns.push(world.start("greet").shard(0).held_by("node").await);
    }
    let writing = |turn: &Turn| turn.records(1, "one").entry(2, "two");
    let answers = world.commit_all(turns.iter().map(writing).collect()).await;
    assert_eq!(answers, [Committed::Done; 50]);
    for turn in turns {
        assert_eq!(world.journal(turn.run).await, ["one", "two"]);
    }
}

#[store_test]
async fn how_long_an_entry_took_is_kept_whoever_records_it(world: World) {
    const TOOK: Option<Duration> = Some(Duration::from_micros(2_000_001));
    let took = |entry: Entry| Entry { took: TOOK, ..entry };
    // Alone, at its end, and in the transaction of a user.
    let alone = world.start("greet").held_by("node").await;
    world.commit(alone.writes().with(|commit| commit.entries.push(took(step(1, "one"))))).await;
    let mut tx = world.begin().await;
    tx.record(alone.node, alone.run, alone.epoch, &took(step(2, "two"))).await.unwrap();
    tx.commit().await.unwrap();
    let end = alone.complete("done").with(|commit| commit.entries.push(took(step(3, "three"))));
    world.commit(end).await;
    assert_eq!(tooks(&world, &alone).await, [TOOK; 3]);

    // With others, of whom all, some or none say it; and again, which changes nothing.
    for (few, kind) in
        [(0, Phase::Done), (1, Phase::Done), (3, Phase::Done), (0, Phase::Failed), (1, Phase::Failed)]
    {
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push(world.start("greet").shard(0).held_by("node").await);
        }
        let entry = |at: usize| {
            let phase = if at == 2 { kind } else { Phase::Done };
            let entry = Entry { phase, ..step(1, "one") };
            if at < few { took(entry) } else { entry }
        };
        let writing = |at: usize| turns[at].writes().with(|commit| commit.entries.push(entry(at)));
        for _ in 0..2 {
            assert_eq!(world.commit_all((0..3).map(writing).collect()).await, [Committed::Done; 3]);
        }
        for (at, turn) in turns.iter().enumerate() {
            assert_eq!(tooks(&world, turn).await, [TOOK.filter(|_| at < few)]);
        }
    }
}

async fn tooks(world: &World, turn: &Turn) -> Vec<Option<Duration>> {
    let entries = world.store().journal(turn.run, 0, 100).await.unwrap();
    entries.into_iter().map(|entry| entry.took).collect()
}

#[store_test]
async fn an_empty_batch_is_fine(world: World) {
    let batch = Batch { node: world.node("node").await, shard: 0, runs: vec![] };
    assert_eq!(world.store().commit(batch.into()).await.unwrap(), []);
}

#[store_test]
async fn a_stale_epoch_writes_nothing(world: World) {
    let run = world.start("greet").await;
    let stale = run.claimed_by("node").await;
    world.commit(stale.release()).await;
    let live = run.claimed_by("node").await;
    let before = world.snapshot().await;
    for writing in everything(&world, &stale) {
        assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    }
    assert_eq!(world.snapshot().await, before);
    live.completed("live").await;
}

#[store_test]
async fn a_node_that_returns_after_its_lease_changes_nothing(world: World) {
    let late = world.start("greet").await.claimed_by("slow").await;
    world.pass(LEASE * 2).await;
    let live = world.claim_as("quick").await;

    assert_eq!(world.commit(late.complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.commit(live.complete("in time")).await, Committed::Done);
    assert_eq!(world.output(live.run).await, "in time");
}

#[store_test]
async fn a_node_that_was_swept_changes_nothing_even_before_another_claims(world: World) {
    let late = world.start("greet").await.claimed_by("slow").await;
    world.pass(LEASE * 2).await;
    assert_eq!(world.sweep().await.freed, 1);
    let before = world.snapshot().await;
    for writing in everything(&world, &late) {
        assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    }
    assert_eq!(world.snapshot().await, before);
    assert_eq!(world.claim_as("quick").await.run, late.run);
}

#[store_test]
async fn a_node_that_was_swept_and_joins_once_more_has_nothing_from_before(world: World) {
    let card = outlast_testkit::card("slow", &["greet@1"]);
    world.store().join(&card).await.unwrap();
    let run = world.start("greet").await;
    let ask = Claim { node: card.id, ..world.ask("helper", run.id.shard()).await };
    let late = Turn::new(&world, card.id, world.claim(&ask).await.runs.remove(0));
    world.pass(LEASE * 2).await;
    world.sweep().await;
    // It never heard of it, and repeats its join as after a lost reply.
    world.store().join(&card).await.unwrap();
    let before = world.snapshot().await;
    assert_eq!(world.commit(late.complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.snapshot().await, before);
    assert_eq!(world.claim_as("quick").await.run, run.id);
    assert_eq!(world.commit(late.complete("late")).await, Committed::LeaseLost);
}

#[store_test]
async fn a_run_that_was_let_go_by_a_renewal_is_lost_to_its_old_turn(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    let mut renewal = world.renewal("node").await;
    renewal.settled = world.number();
    assert_eq!(world.renew(&renewal).await.freed, 1);
    let before = world.snapshot().await;
    for writing in everything(&world, &turn) {
        assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    }
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn without_its_row_a_nodes_whole_batch_is_refused(world: World) {
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(world.start("greet").shard(0).held_by("gone").await);
    }
    world.leave("gone").await;
    let before = world.snapshot().await;
    let batch = vec![turns[0].records(1, "one"), turns[1].complete("done"), turns[2].suspend()];
    assert_eq!(world.commit_all(batch).await, [Committed::LeaseLost; 3]);
    let only_records = turns.iter().map(|turn| turn.records(1, "one")).collect();
    assert_eq!(world.commit_all(only_records).await, [Committed::LeaseLost; 3]);
    assert_eq!(world.snapshot().await, before);
    assert_eq!(world.claims_as("node", 10).await.len(), 3);
}

#[store_test]
async fn one_refused_run_does_not_fail_its_batch(world: World) {
    let fine = world.start("greet").shard(0).held_by("node").await;
    let stale = world.start("greet").shard(0).held_by("node").await.of_epoch(7);
    let others = world.start("greet").shard(0).held_by("other").await.of_node(fine.node);
    let also = world.start("greet").shard(0).held_by("node").await;
    let nobody = world.start("greet").shard(0).asked();
    let mut unknown = fine.records(1, "one");
    unknown.commit.run = nobody.id;

    let lost = Committed::LeaseLost;
    let batch =
        vec![fine.records(1, "one"), stale.records(1, "one"), others.records(1, "one"), unknown.clone()];
    assert_eq!(world.commit_all(batch).await, [Committed::Done, lost, lost, lost]);
    let batch =
        vec![stale.complete("no"), also.complete("yes"), others.complete("no"), unknown, fine.suspend()];
    assert_eq!(world.commit_all(batch).await, [lost, Committed::Done, lost, lost, Committed::Done]);

    assert_eq!(world.journal(fine.run).await, ["one"]);
    assert_eq!(world.journal(stale.run).await, [""; 0]);
    assert_eq!(world.status(others.run).await, Status::Running);
    assert_eq!(world.output(also.run).await, "yes");
}

#[store_test]
async fn consumed_news_leave_the_inbox_and_others_stay(world: World) {
    let run = world.start("greet").await;
    for body in ["one", "two", "three"] {
        world.send(run.id, "approval", body).await;
    }
    let turn = run.claimed_by("node").await;
    assert_eq!(world.commit(turn.records(1, "approval").consumes(&[2])).await, Committed::Done);
    assert_eq!(world.inbox(run.id).await, ["one", "three"]);
    assert_eq!(world.commit(turn.records(2, "approval#2").consumes(&[1, 3])).await, Committed::Done);
    assert_eq!(world.inbox(run.id).await, [""; 0]);
}

#[store_test]
async fn a_journal_that_starts_over_forgets_what_was_before(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.records(1, "one").entry(2, "two").entry(3, "three")).await;
    assert_eq!(world.commit(turn.records(4, "continue").prunes_below(4)).await, Committed::Done);
    assert_eq!(world.journal(turn.run).await, ["continue"]);
    assert_eq!(world.commit(turn.records(5, "one").complete("over")).await, Committed::Done);
    assert_eq!(world.journal(turn.run).await, ["continue", "one"]);
}

#[store_test]
async fn what_a_run_does_logs_and_is_tagged_with_is_there_to_see(world: World) {
    let turn = world.start("greet").tag("city", "Bern").held_by("node").await;
    let before = world.now().await;
    let told = turn
        .writes()
        .doing("charge", 1, None)
        .doing("pack", 2, Some("half"))
        .logs(1, "begun")
        .logs_in(Some("pack#2"), 2, "on");
    assert_eq!(world.commit(told.tag("stage", "paid").tag("city", "Basel")).await, Committed::Done);

    let view = world.view(turn.run).await;
    let doing: Vec<_> =
        view.doing.iter().map(|doing| (&*doing.name, doing.attempt, doing.saved.clone())).collect();
    assert_eq!(doing, [("charge", 1, None), ("pack", 2, Some(payload("half")))]);
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(view.tags, [tag("city", "Basel"), tag("stage", "paid")], "a tag has one value");
    let filter = Filter { tags: vec![tag("city", "Bern")], ..Filter::default() };
    assert_eq!(world.store().list(&filter, None, 10).await.unwrap().runs, []);

    let lines = world.store().logs(turn.run, LogPlace::default(), 10).await.unwrap();
    assert!(lines.iter().all(|line| line.at >= before));
    let line = |n, message: &str, step: Option<&str>, at| LogLine {
        epoch: turn.epoch,
        n,
        at,
        level: "info".into(),
        message: message.into(),
        step: step.map(str::to_owned),
    };
    assert_eq!(lines, [line(1, "begun", None, lines[0].at), line(2, "on", Some("pack#2"), lines[1].at)]);
    assert_eq!(world.store().logs(turn.run, LogPlace::default(), 1).await.unwrap().len(), 1);

    world.commit(turn.writes().doing("charge", 2, Some("most"))).await;
    let loaded = world.store().load(&[turn.run]).await.unwrap().remove(0);
    assert_eq!(loaded.doing.len(), 2);
    assert_eq!(loaded.doing[0].saved, Some(payload("most")));
    world.commit(turn.suspend()).await;
    assert_eq!(world.view(turn.run).await.doing, [], "what no turn works on is not being done");
}

#[store_test]
async fn what_a_step_saved_survives_the_death_of_its_node(world: World) {
    let turn = world.start("greet").held_by("gone").await;
    world.commit(turn.writes().doing("charge", 3, Some("half"))).await;
    world.pass(LEASE * 2).await;
    let turn = world.claim_as("node").await;
    let loaded = world.store().load(&[turn.run]).await.unwrap().remove(0);
    assert_eq!((loaded.doing[0].attempt, loaded.doing[0].saved.clone()), (3, Some(payload("half"))));
}

/// One writing of every kind.
fn everything(world: &World, turn: &Turn) -> Vec<Writing> {
    let target = outlast_testkit::key("ship", "nobody");
    let to = outlast_testkit::event(target, "approval", "yes");
    vec![
        turn.records(1, "one"),
        turn.writes().doing("one", 1, None).logs(1, "on").tag("city", "Bern").consumes(&[1]),
        turn.records(1, "one").prunes_below(1),
        turn.records(1, "ship").starts(world.start("ship").shard(turn.run.shard())),
        turn.suspend(),
        turn.suspend_until(Timestamp::from_micros(1)),
        turn.retry(LEASE, 2),
        turn.release(),
        turn.block("does not fit"),
        turn.complete("late"),
        turn.records(1, "one").complete("late"),
        turn.complete("late")
            .sends(outlast_store::Delivery { to: outlast_store::Address::Run(turn.run), ..to }),
    ]
}

#[store_test]
async fn somebody_who_never_joined_writes_nothing(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let stranger = turn.clone().of_node(NodeId::new(42));
    for writing in everything(&world, &stranger) {
        assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    }
    turn.completed("mine").await;
}
