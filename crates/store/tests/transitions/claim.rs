//! Claiming runs.

use std::time::Duration;

use outlast_core::{NodeId, RunId, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

stories! {
    async fn a_claim_gives_the_most_urgent_first_then_the_oldest(world: World) {
        let began = world.now();
        let in_shard = |n: u64| RunId::new(0, began, n);
        let run = |n, priority, queue: &str| NewRun {
            id: in_shard(n),
            priority,
            queue: queue.into(),
            ..world.greet()
        };
        world.start(&run(1, 5, "mail")).await;
        world.pass(Duration::from_secs(1));
        for n in 2..9 {
            world.start(&run(n, 4, "main")).await;
        }
        world.start(&run(9, 0, "mail")).await;
        world.start(&NewRun { queue: "other".into(), ..run(10, 0, "") }).await;

        let claims = world.store.claim(&Claim { limit: 4, ..world.ask(0) }).await.unwrap();
        let order: Vec<RunId> = claims.runs.iter().map(|run| run.id).collect();
        assert_eq!(order, [9, 2, 3, 4].map(in_shard));
        assert_eq!(claims.next_due, None);
        let rest = world.store.claim(&world.ask(0)).await.unwrap();
        let order: Vec<RunId> = rest.runs.iter().map(|run| run.id).collect();
        assert_eq!(order, [5, 6, 7, 8, 1].map(in_shard));
        assert!(rest.runs.iter().all(|run| run.epoch == 1 && run.attempt == 1 && run.crashes == 0));
    }

    async fn the_same_number_gives_the_same_runs_again(world: World) {
        let run = world.start(&world.greet()).await;
        let ask = world.ask(run.shard());
        let first = world.store.claim(&ask).await.unwrap();
        world.start(&NewRun { id: RunId::new(run.shard(), world.now(), 1), ..world.greet() }).await;
        assert_eq!(world.store.claim(&ask).await.unwrap().runs, first.runs);
        assert_eq!(first.runs[0].epoch, 1);
        assert_eq!(world.view(run).await.epoch, 1);
    }

    async fn code_that_a_node_does_not_know_is_left_to_others(world: World) {
        let run = world.start(&NewRun { version: 2, ..world.greet() }).await;
        assert!(world.claim_all().await.is_empty());
        let ask = Claim { codes: vec!["greet@2".into()], ..world.ask(run.shard()) };
        assert_eq!(world.store.claim(&ask).await.unwrap().runs[0].code, "greet@2");
    }

    async fn a_claim_that_finds_too_little_knows_when_to_look_again(world: World) {
        let soon = NewRun { due: Due::After(Duration::from_secs(3)), ..world.greet() };
        let shard = world.start(&soon).await.shard();
        let in_shard = |n| RunId::new(shard, world.now(), n);
        let later = NewRun { id: in_shard(1), due: Due::After(LEASE), priority: 0, ..world.greet() };
        let unknown = NewRun { id: in_shard(2), due: Due::After(LEASE / 10), version: 9, ..world.greet() };
        world.start(&later).await;
        world.start(&unknown).await;

        let claims = world.store.claim(&world.ask(shard)).await.unwrap();
        assert!(claims.runs.is_empty());
        assert_eq!((claims.now, claims.next_due), (world.now(), Some(world.now() + Duration::from_secs(3))));
    }

    async fn a_node_without_a_lease_gets_nothing(world: World) {
        let run = world.start(&world.greet()).await;
        let ask = Claim { node: NodeId::new(99), ..world.ask(run.shard()) };
        assert!(world.store.claim(&ask).await.unwrap().runs.is_empty());
        assert_eq!(world.view(run).await.status, Status::Ready);
    }

    async fn a_claimed_run_is_nobody_elses(world: World) {
        let run = world.running().await;
        assert!(world.claim_all().await.is_empty());
        let view = world.view(run.id).await;
        assert_eq!((view.status, view.node, view.due_at), (Status::Running, Some(world.node), None));
    }
}
