//! The commands beside a running `outlast dev`, and what they say when they cannot.

mod support;

use serde_json::Value;
use support::Shop;

#[test]
fn an_order_goes_its_way_by_commands_alone() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let input = r#"{"item":"tent","cents":19900}"#;
    let started = shop.ok(&["start", "order", "--input", input, "--key", "t-1", "--tag", "city=Bern"]);
    let id = started.trim();

    shop.until_asking(id);
    let listed = shop.ok(&["list", "def:order", "status:waiting", "tag:city=Bern"]);
    assert!(listed.contains(id) && listed.contains("for event approval since"), "{listed}");
    let sent = shop.ok(&["send", "order/t-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    assert!(sent.starts_with(&format!("event approval sent to {id} as evt_")), "{sent}");
    let output = shop.ok(&["wait", id]);
    assert!(output.starts_with("\"tent is on its way as parcel"), "{output}");

    let page = shop.ok(&["show", id]);
    for part in [
        "order/t-1",
        "completed in",
        "taken",
        "city=Bern",
        "✓ reserve",
        "✓ event approval",
        "✓ child ship",
        "✓   pack",
    ] {
        assert!(page.contains(part), "{part} is missing:\n{page}");
    }
    assert!(page.contains("info   reserved item=\"tent\""), "{page}");
    assert!(shop.ok(&["logs", id]).contains("ann approved it"));
}

#[test]
fn the_same_key_starts_once_and_another_input_is_a_conflict() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let start = |item: &str| {
        let input = format!(r#"{{"item":"{item}","cents":1}}"#);
        shop.run(&["start", "order", "--input", &input, "--key", "k", "-o", "json"])
    };
    let (first, second, other) = (start("bell"), start("bell"), start("lamp"));
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(read(&first.out)["created"], true);
    assert_eq!(read(&second.out)["created"], false);
    assert_eq!(read(&first.out)["id"], read(&second.out)["id"]);
    assert_eq!(other.code, 4);
    assert!(other.err.contains("was started with another input: use another key"), "{}", other.err);
}

#[test]
fn a_cancelled_run_says_why_and_stays_as_it_is_when_it_is_cancelled_again() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["start", "order", "--input", r#"{"item":"sofa","cents":50000}"#, "--key", "s"]);
    shop.until_asking("order/s");
    shop.ok(&["cancel", "order/s", "--reason", "too big"]);
    let order = shop.until_status("order/s", "cancelled");
    assert_eq!(order["error"]["message"], "cancelled: too big");

    for what in ["cancel", "kill"] {
        let told = shop.ok(&[what, "order/s"]);
        assert!(told.ends_with("had ended before: it is cancelled\n"), "{told}");
        let told: serde_json::Value =
            serde_json::from_str(&shop.ok(&[what, "order/s", "-o", "json"])).unwrap();
        assert_eq!((&told["status"], &told["changed"]), (&"cancelled".into(), &false.into()));
    }
    let told = shop.refused(&["wait", "order/s"], 1);
    assert!(told.ends_with("was cancelled: too big (cancelled)"), "{told}");
    let told = shop.refused(&["send", "order/s", "approval"], 4);
    assert!(told.ends_with("(run_closed)"), "{told}");
}

#[test]
fn a_run_is_killed_paused_and_resumed() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["start", "order", "--input", r#"{"item":"sofa","cents":50000}"#, "--key", "s"]);
    shop.until_asking("order/s");
    shop.ok(&["pause", "order/s", "--reason", "on holiday"]);
    let run = shop.until_status("order/s", "paused");
    assert_eq!(run["reason"], "on holiday");
    assert!(shop.ok(&["explain", "order/s"]).contains("paused until somebody resumes it: on holiday"));
    assert!(shop.ok(&["resume", "order/s"]).ends_with("goes on\n"));
    assert!(shop.ok(&["resume", "order/s"]).contains("was not paused"));

    assert!(shop.ok(&["kill", "order/s", "--reason", "a mistake"]).ends_with("was killed\n"));
    let run = shop.until_status("order/s", "cancelled");
    assert_eq!(run["error"]["message"], "cancelled: killed: a mistake");
    for command in ["pause", "resume"] {
        let told = shop.refused(&[command, "order/s"], 4);
        assert!(told.contains("has ended (cancelled)"), "{told}");
    }
}

#[test]
fn a_run_goes_on_when_it_is_said_to_be_due() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["start", "ship", "--key", "late", "--delay", "1d", "--input", "\"tea\""]);
    let told = shop.ok(&["due", "ship/late", "--at", "2099-01-01T00:00:00Z", "--reason", "no hurry"]);
    assert!(told.ends_with("goes on at 2099-01-01T00:00:00Z\n"), "{told}");
    assert!(shop.ok(&["explain", "ship/late"]).contains("2099-01-01T00:00:00Z"));
    assert!(shop.ok(&["due", "ship/late"]).ends_with("goes on now\n"));
    shop.until_status("ship/late", "completed");
    let told = shop.refused(&["due", "ship/late"], 4);
    assert!(told.contains("has ended (completed)"), "{told}");

    shop.ok(&["start", "order", "--input", r#"{"item":"sofa","cents":50000}"#, "--key", "s"]);
    shop.until_asking("order/s");
    let told = shop.ok(&["due", "order/s"]);
    assert!(told.contains("has no time of its own to change: it is waiting"), "{told}");
}

#[test]
fn cancelling_many_goes_through_all_of_them() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let answer = shop.run(&["cancel", "order/nope", "heartbeat/shop", "remind/ann"]);
    assert_eq!(answer.code, 8, "{answer:?}");
    assert_eq!(answer.out.lines().count(), 2, "{answer:?}");
    assert!(answer.err.contains("\"nope\"") && answer.err.ends_with("(partly_failed)\n"), "{answer:?}");
    assert_eq!(shop.run(&["cancel", "order/nope", "order/none"]).code, 3);
    shop.until_status("heartbeat/shop", "cancelled");
    shop.until_status("remind/ann", "cancelled");
}

