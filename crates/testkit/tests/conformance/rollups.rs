//! How runs ended, summed up: each end once, whoever does it, and failures that are alike together.

use std::time::Duration;

use outlast_core::{AnyError, Failure, FailureDoc, Limits, Status, Timestamp};
use outlast_store::{
    Address, Control, DepthAsk, DepthPoint, Due, Ended, FailureAsk, Measure, Next, Roll, SeriesAsk,
    SeriesPoint,
};
use outlast_testkit::{Turn, World, store_test};

use crate::{DAY, MINUTE, SECOND};

pub(crate) fn ask(shard: u16) -> Roll {
    Roll { shard, limit: 100, behind: SECOND * 10, keep: DAY * 30 }
}

/// The minute that it is.
pub(crate) async fn measure(world: &World) -> Measure {
    let now = world.now().await.micros();
    Measure { minute: Timestamp::from_micros(now - now.rem_euclid(60_000_000)), keep: DAY * 30 }
}

/// A run that took so long and ended like this.
async fn ended(world: &World, status: Status, message: &str, took: Duration) {
    let turn = world.start("greet").held_by("node").await;
    world.pass(took).await;
    match status {
        Status::Failed => failed(world, turn, message).await,
        _ => {
            let end = Ended { status, output: None, error: None };
            world.commit(turn.writes().next(Next::Finish(end))).await;
        }
    }
}

/// It fails, and says why.
async fn failed(world: &World, turn: Turn, message: &str) {
    let failure = Failure::<AnyError>::Own(AnyError::new(message));
    let error = serde_json::to_string(&FailureDoc::new(&failure, &Limits::default())).unwrap();
    let end = Ended { status: Status::Failed, output: None, error: Some(error) };
    world.commit(turn.writes().next(Next::Finish(end))).await;
}

/// All failures until then.
fn anything(until: Timestamp) -> FailureAsk {
    FailureAsk {
        tenant: None,
        definition: None,
        fingerprint: None,
        since: Timestamp::default(),
        until,
        limit: 10,
    }
}

async fn roll_all(world: &World) -> u32 {
    let mut rolled = 0;
    for shard in 0..world.shards() {
        rolled += world.store().roll(&ask(shard)).await.unwrap();
    }
    rolled
}

async fn series(world: &World, definition: Option<&str>, step: Duration) -> Vec<SeriesPoint> {
    let ask = SeriesAsk {
        tenant: None,
        definition: definition.map(str::to_owned),
        queue: None,
        from: Timestamp::default(),
        to: world.now().await + DAY,
        step,
    };
    world.store().series(&ask).await.unwrap()
}

fn sums(points: &[SeriesPoint]) -> (u64, u64, u64) {
    points.iter().fold((0, 0, 0), |(completed, failed, cancelled), point| {
        (completed + point.completed, failed + point.failed, cancelled + point.cancelled)
    })
}

#[store_test]
async fn every_end_counts_once_and_only_when_it_is_a_while_ago(world: World) {
    ended(&world, Status::Completed, "", MINUTE).await;
    ended(&world, Status::Cancelled, "", MINUTE).await;
    assert_eq!(roll_all(&world).await, 1, "the last is too young");
    world.pass(MINUTE).await;
    assert_eq!(roll_all(&world).await, 1);
    assert_eq!(roll_all(&world).await, 0);
    let points = series(&world, Some("greet"), MINUTE).await;
    assert_eq!((sums(&points), points.len()), ((1, 0, 1), 2));
    assert_eq!(sums(&series(&world, Some("other"), MINUTE).await), (0, 0, 0));
    // A minute is between 2^25 and 2^26 microseconds.
    assert_eq!(points[0].times, [(25, 1)]);
    let hours = series(&world, None, MINUTE * 60 * 24 * 365).await;
    assert_eq!((sums(&hours), hours.len()), ((1, 0, 1), 1));
}

/// How long those that ended had stood in line, by the power of two of microseconds.
async fn waits(world: &World) -> Vec<(u32, u64)> {
    world.pass(MINUTE).await;
    roll_all(world).await;
    series(world, None, DAY * 365).await.into_iter().flat_map(|point| point.waits).collect()
}

