//! What lists and pages tell beside what things are: what runs wait for, where failures happened, how rates, nodes and the
//! installation stand. On both databases, since each reads it in its own words.

use std::time::Duration;

use outlast::Timestamp;
use outlast_store::Roll;
use outlast_testkit::{StoreKind, skipped};
use serde_json::{Value, json};

use crate::lab::Lab;

/// A server on each database that there is.
async fn labs() -> Vec<(StoreKind, Lab)> {
    let mut labs = vec![(StoreKind::Sqlite, Lab::open().await)];
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
    } else {
        labs.push((StoreKind::Postgres, Lab::with(StoreKind::Postgres, |api| api.without_tokens()).await));
    }
    labs
}

async fn sum_up(lab: &Lab) {
    let roll = Roll { shard: 0, limit: 100, behind: Duration::ZERO, keep: Duration::from_secs(86_400) };
    lab.app.store().roll(&roll).await.unwrap();
}

async fn listed(lab: &Lab, run: &str) -> Value {
    let page = lab.get("/api/v1/runs?limit=50").await.json();
    page["items"].as_array().unwrap().iter().find(|item| item["id"] == run).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_says_what_its_runs_wait_for() {
    for (kind, lab) in labs().await {
        let approve = lab.start(r#"{"definition":"approve"}"#).await;
        let promised = lab.start(r#"{"definition":"promised"}"#).await;
        for run in [&approve, &promised] {
            lab.until(run, "waiting").await;
        }
        let wait = listed(&lab, &approve).await["waiting_for"].clone();
        assert_eq!((&wait["on"], &wait["name"]), (&json!("event"), &json!("approval")), "{kind:?}");
        assert!(wait["since"].as_str().unwrap().ends_with('Z') && wait["until"].is_null(), "{wait}");
        let wait = listed(&lab, &promised).await["waiting_for"].clone();
        assert_eq!((&wait["on"], &wait["name"]), (&json!("promise"), &json!("paid")), "{kind:?}");
        let by_id = lab.get(&format!("/api/v1/runs?q={approve}")).await.json();
        assert_eq!(by_id["items"][0]["waiting_for"]["name"], "approval", "{by_id}");

        lab.post(&format!("/api/v1/runs/{approve}/events"), r#"{"name":"approval","data":1}"#).await;
        lab.result(&approve).await;
        assert_eq!(listed(&lab, &approve).await.get("waiting_for"), None, "it has ended");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_waits_for_is_found_at_the_end_of_a_long_journal() {
    for (kind, lab) in labs().await {
        let run = lab.start(r#"{"definition":"counts"}"#).await;
        for _ in 0..40 {
            lab.until(&run, "waiting").await;
            lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"next","data":"on"}"#).await;
        }
        let journal = loop {
            let saved = lab.get(&format!("/api/v1/runs/{run}/queries/count")).await.json();
            if saved["value"] == 41 {
                break lab.get(&format!("/api/v1/runs/{run}/history?limit=1000")).await.json();
            }
        };
        lab.until(&run, "waiting").await;
        assert!(journal["items"].as_array().unwrap().len() > 64, "longer than what is looked at");
        let wait = listed(&lab, &run).await["waiting_for"].clone();
        assert_eq!((&wait["on"], &wait["name"]), (&json!("event"), &json!("next")), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_ran_at_once_lie_beside_each_other() {
    for (kind, lab) in labs().await {
        let run = lab.start(r#"{"definition":"together"}"#).await;
        lab.result(&run).await;
        let history = lab.get(&format!("/api/v1/runs/{run}/history")).await.json();
        let took = |at: usize| history["items"][at]["took_us"].as_u64();
        assert!(took(0).is_none_or(|took| took < 3_000_000), "{kind:?}: {history}");
        assert!(took(1).is_some_and(|took| took >= 4_000_000), "{kind:?}: {history}");

        let steps = lab.get(&format!("/api/v1/runs/{run}/steps")).await.json()["items"].clone();
        let at =
            |step: usize, what: &str| -> Timestamp { steps[step][what].as_str().unwrap().parse().unwrap() };
        let apart = at(1, "began_at").since(at(0, "began_at"));
        assert!(apart < Duration::from_secs(1), "{kind:?}: {steps}");
        assert!(at(1, "ended_at").since(at(1, "began_at")) >= Duration::from_secs(4), "{kind:?}: {steps}");

        let file = lab.get(&format!("/api/v1/runs/{run}/export")).await.text;
        let read = lab.post("/api/v1/runs/read", &file).await.json();
        assert_eq!((&read["steps"], &read["history"]), (&steps, &history["items"]), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_that_are_alike_name_the_step_and_the_versions() {
    for (kind, lab) in labs().await {
        for version in [1, 2] {
            let body = json!({ "definition": "broken", "version": version }).to_string();
            let run = lab.start(&body).await;
            assert_eq!(lab.result(&run).await["status"], "failed");
        }
        let job = lab.start(r#"{"definition":"fail","input":"no"}"#).await;
        lab.result(&job).await;
        sum_up(&lab).await;
        let groups = lab.get("/api/v1/errors").await.json();
        let group = |name: &str| {
            groups["items"].as_array().unwrap().iter().find(|group| group["definition"] == name).unwrap()
        };
        let broken = group("broken");
        assert_eq!(
            (&broken["step"], &broken["versions"], &broken["runs"]),
            (&json!("charge"), &json!([2, 1]), &json!(2)),
            "{kind:?}"
        );
        let fail = group("fail");
        assert_eq!((&fail["step"], &fail["versions"]), (&json!(null), &json!([1])), "a job has no steps");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_says_how_much_of_its_rate_is_left() {
    for (kind, lab) in labs().await {
        let queue = async || lab.get("/api/v1/queues/mail").await.json();
        assert_eq!(queue().await["rate_state"], json!(null), "it has no rate");
        let limits = lab.put("/api/v1/queues/mail/limits", r#"{"rate":{"count":2,"per_ms":3600000}}"#).await;
        assert_eq!(limits.status, 200, "{limits:?}");
        let state = queue().await["rate_state"].clone();
        assert_eq!(state, json!({ "used": 0, "free": 2, "freer_at": null }), "{kind:?}");
        for nth in 0..2 {
            let run =
                lab.start(&json!({ "definition": "fail", "input": format!("{nth}") }).to_string()).await;
            lab.result(&run).await;
        }
        let state = queue().await["rate_state"].clone();
        assert_eq!((&state["used"], &state["free"]), (&json!(2), &json!(0)), "{kind:?}");
        assert!(state["freer_at"].is_string(), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_say_what_they_know_and_how_much_they_take() {
    for (kind, lab) in labs().await {
        let node = lab.get("/api/v1/nodes").await.json()["items"][0].clone();
        assert_eq!(node["slots"], 256, "{kind:?}");
        for code in ["greet@1", "broken@1", "broken@2"] {
            assert!(node["codes"].as_array().unwrap().contains(&json!(code)), "{node}");
        }
        let about = &node["about"];
        assert_eq!((&about["language"], &about["build"]), (&json!("rust"), &json!("debug")), "{node}");
        assert!(about["version"].is_string() && about["lease_ms"].is_u64(), "{node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_installation_says_how_the_work_beside_the_runs_stands() {
    for (kind, lab) in labs().await {
        let system = async || lab.get("/api/v1/system").await.json();
        // Who sums up has begun.
        sum_up(&lab).await;
        let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
        lab.result(&run).await;
        assert!(system().await["unsummed_since"].is_string(), "{kind:?}");
        sum_up(&lab).await;
        let now = system().await;
        assert_eq!(now["unsummed_since"], json!(null), "{kind:?}");
        assert_eq!((&now["hears_others"], &now["held"]), (&json!(true), &json!(0)), "{now}");
        assert!(now["schema"].as_i64().unwrap() >= 26 && now["next_lease_end"].is_string(), "{now}");
        assert_eq!(now["keeps_sums_ms"], 31 * 86_400_000_u64);
        let kept = json!({ "definition": "keeps", "keeps_ms": { "completed": 3_600_000, "failed": null, "cancelled": null } });
        assert_eq!(now["retention"], json!([kept]), "{kind:?}");
        let tables = lab.get("/api/v1/system/tables").await.json();
        let tables = tables["items"].as_array().unwrap().clone();
        let sizes: Vec<u64> = tables.iter().map(|table| table["bytes"].as_u64().unwrap()).collect();
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{tables:?}");
        assert!(tables.iter().any(|table| table["name"] == "runs" && table["bytes"] != 0), "{tables:?}");
        assert_eq!(now["pool"]["size"].is_u64(), kind == StoreKind::Postgres, "{now}");
    }
}
