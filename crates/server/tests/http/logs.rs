//! What handlers log: read, and followed until the run has ended.

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
    assert!(begun.starts_with("retry: 2000\n\n") && begun.contains("id: 1\nevent: log\n"), "{begun}");
    lab.until(&run, "waiting").await;
    lab.post(&format!("/api/v1/runs/{run}/events"), r#"{"name":"more","data":1}"#).await;
    let rest = until(&mut answer, "event: end").await;
    assert!(rest.contains("two"), "{rest}");
    assert_eq!(answer.chunk().await.unwrap(), None, "nothing more comes");

    // Whoever was cut off goes on behind what it had; and only what is urgent enough is told.
    let late = told(lab.request("GET", &path).header("last-event-id", "1")).await.text;
    assert!(!late.contains("one") && late.contains("two") && late.contains("event: end"), "{late}");
    let urgent = lab.get(&format!("{path}&level=warn")).await.text;
    assert!(!urgent.contains("one") && urgent.contains("two"), "{urgent}");
    let page = lab.get(&format!("/api/v1/runs/{run}/logs?level=warn")).await.json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_after"]), (1, &Value::from(2)));
    assert_eq!(lab.get(&format!("/api/v1/runs/{run}/logs?follow=maybe")).await.code(), "invalid_argument");
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
