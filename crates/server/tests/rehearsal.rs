//! `--dry-run` and `--yes`, which every command takes, with the real binary: what would be changed is said, and nothing is.

#![allow(missing_docs, reason = "tests")]

mod support;

use serde_json::{Value, json};

use crate::support::Shop;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A shop whose definitions are known, with a run that waits, one that has ended, a schedule and a token. No node is up.
fn quiet() -> Shop {
    let shop = Shop::new();
    let dev = shop.dev();
    shop.ok(&["start", "check_stock", "--key", "old", "--input", "0", "--wait", "--timeout", "60s"]);
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    shop.ok(&[
        "start",
        "order",
        "--key",
        "later",
        "--input",
        r#"{"item":"tea","cents":900}"#,
        "--delay",
        "1h",
    ]);
    shop.ok(&["schedule", "add", "nightly", "0 3 * * *", "check_stock", "--input", "0"]);
    shop.ok(&["token", "create", "ann"]);
    shop
}

/// Everything that could be another afterwards.
fn all(shop: &Shop) -> Vec<Value> {
    let lists = ["list runs -n 500", "list queues", "list schedules", "token list", "audit list -n 500"];
    let mut all: Vec<Value> = lists
        .iter()
        .map(|list| {
            let words: Vec<&str> = list.split(' ').chain(["-o", "json"]).collect();
            json(&shop.ok(&words))
        })
        .collect();
    // How many of a queue are due, and what is left of its rate, time itself changes.
    for queue in all[1]["items"].as_array_mut().unwrap() {
        *queue = json!([queue["name"], queue["state"], queue["since"], queue["rules"], queue["own_rules"]]);
    }
    all.push(json(&shop.ok(&["migrate", "status", "-o", "json"])));
    all
}

/// What each command that changes something would do.
const CHANGES: &[(&str, &str)] = &[
    ("start check_stock --input 0", "a run of check_stock would be started"),
    ("start check_stock --input 0 --key new", "with the key new would be started"),
    ("start check_stock --input 0 --key old", "this key was started before"),
    ("send order/later approval --data true", "event approval would be sent to run_"),
    ("send order/next approval", "kept until a run with this key is started"),
    ("settle order/later receipt", "promise receipt would be settled of run_"),
    ("cancel order/later", "would be asked to stop"),
    ("cancel check_stock/old", "had ended before"),
    ("kill order/later", "would end at once"),
    ("pause order/later", "would be paused"),
    ("resume order/later", "is not paused"),
    ("due order/later", "would go on now"),
    ("delete check_stock/old", "would be deleted"),
    ("delete order/later", "would be deleted, with everything of it, unless it has begun"),
    ("purge --older-than 0s", "would be deleted"),
    ("queue pause default", "default would be paused"),
    ("queue resume default", "default is open already"),
    ("queue drain default", "default would be drained"),
    ("queue limit default --limit 3", "default would have limit 3"),
    ("queue limit default --reset", "default goes by what code says"),
    ("schedule add hourly @hourly check_stock --input 0", "hourly would start check_stock"),
    ("schedule add nightly @hourly check_stock --input 0", "instead of what it does now"),
    ("schedule pause nightly", "nightly would be paused"),
    ("schedule resume nightly", "nightly is not paused"),
    ("schedule trigger nightly", "a run of check_stock would be started"),
    ("schedule delete nightly", "nightly would be deleted"),
    (
        "schedule backfill nightly --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z",
        "nightly has 2 times",
    ),
    ("token create bob --role operator", "bob would be able to use the API as operator"),
    (
        "token create bob --role operator --queue reports --queue mail,mail",
        "as operator in the queues mail, reports for",
    ),
];

#[test]
fn a_dry_run_says_what_would_be_changed_and_changes_nothing() {
    let shop = quiet();
    let before = all(&shop);
    for (command, would) in CHANGES {
        let words: Vec<&str> = command.split(' ').collect();
        // Behind the command and before it, for people and for programs.
        let told = shop.run(&[&words[..], &["--dry-run"]].concat());
        assert_eq!(told.code, 0, "{command}: {told:?}");
        assert!(told.out.contains(would), "{command}: {told:?}");
        assert!(told.err.contains("nothing was changed"), "{command}: {told:?}");
        let told = json(&shop.ok(&[&["--dry-run", "-o", "json"], &words[..]].concat()));
        assert_eq!(told["dry_run"], true, "{command}: {told}");
        assert!(told["would"].as_str().unwrap().contains(would), "{command}: {told}");
        assert!(told["action"].is_string() && told["target"].is_string() && told["changes"].is_boolean());
    }
    for command in ["retry order/later", "fork check_stock/old --from-start", "cancel --all", "migrate up"] {
        let words: Vec<&str> = command.split(' ').collect();
        shop.ok(&[&["--dry-run"], &words[..]].concat());
        json(&shop.ok(&[&words[..], &["--dry-run", "-o", "json"]].concat()));
    }
    let token = before[3]["items"][0]["id"].as_str().unwrap();
    assert!(shop.ok(&["token", "revoke", token, "--dry-run"]).contains("of ann would open nothing any more"));
    assert_eq!(
        all(&shop),
        before,
        "no run, queue, schedule or token is another, and the audit log says nothing"
    );
}

