//! The main faults with every change, each for a few seconds; `cargo xtask chaos` plays all, for as long as wanted.

use std::time::Duration;

use outlast_kill::{Chaos, Fault};
use outlast_testkit::{TestDatabase, skipped};

async fn play(fault: Fault, seconds: u64) {
    if skipped() {
        return;
    }
    let seed = fastrand::u64(..);
    // Not hurt by those that hurt a server: they bring their own.
    let database = TestDatabase::create("outlast_empty", async |_| Ok(())).await.unwrap();
    let chaos = Chaos {
        fault,
        seed,
        lasts: Duration::from_secs(seconds),
        calm: Duration::ZERO,
        victim: env!("CARGO_BIN_EXE_victim").into(),
        previous: None,
        database_url: Some(database.url().to_owned()),
    };
    let outcome = chaos.run().await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    println!("{outcome}");
    assert!(outcome.report.violations.is_empty(), "seed {seed}:\n{outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_killed_one_by_one_lose_nothing_and_those_that_are_left_take_over() {
    play(Fault::KillOne, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_stopped_for_longer_than_its_lease_changes_nothing_when_it_goes_on() {
    play(Fault::PauseLong, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted_under_load_loses_nothing_and_work_goes_on() {
    play(Fault::RestartImmediate, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_replies_are_lost_happen_once() {
    play(Fault::LostCommits, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_for_longer_than_its_lease_drops_its_work_and_comes_back() {
    play(Fault::CutLong, 6).await;
}
