//! `outlast explain` and `outlast verify`, beside a running `outlast dev` and without one.

mod support;

use serde_json::Value;
use support::Shop;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_run_says_why_it_is_not_progressing_and_what_wakes_it() {
    let shop = Shop::new();
    let dev = shop.dev();
    shop.ok(&["start", "order", "--input", r#"{"item":"sofa","cents":50000}"#, "--key", "s"]);
    shop.until_asking("order/s");
    let told = shop.ok(&["explain", "order/s"]);
    assert!(told.contains(" is waiting for event approval (since "), "{told}");
    let told = json(&shop.ok(&["explain", "order/s", "-o", "json"]));
    assert_eq!((&told["kind"], &told["status"]), (&"waiting".into(), &"waiting".into()), "{told}");
    assert_eq!(told["waits"][0]["name"], "approval");
    assert!(told["text"].as_str().unwrap().starts_with("waiting for event approval"), "{told}");
    assert_eq!(shop.ok(&["explain", "order/s", "-o", "name"]), "waiting\n");

    shop.ok(&["pause", "order/s", "--reason", "lunch"]);
    let told = shop.ok(&["explain", "order/s"]);
    assert!(told.ends_with(" is paused until somebody resumes it: lunch\n"), "{told}");
    shop.ok(&["resume", "order/s"]);

    shop.ok(&["cancel", "order/s"]);
    shop.until_status("order/s", "cancelled");
    assert!(shop.ok(&["explain", "order/s"]).contains(" is cancelled: it ended at "));

    // One that is killed is there until its lease ends.
    dev.signal("TERM");
    dev.end();
    shop.ok(&["start", "ship", "--key", "later", "--delay", "1h", "--input", "\"tea\""]);
    shop.ok(&["start", "ship", "--key", "now", "--input", "\"tea\""]);
    assert!(shop.ok(&["explain", "ship/later"]).contains("is ready: it is not due before 2"));
    let alone = shop.ok(&["explain", "ship/now"]);
    assert!(alone.contains("no node"), "{alone}");
    assert!(shop.refused(&["explain", "ship/none"], 3).contains("none"));
}

#[test]
fn verify_names_a_run_that_nothing_wakes_and_ends_with_4() {
    let shop = Shop::new();
    let dev = shop.dev();
    dev.signal("TERM");
    dev.end();
    for key in ["one", "two"] {
        shop.ok(&["start", "ship", "--key", key, "--delay", "1h", "--input", "\"tea\""]);
    }
    assert!(shop.ok(&["verify"]).contains(" due at a time"), "all is well");
    assert_eq!(json(&shop.ok(&["verify", "-o", "json"]))["lacking"], 0);

    let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    let orphan =
        "update outlast_agenda set due_at = null where id = (select run from outlast_keys where key = 'two')";
    assert_eq!(file.execute(orphan, []).unwrap(), 1);
    drop(file);
    let found = shop.run(&["verify"]);
    assert_eq!(found.code, 4, "{found:?}");
    let run = shop.show("ship/two")["id"].as_str().unwrap().to_owned();
    assert!(found.out.contains(&format!("{run}: it is ready and due at no time")), "{found:?}");
    assert!(found.out.contains("a ready run is not due at any time, or is held (1 times)"), "{found:?}");
    assert!(
        found.err.contains("nothing wakes 1 of ") && found.err.contains("(precondition_failed)"),
        "{found:?}"
    );
    let found = shop.run(&["verify", "-o", "json"]);
    assert_eq!((found.code, &json(&found.out)["without"][0]["run"]), (4, &Value::from(run)));
    assert!(shop.ok(&["explain", "ship/two"]).contains("nothing will wake it"));
}
