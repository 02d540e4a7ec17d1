//! Renew: the lease goes on, and what the node holds is compared with what it knows.

use std::time::Duration;

use outlast_core::{NodeId, Status};
use outlast_store::{Claim, Known, Renew};
use outlast_testkit::{LEASE, StoreKind, Turn, World, store_test};

fn known(turn: &Turn) -> Known {
    Known { run: turn.run, epoch: turn.epoch, seen: turn.claimed.news }
}

#[store_test]
async fn a_renewed_lease_holds(world: World) {
    let turn = world.start("greet").held_by("node").await;
    for _ in 0..5 {
        world.pass(LEASE - Duration::from_secs(2)).await;
        let renewed = world.renew(&Renew { known: vec![known(&turn)], ..world.renewal("node").await }).await;
        assert!(renewed.alive && renewed.lost.is_empty() && renewed.news.is_empty() && renewed.freed == 0);
        assert!(renewed.now <= world.now().await);
        assert_eq!(world.sweep().await.dead_nodes, []);
    }
    let node = world.store().nodes().await.unwrap().remove(0);
    assert!(node.lease_until > world.now().await && node.lease_until <= world.now().await + LEASE);
    turn.completed("in time").await;
}

#[store_test]
async fn on_postgres_a_renewal_leaves_the_row_alone_that_writers_lock(world: World) {
    if world.kind() == StoreKind::Sqlite {
        return;
    }
    let written = async || {
        world.raw("select shard, xmin::text::bigint, lease_until from outlast.nodes order by 1").await
    };
    world.node("node").await;
    let joined = written().await;
    for _ in 0..5 {
        world.pass(LEASE / 2).await;
        assert!(world.renew(&world.renewal("node").await).await.alive);
    }
    assert_eq!(written().await, joined);
    // Programs that know no other lease see one that has not ended, as long as the node lives.
    for _ in 0..40 {
        world.pass(LEASE / 2).await;
        assert!(world.renew(&world.renewal("node").await).await.alive);
        let now = world.now().await.micros();
        let ended = format!("select count(*) from outlast.nodes where lease_until < {now}");
        assert_eq!(world.count(&ended).await, 0);
    }
    assert_ne!(written().await, joined);
}

#[store_test]
async fn a_node_of_a_program_without_a_lease_apart_lives_as_long_as_its_row_says(world: World) {
    let turn = world.start("greet").held_by("older").await;
    let now = world.now().await.micros();
    let of_old = [
        "delete from outlast.leases".to_owned(),
        format!("update outlast.nodes set lease_until = {}", now + LEASE.as_micros() as i64),
    ];
    for sql in of_old {
        world.raw(&sql).await;
    }
    assert_eq!(world.store().nodes().await.unwrap().len(), 1);
    assert_eq!(world.sweep().await.dead_nodes, []);
    world.pass(LEASE + Duration::from_secs(1)).await;
    assert_eq!(world.store().nodes().await.unwrap(), []);
    assert_eq!(world.sweep().await.dead_nodes, [world.node("older").await]);
    assert_eq!(world.status(turn.run).await, Status::Ready);
}

#[store_test]
async fn a_renewal_tells_when_the_first_lease_of_another_node_ends(world: World) {
    let alone = world.renew(&world.renewal("node").await).await;
    assert_eq!(alone.next_lapse, None);
    world.node("first").await;
    world.pass(Duration::from_secs(1)).await;
    world.node("second").await;
    let leases: Vec<_> =
        world.store().nodes().await.unwrap().into_iter().map(|node| node.lease_until).collect();
    let told = world.renew(&world.renewal("node").await).await.next_lapse.unwrap();
    assert!(leases.contains(&told) && told < world.now().await + LEASE, "{told:?} of {leases:?}");
    world.renew(&world.renewal("first").await).await;
    let later = world.renew(&world.renewal("node").await).await.next_lapse.unwrap();
    assert!(later > told, "the first one was renewed");
}

#[store_test]
async fn a_node_that_was_found_dead_is_told(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    let renewed = world.renew(&Renew { known: vec![known(&turn)], ..world.renewal("node").await }).await;
    assert!(!renewed.alive);
    assert_eq!((renewed.lost, renewed.freed), (vec![turn.run], 0));
    let stranger = Renew { node: NodeId::new(42), ..world.renewal("node").await };
    assert!(!world.renew(&stranger).await.alive);
    assert_eq!(world.status(turn.run).await, Status::Ready, "a renewal brings nothing back");
    assert_eq!(world.store().nodes().await.unwrap(), []);
}

#[store_test]
async fn a_lease_that_ran_out_unnoticed_can_still_be_renewed(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.pass(LEASE * 2).await;
    let renewed = world.renew(&Renew { known: vec![known(&turn)], ..world.renewal("node").await }).await;
    assert!(renewed.alive && renewed.lost.is_empty());
    assert_eq!(world.sweep().await.dead_nodes, []);
    turn.completed("just in time").await;
}

