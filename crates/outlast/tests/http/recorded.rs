//! Calls of workflows: steps of their own, whose answers are recorded.

use std::sync::atomic::{AtomicUsize, Ordering};

use outlast::http::HttpError;
use outlast::prelude::*;
use outlast::testing;

use crate::server::{Reply, Server, nearby, ok, status};

#[tokio::test]
async fn a_call_of_a_workflow_is_a_step_whose_answer_a_replay_gets() {
    let server = Server::start(|_| Reply::Says(418, "x-tea: green\r\n".into(), "short\tand stout ☕")).await;
    let url = server.at("pot.example", "/");
    let workflow = Workflow::new("tea", move |ctx: Ctx, (): ()| {
        let (first, second) = (ctx.http().get(&url), ctx.scope("again").http().post(&url).body("sugar"));
        async move {
            let first = first.send().await?;
            ctx.sleep(1.hour()).await?;
            let second = second.send().await?;
            ctx.sleep(1.hour()).await?;
            assert_eq!(first.text(), second.text());
            Ok::<_, HttpError>((
                first.status().as_u16(),
                first.header("x-tea").map(str::to_owned),
                first.text().into_owned(),
            ))
        }
    });
    // Nothing is kept warm: every turn is a replay.
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby()).settings(|s| s.warm = 0));
    let test = test.await.unwrap();
    let run = test.app().start(workflow, ()).await.unwrap();
    test.advance(3.hours()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (418, Some("green".into()), "short\tand stout ☕".into()));
    assert_eq!(server.count(), 2);
    assert_eq!(test.steps(run.id()).await.unwrap(), ["http GET pot.example", "again/http POST pot.example"]);
}

#[tokio::test]
async fn a_recorded_call_is_tried_again_when_its_host_says_so() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Says(429, "retry-after: 120\r\n".into(), ""),
        1 => Reply::Drops,
        2 => status(502),
        _ => ok("done"),
    });
    let server = server.await;
    let url = server.at("busy.example", "/");
    let workflow = Workflow::new("patient", move |ctx: Ctx, attempts: u32| {
        let call = ctx.http().get(&url).retry(Retry::fixed(attempts, 1.second()));
        async move { Ok::<_, HttpError>(call.send().await?.text().into_owned()) }
    });
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let run = test.app().start(workflow.clone(), 4).await.unwrap();
    test.advance(119.seconds()).await.unwrap();
    assert_eq!(server.count(), 1);
    test.advance(3.seconds()).await.unwrap();
    assert_eq!((run.result().await.unwrap().as_str(), server.count()), ("done", 4));
}

#[tokio::test]
async fn what_makes_no_sense_to_repeat_is_recorded_at_once() {
    let server = Server::start(|seen| status(if seen.path == "/no" { 404 } else { 503 })).await;
    let (no, later) = (server.at("a.example", "/no"), server.at("a.example", "/later"));
    let workflow = Workflow::new("no", move |ctx: Ctx, (): ()| {
        let (no, later) = (no.clone(), later.clone());
        async move {
            let many = Retry::fixed(5, 1.second());
            let codes = [
                ctx.http().get(&no).retry(many).send().await.map(|answer| answer.status().as_u16()),
                // Asked once, any answer is one.
                ctx.http().get(&later).send().await.map(|answer| answer.status().as_u16()),
                ctx.http().get("http://10.0.0.1/").retry(many).send().await.map(|_| 0),
                ctx.http().get("nonsense").retry(many).send().await.map(|_| 0),
            ];
            Ok::<_, AnyError>(codes.map(|code| code.map_err(|error| error.code().to_owned())))
        }
    });
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let run = test.app().start(workflow, ()).await.unwrap();
    let (denied, invalid) = ("egress_denied".to_owned(), "invalid_argument".to_owned());
    assert_eq!(run.result().await.unwrap(), [Ok(404), Ok(503), Err(denied), Err(invalid)]);
    assert_eq!(server.count(), 2);
    let steps = ["http GET a.example", "http GET a.example#2", "http GET 10.0.0.1", "http GET ?"];
    assert_eq!(test.steps(run.id()).await.unwrap(), steps);
}

#[tokio::test]
async fn an_answer_larger_than_a_journal_takes_is_refused() {
    let server = Server::start(|_| Reply::Floods).await;
    let url = server.at("big.example", "/");
    let workflow = Workflow::new("big", move |ctx: Ctx, (): ()| {
        let call = ctx.http().get(&url).max_body(1 << 30);
        async move { call.send().await.map(|_| ()) }
    });
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let error = test.app().start(workflow, ()).await.unwrap().result().await.unwrap_err();
    assert!(matches!(error.own(), Some(HttpError::TooLarge { limit: 1_048_576, .. })));
}
