//! `outlast export` and `outlast check`: runs as files, and runs replayed against this binary.

mod support;

use serde_json::Value;
use support::Shop;

#[test]
fn runs_are_exported_and_checked_against_this_binary() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.until_asking("order/order-1");
    // Beside the node that owns the file.
    let checked = shop.run(&["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.out.contains("order/order-1 version 1  fits: "), "{checked:?}");
    assert!(checked.err.contains("fit this binary"), "{checked:?}");
    let few = shop.ok(&["check", "--definition", "order", "--sample", "1", "-o", "json"]);
    let few: Value = serde_json::from_str(&few).unwrap();
    assert_eq!((&few["runs"], &few["checked"][0]["verdict"]), (&1.into(), &"fits".into()), "{few}");

    let exported = shop.ok(&["export", "order/order-1"]);
    let run: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(run["run"]["definition"], "order");
    assert_eq!(run["journal"][0]["op"], "step", "{run}");
    let name = run["journal"][0]["name"].as_str().unwrap();
    std::fs::write(shop.folder().join("good.json"), &exported).unwrap();
    let other = exported.replace(&format!("\"name\": \"{name}\""), "\"name\": \"weigh\"");
    std::fs::write(shop.folder().join("bad.json"), other).unwrap();
    assert_eq!(shop.run(&["check", "good.json"]).code, 0);

    let checked = shop.run(&["check", "good.json", "bad.json", "-o", "jsonl"]);
    assert_eq!(checked.code, 4, "{checked:?}");
    assert!(checked.err.ends_with("1 of 2 runs does not fit this binary (nondeterminism)\n"), "{checked:?}");
    let bad: Value = serde_json::from_str(checked.out.lines().last().unwrap()).unwrap();
    assert_eq!((&bad["verdict"], &bad["file"]), (&"diverges".into(), &"bad.json".into()), "{bad}");
    let difference = &bad["difference"];
    assert_eq!(
        (&difference["entry"], &difference["expected"]["name"]),
        (&1.into(), &"weigh".into()),
        "{bad}"
    );
    assert_eq!(difference["found"]["name"], name, "{bad}");
    assert!(difference["source"]["file"].as_str().unwrap().ends_with("samples.rs"), "{bad}");

    let mut run = run;
    run["run"]["input"] = serde_json::json!({ "json": "no order" });
    std::fs::write(shop.folder().join("other.json"), run.to_string()).unwrap();
    let checked = shop.run(&["check", "other.json"]);
    assert_eq!(checked.code, 4, "{checked:?}");
    assert!(checked.err.ends_with("1 of 1 run does not fit this binary (undecodable)\n"), "{checked:?}");
}

#[test]
fn what_cannot_be_checked_is_refused_in_one_line() {
    let shop = Shop::new();
    let told = shop.refused(&["check"], 3);
    assert!(told.contains("there is no database"), "{told}");
    let told = shop.refused(&["check", "none.json"], 2);
    assert!(told.contains("none.json"), "{told}");
    std::fs::write(shop.folder().join("other.json"), "[]").unwrap();
    let told = shop.refused(&["check", "other.json"], 2);
    assert!(told.contains("outlast export"), "{told}");
}
