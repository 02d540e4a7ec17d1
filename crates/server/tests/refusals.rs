//! What is refused: alike by a command and by its rehearsal (`--dry-run`), of a database and through its server, with the same
//! exit code and the same word.

#![allow(missing_docs, reason = "tests")]

mod support;

use serde_json::Value;
use support::{Answer, Dev, Shop, until};

/// A shop where nobody works any more, with runs that sleep, wait for a promise, stand still and have ended; and its server.
struct Stall {
    shop: Shop,
    url: String,
    admin: String,
    viewer: String,
    _up: Dev,
}

impl Stall {
    fn new() -> Stall {
        let shop = Shop::new();
        let dev = shop.dev_with(&["--port", "0"]);
        shop.ok(&["start", "heartbeat", "--key", "beat", "--input", "9"]);
        shop.ok(&["start", "trip", "--key", "alps", "--input", "\"Bern\""]);
        shop.ok(&["start", "check_stock", "--key", "old", "--input", "0", "--wait", "--timeout", "60s"]);
        shop.until_status("heartbeat/beat", "waiting");
        until("the trip waits for its visa", || {
            shop.ok(&["show", "trip/alps"]).contains("promise visa").then_some(())
        });
        dev.signal("TERM");
        assert_eq!(dev.end().0, Some(0));
        shop.ok(&["settle", "trip/alps", "visa", "--data", "true"]);
        shop.ok(&["schedule", "add", "nightly", "0 3 * * *", "check_stock", "--input", "0"]);
        let token = |role: &str| {
            let made = shop.ok(&["token", "create", role, "--role", role, "-o", "json"]);
            serde_json::from_str::<Value>(&made).unwrap()["secret"].as_str().unwrap().to_owned()
        };
        let (admin, viewer) = (token("admin"), token("viewer"));
        let up = shop.spawned(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--role",
            "api",
            "--insecure-no-auth-i-understand",
        ]);
        up.until_told("/api/v1");
        let told = up.told();
        let url = told.split_whitespace().last().unwrap().trim_end_matches("/api/v1").to_owned();
        Stall { shop, url, admin, viewer, _up: up }
    }

    /// What a command says through the server.
    fn through(&self, token: &str, args: &[&str]) -> Answer {
        self.shop.run(&[args, &["--url", &self.url, "--token", token]].concat())
    }

    fn audit(&self) -> String {
        self.shop.ok(&["audit", "list", "-n", "500", "-o", "name"])
    }
}

/// How it ended, and the word for it.
fn end(answer: &Answer) -> (i32, &str) {
    let line = answer.err.lines().last().unwrap_or_default();
    (answer.code, line.rsplit_once(" (").map_or(line, |(_, word)| word.trim_end_matches(')')))
}

