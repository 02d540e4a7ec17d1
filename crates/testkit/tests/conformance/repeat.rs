//! The repeated call after a lost reply.
//!
//! Every call may have happened although it reported an error. So each is told twice with the same
//! arguments: the second changes nothing, and its answer is one that the caller can go on with. A story
//! is called like the call it repeats, and a call without its story fails the first test.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_core::{QueueRules, Rate, Status, Timestamp, shard_of_key};
use outlast_store::{
    Access, Accessed, Address, Batch, Claim, Committed, Control, Controlled, Delivered, Due, Ended, Expect,
    Fire, Fired, Fork, Hears, Hold, Known, KvChange, KvName, KvWrite, KvWritten, Listen, Listened, NewsKind,
    Next, Purge, Purged, QueueClaim, Renew, Repair, ScheduleChange, Started, Store, Sweep,
};
use outlast_testkit::{
    LEASE, Turn, World, Writing, card, event, key, payload, settlement, step, store_test, sweep_of,
};

use crate::access::{note, reply, reserve, token};
use crate::kv::set;
use crate::{DAY, MINUTE};

#[test]
fn every_call_of_the_seam_has_its_story() {
    let seam = include_str!("../../../store/src/seam.rs");
    let (_, store) = seam.split_once("pub trait Store").expect("the trait is there");
    let (store, _) = store.split_once("\n}").expect("it has an end");
    let names = |text: &'static str, before: &str| -> BTreeSet<&str> {
        text.split(before).skip(1).filter_map(|rest| rest.split(['(', '<']).next()).collect()
    };
    let calls = names(store, "async fn ");
    assert!(calls.len() >= 11, "{calls:?}");
    let stories = names(include_str!("repeat.rs"), "#[store_test]\nasync fn ");
    let missing: Vec<_> = calls.difference(&stories).collect();
    assert!(missing.is_empty(), "tell what it means to repeat {missing:?}");
}

/// Calls twice. What the first one did is all that is done.
async fn twice<T>(world: &World, call: impl AsyncFn() -> T) -> (T, T) {
    let before = world.snapshot().await;
    let first = call().await;
    let once = world.snapshot().await;
    let second = call().await;
    assert_eq!(world.snapshot().await, once);
    assert_ne!(before, once, "a call that does nothing proves nothing");
    (first, second)
}

#[store_test]
async fn join(world: World) {
    let run = world.start("greet").await;
    world.commit(run.claimed_by("old").await.block("does not fit")).await;
    world.join("older", &["greet@2"]).await;
    let card = card("node", &["greet@1", "order@1"]);
    twice(&world, async || world.store().join(&card).await.unwrap()).await;
    assert_eq!(world.store().nodes().await.unwrap().len(), 3);
    assert_eq!(world.status(run.id).await, Status::Ready);
}

#[store_test]
async fn leave(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let (first, second) = twice(&world, async || world.store().leave(turn.node).await).await;
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(world.claim_as("other").await.claimed.crashes, 0);
}

#[store_test]
async fn start(world: World) {
    world.deliver(&event(key("order", "told before"), "approval", "kept")).await;
    let runs = [
        world.start("greet").tag("city", "Bern").asked(),
        world.start("greet").delayed(DAY).asked(),
        world.start_keyed("order", "o-1").tag("city", "Bern").asked(),
        world.start_keyed("order", "told before").asked(),
        world.start_keyed("order", "o-1").input("another").asked(),
    ];
    let hold = Hold { node: world.node("node").await, claim: world.number() };
    let (first, second) = twice(&world, async || world.store().start(&runs, Some(hold)).await.unwrap()).await;
    let created = |n: usize, held| Started::Created { id: runs[n].id, held };
    assert_eq!(first[..3], [created(0, true), created(1, false), created(2, true)]);
    assert_eq!(second[..3], first[..3]);
    let Started::Created { id: adopted, held: false } = first[3] else { panic!("{:?}", first[3]) };
    assert_eq!(second[3], Started::Existing { id: adopted }, "its id was another's before");
    assert_eq!((&first[4], &second[4]), (&Started::Conflict { id: runs[2].id }, &first[4]));
}

