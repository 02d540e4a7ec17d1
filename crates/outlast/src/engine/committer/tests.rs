//! What the door keeps apart, together and within bounds, where no story can look.

use bytes::Bytes;
use outlast_core::{Limits, Timestamp};
use outlast_store::{Doing, OpenOptions, open};
use outlast_testkit::step;

use super::*;
use crate::Client;
use crate::engine::{Settings, States};
use crate::registry::Registry;

/// What a run heard.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Hears for Heard {
    fn acked(&self, pos: u32, ended: bool) {
        self.0.lock().push(format!("up to {pos}{}", if ended { ", the end" } else { "" }));
    }

    fn lost(&self) {
        self.0.lock().push("lost".into());
    }
}

fn run(number: u64) -> RunId {
    RunId::new(0, Timestamp::default(), number)
}

/// The results of steps, of so many bytes each, from a position on.
fn results(pos: u32, sizes: &[usize]) -> Vec<Entry> {
    let body = |size: usize| Some(Payload { codec: None, bytes: Bytes::from(vec![b'0'; size]) });
    let entry = |(at, size): (u32, &usize)| Entry { body: body(*size), ..step(at, "") };
    (pos..).zip(sizes).map(entry).collect()
}

fn waiting(run: RunId, entries: Vec<Entry>) -> Waiting {
    let upto = entries.last().map_or(0, |entry| entry.pos);
    let commit = Box::new(RunCommit { entries, ..RunCommit::new(run, 1) });
    Waiting { commit, upto, who: Arc::new(Heard::default()), refused: false }
}

/// The next batch, which is through at once.
fn through(gathered: &mut Gathered) -> Vec<Waiting> {
    let batch = gathered.take(1);
    gathered.come_back(batch.iter().map(|waiting| waiting.commit.run));
    batch
}

/// Everything that waits, batch by batch: of each run its number and positions.
fn batches(mut gathered: Gathered) -> Vec<Vec<(RunId, Vec<u32>)>> {
    let of = |waiting: &Waiting| {
        let positions = waiting.commit.entries.iter().map(|entry| entry.pos).collect();
        (waiting.commit.run, positions)
    };
    let take = || through(&mut gathered);
    std::iter::repeat_with(take)
        .take_while(|batch| !batch.is_empty())
        .map(|b| b.iter().map(of).collect())
        .collect()
}

const MB: usize = 1 << 20;

#[test]
fn small_commits_share_a_batch_and_big_ones_wait_for_the_next() {
    let mut gathered = Gathered::default();
    for (number, size) in [MB, MB, 3 * MB, 10, 10].into_iter().enumerate() {
        gathered.add(waiting(run(number as u64), results(1, &[size])));
    }
    let batches = batches(gathered);
    let runs: Vec<Vec<RunId>> = batches.iter().map(|b| b.iter().map(|(run, _)| *run).collect()).collect();
    assert_eq!(runs, [vec![run(0), run(1)], vec![run(2), run(3), run(4)]]);
}

#[test]
fn no_batch_has_more_runs_than_its_bound() {
    let mut gathered = Gathered::default();
    (0..BATCH as u64 + 1).for_each(|number| gathered.add(waiting(run(number), results(1, &[1]))));
    let sizes: Vec<usize> = batches(gathered).iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, 1]);
}

#[test]
fn what_is_too_much_for_one_batch_goes_in_several_in_order_and_the_end_goes_last() {
    let mut gathered = Gathered::default();
    let mut big = waiting(run(1), results(1, &[MB, 2 * MB, 2 * MB, MB, 5 * MB]));
    big.commit.next = Some(Next::Release);
    gathered.add(big);
    gathered.add(waiting(run(2), results(1, &[1])));

    let first = through(&mut gathered);
    assert_eq!((first.len(), first[0].upto), (1, 2), "its run hears of what is durable, and of no more");
    assert!(first[0].commit.next.is_none(), "the turn ends with the last of it");
    // What the run records meanwhile comes behind the rest.
    gathered.add(waiting(run(1), results(6, &[1])));
    let second = through(&mut gathered);
    let positions: Vec<u32> = second[0].commit.entries.iter().map(|entry| entry.pos).collect();
    assert_eq!((positions, second[0].upto), (vec![3, 4], 4));
    assert!(second[0].commit.next.is_none());
    let third = through(&mut gathered);
    assert_eq!(
        (third[0].commit.entries.len(), third[0].upto),
        (1, 5),
        "more than a batch, and yet it has to go"
    );
    let last = through(&mut gathered);
    assert_eq!((last.len(), last[0].commit.run, last[0].upto), (2, run(1), 6));
    assert_eq!(last[0].commit.next, Some(Next::Release));
}