#[test]
fn waiting_has_a_bound_and_a_failed_run_a_code() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let told = shop.refused(&["wait", "heartbeat/shop", "--timeout", "50ms"], 7);
    assert!(told.ends_with("has not ended after 50 ms: it goes on (timeout)"), "{told}");
    // What has ended is told, however short the bound.
    shop.until_status("stocktaking/stock-1", "completed");
    assert_eq!(shop.ok(&["wait", "stocktaking/stock-1", "--timeout", "1ms"]), "120\n");
    let answer = shop.run(&["start", "pay_invoice", "--input", "\"invoice 9\"", "--wait"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.err.ends_with("failed: the bank declined invoice 9 (failed)\n"), "{answer:?}");
}

#[test]
fn an_event_may_come_before_its_run() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let sent = shop.ok(&["send", "order/later", "approval", "--data", r#"{"by":"ann","ok":false}"#]);
    assert!(sent.contains("kept until a run with this key is started"), "{sent}");
    let answer = shop.run(&[
        "start",
        "order",
        "--input",
        r#"{"item":"tent","cents":20000}"#,
        "--key",
        "later",
        "--wait",
    ]);
    assert!(answer.code == 1 && answer.err.contains("ann declined it"), "{answer:?}");
}

#[test]
fn an_event_that_nobody_waits_for_is_kept_and_that_is_said() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.until_asking("order/order-1");
    let early = shop.run(&["send", "order/order-1", "approvall"]);
    assert_eq!(early.err, "it does not wait for approvall now: the event is kept until it does\n");
    let asked = shop.run(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    assert_eq!((asked.code, asked.err.as_str()), (0, ""));
}

#[test]
fn a_promise_is_settled_once() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let told = shop.ok(&["settle", "heartbeat/shop", "stopped", "--data", "1"]);
    assert!(told.starts_with("promise stopped of run_") && told.ends_with(" settled\n"), "{told}");
    let told = shop.refused(&["settle", "heartbeat/shop", "stopped", "--data", "2"], 4);
    assert!(told.ends_with("is settled already: the first value stays (already_settled)"), "{told}");
}

#[test]
fn a_delayed_run_is_scheduled_and_ends_at_once_when_cancelled() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["start", "heartbeat", "--input", "0", "--key", "d", "--delay", "2h30m", "--priority", "1"]);
    assert!(shop.ok(&["show", "heartbeat/d"]).contains("scheduled for "));
    assert!(shop.ok(&["cancel", "heartbeat/d"]).ends_with("is cancelled\n"));
}

