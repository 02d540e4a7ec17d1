//! Races that only PostgreSQL has, where transactions run side by side.
//!
//! In the cluster that `cargo xtask test` starts, with one shard and with four.

#[path = "../transitions/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlast_core::{NodeId, RunId, Status};
use outlast_store::*;
use tokio::task::JoinSet;
use tokio_postgres::config::Host;
use tokio_postgres::{Config, NoTls};

use world::*;

/// Tells a story in a database of its own.
async fn told(story: impl AsyncFn(Arc<World>)) {
    if std::env::var("OUTLAST_SKIP_POSTGRES").is_ok_and(|value| value == "1") {
        return;
    }
    let told = std::env::var("OUTLAST_TEST_POSTGRES");
    let told = told.expect("there is no PostgreSQL to test with: run cargo xtask test");
    let config: Config = told.parse().expect("OUTLAST_TEST_POSTGRES is a connection string");
    let (admin, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let host = match &config.get_hosts()[0] {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string().replace('/', "%2F"),
    };
    let (user, port) = (config.get_user().unwrap(), config.get_ports().first().unwrap_or(&5432));
    for shards in [1, 4] {
        let name = format!("d_{:016x}", fastrand::u64(..));
        admin.batch_execute(&format!("create database {name} template template0")).await.unwrap();
        let options = OpenOptions { shards, ..OpenOptions::default() };
        let world = World::open(&format!("postgres://{user}@{host}:{port}/{name}"), options).await;
        story(Arc::new(world)).await;
        admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    }
}

/// A commit that may have to be carried on to later batches.
async fn commit(world: &World, node: NodeId, run: RunCommit) -> Committed {
    let batch = Arc::new(Batch { node, shard: run.run.shard(), runs: vec![run] });
    for _ in 0..1_000 {
        let answer = world.store.commit(Arc::clone(&batch)).await.unwrap()[0];
        // Now and then the reply gets lost.
        let lost = fastrand::u8(..) < 32;
        match answer {
            Committed::Busy => tokio::time::sleep(Duration::from_millis(2)).await,
            Committed::Done if lost => {}
            answer => return answer,
        }
    }
    panic!("busy for ever")
}

#[tokio::test]
async fn a_row_that_a_user_holds_makes_a_commit_busy_and_nothing_gets_lost() {
    told(async |world: Arc<World>| {
        let (run, sender) = (world.running().await, world.running().await);
        let mut tx = world.store.begin().await.unwrap();
        tx.deliver(&[event(Address::Run(run.id), "hello")]).await.unwrap();

        let suspend = ends(&run, Next::Suspend { wake_at: None, seen: 0 });
        assert_eq!(world.commit(suspend.clone()).await, Committed::Busy);
        let sends = vec![event(Address::Run(run.id), "second")];
        let send = RunCommit { sends, ..records(&sender, &[entry(1, "send")]) };
        assert_eq!(world.commit(send.clone()).await, Committed::Busy);
        assert!(world.journal(sender.id).await.is_empty());
        // A run that only records needs no lock.
        assert_eq!(world.commit(records(&run, &[entry(1, "a")])).await, Committed::Done);

        tx.commit().await.unwrap();
        assert_eq!(world.commit(send).await, Committed::Done);
        assert_eq!(world.commit(suspend).await, Committed::Done);
        assert_eq!(world.view(run.id).await.status, Status::Ready);
        assert_eq!(world.inbox(run.id).await, ["1:hello", "2:second"]);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_a_user_holds_does_not_stop_a_takeover_or_a_renewal() {
    told(async |world: Arc<World>| {
        let (held, free) = (world.running().await, world.running().await);
        let mut tx = world.store.begin().await.unwrap();
        tx.deliver(&[event(Address::Run(held.id), "hello")]).await.unwrap();

        let ask = Renew { node: world.node, lease: LEASE, settled: 99, known: Vec::new() };
        assert_eq!(world.store.renew(&ask).await.unwrap().freed, 1);
        let again = world.claim_of(free.id).await;
        world.pass(LEASE * 2);
        let other = world.join(2).await;
        let freed: u64 = world.sweep().await.iter().map(|swept| swept.freed).sum();
        assert_eq!(freed, 1);
        tx.commit().await.unwrap();
        let freed: u64 = world.sweep().await.iter().map(|swept| swept.freed).sum();
        assert_eq!(freed, 1);
        assert_eq!(world.commit(records(&again, &[entry(1, "late")])).await, Committed::LeaseLost);
        let ask = Claim { node: other, ..world.ask(held.id.shard()) };
        let claimed = world.store.claim(&ask).await.unwrap().runs;
        let held = claimed.iter().find(|run| run.id == held.id).unwrap();
        assert_eq!((held.inbox.len(), held.crashes, held.epoch), (1, 1, 3));
    })
    .await;
}

#[tokio::test]
async fn one_of_many_starts_with_one_key_wins_and_messages_find_it() {
    told(async |world: Arc<World>| {
        let mut starts = JoinSet::new();
        for n in 0..40 {
            let world = Arc::clone(&world);
            starts.spawn(async move {
                if n % 4 == 0 {
                    let Delivered::Done { run } = world.deliver(event(by_key("k"), "e")).await else {
                        panic!()
                    };
                    return (run, false);
                }
                let input = json(if n % 4 == 1 { "1" } else { "2" });
                let run = NewRun { input, ..world.keyed("k") };
                match world.store.start(&[run], None).await.unwrap().remove(0) {
                    Started::Created { id, .. } => (id, true),
                    Started::Existing { id } | Started::Conflict { id } | Started::Taken { id } => {
                        (id, false)
                    }
                }
            });
        }
        let all = starts.join_all().await;
        assert!(all.iter().all(|(id, _)| *id == all[0].0), "one id: {all:?}");
        assert_eq!(all.iter().filter(|(_, created)| *created).count(), 1);
        assert_eq!(world.claim_of(all[0].0).await.inbox.len(), 10);
    })
    .await;
}

const RUNS: usize = 12;
const SENDERS: usize = 4;
const EACH: usize = 10;

/// Runs wait for events, senders send them (some twice), three nodes claim, consume and suspend: every
/// event is consumed once, in order, and no run sleeps with news in its inbox.
#[tokio::test(flavor = "multi_thread")]
async fn no_wake_up_gets_lost_in_a_storm() {
    told(async |world: Arc<World>| {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(world.start(&world.greet()).await);
        }
        let mut senders = JoinSet::new();
        for sender in 0..SENDERS {
            let (world, runs) = (Arc::clone(&world), runs.clone());
            senders.spawn(async move {
                for n in 0..EACH {
                    let message = |run: &RunId| event(Address::Run(*run), &format!("{sender}-{n}"));
                    let mut messages: Vec<Delivery> = runs.iter().map(message).collect();
                    fastrand::shuffle(&mut messages);
                    for _ in 0..=fastrand::u8(..2) {
                        let told = world.store.deliver(&messages).await.unwrap();
                        assert!(told.iter().all(|told| matches!(told, Delivered::Done { .. })), "{told:?}");
                    }
                }
            });
        }
        let finished = Arc::new(AtomicUsize::new(0));
        let mut nodes = JoinSet::new();
        for node in 10..13 {
            let node = world.join(node).await;
            let (world, finished) = (Arc::clone(&world), Arc::clone(&finished));
            nodes.spawn(async move {
                while finished.load(Ordering::SeqCst) < RUNS {
                    for shard in 0..world.store.shards() {
                        let ask = Claim { node, limit: 3, ..world.ask(shard) };
                        for run in world.store.claim(&ask).await.unwrap().runs {
                            turn(&world, node, run, &finished).await;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        senders.join_all().await;
        let drained = tokio::time::timeout(Duration::from_secs(60), nodes.join_all()).await;
        assert!(drained.is_ok(), "{} of {RUNS} finished", finished.load(Ordering::SeqCst));

        for run in runs {
            let mut next: HashMap<String, usize> = HashMap::new();
            let entries = world.store.journal(run, 0, 1_000).await.unwrap();
            assert_eq!(entries.len(), SENDERS * EACH);
            for entry in entries {
                let (sender, n) = entry.name.split_once('-').unwrap();
                let expected = next.entry(sender.to_owned()).or_default();
                assert_eq!(n.parse::<usize>().unwrap(), *expected);
                *expected += 1;
            }
        }
    })
    .await;
}

/// Consumes what is in the inbox, then finishes or sleeps.
async fn turn(world: &World, node: NodeId, run: Claimed, finished: &AtomicUsize) {
    let loaded = world.store.load(&[run.id]).await.unwrap().remove(0);
    let known = loaded.entries.len() as u32;
    let entries =
        run.inbox.iter().zip(known + 1..).map(|(news, pos)| entry(pos, &news.name)).collect::<Vec<_>>();
    let ends = known as usize + entries.len() == SENDERS * EACH;
    let next = if ends { completed("1") } else { Next::Suspend { wake_at: None, seen: run.news } };
    let consumed = run.inbox.iter().map(|news| news.seq).collect();
    let commit_all = RunCommit { entries, consumed, next: Some(next), ..quiet(&run) };
    // A repeat can find that somebody else has claimed the suspended run.
    let answer = commit(world, node, commit_all).await;
    assert!(answer == Committed::Done || !ends, "{answer:?}");
    if ends {
        finished.fetch_add(1, Ordering::SeqCst);
    }
}