#[test]
fn what_a_run_records_while_its_batch_is_on_its_way_waits_for_that() {
    let mut gathered = Gathered::default();
    gathered.add(waiting(run(1), results(1, &[1])));
    gathered.add(waiting(run(2), results(1, &[1])));
    let first = gathered.take(1);
    assert_eq!(first.len(), 2);
    gathered.add(waiting(run(2), results(2, &[1])));
    gathered.add(waiting(run(3), results(1, &[1])));
    let runs = |batch: Vec<Waiting>| batch.iter().map(|waiting| waiting.commit.run).collect::<Vec<_>>();
    assert_eq!(runs(gathered.take(1)), [run(3)]);
    assert!(gathered.take(1).is_empty());
    gathered.come_back(first.iter().map(|waiting| waiting.commit.run));
    assert_eq!(runs(gathered.take(1)), [run(2)]);
}

#[test]
fn no_batch_goes_before_it_is_worth_it() {
    let mut gathered = Gathered::default();
    gathered.add(waiting(run(1), results(1, &[1])));
    assert!(gathered.take(2).is_empty());
    gathered.add(waiting(run(2), results(1, &[1])));
    assert_eq!(gathered.take(2).len(), 2);
}

#[test]
fn what_belongs_to_messages_is_never_split() {
    let mut gathered = Gathered::default();
    let mut entries = results(1, &[3 * MB, 3 * MB]);
    entries.iter_mut().for_each(|entry| entry.op = Op::Event);
    gathered.add(waiting(run(1), entries));
    assert_eq!(batches(gathered), [[(run(1), vec![1, 2])]]);
}

#[test]
fn of_many_heartbeats_and_tags_the_last_word_is_kept() {
    let mut gathered = Gathered::default();
    let beat = |name: &str, n: u32| Doing { name: name.into(), attempt: n, ..Doing::default() };
    for n in 0..10_000 {
        let mut more = waiting(run(1), Vec::new());
        more.commit.doing = vec![beat("copy", n), beat("upload", n)];
        more.commit.tags = vec![("phase".into(), n.to_string())];
        gathered.add(more);
    }
    let taken = gathered.take(1).remove(0).commit;
    assert_eq!(taken.doing, [beat("copy", 9999), beat("upload", 9999)]);
    assert_eq!(taken.tags, [("phase".to_owned(), "9999".to_owned())]);
}

#[tokio::test]
async fn what_follows_a_refused_commit_is_dropped_with_it() {
    // A node that never joined is refused everything.
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    let client = Client::new(store.clone(), Limits::default(), Registry::default(), true, None);
    let (registry, states) = (Registry::default(), States::default());
    let engine =
        Engine::new(store, registry, Vec::new(), states, Settings::default(), Limits::default(), client);

    let lane = Arc::new(Lane { shard: 0, gathered: Mutex::default(), more: Notify::new() });
    let heard = Arc::new(Heard::default());
    let first = Waiting { who: heard.clone(), ..waiting(run(1), results(1, &[1])) };
    let mut newer = waiting(run(2), results(2, &[1]));
    newer.commit.epoch = 2;
    for later in [waiting(run(1), results(2, &[1])), newer, waiting(run(3), results(1, &[1]))] {
        lane.gathered.lock().add(later);
    }
    let batch = vec![first, waiting(run(2), results(1, &[1]))];
    commit_batch(engine.clone(), lane.clone(), batch).await;

    assert_eq!(*heard.0.lock(), ["lost"]);
    let left = batches(std::mem::take(&mut lane.gathered.lock()));
    assert_eq!(left, [[(run(2), vec![2]), (run(3), vec![1])]], "of another epoch, and of another run");
}

