//! Queues and schedules by commands, beside a running `outlast dev` and without one.

mod support;

use serde_json::Value;
use support::{Shop, until};

impl Shop {
    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// One of a list, by its name.
    fn listed(&self, what: &str, name: &str) -> Value {
        let list = self.json(&["list", what]);
        let mut items = list["items"].as_array().unwrap().iter();
        items.find(|item| item["name"] == name).cloned().unwrap_or_default()
    }

    /// A database that `dev` has made, and nobody runs.
    fn left_alone(&self) {
        let dev = self.dev();
        dev.signal("TERM");
        dev.end();
    }
}

#[test]
fn a_newcomer_finds_a_queue_and_a_schedule() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let queues = shop.ok(&["list", "queues"]);
    assert!(queues.starts_with("QUEUE") && queues.contains("stock    open"), "{queues}");
    assert!(queues.contains("limit 2, 30/1m\n"), "{queues}");
    let schedules = shop.ok(&["list", "schedules"]);
    assert!(schedules.contains("stock-check  check_stock  every 15s"), "{schedules}");
    assert!(schedules.ends_with("Every 15s\n"), "{schedules}");
    assert_eq!(shop.ok(&["schedule", "list", "-o", "name"]), "stock-check\n");
    let started = until("the schedule starts a run", || {
        shop.listed("schedules", "stock-check")["last_run"].as_str().map(str::to_owned)
    });
    assert_eq!(shop.ok(&["wait", &started]), "12\n");
}

#[test]
fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    let shop = Shop::new();
    shop.left_alone();
    let paused = shop.run(&["queue", "pause", "stock"]);
    assert!(paused.out.starts_with("stock is paused since ") && paused.code == 0, "{paused:?}");
    assert!(paused.err.contains(" queue resume stock`"), "{paused:?}");
    shop.ok(&["start", "check_stock", "--input", "7", "--key", "held"]);
    shop.ok(&["start", "count_shelf", "--input", "1", "--key", "free"]);

    let _dev = shop.dev();
    shop.until_status("count_shelf/free", "completed");
    assert_eq!(shop.show("check_stock/held")["status"], "ready");
    let queue = shop.listed("queues", "stock");
    assert_eq!((&queue["state"], queue["since"].is_string()), (&"paused".into(), true), "{queue}");
    assert!(queue["due"].as_u64() >= Some(1) && queue["oldest_due_at"].is_string(), "{queue}");
    let told = shop.ok(&["doctor", "--only", "queues"]);
    assert!(told.starts_with("! queues         queue stock is paused since 2"), "{told}");
    assert!(told.contains(" due)\n") && told.contains(" queue resume stock`"), "{told}");

    assert!(shop.ok(&["queue", "resume", "stock"]).starts_with("stock is open ("));
    shop.until_status("check_stock/held", "completed");
}

#[test]
fn a_draining_queue_works_off_what_is_in_it_and_no_more() {
    let shop = Shop::new();
    shop.left_alone();
    shop.ok(&["start", "check_stock", "--input", "7", "--key", "before"]);
    assert_eq!(shop.json(&["queue", "drain", "stock"])["state"], "draining");
    let told = shop.ok(&["doctor", "--only", "queues"]);
    assert!(told.starts_with("✓ queues"), "what is worked off is not left behind: {told}");
    shop.ok(&["start", "check_stock", "--input", "7", "--key", "after"]);

    let _dev = shop.dev();
    shop.until_status("check_stock/before", "completed");
    assert_eq!(shop.show("check_stock/after")["status"], "ready");
    let told = shop.ok(&["doctor", "--only", "queues"]);
    assert!(told.starts_with("! queues         queue stock is draining since 2"), "{told}");
    assert!(told.contains(" due that came later)\n") && told.contains(" queue resume stock`"), "{told}");
    assert_eq!(shop.json(&["queue", "resume", "stock"])["state"], "open");
    shop.until_status("check_stock/after", "completed");
}

#[test]
fn rules_that_people_set_hold_until_they_are_reset() {
    let shop = Shop::new();
    shop.left_alone();
    let limit = |args: &[&str]| {
        let args: Vec<&str> = ["queue", "limit", "stock"].iter().chain(args).copied().collect();
        let line = shop.ok(&args);
        line.trim_end().rsplit_once(": ").unwrap().1.to_owned()
    };
    // What is not named stays.
    assert_eq!(limit(&["--limit", "5", "--fair"]), "limit 5, 30/1m, fair (own)");
    assert_eq!(limit(&["--rate-per-group", "5/1s"]), "limit 5, 30/1m, 5/1s per group, fair (own)");
    // A start of the code that says otherwise changes nothing.
    shop.left_alone();
    let queue = shop.listed("queues", "stock");
    assert_eq!((&queue["rules"]["limit"], &queue["own_rules"]), (&5.into(), &true.into()), "{queue}");
    assert_eq!(queue["rules"]["rate_per_group"], serde_json::json!({ "count": 5, "per_ms": 1000 }));

    let lifted = ["--limit", "none", "--rate", "none", "--rate-per-group", "none", "--fair=false"];
    assert_eq!(limit(&lifted), "no rules (own)");
    assert_eq!(limit(&["--reset"]), "limit 2, 30/1m");
}

