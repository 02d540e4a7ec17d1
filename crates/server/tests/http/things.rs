//! Queues, schedules, nodes, definitions, bulks, probes.

use std::time::Duration;

use axum::Router;
use outlast_server::http::Api;
use outlast_testkit::{StoreKind, skipped};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, told, with_json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_answer_and_say_when_the_server_is_about_to_stop() {
    let lab = Lab::open().await;
    assert_eq!(lab.get("/healthz").await.json(), json!({ "status": "ok" }));
    let ready = lab.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["ready"]), (200, &json!(true)));
    let names = |checks: &Value| {
        let names = checks["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == true);
        names.map(|check| check["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&ready.json()), ["database", "schema", "writes", "not_stopping"]);
    // A newer program brings the schema up to date, and this one has to go.
    lab.world.raw("update outlast.meta set value = '9000' where name = 'serves'").await;
    let unfit = lab.get("/readyz").await;
    assert_eq!(
        (unfit.status.as_u16(), names(&unfit.json())),
        (503, vec!["database".into(), "writes".into(), "not_stopping".into()])
    );
    assert_eq!(lab.get("/version").await.json()["store"], "sqlite");
    let metrics = lab.get("/metrics").await;
    assert_eq!(metrics.status, 404, "no recorder was given");
    assert_eq!(lab.get("/nothing").await.code(), "not_found");
    let wrong = told(lab.request("PATCH", "/api/v1/runs")).await;
    assert_eq!((wrong.code().as_str(), wrong.header("allow")), ("method_not_allowed", "GET, HEAD, POST"));
    let head = told(lab.request("HEAD", "/healthz")).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
}

/// Waits until the server says whether it is ready; gives the names of the checks that fail.
async fn until_ready(lab: &Lab, ready: bool) -> Vec<String> {
    for _ in 0..600 {
        let told = lab.get("/readyz").await;
        if told.json()["ready"] == ready {
            assert_eq!(told.status, if ready { 200 } else { 503 });
            let checks = told.json()["checks"].as_array().unwrap().clone();
            let failing = checks.iter().filter(|check| check["ok"] == false);
            return failing.map(|check| check["name"].as_str().unwrap().to_owned()).collect();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("ready is never {ready}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_disk_is_full_is_not_ready_until_there_is_room_again() {
    let lab = Lab::open().await;
    let room = async |pages: u32| {
        let mut tx = lab.world.store().begin().await.unwrap();
        tx.query(&format!("pragma max_page_count = {pages}"), &[]).await.unwrap();
        tx.rollback().await.unwrap();
    };
    assert_eq!(until_ready(&lab, true).await, [""; 0]);
    // As large as it is, and no larger.
    room(1).await;
    let long = "x".repeat(300_000);
    let start = format!(r#"{{"definition":"greet","input":"{long}"}}"#);
    let refused = lab.post("/api/v1/runs", &start).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    // Small writes go on meanwhile, which is no reason to send others.
    assert_eq!(until_ready(&lab, false).await, ["writes"]);
    assert_eq!(lab.get("/healthz").await.status, 200);

    room(1_000_000).await;
    assert_eq!(until_ready(&lab, true).await, [""; 0]);
    assert_eq!(lab.post("/api/v1/runs", &start).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_a_postgres_that_may_only_be_read_is_not_ready_until_it_may_be_written() {
    if skipped() {
        return;
    }
    let lab = Lab::with(StoreKind::Postgres, |api| api.without_tokens()).await;
    let (client, connection) = lab
        .world
        .url()
        .parse::<tokio_postgres::Config>()
        .unwrap()
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let database = lab.world.url().rsplit_once('/').unwrap().1;
    let tell = async |what: &str| {
        let sql = format!(
            "set transaction_read_only = off; alter database {database} {what};
             select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()"
        );
        client.batch_execute(&sql).await.unwrap();
    };
    assert_eq!(until_ready(&lab, true).await, [""; 0]);
    tell("set default_transaction_read_only = on").await;
    // What a node writes to keep its lease tells.
    while until_ready(&lab, false).await != ["writes"] {}
    tell("reset default_transaction_read_only").await;
    assert_eq!(until_ready(&lab, true).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_paused_drained_resumed_and_limited_only_as_it_was_seen() {
    let lab = Lab::open().await;
    assert_eq!(lab.get("/api/v1/queues").await.json()["items"][0]["name"], "mail");
    let act = async |what: &str| lab.post(&format!("/api/v1/queues/mail/{what}"), "").await.json();
    assert_eq!(act("pause").await["state"], "paused");
    assert_eq!(act("drain").await["state"], "draining");
    assert_eq!(act("resume").await["state"], "open");

    let seen = lab.get("/api/v1/queues/mail").await;
    let tag = seen.header("etag").to_owned();
    let limit = async |tag: &str, body: &str| {
        let ask = lab.request("PUT", "/api/v1/queues/mail/limits").header("if-match", tag);
        told(with_json(ask, body)).await
    };
    let set = limit(&tag, r#"{"limit":3,"rate":{"count":5,"per_ms":1000}}"#).await;
    assert_eq!(set.json()["rules"]["rate"], json!({ "count": 5, "per_ms": 1000 }));
    let late = limit(&tag, r#"{"limit":9}"#).await;
    assert_eq!((late.status.as_u16(), late.code().as_str()), (412, "precondition_failed"));
    for what in ["pause", "drain", "resume"] {
        let ask = lab.request("POST", &format!("/api/v1/queues/mail/{what}"));
        assert_eq!(told(ask.header("if-match", &tag)).await.code(), "precondition_failed", "{what}");
    }
    let rules = lab.get("/api/v1/queues/mail").await.json()["rules"]["limit"].clone();
    assert_eq!(rules, 3);
    assert_eq!(limit(set.header("etag"), r#"{"limit":9}"#).await.json()["rules"]["limit"], 9);
    let reset = lab.delete("/api/v1/queues/mail/limits").await.json();
    assert_eq!((&reset["own_rules"], &reset["rules"]["limit"]), (&json!(false), &json!(5)));
    for body in [
        r#"{"limit":0}"#,
        r#"{"limit":-1}"#,
        r#"{"rate":{"count":0,"per_ms":1000}}"#,
        r#"{"rate":{"count":-3,"per_ms":1000}}"#,
        r#"{"rate_per_group":{"count":1.5,"per_ms":1000}}"#,
    ] {
        let refused = lab.put("/api/v1/queues/mail/limits", body).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.text.contains("1 to 1,000,000"), "{refused:?}");
    }
    let unknown = lab.post("/api/v1/queues/male/pause", "").await;
    assert_eq!(unknown.code(), "not_found");
    assert!(unknown.text.contains("mail"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_paused_triggered_and_backfilled() {
    let lab = Lab::open().await;
    let listed = lab.get("/api/v1/schedules").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let at = |what: &str| format!("/api/v1/schedules/nightly-acme{what}");
    assert_eq!(lab.post(&at("/pause"), "").await.json()["paused"], true);
    let next = lab.get(&at("/next?n=2")).await.json();
    assert_eq!(next["times"].as_array().unwrap().len(), 2);
    assert!(next["notes"][0].as_str().unwrap().contains("paused"), "{next}");
    assert_eq!(lab.post(&at("/resume"), "").await.json()["paused"], false);
    let triggered = lab.post(&at("/trigger"), "").await;
    assert_eq!(triggered.status, 201);
    let run = triggered.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(lab.result(&run).await["output"], "Hello, acme!");

    let past = r#"{"from":"2020-01-01T00:00:00Z","to":"2020-01-04T00:00:00Z","dry_run":true}"#;
    assert_eq!(lab.post(&at("/backfill"), past).await.json(), json!({ "times": 3, "started": [] }));
    let told = lab.post(&at("/backfill"), &past.replace("true", "false")).await.json();
    assert_eq!(told["started"].as_array().unwrap().len(), 3);
    let back = r#"{"from":"2020-01-04T00:00:00Z","to":"2020-01-01T00:00:00Z"}"#;
    assert_eq!(lab.post(&at("/backfill"), back).await.code(), "invalid_argument");
    assert_eq!(lab.get("/api/v1/schedules/nope").await.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_set_replaced_and_deleted_within_its_tenant() {
    let lab = Lab::guarded().await;
    let (acme, globex) =
        (lab.token("operator", Some("acme")).await, lab.token("operator", Some("globex")).await);
    let operator = lab.token("operator", None).await;
    let put = async |secret: &str, body: &str| {
        told(with_json(lab.request("PUT", "/api/v1/schedules/weekly"), body).bearer_auth(secret)).await
    };
    let body = r#"{"definition":"greet","expression":"0 8 * * MON","zone":"Europe/Berlin","input":"you","tenant":"acme"}"#;
    let set = put(&operator, body).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(set.json()["next"]["times"].as_array().unwrap().len(), 5);
    assert_eq!(set.json()["schedule"]["zone"], "Europe/Berlin");
    assert_eq!(
        put(&operator, &body.replace("0 8", "0 9")).await.json()["schedule"]["expression"],
        "0 9 * * MON"
    );
    assert_eq!(put(&globex, body).await.code(), "forbidden", "names are shared by all tenants");
    for (wrong, code) in [
        (body.replace("0 8 * * MON", "60 * * * *"), "invalid_cron"),
        (body.replace("0 8 * * MON", "0 0 30 2 *"), "invalid_cron"),
        (body.replace("Europe/Berlin", "Mars/Base"), "unknown_timezone"),
        (body.replace("greet", "gret"), "unknown_definition"),
        (body.replace("input", "inptu"), "unknown_field"),
    ] {
        assert_eq!(put(&operator, &wrong).await.code(), code, "{wrong}");
    }
    let delete = async |secret: &str| {
        told(lab.request("DELETE", "/api/v1/schedules/weekly").bearer_auth(secret)).await.status.as_u16()
    };
    assert_eq!((delete(&globex).await, delete(&acme).await, delete(&acme).await), (404, 204, 404));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_replaced_and_deleted_only_as_it_was_seen() {
    let lab = Lab::open().await;
    let path = "/api/v1/schedules/weekly";
    let body = r#"{"definition":"greet","expression":"0 8 * * MON","input":"you"}"#;
    let send = async |method: &str, tag: &str, body: &str| {
        told(with_json(lab.request(method, path), body).header("if-match", tag)).await
    };
    assert_eq!(send("PUT", "*", body).await.code(), "precondition_failed", "there is none");
    let first = lab.put(path, body).await.header("etag").to_owned();
    assert_eq!(lab.get(path).await.header("etag"), first);
    let second = send("PUT", &first, &body.replace("0 8", "0 9")).await;
    assert_eq!(second.status, 200, "{second:?}");
    for (method, body) in [("PUT", body), ("DELETE", "")] {
        let late = send(method, &first, body).await;
        assert_eq!((late.status.as_u16(), late.code().as_str()), (412, "precondition_failed"), "{method}");
    }
    for what in ["pause", "resume", "trigger"] {
        let ask = lab.request("POST", &format!("{path}/{what}")).header("if-match", &first);
        assert_eq!(told(ask).await.code(), "precondition_failed", "{what}");
    }
    assert_eq!(lab.post(&format!("{path}/pause"), "").await.status, 200);
    let seen = second.header("etag");
    assert_eq!(send("DELETE", seen, "").await.status, 412, "it was paused since");
    let now = lab.get(path).await.header("etag").to_owned();
    assert_eq!(send("DELETE", &now, "").await.status, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_suggested_and_the_installation_is_told() {
    let lab = Lab::open().await;
    assert_eq!(lab.get("/api/v1/suggest?field=def&q=gr").await.json(), json!({ "items": ["greet"] }));
    assert_eq!(lab.get("/api/v1/suggest?field=queue").await.json(), json!({ "items": ["default", "mail"] }));
    assert_eq!(lab.get("/api/v1/suggest?field=colour").await.code(), "invalid_argument");
    let system = lab.get("/api/v1/system").await.json();
    assert_eq!(
        (&system["store"], &system["nodes"], &system["tokens"]),
        (&json!("sqlite"), &json!(1), &json!(false))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_are_looked_at_anew_unless_what_was_found_is_young_enough() {
    let lab = Lab::open().await;
    let looked = async |query: &str| {
        let found = lab.get(&format!("/api/v1/system/checks{query}")).await.json();
        assert!(!found["items"].as_array().unwrap().is_empty(), "{found}");
        found["looked_at"].as_str().unwrap().to_owned()
    };
    let first = looked("").await;
    assert_eq!(looked("?max_age=10m").await, first);
    let second = looked("").await;
    assert_ne!(second, first);
    assert_eq!(looked("?max_age=1h").await, second, "what was found last");
    assert_eq!(lab.get("/api/v1/system/checks?max_age=soon").await.code(), "invalid_duration");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_a_queue_are_told_with_what_each_may() {
    let lab = Lab::open().await;
    lab.start(r#"{"definition":"greet","input":"x","queue":"nobody","group":"ann"}"#).await;
    let path = "/api/v1/queues/nobody/groups";
    assert_eq!(lab.get(path).await.json(), json!({ "items": [], "limit": null }), "none of it runs");
    let set = async |rules: &str| {
        let set = lab.put("/api/v1/queues/nobody/limits", rules).await;
        assert_eq!(set.status, 200, "{set:?}");
        lab.get(path).await.json()["limit"].clone()
    };
    assert_eq!(set(r#"{"per_group":3}"#).await, json!(3));
    assert_eq!(set(r#"{"per_group":3,"ordered":true}"#).await, json!(1), "one after another");
    assert_eq!(lab.get("/api/v1/queues/none/groups").await.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_definitions_are_listed() {
    let lab = Lab::open().await;
    assert_eq!(lab.get("/api/v1/nodes").await.json()["items"].as_array().unwrap().len(), 1);
    let names = lab.get("/api/v1/definitions").await.text;
    assert!(names.contains("approve") && !names.contains("outlast.bulk"), "{names}");
    assert_eq!(lab.get("/api/v1/definitions/fail").await.json()["items"][0]["kind"], "job");
    let unknown = lab.get("/api/v1/definitions/gret").await;
    assert!(unknown.code() == "not_found" && unknown.text.contains("greet"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_bulk_has_values_with_spaces_in_quotes() {
    let lab = Lab::open().await;
    for queue in ["night", "night shift"] {
        let body = json!({ "definition": "greet", "input": "a", "queue": queue, "delay_ms": 9_000_000 });
        lab.start(&body.to_string()).await;
    }
    for (filter, acts) in
        [(r#"queue:"night shift" status:ready"#, 1), ("queue:night", 1), (r#"queue:"shift""#, 0)]
    {
        let body = json!({ "op": "cancel", "filter": filter, "reason": "x", "dry_run": true });
        let preview = lab.post("/api/v1/bulk", &body.to_string()).await;
        assert_eq!(preview.json()["acts"], acts, "{filter}: {preview:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_is_previewed_done_and_looked_at() {
    let lab = Lab::open().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = lab.start(r#"{"definition":"approve","tags":{"batch":"7"}}"#).await;
        lab.until(&run, "waiting").await;
        runs.push(run);
    }
    let body = r#"{"op":"cancel","filter":"tag:batch=7","reason":"wrong batch","dry_run":true}"#;
    let preview = lab.post("/api/v1/bulk", body).await;
    assert_eq!((preview.status.as_u16(), &preview.json()["acts"]), (200, &json!(3)));
    let started = lab.post("/api/v1/bulk", &body.replace(r#","dry_run":true"#, "")).await;
    assert_eq!(started.status, 202);
    let bulk = started.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), format!("/api/v1/bulk/{bulk}"));
    lab.result(&bulk).await;
    let told = lab.get(&format!("/api/v1/bulk/{bulk}")).await.json();
    assert_eq!(
        (&told["done"], &told["failed"], &told["status"]),
        (&json!(3), &json!(0), &json!("completed"))
    );
    for run in &runs {
        assert_eq!(lab.result(run).await["status"], "cancelled");
    }
    assert_eq!(lab.get("/api/v1/bulk").await.json()["items"][0]["id"], bulk.as_str());
    assert_eq!(lab.post(&format!("/api/v1/bulk/{bulk}/abort"), "").await.json()["status"], "completed");
    // A run is no bulk.
    assert_eq!(lab.get(&format!("/api/v1/bulk/{}", runs[0])).await.code(), "not_found");
    for (body, field) in [
        (r#"{"op":"cancel","filter":"def:greet"}"#, "/reason"),
        (r#"{"op":"retry"}"#, "/filter"),
        (r#"{"op":"cancel","filter":"queue:\"night shift","reason":"x"}"#, "/filter"),
        (r#"{"op":"explode","filter":"def:greet"}"#, "/op"),
        (r#"{"op":"replace","filter":"def:greet","reason":"x"}"#, "/step"),
    ] {
        let refused = lab.post("/api/v1/bulk", body).await;
        assert_eq!(refused.code(), "invalid_argument", "{body}");
        assert_eq!(refused.json()["errors"][0]["pointer"], field, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_and_failures_that_are_alike_are_there_a_moment_after_the_ends() {
    let lab = Lab::guarded().await;
    let (acme, viewer) = (lab.token("operator", Some("acme")).await, lab.token("viewer", None).await);
    let start = async |body: &str| {
        let started = told(with_json(lab.request("POST", "/api/v1/runs"), body).bearer_auth(&acme)).await;
        let run = started.json()["id"].as_str().unwrap().to_owned();
        let result = lab.request("GET", &format!("/api/v1/runs/{run}/result?wait=60s")).bearer_auth(&acme);
        assert_eq!(told(result).await.status, 200);
        run
    };
    start(r#"{"definition":"greet","input":"you"}"#).await;
    let others = lab.token("operator", Some("globex")).await;
    start(r#"{"definition":"fail","input":"order 1 was lost"}"#).await;
    let last = start(r#"{"definition":"fail","input":"order 22 was lost"}"#).await;
    lab.world.pass(std::time::Duration::from_secs(30)).await;
    // Summed up here as a server does, and perhaps by that too: each end counts once.
    let roll = outlast_store::Roll {
        shard: 0,
        limit: 100,
        behind: std::time::Duration::from_secs(10),
        keep: std::time::Duration::from_secs(86_400),
    };
    lab.app.store().roll(&roll).await.unwrap();

    let get =
        async |path: &str, secret: &str| told(lab.request("GET", path).bearer_auth(secret)).await.json();
    let summary = get("/api/v1/stats/summary?range=15m", &viewer).await;
    assert_eq!(
        (&summary["completed"], &summary["failed"], &summary["running"]),
        (&json!(1), &json!(2), &json!(0))
    );
    assert!(summary["p95_ms"].as_f64().unwrap() > 0.0, "{summary}");
    let series = get("/api/v1/stats/series?range=1h", &viewer).await;
    assert_eq!(series["step_ms"], 60_000);
    let points = series["points"].as_array().unwrap();
    assert!((60..=62).contains(&points.len()), "{}", points.len());
    let failed: u64 = points.iter().map(|point| point["failed"].as_u64().unwrap()).sum();
    assert_eq!(failed, 2);
    let week = get("/api/v1/stats/series?range=7d&def=greet", &viewer).await;
    assert!(week["points"].as_array().unwrap().len() <= 125);
    let errors = get("/api/v1/errors?range=24h", &acme).await;
    assert_eq!(errors["items"].as_array().unwrap().len(), 1, "{errors}");
    assert_eq!((&errors["items"][0]["runs"], &errors["items"][0]["last_run"]), (&json!(2), &json!(last)));

    // Nobody hears of another tenant's.
    assert_eq!(get("/api/v1/errors", &others).await["items"], json!([]));
    assert_eq!(get("/api/v1/stats/summary", &others).await["failed"], 0);

    // The same with another tenant is one group for whoever sees both, and for each tenant their own.
    let third = r#"{"definition":"fail","input":"order 333 was lost"}"#;
    let third = told(with_json(lab.request("POST", "/api/v1/runs"), third).bearer_auth(&others)).await.json();
    let ended = format!("/api/v1/runs/{}/result?wait=60s", third["id"].as_str().unwrap());
    assert_eq!(get(&ended, &others).await["status"], "failed");
    lab.world.pass(std::time::Duration::from_secs(30)).await;
    lab.app.store().roll(&roll).await.unwrap();
    let fingerprint = errors["items"][0]["fingerprint"].as_str().unwrap();
    for (who, runs, tenants) in [(&viewer, 3, json!(["acme", "globex"])), (&acme, 2, json!(["acme"]))] {
        let group = get(&format!("/api/v1/errors?fingerprint={fingerprint}"), who).await;
        assert_eq!(group["items"].as_array().unwrap().len(), 1, "{group}");
        let group = &group["items"][0];
        assert_eq!((&group["runs"], &group["runs_in_range"]), (&json!(runs), &json!(runs)));
        assert_eq!(group["tenants"], tenants);
        let alike = get(&format!("/api/v1/runs?failure={fingerprint}"), who).await;
        assert_eq!(alike["items"].as_array().unwrap().len(), runs, "as many as the list has");
    }
    assert_eq!(get("/api/v1/errors?fingerprint=none", &viewer).await["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_takes_runs_by_their_ids() {
    let lab = Lab::guarded().await;
    let (acme, globex) =
        (lab.token("operator", Some("acme")).await, lab.token("operator", Some("globex")).await);
    let post = async |secret: &str, path: &str, body: &str| {
        told(with_json(lab.request("POST", path), body).bearer_auth(secret)).await
    };
    let mut runs = Vec::new();
    for secret in [&acme, &acme, &acme, &globex] {
        let started = post(secret, "/api/v1/runs", r#"{"definition":"approve"}"#).await;
        runs.push(started.json()["id"].as_str().unwrap().to_owned());
    }
    let ids = json!([runs[0], runs[1], runs[1], runs[3]]);
    let body = json!({ "op": "cancel", "ids": ids, "reason": "wrong address", "dry_run": true }).to_string();
    let preview = post(&acme, "/api/v1/bulk", &body).await.json();
    assert_eq!((&preview["acts"], &preview["stays"]), (&json!(2), &json!(0)), "{preview}");
    let body = body.replace(r#""dry_run":true"#, r#""dry_run":false"#);
    let bulk = post(&acme, "/api/v1/bulk", &body).await;
    assert_eq!(bulk.status, 202, "{bulk:?}");
    let bulk = bulk.json()["id"].as_str().unwrap().parse().unwrap();
    let report = lab.app.bulk_run(bulk).result().await.unwrap();
    assert_eq!((report.done, report.failed), (2, 1), "another tenant's is as good as none: {report:?}");
    let is_open = async |run: &str| !lab.app.status(run.parse().unwrap()).await.unwrap().status.is_final();
    assert!(is_open(&runs[2]).await && is_open(&runs[3]).await, "nobody else is touched");

    let many: Vec<&String> = std::iter::repeat_n(&runs[0], 1001).collect();
    for (body, pointer) in [
        (json!({ "op": "cancel", "ids": ["nope"], "reason": "x" }), "/ids"),
        (json!({ "op": "cancel", "ids": [runs[0]], "filter": "def:approve", "reason": "x" }), "/ids"),
        (json!({ "op": "cancel", "ids": [], "reason": "x" }), "/ids"),
        (json!({ "op": "cancel", "ids": [], "all": true, "reason": "x" }), "/ids"),
        (json!({ "op": "cancel", "reason": "x" }), "/filter"),
    ] {
        let refused = post(&acme, "/api/v1/bulk", &body.to_string()).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{refused:?}");
    }
    let refused = post(&acme, "/api/v1/bulk", &json!({ "op": "resume", "ids": many }).to_string()).await;
    assert_eq!(refused.code(), "invalid_argument");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_done_again_from_its_beginning_as_another() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&run).await;
    let again = lab.post(&format!("/api/v1/runs/{run}/rerun"), r#"{"reason":"once more"}"#).await;
    assert_eq!(again.status, 201, "{again:?}");
    let other = again.json()["id"].as_str().unwrap().to_owned();
    assert_ne!(other, run);
    assert_eq!(lab.result(&other).await["output"], "Hello, you!");
    let with = lab.post(&format!("/api/v1/runs/{run}/rerun"), r#"{"input":"them"}"#).await.json();
    assert_eq!(lab.result(with["id"].as_str().unwrap()).await["output"], "Hello, them!");
    // Jobs too.
    let job = lab.start(r#"{"definition":"fail","input":"no"}"#).await;
    lab.result(&job).await;
    assert_eq!(lab.post(&format!("/api/v1/runs/{job}/rerun"), "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_queues_are_is_told_minute_by_minute_and_not_to_one_tenant() {
    let lab = Lab::guarded().await;
    let (viewer, acme) = (lab.token("viewer", None).await, lab.token("viewer", Some("acme")).await);
    let get =
        async |path: &str, secret: &str| told(lab.request("GET", path).bearer_auth(secret)).await.json();
    // Nobody takes from a queue that is paused.
    lab.app.pause_queue("mail").await.unwrap();
    for _ in 0..3 {
        lab.app.start_by_name("fail", "\"no\"").await.unwrap();
    }
    lab.world.pass(std::time::Duration::from_secs(120)).await;
    let mut last = json!(null);
    for _ in 0..300 {
        let series = get("/api/v1/stats/series?range=15m&queue=mail", &viewer).await;
        let points = series["points"].as_array().unwrap().clone();
        last = points.iter().rev().find(|point| point["queued"] == 3).cloned().unwrap_or_default();
        if !last.is_null() {
            break;
        }
        let _ = tokio::time::timeout(std::time::Duration::from_millis(100), lab.app.store().signals().recv())
            .await;
    }
    assert_eq!((&last["queued"], &last["running"]), (&json!(3), &json!(0)), "{last}");
    assert!(last["queue_wait_ms"].as_f64().unwrap() >= 120_000.0, "{last}");
    for (path, secret) in
        [("/api/v1/stats/series?range=15m", &acme), ("/api/v1/stats/series?range=15m&def=fail", &viewer)]
    {
        let points = get(path, secret).await;
        let is_silent = |point: &serde_json::Value| point["queued"].is_null();
        assert!(points["points"].as_array().unwrap().iter().all(is_silent), "{points}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_can_be_mounted_under_any_path() {
    let lab = Lab::open().await;
    let api = Api::new(lab.app.client().clone()).without_tokens().router().await.unwrap();
    let own = Router::new().nest("/ops", api);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(outlast_server::http::serve(listener, own, CancellationToken::new()));
    let http = reqwest::Client::new();
    let ask =
        with_json(http.post(format!("{url}/ops/api/v1/runs")), r#"{"definition":"greet","input":"you"}"#);
    let started = told(ask).await;
    let run = started.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), format!("/ops/api/v1/runs/{run}"));
    assert_eq!(told(http.get(format!("{url}{}", started.header("location")))).await.status, 200);
    assert_eq!(told(http.get(format!("{url}/ops/healthz"))).await.status, 200);
}
