//! Every example runs and says what it promises.

#![allow(missing_docs, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example that was built together with this test; gives what it printed.
fn run(name: &str) -> String {
    let mut path: PathBuf = std::env::current_exe().expect("this test has a path");
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} was not built: cargo test builds it together with the tests", path.display());
    let output = Command::new(path).output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn hello_greets() {
    assert_eq!(run("hello"), "Hello, world!\n");
}

#[test]
fn approval_pays_the_good_order_and_refuses_the_bad_one() {
    let text = run("approval");
    assert!(
        text.contains("order 1 paid, approved by Ada") && text.contains("order 2 was refused by Grace"),
        "{text}"
    );
    assert_eq!(text.matches("charging").count(), 1, "{text}");
}

#[test]
fn fan_out_adds_everything_up() {
    assert_eq!(run("fan_out"), "5050 words on 100 pages\n");
}

#[test]
fn transaction_moves_the_money_once() {
    let text = run("transaction");
    assert!(
        text.contains("alice has 700 cents left") && text.contains("moved nothing: not enough money"),
        "{text}"
    );
}

#[cfg(feature = "rusqlite")]
#[test]
fn in_your_transaction_starts_what_commits() {
    let text = run("in_your_transaction");
    assert!(text.contains("committed: the parcel of order 1 is on its way"), "{text}");
    assert!(
        text.contains("rolled back: 1 order is left, and there is no run ship with key \"order-2\""),
        "{text}"
    );
}

#[test]
fn crash_and_resume_does_not_repeat_the_recorded_step() {
    let text = run("crash_and_resume");
    assert_eq!(text.matches("flying").count(), 1, "{text}");
    assert_eq!(text.matches("checking in").count(), 2, "{text}");
    assert!(text.contains("done: Oslo to Rome"), "{text}");
}
