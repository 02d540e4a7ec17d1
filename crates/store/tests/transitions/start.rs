//! Starting runs.

use std::time::Duration;

use outlast_core::Status;
use outlast_store::*;

use crate::stories;
use crate::world::*;

stories! {
    async fn a_started_run_is_there_with_everything_it_was_started_with(world: World) {
        let parent = world.start(&world.greet()).await;
        let run = NewRun {
            owner: Some("eva".into()),
            roles: vec!["clerk".into()],
            tags: vec![("city".into(), "Ulm".into())],
            trace: Some("00-1".into()),
            parent: Some(Parent { run: parent, op: Some("ship".into()) }),
            timeout: Some(Duration::from_secs(60)),
            ..world.greet()
        };
        let id = world.start(&run).await;

        let view = world.view(id).await;
        assert_eq!((view.status, view.due_at, view.epoch), (Status::Ready, Some(world.now()), 0));
        assert_eq!(view.expires_at, Some(world.now() + Duration::from_secs(60)));
        assert_eq!(view.tags, run.tags);
        let record = view.record;
        assert_eq!((record.input, record.owner, record.roles), (run.input, run.owner, run.roles));
        assert_eq!((record.trace, record.parent, record.key), (run.trace, run.parent, None));
        assert_eq!((record.created_at, record.version, record.kind), (world.now(), 1, RunKind::Workflow));
    }

    async fn a_repeated_start_is_one_run(world: World) {
        let run = NewRun { tags: vec![("city".into(), "Ulm".into())], ..world.greet() };
        assert_eq!(world.start(&run).await, run.id);
        assert_eq!(world.start(&run).await, run.id);
        assert_eq!(world.claim_all().await.len(), 1);
    }

    async fn a_repeated_start_does_not_revive_an_ended_run_or_its_tags(world: World) {
        let run = NewRun { tags: vec![("city".into(), "Ulm".into())], ..world.greet() };
        world.start(&run).await;
        let claimed = world.claim_of(run.id).await;
        let moved =
            RunCommit { tags: vec![("city".into(), "Bonn".into())], ..ends(&claimed, completed("1")) };
        assert_eq!(world.commit(moved).await, Committed::Done);

        world.start(&run).await;
        assert!(world.claim_all().await.is_empty());
        let view = world.view(run.id).await;
        assert_eq!((view.status, view.tags), (Status::Completed, vec![("city".into(), "Bonn".into())]));
    }

    async fn a_run_is_due_when_it_was_told_to_be(world: World) {
        let later = NewRun { due: Due::After(Duration::from_secs(5)), ..world.greet() };
        let at = world.now() + Duration::from_secs(9);
        let latest = NewRun { due: Due::At(at), ..world.greet() };
        assert_eq!(world.store.start(&[later.clone(), latest.clone()], None).await.unwrap().len(), 2);
        assert!(world.claim_all().await.is_empty());
        assert_eq!(world.store.next_due().await.unwrap(), Some(world.now() + Duration::from_secs(5)));

        world.pass(Duration::from_secs(5));
        assert_eq!(world.claim_all().await[0].id, later.id);
        world.pass(Duration::from_secs(4));
        assert_eq!(world.claim_all().await[0].id, latest.id);
    }

    async fn a_node_with_a_free_slot_holds_what_it_starts(world: World) {
        let hold = Hold { node: world.node, claim: world.claim_number() };
        let (now, later) = (world.greet(), NewRun { due: Due::After(LEASE), ..world.greet() });
        let (keyed, runs) =
            (world.keyed("k"), |keyed: &NewRun| vec![now.clone(), later.clone(), keyed.clone()]);
        let held = |id, held| Started::Created { id, held };
        let expected = vec![held(now.id, true), held(later.id, false), held(keyed.id, true)];
        assert_eq!(world.store.start(&runs(&keyed), Some(hold)).await.unwrap(), expected);
        // The reply may have been lost.
        assert_eq!(world.store.start(&runs(&keyed), Some(hold)).await.unwrap(), expected);

        let view = world.view(now.id).await;
        assert_eq!((view.status, view.node, view.epoch), (Status::Running, Some(world.node), 1));
        assert!(world.claim_all().await.is_empty());
        let claimed = Claimed { id: now.id, epoch: 1, ..world.running().await };
        assert_eq!(world.commit(ends(&claimed, completed("1"))).await, Committed::Done);
    }

    async fn a_node_without_a_lease_holds_nothing(world: World) {
        let hold = Hold { node: outlast_core::NodeId::new(99), claim: 1 };
        let run = world.greet();
        let started = world.store.start(std::slice::from_ref(&run), Some(hold)).await.unwrap();
        assert_eq!(started, [Started::Created { id: run.id, held: false }]);
        assert_eq!(world.claim_of(run.id).await.epoch, 1);
    }

    async fn a_key_never_starts_twice(world: World) {
        let first = world.keyed("order-42");
        let same = NewRun { id: world.keyed("order-42").id, ..first.clone() };
        let other = NewRun { input: json("2"), ..world.keyed("order-42") };
        let all = [first.clone(), same, other];
        let (id, held) = (first.id, false);
        let expected = [Started::Created { id, held }, Started::Existing { id }, Started::Conflict { id }];
        assert_eq!(world.store.start(&all, None).await.unwrap(), expected);
        assert_eq!(world.store.start(&all, None).await.unwrap(), expected);
        assert_eq!(world.store.start(&all[1..], None).await.unwrap(), expected[1..]);

        assert_eq!(world.claim_all().await.len(), 1);
        assert_eq!(world.store.find(&by_key("order-42")).await.unwrap(), Some(id));
    }

    async fn keys_of_other_tenants_and_definitions_are_other_keys(world: World) {
        let first = world.keyed("k");
        let shard = outlast_core::shard_of_key("eu", "greet", "k", world.store.shards());
        let id = outlast_core::RunId::new(shard, world.now(), 7);
        let second = NewRun { id, tenant: "eu".into(), ..first.clone() };
        world.start(&first).await;
        assert_eq!(world.start(&second).await, id);
    }

    async fn messages_that_came_first_wait_for_the_run_with_their_key(world: World) {
        let Delivered::Done { run } = world.deliver(event(by_key("k"), "early")).await else { panic!() };
        let again = world.deliver(event(by_key("k"), "second")).await;
        assert_eq!(again, Delivered::Done { run });
        assert_eq!(world.store.find(&by_key("k")).await.unwrap(), None);

        let hold = Hold { node: world.node, claim: world.claim_number() };
        let keyed = world.keyed("k");
        let started = world.store.start(std::slice::from_ref(&keyed), Some(hold)).await.unwrap();
        assert_eq!(started, [Started::Created { id: run, held: false }]);
        let repeated = world.store.start(&[keyed], Some(hold)).await.unwrap();
        assert_eq!(repeated, [Started::Existing { id: run }]);

        let claimed = world.claim_of(run).await;
        let names: Vec<&str> = claimed.inbox.iter().map(|news| &*news.name).collect();
        assert_eq!((claimed.news, names), (2, vec!["early", "second"]));
    }
}
