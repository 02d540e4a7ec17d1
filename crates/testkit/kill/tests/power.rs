//! What an SQLite file holds when the power goes in the middle of the work.

#![cfg(target_os = "linux")]

use outlast_kill::PowerLoss;

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_power_went_at_any_moment() {
    let seed = fastrand::u64(..);
    let loss = PowerLoss { seed, runs: 60, losses: 60, scribe: env!("CARGO_BIN_EXE_scribe").into() };
    let report = loss.run().await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    assert!(report.violations.is_empty(), "seed {seed}:\n{}", report.violations.join("\n"));
    // Otherwise it proves nothing.
    assert!(report.hits > 10 && report.acknowledged > 60, "seed {seed}: {report:?}");
}
