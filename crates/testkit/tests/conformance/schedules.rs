//! Schedules: set, changed, and fired once for each time.

use futures_util::future::join_all;
use outlast_core::{Status, Timestamp};
use outlast_store::{Fire, Fired, ScheduleCard, ScheduleChange};
use outlast_testkit::{World, payload, store_test};

use crate::{DAY, MINUTE, SECOND};

/// What a schedule says that is due then.
pub(crate) fn card(timetable: &str, due_at: Option<Timestamp>) -> ScheduleCard {
    ScheduleCard {
        timetable: timetable.into(),
        zone: "UTC".into(),
        definition: "greet".into(),
        input: payload("world"),
        options: "{}".into(),
        next_at: due_at,
        due_at,
    }
}

/// The time that it stands at has come: a run starts, and it moves on.
fn fires(world: &World, name: &str, at: Timestamp, next: Timestamp) -> Fire {
    let key = format!("{name}-{}", at.micros());
    let runs = vec![world.start_keyed("greet", &key).asked()];
    Fire {
        name: name.into(),
        at,
        waited: vec![],
        waiting: vec![],
        last_at: Some(at),
        next_at: Some(next),
        due_at: Some(next),
        stops: None,
        runs,
        skipped: 0,
    }
}

#[store_test]
async fn a_schedule_is_due_when_its_time_has_come(world: World) {
    let now = world.now().await;
    for (name, seconds) in [("soon", 10), ("later", 100)] {
        let due = Some(now + SECOND * seconds);
        world.change_schedule(name, ScheduleChange::Put(card("* * * * *", due))).await.unwrap();
    }
    let due = async || world.store().schedules_due(0, 10).await.unwrap();
    assert_eq!(due().await, (vec![], Some(now + SECOND * 10)));
    assert_eq!(world.store().next_due().await.unwrap(), Some(now + SECOND * 10));
    let renewal = world.renewal("node").await;
    assert_eq!(world.renew(&renewal).await.next_fire, Some(now + SECOND * 10));
    world.pass(SECOND * 20).await;
    let (come, next) = due().await;
    assert_eq!(come.iter().map(|view| &*view.name).collect::<Vec<_>>(), ["soon"]);
    assert_eq!(next, Some(now + SECOND * 100));
    assert_eq!(world.store().schedules().await.unwrap().len(), 2);
}

#[store_test]
async fn all_that_are_due_are_read_page_by_page(world: World) {
    let now = world.now().await;
    for n in 0..25 {
        let due = Some(now + SECOND * (n % 3));
        world.change_schedule(&format!("s{n}"), ScheduleChange::Put(card("* * * * *", due))).await.unwrap();
    }
    world.pass(SECOND * 20).await;
    let mut names = Vec::new();
    for page in 0..5 {
        let (due, next) = world.store().schedules_due(page * 5, 5).await.unwrap();
        names.extend(due.into_iter().map(|view| view.name));
        assert_eq!(next, None);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 25);
    assert_eq!(world.store().schedules_due(25, 5).await.unwrap().0, vec![]);
}

#[store_test]
async fn of_many_who_fire_a_time_one_starts_the_run(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    let fire = async || world.store().fire(&fires(&world, "nightly", now, now + DAY)).await.unwrap();
    let fired = join_all((0..8).map(|_| fire())).await;
    assert_eq!(fired.iter().filter(|fired| matches!(fired, Fired::Done(_))).count(), 1, "{fired:?}");
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
    let view = world.store().schedules().await.unwrap().remove(0);
    assert_eq!((view.started, view.last_at, view.card.next_at), (1, Some(now), Some(now + DAY)));
    assert!(view.last_run.is_some());
}

#[store_test]
async fn a_paused_schedule_is_not_due_and_nobody_fires_it(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    assert!(world.change_schedule("nightly", ScheduleChange::Pause).await.unwrap().is_paused);
    assert_eq!(world.store().schedules_due(0, 10).await.unwrap(), (vec![], None));
    let late = world.store().fire(&fires(&world, "nightly", now, now + DAY)).await.unwrap();
    assert_eq!(late, Fired::Lost);
    let resume = ScheduleChange::Resume { next_at: Some(now + MINUTE), due_at: Some(now + MINUTE) };
    let view = world.change_schedule("nightly", resume).await.unwrap();
    assert_eq!((view.is_paused, view.card.due_at), (false, Some(now + MINUTE)));
    assert!(world.claims_as("node", 10).await.is_empty());
}