#[test]
fn json_comes_back_exactly_as_it_went_in() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let input = r#"{"item":"a\u0000b","cents":900,"more":12345678901234567890123,"n":1.0}"#;
    std::fs::write(shop.folder().join("order.json"), input).unwrap();
    let id = shop.ok(&["start", "order", "--input", "@order.json", "-o", "name"]);
    assert!(shop.ok(&["show", id.trim(), "-o", "jsonl"]).contains(input));
}

#[test]
fn lists_come_in_every_format() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.until_status("pay_invoice/invoice-7", "failed");
    let ids = shop.ok(&["list", "status:failed", "def:pay_invoice", "since:1h", "-o", "name"]);
    assert!(ids.starts_with("run_") && ids.lines().count() == 1, "{ids}");
    let page: Value =
        serde_json::from_str(&shop.ok(&["list", "runs", "--limit", "2", "-o", "json"])).unwrap();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["more"]), (2, &Value::Bool(true)));
    for line in shop.ok(&["list", "-o", "jsonl"]).lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["id"].is_string());
    }
    assert!(shop.ok(&["list", "definitions", "-o", "name"]).lines().any(|name| name == "order"));
    assert!(shop.ok(&["list", "nodes"]).contains("RUNS IN HAND"));
    assert_eq!(shop.run(&["list", "key:nobody"]).err, "no run fits\n");
    assert!(shop.run(&["list", "bulk"]).err.starts_with("no bulk yet"));
}

#[test]
fn colours_come_when_asked_for() {
    let shop = Shop::new();
    let _dev = shop.dev();
    assert!(shop.ok(&["list", "--color", "always"]).contains('\u{1b}'));
    assert!(!shop.ok(&["list"]).contains('\u{1b}'));
}

#[test]
fn ended_runs_can_be_purged() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.until_status("pay_invoice/invoice-7", "failed");
    assert!(shop.ok(&["purge", "--older-than", "1d"]).starts_with("0 runs"));
    assert!(shop.ok(&["purge", "--older-than", "0s"]).ends_with(" that had ended deleted\n"));
    shop.refused(&["show", "pay_invoice/invoice-7"], 3);
}

#[test]
fn failed_jobs_are_tried_again_by_name_and_by_filter() {
    let shop = Shop::new();
    let _dev = shop.dev();
    assert!(shop.refused(&["start", "count_shelf", "--input", "\"three\""], 2).ends_with("(undecodable)"));
    // Of a build that this binary does not have, a node finds out.
    let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    let other = "update outlast_definitions set signature = 'another' where name = 'count_shelf'";
    assert_eq!(file.execute(other, []).unwrap(), 1);
    drop(file);
    shop.ok(&["start", "count_shelf", "--input", "\"three\"", "--key", "s"]);
    let failed = shop.until_status("count_shelf/s", "failed");
    let id = failed["id"].as_str().unwrap();

    let told = shop.refused(&["retry", "--filter", " "], 2);
    assert!(told.contains("the filter is empty: say what to retry, such as def:mail, or --all"), "{told}");
    let told = shop.refused(&["retry", "--filter", "def:count_shelf"], 2);
    assert!(told.contains("1 run would be tried again: say --yes if that is meant"), "{told}");
    assert_eq!(shop.ok(&["retry", "--filter", "def:nobody", "--yes"]), "0 runs ready to be tried again\n");
    let told = shop.refused(&["retry", "--filter", "status:completed", "--yes"], 2);
    assert!(told.contains("undo_failed, failed, cancelled: there is nothing to retry in others"), "{told}");

    let all = shop.ok(&["retry", "--filter", "status:failed def:count_shelf", "--yes", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&all).unwrap()["done"], 1);
    shop.until_status("count_shelf/s", "failed");
    let one = shop.ok(&["retry", "count_shelf/s", "--input", "3"]);
    assert_eq!(one, format!("{id} is ready to be tried again\n"));
    assert_eq!(shop.until_status(id, "completed")["input"], 3);

    let told = shop.refused(&["retry", id], 4);
    assert!(told.ends_with("cannot be tried again: it has completed (not_retryable)"), "{told}");
    assert!(shop.refused(&["retry"], 2).contains("ID"));
}

