//! Commands about all runs that fit a filter, with the real binary.

#![allow(missing_docs, reason = "tests")]

mod support;

use std::process::{Command, Stdio};

use outlast::prelude::*;
use serde_json::Value;

use crate::support::{Shop, until};

/// Fails at its first attempt.
fn broken() -> Job<u32, (), AnyError> {
    Job::new("broken", |_: JobCtx, _: u32| async { Err::<(), _>(AnyError::new("broken")) })
        .retry(Retry::never())
}

/// Does something to the shop's database as a process of its own would, which is gone afterwards.
fn meanwhile<T>(url: &str, what: impl AsyncFnOnce(&App) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let app = Outlast::open(url).await.unwrap().job(broken()).run().await.unwrap();
        let done = what(&app).await;
        app.shutdown(5.seconds()).await.unwrap();
        done
    })
}

/// A shop with jobs that failed, one of them of a kind for which another stands, and some for tomorrow. No node is up.
fn quiet(shop: &Shop, url: &str) {
    meanwhile(url, async |app| {
        let taken = app.start(broken(), 0).unique(Unique::by_key("k")).await.unwrap();
        taken.result().await.unwrap_err();
        app.start(broken(), 0).unique(Unique::by_key("k")).delay(1.day()).await.unwrap();
        for run in app.start_many(broken(), 1..4).await.unwrap() {
            run.result().await.unwrap_err();
        }
        app.start_many(broken(), 4..130).delay(1.day()).await.unwrap();
    });
    assert!(shop.ok(&["list", "nodes", "-o", "name"]).is_empty());
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn where_no_node_is_up_the_command_does_it_itself() {
    let shop = Shop::new();
    let url = format!("sqlite://{}", shop.folder().join("outlast.db").display());
    quiet(&shop, &url);
    acts_alone(&shop);
}

#[test]
fn where_no_node_is_up_the_command_does_it_itself_on_postgres() {
    if outlast_testkit::skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = outlast_testkit::TestDatabase::create("empty", async |_| Ok(()));
    let database = runtime.block_on(database).unwrap();
    let shop = Shop::at(database.url());
    quiet(&shop, database.url());
    acts_alone(&shop);
}

fn acts_alone(shop: &Shop) {
    let dry = json(&shop.ok(&["retry", "--filter", "def:broken", "--dry-run", "-o", "json"]));
    assert_eq!(
        (dry["acts"].as_u64(), dry["stays"].as_u64(), dry["is_all"].as_bool()),
        (Some(4), Some(0), Some(true))
    );
    assert_eq!(dry["runs"][0]["does"], serde_json::json!({ "would_run_again": ["broken"] }));

    // One of them cannot be tried again, which is no reason not to try the others.
    let answer = shop.run(&["retry", "--filter", "def:broken", "--yes"]);
    assert_eq!((answer.code, &*answer.out), (8, "3 runs ready to be tried again\n"), "{answer:?}");
    assert!(answer.err.contains("was to be the only one of its kind"), "{answer:?}");
    assert!(
        answer.err.contains("1 run could not be acted on: ") && answer.err.contains("(partly_failed)"),
        "{answer:?}"
    );

    let answer = json(&shop.ok(&["cancel", "--all", "--reason", "moving house", "--yes", "-o", "json"]));
    assert_eq!((answer["done"].as_u64(), answer["failed"].as_u64()), (Some(130), Some(0)), "{answer}");
    assert_eq!(answer["status"], "completed");
    // Those that ran before are asked, and end when somebody is there who knows them.
    assert_eq!(shop.ok(&["list", "status:ready", "-o", "name"]).lines().count(), 3);
    let run = shop.ok(&["list", "status:cancelled", "-n", "1", "-o", "name"]);
    assert_eq!(shop.show(run.trim())["error"]["message"], "cancelled: moving house");
    let bulks = shop.ok(&["list", "def:outlast.bulk", "status:completed", "-o", "name"]);
    assert_eq!(bulks.lines().count(), 2, "a bulk is a run like any other");
    assert!(!shop.ok(&["list", "definitions"]).contains("outlast."), "but no definition of theirs");

    // What has ended goes, and the rest stays.
    let refused = shop.refused(&["delete", "--filter", "def:broken"], 2);
    assert!(refused.contains("128 runs would be deleted: say --yes if that is meant"), "{refused}");
    let told = shop.ok(&["delete", "--filter", "def:broken", "--reason", "moving house", "--yes"]);
    assert_eq!(told, "128 runs deleted\n");
    assert_eq!(shop.ok(&["list", "def:broken", "-o", "name", "-n", "500"]).lines().count(), 3);
}

#[test]
fn where_a_node_is_up_it_does_it_and_the_command_follows() {
    let shop = Shop::new();
    let _dev = shop.dev();
    for key in ["a", "b", "c"] {
        shop.ok(&["start", "heartbeat", "--key", key, "--input", "0"]);
    }
    let refused = shop.refused(&["cancel", "--filter", "def:heartbeat"], 2);
    assert!(refused.contains("4 runs would be asked to stop: say --yes if that is meant"), "{refused}");
    let dry = shop.run(&["cancel", "--filter", "def:heartbeat key:a", "--dry-run"]);
    assert!(dry.out.contains("is asked to stop"), "{dry:?}");
    assert!(
        dry.err.ends_with("1 run would be asked to stop, 0 would stay as they are; nothing was changed\n"),
        "{dry:?}"
    );

    let told = shop.ok(&["cancel", "--filter", "def:heartbeat", "--reason", "quiet please", "--yes"]);
    assert_eq!(told, "4 runs asked to stop\n");
    for key in ["a", "b", "c"] {
        let run = shop.until_status(&format!("heartbeat/{key}"), "cancelled");
        assert_eq!(run["error"]["message"], "cancelled: quiet please");
    }
    let id = shop.ok(&["cancel", "--filter", "def:remind", "--yes", "--no-wait"]);
    assert_eq!(json(&shop.ok(&["wait", id.trim()]))["done"], 1);
}

#[test]
fn a_retry_and_a_resume_of_many_say_why() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    dev.until_told("The HTTP API is at");
    let told = dev.told();
    let line = told.lines().find(|line| line.contains("The HTTP API is at")).unwrap();
    let url = line.split_whitespace().last().unwrap().to_owned();
    for (key, place) in [("a", &[][..]), ("b", &["--url", &url][..])] {
        let run = format!("pay_invoice/{key}");
        shop.run(&["start", "pay_invoice", "--key", key, "--input", "\"invoice 9\"", "--wait"]);
        let filter = format!("def:pay_invoice key:{key}");
        let retry = ["retry", "--filter", &filter, "--reason", "the bank is up", "--yes", "--no-wait"];
        let bulk = shop.ok(&[&retry, place].concat());
        assert_eq!(json(&shop.ok(&["wait", bulk.trim()]))["done"], 1);
        assert_eq!(shop.show(bulk.trim())["input"]["reason"], "the bank is up");
        shop.until_status(&run, "failed");
        assert!(shop.ok(&["show", &run]).contains("the bank is up"), "{}", shop.ok(&["show", &run]));

        let filter = format!("def:heartbeat key:{key}");
        shop.ok(&["start", "heartbeat", "--key", key, "--input", "0", "--delay", "1h"]);
        shop.ok(&["pause", &format!("heartbeat/{key}")]);
        let resume = ["resume", "--filter", &filter, "--reason", "it is over", "--yes", "--no-wait"];
        let bulk = shop.ok(&[&resume, place].concat());
        assert_eq!(json(&shop.ok(&["wait", bulk.trim()]))["done"], 1);
        assert_eq!(shop.show(bulk.trim())["input"]["reason"], "it is over");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let shop = Shop::new();
    let _dev = shop.dev();
    for (args, told) in [
        (
            &["cancel", "--filter", " "][..],
            "the filter is empty: say what to cancel, such as def:mail, or --all",
        ),
        (&["cancel", "--filter", "colour:red", "--yes"], "status:, def:, queue:"),
        (&["cancel", "--filter", "status:failed", "--yes"], "there is nothing to cancel in others"),
        (&["cancel", "--filter", "def:order", "--all"], "cannot be used with"),
        (&["cancel", "--yes"], "ID"),
    ] {
        let refused = shop.refused(args, 2);
        assert!(refused.contains(told), "{args:?}: {refused}");
    }
}

#[cfg(unix)]
#[test]
fn a_command_that_is_interrupted_says_how_to_go_on_and_stops_nothing() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["queue", "pause", "outlast"]);
    let mut command = shop.command(&["cancel", "--filter", "def:heartbeat", "--yes"]);
    let mut command = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let id = until("the bulk is there", || {
        let id = shop.ok(&["list", "def:outlast.bulk", "-o", "name"]).trim().to_owned();
        (!id.is_empty()).then_some(id)
    });
    until("the command ends", || {
        let _ = Command::new("kill").arg("-INT").arg(command.id().to_string()).status();
        command.try_wait().unwrap()
    });
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("{id} goes on")) && told.contains(&format!("cancel {id}")), "{told}");
    shop.ok(&["queue", "resume", "outlast"]);
    shop.until_status("heartbeat/shop", "cancelled");
}

/// At a terminal, which `script` makes.
#[cfg(target_os = "linux")]
#[test]
fn whoever_presses_ctrl_c_at_the_question_changes_nothing_and_gets_130() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let shop = Shop::new();
    // Somebody has to be there to whom it could be done: else nobody is asked.
    let dev = shop.dev_with(&["--port", "0"]);
    shop.ok(&["start", "ship", "--input", "\"tea\"", "--delay", "1h"]);
    dev.signal("TERM");
    dev.end();
    let command = format!("{} cancel --all", env!("CARGO_BIN_EXE_outlast"));
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &command, "/dev/null"]).current_dir(shop.folder());
    terminal.env("XDG_CONFIG_HOME", shop.folder().join(".config")).env_remove("OUTLAST_DATABASE_URL");
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = terminal.stdout.take().unwrap();
    let (mut told, mut part) = (Vec::new(), [0; 256]);
    // The question ends no line.
    while !told.ends_with(b"[y/N] ") {
        let read = out.read(&mut part).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&told));
        told.extend(&part[..read]);
    }
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    out.read_to_end(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert_eq!(terminal.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.contains("nothing was changed"), "{told}");
}
