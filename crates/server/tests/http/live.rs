//! Live updates: what a stream tells, how it goes on, and that it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{Lab, told, with_json};

/// A stream that is read event by event.
pub(crate) struct Stream {
    answer: reqwest::Response,
    read: String,
}

#[derive(Debug)]
pub(crate) struct Event {
    id: String,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(lab: &Lab, topics: &str, last: Option<&str>, secret: Option<&str>) -> Stream {
        let mut ask = lab.request("GET", &format!("/api/v1/live?topics={topics}"));
        if let Some(last) = last {
            ask = ask.header("last-event-id", last);
        }
        if let Some(secret) = secret {
            ask = ask.bearer_auth(secret);
        }
        let answer = ask.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert_eq!(answer.headers()["cache-control"], "no-cache");
        Stream { answer, read: String::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.read.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.read = rest;
                let field =
                    |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                if !field("event: ").is_empty() {
                    let data = serde_json::from_str(field("data: ")).unwrap();
                    return Some(Event {
                        id: field("id: ").to_owned(),
                        name: field("event: ").to_owned(),
                        data,
                    });
                }
                continue;
            }
            let chunk =
                tokio::time::timeout(Duration::from_secs(30), self.answer.chunk()).await.expect("in time");
            self.read.push_str(std::str::from_utf8(&chunk.unwrap()?).unwrap());
        }
    }

    /// The next event in which a run is in a status.
    pub(crate) async fn until(&mut self, run: &str, status: &str) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            let changed = event.data["changed"].as_array().cloned().unwrap_or(vec![event.data.clone()]);
            if changed.iter().any(|one| one["id"] == run && one["status"] == status) {
                return event;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_of_runs_as_they_change() {
    let lab = Lab::open().await;
    let mut stream = Stream::open(&lab, "runs", None, None).await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    stream.until(&run, "waiting").await;
    let mut one = Stream::open(&lab, &format!("run:{run}"), None, None).await;
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"approval"}"#).await;
    let ended = one.until(&run, "completed").await;
    assert_eq!(ended.name, "run");
    assert!(ended.data["position"].as_u64().unwrap() > 0);
    stream.until(&run, "completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_of_the_end_of_a_run_that_has_many_open_ones_before_it() {
    let lab = Lab::open().await;
    let oldest = lab.start(r#"{"definition":"approve"}"#).await;
    lab.until(&oldest, "waiting").await;
    for _ in 0..201 {
        lab.start(r#"{"definition":"approve","delay_ms":9000000}"#).await;
    }
    let mut stream = Stream::open(&lab, "runs", None, None).await;
    // Until it has looked once, it tells of nothing.
    let newest = lab.start(r#"{"definition":"greet","input":"a"}"#).await;
    stream.until(&newest, "completed").await;
    lab.post(&format!("/api/v1/runs/{oldest}/events"), r#"{"name":"approval"}"#).await;
    stream.until(&oldest, "completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_of_queues() {
    let lab = Lab::open().await;
    let mut stream = Stream::open(&lab, "queues", None, None).await;
    lab.post("/api/v1/queues/mail/pause", "").await;
    let event = stream.next().await.unwrap();
    assert_eq!((event.name.as_str(), &event.data["changed"][0]["state"]), ("queues", &Value::from("paused")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_there_is_not_told_and_what_is_logged_later_is_told_once_without_its_words() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"chatter","input":500}"#).await;
    lab.until(&run, "waiting").await;
    let page = lab.get(&format!("/api/v1/runs/{run}/logs?limit=1000")).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 500);
    let mut stream = Stream::open(&lab, &format!("runs,logs:{run}"), None, None).await;
    // Another run is told of by a look, which would tell of the log too if there were something new.
    let mut logs = Vec::new();
    for nth in 0..4 {
        if nth == 2 {
            lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"more","data":1}"#).await;
            lab.until(&run, "completed").await;
        }
        let other = lab.start(r#"{"definition":"greet","input":"a"}"#).await;
        let is_it = |event: &Event| {
            let changed = event.data["changed"].as_array().cloned().unwrap_or_default();
            changed.iter().any(|one| one["id"] == *other && one["status"] == "completed")
        };
        loop {
            let event = stream.next().await.expect("the stream goes on");
            if event.name == "logs" {
                assert!(nth >= 2, "nothing is new yet: {event:?}");
                logs.push(event.data);
            } else if is_it(&event) {
                break;
            }
        }
    }
    let behind = format!("/api/v1/runs/{run}/logs?after={}", page["next_after"]);
    let new = lab.get(&behind).await.json();
    assert_eq!(new["items"].as_array().unwrap().len(), 1);
    let told = json!({ "id": run, "after": page["next_after"], "next_after": new["next_after"] });
    assert_eq!(logs, [told]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_was_cut_off_or_says_that_it_cannot() {
    let lab = Lab::open().await;
    let mut stream = Stream::open(&lab, "runs", None, None).await;
    let mut other = Stream::open(&lab, "runs", None, None).await;
    let first = lab.start(r#"{"definition":"greet","input":"a"}"#).await;
    let seen = stream.until(&first, "completed").await;
    drop(stream);
    let second = lab.start(r#"{"definition":"greet","input":"b"}"#).await;
    other.until(&second, "completed").await;
    let mut again = Stream::open(&lab, "runs", Some(&seen.id), None).await;
    let event = again.until(&second, "completed").await;
    assert!(event.id > seen.id);
    let mut strange = Stream::open(&lab, "runs", Some("another:1"), None).await;
    assert_eq!(strange.next().await.unwrap().name, "reset");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_hears_only_of_its_own_runs() {
    let lab = Lab::guarded().await;
    let (acme, globex) =
        (lab.token("operator", Some("acme")).await, lab.token("operator", Some("globex")).await);
    let mut stream = Stream::open(&lab, "runs", None, Some(&acme)).await;
    let start = async |secret: &str| {
        let ask = crate::lab::with_json(
            lab.request("POST", "/api/v1/runs"),
            r#"{"definition":"greet","input":"x"}"#,
        );
        let told = crate::lab::told(ask.bearer_auth(secret)).await.json();
        told["id"].as_str().unwrap().to_owned()
    };
    let viewer = lab.token("viewer", None).await;
    let mut all = Stream::open(&lab, "runs", None, Some(&viewer)).await;
    let theirs = start(&globex).await;
    // Told to whoever sees everything: so it was told to nobody else, or to all.
    all.until(&theirs, "completed").await;
    let own = start(&acme).await;
    loop {
        let event = stream.next().await.unwrap();
        let text = event.data.to_string();
        assert!(!text.contains(&theirs), "{text}");
        if text.contains(&own) && text.contains("completed") {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_when_the_server_stops() {
    let lab = Lab::open().await;
    let mut stream = Stream::open(&lab, "runs,queues", None, None).await;
    lab.stop();
    while stream.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_may_not_hear_of_does_not_keep_them_from_the_rest() {
    let lab = Lab::guarded().await;
    let acme = lab.token("operator", Some("acme")).await;
    let gone = "run_00000000000000000000000000";
    let topics = format!("queues,run:{gone},logs:{gone},runs");
    let mut stream = Stream::open(&lab, &topics, None, Some(&acme)).await;
    let started = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"approve"}"#);
    let run = told(started.bearer_auth(&acme)).await.json()["id"].as_str().unwrap().to_owned();
    stream.until(&run, "waiting").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_do_not_exist_are_refused() {
    let lab = Lab::open().await;
    for topics in ["nope", "run:x", "logs:", ""] {
        assert_eq!(
            lab.get(&format!("/api/v1/live?topics={topics}")).await.code(),
            "invalid_argument",
            "{topics}"
        );
    }
    let unknown = lab.get("/api/v1/live?topics=run:run_00000000000000000000000000").await;
    assert_eq!(unknown.code(), "not_found");
    let many = vec!["runs"; 21].join(",");
    assert_eq!(lab.get(&format!("/api/v1/live?topics={many}")).await.code(), "invalid_argument");
}