#[test]
fn a_command_its_rehearsal_and_its_way_through_a_server_refuse_alike() {
    let stall = Stall::new();
    let (long, huge) = ("x".repeat(3000), format!("\"{}\"", "x".repeat(1 << 20)));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["start", "check_stock", "--key", "old", "--input", "1"], 4, "idempotency_conflict"),
        (&["start", "check_stock", "--input", "0", "--key", "a/b"], 2, "invalid_id"),
        (&["start", "check_stock", "--input", "0", "--queue", "a\tb"], 2, "invalid_character"),
        (&["start", "check_stock", "--input", "0", "--queue", ".."], 2, "invalid_argument"),
        (&["start", "check_stock", "--input", "0", "--tag", "=5"], 2, "invalid_argument"),
        (&["start", "check_stock", "--input", "0", "--delay", "0s"], 2, "invalid_duration"),
        (&["start", "check_stock", "--input", "0", "--delay", "soon"], 2, "invalid_duration"),
        (&["start", "check_stock", "--input", "0", "--at", "noon"], 2, "invalid_timestamp"),
        (&["start", "check_stok"], 3, "unknown_definition"),
        (&["start", ".."], 3, "unknown_definition"),
        (&["send", "nosuch/k", "ev", "--data", "1"], 3, "unknown_definition"),
        (&["send", "trip/alps", ""], 2, "invalid_argument"),
        (&["send", "trip/alps", "a\nb"], 2, "invalid_character"),
        (&["send", "trip/", "ev"], 2, "invalid_id"),
        (&["send", "check_stock/old", "ev"], 4, "run_closed"),
        (&["settle", "trip/alps", "visa", "--data", "false"], 4, "already_settled"),
        (&["due", "heartbeat/beat", "--at", "2099-01-01T00:00:00Z"], 2, "invalid_argument"),
        (&["fork", "trip/alps", "--from", "hotel", "--version", "99"], 2, "invalid_argument"),
        (&["retry", "check_stock/old"], 4, "not_retryable"),
        (&["cancel", "trip/alps", "--reason", &long], 2, "invalid_argument"),
        (&["pause", "trip/alps", "--reason", &long], 2, "invalid_argument"),
        (&["schedule", "add", "", "@daily", "check_stock", "-i", "0"], 2, "invalid_argument"),
        (&["schedule", "add", "..", "@daily", "check_stock", "-i", "0"], 2, "invalid_argument"),
        (
            &["schedule", "add", "x", "@daily", "check_stock", "-i", "0", "--jitter", "1000d"],
            2,
            "invalid_argument",
        ),
        (&["schedule", "add", "x", "at noon", "check_stock", "-i", "0"], 2, "invalid_timestamp"),
        (&["queue", "limit", "default", "--rate", "5/0s"], 2, "invalid_duration"),
        (&["queue", "pause", ".."], 3, "not_found"),
        (&["token", "create", ""], 2, "invalid_argument"),
        (&["token", "create", "bob", "--tenant", ""], 2, "invalid_argument"),
        (&["token", "create", "bob", "--queue", ""], 2, "invalid_argument"),
        (&["token", "create", "bob", "--queue", "mail,"], 2, "invalid_argument"),
        (&["token", "create", "bob", "--queue", "outlast"], 2, "invalid_argument"),
        (&["list", "since:soon"], 2, "invalid_timestamp"),
        (&["list", "stuck:soon"], 2, "invalid_duration"),
        (&["show", "order/"], 2, "invalid_id"),
        (&["show", "nonsense"], 2, "invalid_id"),
    ];
    for (args, code, word) in cases {
        let dry = [args, &["--dry-run"][..]].concat();
        let shown = args.join(" ");
        assert_eq!(end(&stall.shop.run(args)), (*code, *word), "{shown}");
        assert_eq!(end(&stall.shop.run(&dry)), (*code, *word), "{shown} --dry-run");
        assert_eq!(end(&stall.through(&stall.admin, args)), (*code, *word), "{shown} --url");
        assert_eq!(end(&stall.through(&stall.admin, &dry)), (*code, *word), "{shown} --url --dry-run");
    }
    // Too large for a word of the command line.
    let file = stall.shop.folder().join("huge.json");
    std::fs::write(&file, huge).unwrap();
    for args in [
        ["start", "check_stock", "--input", "@huge.json"].as_slice(),
        &["send", "trip/alps", "ev", "--data", "@huge.json"],
    ] {
        let dry = [args, &["--dry-run"]].concat();
        for answer in [stall.shop.run(&dry), stall.through(&stall.admin, &dry)] {
            assert_eq!(end(&answer), (2, "payload_too_large"), "{args:?}: {answer:?}");
        }
    }
}

