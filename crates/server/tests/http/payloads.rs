//! Payloads in part: what is enough for whoever looks, and all of it for whoever works with it.

use serde_json::{Value, json};

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_long_payloads_the_beginning_comes_where_that_is_enough_and_the_rest_is_a_file() {
    let lab = Lab::open().await;
    let long = "ä".repeat(100_000);
    let run = lab.start(&json!({ "definition": "greet", "input": long }).to_string()).await;
    let result = lab.get(&format!("/api/v1/runs/{run}/result?wait=60s")).await.json();
    let output = result["output"].as_str().unwrap().to_owned();
    assert!(output.starts_with("Hello, ää") && output.len() > 200_000);
    let path = |rest: &str| format!("/api/v1/runs/{run}{rest}");

    // Who asks for no preview gets everything, as ever.
    let whole = lab.get(&path("")).await.json();
    assert_eq!((whole["input"].as_str().unwrap(), whole.get("previews")), (long.as_str(), None));

    let brief = lab.get(&path("?preview=4096")).await;
    assert!(brief.text.len() < 12_000, "{} bytes", brief.text.len());
    let brief = brief.json();
    assert_eq!((&brief["input"], &brief["output"]), (&Value::Null, &Value::Null));
    let preview = &brief["previews"]["input"];
    assert_eq!((preview["size"].as_u64(), preview["truncated"].as_bool()), (Some(200_002), Some(true)));
    // The quote and whole letters of two bytes each.
    assert_eq!(preview["text"].as_str().unwrap().len(), 4095);
    assert_eq!(brief["previews"]["output"]["size"].as_u64().unwrap() as usize, output.len() + 2);

    let steps = lab.get(&path("/steps?preview=4096")).await.json();
    assert_eq!((&steps["items"][0]["name"], &steps["items"][0]["result"]), (&json!("greet"), &Value::Null));
    assert_eq!(steps["items"][0]["previews"]["result"]["truncated"], true);
    let history = lab.get(&path("/history?preview=4096")).await.json();
    let entries = history["items"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["name"] == "greet").unwrap();
    assert!(entry["body"].is_null() && entry["previews"]["body"]["truncated"] == true, "{entry}");

    let entry = format!("entry:{}", entry["pos"]);
    for (of, value) in [("input", &long), ("output", &output), ("step:greet", &output), (&*entry, &output)] {
        let file = lab.get(&path(&format!("/payload?of={of}"))).await;
        assert_eq!((file.status.as_u16(), file.json().as_str().unwrap()), (200, value.as_str()), "{of}");
        assert!(file.header("content-disposition").starts_with("attachment; filename=\"run_"), "{file:?}");
        let begins = lab.get(&path(&format!("/payload?of={of}&preview=65536"))).await.json();
        assert_eq!(begins["truncated"], true, "{of}");
        assert!((65_530..=65_536).contains(&begins["text"].as_str().unwrap().len()), "{of}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_short_is_there_whole_and_what_is_not_there_is_not_found() {
    let lab = Lab::open().await;
    let run = lab.start(&json!({ "definition": "greet", "input": "ann" }).to_string()).await;
    lab.get(&format!("/api/v1/runs/{run}/result?wait=60s")).await;
    let path = |rest: &str| format!("/api/v1/runs/{run}{rest}");
    let brief = lab.get(&path("?preview=4096")).await.json();
    assert_eq!((&brief["input"], brief.get("previews")), (&json!("ann"), None));
    let begins = lab.get(&path("/payload?preview=100")).await.json();
    assert_eq!(begins, json!({ "text": "\"ann\"", "size": 5, "truncated": false }));
    for of in ["nothing", "step:nothing", "undo:greet", "entry:900"] {
        assert_eq!(lab.get(&path(&format!("/payload?of={of}"))).await.code(), "not_found", "{of}");
    }
    for wrong in ["?preview=0", "?preview=65537", "/payload?of=entry:x", "/steps?preview=much"] {
        assert_eq!(lab.get(&path(wrong)).await.code(), "invalid_argument", "{wrong}");
    }
}
