//! Start: a run is there, once, with everything it was started with.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use outlast_core::{NodeId, Payload, RunId, Status};
use outlast_store::{Committed, Due, Filter, Hold, NewRun, Parent, RunKind, Started};
use outlast_testkit::{World, store_test};

use crate::{DAY, MINUTE, SECOND};

#[store_test]
async fn a_started_run_is_ready_and_has_what_it_was_given(world: World) {
    let parent = world.start("order").await;
    let given = world.start("greet").shard(1).with(|run| {
        run.kind = RunKind::Job;
        run.tenant = "acme".into();
        run.version = 7;
        run.queue = "mail".into();
        run.priority = 9;
        run.input = Payload { codec: Some("cbor".into()), bytes: Bytes::from_static(&[0, 255, 0]) };
        run.owner = Some("ann".into());
        run.roles = vec!["clerk".into(), "admin".into()];
        run.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
        run.parent = Some(Parent { run: parent.id, op: None });
    });
    let given = given.tag("city", "Bern").tag("city", "Basel");
    let asked = given.clone().asked();
    let before = world.now().await;
    let run = given.await;
    let after = world.now().await;

    let view = world.view(run.id).await;
    assert_eq!((view.status, view.epoch, view.attempt, view.node), (Status::Ready, 0, 1, None));
    assert_eq!(view.tags, [("city".into(), "Basel".into()), ("city".into(), "Bern".into())]);
    let record = view.record;
    assert!(before <= record.created_at && record.created_at <= after);
    assert!(before <= view.due_at.unwrap() && view.due_at.unwrap() <= after);
    let started = NewRun {
        id: record.id,
        kind: record.kind,
        tenant: record.tenant,
        definition: record.definition,
        version: record.version,
        key: record.key,
        queue: record.queue,
        group: view.group,
        unique: None,
        priority: record.priority,
        due: Due::Now,
        timeout: view.expires_at.map(|_| DAY),
        input: record.input,
        owner: record.owner,
        roles: record.roles,
        tags: asked.tags.clone(),
        trace: record.trace,
        parent: record.parent,
        stops_with_parent: false,
    };
    assert_eq!(started, asked);
}

#[store_test]
async fn a_thousand_runs_start_at_once(world: World) {
    let runs: Vec<NewRun> = (0..1_000).map(|n| world.start("greet").input(n).asked()).collect();
    let answers = world.store().start(&runs, None).await.unwrap();
    let created = |run: &NewRun| Started::Created { id: run.id, held: false };
    assert_eq!(answers, runs.iter().map(created).collect::<Vec<_>>());

    let claimed: HashSet<RunId> = world.claims_as("node", 2_000).await.iter().map(|turn| turn.run).collect();
    assert_eq!(claimed, runs.iter().map(|run| run.id).collect());
    let loaded = world.store().load(&[runs[7].id, runs[999].id]).await.unwrap();
    assert_eq!(
        loaded.iter().map(|run| run.record.input.json()).collect::<Vec<_>>(),
        [Some("7"), Some("999")]
    );
}

// A key may have to wait for somebody's transaction, and what is big takes its time: whoever shared a
// transaction with these would wait with them. On SQLite there is one writer anyway.
#[store_test(postgres)]
async fn starts_that_may_take_long_hold_up_no_others(world: World) {
    let keyed = || vec![world.start_keyed("order", &format!("o-{}", world.number())).asked()];
    let many = || (0..101).map(|_| world.start("greet").asked()).collect();
    let big = || vec![world.start("greet").input("x".repeat(65 << 10)).asked()];
    let long: [&dyn Fn() -> Vec<NewRun>; 3] = [&keyed, &many, &big];
    for (case, long) in long.into_iter().enumerate() {
        let mut seen = false;
        // Nobody waits for a lock for ever: on a slow machine a look may come too late.
        for _ in 0..3 {
            seen = seen || is_beside_a_small_one(&world, long()).await;
        }
        assert!(seen, "case {case} waits behind a start that is on its way");
    }
}

