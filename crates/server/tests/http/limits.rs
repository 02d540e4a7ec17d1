//! Limits of heads, rates and connections.

use std::time::{Duration, Instant};

use outlast_testkit::StoreKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Lab, told};

/// Sends bytes as they are; gives what comes back until the server closes or has answered.
async fn raw(lab: &Lab, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(lab.url.trim_start_matches("http://")).await.unwrap();
    // Whoever has heard enough closes, while we still write.
    let _ = socket.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(Ok(read)) = tokio::time::timeout(Duration::from_secs(20), socket.read(&mut part)).await {
        answer.extend(&part[..read]);
        if read == 0 || answer.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_too_large_or_contradict_themselves_are_refused() {
    let lab = Lab::open().await;
    let large = format!("GET /healthz HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(100 << 10));
    let answer = raw(&lab, large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..10_000).map(|n| format!("h{n}: x\r\n")).collect();
    let answer = raw(&lab, format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    let both = "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\
                content-length: 6\r\n\r\nhello";
    assert!(raw(&lab, both.as_bytes()).await.starts_with("HTTP/1.1 400"));
    assert!(raw(&lab, b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    assert_eq!(lab.get("/healthz").await.status, 200, "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_before_they_send_too_much_is_refused_at_once() {
    let lab = Lab::open().await;
    let head =
        "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n";
    let began = Instant::now();
    let answer = raw(&lab, format!("{head}content-length: 99000000\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waited for what was not sent");
    let answer = raw(&lab, format!("{head}content-length: 36\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 100"), "what may be sent is asked for: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_guesses_tokens_is_slowed_down_and_nobody_else() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.pace(1, 5)).await;
    let token = lab.token("viewer", None).await;
    let mut codes = Vec::new();
    for _ in 0..8 {
        let guess = lab.request("GET", "/api/v1/me").header("authorization", "Bearer ol_live_guessed");
        codes.push(told(guess).await.status.as_u16());
        let login = lab.post("/api/v1/session", r#"{"token":"ol_live_guessed"}"#).await;
        if login.status == 429 {
            assert_eq!((login.code().as_str(), login.header("retry-after")), ("rate_limited", "1"));
        }
        codes.push(login.status.as_u16());
    }
    assert_eq!(codes[..2], [401, 401]);
    assert!(codes[8..].iter().filter(|code| **code == 429).count() >= 6, "{codes:?}");
    let known = lab.request("GET", "/api/v1/me").header("authorization", format!("Bearer {token}"));
    assert_eq!(told(known).await.status, 200, "whoever has a token goes on from the same address");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_count_where_a_length_stands_beside_them() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you"}"#;
    for lengths in
        ["content-length: 3\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 3"]
    {
        let both = format!(
            "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{lengths}\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let answer = raw(&lab, both.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    // What comes behind the chunks is the next request and never the rest of this one.
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_names_no_host_or_another_behind_a_proxys_back_is_refused() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.without_tokens().hosts(["localhost"])).await;
    for head in [
        "GET /api/v1/runs HTTP/1.1\r\n\r\n",
        "GET /api/v1/runs HTTP/1.0\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost:\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: evil.com\r\nx-forwarded-host: localhost\r\nx-forwarded-for: 127.0.0.1\r\n\r\n",
        "GET http://evil.com/api/v1/runs HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nhost: evil.com\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: localhost:80.evil.com\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: [::1]evil.com\r\n\r\n",
    ] {
        let answer = raw(&lab, head.as_bytes()).await;
        assert!(answer.contains(" 421 ") || answer.contains(" 400 "), "{head:?}: {answer}");
    }
    for host in ["localhost", "localhost:7777", "LocalHost:"] {
        let head = format!("GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert!(raw(&lab, head.as_bytes()).await.contains(" 200 "), "{host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_too_many_requests_is_told_when_to_come_back_and_others_are_not() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.pace(1, 3)).await;
    let (ann, bob) = (lab.token("viewer", None).await, lab.token("viewer", None).await);
    let look = async |secret: &str| told(lab.request("GET", "/api/v1/me").bearer_auth(secret)).await;
    let mut limited = None;
    for _ in 0..20 {
        let answer = look(&ann).await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("three at once are allowed");
    assert_eq!(limited.code(), "rate_limited");
    assert!(limited.header("retry-after").parse::<u32>().unwrap() >= 1);
    assert!(limited.header("ratelimit").starts_with("\"default\";r=0;t="), "{limited:?}");
    assert_eq!(look(&bob).await.status, 200);
    assert_eq!(lab.get("/healthz").await.status, 200, "probes are nobody's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_without_waiting_for_the_answer_is_in_the_audit_log_all_the_same() {
    const LEAVE: usize = 60;
    const QUIET: Duration = Duration::from_millis(500);
    const GIVEN_UP: Duration = Duration::from_secs(20);
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you"}"#;
    for _ in 0..LEAVE {
        let mut socket = TcpStream::connect(lab.url.trim_start_matches("http://")).await.unwrap();
        let head =
            "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length";
        socket.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    }
    // Every start has its line, sooner or later; whoever was not heard has neither. It is over when as many lines as runs
    // are there and no more come; a line is given up when nothing has come for long.
    let count = async |sql: &str| lab.world.count(sql).await;
    let (mut seen, mut since) = ((0, 0), Instant::now());
    while since.elapsed() < if seen.0 > 0 && seen.0 == seen.1 { QUIET } else { GIVEN_UP } {
        let runs = count("select count(*) from outlast.runs").await;
        let lines =
            count("select count(*) from outlast.audit where action = 'run.start' and status = 201").await;
        if seen != (runs, lines) {
            (seen, since) = ((runs, lines), Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen.0, seen.1, "some were started and are not in the log");
}