#[store_test]
async fn a_schedule_that_says_the_same_keeps_its_place_in_time(world: World) {
    let now = world.now().await;
    let put = async |timetable: &str, seconds: u32| {
        let card = card(timetable, Some(now + SECOND * seconds));
        world.change_schedule("nightly", ScheduleChange::Put(card)).await.unwrap()
    };
    assert_eq!(put("0 0 * * *", 5).await.card.next_at, Some(now + SECOND * 5));
    assert_eq!(put("0 0 * * *", 9).await.card.next_at, Some(now + SECOND * 5));
    assert_eq!(put("0 1 * * *", 9).await.card.next_at, Some(now + SECOND * 9));
    // What it starts, and how, says nothing of when.
    let other = ScheduleCard { input: payload("moon"), ..card("0 1 * * *", Some(now + SECOND * 15)) };
    let view = world.change_schedule("nightly", ScheduleChange::Put(other)).await.unwrap();
    assert_eq!((view.card.next_at, view.card.due_at), (Some(now + SECOND * 9), Some(now + SECOND * 9)));
    assert_eq!(view.card.input, payload("moon"));
    // Paused it stays so, whatever else is said of it.
    world.change_schedule("nightly", ScheduleChange::Pause).await;
    let view = put("0 2 * * *", 20).await;
    assert!(view.is_paused && view.card.due_at.is_none());
}

#[store_test]
async fn a_schedule_that_is_gone_starts_nothing(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    assert_eq!(world.change_schedule("nightly", ScheduleChange::Delete).await.unwrap().name, "nightly");
    assert_eq!(world.change_schedule("nightly", ScheduleChange::Delete).await, None);
    assert_eq!(world.change_schedule("nightly", ScheduleChange::Pause).await, None);
    let late = world.store().fire(&fires(&world, "nightly", now, now + DAY)).await.unwrap();
    assert_eq!(late, Fired::Lost);
}

#[store_test]
async fn the_times_that_wait_are_kept_and_noted_once(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    let waiting = vec![(now, now + MINUTE), (now + DAY, now + DAY)];
    let note =
        Fire { waiting: waiting.clone(), last_at: None, runs: vec![], ..fires(&world, "nightly", now, now) };
    assert!(matches!(world.store().fire(&note).await.unwrap(), Fired::Done(_)));
    assert_eq!(world.store().fire(&note).await.unwrap(), Fired::Lost, "others wait than it says");
    let view = world.store().schedules().await.unwrap().remove(0);
    assert_eq!((&view.waiting, view.last_at, view.started), (&waiting, None, 0));
    let other = ScheduleChange::Put(ScheduleCard { input: payload("moon"), ..view.card });
    assert_eq!(world.change_schedule("nightly", other).await.unwrap().waiting, waiting);
    let anew = ScheduleChange::Put(card("0 1 * * *", Some(now + DAY)));
    assert_eq!(world.change_schedule("nightly", anew).await.unwrap().waiting, vec![]);
}

#[store_test]
async fn with_the_start_of_the_next_the_run_before_is_asked_to_stop(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    world.store().fire(&fires(&world, "nightly", now, now + DAY)).await.unwrap();
    let first = world.store().schedules().await.unwrap().remove(0).last_run.unwrap();
    let stops = Some((first, "the next time has come".to_owned()));
    let next = Fire { stops: stops.clone(), ..fires(&world, "nightly", now + DAY, now + DAY * 2) };
    assert!(matches!(world.store().fire(&next).await.unwrap(), Fired::Done(_)));
    assert_eq!(world.status(first).await, Status::Cancelled, "it never began");

    let second = world.claim_as("node").await;
    let stops = Some((second.run, "the next time has come".to_owned()));
    let last = Fire { stops, ..fires(&world, "nightly", now + DAY * 2, now + DAY * 3) };
    let lost = Fire { at: now, ..last.clone() };
    assert_eq!(world.store().fire(&lost).await.unwrap(), Fired::Lost);
    assert!(world.store().inbox(&[(second.run, 0)]).await.unwrap().is_empty(), "who lost stops nothing");
    world.store().fire(&last).await.unwrap();
    assert_eq!(world.store().inbox(&[(second.run, 0)]).await.unwrap().len(), 1);
}

#[store_test]
async fn a_time_that_has_its_run_already_goes_on_with_that_one(world: World) {
    let now = world.now().await;
    world.change_schedule("nightly", ScheduleChange::Put(card("0 0 * * *", Some(now)))).await;
    for (n, input) in [(0, payload("world")), (1, payload("moon"))] {
        let mut fire = fires(&world, "nightly", now + DAY * n, now + DAY * (n + 1));
        let there =
            world.start_keyed("greet", fire.runs[0].key.as_deref().unwrap()).with(|run| run.input = input);
        let there = there.await.id;
        fire.runs[0].input = payload("world");
        assert_ne!(fire.runs[0].id, there);
        assert!(matches!(world.store().fire(&fire).await.unwrap(), Fired::Done(_)));
        let view = world.store().schedules().await.unwrap().remove(0);
        assert_eq!(view.last_run, Some(there), "whatever it was started with");
    }
}