#[test]
fn a_start_without_a_node_is_kept_for_the_next_one() {
    let shop = Shop::new();
    shop.dev().kill();
    let dev = shop.dev();
    dev.signal("TERM");
    dev.end();
    let answer = shop.run(&["start", "order", "--input", r#"{"item":"bell","cents":900}"#, "--key", "early"]);
    assert!(answer.code == 0 && answer.err.contains("no node is up"), "{answer:?}");
    let answer = shop.run(&["wait", "order/early", "--timeout", "50ms"]);
    assert!(answer.code == 7 && answer.err.contains("no node is up"), "{answer:?}");
    let _dev = shop.dev();
    shop.until_status("order/early", "completed");
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let nobody = "run_01m7fa43qve008qp31hb5vwj07";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["show", nobody], 3, "there is no run run_01m7fa43qve008qp31hb5vwj07: `"),
        (&["show", "order/nope"], 3, "there is no run order with key \"nope\""),
        (&["show", "42"], 2, "names no run: write its id (run_ and 26 letters and digits) or DEFINITION/KEY"),
        (&["cancel", nobody], 3, "(not_found)"),
        (&["send", nobody, "approval"], 3, "(not_found)"),
        (
            &["send", "oder/order-1", "approval"],
            3,
            "no workflow or job is called \"oder\"; did you mean order?",
        ),
        (&["send", "order/order-1", "approval", "--data", "nope"], 2, "a text needs quotes"),
        (&["start", "oder"], 3, "did you mean order? (unknown_definition)"),
        (&["start", "zzzzzzzzzz"], 3, "list definitions` shows those that are known"),
        (&["start", "order", "--input", "{bad"], 2, "--input is no JSON: key must be a string"),
        (&["start", "order", "--input", "@missing.json"], 2, "cannot read missing.json"),
        (&["start", "order", "--delay", "soon"], 2, "a duration looks like 30s, 10m, 2h30m or 1d"),
        (
            &["start", "order", "--delay", "-1s"],
            2,
            "a duration looks like 30s, 10m, 2h30m or 1d and is at least 0",
        ),
        (
            &["start", "order", "--delay", "3000000d"],
            2,
            "3000000d is too long: a duration is at most 100 years",
        ),
        (&["start", "order", "--priority", "12"], 2, "a whole number from 0 to 9, not \"12\""),
        (&["start", "order", "--priority", "-1"], 2, "a whole number from 0 to 9, not \"-1\""),
        (&["wait", "order/order-1", "--timeout", "0s"], 2, "it is at least 1ms, not \"0s\""),
        (&["wait", "order/order-1", "--timeout", "3000000d"], 2, "at most 100 years"),
        (&["start", "count_shelf", "--input", "1", "--key", "a b"], 2, "letters, digits"),
        (&["start", "order", "--tag", "city"], 2, "write it like --tag city=Bern"),
        (&["purge", "--older-than", "7"], 2, "a duration looks like"),
        (&["purge", "--older-than", "-7d"], 2, "and is at least 0, not \"-7d\""),
        (&["list", "since:3000000d"], 2, "at most 100 years"),
        (&["list", "status:done"], 2, "one of ready, running"),
        (&["list", "colour:red"], 2, "use status:, def:, queue:"),
        (&["list", "cats"], 2, "say runs, queues, schedules, nodes, definitions, bulk or errors"),
        (&["list", "nodes", "status:failed"], 2, "filters are for runs"),
        (&["list", "--limit", "0"], 2, "a whole number from 1 to 500, not \"0\""),
        (&["list", "--limit", "-3"], 2, "a whole number from 1 to 500, not \"-3\""),
        (&["lst"], 2, "a similar subcommand exists: 'list'"),
        (&["show"], 2, "<ID>"),
        (&["dev", "-o", "json"], 2, "leave -o away"),
    ];
    for (args, code, told) in cases {
        let line = shop.refused(args, *code);
        assert!(line.contains(told), "outlast {}: {line}", args.join(" "));
    }
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let shop = Shop::new();
    let told = shop.refused(&["list"], 3);
    assert!(
        told.starts_with("error: there is no database outlast.db: run `")
            && told.contains(" dev` first")
            && told.contains(" migrate up` makes one without samples"),
        "{told}"
    );
    assert_eq!(std::fs::read_dir(shop.folder()).unwrap().count(), 0);
}

