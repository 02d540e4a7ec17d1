//! The audit log: how things stood before and after, and whether somebody changed a line by hand.

use std::net::SocketAddr;

use axum::Router;
use outlast_server::http::Api;
use outlast_testkit::{StoreKind, skipped};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::lab::{Lab, told, with_json};

async fn line(lab: &Lab, action: &str) -> Value {
    let log = lab.get("/api/v1/audit?limit=500").await.json();
    let items = log["items"].as_array().unwrap();
    items.iter().find(|line| line["action"] == action).unwrap_or_else(|| panic!("no {action}: {log}")).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_asks_what_would_happen_leaves_no_line() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"fail","input":"no"}"#).await;
    assert_eq!(lab.result(&run).await["status"], "failed");
    let of_run = |action: &str| format!("/api/v1/runs/{run}/{action}");
    for (path, body) in [
        (of_run("retry"), r#"{"dry_run":true}"#),
        (of_run("fork"), r#"{"dry_run":true}"#),
        ("/api/v1/bulk".to_owned(), r#"{"op":"retry","filter":"def:fail","dry_run":true}"#),
        (
            "/api/v1/schedules/nightly-acme/backfill".to_owned(),
            r#"{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","dry_run":true}"#,
        ),
    ] {
        let told = lab.post(&path, body).await;
        assert_eq!(told.status, 200, "{path}: {told:?}");
    }
    let log = lab.get("/api/v1/audit?limit=500").await.json();
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["run.start"], "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_done_to_queues_schedules_and_bulks_can_have_a_reason() {
    let lab = Lab::open().await;
    let bulk = lab.post("/api/v1/bulk", r#"{"op":"cancel","all":true,"reason":"over"}"#).await.json();
    for (path, action) in [
        ("/api/v1/queues/mail/pause".to_owned(), "queue.pause"),
        ("/api/v1/queues/mail/drain".to_owned(), "queue.drain"),
        ("/api/v1/queues/mail/resume".to_owned(), "queue.resume"),
        ("/api/v1/schedules/nightly-acme/pause".to_owned(), "schedule.pause"),
        ("/api/v1/schedules/nightly-acme/resume".to_owned(), "schedule.resume"),
        ("/api/v1/schedules/nightly-acme/trigger".to_owned(), "schedule.trigger"),
        (format!("/api/v1/bulk/{}/abort", bulk["id"].as_str().unwrap()), "bulk.abort"),
    ] {
        let told = lab.post(&path, r#"{"reason":"because"}"#).await;
        assert!(told.status.is_success(), "{path}: {told:?}");
        assert_eq!(line(&lab, action).await["reason"], "because", "{action}");
        assert_eq!(lab.post(&path, r#"{"raeson":"because"}"#).await.code(), "unknown_field", "{path}");
        let text = lab.request("POST", &path).header("content-type", "text/plain").body("because");
        assert_eq!(told_of(text).await, 415, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_messages_limits_and_schedules_can_have_a_reason_too() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve","input":"a","reason":"because"}"#).await;
    assert_eq!(line(&lab, "run.start").await["reason"], "because");
    let limits = "/api/v1/queues/mail/limits".to_owned();
    let nightly = "/api/v1/schedules/nightly-acme".to_owned();
    for (method, path, body, action) in [
        ("POST", format!("/api/v1/runs/{run}/promises"), r#"{"name":"p","data":1,"#, "run.settle"),
        ("POST", format!("/api/v1/runs/{run}/events"), r#"{"name":"e","data":1,"#, "run.send"),
        ("PUT", limits.clone(), r#"{"limit":3,"#, "queue.limit"),
        (
            "POST",
            format!("{nightly}/backfill"),
            r#"{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","#,
            "schedule.backfill",
        ),
        ("PUT", nightly, r#"{"definition":"approve","expression":"@daily","#, "schedule.set"),
    ] {
        let body = format!(r#"{body}"reason":"because"}}"#);
        let told = told(with_json(lab.request(method, &path), &body)).await;
        assert!(told.status.is_success(), "{path}: {told:?}");
        assert_eq!(line(&lab, action).await["reason"], "because", "{action}");
    }
    let told = lab.delete(&format!("{limits}?reason=because")).await;
    assert!(told.status.is_success(), "{told:?}");
    assert_eq!(line(&lab, "queue.reset").await["reason"], "because");
}

async fn told_of(request: reqwest::RequestBuilder) -> u16 {
    told(request).await.status.as_u16()
}

async fn lines_say_how_things_stood(kind: StoreKind) {
    let lab = Lab::with(kind, |api| api.without_tokens()).await;
    let run = lab.start(r#"{"definition":"approve","input":"a secret","delay_ms":9000000}"#).await;
    let started = line(&lab, "run.start").await;
    assert_eq!((&started["before"], &started["after"]["created"]), (&Value::Null, &json!(true)));
    assert_eq!(started["ip"], "127.0.0.1");
    let hash = started["after"]["input"].as_str().unwrap();
    assert!(hash.starts_with("sha256:") && hash.len() == 71, "{started}");

    lab.post(&format!("/api/v1/runs/{run}/pause"), r#"{"reason":"later"}"#).await;
    let paused = line(&lab, "run.pause").await;
    assert_eq!(
        (&paused["before"]["status"], &paused["after"]["status"]),
        (&json!("ready"), &json!("paused"))
    );
    assert_eq!(paused["before"]["input"], hash, "of the input there is the hash");
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"approval","data":"another secret"}"#).await;
    assert_eq!(line(&lab, "run.send").await["after"]["sent"]["name"], "approval");
    lab.post(&format!("/api/v1/runs/{run}/kill"), r#"{"reason":"now"}"#).await;
    assert_eq!(line(&lab, "run.kill").await["after"]["status"], "cancelled");
    lab.delete(&format!("/api/v1/runs/{run}?reason=gone")).await;
    let deleted = line(&lab, "run.delete").await;
    assert_eq!((&deleted["before"]["status"], &deleted["after"]), (&json!("cancelled"), &Value::Null));
    let never = lab.start(r#"{"definition":"approve","delay_ms":9000000}"#).await;
    lab.delete(&format!("/api/v1/runs/{never}?reason=typo")).await;
    let deleted = line(&lab, "run.delete").await;
    assert_eq!((&deleted["target"], &deleted["reason"]), (&json!(never), &json!("typo")));
    assert_eq!((&deleted["before"]["status"], &deleted["after"]), (&json!("ready"), &Value::Null));

    lab.put("/api/v1/queues/mail/limits", r#"{"limit":2}"#).await;
    let limited = line(&lab, "queue.limit").await;
    assert_eq!(
        (&limited["before"]["rules"]["limit"], &limited["after"]["rules"]["limit"]),
        (&json!(5), &json!(2))
    );
    lab.post("/api/v1/schedules/nightly-acme/pause", "").await;
    let held = line(&lab, "schedule.pause").await;
    assert_eq!((&held["before"]["paused"], &held["after"]["paused"]), (&json!(false), &json!(true)));
    let made = lab.post("/api/v1/tokens", r#"{"subject":"ann","role":"viewer"}"#).await.json();
    lab.delete(&format!("/api/v1/tokens/{}", made["id"].as_str().unwrap())).await;
    let revoked = line(&lab, "token.revoke").await;
    assert_eq!((&revoked["before"]["revoked"], &revoked["after"]["revoked"]), (&json!(false), &json!(true)));
    // Whoever was refused changed nothing.
    assert_eq!(lab.delete("/api/v1/schedules/nightly-acme?reason=x").await.status, 204);
    assert_eq!(lab.post("/api/v1/runs/run_00000000000000000000000000/cancel", "").await.status, 404);
    assert_eq!(line(&lab, "run.cancel").await["after"], Value::Null);
    let all = lab.get("/api/v1/audit?limit=500").await.text;
    let secret = made["secret"].as_str().unwrap();
    for hidden in ["a secret", "another secret", secret] {
        assert!(!all.contains(hidden), "{hidden} is in the log");
    }

    // Somebody who can write to the database covers their tracks.
    let verify = async |query: &str| lab.get(&format!("/api/v1/audit/verify{query}")).await.json();
    let end = verify("").await["end"].as_str().unwrap().to_owned();
    assert_eq!(verify(&format!("?limit=2&known={end}")).await["breaks"], json!([]));
    lab.world.raw("update outlast.audit set actor = 'bob' where action = 'run.kill'").await;
    let found = verify("").await;
    let what = found["breaks"][0]["what"].as_str().unwrap_or_default();
    assert!(what.contains("run.kill") && what.contains(&run) && what.contains("was changed"), "{found}");
    lab.world.raw("delete from outlast.audit where action = 'run.kill'").await;
    let found = verify("").await;
    assert!(found["breaks"][0]["what"].as_str().unwrap().ends_with("is missing"), "{found}");
    for query in ["?after=x", "?known=1:zz", "?limit=0"] {
        assert_eq!(lab.get(&format!("/api/v1/audit/verify{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_says_how_things_stood_and_none_is_changed_unseen() {
    lines_say_how_things_stood(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_too_every_line_says_how_things_stood() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    lines_say_how_things_stood(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_another_server_has_is_told_from_which_address_a_request_came() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.without_tokens()).await;
    let api = Api::new(lab.app.client().clone()).without_tokens().router().await.unwrap();
    let router = Router::new().nest("/ops", api).into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/ops/api/v1/queues/mail/pause", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    assert_eq!(told(reqwest::Client::new().post(url)).await.status, 200);
    assert_eq!(line(&lab, "queue.pause").await["ip"], "127.0.0.1");
    serving.abort();
}