#[store_test]
async fn claim(world: World) {
    for _ in 0..3 {
        let run = world.start("greet").shard(0).await;
        world.send(run.id, "approval", "yes").await;
    }
    let ask = Claim { limit: 2, ..world.ask("node", 0).await };
    let (first, second) = twice(&world, async || world.claim(&ask).await.runs).await;
    let told = |runs: &[outlast_store::Claimed]| {
        runs.iter().map(|run| (run.id, run.epoch, run.inbox.clone())).collect::<Vec<_>>()
    };
    let (mut first, mut second) = (told(&first), told(&second));
    first.sort_by_key(|(run, ..)| *run);
    second.sort_by_key(|(run, ..)| *run);
    assert_eq!((first.len(), &first), (2, &second));
}

#[store_test]
async fn claim_queue(world: World) {
    let rate = Some(Rate::new(5, MINUTE));
    let rules = QueueRules { per_group: Some(2), rate, rate_per_group: rate, ..QueueRules::default() };
    world.rules("main", rules).await;
    for group in ["a", "a", "a", "b"] {
        let run = world.start("greet").group(group).await;
        world.send(run.id, "approval", "yes").await;
    }
    let Claim { node, number, codes, .. } = world.ask("node", 0).await;
    let ask = QueueClaim { node, number, queue: "main".into(), codes, limit: 10 };
    let (first, second) = twice(&world, async || world.store().claim_queue(&ask).await.unwrap().runs).await;
    let told = |runs: Vec<outlast_store::Claimed>| {
        let mut runs: Vec<_> = runs.into_iter().map(|run| (run.id, run.epoch, run.inbox)).collect();
        runs.sort_by_key(|(run, ..)| *run);
        runs
    };
    let (first, second) = (told(first), told(second));
    assert_eq!((first.len(), &first), (3, &second));
}

#[store_test]
async fn fire(world: World) {
    let now = world.now().await;
    let later = Some(now + DAY);
    let card = crate::schedules::card("0 0 * * *", Some(now));
    world.change_schedule("nightly", ScheduleChange::Put(card)).await;
    let runs = vec![world.start_keyed("greet", "nightly-1").asked()];
    let ask = Fire {
        name: "nightly".into(),
        at: now,
        waited: vec![],
        waiting: vec![],
        last_at: Some(now),
        next_at: later,
        due_at: later,
        stops: None,
        runs,
        skipped: 1,
    };
    let (first, second) = twice(&world, async || world.store().fire(&ask).await.unwrap()).await;
    assert!(matches!(first, Fired::Done(started) if matches!(started[..], [Started::Created { .. }])));
    assert_eq!(second, Fired::Lost, "whoever repeats it finds that it happened");
}

/// One of every way in which a turn can write.
fn writings(world: &World, turn: &Turn, target: Address) -> Vec<Writing> {
    let child = world.start("ship").shard(1).child_of(turn.run, "ship").tag("city", "Bern");
    let keyed = world.start_keyed("ship", "parcel-1").child_of(turn.run, "ship#2");
    let all = turn.records(1, "one").entry(2, "two").consumes(&[1]).starts(child).starts(keyed);
    let all = all.sends(event(target.clone(), "a", "b")).sends(settlement(target.clone(), "paid", "yes"));
    let all = all.sends(event(key("order", "nobody yet"), "a", "b"));
    let seen =
        turn.writes().doing("three", 1, Some("half")).logs(1, "on").logs(2, "and on").tag("stage", "paid");
    let ended = |status| Next::Finish(Ended { status, output: None, error: Some("\"why\"".into()) });
    let later = Timestamp::from_micros(i64::MAX);
    vec![
        turn.records(1, "one").entry(2, "two"),
        turn.records(1, "one").entry(2, "two").prunes_below(2),
        all.clone(),
        seen,
        all.clone().suspend(9),
        all.clone().next(Next::Suspend { wake_at: Some(later), seen: 0 }),
        turn.suspend(),
        all.clone().next(Next::Retry { after: MINUTE, attempt: 2 }),
        turn.retry(MINUTE, 2),
        turn.release(),
        all.clone().next(Next::Block { reason: "does not fit".into() }),
        turn.block("does not fit"),
        all.clone().complete("done"),
        all.next(ended(Status::Failed)),
        turn.complete("done").sends(event(target, "a", "b")),
        turn.writes().next(ended(Status::Cancelled)),
    ]
}