/// Whether `long` goes to the database while a small start is on its way there.
async fn is_beside_a_small_one(world: &World, long: Vec<NewRun>) -> bool {
    let start = |runs: Vec<NewRun>| {
        let store = Arc::clone(world.store());
        tokio::spawn(async move { store.start(&runs, None).await })
    };
    let waiting = "select count(*) from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock'";
    let mut tx = world.begin().await;
    tx.execute("lock table outlast.runs in share mode", &[]).await.unwrap();
    let small = start(vec![world.start("greet").asked()]);
    while world.count(waiting).await < 1 && !small.is_finished() {}
    let long = start(long);
    let mut waits = 0;
    while waits < 2 && !small.is_finished() {
        waits = world.count(waiting).await;
    }
    let _ = tx.rollback().await;
    let _ = (small.await, long.await);
    waits == 2
}

#[store_test]
async fn nothing_to_start_is_fine(world: World) {
    assert_eq!(world.store().start(&[], None).await.unwrap(), []);
}

#[store_test]
async fn any_bytes_return_exactly_as_they_went_in(world: World) {
    let inputs = [
        &b""[..],
        b"null",
        br#""a\u0000b""#,
        b"12345678901234567890123",
        br#" {"b":1,"a":[1.0,2e3]} "#,
        &[0, 159, 146, 150],
        "'; drop table outlast.runs; --".as_bytes(),
    ];
    for input in inputs {
        for codec in [None, Some("own".to_owned())] {
            let input = Payload { codec, bytes: Bytes::from_static(input) };
            let run = world.start("greet").with(|run| run.input = input.clone()).await;
            assert_eq!(world.view(run.id).await.record.input, input);
        }
    }
}

#[store_test]
async fn names_are_data_whatever_they_look_like(world: World) {
    for name in
        ["'; drop table outlast.runs; --", "100 % \\ _ {now} {p1} $1 ?1", "Grüße 📦", "\"outlast.runs\""]
    {
        let given = world.start(name).queue(name).tenant(name).tag(name, name).with(|run| {
            run.owner = Some(name.into());
            run.roles = vec![name.into()];
        });
        let run = given.key("k").await;
        let view = world.view(run.id).await;
        assert_eq!((&*view.record.definition, &*view.record.queue, &*view.record.tenant), (name, name, name));
        assert_eq!(view.tags, [(name.to_owned(), name.to_owned())]);
        assert_eq!(view.record.roles, [name]);

        let filter = Filter { definition: Some(name.into()), tags: view.tags, ..Filter::default() };
        assert_eq!(world.store().list(&filter, None, 10).await.unwrap().runs.len(), 1);
        let mut ask = world.ask("node", run.id.shard()).await;
        ask.queues = vec![name.into()];
        ask.codes = vec![format!("{name}@1")];
        assert_eq!(world.claim(&ask).await.runs[0].id, run.id);
    }
}

