//! Keys: the same key never starts twice, and names a run also before it exists.

use std::sync::Arc;

use futures_util::future::join_all;
use outlast_core::Status;
use outlast_store::{Address, Delivered, Hold, Started};
use outlast_testkit::{World, event, key, settlement, store_test};

#[store_test]
async fn the_same_key_with_the_same_input_is_the_same_run(world: World) {
    let run = world.start_keyed("order", "o-1").input("tea").await;
    for _ in 0..3 {
        let again = world.start_keyed("order", "o-1").input("tea").answer().await;
        assert_eq!(again, Started::Existing { id: run.id });
    }
    assert_eq!(world.store().find(&key("order", "o-1")).await.unwrap(), Some(run.id));
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
}

#[store_test]
async fn the_same_key_with_another_input_is_a_conflict_and_writes_nothing(world: World) {
    let run = world.start_keyed("order", "o-1").input("tea").await;
    let before = world.snapshot().await;
    let other = world.start_keyed("order", "o-1").input("milk").tag("city", "Bern").answer().await;
    assert_eq!(other, Started::Conflict { id: run.id });
    let codec =
        world.start_keyed("order", "o-1").input("tea").with(|run| run.input.codec = Some("own".into()));
    assert_eq!(codec.answer().await, Started::Conflict { id: run.id });
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_key_belongs_to_its_run_after_the_end_too(world: World) {
    let run = world.start_keyed("order", "o-1").await;
    world.claim_as("node").await.completed("done").await;
    assert_eq!(world.start_keyed("order", "o-1").answer().await, Started::Existing { id: run.id });
    let other = world.start_keyed("order", "o-1").input("other").answer().await;
    assert_eq!(other, Started::Conflict { id: run.id });
    assert_eq!(world.status(run.id).await, Status::Completed);
}

#[store_test]
async fn keys_of_other_tenants_and_definitions_are_other_keys(world: World) {
    let one = world.start_keyed("order", "o-1").await;
    let two = world.start_keyed("ship", "o-1").await;
    let three = world.start_keyed("order", "o-1").tenant("acme").await;
    assert!(one.id != two.id && two.id != three.id && three.id != one.id);
    let theirs = Address::Key { tenant: "acme".into(), definition: "order".into(), key: "o-1".into() };
    assert_eq!(world.store().find(&theirs).await.unwrap(), Some(three.id));
    assert_eq!(world.store().find(&key("order", "o-1")).await.unwrap(), Some(one.id));
}

#[store_test]
async fn sixteen_racing_starts_with_one_key_make_one_run(world: World) {
    let stores = join_all((0..4).map(|_| world.second_store())).await;
    for round in 0..5 {
        let starts = (0..16).map(|n: usize| {
            let (world, store) = (world.clone(), Arc::clone(&stores[n % 4]));
            tokio::spawn(async move {
                let run = world.start_keyed("order", &format!("o-{round}")).asked();
                store.start(&[run], None).await.unwrap().remove(0)
            })
        });
        let answers = join_all(starts).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        let created = answers.iter().filter(|answer| matches!(answer, Started::Created { .. })).count();
        assert_eq!(created, 1, "{answers:?}");
        let id = world.store().find(&key("order", &format!("o-{round}"))).await.unwrap().unwrap();
        for answer in answers {
            assert!(
                matches!(answer, Started::Created { id: of, .. } | Started::Existing { id: of } if of == id),
                "{answer:?}"
            );
        }
    }
    assert_eq!(world.claims_as("node", 100).await.len(), 5);
}

#[store_test]
async fn several_with_one_key_in_one_call_find_the_first_of_them(world: World) {
    let first = world.start_keyed("order", "o-1").input("tea").asked();
    let same = world.start_keyed("order", "o-1").input("tea").asked();
    let other = world.start_keyed("order", "o-1").input("milk").asked();
    let id = first.id;
    let answers = world.store().start(&[first, same, other], None).await.unwrap();
    let created = Started::Created { id, held: false };
    assert_eq!(answers, [created, Started::Existing { id }, Started::Conflict { id }]);
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
}

#[store_test]
async fn a_bulk_answers_key_by_key(world: World) {
    let old = world.start_keyed("order", "old").input("tea").await;
    let taken = world.start_keyed("order", "taken").input("tea").await;
    let same = world.start_keyed("order", "old").input("tea").asked();
    let conflict = world.start_keyed("order", "taken").input("milk").asked();
    let new = world.start_keyed("order", "new").asked();
    let plain = world.start("order").asked();
    let (new_id, plain_id) = (new.id, plain.id);
    let answers = world.store().start(&[same, conflict, new, plain], None).await.unwrap();
    assert_eq!(
        answers,
        [
            Started::Existing { id: old.id },
            Started::Conflict { id: taken.id },
            Started::Created { id: new_id, held: false },
            Started::Created { id: plain_id, held: false },
        ]
    );
}

#[store_test]
async fn messages_that_come_before_the_run_are_kept_for_it_in_order(world: World) {
    let to = key("order", "o-1");
    let Delivered::Done { run: reserved } = world.deliver(&event(to.clone(), "approval", "first")).await
    else {
        panic!("a message to a key is kept")
    };
    let again = world.deliver(&settlement(to.clone(), "paid", "second")).await;
    assert_eq!(again, Delivered::Done { run: reserved });
    assert_eq!(world.store().find(&to).await.unwrap(), None, "nobody has started it");
    assert!(world.store().run(reserved).await.unwrap().is_none());

    let run = world.start_keyed("order", "o-1").tag("city", "Bern").await;
    assert_eq!(run.id, reserved);
    assert_eq!(world.store().find(&to).await.unwrap(), Some(reserved));
    world.send(run.id, "approval", "third").await;

    let turn = run.claimed_by("node").await;
    let news: Vec<_> = turn.claimed.inbox.iter().map(|news| (news.seq, news.name.as_str())).collect();
    assert_eq!(news, [(1, "approval"), (2, "paid#@*"), (3, "approval")]);
    assert_eq!(turn.claimed.news, 3);
    assert_eq!(world.inbox(run.id).await, ["first", "second", "third"]);
    assert_eq!(world.view(run.id).await.tags, [("city".to_owned(), "Bern".to_owned())]);
    let settled = world.deliver(&settlement(to, "paid", "too late")).await;
    assert_eq!(settled, Delivered::AlreadySettled { run: reserved });
}

#[store_test]
async fn a_run_that_finds_messages_is_claimed_and_not_held(world: World) {
    world.deliver(&event(key("order", "o-1"), "approval", "yes")).await;
    let hold = Hold { node: world.node("node").await, claim: world.number() };
    let answer = world.start_keyed("order", "o-1").answer_held(Some(hold)).await;
    assert!(matches!(answer, Started::Created { held: false, .. }), "{answer:?}");
    assert_eq!(world.claim_as("node").await.claimed.inbox.len(), 1);
}

#[store_test]
async fn a_keyed_run_can_be_held(world: World) {
    let hold = Hold { node: world.node("node").await, claim: world.number() };
    let run = world.start_keyed("order", "o-1");
    let id = run.clone().asked().id;
    assert_eq!(run.clone().answer_held(Some(hold)).await, Started::Created { id, held: true });
    assert_eq!(run.answer_held(Some(hold)).await, Started::Created { id, held: true });
    assert_eq!(world.status(id).await, Status::Running);
}

#[store_test]
async fn a_start_and_a_message_to_its_key_always_meet(world: World) {
    for round in 0..40 {
        let (name, other) = (format!("o-{round}"), world.clone());
        let message = event(key("order", &name), "approval", "yes");
        let sending = tokio::spawn(async move { other.deliver(&message).await });
        let run = world.start_keyed("order", &name).await;
        assert_eq!(sending.await.unwrap(), Delivered::Done { run: run.id });
        assert_eq!(world.inbox(run.id).await, ["yes"]);
        assert_eq!(run.claimed_by("node").await.claimed.news, 1);
    }
}
