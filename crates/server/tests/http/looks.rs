//! What the dashboard looks at beyond lists: what people asked of a run, a queue or a schedule, runs in files, failures that
//! are alike, lost nodes.

use std::time::Duration;

use outlast_testkit::{StoreKind, skipped};
use serde_json::{Value, json};

use crate::lab::{Lab, told, with_json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_asked_of_a_run_is_told_to_all_who_may_look_at_it() {
    let lab = Lab::guarded().await;
    let (acme, globex) =
        (lab.token("operator", Some("acme")).await, lab.token("viewer", Some("globex")).await);
    let viewer = lab.token("viewer", Some("acme")).await;
    let post = async |secret: &str, path: &str, body: &'static str| {
        told(with_json(lab.request("POST", path), body).bearer_auth(secret)).await
    };
    let run = post(&acme, "/api/v1/runs", r#"{"definition":"approve"}"#).await.json()["id"].clone();
    let run = run.as_str().unwrap();
    let pause = format!("/api/v1/runs/{run}/pause");
    assert_eq!(post(&acme, &pause, r#"{"reason":"look first"}"#).await.status, 200);
    assert_eq!(post(&viewer, &pause, r#"{"reason":"let me"}"#).await.status, 403);

    let actions = async |secret: &str| {
        told(lab.request("GET", &format!("/api/v1/runs/{run}/actions")).bearer_auth(secret)).await
    };
    let seen = actions(&viewer).await.json();
    let seen = seen["items"].as_array().unwrap().iter();
    let seen: Vec<_> = seen.map(|one| (&one["action"], &one["reason"], &one["status"])).collect();
    assert_eq!(
        seen,
        [
            (&json!("run.pause"), &json!(null), &json!(403)),
            (&json!("run.pause"), &json!("look first"), &json!(200)),
            (&json!("run.start"), &json!(null), &json!(201)),
        ]
    );
    assert_eq!(actions(&globex).await.code(), "not_found");
}

async fn what_people_did_to_queues_and_schedules_is_told(kind: StoreKind) {
    let lab = Lab::with(kind, |api| api).await;
    let admin = lab.token("admin", None).await;
    let viewer = lab.token("viewer", None).await;
    let mail = lab.bound("operator", &["mail"]).await;
    let (acme, globex) =
        (lab.token("operator", Some("acme")).await, lab.token("operator", Some("globex")).await);
    let ask = async |secret: &str, method: &str, path: &str, body: &str| {
        told(with_json(lab.request(method, path), body).bearer_auth(secret)).await
    };
    let seen = async |secret: &str, path: &str| {
        let told = told(lab.request("GET", path).bearer_auth(secret)).await;
        assert_eq!(told.status, 200, "{told:?}");
        let told = told.json();
        let words = |one: &Value, name: &str| one[name].as_str().unwrap_or("-").to_owned();
        let line = |one: &Value| {
            let said = ["actor", "action", "reason"].map(|name| words(one, name)).join(" ");
            format!("{said} {}", one["status"])
        };
        told["items"].as_array().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    // A schedule that is called like the queue has lines of its own.
    let daily = r#"{"definition":"greet","input":"you","expression":"@daily","reason":"every day"}"#;
    let set = ask(&admin, "PUT", "/api/v1/schedules/mail", daily).await;
    assert!(set.status.is_success(), "{set:?}");
    let pause = r#"{"reason":"the provider is down"}"#;
    assert_eq!(ask(&mail, "POST", "/api/v1/queues/mail/pause", pause).await.status, 200);
    let limit = r#"{"limit":2,"reason":"they asked us to"}"#;
    assert_eq!(ask(&admin, "PUT", "/api/v1/queues/mail/limits", limit).await.status, 200);
    assert_eq!(
        ask(&viewer, "POST", "/api/v1/queues/mail/resume", r#"{"reason":"let me"}"#).await.status,
        403
    );

    let of_queue = "/api/v1/queues/mail/actions";
    let lines = [
        "viewer queue.resume - 403",
        "admin queue.limit they asked us to 200",
        "operator queue.pause the provider is down 200",
    ];
    assert_eq!(seen(&viewer, of_queue).await, lines);
    assert_eq!(seen(&mail, of_queue).await, lines, "whoever is bound to it");
    assert_eq!(seen(&viewer, "/api/v1/schedules/mail/actions").await, ["admin schedule.set every day 200"]);
    assert_eq!(seen(&viewer, "/api/v1/queues/default/actions").await, [""; 0]);

    let nightly = "/api/v1/schedules/nightly-acme";
    let paused = ask(&acme, "POST", &format!("{nightly}/pause"), r#"{"reason":"closed for the week"}"#).await;
    assert_eq!(paused.status, 200, "{paused:?}");
    let of_schedule = format!("{nightly}/actions");
    for secret in [&viewer, &acme] {
        assert_eq!(seen(secret, &of_schedule).await, ["operator schedule.pause closed for the week 200"]);
    }

    // What somebody may not know of, or what all share, tells them nothing of who did what either.
    for (secret, path, code) in [
        (&globex, &*of_schedule, "not_found"),
        (&acme, "/api/v1/schedules/mail/actions", "not_found"),
        (&acme, of_queue, "forbidden"),
        (&mail, "/api/v1/queues/default/actions", "forbidden"),
        (&mail, &of_schedule, "forbidden"),
        (&viewer, "/api/v1/queues/nobody/actions", "not_found"),
        (&viewer, "/api/v1/schedules/nobody/actions", "not_found"),
    ] {
        let refused = told(lab.request("GET", path).bearer_auth(secret)).await;
        assert_eq!(refused.code(), code, "{path}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_did_to_queues_and_schedules_is_told_to_all_who_may_look_at_them() {
    what_people_did_to_queues_and_schedules_is_told(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_too_what_people_did_to_queues_and_schedules_is_told() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    what_people_did_to_queues_and_schedules_is_told(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exported_run_is_read_as_if_it_were_here_and_nothing_is_kept() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve","input":{"big":9007199254740993}}"#).await;
    lab.until(&run, "waiting").await;
    let file = lab.get(&format!("/api/v1/runs/{run}/export")).await.text;
    let read = lab.post("/api/v1/runs/read", &file).await;
    assert_eq!(read.status, 200, "{read:?}");
    assert!(read.text.contains("9007199254740993"), "as it was written");
    let (read, steps) = (read.json(), lab.get(&format!("/api/v1/runs/{run}/steps")).await.json());
    assert_eq!((&read["steps"], &read["run"]["id"]), (&steps["items"], &json!(run)));
    let history = lab.get(&format!("/api/v1/runs/{run}/history")).await.json();
    assert_eq!(read["history"], history["items"]);
    let audit = lab.get("/api/v1/audit").await;
    assert!(!audit.text.contains("run.read"), "{audit:?}");
    for wrong in [r#"{"outlast_run":9}"#, "[]", "{"] {
        assert_eq!(lab.post("/api/v1/runs/read", wrong).await.status, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_step_that_a_run_is_at_is_among_its_steps() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"stays"}"#).await;
    let names = async || {
        let steps = lab.get(&format!("/api/v1/runs/{run}/steps")).await.json();
        let named = |step: &Value| (step["name"].clone(), step["ended_at"].is_null());
        steps["items"].as_array().unwrap().iter().map(named).collect::<Vec<_>>()
    };
    let both = [(json!("ask"), false), (json!("wait"), true)];
    while names().await != both {
        tokio::task::yield_now().await;
    }
    lab.post(&format!("/api/v1/runs/{run}/kill"), r#"{"reason":"enough"}"#).await;
    lab.until(&run, "cancelled").await;
    assert_eq!(names().await, both[..1], "nobody is at it any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_takes_the_runs_that_failed_alike_and_deletes_what_has_ended() {
    let lab = Lab::open().await;
    let mut runs = Vec::new();
    for why in ["order 7 was declined", "order 12 was declined", "the disk is full"] {
        let run = lab.start(&json!({ "definition": "fail", "input": why }).to_string()).await;
        lab.result(&run).await;
        runs.push(run);
    }
    let failure = lab.get(&format!("/api/v1/runs/{}", runs[0])).await.json()["failure"].clone();
    let alike = format!("failure={}", failure.as_str().unwrap());
    let first = lab.get(&format!("/api/v1/runs?{alike}&limit=1")).await.json();
    assert_eq!((&first["items"][0]["id"], first["items"].as_array().unwrap().len()), (&json!(runs[1]), 1));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = lab.get(&format!("/api/v1/runs?{alike}&limit=1&cursor={cursor}")).await.json();
    assert_eq!((&second["items"][0]["id"], &second["items"][1]), (&json!(runs[0]), &Value::Null));
    assert_eq!(lab.get(&format!("/api/v1/runs/count?{alike}")).await.json()["count"], 2);
    assert_eq!(lab.get(&format!("/api/v1/runs?{alike}&status=completed")).await.json()["items"], json!([]));
    let body = json!({ "op": "retry", "filter": "def:fail", "failure": failure, "dry_run": true });
    let preview = lab.post("/api/v1/bulk", &body.to_string()).await.json();
    assert_eq!(preview["acts"], 2, "{preview}");
    let body = json!({ "op": "delete", "failure": failure, "reason": "known" });
    let bulk = lab.post("/api/v1/bulk", &body.to_string()).await.json()["id"].clone();
    let report = lab.result(bulk.as_str().unwrap()).await["output"].clone();
    assert_eq!((&report["done"], &report["skipped"], &report["failed"]), (&json!(2), &json!(0), &json!(0)));
    for (run, status) in runs.iter().zip([404, 404, 200]) {
        assert_eq!(lab.get(&format!("/api/v1/runs/{run}")).await.status, status);
    }
    let refused = lab.post("/api/v1/bulk", r#"{"op":"delete","filter":"def:fail"}"#).await;
    assert_eq!(refused.json()["errors"][0]["pointer"], "/reason");
    let refused = lab.post("/api/v1/bulk", r#"{"op":"delete","filter":"status:waiting","reason":"x"}"#).await;
    assert!(refused.text.contains("nothing to delete"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_say_from_which_queues_they_take_and_lost_ones_what_was_taken_from_them() {
    let lab = Lab::open().await;
    let node = lab.get("/api/v1/nodes").await.json()["items"][0].clone();
    assert!(node["queues"].as_array().unwrap().contains(&json!("mail")), "{node}");
    assert_eq!(lab.get("/api/v1/nodes/lost").await.json(), json!({ "items": [] }));
    let other = outlast_testkit::card("other", &["greet@1"]);
    let (id, lease) = (other.id, Duration::ZERO);
    lab.world.store().join(&outlast_store::NodeCard { lease, ..other }).await.unwrap();
    // The node of this lab looks after those that are gone.
    while lab.app.lost_nodes().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lost = lab.get("/api/v1/nodes/lost").await.json();
    assert_eq!((&lost["items"][0]["id"], &lost["items"][0]["freed"]), (&json!(id.to_string()), &json!(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_run_says_whether_it_is_blocked_because_no_node_serves_its_queue() {
    let lab = Lab::open().await;
    let lost = lab.start(r#"{"definition":"greet","input":"you","queue":"nobody"}"#).await;
    let fine = lab.start(r#"{"definition":"approve","input":null}"#).await;
    lab.until(&fine, "waiting").await;
    lab.world.pass(Duration::from_secs(15)).await;
    lab.until(&lost, "blocked").await;
    let runs = lab.get("/api/v1/runs").await.json();
    let unserved = |run: &str| {
        let found = runs["items"].as_array().unwrap().iter().find(|item| item["id"] == run);
        found.unwrap()["unserved"].clone()
    };
    assert_eq!((unserved(&lost), unserved(&fine)), (json!(true), json!(false)));
    assert_eq!(lab.get(&format!("/api/v1/runs/{lost}")).await.json()["unserved"], true);
}