#[store_test]
async fn how_long_runs_stood_in_line_is_counted_from_when_they_were_wanted(world: World) {
    let run = world.start("greet").await;
    world.pass(MINUTE).await;
    run.claimed_by("node").await.completed("done").await;
    // A minute is between 2^25 and 2^26 microseconds.
    assert_eq!(waits(&world).await, [(25, 1)]);

    for is_span in [true, false] {
        let at = world.now().await + DAY;
        let due = if is_span { Due::After(DAY) } else { Due::At(at) };
        let run = world.start("greet").due(due).await;
        assert!(world.view(run.id).await.wanted_at >= Some(at));
        world.pass(DAY + MINUTE).await;
        run.claimed_by("node").await.completed("done").await;
    }
    assert_eq!(waits(&world).await, [(25, 3)]);
}

#[store_test]
async fn whoever_is_wanted_at_another_time_stands_in_line_from_then_on(world: World) {
    let run = world.start("greet").due(Due::After(DAY * 9)).await;
    let seen = world.view(run.id).await.due_at.unwrap();
    let sooner = Control::Due { run: Address::Run(run.id), seen, at: None };
    world.control(&sooner).await;
    world.pass(MINUTE).await;
    let turn = run.claimed_by("node").await;
    let wanted = world.view(run.id).await.wanted_at;
    assert!(wanted < Some(seen), "{wanted:?}");
    turn.completed("done").await;
    assert_eq!(waits(&world).await, [(25, 1)]);
}

#[store_test]
async fn whoever_is_tried_again_after_its_end_stands_in_line_from_then_on(world: World) {
    let run = world.start("greet").await;
    world.pass(MINUTE).await;
    let turn = run.claimed_by("node").await;
    let ended = Ended { status: Status::Failed, output: None, error: Some("\"why\"".into()) };
    world.commit(turn.writes().next(Next::Finish(ended))).await;
    assert_eq!(waits(&world).await, [(25, 1)]);
    world.pass(DAY).await;
    let again = Control::Retry { run: Address::Run(run.id), epoch: None, input: None, repair: None };
    world.control(&again).await;
    world.pass(MINUTE).await;
    run.claimed_by("node").await.completed("done").await;
    assert_eq!(waits(&world).await, [(25, 2)], "the day before was not spent in line");
}

#[store_test]
async fn whoever_ended_before_a_node_took_it_says_nothing_of_how_long_that_takes(world: World) {
    let run = world.start("greet").await;
    world.pass(MINUTE).await;
    let withdrawn = Control::Withdraw { run: Address::Run(run.id), reason: "not wanted".into() };
    world.control(&withdrawn).await;
    assert_eq!(world.view(run.id).await.status, Status::Cancelled);
    assert_eq!(waits(&world).await, []);
    assert_eq!(sums(&series(&world, None, DAY).await), (0, 0, 1));
}

#[store_test]
async fn failures_that_are_alike_are_one_group_with_its_last_run(world: World) {
    for message in ["order 1 was declined", "order 22 was declined", "no route to host"] {
        ended(&world, Status::Failed, message, SECOND).await;
    }
    world.pass(MINUTE).await;
    roll_all(&world).await;
    world.pass(MINUTE * 10).await;
    ended(&world, Status::Failed, "order 333 was declined", SECOND).await;
    world.pass(MINUTE).await;
    roll_all(&world).await;
    let until = world.now().await;
    let ask = anything(until);
    let groups = world.store().failures(&ask).await.unwrap();
    let told: Vec<(&str, u64)> = groups.iter().map(|group| (group.message.as_str(), group.runs)).collect();
    assert_eq!(told, [("order 333 was declined", 3), ("no route to host", 1)]);
    assert!(groups[0].first_at < groups[0].last_at);
    assert_eq!(groups.iter().map(|group| group.lately.iter().sum()).collect::<Vec<u64>>(), [3, 1]);
    // The first two are not of the last minutes.
    let since = Timestamp::from_micros(until.micros() - (MINUTE * 5).as_micros() as i64);
    let groups = world.store().failures(&FailureAsk { since, ..ask.clone() }).await.unwrap();
    let told: Vec<u64> = groups.iter().map(|group| group.lately.iter().sum()).collect();
    assert_eq!((told, groups[0].lately.len()), (vec![1], 6), "a span is a minute at least");
    let other = FailureAsk { tenant: Some("acme".into()), ..ask };
    assert_eq!(world.store().failures(&other).await.unwrap(), []);
}

