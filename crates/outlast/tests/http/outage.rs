//! The circuit breaker, in a time that passes when the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlast::http::HttpError;
use outlast::prelude::*;
use outlast::testing;

use crate::server::{Server, nearby, ok, status};

#[tokio::test]
async fn a_host_that_is_down_is_left_alone_until_one_call_finds_it_up_again() {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let server =
        Server::start(move |seen| match is_down.load(Ordering::Relaxed) && seen.host() == "a.example" {
            true => status(503),
            false => ok("well"),
        });
    let server = server.await;
    let job = Job::new("call", |job: JobCtx, url: String| async move {
        let answer = job.http().get(&url).send().await?;
        Ok::<u16, HttpError>(answer.status().as_u16())
    });
    let job = job.retry(Retry::never());
    let egress = nearby().breaker(3, 30.seconds());
    let test = testing::start(|app| app.job(job.clone()).egress(egress)).await.unwrap();
    let call = async |host: &str| {
        let run = test.app().start(job.clone(), server.at(host, "/")).await.unwrap();
        run.result().await.map_err(|failure| failure.own().unwrap())
    };

    for _ in 0..3 {
        assert_eq!(call("a.example").await, Ok(503));
    }
    let until = test.now().await.unwrap() + 30.seconds();
    let error = call("a.example").await.unwrap_err();
    let host = format!("a.example:{}", server.port);
    assert_eq!(error, HttpError::Open { host: host.clone(), until, after_ms: 30_000 });
    assert_eq!(error.to_string(), format!("{host} has failed too often and is called again from {until}"));
    assert!(
        error.is_retryable() && error.retry_after() == Some(30.seconds()) && error.code() == "circuit_open"
    );
    assert_eq!((server.count(), call("b.example").await), (3, Ok(200)));

    test.advance(30.seconds()).await.unwrap();
    assert_eq!(call("a.example").await, Ok(503), "half open: one finds out");
    assert!(matches!(call("a.example").await, Err(HttpError::Open { .. })), "still down");

    down.store(false, Ordering::Relaxed);
    test.advance(29.seconds()).await.unwrap();
    assert!(matches!(call("a.example").await, Err(HttpError::Open { after_ms: 1000, .. })));
    test.advance(1.second()).await.unwrap();
    for _ in 0..5 {
        assert_eq!(call("a.example").await, Ok(200), "up again");
    }
}

#[tokio::test]
async fn refusals_of_the_guard_and_answers_that_say_no_are_not_failures_of_the_host() {
    let server = Server::start(|_| status(404)).await;
    let (fine, inner) = (server.at("a.example", "/"), "http://10.0.0.1.leads.example/");
    let job = Job::new("call", |job: JobCtx, url: String| async move {
        job.http().get(&url).send().await?.error_for_status().map(|_| ())
    });
    let job = job.retry(Retry::never());
    let test =
        testing::start(|app| app.job(job.clone()).egress(nearby().breaker(1, 30.seconds()))).await.unwrap();
    for _ in 0..3 {
        for (url, code) in [(fine.as_str(), "http_status"), (inner, "egress_denied")] {
            let run = test.app().start(job.clone(), url.to_owned()).await.unwrap();
            assert_eq!(run.result().await.unwrap_err().own().unwrap().code(), code);
        }
    }
}
