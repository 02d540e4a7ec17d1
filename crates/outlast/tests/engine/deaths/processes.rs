//! The same with real processes, which are killed where they stand: at some of the writes, since each takes a while.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use outlast::prelude::*;
use outlast_store::{OpenOptions, open};
use outlast_testkit::{Death, StoreKind, Watched, World, skipped};

use super::told::Told;
use super::trip::{Book, End, Process, guide, trip};
use super::{MOMENTS, WRITES, all};
use crate::harness::bounded;

/// What the process that dies is told, beside where and what.
const URL: &str = "OUTLAST_TRIP_URL";
const KEY: &str = "OUTLAST_TRIP_KEY";
const BOOK: &str = "OUTLAST_TRIP_BOOK";
const DEATH: &str = "OUTLAST_TRIP_DEATH";

/// Every so many writes there is a death.
const STRIDE: u32 = 3;

/// The process that dies: this program, told to run this test alone. For everybody else it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_until_it_is_killed() {
    let told = |name| std::env::var(name).ok();
    let (Some(url), Some(key), Some(book)) = (told(URL), told(KEY), told(BOOK)) else { return };
    let options = OpenOptions { no_migrate: true, ..OpenOptions::default() };
    let store = Watched::over(open(&url, options).await.unwrap());
    let death =
        told(DEATH).and_then(|death| death.split_once(' ').map(|(m, n)| (m.to_owned(), n.parse().unwrap())));
    match death {
        Some((moment, n)) if moment == "before" => store.dies(Death::Before(n)),
        Some((_, n)) => store.dies(Death::After(n)),
        None => {}
    }
    let process = Process { book: Book(book.into()), store: store.clone(), pause: Duration::from_millis(20) };
    let app = Outlast::on(store.clone()).workflow(trip()).workflow(guide()).state(process);
    let work = async {
        let app = app.run().await.unwrap();
        let run = app.start(trip(), End::Fails).key(key).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "no money");
    };
    let word = tokio::select! {
        () = work => "over",
        () = store.died() => "dead",
    };
    println!("\n{word}");
    std::future::pending().await
}

/// A process that is killed when it says that it is dead, or that all is over, or when nobody wants it any more.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a process until it says how it is. `true` when it died.
fn dies(told: &Told, death: Option<Death>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "deaths::processes::works_until_it_is_killed", "--nocapture"]);
    command.env(URL, told.world.url()).env(KEY, &told.key).env(BOOK, &told.book.0);
    match death {
        Some(Death::Before(n)) => command.env(DEATH, format!("before {n}")),
        Some(Death::After(n)) => command.env(DEATH, format!("after {n}")),
        None => command.env_remove(DEATH),
    };
    let mut child = Victim(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let out = BufReader::new(child.0.stdout.take().unwrap());
    let word = out.lines().map_while(Result::ok).find(|line| line == "dead" || line == "over");
    word.expect("it says how it is") == "dead"
}

async fn process(told: Told, death: Option<Death>) -> (bool, Told) {
    tokio::task::spawn_blocking(move || (dies(&told, death), told)).await.unwrap()
}

/// A trip in a world of its own, with this death.
async fn dies_and_goes_on(kind: StoreKind, death: Death) -> bool {
    let world = World::open(kind, 1).await;
    world.raw("create table debits (run text, call bigint)").await;
    let mut told = Told::new(&world, "trip");
    let died;
    (died, told) = process(told, Some(death)).await;
    if died {
        told.dig().await;
        // As if its lease were over: that takes longer than all the rest.
        for leases in ["nodes", "leases"] {
            world.raw(&format!("update outlast.{leases} set lease_until = 0")).await;
        }
        (_, told) = process(told, None).await;
    }
    let how = format!("{death:?}");
    told.check(&all(End::Fails), &how).await;
    let run = told.client.find(told.target()).await.unwrap();
    assert_eq!(told.client.status(run).await.unwrap().status, Status::Failed, "{how}");
    world.invariants().await;
    died
}

async fn killed_here_and_there(kind: StoreKind) {
    let offset = fastrand::u32(..STRIDE);
    let mut trips = FuturesUnordered::new();
    let (mut next, mut deaths) = (1 + offset, 0);
    loop {
        // A few at once: most of the time each waits for another.
        while trips.len() < 4 && next <= WRITES {
            trips.push(dies_and_goes_on(kind, MOMENTS[next as usize % 2](next)));
            next += STRIDE;
        }
        match trips.next().await {
            Some(true) => deaths += 1,
            // It came to its end before that write, and so do all that come later.
            Some(false) => next = WRITES + 1,
            None => break,
        }
    }
    assert!(deaths >= 4, "{deaths} deaths, from write {}", 1 + offset);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_between_two_commits_of_a_saga_on_sqlite_keeps_every_promise() {
    bounded(killed_here_and_there(StoreKind::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_between_two_commits_of_a_saga_on_postgres_keeps_every_promise() {
    if !skipped() {
        bounded(killed_here_and_there(StoreKind::Postgres)).await;
    }
}
