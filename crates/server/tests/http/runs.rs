//! Runs: started, listed, looked at, acted on.

use serde_json::{Value, json};

use crate::lab::{Lab, told, with_json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_started_waited_for_and_looked_at() {
    let lab = Lab::open().await;
    let told =
        lab.post("/api/v1/runs", r#"{"definition":"greet","input":"you","tags":{"city":"Bern"}}"#).await;
    assert_eq!(told.status, 201);
    let run = told.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(told.json()["created"], true);
    assert_eq!(told.header("location"), format!("/api/v1/runs/{run}"));

    let result = lab.result(&run).await;
    assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!("Hello, you!")));
    let shown = lab.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!((&shown["tags"]["city"], &shown["owner"]), (&json!("Bern"), &json!("local")));
    let steps = lab.get(&format!("/api/v1/runs/{run}/steps")).await.json();
    assert_eq!(steps["items"][0]["name"], "greet");
    assert_eq!(steps["items"][0]["state"], "completed");
    let history = lab.get(&format!("/api/v1/runs/{run}/history?limit=1")).await.json();
    assert_eq!(history["items"][0]["phase"], "done");
    let explained = lab.get(&format!("/api/v1/runs/{run}/explain")).await.json();
    assert_eq!(explained["kind"], "ended");
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}/logs")).await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_saved_last_can_be_asked_for_by_its_name() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"counts"}"#).await;
    let (path, events) = (format!("/api/v1/runs/{run}/queries"), format!("/api/v1/runs/{run}/events"));
    for (round, word) in ["next", "anew", "next", "next"].into_iter().enumerate() {
        let count = json!(round + 1);
        let mut signals = lab.app.store().signals();
        while lab.get(&format!("{path}/count")).await.json()["value"] != count {
            let _ = tokio::time::timeout(std::time::Duration::from_millis(100), signals.recv()).await;
        }
        lab.post(&events, &format!(r#"{{"name":"next","data":"{word}"}}"#)).await;
    }
    let told = lab.get(&format!("{path}/last%2Ftold")).await.json();
    assert_eq!((&told["name"], &told["value"]["password"]), (&json!("last/told"), &json!("s")));
    assert!(told["saved_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{told}");
    for unknown in ["cou", "count%232", "%3Dcount", "next"] {
        let told = lab.get(&format!("{path}/{unknown}")).await;
        assert_eq!((told.status.as_u16(), told.code().as_str()), (404, "not_found"), "{unknown}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_is_told_of_when_it_is_done_and_steps_come_in_pages() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"revert"}"#).await;
    lab.until(&run, "waiting").await;
    let names = |steps: &Value| -> Vec<String> {
        let steps = steps["items"].as_array().unwrap();
        let name = |step: &Value, part: &str| step[part].as_str().unwrap().to_owned();
        steps.iter().map(|step| format!("{} {}", name(step, "op"), name(step, "name"))).collect()
    };
    let path = format!("/api/v1/runs/{run}/steps");
    assert_eq!(names(&lab.get(&path).await.json()), ["step book", "event over"]);
    let file = lab.get(&format!("/api/v1/runs/{run}/export")).await.text;
    let read = lab.post("/api/v1/runs/read", &file).await.json();
    assert_eq!(names(&json!({ "items": read["steps"] })), ["step book", "event over"]);

    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"over"}"#).await;
    lab.until(&run, "failed").await;
    let all = lab.get(&path).await.json();
    assert_eq!(names(&all), ["step book", "event over", "undo book"]);
    assert_eq!((&all["total"], &all["next_after"]), (&json!(3), &json!(null)));
    assert!(all["items"][2]["began_at"].as_str() >= all["items"][1]["ended_at"].as_str(), "{all}");

    let first = lab.get(&format!("{path}?limit=2")).await.json();
    assert_eq!((names(&first).len(), &first["next_after"], &first["total"]), (2, &json!(2), &json!(3)));
    let rest = lab.get(&format!("{path}?after=2&limit=2")).await.json();
    assert_eq!((names(&rest), &rest["next_after"]), (vec!["undo book".to_owned()], &json!(null)));
    assert_eq!(names(&lab.get(&format!("{path}?after=9")).await.json()).len(), 0);
    assert_eq!(lab.get(&format!("{path}?limit=0")).await.code(), "invalid_argument");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_tells_when_it_was_created_first_taken_and_ended() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.until(&run, "completed").await;
    let told = lab.get(&format!("/api/v1/runs/{run}")).await.json();
    let times = ["created_at", "started_at", "finished_at"].map(|time| told[time].as_str());
    assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{told}");
    let later = lab.start(r#"{"definition":"greet","input":"you","delay_ms":3600000}"#).await;
    assert_eq!(lab.get(&format!("/api/v1/runs/{later}")).await.json()["started_at"], json!(null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_starts_once_and_another_input_is_a_conflict() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you","key":"k-1"}"#;
    let run = lab.start(body).await;
    let again = lab.post("/api/v1/runs", body).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, json!({ "id": run, "created": false })));
    let other = lab.post("/api/v1/runs", r#"{"definition":"greet","input":"me","key":"k-1"}"#).await;
    assert_eq!((other.status.as_u16(), other.code().as_str()), (409, "idempotency_conflict"));
    let detail = other.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(&run) && detail.contains("started at 20"), "{detail}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_comes_back_as_it_was_sent() {
    let lab = Lab::open().await;
    let input = r#"{"b":1,"a":12345678901234567890123,"c":1.10,"z":"\u0000"}"#;
    let run = lab.start(&format!(r#"{{"definition":"approve","input":{input}}}"#)).await;
    let shown = lab.get(&format!("/api/v1/runs/{run}")).await.text;
    assert!(shown.contains(&format!(r#""input":{input}"#)), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_starts_later_or_at_a_time_with_a_version_that_is_there() {
    let lab = Lab::open().await;
    let later =
        lab.start(r#"{"definition":"greet","input":"x","delay_ms":3600000,"version":1,"priority":2}"#).await;
    let at =
        lab.start(r#"{"definition":"greet","input":"x","at":"2999-01-01T00:00:00Z","queue":"slow"}"#).await;
    let shown = lab.get(&format!("/api/v1/runs/{later}")).await.json();
    assert_eq!((&shown["status"], &shown["priority"]), (&json!("ready"), &json!(2)));
    let shown = lab.get(&format!("/api/v1/runs/{at}")).await.json();
    assert_eq!((&shown["due_at"], &shown["queue"]), (&json!("2999-01-01T00:00:00.000000Z"), &json!("slow")));
    let both = r#"{"definition":"greet","input":"x","delay_ms":1,"at":"2999-01-01T00:00:00Z"}"#;
    assert_eq!(lab.post("/api/v1/runs", both).await.code(), "invalid_argument");
    let unknown = lab.post("/api/v1/runs", r#"{"definition":"greet","input":"x","version":7}"#).await;
    assert_eq!((unknown.status.as_u16(), unknown.code().as_str()), (422, "unknown_definition"));
    assert!(unknown.text.contains("greet@1"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_counted_and_walked_page_by_page() {
    let lab = Lab::open().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let city = if n < 3 { "Bern" } else { "Rome" };
        let body =
            format!(r#"{{"definition":"greet","input":"{n}","key":"n-{n}","tags":{{"city":"{city}"}}}}"#);
        ids.push(lab.start(&body).await);
    }
    for id in &ids {
        lab.result(id).await;
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/runs?limit=2&sort=oldest".to_owned();
    loop {
        let page = lab.get(&path).await.json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/runs?limit=2&sort=oldest&cursor={cursor}");
    }
    assert_eq!(seen, ids);

    let count = async |filter: &str| {
        let listed =
            lab.get(&format!("/api/v1/runs?{filter}")).await.json()["items"].as_array().unwrap().len();
        let counted = lab.get(&format!("/api/v1/runs/count?{filter}")).await.json();
        assert_eq!(counted, json!({ "count": listed, "capped": false }), "{filter}");
        listed
    };
    assert_eq!(count("tag=city%3DBern").await, 3);
    assert_eq!(count("attr.city=Rome").await, 2);
    assert_eq!(count("status=failed&status=completed&def=greet").await, 5);
    assert_eq!(count("status=failed").await, 0);
    assert_eq!(count("key=n-3").await, 1);
    assert_eq!(count("version=1&owner=local").await, 5);
    assert_eq!(count("version=2").await, 0);
    assert_eq!(count("owner=ann").await, 0);
    assert_eq!(count("stuck=5m").await, 0);
    let node = lab.get("/api/v1/nodes").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(count(&format!("node={node}")).await, 0);
    assert_eq!(count("since=-2h").await, 5);
    assert_eq!(count("until=2020-01-01T00:00:00Z").await, 0);
    assert_eq!(lab.get("/api/v1/runs/count?cap=2").await.json(), json!({ "count": 2, "capped": true }));
    let by_id = lab.get(&format!("/api/v1/runs?q={}", ids[2])).await.json();
    assert_eq!(by_id["items"][0]["key"], "n-2");
    assert_eq!(lab.get("/api/v1/runs?q=n-4").await.json()["items"][0]["id"], ids[4].as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_are_left_out_of_lists_and_are_in_the_run() {
    let lab = Lab::open().await;
    let text = "x".repeat(10_000);
    let run = lab.start(&format!(r#"{{"definition":"greet","input":"{text}"}}"#)).await;
    lab.result(&run).await;
    let listed = lab.get("/api/v1/runs").await.json()["items"][0].clone();
    assert_eq!((&listed["input"], &listed["omitted"]), (&json!(null), &json!(["input", "output"])));
    let shown = lab.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!((&shown["input"], &shown["omitted"]), (&json!(text), &json!(null)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_promises_reach_their_run() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    let sent =
        lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"approval","data":{"ok":true}}"#).await;
    assert_eq!((sent.status.as_u16(), &sent.json()["changed"]), (200, &json!(true)));
    assert_eq!(lab.result(&run).await["output"], json!({ "ok": true }));
    let late = lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"approval"}"#).await;
    assert_eq!((late.status.as_u16(), late.code().as_str()), (409, "run_closed"));
    let unknown = "/api/v1/runs/run_00000000000000000000000000/events";
    assert_eq!(lab.post(unknown, r#"{"name":"approval"}"#).await.status, 404);

    let run = lab.start(r#"{"definition":"promised"}"#).await;
    let promises = format!("/api/v1/runs/{run}/promises");
    assert_eq!(lab.post(&promises, r#"{"name":"paid","data":7}"#).await.status, 200);
    assert_eq!(lab.result(&run).await["output"], 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_resumed_cancelled_and_deleted() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    lab.until(&run, "waiting").await;
    let act =
        async |what: &str, body: &str| lab.post(&format!("/api/v1/runs/{run}/{what}"), body).await.json();
    assert_eq!(act("pause", r#"{"reason":"look first"}"#).await["status"], "paused");
    assert_eq!(act("resume", "{}").await["changed"], true);
    assert_eq!(act("resume", "{}").await["changed"], false);
    let early = lab.delete(&format!("/api/v1/runs/{run}")).await;
    assert_eq!((early.status.as_u16(), early.code().as_str()), (409, "conflict"));
    assert_eq!(act("cancel", r#"{"reason":"not needed"}"#).await["changed"], true);
    assert_eq!(lab.result(&run).await["status"], "cancelled");
    // What has ended stays as it is, and that is no fault.
    for what in ["cancel", "kill", "pause"] {
        let told = act(what, "").await;
        assert_eq!((&told["status"], &told["changed"]), (&json!("cancelled"), &json!(false)), "{what}");
    }
    assert_eq!(lab.delete(&format!("/api/v1/runs/{run}?reason=done")).await.status, 204);
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}")).await.code(), "not_found");

    let run = lab.start(r#"{"definition":"approve"}"#).await;
    lab.until(&run, "waiting").await;
    let killed = lab.post(&format!("/api/v1/runs/{run}/kill"), "").await.json();
    assert_eq!((&killed["status"], &killed["changed"]), (&json!("cancelled"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_never_began_is_deleted_and_one_that_did_is_left_alone() {
    let lab = Lab::open().await;
    let delete = async |run: &str| lab.delete(&format!("/api/v1/runs/{run}?reason=typo")).await;
    let refused = async |run: &str, why: &str| {
        let told = delete(run).await;
        assert_eq!((told.status.as_u16(), told.code().as_str()), (409, "conflict"));
        assert!(told.text.contains(why), "{told:?}");
    };
    let later = r#"{"definition":"approve","key":"later","delay_ms":9000000}"#;
    let run = lab.start(later).await;
    assert_eq!(delete(&run).await.status, 204);
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}")).await.code(), "not_found");
    assert_eq!(delete(&run).await.code(), "not_found");
    assert_ne!(lab.start(later).await, run, "its key is free again");

    let begun = lab.start(r#"{"definition":"approve"}"#).await;
    lab.until(&begun, "waiting").await;
    refused(&begun, "is waiting: cancel or kill it first").await;
    let left = lab.get(&format!("/api/v1/runs/{begun}")).await.json();
    assert_eq!((&left["status"], &left["cancel_reason"]), (&json!("waiting"), &Value::Null));

    // In a queue that is held nothing begins.
    assert_eq!(lab.post("/api/v1/queues/default/pause", "{}").await.status, 200);
    let queued = lab.start(r#"{"definition":"approve"}"#).await;
    assert_eq!(delete(&queued).await.status, 204);
    // What another has recorded is not lost by the way.
    let fork = lab.post(&format!("/api/v1/runs/{begun}/fork"), r#"{"from":"event:approval"}"#).await.json();
    let fork = fork["id"].as_str().unwrap();
    let kept = lab.get(&format!("/api/v1/runs/{fork}/history")).await.json();
    assert_ne!(kept["items"], json!([]));
    refused(fork, "has begun, or has a journal already").await;
    let held = lab.start(r#"{"definition":"approve","delay_ms":9000000}"#).await;
    lab.post(&format!("/api/v1/runs/{held}/pause"), "").await;
    refused(&held, "is paused").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_for_later_goes_on_at_another_time_or_now() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve","delay_ms":86400000}"#).await;
    let act = async |body: &str| lab.post(&format!("/api/v1/runs/{run}/due"), body).await;
    let moved = act(r#"{"at":"2099-01-01T00:00:00Z","reason":"no hurry"}"#).await.json();
    assert_eq!((&moved["status"], &moved["changed"]), (&json!("ready"), &json!(true)));
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}")).await.json()["due_at"], "2099-01-01T00:00:00.000000Z");
    assert_eq!(act(r#"{"at":"tomorrow"}"#).await.code(), "invalid_timestamp");
    assert_eq!(
        act(r#"{"seen":"2098-01-01T00:00:00Z"}"#).await.json()["changed"],
        false,
        "that was its time before"
    );
    assert_eq!(act(r#"{"seen":"2099-01-01T00:00:00Z"}"#).await.json()["changed"], true);
    lab.until(&run, "waiting").await;
    assert_eq!(
        act("{}").await.json()["changed"],
        false,
        "it waits for an event, whose time is nobody's to change"
    );
    let lines = lab.get(&format!("/api/v1/runs/{run}/actions")).await.json();
    let said = |line: &serde_json::Value| line["action"] == "run.due" && line["reason"] == "no hurry";
    assert!(lines["items"].as_array().unwrap().iter().any(said), "{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_failed_is_tried_again_or_forked() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"fail","input":"no table"}"#).await;
    let result = lab.result(&run).await;
    assert_eq!((&result["status"], &result["error"]["message"]), (&json!("failed"), &json!("no table")));
    let retry = format!("/api/v1/runs/{run}/retry");
    let plan = lab.post(&retry, r#"{"dry_run":true}"#).await.json();
    assert_eq!((&plan["status"], &plan["run"]), (&json!("failed"), &json!(run)));
    let tried = lab.post(&retry, r#"{"input":"still no table"}"#).await.json();
    assert_eq!(tried["changed"], true);
    assert_eq!(lab.result(&run).await["error"]["message"], "still no table");

    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&run).await;
    let fork = format!("/api/v1/runs/{run}/fork");
    let plan = lab.post(&fork, r#"{"from":"greet","dry_run":true}"#).await.json();
    assert_eq!(plan["again"], json!(["greet"]));
    let forked = lab.post(&fork, r#"{"from":"greet","input":"me"}"#).await;
    assert_eq!((forked.status.as_u16(), &forked.json()["fork_of"]), (201, &json!(run)));
    let id = forked.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(lab.result(&id).await["output"], "Hello, me!");
    let both = lab.post(&fork, r#"{"from":"greet","from_start":true}"#).await;
    assert_eq!(both.code(), "invalid_argument");
    let replace = format!("/api/v1/runs/{run}/replace");
    let told =
        lab.post(&replace, r#"{"step":"greet","result":"Hi","reason":"shorter","dry_run":true}"#).await;
    assert!(told.status == 200 || told.status == 409, "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_not_there_yet_is_202_and_a_stop_does_not_wait_for_it() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    let told = lab.get(&format!("/api/v1/runs/{run}/result")).await;
    assert_eq!((told.status.as_u16(), &told.json()["output"]), (202, &json!(null)));
    let path = format!("/api/v1/runs/{run}/result?wait=60s");
    let began = std::time::Instant::now();
    let (answer, ()) = tokio::join!(lab.get(&path), async {
        // By the time that others have been answered, it waits.
        for _ in 0..50 {
            lab.get("/healthz").await;
        }
        lab.stop();
    });
    assert_eq!(answer.status, 202);
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_whoever_starts_a_run_is_kept_with_it() {
    let lab = Lab::open().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ask = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
    let started = told(ask.header("traceparent", trace).header("x-request-id", "mine-1")).await;
    assert_eq!(started.header("x-request-id"), "mine-1");
    let run = started.json()["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(lab.app.status(run).await.unwrap().record.trace.as_deref(), Some(trace));

    let ask = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
    let started = told(ask.header("traceparent", trace).header("tracestate", "rojo=1,congo=t61")).await;
    let run = started.json()["id"].as_str().unwrap().parse().unwrap();
    let kept = lab.app.status(run).await.unwrap().record.trace;
    assert_eq!(kept.as_deref(), Some(&*format!("{trace};rojo=1,congo=t61")));

    // What is no trace context is not kept, and what is no request id is not echoed.
    let ask = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"nope"}"#);
    let refused = told(ask.header("traceparent", trace).header("x-request-id", "not an id")).await;
    assert_eq!(refused.json()["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(refused.header("x-request-id").starts_with("req_"), "{refused:?}");
    let ask = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
    let started = told(ask.header("traceparent", "00-0-0-0")).await;
    let run = started.json()["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(lab.app.status(run).await.unwrap().record.trace, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_counted_as_it_is_listed_and_a_cursor_is_good_for_its_own_filter_alone() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    for _ in 0..2 {
        lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    }
    let nobody = "run_00000000000000000000000000";
    for (id, count) in [(run.as_str(), 1), (nobody, 0)] {
        assert_eq!(lab.get(&format!("/api/v1/runs/count?q={id}")).await.json()["count"], count);
        let listed = lab.get(&format!("/api/v1/runs?q={id}")).await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), count);
    }
    let page = lab.get("/api/v1/runs?def=greet&since=2h&limit=1").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = lab.get(&format!("/api/v1/runs?def=greet&since=2h&limit=1&cursor={cursor}")).await;
    assert_eq!(next.status, 200, "{next:?}");
    for other in ["def=fail&since=2h", "since=2h", "def=greet&since=2h&status=failed"] {
        let refused = lab.get(&format!("/api/v1/runs?{other}&limit=1&cursor={cursor}")).await;
        assert_eq!(refused.code(), "invalid_cursor", "{other}");
    }
}
