//! Recording and moving runs.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::{NodeId, RunId, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

stories! {
    async fn entries_are_recorded_once(world: World) {
        let run = world.running().await;
        let commit = records(&run, &[entry(1, "charge"), entry(2, "ship")]);
        assert_eq!(world.commit(commit.clone()).await, Committed::Done);
        assert_eq!(world.commit(commit).await, Committed::Done);
        assert_eq!(world.commit(records(&run, &[entry(3, "mail")])).await, Committed::Done);
        assert_eq!(world.journal(run.id).await, ["charge", "ship", "mail"]);

        let loaded = world.store.load(&[run.id]).await.unwrap().remove(0);
        assert_eq!(loaded.entries[0].body, entry(1, "charge").body);
        assert_eq!((loaded.entries[0].at, loaded.more), (world.now(), false));
    }

    async fn a_node_that_returns_after_its_lease_changes_nothing(world: World) {
        let late = world.running().await;
        world.pass(LEASE * 2);
        let quick = world.join(2).await;
        world.sweep().await;
        let live = world
            .store
            .claim(&Claim { node: quick, ..world.ask(late.id.shard()) })
            .await
            .unwrap()
            .runs
            .remove(0);
        assert_eq!((live.epoch, live.crashes), (3, 1), "the takeover and the claim each raise it");

        let everything = RunCommit {
            consumed: vec![1],
            starts: vec![world.greet()],
            sends: vec![event(Address::Run(late.id), "e")],
            tags: vec![("a".into(), "b".into())],
            logs: vec![LogLine { epoch: 0, n: 1, at: world.now(), level: "info".into(), message: "m".into(), step: None }],
            doing: vec![Doing { name: "d".into(), attempt: 1, ..Doing::default() }],
            prunes: Some(0..9),
            ..records(&late, &[entry(1, "late")])
        };
        let nexts = [
            None,
            Some(completed("late")),
            Some(Next::Release),
            Some(Next::Suspend { wake_at: None, seen: 0 }),
        ];
        for next in nexts {
            assert_eq!(world.commit(RunCommit { next, ..everything.clone() }).await, Committed::LeaseLost);
        }
        assert_eq!(world.commit(records(&late, &[entry(1, "late")])).await, Committed::LeaseLost);
        let view = world.view(late.id).await;
        assert_eq!((view.status, view.node, view.epoch), (Status::Running, Some(quick), 3));
        assert!(view.tags.is_empty() && view.doing.is_empty());
        assert!(world.journal(late.id).await.is_empty() && world.inbox(late.id).await.is_empty());
        assert!(world.store.logs(late.id, LogPlace::default(), 9).await.unwrap().is_empty());
        assert!(world.claim_all().await.is_empty());
    }

    async fn one_refused_run_does_not_fail_its_batch(world: World) {
        let shard = 0;
        for n in 1..=3 {
            world.start(&NewRun { id: RunId::new(shard, world.now(), n), ..world.greet() }).await;
        }
        let runs = world.store.claim(&world.ask(shard)).await.unwrap().runs;
        let stale = RunCommit { epoch: 9, ..ends(&runs[1], completed("stale")) };
        let batch = Batch {
            node: world.node,
            shard,
            runs: vec![records(&runs[0], &[entry(1, "a")]), stale, ends(&runs[2], completed("ok"))],
        };
        let batch = Arc::new(batch);
        let expected = [Committed::Done, Committed::LeaseLost, Committed::Done];
        assert_eq!(world.store.commit(Arc::clone(&batch)).await.unwrap(), expected);
        assert_eq!(world.store.commit(batch).await.unwrap(), expected);
        assert_eq!(world.view(runs[1].id).await.status, Status::Running);
        assert_eq!(world.view(runs[2].id).await.status, Status::Completed);
    }

    async fn a_finished_run_leaves_the_line_and_keeps_its_result(world: World) {
        let run = world.running().await;
        world.deliver(event(Address::Run(run.id), "unread")).await;
        let commit = RunCommit { entries: vec![entry(1, "a")], ..ends(&run, completed("[1]")) };
        assert_eq!(world.commit(commit.clone()).await, Committed::Done);
        assert_eq!(world.commit(commit).await, Committed::Done);

        let view = world.view(run.id).await;
        assert_eq!((view.status, view.finished_at, view.epoch), (Status::Completed, Some(world.now()), 1));
        let ended = world.store.ended(&[run.id]).await.unwrap();
        assert_eq!(ended[0].1.output, Some(json("[1]")));
        assert_eq!(world.journal(run.id).await, ["a"]);
        assert!(world.inbox(run.id).await.is_empty() && world.claim_all().await.is_empty());
        assert_eq!(
            world.commit(RunCommit { epoch: 2, ..ends(&run, completed("2")) }).await,
            Committed::LeaseLost
        );
    }

    async fn a_suspended_run_wakes_at_its_timer(world: World) {
        let run = world.running().await;
        let wake_at = Some(world.now() + Duration::from_secs(60));
        let suspend = ends(&run, Next::Suspend { wake_at, seen: 0 });
        assert_eq!(world.commit(suspend.clone()).await, Committed::Done);
        assert_eq!(world.commit(suspend).await, Committed::Done);
        let view = world.view(run.id).await;
        assert_eq!((view.status, view.due_at, view.node), (Status::Waiting, wake_at, None));
        world.pass(Duration::from_secs(59));
        assert!(world.claim_all().await.is_empty());
        world.pass(Duration::from_secs(1));
        assert_eq!(world.claim_of(run.id).await.epoch, 2);
    }

    async fn a_suspended_run_wakes_when_its_time_is_up(world: World) {
        let timeout = Some(Duration::from_secs(5));
        let id = world.start(&NewRun { timeout, ..world.greet() }).await;
        let run = world.claim_of(id).await;
        let wake_at = Some(world.now() + LEASE);
        world.commit(ends(&run, Next::Suspend { wake_at, seen: 0 })).await;
        assert_eq!(world.view(id).await.due_at, run.expires_at);
    }

    async fn news_that_a_suspension_has_not_seen_keep_the_run_awake(world: World) {
        let run = world.running().await;
        world.deliver(event(Address::Run(run.id), "e")).await;
        world.suspend(&run).await;
        assert_eq!(world.view(run.id).await.status, Status::Ready);

        let run = world.claim_of(run.id).await;
        assert_eq!((run.news, run.inbox.len()), (1, 1));
        let consumed = RunCommit { entries: vec![entry(1, "e")], consumed: vec![1], ..quiet(&run) };
        assert_eq!(world.commit(consumed).await, Committed::Done);
        assert!(world.inbox(run.id).await.is_empty());
        world.suspend(&run).await;
        assert_eq!(world.view(run.id).await.status, Status::Waiting);
    }

    async fn retry_release_and_block_say_when_and_why(world: World) {
        let run = world.running().await;
        let retry = ends(&run, Next::Retry { after: Duration::from_secs(2), attempt: 2 });
        assert_eq!(world.commit(retry.clone()).await, Committed::Done);
        assert_eq!(world.commit(retry).await, Committed::Done);
        assert_eq!(world.view(run.id).await.attempt, 2);
        assert!(world.claim_all().await.is_empty());
        world.pass(Duration::from_secs(2));
        let run = world.claim_of(run.id).await;
        assert_eq!(run.attempt, 2);

        let release = ends(&run, Next::Release);
        assert_eq!(world.commit(release.clone()).await, Committed::Done);
        assert_eq!(world.commit(release).await, Committed::Done);
        let run = world.claim_of(run.id).await;
        assert_eq!((run.attempt, run.epoch), (2, 3));

        let block = ends(&run, Next::Block { reason: "another journal".into() });
        assert_eq!(world.commit(block.clone()).await, Committed::Done);
        assert_eq!(world.commit(block).await, Committed::Done);
        let view = world.view(run.id).await;
        assert_eq!((view.status, view.reason.as_deref()), (Status::Blocked, Some("another journal")));
        assert!(world.claim_all().await.is_empty());
    }

    async fn effects_of_a_repeated_commit_happen_once_and_its_move_still_does(world: World) {
        let other = world.running().await;
        world.suspend(&other).await;
        let run = world.running().await;
        let child = NewRun { parent: Some(Parent { run: run.id, op: Some("c".into()) }), ..world.greet() };
        let effects = RunCommit {
            starts: vec![child.clone()],
            sends: vec![
                event(Address::Run(other.id), "hello"),
                event(Address::Run(child.id), "to the child"),
            ],
            ..records(&run, &[entry(1, "c"), entry(2, "hello")])
        };
        assert_eq!(world.commit(effects.clone()).await, Committed::Done);
        let next = Some(Next::Suspend { wake_at: None, seen: 0 });
        let moves = RunCommit { next, ..effects };
        assert_eq!(world.commit(moves.clone()).await, Committed::Done);
        assert_eq!(world.commit(moves).await, Committed::Done);

        assert_eq!(world.inbox(other.id).await, ["1:hello"]);
        assert_eq!(world.inbox(child.id).await, ["1:to the child"]);
        assert_eq!(world.view(run.id).await.status, Status::Waiting);
        assert_eq!(world.view(other.id).await.status, Status::Ready);
        assert_eq!(world.claim_of(child.id).await.inbox.len(), 1);
    }

    async fn a_run_that_sends_to_itself_or_within_its_batch_does_not_sleep(world: World) {
        for n in 1..=2 {
            world.start(&NewRun { id: RunId::new(0, world.now(), n), ..world.greet() }).await;
        }
        let runs = world.store.claim(&world.ask(0)).await.unwrap().runs;
        let next = || Some(Next::Suspend { wake_at: None, seen: 0 });
        let sends = vec![event(Address::Run(runs[0].id), "self"), event(Address::Run(runs[1].id), "other")];
        let first = RunCommit { sends, next: next(), ..records(&runs[0], &[entry(1, "s")]) };
        let second = RunCommit { next: next(), ..quiet(&runs[1]) };
        let batch = Batch { node: world.node, shard: 0, runs: vec![first, second] };
        assert_eq!(world.store.commit(Arc::new(batch)).await.unwrap(), [Committed::Done; 2]);
        for run in &runs {
            let again = world.view(run.id).await;
            assert_eq!((again.status, again.due_at), (Status::Ready, Some(world.now())));
        }
    }

    async fn sends_and_children_with_keys_meet(world: World) {
        let run = world.running().await;
        let child = world.keyed("k");
        let commit = RunCommit {
            sends: vec![event(by_key("k"), "one"), event(by_key("not yet"), "two")],
            starts: vec![child.clone()],
            ..records(&run, &[entry(1, "a")])
        };
        assert_eq!(world.commit(commit.clone()).await, Committed::Done);
        assert_eq!(world.commit(commit).await, Committed::Done);
        let id = world.store.find(&by_key("k")).await.unwrap().unwrap();
        let claimed = world.claim_of(id).await;
        assert_eq!((claimed.news, claimed.inbox.len()), (1, 1));

        let mine = NewRun { input: json("9"), ..world.keyed("k") };
        let again =
            RunCommit { starts: vec![mine, world.keyed("not yet")], ..records(&run, &[entry(2, "b")]) };
        assert_eq!(world.commit(again).await, Committed::Done);
        assert_eq!(world.store.find(&by_key("k")).await.unwrap(), Some(id));
        let id = world.store.find(&by_key("not yet")).await.unwrap().unwrap();
        assert_eq!(world.claim_of(id).await.inbox[0].name, "two");
    }

    async fn what_is_sent_to_nobody_is_dropped_and_the_rest_goes_on(world: World) {
        let ended = world.running().await;
        world.commit(ends(&ended, completed("1"))).await;
        let run = world.running().await;
        let sends =
            vec![event(Address::Run(ended.id), "late"), event(Address::Run(world.greet().id), "lost")];
        let commit = RunCommit { sends, ..ends(&run, completed("1")) };
        assert_eq!(world.commit(commit).await, Committed::Done);
        assert!(world.inbox(ended.id).await.is_empty());
    }

    async fn what_a_run_does_says_and_is_called_is_there_to_see(world: World) {
        let run = world.running().await;
        let line = |n: u32| LogLine {
            epoch: run.epoch,
            n,
            at: world.now(),
            level: "info".into(),
            message: format!("line {n}"),
            step: n.is_multiple_of(2).then(|| "charge".to_owned()),
        };
        let doing = |attempt| {
            let (percent, message) = (Some(50), Some("half of it".into()));
            Doing { name: "charge".into(), attempt, saved: Some(json("7")), percent, message, since: world.now() }
        };
        let commit = RunCommit {
            doing: vec![doing(1), doing(2)],
            logs: vec![line(1), line(2), line(1_001)],
            tags: vec![("city".into(), "Ulm".into()), ("city".into(), "Bonn".into())],
            ..quiet(&run)
        };
        assert_eq!(world.commit(commit.clone()).await, Committed::Done);
        assert_eq!(world.commit(commit).await, Committed::Done);
        let view = world.view(run.id).await;
        assert_eq!(view.doing, [doing(2)]);
        assert_eq!(view.tags, [("city".to_owned(), "Bonn".to_owned())]);
        assert_eq!(world.store.logs(run.id, LogPlace::default(), 9).await.unwrap(), [line(1), line(2)]);
        let nul = LogLine { message: "a\0b".into(), ..line(3) };
        assert_eq!(world.commit(RunCommit { logs: vec![nul], ..quiet(&run) }).await, Committed::Done);
        assert_eq!(world.store.logs(run.id, LogPlace::default(), 9).await.unwrap()[2].message, "a\u{fffd}b");
        assert_eq!(world.store.load(&[run.id]).await.unwrap()[0].doing, [doing(2)]);

        world.suspend(&run).await;
        assert!(world.view(run.id).await.doing.is_empty());
    }

    async fn a_journal_that_starts_over_forgets_what_was_before(world: World) {
        let run = world.running().await;
        world.commit(records(&run, &[entry(1, "a"), entry(2, "b")])).await;
        let over = RunCommit {
            prunes: Some(0..4),
            starts: vec![world.greet()],
            ..records(&run, &[entry(3, "c"), entry(4, "continue")])
        };
        assert_eq!(world.commit(over.clone()).await, Committed::Done);
        assert_eq!(world.commit(over).await, Committed::Done);
        assert_eq!(world.journal(run.id).await, ["continue"]);
    }

    async fn an_entry_in_a_users_transaction_is_fenced(world: World) {
        let run = world.running().await;
        let mut tx = world.store.begin().await.unwrap();
        let done = tx.record(world.node, run.id, run.epoch, &entry(1, "pay")).await.unwrap();
        assert_eq!(done, Committed::Done);
        tx.rollback().await.unwrap();
        assert!(world.journal(run.id).await.is_empty());

        // Whoever tries again after a lost reply must not commit its rows a second time.
        for answer in [Committed::Done, Committed::LeaseLost] {
            let mut tx = world.store.begin().await.unwrap();
            let recorded = tx.record(world.node, run.id, run.epoch, &entry(1, "pay")).await.unwrap();
            assert_eq!(recorded, answer);
            tx.commit().await.unwrap();
        }
        assert_eq!(world.journal(run.id).await, ["pay"]);

        let mut tx = world.store.begin().await.unwrap();
        let stale = tx.record(world.node, run.id, run.epoch + 1, &entry(2, "pay")).await.unwrap();
        let stranger = tx.record(NodeId::new(9), run.id, run.epoch, &entry(2, "pay")).await.unwrap();
        assert_eq!([stale, stranger], [Committed::LeaseLost; 2]);
    }
}
