//! `outlast dev` as a newcomer meets it: it tells what happens, it can be killed, it can be stopped.

mod support;

use std::time::Duration;

use support::{Shop, until};

const APPROVED: &str = r#"{"by":"ann","ok":true}"#;

/// The steps that the journal of a run holds as done.
fn steps(shown: &serde_json::Value) -> Vec<&str> {
    let done = |entry: &&serde_json::Value| entry["op"] == "step" && entry["phase"] == "done";
    shown["journal"]
        .as_array()
        .unwrap()
        .iter()
        .filter(done)
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

/// How often a process is killed at any moment, and how long it works at most in between.
const KILLS: u32 = 8;
const WORKS: Duration = Duration::from_millis(400);

/// The story that Outlast is for: processes die in the middle of their work, and one while an order waits for a person.
fn a_killed_process_loses_nothing(shop: &Shop) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..KILLS {
        let dev = shop.dev();
        std::thread::sleep(WORKS.mul_f64(rng.f64()));
        dev.kill();
    }
    let first = shop.dev();
    shop.until_asking("order/order-1");
    first.kill();

    let second = shop.dev();
    let banner = second.told();
    assert!(
        banner.contains("from before go on:") && banner.contains("waiting for event approval since"),
        "{banner}"
    );
    shop.ok(&["send", "order/order-1", "approval", "--data", APPROVED]);
    let output = shop.ok(&["wait", "order/order-1", "--timeout", "60s"]);
    assert!(output.contains("bicycle is on its way as parcel"), "{output}");

    let order = shop.until_status("order/order-1", "completed");
    assert_eq!(steps(&order), ["reserve", "charge"]);
    second.until_told("■ completed in");
    // Only what happened since: the steps were told by the process that died.
    assert!(!second.told().contains("order/order-1           ✓ reserve"), "{}", second.told());

    shop.until_status("stocktaking/stock-1", "completed");
    shop.until_status("sync_prices/prices-1", "completed");
    let unpaid = shop.until_status("pay_invoice/invoice-7", "failed");
    assert!(unpaid["error"].to_string().contains("declined"), "{unpaid}");
    shop.until_status("trip/luna", "failed");
    for endless in ["remind/ann", "heartbeat/shop"] {
        until(&format!("{endless} goes on"), || (!steps(&shop.show(endless)).is_empty()).then_some(()));
    }
    assert_eq!(
        shop.ok(&["list", "status:failed", "-o", "name"]).lines().count(),
        2,
        "only the invoice and the trip"
    );
}

#[test]
fn a_killed_dev_loses_nothing_on_sqlite() {
    a_killed_process_loses_nothing(&Shop::new());
}

#[test]
fn a_killed_dev_loses_nothing_on_postgres() {
    if outlast_testkit::skipped() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = outlast_testkit::TestDatabase::create("empty", async |_| Ok(()));
    let database = runtime.block_on(database).unwrap();
    a_killed_process_loses_nothing(&Shop::at(database.url()));
}

#[test]
fn dev_tells_what_happens_in_plain_lines_when_nobody_sees_colours() {
    let shop = Shop::new();
    let dev = shop.dev();
    for told in [
        "order/order-1           ▷ started with {\"item\":\"bicycle\",\"cents\":45900}",
        "order/order-1             reserved item=\"bicycle\"",
        "order/order-1           … waiting for event approval (until ",
        "approve it with: ",
        "remind/ann              … sleeping until ",
        "sync_prices/prices-1    ✗ attempt 2 failed: the price list does not answer; tries again in 2 s",
        "sync_prices/prices-1    ■ completed in ",
        "pay_invoice/invoice-7   ✗ pay failed for good: the bank declined invoice 7",
        "pay_invoice/invoice-7   ■ failed after ",
        "stocktaking/stock-1     ■ completed in ",
    ] {
        dev.until_told(told);
    }
    assert!(!dev.told().contains('\u{1b}'), "{}", dev.told());
}

