//! What handlers log: read, and followed until the run has ended.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, told};

/// Reads a stream until it has said this; gives what it said.
async fn until(answer: &mut reqwest::Response, what: &str) -> String {
    let mut read = String::new();
    while !read.contains(what) {
        let chunk = tokio::time::timeout(Duration::from_secs(30), answer.chunk()).await.expect("in time");
        match chunk.unwrap() {
            Some(chunk) => read.push_str(std::str::from_utf8(&chunk).unwrap()),
            None => panic!("it ended without {what:?}: {read}"),
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_followed_until_the_run_has_ended() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"talk"}"#).await;
    let path = format!("/api/v1/runs/{run}/logs?follow=1");
    let mut answer = lab.request("GET", &path).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    let begun = until(&mut answer, "one").await;
    assert!(begun.starts_with("retry: 2000\n\n") && begun.contains("\nevent: log\n"), "{begun}");
    lab.until(&run, "waiting").await;
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"more","data":1}"#).await;
    let rest = until(&mut answer, "event: end").await;
    assert!(rest.contains("two"), "{rest}");
    assert_eq!(answer.chunk().await.unwrap(), None, "nothing more comes");

    // Whoever was cut off goes on behind what it had, also by the count that a server of an earlier version gave it; and only
    // what is urgent enough is told.
    for last in [id_of(&begun, "one"), "1"] {
        let late = told(lab.request("GET", &path).header("last-event-id", last)).await.text;
        assert!(!late.contains("one") && late.contains("two") && late.contains("event: end"), "{late}");
    }
    let urgent = lab.get(&format!("{path}&level=warn")).await.text;
    assert!(!urgent.contains("one") && urgent.contains("two"), "{urgent}");
    let page = lab.get(&format!("/api/v1/runs/{run}/logs?level=warn")).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        (page["next_after"].to_string(), &page["has_more"]),
        (id_of(&rest, "two").into(), &false.into())
    );
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}/logs?follow=maybe")).await.code(), "invalid_argument");
}

/// The id of the event in which this was logged.
fn id_of<'t>(told: &'t str, what: &str) -> &'t str {
    let event = told.split("\n\n").find(|event| event.contains(what)).unwrap();
    event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_comes_page_by_page_each_behind_the_last_line_of_the_one_before() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"chatter","input":500}"#).await;
    lab.until(&run, "waiting").await;
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"more","data":1}"#).await;
    lab.until(&run, "completed").await;
    let page =
        async |after: &str| lab.get(&format!("/api/v1/runs/{run}/logs?limit=200&after={after}")).await.json();
    let (mut pages, mut after): (Vec<Value>, _) = (Vec::new(), "0".to_owned());
    while pages.last().is_none_or(|page| page["has_more"] == true) {
        pages.push(page(&after).await);
        after = pages.last().unwrap()["next_after"].to_string();
    }
    let items = |page: &Value| page["items"].as_array().unwrap().clone();
    assert_eq!(pages.iter().map(|page| items(page).len()).collect::<Vec<_>>(), [200, 200, 101]);
    let all: HashSet<String> = pages.iter().flat_map(items).map(|line| line["message"].to_string()).collect();
    assert_eq!(all.len(), 501, "each line once");
    // Behind the last there is nothing, until more is logged.
    let none = page(&after).await;
    assert_eq!((items(&none).len(), none["next_after"].to_string()), (0, after));
    // Lines were counted once, and whoever has such a count goes on there.
    assert_eq!(page("200").await, pages[1]);
    assert_eq!(page("9007199254740992").await["code"], "invalid_argument");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_what_is_urgent_ends_behind_however_many_lines_that_are_not() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"chatter","input":900}"#).await;
    lab.until(&run, "waiting").await;
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"more","data":1}"#).await;
    lab.until(&run, "completed").await;
    let last = lab.get(&format!("/api/v1/runs/{run}/logs?limit=1000")).await.json()["next_after"].to_string();
    let told = lab.get(&format!("/api/v1/runs/{run}/logs?follow=1&level=error")).await.text;
    assert!(told.ends_with(&format!("id: {last}\nevent: end\ndata: {{}}\n\n")), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_is_let_go_when_the_server_stops_or_the_run_is_deleted() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"talk"}"#).await;
    let mut answer = lab.request("GET", &format!("/api/v1/runs/{run}/logs?follow=1")).send().await.unwrap();
    until(&mut answer, "one").await;
    lab.stop();
    while answer.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
}