#[store_test]
async fn commit(world: World) {
    let nobody = Address::Run(world.start("greet").asked().id);
    let turn = world.start("greet").held_by("node").await;
    let kinds = writings(&world, &turn, nobody).len();
    for kind in 0..kinds {
        let target = world.start("ship").shard(2).await;
        target.claimed_by("other").await.suspended().await;
        let run = world.start("greet").shard(0).await;
        world.send(run.id, "approval", "yes").await;
        world.listen(run.id, target.id, "greet").await;
        let turn = run.claimed_by("node").await;
        let writing = writings(&world, &turn, Address::Run(target.id)).remove(kind);
        let batch = Arc::new(Batch { node: turn.node, shard: 0, runs: vec![writing.commit.clone()] });
        let (first, second) =
            twice(&world, async || world.store().commit(Arc::clone(&batch)).await.unwrap()).await;
        assert_eq!((first, second), (vec![Committed::Done], vec![Committed::Done]), "{writing:?}");

        // Out of the way of the next. An end may wake one that listens.
        loop {
            let turns = world.claims_as("other", 100).await;
            if turns.is_empty() {
                break;
            }
            for turn in turns {
                turn.completed("done").await;
            }
        }
    }
}

#[store_test]
async fn renew(world: World) {
    let known = world.start("greet").held_by("node").await;
    let told = world.start("greet").held_by("node").await;
    world.send(told.run, "approval", "yes").await;
    world.start("greet").held_by("node").await;
    let of = |turn: &Turn| Known { run: turn.run, epoch: turn.epoch, seen: 0 };
    let lost = Known { epoch: 7, ..of(&known) };
    let ask = Renew { settled: world.number(), known: vec![lost, of(&told)], ..world.renewal("node").await };
    let (first, second) = twice(&world, async || world.renew(&ask).await).await;
    assert_eq!((first.freed, second.freed), (1, 0), "the second finds nothing left to free");
    assert_eq!((first.alive, &first.lost, &first.news), (second.alive, &second.lost, &second.news));
    assert_eq!((first.lost, first.news), (vec![known.run], vec![told.run]));
}

#[store_test]
async fn deliver(world: World) {
    let waiting = world.start("greet").await;
    waiting.claimed_by("node").await.suspended().await;
    let to = Address::Run(waiting.id);
    let messages = [
        event(to.clone(), "approval", "yes"),
        settlement(to, "paid", "yes"),
        event(key("order", "nobody yet"), "approval", "kept"),
        settlement(key("order", "nobody yet"), "paid", "kept"),
    ];
    let (first, second) = twice(&world, async || world.deliver_all(&messages).await).await;
    assert!(first.iter().all(|answer| matches!(answer, Delivered::Done { .. })), "{first:?}");
    assert_eq!(first, second);

    // And after the run has read them, and after it has ended.
    let turn = waiting.claimed_by("node").await;
    world.commit(turn.records(1, "approval").consumes(&[1, 2])).await;
    assert_eq!(world.deliver_all(&messages).await, first);
    assert_eq!(world.inbox(waiting.id).await, [""; 0]);
    turn.completed("done").await;
    assert_eq!(world.deliver_all(&messages).await, first);
}

#[store_test]
async fn wake(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    turn.suspended().await;
    let message = event(Address::Run(run.id), "approval", "yes");
    let hold = Hold { node: turn.node, claim: world.number() };
    let epoch = turn.claimed.epoch;
    let (first, second) =
        twice(&world, async || world.store().wake(&message, hold, epoch).await.unwrap()).await;
    assert!(first.1.is_some());
    assert_eq!(first, second);
}

#[store_test]
async fn listen(world: World) {
    let listener = world.start("order").shard(0).held_by("node").await;
    listener.suspended().await;
    let run = world.start("ship").shard(1).held_by("node").await;
    let ask = Listen { run: run.run, listener: listener.run, name: "ship".into() };
    let (first, second) = twice(&world, async || world.store().listen(&ask).await.unwrap()).await;
    assert_eq!((first, second), (Listened::Noted, Listened::Noted));

    // The first came before the end, the second after it.
    run.completed("parcel").await;
    let before = world.snapshot().await;
    assert_eq!(world.store().listen(&ask).await.unwrap(), Listened::Ended);
    assert_eq!(world.snapshot().await, before);

    // Both came after it.
    let ask = Listen { name: "ship#2".into(), ..ask };
    let (first, second) = twice(&world, async || world.store().listen(&ask).await.unwrap()).await;
    assert_eq!((first, second), (Listened::Ended, Listened::Ended));
    assert_eq!(world.count("select count(*) from outlast.inbox").await, 2);
}