#[test]
fn a_dry_run_refuses_whoever_may_not_and_the_audit_log_hears_nothing() {
    let stall = Stall::new();
    let before = stall.audit();
    let span = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T00:00:00Z"];
    let backfill = [&["schedule", "backfill", "nightly"], &span[..]].concat();
    for args in [
        &["start", "check_stock"][..],
        &["send", "trip/alps", "ev"],
        &["settle", "trip/alps", "other"],
        &["cancel", "trip/alps"],
        &["kill", "trip/alps"],
        &["pause", "trip/alps"],
        &["resume", "trip/alps"],
        &["due", "heartbeat/beat"],
        &["delete", "check_stock/old"],
        &["retry", "trip/alps"],
        &["fork", "trip/alps", "--from-start"],
        &["queue", "pause", "default"],
        &["queue", "limit", "default", "--limit", "3"],
        &["queue", "limit", "default", "--reset"],
        &["schedule", "add", "hourly", "@hourly", "check_stock", "-i", "0"],
        &["schedule", "pause", "nightly"],
        &["schedule", "trigger", "nightly"],
        &["schedule", "delete", "nightly"],
        &backfill,
        &["token", "create", "bob"],
    ] {
        let dry = [args, &["--dry-run"]].concat();
        let answer = stall.through(&stall.viewer, &dry);
        assert_eq!(end(&answer), (5, "forbidden"), "{}: {answer:?}", args.join(" "));
        assert!(answer.out.is_empty(), "{answer:?}");
        let answer = stall.through(&stall.admin, &dry);
        assert_eq!(answer.code, 0, "{}: {answer:?}", args.join(" "));
    }
    assert_eq!(stall.audit(), before);
}

#[test]
fn whoever_is_bound_to_a_queue_does_with_commands_what_concerns_it_and_is_told_what_they_may_not() {
    let stall = Stall::new();
    let made = stall.through(
        &stall.admin,
        &["token", "create", "post", "--role", "operator", "--queue", "mail,reports", "-o", "json"],
    );
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["queues"], serde_json::json!(["mail", "reports"]));
    let token = made["secret"].as_str().unwrap();
    assert!(stall.shop.ok(&["token", "list", "-o", "wide"]).contains("mail, reports"));
    let listed = stall.through(&stall.admin, &["token", "list", "-o", "json"]);
    assert!(listed.out.contains("\"reports\""), "{listed:?}");
    for args in [
        &["start", "check_stock", "--input", "0"][..],
        &["start", "check_stock", "--input", "0", "--queue", "default"],
        &["queue", "pause", "default"],
        &["schedule", "pause", "nightly"],
        &["token", "create", "eve"],
    ] {
        let answer = stall.through(token, args);
        assert_eq!(end(&answer), (5, "forbidden"), "{args:?}: {answer:?}");
        let answer = stall.through(token, &[args, &["--dry-run"]].concat());
        assert_eq!(end(&answer), (5, "forbidden"), "{args:?} --dry-run: {answer:?}");
    }
    for args in [&["list", "nodes"][..], &["list", "errors"], &["list", "queue:default"]] {
        let answer = stall.through(token, args);
        assert_eq!(end(&answer), (5, "forbidden"), "{args:?}: {answer:?}");
    }
    assert_eq!(end(&stall.through(token, &["cancel", "trip/alps"])), (3, "not_found"));
    let own = ["start", "check_stock", "--input", "0", "--queue", "mail", "-o", "name"];
    let own = stall.through(token, &own);
    assert_eq!(own.code, 0, "{own:?}");
    assert_eq!(stall.through(token, &["list", "-o", "name"]).out, own.out);
    let cancel = stall.through(token, &["cancel", own.out.trim(), "--reason", "enough"]);
    assert_eq!(cancel.code, 0, "{cancel:?}");
}

#[test]
fn a_rehearsal_of_a_repair_or_a_bulk_says_that_it_is_one() {
    let stall = Stall::new();
    for args in [&["retry", "trip/alps"][..], &["fork", "trip/alps", "--from-start"], &["cancel", "--all"]] {
        let dry = [args, &["--dry-run"]].concat();
        for answer in [stall.shop.run(&dry), stall.through(&stall.admin, &dry)] {
            assert_eq!(answer.code, 0, "{answer:?}");
            assert!(answer.err.contains("nothing was changed"), "{args:?}: {answer:?}");
        }
        let json = [&dry[..], &["-o", "json"]].concat();
        for answer in [stall.shop.run(&json), stall.through(&stall.admin, &json)] {
            let told: Value = serde_json::from_str(&answer.out).unwrap();
            assert_eq!(told["dry_run"], true, "{args:?}: {told}");
        }
    }
}