#[store_test]
async fn a_delayed_run_is_not_due_before_its_time(world: World) {
    let before = world.now().await;
    let run = world.start("greet").shard(0).delayed(MINUTE).await;
    let due = world.view(run.id).await.due_at.unwrap();
    assert!(due >= before + MINUTE && due <= world.now().await + MINUTE);

    let claims = world.claim(&world.ask("node", 0).await).await;
    assert_eq!((claims.runs.len(), claims.next_due), (0, Some(due)));
    world.pass(MINUTE - SECOND * 30).await;
    assert_eq!(world.claims_as("node", 1).await.len(), 0);
    world.pass(SECOND * 30).await;
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn a_run_is_due_at_the_very_time_it_was_given(world: World) {
    let at = world.now().await + DAY;
    let run = world.start("greet").due(Due::At(at)).await;
    assert_eq!(world.view(run.id).await.due_at, Some(at));

    let past = world.start("greet").due(Due::At(world.now().await)).await;
    assert_eq!(world.claim_as("node").await.run, past.id);
}

#[store_test]
async fn a_timeout_is_the_time_by_which_it_must_have_ended(world: World) {
    let before = world.now().await;
    let run = world.start("greet").with(|run| run.timeout = Some(DAY)).await;
    let expires = world.claim_as("node").await.claimed.expires_at.unwrap();
    assert!(expires >= before + DAY && expires <= world.now().await + DAY);
    assert_eq!(world.view(run.id).await.expires_at, Some(expires));
}

#[store_test]
async fn a_held_run_runs_at_once_and_nobody_else_gets_it(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let view = world.view(turn.run).await;
    assert_eq!((view.status, view.node, view.epoch), (Status::Running, Some(turn.node), 1));
    assert_eq!(world.claims_as("other", 10).await.len(), 0);

    assert_eq!(world.commit(turn.records(1, "charge").complete("held")).await, Committed::Done);
    assert_eq!(world.output(turn.run).await, "held");
}

#[store_test]
async fn a_hold_by_a_node_that_is_gone_leaves_the_run_ready(world: World) {
    let gone = world.node("gone").await;
    world.leave("gone").await;
    for node in [gone, NodeId::new(42)] {
        let run = world.start("greet");
        let id = run.clone().asked().id;
        let answer = run.answer_held(Some(Hold { node, claim: 1 })).await;
        assert_eq!(answer, Started::Created { id, held: false });
        assert_eq!(world.status(id).await, Status::Ready);
    }
    assert_eq!(world.claims_as("node", 10).await.len(), 2);
}

#[store_test]
async fn only_what_is_due_now_is_held(world: World) {
    let node = world.node("node").await;
    let later = world.start("greet").shard(0).delayed(MINUTE).asked();
    let now = world.start("greet").shard(0).asked();
    let hold = Hold { node, claim: world.number() };
    let answers = world.store().start(&[later.clone(), now.clone()], Some(hold)).await.unwrap();
    let created = |run: &NewRun, held| Started::Created { id: run.id, held };
    assert_eq!(answers, [created(&later, false), created(&now, true)]);
    assert_eq!(world.status(later.id).await, Status::Ready);
}

#[store_test]
async fn a_held_bulk_is_held_in_every_shard(world: World) {
    let node = world.node("node").await;
    let runs: Vec<NewRun> = (0..8).map(|_| world.start("greet").asked()).collect();
    let hold = Hold { node, claim: world.number() };
    let answers = world.store().start(&runs, Some(hold)).await.unwrap();
    let created = |run: &NewRun| Started::Created { id: run.id, held: true };
    assert_eq!(answers, runs.iter().map(created).collect::<Vec<_>>());
    assert_eq!(world.store().nodes().await.unwrap()[0].holds, 8);
}

#[store_test]
async fn a_start_repeated_after_the_end_does_not_revive_the_run(world: World) {
    let plain = world.start("greet").tag("city", "Bern").asked();
    let keyed = world.start_keyed("greet", "ann").tag("city", "Bern").asked();
    for run in [plain, keyed] {
        let first = world.store().start(std::slice::from_ref(&run), None).await.unwrap();
        world.claim_as("node").await.completed("once").await;
        let again = world.store().start(std::slice::from_ref(&run), None).await.unwrap();
        assert_eq!(again, first);
        assert_eq!(world.status(run.id).await, Status::Completed);
        assert_eq!(world.claims_as("node", 10).await.len(), 0);
    }
}

#[store_test]
async fn a_start_repeated_while_it_runs_does_not_disturb_the_turn(world: World) {
    let run = world.start("greet").asked();
    world.store().start(std::slice::from_ref(&run), None).await.unwrap();
    let turn = world.claim_as("node").await;
    world.store().start(std::slice::from_ref(&run), None).await.unwrap();
    assert_eq!(world.status(run.id).await, Status::Running);
    turn.completed("undisturbed").await;
    assert_eq!(world.output(run.id).await, "undisturbed");
}

#[store_test]
async fn an_id_that_exists_starts_nothing_new_in_a_bulk(world: World) {
    let old = world.start("greet").asked();
    world.store().start(std::slice::from_ref(&old), None).await.unwrap();
    let new = world.start("greet").asked();
    world.store().start(&[old.clone(), new.clone(), old.clone()], None).await.unwrap();
    let listed = world.store().list(&Filter::default(), None, 10).await.unwrap().runs;
    assert_eq!(listed.len(), 2);
    assert_eq!(world.claims_as("node", 10).await.len(), 2);
}
