//! What handlers logged: read page by page, while more of it comes.

use outlast_store::{Committed, LogLine, LogPlace};
use outlast_testkit::{Turn, World, store_test};

use crate::SECOND;

fn messages(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| &*line.message).collect()
}

/// Logs so many lines in this turn.
async fn logs(world: &World, turn: &Turn, numbers: std::ops::RangeInclusive<u32>) {
    let writing = numbers.fold(turn.writes(), |writing, n| writing.logs(n, &format!("{} {n}", turn.epoch)));
    assert_eq!(world.commit(writing).await, Committed::Done);
}

#[store_test]
async fn a_log_is_read_from_where_somebody_stopped_also_where_that_was_in_an_earlier_turn(world: World) {
    // Another's lines are nobody else's business, whichever come first.
    let other = world.start("greet").shard(0).held_by("node").await;
    logs(&world, &other, 1..=3).await;
    let first = world.start("greet").shard(0).held_by("node").await;
    assert_eq!(world.store().log_end(first.run).await.unwrap(), LogPlace::default());
    logs(&world, &first, 1..=3).await;
    let last = world.store().log_end(first.run).await.unwrap();
    assert_eq!(last, LogPlace { epoch: first.epoch, n: 3 });
    assert_eq!(world.commit(first.retry(SECOND, 2)).await, Committed::Done);
    world.pass(SECOND).await;
    let second = world.claim_as("node").await;
    assert_eq!(second.run, first.run);
    logs(&world, &second, 1..=2).await;

    let (mut read, mut place) = (Vec::new(), LogPlace::default());
    loop {
        let page = world.store().logs(first.run, place, 2).await.unwrap();
        let Some(end) = page.last() else { break };
        place = end.place();
        read.extend(page);
    }
    let of = |turn: &Turn, n: u32| format!("{} {n}", turn.epoch);
    let all = [of(&first, 1), of(&first, 2), of(&first, 3), of(&second, 1), of(&second, 2)];
    assert_eq!(messages(&read), all);
    assert_eq!(world.store().log_end(first.run).await.unwrap(), place);
    // Whoever had read all that the turn before had logged reads the new ones alone.
    assert_eq!(messages(&world.store().logs(first.run, last, 9).await.unwrap()), all[3..]);
    assert!(world.store().logs(first.run, place, 9).await.unwrap().is_empty());
}

#[test]
fn places_in_a_log_are_numbers_in_their_order_that_json_can_hold() {
    let places = [(0, 0), (1, 1), (1, 1_000), (2, 1), (8_000_000_000, 1_000)];
    let places = places.map(|(epoch, n)| LogPlace { epoch, n });
    let numbers = places.map(LogPlace::number);
    assert!(numbers.is_sorted() && numbers[0] == 0 && numbers[1] > LogPlace::COUNTS, "{numbers:?}");
    assert!(numbers[4] < 1 << 53, "{numbers:?}");
    assert_eq!(numbers.map(LogPlace::of_number), places);
}