#[store_test]
async fn control(world: World) {
    let ready = world.start("greet").await.id;
    let cancel = |run| Control::Cancel { run: Address::Run(run), reason: "enough".into() };
    let (first, second) = twice(&world, async || world.control(&cancel(ready)).await).await;
    let ended = |by_this| Controlled::Final { run: ready, status: Status::Cancelled, by_this };
    assert_eq!((first, second), (ended(true), ended(false)));

    let running = world.start("greet").held_by("node").await.run;
    let waiting = world.start("greet").held_by("node").await;
    waiting.suspended().await;
    for run in [running, waiting.run] {
        let (first, second) = twice(&world, async || world.control(&cancel(run)).await).await;
        assert_eq!((first, second), (Controlled::Asked { run }, Controlled::Asked { run }));
    }

    let withdraw = |run| Control::Withdraw { run: Address::Run(run), reason: "enough".into() };
    let ready = world.start("greet").await.id;
    let (first, second) = twice(&world, async || world.control(&withdraw(ready)).await).await;
    let ended = |by_this| Controlled::Final { run: ready, status: Status::Cancelled, by_this };
    assert_eq!((first, second), (ended(true), ended(false)));

    let kill = |run| Control::Kill { run: Address::Run(run), reason: "enough".into() };
    let held = world.start("greet").held_by("node").await.run;
    let (first, second) = twice(&world, async || world.control(&kill(held)).await).await;
    let ended = |by_this| Controlled::Final { run: held, status: Status::Cancelled, by_this };
    assert_eq!((first, second), (ended(true), ended(false)));

    let pause = |run| Control::Pause { run: Address::Run(run), reason: "for a look".into() };
    let resume = |run| Control::Resume { run: Address::Run(run) };
    let (ready, held) = (world.start("greet").await.id, world.start("greet").held_by("node").await.run);
    let paused = |run, by_this| Controlled::Paused { run, by_this };
    let resumed = |run, by_this| Controlled::Resumed { run, by_this };
    let (first, second) = twice(&world, async || world.control(&pause(ready)).await).await;
    assert_eq!((first, second), (paused(ready, true), paused(ready, false)));
    let (first, second) = twice(&world, async || world.control(&pause(held)).await).await;
    assert_eq!((first, second), (Controlled::Asked { run: held }, Controlled::Asked { run: held }));
    for run in [ready, held] {
        let (first, second) = twice(&world, async || world.control(&resume(run)).await).await;
        assert_eq!((first, second), (resumed(run, true), resumed(run, false)));
    }

    let seen = world.now().await + MINUTE;
    let due = |run| Control::Due { run: Address::Run(run), seen, at: None };
    let later = world.start("greet").due(Due::At(seen)).await.id;
    let sleeps = world.start("greet").held_by("node").await;
    world.commit(sleeps.suspend_until(seen)).await;
    for run in [later, sleeps.run] {
        let (first, second) = twice(&world, async || world.control(&due(run)).await).await;
        let told = |by_this| Controlled::Due { run, by_this };
        assert_eq!((first, second), (told(true), told(false)));
    }

    world.pass(DAY).await;
    let purge = Control::Purge(Purge::older_than(MINUTE, 10));
    let (first, second) = twice(&world, async || world.control(&purge).await).await;
    assert!(matches!(first, Controlled::Purged(Purged { runs: 3, .. })), "{first:?}");
    assert!(matches!(second, Controlled::Purged(Purged { runs: 0, .. })), "{second:?}");

    let failed = world.start("mail").job().held_by("node").await;
    let end = Ended { status: Status::Failed, output: None, error: None };
    world.commit(failed.writes().next(Next::Finish(end.clone()))).await;
    let run = failed.run;
    let retry = Control::Retry {
        run: Address::Run(run),
        epoch: Some(1),
        input: Some(payload("edited")),
        repair: None,
    };
    let (first, second) = twice(&world, async || world.control(&retry).await).await;
    let retried = |by_this| Controlled::Retried { run, by_this };
    assert_eq!((first, second), (retried(true), retried(false)));
    // And after it has ended once more, when the repeat of a call that nobody answered comes late.
    let claimed = world.claims_as("node", 10).await;
    let again = claimed.iter().find(|turn| turn.run == run).unwrap();
    world.commit(again.writes().next(Next::Finish(end))).await;
    let before = world.snapshot().await;
    assert_eq!(world.control(&retry).await, retried(false));
    assert_eq!(world.snapshot().await, before);

    let heard = || Hears { news: vec![(NewsKind::Event, "go".into(), None)], ends: Vec::new() };
    let broken = world.start("greet").held_by("node").await;
    let end = Ended { status: Status::Failed, output: None, error: None };
    world.commit(broken.records(1, "one").next(Next::Finish(end))).await;
    let repair = Some(Repair { entry: step(2, "repair"), void: vec![1], hears: heard() });
    let run = broken.run;
    let retry = Control::Retry { run: Address::Run(run), epoch: Some(1), input: None, repair };
    let (first, second) = twice(&world, async || world.control(&retry).await).await;
    assert_eq!(
        (first, second),
        (Controlled::Retried { run, by_this: true }, Controlled::Retried { run, by_this: false })
    );

    let new = world.start("greet").asked();
    let run = new.id;
    let fork = Control::Fork(Box::new(Fork { run: new, entries: vec![step(1, "one")], hears: heard() }));
    let (first, second) = twice(&world, async || world.control(&fork).await).await;
    assert_eq!((first, second), (Controlled::Forked { run }, Controlled::Forked { run }));
}

