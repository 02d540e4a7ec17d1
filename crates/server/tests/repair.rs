//! `outlast retry`, `outlast fork` and `outlast replace` for workflows, beside a running `outlast dev`.

mod support;

use serde_json::Value;
use support::Shop;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_failed_workflow_goes_on_from_its_failed_step_or_with_another_result() {
    let shop = Shop::new();
    let _dev = shop.dev();
    let run = shop.until_status("pay_invoice/invoice-7", "failed")["id"].as_str().unwrap().to_owned();
    let told = shop.ok(&["retry", "pay_invoice/invoice-7", "--dry-run"]);
    assert_eq!(told, format!("{run}: 0 results kept; runs again: pay\n"));
    assert_eq!(shop.ok(&["retry", "pay_invoice/invoice-7"]), format!("{run} is ready to be tried again\n"));
    shop.until_status(&run, "failed");

    let ask = ["replace", "pay", &run, "--reason", "paid in cash"];
    let told = shop.ok(&[&ask[..], &["--dry-run"]].concat());
    assert_eq!(told, format!("{run}: 1 result kept; nothing that ran before runs again\n"));
    let told = shop.refused(&["replace", "pya", &run, "--reason", "paid in cash"], 2);
    assert!(told.contains("pya") && told.contains("one that the run has recorded: pay"), "{told}");
    assert_eq!(shop.ok(&ask), format!("{run} goes on with another result of pay\n"));
    shop.until_status(&run, "completed");
    let shown = shop.ok(&["show", &run]);
    assert!(shown.contains("the result of pay was replaced: paid in cash"), "{shown}");
    assert!(shown.contains("tried again"), "{shown}");
    let told = shop.refused(&["retry", &run], 4);
    assert!(told.contains("it has completed; fork it instead"), "{told}");
}

#[test]
fn a_run_is_forked_from_a_step_with_another_input() {
    let shop = Shop::new();
    let _dev = shop.dev();
    shop.ok(&["start", "order", "--input", r#"{"item":"sofa","cents":50000}"#, "--key", "s"]);
    shop.until_asking("order/s");
    let run = shop.ok(&["show", "order/s", "-o", "name"]).trim().to_owned();
    let plan = json(&shop.ok(&["fork", &run, "--from", "charge", "--dry-run", "-o", "json"]));
    assert_eq!((&plan["kept"], &plan["again"]), (&1.into(), &serde_json::json!(["charge"])), "{plan}");
    let ask = ["fork", &run, "--from", "charge", "--input", r#"{"item":"sofa","cents":500}"#, "-o", "name"];
    let fork = shop.ok(&ask).trim().to_owned();
    assert_ne!(fork, run);
    // It is cheap enough now: nobody has to agree.
    assert_eq!(shop.until_status(&fork, "completed")["input"]["cents"], 500);
    let found = shop.ok(&["list", &format!("tag:outlast.fork-of={run}"), "-o", "name"]);
    assert_eq!(found.trim(), fork);
    let told = shop.refused(&["fork", &run], 2);
    assert!(told.contains("the run has not gone wrong anywhere"), "{told}");
    let told = shop.refused(&["fork", &run, "--from", "charge", "--version", "7"], 2);
    assert!(told.contains("version") && told.contains("registered for order"), "{told}");

    // And all that fit, each once.
    let told = shop.ok(&["fork", "--filter", "key:s status:waiting", "--from", "charge", "--dry-run"]);
    assert!(told.contains("is forked, and runs again: charge"), "{told}");
    let told = shop.ok(&["fork", "--filter", "key:s status:waiting", "--from", "charge", "--yes"]);
    assert!(told.starts_with("1 run forked"), "{told}");
    let cheap = r#"{"item":"sofa","cents":700}"#;
    let told =
        shop.ok(&["fork", "--filter", "key:s status:waiting", "--from", "charge", "--input", cheap, "--yes"]);
    assert!(told.starts_with("1 run forked"), "{told}");
    let forks = shop.ok(&["list", &format!("tag:outlast.fork-of={run}"), "-o", "name"]);
    let inputs =
        forks.lines().map(|fork| json(&shop.ok(&["show", fork, "-o", "json"]))["input"]["cents"].as_u64());
    assert!(inputs.collect::<Vec<_>>().contains(&Some(700)), "{forks}");

    shop.ok(&["cancel", &run, "--reason", "enough"]);
    shop.until_status(&run, "cancelled");
    let told = shop.ok(&["retry", "--filter", "key:s status:cancelled", "--from", "charge", "--dry-run"]);
    assert!(told.contains("runs again: charge"), "{told}");
}
