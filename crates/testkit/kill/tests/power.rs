//! What an SQLite file holds when the power goes in the middle of the work.

#![cfg(target_os = "linux")]

use outlast_kill::{PowerLoss, PowerReport};

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_power_went_at_any_moment() {
    let seed = fastrand::u64(..);
    let report = lose_power(seed, Vec::new()).await;
    // Otherwise it proves nothing.
    assert!(report.hits > 10 && report.acknowledged > 60, "seed {seed}: {report:?}");
}

/// A kernel that could not write something forgets it, and the next sync says that all is well: whoever takes that for an
/// answer has lost it. SQLite gives the transaction up instead, and whatever tries again writes all of it anew.
#[tokio::test]
async fn what_was_acknowledged_is_there_although_the_disk_refused_to_write_and_to_sync() {
    let seed = fastrand::u64(..);
    // Of the writer's thread; whoever opens the file is refused, and says so.
    let refused = ["fsync,fdatasync:error=EIO:when=40+5", "pwrite64:error=EIO:when=900+149"];
    let report = lose_power(seed, refused.map(str::to_owned).into()).await;
    assert!(report.failed_syncs > 5 && report.acknowledged > 60, "seed {seed}: {report:?}");
}

async fn lose_power(seed: u64, refused: Vec<String>) -> PowerReport {
    let runs = if refused.is_empty() { 60 } else { 150 };
    let loss = PowerLoss { seed, runs, losses: 60, refused, scribe: env!("CARGO_BIN_EXE_scribe").into() };
    let report = loss.run().await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    assert!(report.violations.is_empty(), "seed {seed}:\n{}", report.violations.join("\n"));
    report
}
