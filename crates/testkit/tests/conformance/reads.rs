//! Reads: lists without loss or repeat, journals of any length, and what only looks at things.

use std::sync::Arc;

use outlast_core::{Entry, RunId, Status, Timestamp};
use outlast_store::{Address, Batch, Ended, Filter, Hold, NewRun, Next, RunCommit};
use outlast_testkit::{QUEUE, World, event, key, step, store_test};

use crate::{DAY, MINUTE};

/// Everything that fits, page by page.
async fn listed(world: &World, filter: &Filter, limit: u32) -> Vec<RunId> {
    let mut runs = Vec::new();
    let mut after = None;
    loop {
        let page = world.store().list(filter, after, limit).await.unwrap();
        assert!(page.runs.len() <= limit as usize);
        assert!(page.next.is_none() || page.runs.len() == limit as usize, "a page before the last is full");
        runs.extend(page.runs.iter().map(|run| run.record.id));
        after = page.next;
        if after.is_none() {
            return runs;
        }
    }
}

#[store_test]
async fn pages_of_runs_with_equal_times_lose_and_repeat_nothing(world: World) {
    let runs: Vec<NewRun> = (0..50).map(|_| world.start("greet").asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    let now = world.now().await.micros();
    world.raw(&format!("update outlast.runs set created_at = {now}")).await;
    let early = world.start("greet").await.id;
    world.raw(&format!("update outlast.runs set created_at = 1 where id = {}", world.sql_id(early))).await;
    let late = world.start("greet").await.id;

    let mut wanted: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    wanted.sort_by(|one, other| other.cmp(one));
    wanted.insert(0, late);
    wanted.push(early);
    for limit in [1, 7, 26, 51, 52, 53, 1_000] {
        assert_eq!(listed(&world, &Filter::default(), limit).await, wanted, "{limit} a page");
    }
    wanted.reverse();
    let oldest_first = Filter { oldest_first: true, ..Filter::default() };
    for limit in [1, 7, 26, 51, 52, 53, 1_000] {
        assert_eq!(listed(&world, &oldest_first, limit).await, wanted, "{limit} a page, oldest first");
    }
}

#[store_test]
async fn a_list_stays_in_place_while_runs_are_added(world: World) {
    for _ in 0..6 {
        world.start("greet").await;
    }
    let all = listed(&world, &Filter::default(), 100).await;
    let first = world.store().list(&Filter::default(), None, 3).await.unwrap();
    world.start("greet").await;
    let second = world.store().list(&Filter::default(), first.next, 3).await.unwrap();
    assert_eq!(second.runs.iter().map(|run| run.record.id).collect::<Vec<_>>(), all[3..]);
    assert_eq!(second.next, None);
}

#[store_test]
async fn every_filter_finds_what_fits_and_nothing_else(world: World) {
    let plain = world.start("greet").await.id;
    let before = world.now().await;
    world.pass(MINUTE).await;
    let tenant = world.start("greet").tenant("acme").await.id;
    let queue = world.start("greet").queue("mail").await.id;
    let keyed = world.start_keyed("greet", "k-1").await.id;
    let one_tag = world.start("greet").tag("city", "Bern").await.id;
    let two_tags = world.start("greet").tag("city", "Bern").tag("stage", "paid").await.id;
    let other_tag = world.start("greet").tag("city", "Basel").tag("stage", "Bern").await.id;
    let child = world.start("ship").child_of(plain, "ship").await.id;
    let other = world.start("order").await.id;
    let done = world.start("mail").held_by("node").await;
    done.completed("done").await;
    let running = world.start("mail").held_by("node").await.run;

    let name = |name: &str| Some(name.to_owned());
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let none = Filter::default;
    let since = Some(before + MINUTE);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let unnamed = Filter { statuses: vec![Status::Completed, Status::Running], ..none() };
    let cases: [(Filter, &[RunId]); 25] = [
        (Filter { tenant: name("acme"), ..none() }, &[tenant]),
        (Filter { definition: name("order"), ..none() }, &[other]),
        (Filter { queue: name("mail"), ..none() }, &[queue]),
        (Filter { queues: names(&["mail"]), ..none() }, &[queue]),
        (Filter { queues: names(&["mail", "nobody", "mail"]), ..none() }, &[queue]),
        (Filter { queues: names(&["mail", QUEUE]), ..unnamed.clone() }, &[running, done.run]),
        (Filter { queues: names(&["mail", "nobody"]), ..unnamed }, &[]),
        (Filter { queues: names(&["mail", QUEUE]), queue: name("mail"), ..none() }, &[queue]),
        (Filter { queues: names(&[QUEUE]), queue: name("mail"), ..none() }, &[]),
        (Filter { key: name("k-1"), ..none() }, &[keyed]),
        (Filter { key: name("k-1"), tenant: name(""), definition: name("greet"), ..none() }, &[keyed]),
        (Filter { key: name("k-1"), tenant: name("acme"), definition: name("greet"), ..none() }, &[]),
        (Filter { tags: vec![tag("city", "Bern")], ..none() }, &[two_tags, one_tag]),
        (Filter { tags: vec![tag("city", "Bern"), tag("stage", "paid")], ..none() }, &[two_tags]),
        (Filter { tags: vec![tag("city", "Bern"), tag("city", "Bern")], ..none() }, &[two_tags, one_tag]),
        (Filter { tags: vec![tag("city", "Basel")], definition: name("greet"), ..none() }, &[other_tag]),
        (Filter { tags: vec![tag("Bern", "city")], ..none() }, &[]),
        (Filter { parent: Some(plain), ..none() }, &[child]),
        (Filter { parent: Some(child), ..none() }, &[]),
        (Filter { until: since, ..none() }, &[plain]),
        (Filter { since, definition: name("order"), ..none() }, &[other]),
        (Filter { since, until: Some(Timestamp::from_micros(2)), ..none() }, &[]),
        (Filter { statuses: vec![Status::Completed, Status::Failed], ..none() }, &[done.run]),
        (Filter { statuses: vec![Status::Running], ..none() }, &[running]),
        (
            Filter { statuses: vec![Status::Running, Status::Completed], definition: name("mail"), ..none() },
            &[running, done.run],
        ),
    ];
    for (filter, wanted) in cases {
        for limit in [1, 100] {
            let mut found = listed(&world, &filter, limit).await;
            let mut wanted = wanted.to_vec();
            // Some were started within one microsecond of each other.
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{filter:?}");
        }
    }
    let ready = Filter { statuses: vec![Status::Ready], since, ..none() };
    assert_eq!(listed(&world, &ready, 3).await.len(), 8);
    assert_eq!(listed(&world, &none(), 3).await.len(), 11);
    let both = Filter { queues: names(&[QUEUE, "mail"]), ..none() };
    assert_eq!(listed(&world, &both, 3).await, listed(&world, &none(), 3).await);
    assert_eq!(world.store().count(&both, 100).await.unwrap(), 11);
    assert_eq!(world.store().count(&Filter { queues: names(&["mail"]), ..none() }, 100).await.unwrap(), 1);
    assert_eq!(
        world
            .store()
            .count(&Filter { queues: names(&["mail"]), queue: name("x"), ..none() }, 9)
            .await
            .unwrap(),
        0
    );
}

#[store_test]
async fn runs_are_found_by_node_version_owner_and_end_and_those_that_do_not_get_on(world: World) {
    let minutes = |count: u32| MINUTE * count;
    let waits = world.start("greet").queue("mail").await.id;
    let tried = world.start("order").held_by("a").await.run;
    let often = world.start("order").held_by("b").await.run;
    let ended = world.start("order").held_by("b").await;
    ended.completed("done").await;
    for (run, attempt) in [(tried, 3), (often, 4)] {
        let id = world.sql_id(run);
        world.raw(&format!("update outlast.agenda set attempt = {attempt} where id = {id}")).await;
    }
    let id = world.sql_id(ended.run);
    world.raw(&format!("update outlast.runs set version = 2, owner = 'ann' where id = {id}")).await;
    world.pass(minutes(6)).await;
    let fresh = world.start("greet").await.id;
    let later = world.start("greet").delayed(minutes(1)).await.id;

    let now = world.now().await.micros();
    let ago = |minutes: i64| Some(Timestamp::from_micros(now - minutes * 60_000_000));
    let (a, b) = (world.node("a").await, world.node("b").await);
    let none = Filter::default;
    let cases: [(Filter, &[RunId]); 15] = [
        (Filter { node: Some(a), ..none() }, &[tried]),
        (Filter { node: Some(b), ..none() }, &[often]),
        (Filter { node: Some(b), statuses: vec![Status::Completed], ..none() }, &[]),
        (Filter { version: Some(2), ..none() }, &[ended.run]),
        (Filter { version: Some(1), definition: Some("order".into()), ..none() }, &[tried, often]),
        (Filter { owner: Some("ann".into()), ..none() }, &[ended.run]),
        (Filter { owner: Some("bob".into()), ..none() }, &[]),
        (Filter { stuck_since: ago(5), ..none() }, &[waits, often]),
        (Filter { stuck_since: ago(0), ..none() }, &[waits, often, fresh]),
        (Filter { stuck_since: ago(5), queue: Some("mail".into()), ..none() }, &[waits]),
        (Filter { stuck_since: ago(7), statuses: vec![Status::Ready], ..none() }, &[]),
        // However long before that they were started.
        (Filter { ended_since: ago(7), ..none() }, &[ended.run]),
        (Filter { ended_since: ago(5), ..none() }, &[]),
        (Filter { ended_since: ago(7), statuses: vec![Status::Failed], ..none() }, &[]),
        (Filter { ended_since: ago(7), definition: Some("order".into()), ..none() }, &[ended.run]),
    ];
    for (filter, wanted) in cases {
        for oldest_first in [false, true] {
            let filter = Filter { oldest_first, ..filter.clone() };
            let (mut found, mut wanted) = (listed(&world, &filter, 1).await, wanted.to_vec());
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{filter:?}");
            assert_eq!(world.store().count(&filter, 100).await.unwrap(), wanted.len() as u64, "{filter:?}");
        }
    }
    assert!(!listed(&world, &Filter { stuck_since: ago(-5), ..none() }, 9).await.contains(&tried));
    assert!(!listed(&world, &Filter { stuck_since: ago(0), ..none() }, 9).await.contains(&later));
}

#[store_test]
async fn a_list_is_the_same_whichever_way_finds_it(world: World) {
    // So many that those in a state are found along the time; later so few that they are looked up by their state.
    let (many, node) = (2_100, world.node("node").await);
    let of = |nth: usize| if nth.is_multiple_of(2) { "greet" } else { "mail" };
    let runs: Vec<NewRun> = (0..many).map(|nth| world.start(of(nth)).tag("city", "Bern").asked()).collect();
    for some in runs.chunks(700) {
        world.store().start(some, Some(Hold { node, claim: world.number() })).await.unwrap();
    }
    let same = async |filter: Filter, count: usize| {
        let (mut wanted, mut after) = (Vec::new(), None);
        loop {
            let all = Filter {
                statuses: Vec::new(),
                tags: Vec::new(),
                stuck_since: None,
                ended_since: None,
                node: None,
                ..filter.clone()
            };
            let page = world.store().list(&all, after, 500).await.unwrap();
            let fits = |status| filter.statuses.is_empty() || filter.statuses.contains(&status);
            wanted.extend(page.runs.iter().filter(|run| fits(run.status)).map(|run| run.record.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(wanted.len(), count, "{filter:?}");
        assert_eq!(listed(&world, &filter, 500).await, wanted, "{filter:?}");
        wanted.reverse();
        let oldest_first = Filter { oldest_first: true, ..filter.clone() };
        assert_eq!(listed(&world, &oldest_first, 500).await, wanted, "{filter:?}, oldest first");
        assert_eq!(world.store().count(&filter, 10_000).await.unwrap(), count as u64, "{filter:?}");
        assert_eq!(world.store().count(&filter, 7).await.unwrap(), 7, "{filter:?}");
    };
    let none = Filter::default;
    let tagged = Filter { tags: vec![("city".into(), "Bern".into())], ..none() };
    let (running, failed) = (vec![Status::Running], vec![Status::Failed]);
    same(tagged, many).await;
    same(Filter { statuses: running.clone(), ..none() }, many).await;
    world.raw("update outlast.agenda set attempt = 4").await;
    let stuck = Some(world.now().await);
    same(Filter { stuck_since: stuck, ..none() }, many).await;
    let shards: std::collections::BTreeSet<u16> = runs.iter().map(|run| run.id.shard()).collect();
    for shard in shards {
        let end = |run: &NewRun| {
            let ended = Ended { status: Status::Failed, output: None, error: None };
            RunCommit { next: Some(Next::Finish(ended)), ..RunCommit::new(run.id, 1) }
        };
        // One in thirty goes on.
        let ending = runs.iter().enumerate().filter(|(nth, run)| run.id.shard() == shard && nth % 30 != 0);
        let runs: Vec<RunCommit> = ending.map(|(_, run)| end(run)).collect();
        world.store().commit(Arc::new(Batch { node, shard, runs })).await.unwrap();
    }
    let open = many / 30;
    let stuck = Some(world.now().await);
    same(Filter { stuck_since: stuck, statuses: running.clone(), ..none() }, open).await;
    same(Filter { node: Some(node), statuses: running.clone(), ..none() }, open).await;
    same(Filter { statuses: running, ..none() }, open).await;
    same(Filter { statuses: failed.clone(), ..none() }, many - open).await;
    let ended_since = Some(Timestamp::from_micros(1));
    same(Filter { statuses: failed.clone(), ended_since, ..none() }, many - open).await;
    same(Filter { statuses: failed.clone(), definition: Some("mail".into()), ..none() }, many / 2).await;
    let completed = Status::Completed.code();
    let greets = "select id from outlast.runs where definition = 'greet'";
    world.raw(&format!("update outlast.results set status = {completed} where run in ({greets})")).await;
    same(Filter { statuses: failed.clone(), ..none() }, many / 2).await;
    same(Filter { statuses: failed, definition: Some("mail".into()), ..none() }, many / 2).await;
}

#[store_test]
async fn a_listed_run_shows_all_of_itself(world: World) {
    let turn = world.start("greet").tag("city", "Bern").held_by("node").await;
    world.commit(turn.writes().doing("charge", 2, None)).await;
    world.cancel(turn.run, "enough").await;
    let listed = world.store().list(&Filter::default(), None, 10).await.unwrap().runs.remove(0);
    assert_eq!(listed, world.view(turn.run).await);
    assert_eq!(
        (listed.tags.len(), listed.doing.len(), listed.cancel_reason.as_deref()),
        (1, 1, Some("enough"))
    );
}

#[store_test]
async fn a_long_journal_is_paged_in(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let entries: Vec<Entry> = (1..=2_500).map(|pos| step(pos, &format!("step {pos}"))).collect();
    let mut writing = turn.writes();
    writing.commit.entries = entries.clone();
    world.commit(writing).await;

    let loaded = world.store().load(&[turn.run]).await.unwrap().remove(0);
    assert_eq!((loaded.entries.len(), loaded.more), (1_000, true));
    let mut all = loaded.entries;
    while let Some(last) = all.last().map(|entry| entry.pos).filter(|pos| *pos < 2_500) {
        let page = world.store().journal(turn.run, last, 700).await.unwrap();
        assert!(page.len() <= 700 && !page.is_empty());
        all.extend(page);
    }
    let bare = |entry: &Entry| Entry { at: Timestamp::default(), ..entry.clone() };
    assert_eq!(all.iter().map(bare).collect::<Vec<_>>(), entries);
    assert_eq!(world.store().journal(turn.run, 2_500, 10).await.unwrap(), []);
}

#[store_test]
async fn a_journal_that_just_fits_a_page_does_not_go_on(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut writing = turn.writes();
    writing.commit.entries = (1..=1_000).map(|pos| step(pos, "step")).collect();
    world.commit(writing).await;
    let loaded = world.store().load(&[turn.run]).await.unwrap().remove(0);
    assert_eq!((loaded.entries.len(), loaded.more), (1_000, false));
    world.commit(turn.records(1_001, "one more")).await;
    assert!(world.store().load(&[turn.run]).await.unwrap()[0].more);
}

#[store_test]
async fn many_runs_load_at_once_in_the_order_asked(world: World) {
    let mut runs = Vec::new();
    for n in 0..12 {
        let turn = world.start("greet").input(n).held_by("node").await;
        let mut writing = turn.writes();
        writing.commit.entries = (1..=n).map(|pos| step(pos, "step")).collect();
        world.commit(writing).await;
        runs.push(turn.run);
    }
    let nobody = world.start("greet").asked().id;
    runs.insert(5, nobody);
    runs.swap(0, 9);
    let loaded = world.store().load(&runs).await.unwrap();
    runs.retain(|run| *run != nobody);
    assert_eq!(loaded.iter().map(|loaded| loaded.record.id).collect::<Vec<_>>(), runs);
    for loaded in loaded {
        let n = loaded.record.input.json().unwrap().parse::<usize>().unwrap();
        assert_eq!((loaded.entries.len(), loaded.more), (n, false));
    }
    assert_eq!(world.store().load(&[]).await.unwrap(), []);
}

#[store_test]
async fn an_inbox_is_read_after_what_was_seen(world: World) {
    let (one, two) = (world.start("greet").await.id, world.start("greet").await.id);
    for n in 0..4 {
        world.send(one, "tick", &n.to_string()).await;
        world.send(two, "tick", &n.to_string()).await;
    }
    let news = world.store().inbox(&[(one, 3), (two, 1)]).await.unwrap();
    let seen =
        |run| news.iter().filter(move |(of, _)| *of == run).map(|(_, news)| news.seq).collect::<Vec<_>>();
    assert_eq!((seen(one), seen(two)), (vec![4], vec![2, 3, 4]));
    assert_eq!(world.store().inbox(&[(one, 4)]).await.unwrap(), []);
    assert_eq!(world.store().inbox(&[]).await.unwrap(), []);
}

#[store_test]
async fn an_address_names_a_run_that_exists(world: World) {
    let run = world.start_keyed("order", "o-1").await.id;
    let nobody = world.start("order").asked().id;
    let find = async |address| world.store().find(&address).await.unwrap();
    assert_eq!(find(Address::Run(run)).await, Some(run));
    assert_eq!(find(Address::Run(nobody)).await, None);
    assert_eq!(find(key("order", "o-1")).await, Some(run));
    assert_eq!(find(key("order", "o-2")).await, None);
    world.deliver(&event(key("order", "o-3"), "approval", "yes")).await;
    assert_eq!(find(key("order", "o-3")).await, None);
    assert!(world.store().run(nobody).await.unwrap().is_none());
}

#[store_test]
async fn the_next_due_time_is_found_over_all_shards(world: World) {
    let now = world.now().await;
    for shard in 0..4 {
        let due = outlast_store::Due::At(now + DAY + MINUTE * (4 - u32::from(shard)));
        world.start("greet").shard(shard).due(due).await;
    }
    assert_eq!(world.store().next_due().await.unwrap(), Some(now + DAY + MINUTE));
}

#[store_test]
async fn time_goes_on_and_only_as_far_as_it_is_told(world: World) {
    let before = world.now().await;
    world.pass(DAY).await;
    let after = world.now().await;
    assert!(after.since(before) >= DAY && after.since(before) < DAY + MINUTE);
    assert!(world.second_store().await.now().await.unwrap() >= after, "one clock for all who share it");
}