#[test]
fn what_a_run_recorded_after_something_that_was_refused_is_dropped() {
    let lane = Lane { shard: 0, gathered: Mutex::default(), more: Notify::new() };
    lane.gathered.lock().add(waiting(run(1), results(2, &[1])));
    lane.put_back(vec![Waiting { refused: true, ..waiting(run(1), Vec::new()) }]);
    lane.gathered.lock().add(waiting(run(1), results(3, &[1])));
    let left = batches(std::mem::take(&mut lane.gathered.lock()));
    assert_eq!(left, [[(run(1), Vec::new())]]);
}

#[test]
fn a_commit_of_a_newer_epoch_takes_the_place_of_the_older_one() {
    let (mut gathered, heard) = (Gathered::default(), Arc::new(Heard::default()));
    gathered.add(Waiting { who: heard.clone(), ..waiting(run(1), results(4, &[1])) });
    let mut newer = waiting(run(1), results(2, &[1]));
    newer.commit.epoch = 2;
    gathered.add(newer);
    assert_eq!(*heard.0.lock(), ["lost"]);
    assert_eq!(batches(gathered), [[(run(1), vec![2])]]);
}

#[test]
fn a_commit_of_an_older_epoch_does_not_drive_out_the_newer_one() {
    let lane = Lane { shard: 0, gathered: Mutex::default(), more: Notify::new() };
    let (newer, stray) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
    let of = |epoch, heard: &Arc<Heard>| {
        let mut waiting = Waiting { who: heard.clone(), ..waiting(run(1), results(1, &[1])) };
        waiting.commit.epoch = epoch;
        waiting
    };
    lane.gathered.lock().add(of(2, &newer));
    lane.gathered.lock().add(of(1, &stray));
    assert_eq!((newer.0.lock().len(), &stray.0.lock()[..]), (0, &["lost".to_owned()][..]));
    let taken = lane.gathered.lock().take(1);
    lane.gathered.lock().add(of(1, &stray));
    lane.put_back(taken);
    assert_eq!((newer.0.lock().len(), stray.0.lock().len()), (0, 2), "nor while the newer one is on its way");
    assert_eq!(lane.gathered.lock().take(1).remove(0).commit.epoch, 2);
}

#[test]
fn what_others_locks_held_up_comes_before_what_its_run_recorded_since() {
    let lane = Lane { shard: 0, gathered: Mutex::default(), more: Notify::new() };
    lane.gathered.lock().add(waiting(run(3), results(1, &[1])));
    lane.gathered.lock().add(waiting(run(1), results(2, &[1])));
    lane.put_back(vec![waiting(run(1), results(1, &[1])), waiting(run(2), results(1, &[1]))]);
    let left = batches(std::mem::take(&mut lane.gathered.lock()));
    let order: Vec<RunId> = left[0].iter().map(|(run, _)| *run).collect();
    assert_eq!(order, [run(2), run(3), run(1)]);
    assert_eq!(left[0][2].1, [1, 2], "in the order in which they were recorded");
}

#[test]
fn what_others_locks_held_up_does_not_drag_a_newer_epoch_along() {
    let (lane, heard) =
        (Lane { shard: 0, gathered: Mutex::default(), more: Notify::new() }, Arc::new(Heard::default()));
    let mut newer = waiting(run(1), results(2, &[1]));
    newer.commit.epoch = 2;
    lane.gathered.lock().add(newer);
    lane.put_back(vec![Waiting { who: heard.clone(), ..waiting(run(1), results(3, &[1])) }]);
    assert_eq!(*heard.0.lock(), ["lost"]);
    let left = lane.gathered.lock().take(1).remove(0).commit;
    assert_eq!((left.epoch, left.entries), (2, results(2, &[1])));
}