#[test]
fn a_schedule_goes_its_way_by_commands_alone() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let set = ["schedule", "add", "tick", "every 1s", "check_stock", "--input", "3", "--catch-up", "skip"];
    let told = shop.ok(&set);
    assert!(told.starts_with("tick starts check_stock: Every 1s; next "), "{told}");
    assert_eq!(shop.run(&set).err, "it was there already, and says the same\n");
    until("it starts runs", || {
        (shop.listed("schedules", "tick")["started"].as_u64() >= Some(2)).then_some(())
    });
    let run = shop.ok(&["list", "tag:schedule=tick", "-n", "1", "-o", "name"]);
    assert_eq!(shop.ok(&["wait", run.trim()]), "3\n");

    assert!(shop.ok(&["schedule", "pause", "tick"]).ends_with("; paused\n"));
    let paused = shop.listed("schedules", "tick");
    assert_eq!((&paused["paused"], &paused["next_at"]), (&true.into(), &Value::Null), "{paused}");
    assert!(shop.ok(&["schedule", "next", "tick"]).contains("it is paused: none of these"));
    // By hand it starts all the same.
    let run = shop.ok(&["schedule", "trigger", "tick", "-o", "name"]);
    assert_eq!(shop.ok(&["wait", run.trim()]), "3\n");

    assert_eq!(shop.json(&["schedule", "resume", "tick"])["paused"], false);
    assert_eq!(shop.ok(&["schedule", "delete", "tick"]), "tick is deleted; its runs stay\n");
    assert_eq!(shop.listed("schedules", "tick"), Value::Null);
    assert_eq!(shop.show(run.trim())["status"], "completed");
}

#[test]
fn a_schedule_keeps_everything_that_it_was_given() {
    let shop = Shop::new();
    shop.left_alone();
    let words = "schedule add nightly EXPRESSION sync_prices --tz Europe/Berlin --overlap cancel-previous \
                 --catch-up all --jitter 30s --queue stock --input \"us\" -o name";
    let args: Vec<&str> =
        words.split(' ').map(|word| if word == "EXPRESSION" { "30 2 * * MON" } else { word }).collect();
    assert_eq!(shop.ok(&args), "nightly\n");
    let nightly = shop.listed("schedules", "nightly");
    for (field, value) in [
        ("definition", "sync_prices"),
        ("expression", "30 2 * * MON"),
        ("zone", "Europe/Berlin"),
        ("overlap", "cancel_previous"),
        ("catch_up", "all"),
        ("queue", "stock"),
        ("input", "us"),
    ] {
        assert_eq!(nightly[field], value, "{field} of {nightly}");
    }
    assert_eq!(nightly["jitter_ms"], 30_000);
    let listed = shop.ok(&["list", "schedules"]);
    assert!(listed.contains("cancel-previous  all "), "{listed}");
    let next = shop.ok(&["schedule", "next", "nightly", "-n", "2"]);
    assert!(next.contains("each is acted on up to 30s later"), "{next}");
    assert_eq!(next.matches("Mon 20").count(), 2, "{next}");
}

#[test]
fn a_backfill_says_what_it_would_start_and_starts_only_what_is_missing() {
    let shop = Shop::new();
    shop.left_alone();
    shop.ok(&["schedule", "add", "daily", "30 2 * * *", "check_stock", "--input", "1"]);
    let days = |to: &'static str| {
        ["schedule", "backfill", "daily", "--from", "2026-01-01T00:00:00Z", "--to", to].to_vec()
    };
    let (four, five) = (days("2026-01-05T00:00:00Z"), days("2026-01-06T00:00:00Z"));
    let told = shop.refused(&four, 2);
    let would = "daily has 4 times from 2026-01-01T02:30:00Z to 2026-01-04T02:30:00Z, and a run of check_stock would be \
                 started for each that has none: say --yes";
    assert!(told.contains(would), "{told}");
    assert_eq!(shop.ok(&["list", "tag:schedule=daily", "-o", "name"]), "");

    let sure = |words: &[&'static str]| [words, &["--yes"]].concat();
    assert_eq!(shop.ok(&sure(&four)), "4 runs started\n");
    assert_eq!(shop.ok(&sure(&five)), "1 run started; 4 times had one\n");
    assert_eq!(shop.ok(&["list", "tag:schedule=daily", "-o", "name"]).lines().count(), 5);
    // Nothing to start is nothing to agree to.
    assert_eq!(shop.ok(&days("2026-01-01T01:00:00Z")), "0 runs started\n");
    let told = shop.refused(&days("2025-01-01T00:00:00Z"), 2);
    assert!(told.contains("--to must be after --from"), "{told}");
}