#[store_test]
async fn kv_write(world: World) {
    let shared = set("shared", "one");
    let version = done(world.store().kv_write(&[shared]).await.unwrap()[0]).unwrap();
    let writes = [
        set("plain", "value"),
        KvWrite { expect: Some(Expect::Absent), ..set("made", "value") },
        KvWrite { expect: Some(Expect::Version(version)), ..set("shared", "two") },
        KvWrite { expect: Some(Expect::Version(version)), ..set("shared", "too late") },
        set("deleted", "value"),
        KvWrite { change: KvChange::Delete, ..set("deleted", "") },
        KvWrite { change: KvChange::Delete, ..set("never there", "") },
    ];
    let (first, second) = twice(&world, async || world.store().kv_write(&writes).await.unwrap()).await;
    let is_done = |answer: &KvWritten| matches!(answer, KvWritten::Done { .. });
    assert_eq!(first.iter().filter(|answer| is_done(answer)).count(), 5);
    assert_eq!((first[3], first[6]), (KvWritten::Conflict { current: done(first[2]) }, KvWritten::Absent));
    assert_eq!(first, second);
}

/// The version that a write made.
fn done(answer: KvWritten) -> Option<i64> {
    match answer {
        KvWritten::Done { version } => Some(version),
        _ => None,
    }
}

#[store_test]
async fn sweep(world: World) {
    let turn = world.start("greet").shard(0).held_by("gone").await;
    let unknown = world.start("unheard").shard(0).await;
    let late = world.start("unheard").shard(0).with(|run| run.timeout = Some(LEASE)).await;
    world.deliver(&event(Address::Run(unknown.id), "approval", "yes")).await;
    let brief = KvChange::Set { value: payload("value"), ttl: Some(LEASE) };
    let brief = KvWrite { change: brief, ..set("brief", "") };
    // In shard 0, with any number of shards.
    let space = (0..).map(|n| format!("space {n}"));
    let space = space.into_iter().find(|space| shard_of_key("", space, "", world.shards()) == 0).unwrap();
    let brief = KvWrite { name: KvName { space, ..brief.name.clone() }, ..brief };
    world.store().kv_write(&[brief]).await.unwrap();
    world.pass(LEASE * 2).await;
    world.node("node").await;
    let ask = Sweep { unknown_after: LEASE, forget_after: LEASE, ..sweep_of(0) };
    let (first, second) = twice(&world, async || world.store().sweep(&ask).await.unwrap()).await;
    assert_eq!((first.dead_nodes, first.freed, first.blocked, first.expired), (vec![turn.node], 1, 2, 1));
    assert_eq!((first.forgotten, world.count("select count(*) from outlast.kv").await), (1, 0));
    assert_eq!(second, outlast_store::Swept::default());
    assert_eq!(world.status(late.id).await, Status::Failed);
    assert_eq!(world.claim_as("node").await.claimed.crashes, 1);
}

#[store_test]
async fn single_out(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let single_out = async || world.store().single_out(turn.node, turn.run, turn.epoch).await.unwrap();
    assert_eq!(twice(&world, single_out).await, (true, true));
}

