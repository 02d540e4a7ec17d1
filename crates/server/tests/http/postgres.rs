//! The main way on PostgreSQL: the same answers, from another database.

use outlast_testkit::{StoreKind, skipped};
use serde_json::json;

use crate::lab::{Lab, told, with_json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_most_programs_do_works_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let lab = Lab::with(StoreKind::Postgres, |api| api).await;
    let (admin, operator) = (lab.token("admin", None).await, lab.token("operator", Some("acme")).await);
    let post = async |secret: &str, path: &str, body: &str| {
        told(with_json(lab.request("POST", path), body).bearer_auth(secret).header("idempotency-key", path))
            .await
    };
    let get =
        async |secret: &str, path: &str| told(lab.request("GET", path).bearer_auth(secret)).await.json();
    let input = r#"{"a":12345678901234567890123}"#;
    let body = format!(r#"{{"definition":"approve","input":{input},"key":"k","tags":{{"city":"Bern"}}}}"#);
    let started = post(&operator, "/api/v1/runs", &body).await;
    assert_eq!(started.status, 201, "{started:?}");
    let replayed = post(&operator, "/api/v1/runs", &body).await;
    assert_eq!((replayed.header("idempotency-replayed"), &replayed.text), ("true", &started.text));
    let run = started.json()["id"].as_str().unwrap().to_owned();
    let shown = told(lab.request("GET", &format!("/api/v1/runs/{run}")).bearer_auth(&operator)).await.text;
    assert!(shown.contains(input), "{shown}");

    assert_eq!(
        post(&operator, &format!("/api/v1/runs/{run}/events"), r#"{"name":"approval","data":7}"#)
            .await
            .status,
        200
    );
    let result = get(&operator, &format!("/api/v1/runs/{run}/result?wait=60s")).await;
    assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!(7)));
    let page = get(&operator, "/api/v1/runs?attr.city=Bern&status=completed&limit=1").await;
    assert_eq!(page["items"][0]["id"], run.as_str());
    assert_eq!(get(&operator, "/api/v1/runs/count?def=approve").await["count"], 1);
    assert_eq!(get(&operator, &format!("/api/v1/runs/{run}/steps")).await["items"][0]["name"], "ask");

    let queue = post(&admin, "/api/v1/queues/mail/pause", "").await;
    assert_eq!(queue.json()["state"], "paused");
    let limits = lab.request("PUT", "/api/v1/queues/mail/limits").header("if-match", queue.header("etag"));
    let limits = told(with_json(limits, r#"{"limit":2}"#).bearer_auth(&admin)).await;
    assert_eq!(limits.json()["rules"]["limit"], 2, "{limits:?}");
    let log = get(&admin, "/api/v1/audit?limit=3").await;
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["queue.limit", "queue.pause", "run.send"]);
    let deleted = told(lab.request("DELETE", &format!("/api/v1/runs/{run}")).bearer_auth(&operator)).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}