#[store_test]
async fn runs_that_the_node_does_not_hold_are_lost(world: World) {
    let held = world.start("greet").held_by("node").await;
    let finished = world.start("greet").held_by("node").await;
    finished.completed("done").await;
    let others = world.start("greet").held_by("other").await;
    let older = world.start("greet").await;
    let first = older.claimed_by("node").await;
    world.commit(first.release()).await;
    let again = older.claimed_by("node").await;
    let nobody = world.start("greet").asked().id;

    let mut known: Vec<Known> = [&held, &finished, &others, &first].map(known).to_vec();
    known.push(Known { run: nobody, epoch: 1, seen: 0 });
    let mut renewed = world.renew(&Renew { known, ..world.renewal("node").await }).await;
    let mut lost = vec![finished.run, others.run, first.run, nobody];
    renewed.lost.sort();
    lost.sort();
    assert_eq!(renewed.lost, lost);
    assert_eq!(
        world.status(again.run).await,
        Status::Running,
        "what it holds with another epoch is not freed"
    );
}

#[store_test]
async fn runs_with_news_beyond_what_was_seen_are_told(world: World) {
    let told = world.start("greet").held_by("node").await;
    let quiet = world.start("greet").held_by("node").await;
    world.send(told.run, "approval", "yes").await;
    let ask = Renew { known: vec![known(&told), known(&quiet)], ..world.renewal("node").await };
    assert_eq!(world.renew(&ask).await.news, [told.run]);
    assert_eq!(world.renew(&ask).await.news, [told.run], "until it says that it has seen them");

    let seen = Known { seen: 1, ..known(&told) };
    let ask = Renew { known: vec![seen, known(&quiet)], ..ask };
    assert_eq!(world.renew(&ask).await.news, []);
    world.cancel(quiet.run, "enough").await;
    assert_eq!(world.renew(&ask).await.news, [quiet.run]);
}

#[store_test]
async fn runs_of_a_claim_whose_reply_was_lost_are_freed(world: World) {
    for _ in 0..4 {
        world.start("greet").await;
    }
    let kept = world.claim_as("node").await;
    let mut lost = Vec::new();
    let mut last = 0;
    for shard in 0..world.shards() {
        let ask = Claim { limit: 10, ..world.ask("node", shard).await };
        lost.extend(world.claim(&ask).await.runs);
        last = ask.number;
    }
    assert_eq!(lost.len(), 3);

    let before = Renew { known: vec![known(&kept)], ..world.renewal("node").await };
    assert_eq!(world.renew(&before).await.freed, 0, "a claim under way is not settled yet");
    let renewed = world.renew(&Renew { settled: last, ..before }).await;
    assert_eq!((renewed.freed, renewed.lost), (3, vec![]));
    assert_eq!(world.status(kept.run).await, Status::Running);

    let turns = world.claims_as("other", 10).await;
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| turn.claimed.crashes == 0 && turn.epoch > 1));
}

#[store_test]
async fn later_claims_are_not_settled_by_an_earlier_number(world: World) {
    world.start("greet").shard(0).await;
    let settled = world.number();
    let ask = world.ask("node", 0).await;
    assert_eq!(world.claim(&ask).await.runs.len(), 1);
    assert_eq!(world.renew(&Renew { settled, ..world.renewal("node").await }).await.freed, 0);
    assert_eq!(world.renew(&Renew { settled: ask.number, ..world.renewal("node").await }).await.freed, 1);
}

// A user's transaction holds the run. A renewal must not wait, so the next one frees it.
#[store_test(postgres)]
async fn a_renewal_does_not_wait_for_a_users_transaction(world: World) {
    let stranger = world.start("greet").held_by("node").await;
    let mut tx = world.begin().await;
    let message = outlast_testkit::event(outlast_store::Address::Run(stranger.run), "approval", "yes");
    tx.deliver(&[message]).await.unwrap();
    let ask = Renew { settled: world.number(), ..world.renewal("node").await };
    let renewed = world.renew(&ask).await;
    assert_eq!((renewed.alive, renewed.freed), (true, 0));
    tx.commit().await.unwrap();
    assert_eq!(world.renew(&ask).await.freed, 1);
}

// The fence and a renewal of the same row do not block each other.
#[store_test(postgres)]
async fn a_renewal_does_not_wait_for_its_own_nodes_transaction(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut tx = world.begin().await;
    let recorded = tx.record(turn.node, turn.run, turn.epoch, &outlast_testkit::step(1, "debit")).await;
    assert_eq!(recorded.unwrap(), outlast_store::Committed::Done);
    let renewed = world.renew(&Renew { known: vec![known(&turn)], ..world.renewal("node").await }).await;
    assert!(renewed.alive);
    tx.commit().await.unwrap();
    assert_eq!(world.journal(turn.run).await, ["debit"]);
}

// What the node is just writing for the run would come behind whoever has it next.
#[store_test(postgres)]
async fn a_stranger_is_not_freed_while_its_node_still_writes(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut tx = world.begin().await;
    let recorded = tx.record(turn.node, turn.run, turn.epoch, &outlast_testkit::step(1, "debit")).await;
    assert_eq!(recorded.unwrap(), outlast_store::Committed::Done);
    let ask = Renew { settled: world.number(), ..world.renewal("node").await };
    let renewed = world.renew(&ask).await;
    assert_eq!((renewed.alive, renewed.freed), (true, 0));
    tx.commit().await.unwrap();

    assert_eq!(world.renew(&ask).await.freed, 1);
    let next = world.claim_as("other").await;
    assert_eq!((next.epoch, world.journal(next.run).await), (3, vec!["debit".to_owned()]));
}
