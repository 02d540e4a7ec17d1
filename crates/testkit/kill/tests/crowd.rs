//! Limits and schedules with eight nodes of which one after another is killed; on SQLite with its one owner.

use outlast_kill::Crowd;
use outlast_testkit::{TestDatabase, skipped};

async fn kill_in_the_crowd(database_url: String) {
    let seed = fastrand::u64(..);
    let report = Crowd { seed, database_url, victim: env!("CARGO_BIN_EXE_victim").into() }.run().await;
    let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    println!("{report}");
    assert!(report.violations.is_empty(), "seed {seed}:\n{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_and_no_time_is_missed_although_the_owner_of_the_file_is_killed_with_slots_in_hand() {
    let folder = tempfile::tempdir().unwrap();
    kill_in_the_crowd(format!("sqlite://{}", folder.path().join("crowd.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_and_every_time_starts_one_run_although_eight_nodes_are_killed_with_slots_in_hand() {
    if skipped() {
        return;
    }
    let database = TestDatabase::create("outlast_empty", async |_| Ok(())).await.unwrap();
    kill_in_the_crowd(database.url().to_owned()).await;
}
