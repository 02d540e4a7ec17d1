//! Runs that are the only ones of their kind.

use futures_util::future::join_all;
use outlast_store::{Address, Clash, Control, Controlled, Due, Purge, Scope, Started};
use outlast_testkit::{World, payload, store_test};

use crate::{DAY, MINUTE, SECOND};

const PUT_OFF: Scope = Scope::NotBegun { at_most: Some(MINUTE) };

#[store_test]
async fn of_a_kind_there_is_one_until_it_has_ended(world: World) {
    let ask =
        |input: &str, clash| world.start("mail").input(input).unique("welcome", Scope::Unfinished, clash);
    let first = ask("a", Clash::Return).await;
    assert_eq!(ask("b", Clash::Return).answer().await, Started::Existing { id: first.id });
    assert_eq!(ask("b", Clash::Refuse).answer().await, Started::Taken { id: first.id });
    let turn = first.claimed_by("node").await;
    assert_eq!(ask("b", Clash::Return).answer().await, Started::Existing { id: first.id }, "it runs");
    turn.completed("done").await;
    assert!(matches!(ask("b", Clash::Refuse).answer().await, Started::Created { .. }));
}

#[store_test]
async fn kinds_are_told_apart_by_tenant_definition_and_key(world: World) {
    let scope = Scope::Unfinished;
    for run in [
        world.start("mail").unique("a", scope, Clash::Refuse),
        world.start("mail").unique("b", scope, Clash::Refuse),
        world.start("ship").unique("a", scope, Clash::Refuse),
        world.start("mail").with(|run| run.tenant = "acme".into()).unique("a", scope, Clash::Refuse),
    ] {
        assert!(matches!(run.answer().await, Started::Created { .. }));
    }
}

#[store_test]
async fn one_that_is_tried_again_is_the_only_one_of_its_kind_or_stays_as_it_is(world: World) {
    let ask = || world.start("mail").job().unique("welcome", Scope::Unfinished, Clash::Return);
    let retry = async |run| {
        let control = Control::Retry { run: Address::Run(run), epoch: None, input: None, repair: None };
        world.control(&control).await
    };
    let first = ask().await;
    world.cancel(first.id, "a mistake").await;
    let second = ask().await;
    let before = world.snapshot().await;
    let taken = Controlled::Taken { definition: "mail".into(), by: second.id };
    assert_eq!(retry(first.id).await, taken);
    assert_eq!(world.snapshot().await, before);

    world.cancel(second.id, "another").await;
    assert_eq!(retry(first.id).await, Controlled::Retried { run: first.id, by_this: true });
    assert_eq!(ask().answer().await, Started::Existing { id: first.id });
    let taken = Controlled::Taken { definition: "mail".into(), by: first.id };
    assert_eq!(retry(second.id).await, taken);

    // Nobody has stood for this kind since.
    let ask = || world.start("mail").job().unique("goodbye", Scope::Unfinished, Clash::Return);
    let alone = ask().await;
    world.cancel(alone.id, "a mistake").await;
    assert_eq!(retry(alone.id).await, Controlled::Retried { run: alone.id, by_this: true });
    assert_eq!(ask().answer().await, Started::Existing { id: alone.id });
}

#[store_test]
async fn for_a_period_there_is_one_whatever_becomes_of_it(world: World) {
    let ask = || world.start("mail").unique("digest", Scope::For(MINUTE), Clash::Return);
    let first = ask().await;
    first.claimed_by("node").await.completed("done").await;
    world.pass(SECOND * 59).await;
    assert_eq!(ask().answer().await, Started::Existing { id: first.id });
    world.pass(SECOND * 2).await;
    let second = ask().await;
    assert_ne!(second.id, first.id);
    assert_eq!(ask().answer().await, Started::Existing { id: second.id });
}

#[store_test]
async fn one_that_has_not_begun_is_replaced_and_put_off_but_not_for_ever(world: World) {
    let ask = |input: &str| {
        world.start("mail").input(input).due(Due::After(SECOND * 25)).unique("index", PUT_OFF, Clash::Replace)
    };
    let first = ask("one").await;
    let started = world.now().await;
    for (seconds, input, due) in [(20, "two", 45), (20, "three", 60), (15, "four", 60)] {
        world.pass(SECOND * seconds).await;
        assert_eq!(ask(input).answer().await, Started::Existing { id: first.id });
        let view = world.view(first.id).await;
        assert_eq!(view.record.input, payload(input));
        let from = view.due_at.unwrap().since(started);
        assert!(from >= SECOND * (due - 1) && from <= SECOND * (due + 2), "due after {from:?}, not {due} s");
    }
    // Once it has begun, the next is one of its own.
    world.pass(SECOND * 10).await;
    let turn = first.claimed_by("node").await;
    let Started::Created { id, .. } = ask("five").answer().await else { panic!("a new one") };
    assert_ne!(id, first.id);
    turn.completed("done").await;
}