#[test]
fn a_dry_run_refuses_what_the_command_would_refuse() {
    let shop = quiet();
    for (command, code, told) in [
        ("start chek_stock", 3, "check_stock"),
        ("start check_stock --input {", 2, "--input is no JSON"),
        ("cancel order/none", 3, "(not_found)"),
        ("send check_stock/old approval", 4, "(run_closed)"),
        ("pause check_stock/old", 4, "(run_closed)"),
        ("queue pause nowhere", 3, "there is no queue"),
        ("queue limit default", 2, "say what shall hold"),
        ("schedule pause nightl", 3, "did you mean nightly?"),
        ("token revoke tok_0", 3, "there is no token"),
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--dry-run"]).collect();
        let refused = shop.refused(&words, code);
        assert!(refused.contains(told), "{command}: {refused}");
    }
    let wrong = shop.refused(&["schedule", "add", "x", "61 * * * *", "check_stock", "--dry-run"], 2);
    assert!(wrong.contains("(invalid_cron)"), "{wrong}");
}

#[test]
fn a_dry_run_of_a_pause_refuses_a_run_whose_undo_gave_up_as_the_pause_does() {
    let shop = quiet();
    let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    let give_up =
        "update outlast_agenda set status = 7, undoing = 1, due_at = null, reason = 'the bank is closed'
                   where id = (select run from outlast_keys where key = 'later')";
    assert_eq!(file.execute(give_up, []).unwrap(), 1);
    drop(file);
    assert_eq!(shop.show("order/later")["status"], "undo_failed");
    let refused = shop.refused(&["pause", "order/later"], 2);
    assert!(refused.contains("its undo failed"), "{refused}");
    assert_eq!(shop.refused(&["pause", "order/later", "--dry-run"], 2), refused);
}

#[test]
fn where_nothing_can_be_rehearsed_a_dry_run_is_refused_and_reads_do_not_mind() {
    let shop = quiet();
    for command in ["dev", "serve", "bench", "backup copy.db", "man --out pages", "config edit"] {
        let words: Vec<&str> = ["--dry-run"].into_iter().chain(command.split(' ')).collect();
        let refused = shop.refused(&words, 2);
        assert!(refused.contains("it has no --dry-run (invalid_argument)"), "{command}: {refused}");
    }
    for command in [
        "list",
        "show check_stock/old",
        "wait check_stock/old",
        "schedule list",
        "schedule next @daily",
        "token list",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let plain = shop.ok(&[&words[..], &["--time", "utc"]].concat());
        let dry = shop.ok(&[&words[..], &["--time", "utc", "--dry-run", "--yes"]].concat());
        // How long something has lasted goes on.
        assert_eq!(plain.lines().count(), dry.lines().count(), "{command}: {dry}");
    }
}

#[test]
fn whoever_says_yes_before_the_command_is_not_asked_either() {
    let shop = quiet();
    let span = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T00:00:00Z"];
    let backfill = [&["schedule", "backfill", "nightly"], &span[..]].concat();
    let refused = shop.refused(&backfill, 2);
    assert!(refused.contains("would be started for each that has none: say --yes"), "{refused}");
    assert_eq!(shop.ok(&[&["--yes"], &backfill[..]].concat()), "2 runs started\n");
    let told = shop.ok(&["-y", "cancel", "--filter", "key:later", "--timeout", "60s"]);
    assert_eq!(told, "1 run asked to stop\n");
}

#[test]
fn a_filter_that_fits_nobody_asks_nobody() {
    let shop = quiet();
    for (command, done) in [
        ("cancel --filter def:nobody", "0 runs asked to stop\n"),
        ("delete --filter key:none", "0 runs deleted\n"),
        ("retry --filter def:check_stock", "0 runs ready to be tried again\n"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let told = shop.run(&words);
        assert_eq!((told.code, &*told.out), (0, done), "{told:?}");
        assert!(told.err.contains("no run fits: nothing was changed"), "{told:?}");
        let told = json(&shop.ok(&[&words[..], &["-o", "json"]].concat()));
        assert_eq!((told["id"].is_null(), told["done"].as_u64()), (true, Some(0)), "{told}");
    }
    assert!(shop.ok(&["list", "def:outlast.bulk", "-o", "name"]).is_empty(), "no bulk was started for it");
}