#[test]
fn the_times_of_an_expression_need_no_database_and_tell_of_daylight_changes() {
    let shop = Shop::new();
    let next = |expression: &str| {
        shop.json(&["schedule", "next", expression, "--tz", "America/New_York", "-n", "3"])
    };
    let (skipped, twice, interval) = (next("30 2 * * *"), next("30 1 * * *"), next("*/15 * * * *"));
    assert_eq!(skipped["times"].as_array().unwrap().len(), 3);
    let note = |answer: &Value| answer["notes"][0].as_str().unwrap_or_default().to_owned();
    assert!(
        note(&skipped).ends_with("02:30 does not exist in America/New_York: fires at 03:30"),
        "{skipped}"
    );
    assert!(note(&twice).ends_with("comes twice in America/New_York: fires the first time only"), "{twice}");
    assert!(interval["notes"].to_string().contains("fires in both"), "{interval}");

    let text = shop.ok(&["schedule", "next", "@daily", "-n", "1"]);
    assert!(text.contains(" 00:00:00 UTC  in "), "{text}");
    assert_eq!(shop.ok(&["schedule", "next", "every 15m", "-n", "4", "-o", "name"]).lines().count(), 4);
    assert!(shop.ok(&["schedule", "next", "at 2020-01-01T00:00:00Z"]).ends_with("no time is to come\n"));
    assert_eq!(std::fs::read_dir(shop.folder()).unwrap().count(), 0, "no database was made");
}

#[test]
fn what_cannot_be_done_to_queues_and_schedules_is_refused_with_the_remedy() {
    let shop = Shop::new();
    shop.left_alone();
    let add = |more: &[&'static str]| [&["schedule", "add", "x", "@daily", "check_stock"], more].concat();
    let (from, to) = ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z");
    let backwards = ["schedule", "backfill", "stock-check", "--from", from, "--to", to];
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["queue", "pause", "stok"],
            3,
            "there is no queue \"stok\": there are default and stock (not_found)",
        ),
        (&["queue", "limit", "stok", "--limit", "1"], 3, "there are default and stock"),
        (&["queue", "limit", "stock"], 2, "--limit N, --per-node N, --per-group N, --rate 500/1m"),
        (&["queue", "limit", "stock", "--limit", "0"], 2, "to let nothing run, pause the queue"),
        (&["queue", "limit", "stock", "--limit", "-1"], 2, "from 1 to 1,000,000, or none, not \"-1\""),
        (&["queue", "limit", "stock", "--limit", "1000001"], 2, "1 to 1,000,000"),
        (&["queue", "limit", "stock", "--rate", "5"], 2, "a rate looks like 500/1m or 5/1s"),
        (&["queue", "limit", "stock", "--rate-per-group", "9999999999/1s"], 2, "a rate is 1 to 1,000,000"),
        (&["queue", "limit", "stock", "--rate", "5/0s"], 2, "1 ms to 100 years"),
        (&["queue", "limit", "stock", "--reset", "--fair"], 2, "'--reset' cannot be used with '--fair"),
        (&["schedule", "pause", "stock-chek"], 3, "did you mean stock-check? (not_found)"),
        (&["schedule", "trigger", "zzzzzzzzzzzzzzz"], 3, "list schedules` shows those that are there"),
        (&["schedule", "next", "stock-chek"], 3, "did you mean stock-check?"),
        (&["schedule", "next", "stock-check", "--tz", "UTC"], 2, "--tz is for expressions"),
        (&["schedule", "next", "61 * * * *"], 2, "minute: 61 is out of range"),
        (&["schedule", "next", "@daily", "--tz", "Berlin"], 2, "did you mean Europe/Berlin?"),
        (&["schedule", "next", "@daily", "-n", "0"], 2, "a whole number from 1 to 1000, not \"0\""),
        (&["schedule", "add", "x", "@daily", "chek_stock"], 3, "did you mean check_stock?"),
        (&["schedule", "add", "x y", "@daily", "check_stock"], 2, "letters, digits"),
        (
            &["schedule", "add", "x", "at 2020-01-01T00:00:00Z", "check_stock", "--input", "1"],
            2,
            "all of this one are past",
        ),
        (&add(&["--overlap", "stop"]), 2, "skip, queue, allow or cancel-previous, not \"stop\""),
        (&add(&["--catch-up", "some"]), 2, "last, skip or all, not \"some\""),
        (&add(&["--jitter", "soon"]), 2, "a duration looks like"),
        (&add(&["--input", "{bad"]), 2, "--input is no JSON"),
        (
            &["schedule", "backfill", "stock-check", "--from", "soon", "--to", "later"],
            2,
            "2027-03-14T01:30:00Z",
        ),
        (&backwards, 2, "--to must be after --from"),
        (&["list", "queues", "status:failed"], 2, "filters are for runs"),
    ];
    for (args, code, told) in cases {
        let line = shop.refused(args, *code);
        assert!(line.contains(told), "outlast {}: {line}", args.join(" "));
    }
    assert_eq!(shop.listed("queues", "stok"), Value::Null, "what was refused left nothing");
    assert_eq!(shop.listed("schedules", "x"), Value::Null, "what was refused left nothing");
}
