//! What is shown of payloads to those who may not do everything; and secrets, which are shown to nobody.

use serde_json::json;

use crate::lab::{Lab, told, with_json};
use outlast_testkit::StoreKind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn named_fields_of_payloads_are_shown_to_admins_alone() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.redact(["password", "IBAN"])).await;
    let [viewer, operator, admin] =
        [lab.token("viewer", None).await, lab.token("operator", None).await, lab.token("admin", None).await];
    let ask = |method: &str, path: &str, body: &str, who: &str| {
        let request = lab.request(method, path).bearer_auth(who);
        told(if body.is_empty() { request } else { with_json(request, body) })
    };
    let start = r#"{"definition":"approve","key":"k","input":{"user":"ann","Password":"hunter2","n":12345678901234567890123}}"#;
    let run = ask("POST", "/api/v1/runs", start, &operator).await.json()["id"].as_str().unwrap().to_owned();
    let approval = r#"{"name":"approval","data":{"list":[{"iban":"hunter2"}]}}"#;
    assert!(
        ask("POST", &format!("/api/v1/runs/{run}/events"), approval, &operator).await.status.is_success()
    );
    let result = format!("/api/v1/runs/{run}/result?wait=60s");
    assert_eq!(ask("GET", &result, "", &operator).await.json()["status"], "completed");
    let schedule = r#"{"definition":"approve","expression":"@daily","input":{"iban":"hunter2"}}"#;
    assert!(ask("PUT", "/api/v1/schedules/pay", schedule, &operator).await.status.is_success());

    let failed = ask("POST", "/api/v1/runs", r#"{"definition":"fail","input":"x"}"#, &operator).await;
    let failed = failed.json()["id"].as_str().unwrap().to_owned();
    ask("GET", &format!("/api/v1/runs/{failed}/result?wait=60s"), "", &operator).await;
    let fork = format!(r#"{{"op":"fork","ids":["{failed}"],"input":{{"iban":"hunter2"}}}}"#);
    let bulk = ask("POST", "/api/v1/bulk", &fork, &operator).await;
    assert!(bulk.status.is_success() && !bulk.text.contains("hunter2"), "{bulk:?}");
    let bulk = bulk.json()["id"].as_str().unwrap().to_owned();

    let looks = [
        "/api/v1/runs".to_owned(),
        format!("/api/v1/runs/{run}"),
        format!("/api/v1/runs/{run}/history"),
        format!("/api/v1/runs/{run}/steps"),
        format!("/api/v1/runs/{run}/steps?preview=65536"),
        format!("/api/v1/runs/{run}/payload?of=input"),
        format!("/api/v1/runs/{run}/payload?of=output&preview=65536"),
        result,
        "/api/v1/schedules".to_owned(),
        "/api/v1/bulk".to_owned(),
        format!("/api/v1/bulk/{bulk}"),
        format!("/api/v1/runs/{bulk}"),
    ];
    for path in &looks {
        for who in [&viewer, &operator] {
            let seen = ask("GET", path, "", who).await;
            assert_eq!(seen.status, 200, "{path}: {seen:?}");
            assert!(seen.text.contains("[redacted]") && !seen.text.contains("hunter2"), "{path}: {seen:?}");
        }
        let seen = ask("GET", path, "", &admin).await.text;
        assert!(seen.contains("hunter2") && !seen.contains("[redacted]"), "{path}: {seen}");
    }
    let seen = ask("GET", &looks[1], "", &viewer).await.text;
    assert!(seen.contains("12345678901234567890123") && seen.contains("ann"), "the rest stays: {seen}");
    // A file that would be replayed elsewhere is whole, or not given.
    let export = format!("/api/v1/runs/{run}/export");
    assert_eq!(ask("GET", &export, "", &operator).await.code(), "forbidden");
    assert!(ask("GET", &export, "", &admin).await.text.contains("hunter2"));
    // What runs get is what was sent.
    let again = ask("POST", &format!("/api/v1/runs/{run}/rerun"), "{}", &operator).await;
    assert!(again.status.is_success(), "{again:?}");
    let again = again.json()["id"].as_str().unwrap().to_owned();
    let view = ask("GET", &format!("/api/v1/runs/{again}"), "", &admin).await.json();
    assert_eq!(view["input"]["Password"], "hunter2");
    // What was shown in place of a value is no value.
    let rerun = format!("/api/v1/runs/{run}/rerun");
    let seen = r#"{"input":{"user":"bob","Password":"[redacted]"}}"#;
    let refused = ask("POST", &rerun, seen, &operator).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "invalid_argument"));
    assert_eq!(refused.json()["errors"][0]["pointer"], "/input/Password", "{refused:?}");
    assert!(ask("POST", &rerun, seen, &admin).await.status.is_success(), "an admin sees what there is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_hidden_as_payloads_are() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.redact(["message"])).await;
    let operator = lab.token("operator", None).await;
    let body = json!({ "definition": "fail", "input": "hunter2" }).to_string();
    let ask = with_json(lab.request("POST", "/api/v1/runs"), &body).bearer_auth(&operator);
    let run = told(ask).await.json()["id"].as_str().unwrap().to_owned();
    let look = lab.request("GET", &format!("/api/v1/runs/{run}/result?wait=60s")).bearer_auth(&operator);
    let seen = told(look).await.json();
    assert_eq!(seen["status"], "failed", "{seen}");
    assert!(seen["error"]["detail"].to_string().contains("[redacted]"), "{seen}");
}
