//! Idempotency keys: what the service knows a repeated call by.

use outlast::http::HttpError;
use outlast::prelude::*;
use outlast::testing;

use crate::in_job;
use crate::server::{Reply, Server, nearby, ok, status};

#[tokio::test]
async fn all_attempts_of_one_job_send_the_same_key_and_other_runs_another() {
    // No failure in the eyes of the circuit breaker, which has nothing to do with this.
    let server = Server::start(|_| status(429)).await;
    let url = server.at("a.example", "/");
    let job = Job::new("notify", move |job: JobCtx, (): ()| {
        let call = job.http().post(&url);
        async move { call.send().await?.error_for_status().map(|_| ()) }
    });
    let job = job.retry(Retry::fixed(3, 1.second())).retry_if(HttpError::is_retryable);
    let test = testing::start(|app| app.job(job.clone()).egress(nearby())).await.unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let run = test.app().start(job.clone(), ()).await.unwrap();
        test.advance(1.hour()).await.unwrap();
        assert!(matches!(run.result().await.unwrap_err().own(), Some(HttpError::Status { status: 429, .. })));
        keys.push(run.id().to_string());
    }
    let sent: Vec<String> =
        server.seen().iter().map(|seen| seen.header("idempotency-key").unwrap().into()).collect();
    assert_eq!(sent, [vec![keys[0].clone(); 3], vec![keys[1].clone(); 3]].concat());
}

#[tokio::test]
async fn attempts_of_a_step_and_of_a_recorded_call_send_the_key_of_the_step() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/late" => Reply::Drops,
        _ => ok(""),
    });
    let server = server.await;
    let (late, fine) = (server.at("a.example", "/late"), server.at("a.example", "/"));
    let workflow = Workflow::new("pay", move |ctx: Ctx, (): ()| {
        let (late, fine) = (late.clone(), fine.clone());
        async move {
            let step = ctx.step("grüße, 100 %", |s| {
                let call = s.http().patch(&late);
                async move { call.send().await.map(|_| ()) }
            });
            let _ = step.retry(Retry::fixed(2, 1.second())).await;
            let _ = ctx.http().post(&late).retry(Retry::fixed(2, 1.second())).send().await;
            ctx.http().post(&fine).send().await?;
            ctx.http().post(&fine).idempotency_key("mine").send().await?;
            ctx.http().get(&fine).send().await?;
            Ok::<_, HttpError>(())
        }
    });
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let run = test.app().start(workflow, ()).await.unwrap();
    test.advance(1.hour()).await.unwrap();
    run.result().await.unwrap();
    let id = run.id();
    let expected = [
        Some(format!("{id}/gr%C3%BC%C3%9Fe,%20100%20%25")),
        Some(format!("{id}/gr%C3%BC%C3%9Fe,%20100%20%25")),
        Some(format!("{id}/http%20POST%20a.example")),
        Some(format!("{id}/http%20POST%20a.example")),
        Some(format!("{id}/http%20POST%20a.example#2")),
        Some("mine".into()),
        None,
    ];
    let sent: Vec<_> =
        server.seen().iter().map(|seen| seen.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn a_second_post_to_one_host_in_one_attempt_needs_a_key_of_its_own() {
    let server = Server::start(|_| ok("")).await;
    let (one, two) = (server.at("a.example", "/customers"), server.at("a.example", "/charges"));
    let elsewhere = server.at("b.example", "/charges");
    let refused = in_job(nearby(), move |job| {
        let (one, two, elsewhere) = (one.clone(), two.clone(), elsewhere.clone());
        async move {
            job.http().post(&one).send().await?;
            job.http().post(&elsewhere).send().await?;
            // Repeating these does no harm.
            job.http().put(&one).send().await?;
            job.http().put(&two).send().await?;
            job.http().delete(&two).send().await?;
            job.http().post(&two).idempotency_key("charge").send().await?;
            let refused = job.http().post(&two).send().await.unwrap_err();
            Ok((refused.code().to_owned(), refused.to_string()))
        }
    });
    let (code, said) = refused.await.unwrap();
    assert_eq!(code, "invalid_argument");
    let expected = format!("it is the second POST to a.example:{} in one attempt", server.port);
    assert!(said.contains(&expected) && said.contains(".idempotency_key(…)"), "{said}");
    let keys: Vec<_> = server.seen().iter().map(|seen| seen.header("idempotency-key").is_some()).collect();
    assert_eq!(keys, [true, true, false, false, false, true], "and the second was not sent");
}