#[test]
fn an_address_that_names_no_database_is_refused_with_the_remedy() {
    let shop = Shop::new();
    std::fs::write(shop.folder().join("text.db"), "this is no database, but it is long enough to be one")
        .unwrap();
    for (url, code, told) in [
        ("mysql://root:hunter2@host/db", 2, "there is no store for `mysql:`: use sqlite://"),
        ("outlast.db", 2, "is not the address of a database"),
        ("sqlite://.", 2, "is a folder: name a file in it"),
        ("sqlite::memory:", 2, "gone with its process"),
        ("sqlite://text.db", 2, "not an SQLite database"),
        ("postgres://ann:hunter2@127.0.0.1:1/db", 6, "(unavailable)"),
    ] {
        let line = shop.refused(&["list", "--database-url", url], code);
        assert!(line.contains(told) && !line.contains("hunter2"), "{url}: {line}");
    }
    let line = shop.refused(&["dev", "--database-url", "sqlite://nowhere/x.db"], 2);
    assert!(line.contains("does not exist: make it first"), "{line}");
}

#[test]
#[cfg(unix)]
fn commands_are_named_as_their_reader_can_call_them() {
    use std::os::unix::process::CommandExt;

    let shop = Shop::new();
    let binary = env!("CARGO_BIN_EXE_outlast");
    let told = |called: &str, by_cargo: bool| {
        let mut command = shop.command(&["list"]);
        command.arg0(called).env_remove("CARGO_MANIFEST_DIR");
        if by_cargo {
            command.env("CARGO_MANIFEST_DIR", shop.folder());
        }
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(told("outlast", false).contains("run `outlast dev` first"));
    assert!(told("../outlast", false).contains("run `../outlast dev` first"));
    assert!(shop.refused(&["list"], 3).contains(&format!("run `{binary} dev` first")));

    // What cargo started is called through cargo, but only where cargo finds it.
    assert!(told("outlast", true).contains("run `outlast dev` first"));
    std::fs::write(shop.folder().join("Cargo.toml"), "").unwrap();
    assert!(told("target/debug/outlast", true).contains("run `cargo run "));
    assert!(told("target/debug/outlast", false).contains("run `target/debug/outlast dev` first"));
}

#[test]
fn commands_in_hints_find_the_same_database() {
    let shop = Shop::new();
    let url = ["--database-url", "sqlite://my shop.db"];
    let told = shop.refused(&["list", url[0], url[1]], 3);
    assert!(told.contains(" dev --database-url 'sqlite://my shop.db'` first"), "{told}");
    let dev = shop.dev_with(&url);
    let started = shop.run(&["start", "heartbeat", "--input", "0", url[0], url[1]]);
    let hint = format!(" show {} --database-url 'sqlite://my shop.db'`", started.out.trim());
    assert!(started.err.contains(&hint), "{started:?}");
    dev.until_told("--data '{\"by\":\"you\",\"ok\":true}' --database-url 'sqlite://my shop.db'");
}

#[test]
fn help_shows_the_options_of_a_command_before_those_of_all() {
    let shop = Shop::new();
    let help = shop.ok(&["start", "--help"]);
    let place = |word: &str| help.find(word).unwrap_or_else(|| panic!("{word} is missing:\n{help}"));
    assert!(place("--wait") < place("Options of every command:"), "{help}");
    assert!(place("Options of every command:") < place("--database-url"), "{help}");
}

#[test]
fn whoever_starts_a_run_or_sets_a_schedule_owns_it() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    let as_user = |args: &[&str], user: &str| {
        let mut command = shop.command(args);
        let output = command.env_remove("LOGNAME").env("USER", user).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    as_user(&["start", "heartbeat", "--input", "0", "--key", "hers", "--delay", "1h"], "ann");
    assert_eq!(shop.show("heartbeat/hers")["owner"], "ann");
    // The same key is the same run, whoever asks for it.
    as_user(&["start", "heartbeat", "--input", "0", "--key", "hers", "--delay", "1h"], "bob");
    assert_eq!(shop.show("heartbeat/hers")["owner"], "ann");
    as_user(&["schedule", "add", "nightly", "@daily", "heartbeat", "--input", "0"], "bob");
    let run = shop.ok(&["schedule", "trigger", "nightly", "-o", "name"]);
    assert_eq!(shop.show(run.trim())["owner"], "bob");
    // Where nobody says who it is, it is nobody's.
    as_user(&["start", "heartbeat", "--input", "0", "--key", "whose", "--delay", "1h"], "");
    assert!(shop.show("heartbeat/whose")["owner"].is_null());
}
