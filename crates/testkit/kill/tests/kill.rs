//! A few kills with every change; `cargo xtask kill` does many.

use outlast_kill::Supervisor;
use outlast_testkit::{TestDatabase, skipped};

const KILLS: u32 = 8;
/// So few kills may all come where no body is at work: then others are tried.
const TRIES: usize = 4;

/// Whether a kill came between what a body did and its record.
async fn kill_nodes_of(database_url: String) -> bool {
    let seed = fastrand::u64(..);
    let victim = env!("CARGO_BIN_EXE_victim").into();
    let report = Supervisor { seed, kills: KILLS, database_url, victim }.run().await;
    let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    println!("{report}");
    assert!(report.violations.is_empty(), "seed {seed}:\n{report}");
    report.repeated > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_owner_is_killed_again_and_again_loses_nothing_and_repeats_no_record() {
    for _ in 0..TRIES {
        let folder = tempfile::tempdir().unwrap();
        if kill_nodes_of(format!("sqlite://{}", folder.path().join("kill.db").display())).await {
            return;
        }
    }
    panic!("no kill hit a body at work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_postgres_that_are_killed_one_by_one_and_together_lose_nothing_and_repeat_no_record() {
    if skipped() {
        return;
    }
    for _ in 0..TRIES {
        // Empty, so that the schema is made under fire too.
        let database = TestDatabase::create("outlast_empty", async |_| Ok(())).await.unwrap();
        if kill_nodes_of(database.url().to_owned()).await {
            return;
        }
    }
    panic!("no kill hit a body at work");
}