#[store_test]
async fn begin(world: World) {
    let run = world.start("greet").asked();
    let begin = async || {
        let mut tx = world.begin().await;
        tx.start(std::slice::from_ref(&run)).await.unwrap()
    };
    let before = world.snapshot().await;
    begin().await;
    begin().await;
    assert_eq!(world.snapshot().await, before, "whoever has not committed has not begun");
}

#[store_test]
async fn access(world: World) {
    let card = token(1, world.now().await + DAY);
    let (id, holder) = (card.id, reserve(1, "k", "body").holder);
    let (hash, cookie) = (bytes::Bytes::from_static(b"a session"), bytes::Bytes::from_static(b"another"));
    // An extension counts from when it is asked for: one that is repeated says the same a little later (`access.rs`).
    for ask in [
        Access::Key("key".into()),
        Access::Token(card),
        Access::Used { token: id },
        Access::Revoke { token: id },
        Access::Session { hash: hash.clone(), token: id, idle: DAY },
        Access::Seen { hash: hash.clone() },
        Access::Redeem { ticket: hash.clone(), hash: cookie.clone(), within: DAY * 9 },
        Access::Leave { hash: cookie },
        Access::Note(note(1, "acme", "run")),
        Access::Forget { keep: DAY, limit: 10 },
        Access::Reserve(reserve(1, "k", "body")),
        Access::Yield { holder },
        Access::Release { holder },
        Access::Reserve(reserve(1, "k", "body")),
        reply(1, "answer"),
    ] {
        // Some notes are taken once a minute, and some things are forgotten after a day.
        world.pass(DAY * 2).await;
        let (first, second) = twice(&world, async || world.store().access(&ask).await.unwrap()).await;
        let forgotten = matches!(first, Accessed::Forgotten(1)) && second == Accessed::Forgotten(0);
        assert!(first == second || forgotten, "{ask:?}: {first:?}, {second:?}");
    }
}

#[store_test]
async fn roll(world: World) {
    for n in 0..3 {
        let turn = world.start("greet").shard(0).held_by("node").await;
        let status = if n == 0 { Status::Failed } else { Status::Completed };
        let end = Ended { status, output: None, error: None };
        world.commit(turn.writes().next(Next::Finish(end))).await;
    }
    world.pass(MINUTE).await;
    let ask = crate::rollups::ask(0);
    let (first, second) = twice(&world, async || world.store().roll(&ask).await.unwrap()).await;
    assert_eq!((first, second), (3, 0));
}

#[store_test]
async fn measure(world: World) {
    world.start("greet").await;
    let ask = crate::rollups::measure(&world).await;
    let (first, second) = twice(&world, async || world.store().measure(&ask).await.unwrap()).await;
    assert_eq!((first, second), (true, false));
}

#[store_test]
async fn own(world: World) {
    world.store().own().await.unwrap();
    let turn = world.start("greet").held_by("node").await;
    let before = world.snapshot().await;
    world.store().own().await.unwrap();
    assert_eq!(world.snapshot().await, before);
    assert_eq!(world.store().nodes().await.unwrap().len(), 1, "its own nodes keep their leases");
    turn.completed("done").await;
}

#[store_test]
async fn a_commit_that_is_repeated_after_others_went_on_disturbs_nobody(world: World) {
    let target = world.start("ship").await;
    let turn = world.start("greet").held_by("node").await;
    let send = event(Address::Run(target.id), "a", "b");
    let writing = turn.records(1, "one").sends(send).starts(world.start("ship")).next(Next::Release);
    assert_eq!(world.commit(writing.clone()).await, Committed::Done);
    let later = world.claims_as("other", 10).await;
    let before = world.snapshot().await;
    assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    assert_eq!(world.snapshot().await, before);
    assert_eq!(later.len(), 3);
}

#[store_test]
async fn a_leave_or_a_join_that_is_repeated_late_disturbs_nobody(world: World) {
    let turn = world.start("greet").held_by("gone").await;
    world.leave("gone").await;
    let live = world.claim_as("node").await;
    Store::leave(&**world.store(), turn.node).await.unwrap();
    assert_eq!(world.status(live.run).await, Status::Running);

    let known = card("again", &["greet@1"]);
    world.store().join(&known).await.unwrap();
    world.store().join(&known).await.unwrap();
    assert_eq!(world.status(live.run).await, Status::Running);
    live.completed("undisturbed").await;
}