#[store_test]
async fn what_fails_alike_with_several_tenants_is_one_group_for_whoever_sees_them_all(world: World) {
    let fail = async |tenant: &str, message: &str| {
        let turn = world.start("greet").tenant(tenant).held_by("node").await;
        failed(&world, turn, message).await;
    };
    fail("acme", "order 1 was declined").await;
    fail("acme", "order 2 was declined").await;
    fail("acme", "no route to host").await;
    world.pass(MINUTE * 30).await;
    let later = world.now().await;
    fail("globex", "order 3 was declined").await;
    world.pass(MINUTE).await;
    roll_all(&world).await;
    let all = anything(world.now().await);
    let groups = world.store().failures(&all).await.unwrap();
    assert_eq!(groups.len(), 2, "{groups:?}");
    let declined = &groups[0];
    assert_eq!((declined.runs, declined.lately.iter().sum::<u64>()), (3, 3));
    assert_eq!(
        (declined.tenant.as_str(), &declined.tenants[..]),
        ("globex", &["acme", "globex"].map(String::from)[..])
    );
    // Also by its name alone, and where only one of them failed lately.
    let fingerprint = Some(declined.fingerprint.clone());
    for ask in [
        FailureAsk { fingerprint: fingerprint.clone(), ..all.clone() },
        FailureAsk { since: later, ..all.clone() },
    ] {
        let found = world.store().failures(&ask).await.unwrap();
        assert_eq!(found.iter().map(|group| group.runs).collect::<Vec<_>>(), [3], "{found:?}");
    }
    // Whoever is of one tenant hears of that one alone.
    let own = FailureAsk { tenant: Some("acme".into()), fingerprint, ..all.clone() };
    let found = world.store().failures(&own).await.unwrap();
    assert_eq!(found.iter().map(|group| (group.runs, group.tenants.len())).collect::<Vec<_>>(), [(2, 1)]);
    let nothing = FailureAsk { fingerprint: Some("none".into()), ..all };
    assert_eq!(world.store().failures(&nothing).await.unwrap(), []);
}

#[store_test]
async fn what_was_summed_up_is_forgotten_after_a_while(world: World) {
    ended(&world, Status::Failed, "gone", SECOND).await;
    world.pass(MINUTE).await;
    roll_all(&world).await;
    world.pass(DAY * 31).await;
    // Something has to end for anybody to look; in every shard, so that each forgets.
    for shard in 0..world.shards() {
        let turn = world.start("greet").shard(shard).held_by("node").await;
        turn.completed("done").await;
    }
    world.pass(MINUTE).await;
    roll_all(&world).await;
    assert_eq!(sums(&series(&world, None, MINUTE).await), (u64::from(world.shards()), 0, 0));
    let until = world.now().await;
    let ask = anything(until);
    assert_eq!(world.store().failures(&ask).await.unwrap(), []);
}

async fn depths(world: &World, queue: Option<&str>, step: Duration) -> Vec<DepthPoint> {
    let to = world.now().await + DAY;
    let ask = DepthAsk { queue: queue.map(str::to_owned), from: Timestamp::default(), to, step };
    world.store().depths(&ask).await.unwrap()
}

#[store_test]
async fn how_long_queues_are_is_noted_once_a_minute_and_forgotten_after_a_while(world: World) {
    let first = measure(&world).await;
    assert!(world.store().measure(&first).await.unwrap());
    let held = world.start("greet").queue("mail").held_by("node").await;
    for _ in 0..2 {
        world.start("greet").queue("mail").await;
    }
    world.start("ship").queue("slow").await;
    assert!(!world.store().measure(&first).await.unwrap(), "somebody looked in that minute");
    world.pass(MINUTE * 2).await;
    let second = measure(&world).await;
    assert!(world.store().measure(&second).await.unwrap());

    let numbers = |points: Vec<DepthPoint>| points.iter().map(|p| (p.due, p.running)).collect::<Vec<_>>();
    let all = depths(&world, None, MINUTE).await;
    assert!(all[1].oldest >= MINUTE * 2 && all[1].oldest < MINUTE * 3, "{all:?}");
    assert_eq!((all[0].at, all[1].at), (first.minute, second.minute));
    assert_eq!(numbers(all), [(0, 0), (3, 1)]);
    assert_eq!(numbers(depths(&world, Some("mail"), MINUTE).await), [(0, 0), (2, 1)]);
    assert_eq!(numbers(depths(&world, Some("none"), MINUTE).await), [(0, 0), (0, 0)], "empty, not unknown");
    assert_eq!(numbers(depths(&world, None, DAY * 3650).await), [(3, 1)], "the most of the span");

    held.completed("done").await;
    world.pass(DAY * 31).await;
    assert!(world.store().measure(&measure(&world).await).await.unwrap());
    assert_eq!(depths(&world, None, MINUTE).await.len(), 1);
}
