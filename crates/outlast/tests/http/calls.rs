//! One call: what is sent, what is read, what is refused.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outlast::http::{Egress, HttpError, Rule};
use outlast::prelude::*;
use outlast::testing;

use crate::server::{Reply, Server, nearby, ok};
use crate::{get, in_job};

#[tokio::test]
async fn what_was_put_together_is_sent_and_the_answer_is_read() {
    let server = Server::start(|_| Reply::Says(201, "x-id: 7\r\n".into(), r#"{"id":7}"#)).await;
    let url = server.at("api.example", "/charges?a=b");
    let answer = in_job(nearby(), move |job| {
        let call = job.http().put(&url).header("X-Shop", "ours").bearer("token").query("q", "ä&b");
        let call = call.json(&("cents", 42));
        async move { call.send().await?.error_for_status() }
    });
    let answer = answer.await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.header("x-id")), (201, Some("7")));
    assert_eq!(answer.json::<serde_json::Value>().unwrap()["id"], 7);

    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("PUT", "/charges?a=b&q=%C3%A4%26b"));
    assert_eq!((seen.host(), seen.body.as_str()), ("api.example", r#"["cents",42]"#));
    let expected = [
        ("x-shop", "ours"),
        ("authorization", "Bearer token"),
        ("content-type", "application/json"),
        ("user-agent", concat!("outlast/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in expected {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn whoever_a_run_calls_is_told_the_trace_that_it_belongs_to() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let server = Server::start(|_| ok("")).await;
    let url = server.at("a.example", "/");
    let workflow = Workflow::new("call", move |ctx: Ctx, (): ()| {
        let url = url.clone();
        async move {
            ctx.http().get(&url).send().await?;
            ctx.http().get(&url).header("traceparent", "own").send().await?;
            Ok::<(), HttpError>(())
        }
    });
    let test = testing::start(|app| app.workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let traced = test.app().start(workflow.clone(), ()).trace(format!("{PARENT};shop=1"));
    traced.await.unwrap().result().await.unwrap();
    test.app().start(workflow, ()).await.unwrap().result().await.unwrap();

    let seen = server.seen();
    let told: Vec<_> =
        seen.iter().map(|seen| (seen.header("traceparent"), seen.header("tracestate"))).collect();
    let (state, own) = (Some("shop=1"), Some("own"));
    assert_eq!(told, [(Some(PARENT), state), (own, state), (None, None), (own, None)]);
}

#[tokio::test]
async fn an_inner_address_is_refused_before_anybody_is_called() {
    let server = Server::start(|_| ok("secret")).await;
    let egress = || Egress::new();
    for url in [
        server.at("127.0.0.1", "/"),
        server.at("2130706433", "/"),
        server.at("0x7f.1", "/"),
        server.at("[::ffff:7f00:1]", "/"),
        server.at("localhost.", "/"),
        server.at("localhost", "/"),
        "http://169.254.169.254/latest/meta-data/".into(),
        "file:///etc/passwd".into(),
        "http://ada:secret@example.com/".into(),
        "http://example.com:25/".into(),
    ] {
        let error = get(egress(), url.clone()).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), ("egress_denied", false), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn an_answer_of_a_name_server_that_leads_inside_is_refused_however_public_the_name_looks() {
    let server = Server::start(|_| ok("secret")).await;
    let cases = [
        ("10.0.0.1", Rule::Private),
        ("169.254.169.254", Rule::Metadata),
        ("::1", Rule::Loopback),
        ("::ffff:10.0.0.1", Rule::Private),
        ("64:ff9b::a00:1", Rule::Private),
        ("fd00::1", Rule::Private),
        ("93.184.216.34+10.0.0.1", Rule::Private),
    ];
    for (leads, rule) in cases {
        // A name cannot have colons, and need not: the resolver is ours.
        let answer: Vec<IpAddr> = leads.split('+').map(|one| one.parse().unwrap()).collect();
        let egress = Egress::new().resolver(move |_| std::future::ready(Ok(answer.clone())));
        let error = get(egress, server.at("www.example.com", "/")).await.unwrap_err();
        assert!(matches!(&error, HttpError::Denied { rule: said, .. } if *said == rule), "{leads}: {error}");
        assert!(error.to_string().contains("www.example.com ("), "{error}");
    }
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_judged_is_connected_to() {
    let server = Server::start(|_| ok("hello")).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    // Harmless when it is judged, and inside when it is asked again.
    let egress = Egress::new().allow_network("127.0.0.1").resolver(move |_| {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        std::future::ready(Ok(vec![if first { [127, 0, 0, 1] } else { [10, 0, 0, 1] }.into()]))
    });
    assert_eq!(get(egress, server.at("flips.example", "/")).await.unwrap().1, "hello");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_body_over_its_bound_is_refused_whether_its_length_is_told_or_not() {
    let told =
        Server::start(|_| Reply::Begins("HTTP/1.1 200 Said\r\ncontent-length: 10000000000\r\n\r\n")).await;
    let flood = Server::start(|_| Reply::Floods).await;
    for server in [told, flood] {
        let error = get(nearby(), server.at("big.example", "/")).await.unwrap_err();
        assert!(matches!(error, HttpError::TooLarge { limit: 8_388_608, .. }), "{error}");
        assert!(!error.is_retryable());
    }
    let exact = Server::start(|_| ok("12345")).await;
    let chunks = "HTTP/1.1 200 Said\r\ntransfer-encoding: chunked\r\n\r\n3\r\n123\r\n2\r\n45\r\n0\r\n\r\n";
    let chunked = Server::start(move |_| Reply::Begins(chunks)).await;
    for server in [exact, chunked] {
        for (most, fits) in [(5, true), (4, false), (0, false)] {
            let url = server.at("exact.example", "/");
            let answer = in_job(nearby(), move |job| job.http().get(&url).max_body(most).send()).await;
            assert_eq!(answer.is_ok(), fits, "{most}");
        }
    }
}

#[tokio::test]
async fn a_host_that_hangs_before_or_within_its_answer_times_out() {
    let silent = Server::start(|_| Reply::Hangs).await;
    let stuck = Server::start(|_| Reply::Begins("HTTP/1.1 200 Said\r\ncontent-length: 5\r\n\r\nab")).await;
    for server in [silent, stuck] {
        let (url, began) = (server.at("slow.example", "/"), Instant::now());
        let call = in_job(nearby(), move |job| job.http().get(&url).timeout(100.millis()).send());
        let error = call.await.unwrap_err();
        assert!(matches!(error, HttpError::TimedOut { after_ms: 100, .. }), "{error}");
        assert!(error.is_retryable() && began.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_definition_says_how_long_its_calls_may_take() {
    let server = Server::start(|_| Reply::Hangs).await;
    let url = server.at("slow.example", "/");
    let body = url.clone();
    let job = Job::new("job", move |job: JobCtx, (): ()| {
        let call = job.http().get(&url);
        async move { call.send().await.map(|_| ()) }
    });
    let job = job.http_timeout(50.millis()).retry(Retry::never());
    let workflow = Workflow::new("workflow", move |ctx: Ctx, (): ()| {
        let call = ctx.http().get(&body);
        async move { call.send().await.map(|_| ()) }
    });
    let workflow = workflow.http_timeout(60.millis());
    let test =
        testing::start(|app| app.job(job.clone()).workflow(workflow.clone()).egress(nearby())).await.unwrap();
    let of_job = test.app().start(job, ()).await.unwrap().result().await.unwrap_err();
    let of_workflow = test.app().start(workflow, ()).await.unwrap().result().await.unwrap_err();
    assert!(matches!(of_job.own(), Some(HttpError::TimedOut { after_ms: 50, .. })));
    assert!(matches!(of_workflow.own(), Some(HttpError::TimedOut { after_ms: 60, .. })));
}

#[tokio::test]
async fn a_host_that_breaks_off_or_speaks_no_tls_cannot_be_reached_and_nothing_secret_is_told() {
    let server = Server::start(|_| Reply::Drops).await;
    let plain = server.at("a.example", "/secret?token=secret");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [plain.clone(), plain.replace("http:", "https:"), format!("http://{nobody}/secret")] {
        let error = get(nearby(), url.clone()).await.unwrap_err();
        assert!(matches!(error, HttpError::Unreachable { .. }) && error.is_retryable(), "{url}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_told_when_it_is_sent() {
    let said = async |wrong: fn(JobCtx) -> outlast::http::Request| {
        let error = in_job(nearby(), move |job| wrong(job).send()).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), ("invalid_argument", false));
        error.to_string()
    };
    const URL: &str = "http://a.example/";
    assert!(said(|job| job.http().get("no url")).await.contains("the URL is none"));
    assert!(said(|job| job.http().get("http://")).await.contains("the URL is none"));
    assert!(said(|job| job.http().get("http://a b/")).await.contains("the URL is none"));
    let injected = said(|job| job.http().get(URL).header("x", "a\r\nsecret: 1")).await;
    assert!(injected.contains("make no header") && !injected.contains("secret"), "{injected}");
    assert!(said(|job| job.http().get(URL).header("a b", "c")).await.contains("make no header"));
    assert!(said(|job| job.http().get(URL).bearer("a\nb")).await.contains("the token"));
    assert!(said(|job| job.http().post(URL).idempotency_key("")).await.contains("cannot be empty"));
    let unwritable =
        said(|job| job.http().post(URL).json(&std::collections::BTreeMap::from([((), 1)]))).await;
    assert!(unwritable.contains("as JSON"), "{unwritable}");
}

#[tokio::test]
async fn settings_of_the_guard_that_cannot_be_keep_a_node_from_starting() {
    let egress = Egress::new().allow_network("10.0.0.0/99");
    let refused = testing::start(|app| app.egress(egress)).await.err().unwrap();
    assert!(refused.to_string().starts_with("invalid network \"10.0.0.0/99\""), "{refused}");
}

#[test]
fn a_proxy_of_the_environment_is_not_asked() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "calls::what_was_put_together_is_sent_and_the_answer_is_read"]);
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        // Nobody is there.
        again.env(proxy, "http://127.0.0.1:9");
    }
    let done = again.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
