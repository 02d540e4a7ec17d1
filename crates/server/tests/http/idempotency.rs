//! Idempotency keys: sent twice, done once, answered alike.

use crate::lab::{Lab, Told, told, with_json};

async fn send(lab: &Lab, path: &str, key: &str, body: &str) -> Told {
    told(with_json(lab.request("POST", path), body).header("idempotency-key", key)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_sent_twice_starts_one_run_and_is_answered_alike() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you"}"#;
    let first = send(&lab, "/api/v1/runs", "abc", body).await;
    let second = send(&lab, "/api/v1/runs", "\"abc\"", body).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201));
    assert_eq!(first.text, second.text);
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!((first.header("idempotency-replayed"), second.header("idempotency-replayed")), ("", "true"));
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 1);

    let other = send(&lab, "/api/v1/runs", "abc", r#"{"definition":"greet","input":"me"}"#).await;
    assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "idempotency_mismatch"));
    let elsewhere = send(&lab, "/api/v1/bulk", "abc", body).await;
    assert_eq!(elsewhere.code(), "idempotency_mismatch");
    for key in ["", "a b", &"x".repeat(201)] {
        assert_eq!(send(&lab, "/api/v1/runs", key, body).await.code(), "invalid_id", "{key:?}");
    }
    let twice = with_json(lab.request("POST", "/api/v1/runs"), body).header("idempotency-key", "abc");
    assert_eq!(told(twice.header("idempotency-key", "xyz")).await.code(), "invalid_id");
    // A day later it is a new request.
    lab.world.pass(std::time::Duration::from_secs(25 * 3_600)).await;
    let anew = send(&lab, "/api/v1/runs", "abc", body).await;
    assert_ne!(anew.text, first.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_is_tried_again() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"nope"}"#;
    for _ in 0..2 {
        let refused = send(&lab, "/api/v1/runs", "abc", body).await;
        assert_eq!(
            (refused.code().as_str(), refused.header("idempotency-replayed")),
            ("unknown_definition", "")
        );
    }
    assert_eq!(
        send(&lab, "/api/v1/runs", "abc", r#"{"definition":"greet","input":"you"}"#).await.status,
        201
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_at_once_one_is_done() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you"}"#;
    let all = futures_util::future::join_all((0..20).map(|_| send(&lab, "/api/v1/runs", "race", body))).await;
    let mut ids = std::collections::HashSet::new();
    for answer in all {
        match answer.status.as_u16() {
            201 => assert!(ids.insert(answer.json()["id"].to_string()) || ids.len() == 1),
            409 => {
                assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("in_progress", "1"));
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_a_request_over_starts_the_same_run_and_sends_the_same_event() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"approve"}"#;
    let run = send(&lab, "/api/v1/runs", "start", body).await.json()["id"].as_str().unwrap().to_owned();
    let events = format!("/api/v1/runs/{run}/events");
    let event = r#"{"name":"other","data":"x"}"#;
    assert_eq!(send(&lab, &events, "event", event).await.status, 200);
    // The server died after it had done it, and before it had kept the answer; then the right to answer ran out.
    lab.world.raw("update outlast.replies set status = null, headers = null, body = null").await;
    let busy = send(&lab, "/api/v1/runs", "start", body).await;
    assert_eq!((busy.status.as_u16(), busy.code().as_str()), (409, "in_progress"));
    assert_eq!(busy.header("retry-after"), "1");
    let detail = busy.json()["detail"].as_str().unwrap().to_owned();
    let until = detail.split("after ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let left = until.parse::<outlast::Timestamp>().unwrap().since(lab.app.store().now().await.unwrap());
    assert!((1..=5).contains(&(left.as_secs() + 1)), "a death is waited out for five seconds: {detail}");
    lab.world.pass(std::time::Duration::from_secs(6)).await;
    let again = send(&lab, "/api/v1/runs", "start", body).await;
    assert_eq!(again.json()["id"], run.as_str());
    assert_eq!(send(&lab, &events, "event", event).await.status, 200);
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 1);
    assert_eq!(lab.world.inbox(run.parse().unwrap()).await.len(), 1, "the event arrived once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_but_could_not_be_noted_is_not_done_again() {
    let lab = Lab::open().await;
    // The audit log's disk is full.
    let full = "create trigger full before insert on outlast.audit begin select raise(abort, 'full'); end";
    for (path, body) in [
        ("/api/v1/runs", r#"{"definition":"greet","input":"you"}"#),
        ("/api/v1/schedules/nightly-acme/trigger", ""),
    ] {
        let before = lab.get("/api/v1/runs/count").await.json()["count"].as_u64().unwrap();
        lab.world.raw(full).await;
        let failed = send(&lab, path, path, body).await;
        assert!(failed.status.is_server_error(), "{failed:?}");
        lab.world.raw("drop trigger full").await;
        let again = send(&lab, path, path, body).await;
        assert!(again.status.is_success(), "{again:?}");
        assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], before + 1, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_others_are_others_keys() {
    let lab = Lab::guarded().await;
    let (ann, bob) = (lab.token("operator", None).await, lab.token("operator", None).await);
    let body = r#"{"definition":"greet","input":"you"}"#;
    let send = async |secret: &str| {
        let ask = with_json(lab.request("POST", "/api/v1/runs"), body).header("idempotency-key", "abc");
        told(ask.bearer_auth(secret)).await.json()["id"].to_string()
    };
    assert_ne!(send(&ann).await, send(&bob).await);
    assert_eq!(send(&ann).await, send(&ann).await);
    // A secret is answered once, and kept nowhere.
    let admin = lab.token("admin", None).await;
    let token = with_json(lab.request("POST", "/api/v1/tokens"), r#"{"subject":"x","role":"viewer"}"#);
    let refused = told(token.header("idempotency-key", "t").bearer_auth(&admin)).await;
    assert_eq!(refused.code(), "invalid_argument");
}