#[store_test]
async fn one_that_is_replaced_acts_for_whoever_gave_its_input(world: World) {
    let ask = |input: &str, owner: &str, roles: &[&str]| {
        let (owner, roles) = (owner.to_owned(), roles.iter().map(|role| (*role).to_owned()).collect());
        let start = world.start("mail").input(input).due(Due::After(SECOND)).with(|run| {
            run.trace = Some(format!("trace of {owner}"));
            run.tags = vec![("for".into(), owner.clone()), (owner.clone(), "yes".into())];
            (run.owner, run.roles) = (Some(owner), roles);
        });
        start.unique("index", PUT_OFF, Clash::Replace)
    };
    let first = ask("harmless", "ada", &["admin"]).await;
    assert_eq!(ask("evil", "mallory", &[]).answer().await, Started::Existing { id: first.id });
    let view = world.view(first.id).await;
    assert_eq!(view.record.input, payload("evil"));
    assert_eq!((view.record.owner.as_deref(), &view.record.roles), (Some("mallory"), &vec![]));
    assert_eq!(view.record.trace.as_deref(), Some("trace of mallory"));
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(view.tags, [tag("for", "mallory"), tag("mallory", "yes")]);
}

#[store_test]
async fn one_that_has_begun_is_not_replaced(world: World) {
    let ask = |input: &str| world.start("mail").input(input).unique("x", Scope::Unfinished, Clash::Replace);
    let first = ask("one").await;
    let turn = first.claimed_by("node").await;
    assert_eq!(ask("two").answer().await, Started::Existing { id: first.id });
    assert_eq!(world.view(first.id).await.record.input, payload("one"));
    turn.completed("done").await;
}

#[store_test]
async fn of_several_in_one_call_the_first_counts(world: World) {
    let ask = |n: u32| world.start("mail").input(n).unique("same", Scope::Unfinished, Clash::Return).asked();
    let runs = [ask(1), world.start("mail").asked(), ask(2)];
    let answers = world.store().start(&runs, None).await.unwrap();
    assert_eq!(answers[0], Started::Created { id: runs[0].id, held: false });
    assert_eq!(answers[1], Started::Created { id: runs[1].id, held: false });
    assert_eq!(answers[2], Started::Existing { id: runs[0].id });
}

#[store_test]
async fn a_repeated_start_finds_itself_however_late(world: World) {
    let ask = || world.start("mail").unique("once", Scope::Unfinished, Clash::Refuse).asked();
    let run = ask();
    let start = async || world.store().start(std::slice::from_ref(&run), None).await.unwrap().pop().unwrap();
    let first = start().await;
    assert_eq!(start().await, first);
    world.claim_as("node").await.completed("done").await;
    world.store().start(&[ask()], None).await.unwrap();
    assert_eq!(start().await, first, "although another stands for its kind now");
}

#[store_test]
async fn of_many_at_once_one_is_started(world: World) {
    let start = async || world.start("mail").unique("rush", Scope::Unfinished, Clash::Return).answer().await;
    let answers = join_all((0..20).map(|_| start())).await;
    let created = answers.iter().filter(|answer| matches!(answer, Started::Created { .. })).count();
    assert_eq!(created, 1, "{answers:?}");
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
}

#[store_test]
async fn a_run_is_kept_for_as_long_as_it_stands_for_its_kind_and_then_both_are_forgotten(world: World) {
    let ask = || world.start("mail").unique("digest", Scope::For(DAY * 3), Clash::Return);
    let purge = async || world.control(&Control::Purge(Purge::older_than(DAY, 10))).await;
    let first = ask().await;
    first.claimed_by("node").await.completed("done").await;
    world.pass(DAY * 2).await;
    purge().await;
    assert_eq!(ask().answer().await, Started::Existing { id: first.id });
    assert_eq!(world.output(first.id).await, "done", "who is given it can ask for its result");
    world.pass(DAY * 2).await;
    purge().await;
    assert!(world.store().run(first.id).await.unwrap().is_none());
    assert!(world.snapshot().await.rows("uniques").is_empty());
}

#[store_test]
async fn for_how_long_a_run_stands_for_its_kind_is_what_it_said_itself(world: World) {
    let ask = |key, scope| world.start("mail").unique(key, scope, Clash::Return);
    let first = ask("a", Scope::Unfinished).await;
    assert_eq!(ask("a", Scope::For(MINUTE)).answer().await, Started::Existing { id: first.id });
    let turn = first.claimed_by("node").await;
    assert_eq!(ask("a", PUT_OFF).answer().await, Started::Existing { id: first.id }, "it runs");
    turn.completed("done").await;
    assert!(matches!(ask("a", PUT_OFF).answer().await, Started::Created { .. }), "it has ended");

    let first = ask("b", Scope::For(MINUTE)).await;
    world.cancel(first.id, "enough").await;
    assert_eq!(ask("b", Scope::Unfinished).answer().await, Started::Existing { id: first.id });
    world.pass(MINUTE).await;
    let next = ask("b", Scope::Unfinished).await;
    assert_ne!(next.id, first.id, "its time is over");
    world.pass(DAY).await;
    assert_eq!(ask("b", Scope::For(MINUTE)).answer().await, Started::Existing { id: next.id });
}
