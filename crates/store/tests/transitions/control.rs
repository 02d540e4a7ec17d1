//! Cancelling and purging.

use std::time::Duration;

use outlast_core::{FailureDoc, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

fn cancel(run: Address) -> Control {
    Control::Cancel { run, reason: "no longer \"needed\"".into() }
}

stories! {
    async fn a_run_that_never_began_ends_at_once(world: World) {
        let parent = world.running().await;
        world.suspend(&parent).await;
        let child =
            NewRun { parent: Some(Parent { run: parent.id, op: Some("ship".into()) }), ..world.greet() };
        let run = world.start(&child).await;
        let ended = |by_this| Controlled::Final { run, status: Status::Cancelled, by_this };
        assert_eq!(world.store.control(&cancel(Address::Run(run))).await.unwrap(), ended(true));
        assert_eq!(world.store.control(&cancel(Address::Run(run))).await.unwrap(), ended(false));

        let end = world.view(run).await.ended.unwrap();
        let failure: FailureDoc = serde_json::from_str(end.error.as_deref().unwrap()).unwrap();
        assert_eq!(failure.message(), "cancelled: no longer \"needed\"");
        // Its parent hears of it, once.
        let news = world.claim_of(parent.id).await.inbox;
        assert_eq!((news.len(), &*news[0].name, news[0].kind), (1, "ship", NewsKind::Child));
        assert_eq!(Ended::from_payload(news[0].body.as_ref().unwrap()).unwrap(), end);
    }

    async fn a_run_that_has_begun_is_asked_once(world: World) {
        let run = world.running().await;
        let asked = Controlled::Asked { run: run.id };
        let mut signals = world.store.signals();
        assert_eq!(world.store.control(&cancel(Address::Run(run.id))).await.unwrap(), asked);
        assert_eq!(world.store.control(&cancel(Address::Run(run.id))).await.unwrap(), asked);
        hears(&mut signals, Signal::News(run.id)).await;
        let view = world.view(run.id).await;
        assert_eq!(
            (view.status, view.cancel_reason.as_deref()),
            (Status::Running, Some("no longer \"needed\""))
        );

        world.suspend(&run).await;
        let news = world.claim_of(run.id).await.inbox;
        assert_eq!((news.len(), news[0].kind), (1, NewsKind::Cancel));
        assert_eq!(news[0].body.as_ref().unwrap().json(), Some(r#""no longer \"needed\"""#));
    }

    async fn a_cancel_wakes_a_run_that_waits_and_a_job_between_attempts(world: World) {
        let (waits, pauses) = (world.running().await, world.running().await);
        world.suspend(&waits).await;
        world.commit(ends(&pauses, Next::Retry { after: LEASE, attempt: 2 })).await;
        for run in [waits.id, pauses.id] {
            world.store.control(&cancel(Address::Run(run))).await.unwrap();
            let view = world.view(run).await;
            assert_eq!((view.status, view.due_at), (Status::Ready, Some(world.now())));
        }
    }

    async fn a_blocked_run_ends_at_once(world: World) {
        let run = world.running().await;
        world.commit(ends(&run, Next::Block { reason: "r".into() })).await;
        world.store.control(&cancel(Address::Run(run.id))).await.unwrap();
        assert_eq!(world.view(run.id).await.status, Status::Cancelled);
        // The late answer of the commit that blocked it is still right.
        assert_eq!(world.commit(ends(&run, Next::Block { reason: "r".into() })).await, Committed::Done);
    }

    async fn nobody_is_unknown_and_the_ended_stay_as_they_are(world: World) {
        let nobody = Address::Run(world.greet().id);
        assert_eq!(world.store.control(&cancel(nobody)).await.unwrap(), Controlled::Unknown);
        world.deliver(event(by_key("reserved"), "e")).await;
        assert_eq!(world.store.control(&cancel(by_key("reserved"))).await.unwrap(), Controlled::Unknown);

        let id = world.start(&world.keyed("k")).await;
        let run = world.claim_of(id).await;
        world.commit(ends(&run, completed("1"))).await;
        let still = Controlled::Final { run: id, status: Status::Completed, by_this: false };
        assert_eq!(world.store.control(&cancel(by_key("k"))).await.unwrap(), still);
    }

    async fn a_purge_removes_ended_runs_with_everything_and_frees_their_keys(world: World) {
        let id = world.start(&world.keyed("k")).await;
        let run = world.claim_of(id).await;
        world.deliver(Delivery { kind: NewsKind::Settled, ..event(Address::Run(id), "p") }).await;
        let commit = RunCommit {
            entries: vec![entry(1, "a")],
            tags: vec![("a".into(), "b".into())],
            logs: vec![LogLine { epoch: 0, n: 1, at: world.now(), level: "info".into(), message: "m".into(), step: None }],
            ..ends(&run, completed("1"))
        };
        world.commit(commit).await;
        world.pass(LEASE);
        let young = world.running().await;
        world.commit(ends(&young, completed("1"))).await;
        let open = world.start(&world.greet()).await;

        let purge = async |limit| {
            let purge = Control::Purge(Purge::older_than(Duration::from_secs(5), limit));
            match world.store.control(&purge).await.unwrap() {
                Controlled::Purged(purged) => purged.runs,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(purge(0).await, 0);
        assert_eq!(purge(10).await, 1);
        assert_eq!(purge(10).await, 0);
        assert_eq!(world.store.run(id).await.unwrap(), None);
        assert_eq!(world.store.find(&by_key("k")).await.unwrap(), None);
        assert!(world.journal(id).await.is_empty() && world.store.logs(id, LogPlace::default(), 9).await.unwrap().is_empty());
        assert!(
            world.store.run(young.id).await.unwrap().is_some()
                && world.store.run(open).await.unwrap().is_some()
        );
        assert_ne!(world.start(&world.keyed("k")).await, id);
    }
}
