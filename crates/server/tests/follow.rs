//! Watching one run: to its end, its logs, parts of it, and as a file; and readers that leave early.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::{Shop, until};

const TENT: &str = r#"{"item":"tent","cents":900}"#;

#[test]
fn a_run_is_followed_to_its_end_step_by_step() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    let told = shop.ok(&["start", "order", "--input", TENT, "--key", "t", "--follow"]);
    let places: Vec<usize> =
        ["✓ reserve took", "✓ charge took", "… sleeping until", "✓ slept", "✓ ship ended", "■ completed in"]
            .iter()
            .map(|part| told.find(part).unwrap_or_else(|| panic!("{part} is missing:\n{told}")))
            .collect();
    assert!(places.is_sorted(), "{told}");
    assert!(told.contains("reserved item=\"tent\"") && !told.contains('\x1b'), "{told}");
    // What has ended is told as it was.
    assert!(shop.ok(&["follow", "order/t"]).contains("■ completed in"));
    let lines = shop.ok(&["follow", "order/t", "-o", "jsonl"]);
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");

    let failed = shop.run(&["start", "pay_invoice", "--input", "\"invoice 3\"", "--follow"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.out.contains("■ failed after") && failed.err.ends_with("is failed (failed)\n"),
        "{failed:?}"
    );
    let told = shop.run(&["follow", "heartbeat/shop", "--timeout", "300ms"]);
    assert_eq!(told.code, 7, "{told:?}");
    assert!(told.err.contains("has not ended after 300 ms: it goes on"), "{told:?}");
    assert!(shop.refused(&["follow", "order/t", "-o", "json"], 2).contains("jsonl"));
}

#[test]
fn logs_go_on_until_the_run_ends_and_can_be_narrowed() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    let logs = shop.spawned(&["logs", "order/order-1", "--follow"]);
    logs.until_told("charged cents=");
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    let (code, told, _) = logs.end();
    assert_eq!(code, Some(0));
    assert!(told.contains("ann approved it"), "{told}");
    assert_eq!(shop.ok(&["logs", "order/order-1"]), told);
    assert_eq!(shop.ok(&["logs", "order/order-1", "--level", "error"]), "");
    assert_eq!(shop.ok(&["logs", "order/order-1", "--since", "2027-01-01T00:00:00Z", "-o", "jsonl"]), "");
    assert!(shop.ok(&["logs", "order/order-1", "--since", "1h"]).contains("approved"));
    assert!(
        shop.refused(&["logs", "order/order-1", "--since", "soon"], 2)
            .contains("--since: a duration looks like")
    );
}

#[test]
fn parts_of_a_run_are_shown_as_they_are() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    let input = r#"{"item":"tent","cents":900,"more":12345678901234567890123}"#;
    shop.ok(&["start", "order", "--input", input, "--key", "t", "--wait"]);
    assert_eq!(shop.ok(&["show", "order/t", "--input"]), format!("{input}\n"));
    assert!(shop.ok(&["show", "order/t", "--result"]).starts_with("\"tent is on its way"));
    let step = shop.ok(&["show", "order/t", "--step", "charge"]);
    assert!(step.contains("charge  step") && step.contains("result") && step.contains("receipt"), "{step}");
    assert_eq!(shop.ok(&["show", "order/t", "--step", "2"]), step);
    assert!(
        shop.ok(&["show", "order/t", "--step", "charge", "-o", "json"]).contains("\"state\": \"completed\"")
    );
    let told = shop.refused(&["show", "order/t", "--step", "chrage"], 3);
    assert!(told.contains("has no step \"chrage\": it has reserve, charge"), "{told}");
    assert!(shop.refused(&["show", "heartbeat/shop", "--result"], 3).contains("has no output"));

    // As a file, where no database is.
    std::fs::write(shop.folder().join("run.json"), shop.ok(&["export", "order/t"])).unwrap();
    let elsewhere = Shop::new();
    let file = shop.folder().join("run.json");
    let file = file.to_str().unwrap();
    let shown = elsewhere.ok(&["show", "--file", file]);
    assert!(
        shown.contains("order/t") && shown.contains("✓ charge") && shown.contains("✓ child ship"),
        "{shown}"
    );
    assert_eq!(elsewhere.ok(&["show", "--file", file, "--input"]), format!("{input}\n"));
    assert!(elsewhere.refused(&["show", "--file", "none.json"], 2).contains("cannot read none.json"));
    std::fs::write(elsewhere.folder().join("junk.json"), "{}").unwrap();
    elsewhere.refused(&["show", "--file", "junk.json"], 2);
    assert!(elsewhere.refused(&["show"], 2).contains("ID"));
}

#[test]
fn a_reader_that_leaves_early_breaks_nothing() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_status("stocktaking/stock-1", "completed");
    for args in [
        &["list", "-o", "jsonl"][..],
        &["list"],
        &["show", "stocktaking/stock-1"],
        &["export", "stocktaking/stock-1"],
        &["follow", "stocktaking/stock-1"],
        &["completions", "bash"],
        &["migrate", "print"],
        &["doctor"],
        &["openapi"],
    ] {
        let mut child = shop.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is gone before anything was written.
        drop(child.stdout.take());
        let mut err = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        while lines.read_line(&mut err).unwrap() > 0 {}
        let status = until("it ends", || child.try_wait().unwrap());
        assert!(status.code() == Some(0) && !err.contains("panicked"), "{args:?}: {status} {err}");
    }
}

#[test]
fn times_and_quiet_and_formats_are_as_asked() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    let started = |time: &str| {
        let page = shop.ok(&["show", "order/order-1", "--time", time]);
        page.lines().find(|line| line.contains("started")).unwrap().to_owned()
    };
    assert!(started("relative").contains("ago") || started("relative").contains("just now"));
    assert!(started("rfc3339").contains('T') && started("rfc3339").contains("Z ("), "{}", started("rfc3339"));
    assert!(started("utc").contains("20") && !started("utc").contains("ago"));
    let quiet = shop.run(&["start", "order", "--input", TENT, "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    let loud = shop.run(&["start", "order", "--input", TENT]);
    assert!(loud.err.contains("look at it with"), "{loud:?}");
    let refused = shop.run(&["show", "order/none", "-q"]);
    assert!(refused.code == 3 && refused.err.starts_with("error: "), "{refused:?}");
    let yaml = shop.ok(&["show", "order/order-1", "-o", "yaml"]);
    assert!(yaml.contains("definition: order\n") && yaml.contains("journal:\n  - pos: 1\n"), "{yaml}");
}
