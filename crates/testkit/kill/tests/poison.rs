//! Processes that die of what they run, again and again.

use outlast_kill::{Death, Poison};

async fn dies_of(death: Death) {
    let report = Poison { death, victim: env!("CARGO_BIN_EXE_victim").into() }.run().await.unwrap();
    assert!(report.error.starts_with("poison: "), "{report:?}");
    // Four that others may have killed, and one that nobody else can have.
    assert!((5..=6).contains(&report.deaths), "{report:?}");
    assert_eq!(report.paid, 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_aborts_its_process_fails_as_poison_and_innocents_do_not_pay() {
    dies_of(Death::Abort).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_overflows_its_stack_fails_as_poison_and_innocents_do_not_pay() {
    dies_of(Death::Overflow).await;
}