#[test]
fn every_command_of_the_banner_works_as_it_stands() {
    let shop = Shop::new();
    let dev = shop.dev();
    let banner = dev.told();
    let called = format!("    {} ", env!("CARGO_BIN_EXE_outlast"));
    let commands: Vec<&str> = banner.lines().filter_map(|line| line.strip_prefix(&called)).collect();
    assert_eq!(commands.len(), 4, "{banner}");
    for command in commands {
        // The shell's quotes hold the only spaces that matter.
        let words: Vec<String> = command.split('\'').enumerate().fold(Vec::new(), |mut words, (n, part)| {
            match n % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
            words
        });
        shop.ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    shop.until_status("order/order-1", "completed");
}

#[test]
fn dev_drains_when_asked_to_stop_and_ends_well() {
    for signal in ["TERM", "INT"] {
        let shop = Shop::new();
        let dev = shop.dev();
        dev.until_told("order/order-1           ▷ started");
        dev.signal(signal);
        let (code, _, noted) = dev.end();
        assert_eq!(code, Some(0), "{noted}");
        assert!(noted.contains("stopping: what is in hand may finish"), "{noted}");
        assert!(noted.contains("unfinished runs will go on when it starts again"), "{noted}");
        // No node is left behind, and none has to time out.
        assert_eq!(shop.ok(&["list", "nodes", "-o", "name"]), "");
    }
}

#[test]
fn work_that_takes_longer_than_the_drain_is_done_after_a_restart() {
    let shop = Shop::new();
    let dev = shop.dev();
    shop.ok(&["start", "count_shelf", "--input", "22", "--key", "long"]);
    shop.until_status("count_shelf/long", "running");
    dev.signal("TERM");
    let (code, _, noted) = dev.end();
    assert!(code == Some(0) && noted.contains("work in hand is handed back"), "{code:?} {noted}");
    assert_eq!(shop.show("count_shelf/long")["status"], "ready");

    let _dev = shop.dev();
    assert_eq!(shop.ok(&["wait", "count_shelf/long", "--timeout", "60s"]), "264\n");
}

#[test]
fn a_second_ctrl_c_stops_at_once() {
    let shop = Shop::new();
    let mut dev = shop.dev();
    shop.ok(&["start", "count_shelf", "--input", "1000", "--key", "endless"]);
    shop.until_status("count_shelf/endless", "running");
    // Whoever presses it again and again means it.
    let code = until("dev ends", || dev.signalled("INT"));
    assert_eq!(code, Some(130), "{}", dev.noted());
}

#[test]
fn a_file_has_one_owner_at_a_time() {
    let shop = Shop::new();
    let _first = shop.dev();
    let told = shop.refused(&["dev"], 4);
    assert!(told.contains("outlast.db is in use by process"), "{told}");
}

#[test]
fn dev_ends_quietly_when_its_reader_leaves() {
    let shop = Shop::new();
    assert_eq!(shop.dev_without_reader().code(), Some(0));
}

#[test]
fn without_samples_nothing_is_started_and_others_are_watched() {
    let shop = Shop::new();
    shop.dev().kill();
    let order = shop.ok(&["start", "order", "--input", r#"{"item":"bell","cents":900}"#]);
    let dev = shop.dev_with(&["--no-samples"]);
    assert!(!dev.told().contains("The samples are running"), "{}", dev.told());
    until("nobody knows the order", || (shop.show(order.trim())["status"] == "blocked").then_some(()));
    dev.until_told("■ blocked: ");
    dev.kill();

    let _dev = shop.dev();
    shop.until_status(order.trim(), "completed");
}

#[test]
fn orders_come_in_whatever_keys_people_use() {
    let shop = Shop::new();
    let dev = shop.dev();
    let input = r#"{"item":"kayak","cents":55000}"#;
    for key in ["order-2", "order-18446744073709551615"] {
        shop.ok(&["start", "order", "--input", input, "--key", key]);
    }
    dev.until_told("order/order-3           ▷ started with ");
}

#[test]
fn a_dev_in_memory_promises_nothing_for_later() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--database-url", "sqlite::memory:"]);
    assert!(!dev.told().contains("nothing is lost"), "{}", dev.told());
    dev.until_told("order/order-1           ▷ started");
    dev.signal("TERM");
    let (code, _, noted) = dev.end();
    assert_eq!(code, Some(0), "{noted}");
    assert!(noted.ends_with("gone with it\n") && !noted.contains("starts again"), "{noted}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_browser_is_opened_where_that_is_asked_for_and_only_there() {
    use std::os::unix::fs::PermissionsExt;
    let shop = Shop::new();
    let (browser, opened) = (shop.folder().join("xdg-open"), shop.folder().join("opened"));
    std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened.tmp && mv opened.tmp opened\n").unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", shop.folder().display(), std::env::var("PATH").unwrap());
    for (args, is_asked) in [(&["dev", "--port", "0"][..], false), (&["dev", "--port", "0", "--open"], true)]
    {
        let dev = shop.spawned_with(args, &[("PATH", &path)]);
        dev.until_told("Ctrl-C stops it gently");
        if is_asked {
            let url = support::until("it is opened", || std::fs::read_to_string(&opened).ok());
            assert!(dev.told().contains(url.trim()) && url.starts_with("http://127.0.0.1:"), "{url}");
        }
        dev.signal("TERM");
        assert_eq!(dev.end().0, Some(0));
        assert_eq!(opened.exists(), is_asked);
    }
}
