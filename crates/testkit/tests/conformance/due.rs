//! A run goes on sooner, or at another time, than it would by itself; and nothing of it is early by accident.

use outlast_core::{RunId, Status, Timestamp};
use outlast_store::{Address, Control, Controlled, NewsKind};
use outlast_testkit::{World, key, store_test};

use crate::{DAY, MINUTE};

fn due(run: RunId, seen: Timestamp, at: Option<Timestamp>) -> Control {
    Control::Due { run: Address::Run(run), seen, at }
}

fn told(run: RunId, by_this: bool) -> Controlled {
    Controlled::Due { run, by_this }
}

async fn due_at(world: &World, run: RunId) -> Timestamp {
    world.view(run).await.due_at.unwrap()
}

#[store_test]
async fn a_run_that_is_to_begin_later_begins_now_or_at_another_time(world: World) {
    let run = world.start("greet").delayed(DAY).await.id;
    let seen = due_at(&world, run).await;
    let sooner = world.now().await + MINUTE;
    assert_eq!(world.control(&due(run, seen, Some(sooner))).await, told(run, true));
    assert_eq!(world.view(run).await.due_at, Some(sooner));
    assert_eq!(world.control(&due(run, seen, None)).await, told(run, false), "its time is another by now");
    assert!(world.claims_as("node", 10).await.is_empty(), "it is not early");

    assert_eq!(world.control(&due(run, sooner, None)).await, told(run, true));
    assert_eq!(world.claim_as("node").await.run, run);
    assert_eq!(world.control(&due(run, sooner, None)).await, told(run, false), "a node has it");
}

#[store_test]
async fn the_next_attempt_comes_now_or_at_another_time(world: World) {
    let turn = world.start("mail").job().held_by("node").await;
    world.commit(turn.retry(DAY, 2)).await;
    let seen = due_at(&world, turn.run).await;
    assert_eq!(world.control(&due(turn.run, seen, None)).await, told(turn.run, true));
    let again = world.claim_as("node").await;
    assert_eq!((again.run, again.claimed.attempt), (turn.run, 2));
}

#[store_test]
async fn nobody_makes_a_runs_own_time_longer(world: World) {
    let run = world.start("greet").delayed(MINUTE).with(|run| run.timeout = Some(MINUTE * 2)).await.id;
    let (seen, ends) = (due_at(&world, run).await, world.now().await + DAY);
    assert_eq!(world.control(&due(run, seen, Some(ends))).await, told(run, true));
    assert!(due_at(&world, run).await < ends, "it is due when its time is over");
}

#[store_test]
async fn a_run_that_waits_is_told_that_its_timer_is_over(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let end = world.now().await + DAY;
    world.commit(turn.suspend_until(end)).await;
    let later = Some(end + DAY);
    assert_eq!(
        world.control(&due(turn.run, end, later)).await,
        told(turn.run, false),
        "that stands elsewhere"
    );
    assert_eq!(world.control(&due(turn.run, end, None)).await, told(turn.run, true));
    assert_eq!(world.status(turn.run).await, Status::Ready);
    let again = world.claim_as("node").await;
    let news: Vec<_> = again.claimed.inbox.iter().map(|news| (news.kind, news.body.clone())).collect();
    let [(NewsKind::Skip, Some(body))] = &news[..] else { panic!("{news:?}") };
    assert_eq!(body.json(), Some(end.micros().to_string().as_str()));
    assert!(world.store().verify(Default::default(), 100).await.unwrap().contradictions.is_empty());
}

#[store_test]
async fn whoever_stands_still_has_ended_or_waits_for_no_time_is_left_alone(world: World) {
    let now = world.now().await;
    let nobody = world.start("greet").asked().id;
    assert_eq!(world.control(&due(nobody, now, None)).await, Controlled::Unknown);

    let waiting = world.start("greet").held_by("node").await;
    waiting.suspended().await;
    assert_eq!(world.control(&due(waiting.run, now, None)).await, told(waiting.run, false));

    let paused = world.start("greet").delayed(DAY).key("o-1").await.id;
    let seen = due_at(&world, paused).await;
    world.control(&Control::Pause { run: Address::Run(paused), reason: "for a look".into() }).await;
    assert_eq!(world.control(&due(paused, seen, None)).await, told(paused, false));
    world.control(&Control::Resume { run: Address::Run(paused) }).await;
    let by_key = Control::Due { run: key("greet", "o-1"), seen, at: None };
    assert_eq!(world.control(&by_key).await, told(paused, true));

    let ended = world.claim_as("node").await;
    world.commit(ended.complete("done")).await;
    let answer = world.control(&due(ended.run, seen, None)).await;
    assert_eq!(answer, Controlled::Final { run: ended.run, status: Status::Completed, by_this: false });
}
