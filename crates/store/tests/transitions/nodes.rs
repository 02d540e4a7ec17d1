//! Nodes: joining, renewing, leaving, dying.

use std::time::Duration;

use outlast_core::{NodeId, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

fn renewal(node: NodeId, settled: i64, known: &[&Claimed]) -> Renew {
    let known = known.iter().map(|run| Known { run: run.id, epoch: run.epoch, seen: run.news }).collect();
    Renew { node, lease: LEASE, settled, known }
}

stories! {
    async fn a_renewed_lease_holds(world: World) {
        let run = world.running().await;
        for _ in 0..5 {
            world.pass(LEASE / 2);
            let renewed = world.store.renew(&renewal(world.node, 99, &[&run])).await.unwrap();
            assert_eq!(renewed, Renewed { alive: true, now: world.now(), ..Renewed::default() });
            assert!(world.sweep().await.iter().all(|swept| *swept == Swept::default()));
        }
        let node = world.store.nodes().await.unwrap().remove(0);
        assert_eq!((node.id, node.holds, node.lease_until), (world.node, 1, world.now() + LEASE));
    }

    async fn a_renewal_tells_what_is_lost_and_what_is_new(world: World) {
        let (ended, told, stale) = (world.running().await, world.running().await, world.running().await);
        world.commit(ends(&ended, completed("1"))).await;
        world.deliver(event(Address::Run(told.id), "e")).await;
        let stale = Claimed { epoch: 7, ..stale };
        let renewed = world.store.renew(&renewal(world.node, 0, &[&ended, &told, &stale])).await.unwrap();
        assert_eq!((renewed.lost, renewed.news, renewed.freed), (vec![ended.id, stale.id], vec![told.id], 0));
    }

    async fn runs_of_a_lost_reply_become_due_again(world: World) {
        let (known, lost) = (world.running().await, world.running().await);
        let late = world.running().await;
        // The last claim is still under way: only the first two are settled.
        let settled = world.claim_number() - 2;
        let renewed = world.store.renew(&renewal(world.node, settled, &[&known])).await.unwrap();
        assert_eq!((renewed.freed, renewed.alive), (1, true));
        let again = world.store.renew(&renewal(world.node, settled, &[&known])).await.unwrap();
        assert_eq!(again.freed, 0);
        assert_eq!(world.view(late.id).await.status, Status::Running);
        assert_eq!(world.view(known.id).await.status, Status::Running);
        let again = world.claim_of(lost.id).await;
        assert_eq!((again.epoch, again.crashes), (3, 0));
    }

    async fn a_dead_nodes_runs_are_due_again_and_it_is_told(world: World) {
        let run = world.running().await;
        let other = world.join(2).await;
        world.pass(LEASE);
        world.store.renew(&renewal(other, 0, &[])).await.unwrap();
        assert!(world.sweep().await.iter().all(|swept| swept.dead_nodes.is_empty()));
        world.pass(Duration::from_secs(1));
        let swept = world.sweep().await;
        assert!(swept.iter().all(|swept| swept.dead_nodes == [world.node]));
        assert_eq!(swept.iter().map(|swept| swept.freed).sum::<u64>(), 1);
        assert!(world.sweep().await.iter().all(|swept| *swept == Swept::default()));

        let renewed = world.store.renew(&renewal(world.node, 0, &[&run])).await.unwrap();
        assert_eq!((renewed.alive, renewed.lost), (false, vec![run.id]));
        assert!(world.claim_all().await.is_empty(), "a dead node claims nothing");
        let ask = Claim { node: other, ..world.ask(run.id.shard()) };
        let claimed = world.store.claim(&ask).await.unwrap().runs.remove(0);
        assert_eq!((claimed.epoch, claimed.crashes), (3, 1));
    }

    async fn a_late_commit_between_takeover_and_the_next_claim_is_refused(world: World) {
        let run = world.running().await;
        world.pass(LEASE * 2);
        world.sweep().await;
        let late = [
            RunCommit { entries: vec![entry(1, "late")], ..ends(&run, completed("late")) },
            ends(&run, completed("late")),
            ends(&run, Next::Block { reason: "late".into() }),
            ends(&run, Next::Retry { after: LEASE, attempt: 2 }),
            RunCommit { entries: vec![entry(1, "late")], ..ends(&run, Next::Release) },
        ];
        for late in late {
            assert_eq!(world.commit(late).await, Committed::LeaseLost);
        }
        assert_eq!(world.view(run.id).await.status, Status::Ready);
        assert!(world.journal(run.id).await.is_empty());
    }

    async fn progress_forgets_crashes(world: World) {
        let run = world.running().await;
        world.pass(LEASE * 2);
        world.sweep().await;
        world.join(1).await;
        let run = world.claim_of(run.id).await;
        assert_eq!(run.crashes, 1);
        world.commit(ends(&run, Next::Release)).await;
        let run = world.claim_of(run.id).await;
        assert_eq!(run.crashes, 1);
        let commit = RunCommit { entries: vec![entry(1, "a")], ..ends(&run, Next::Release) };
        world.commit(commit).await;
        assert_eq!(world.claim_of(run.id).await.crashes, 0);
    }

    async fn a_node_that_leaves_frees_its_runs_without_a_crash(world: World) {
        let run = world.running().await;
        let other = world.join(2).await;
        world.store.leave(world.node).await.unwrap();
        world.store.leave(world.node).await.unwrap();
        assert_eq!(world.store.nodes().await.unwrap().len(), 1);
        assert_eq!(world.commit(records(&run, &[entry(1, "late")])).await, Committed::LeaseLost);
        let ask = Claim { node: other, ..world.ask(run.id.shard()) };
        assert_eq!(world.store.claim(&ask).await.unwrap().runs[0].crashes, 0);
    }

    async fn a_run_that_nobody_knows_is_blocked_until_somebody_does(world: World) {
        let strange = NewRun { definition: "strange".into(), ..world.greet() };
        let (run, known) = (world.start(&strange).await, world.start(&world.greet()).await);
        world.pass(Duration::from_secs(31));
        world.store.renew(&renewal(world.node, 0, &[])).await.unwrap();
        assert_eq!(world.sweep().await.iter().map(|swept| swept.blocked).sum::<u64>(), 1);
        assert_eq!(world.sweep().await.iter().map(|swept| swept.blocked).sum::<u64>(), 0);
        let view = world.view(run).await;
        assert_eq!((view.status, view.reason.as_deref()), (Status::Blocked, Some("no node knows strange@1")));
        assert_eq!((view.due_at, world.view(known).await.status), (None, Status::Ready));

        let mut signals = world.store.signals();
        world.store.join(&card(3, &["strange"])).await.unwrap();
        hears(&mut signals, Signal::Due).await;
        let view = world.view(run).await;
        assert_eq!((view.status, view.reason, view.due_at), (Status::Ready, None, Some(world.now())));
    }

    async fn the_active_version_takes_over(world: World) {
        let two = NodeCard { definitions: vec![definition("greet", 2)], ..card(2, &[]) };
        world.store.join(&two).await.unwrap();
        world.store.join(&two).await.unwrap();
        let known = world.store.definitions().await.unwrap();
        let known: Vec<_> = known.iter().map(|card| (&*card.name, card.version, card.active)).collect();
        assert_eq!(known, [("greet", 1, false), ("greet", 2, true), ("mail", 1, true)]);
    }

    async fn old_deliveries_are_forgotten(world: World) {
        let run = world.start(&world.greet()).await;
        let message = event(Address::Run(run), "e");
        world.deliver(message.clone()).await;
        world.pass(Duration::from_secs(86_401));
        world.sweep().await;
        world.deliver(message).await;
        assert_eq!(world.inbox(run).await.len(), 2);
    }
}
