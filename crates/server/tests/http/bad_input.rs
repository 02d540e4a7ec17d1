//! The table of bad input, row by row: what is sent, and the code that it is answered with.

use std::time::Duration;

use outlast::Limits;
use outlast_store::Address;
use outlast_testkit::event;
use serde_json::json;

use crate::lab::{Lab, told, with_json};

/// What has to be refused with this code, and what its detail has to name.
async fn refused(lab: &Lab, body: &str, status: u16, code: &str, names: &str) {
    let answer = lab.post("/api/v1/runs", body).await;
    let shown = outlast_core::shorten(body, 100);
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{shown}: {answer:?}");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(names), "{shown}: {detail}");
    assert!(detail.len() < 600, "{detail}");
}

fn start(more: &str) -> String {
    format!(r#"{{"definition":"greet","input":"you",{more}}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_no_json_is_told_where_it_is_wrong() {
    let lab = Lab::open().await;
    for body in [
        "",
        "{",
        "nope",
        r#"{"definition":"greet"}x"#,
        "\u{feff}{}",
        r#"{"definition":NaN}"#,
        r#"{"definition":Infinity}"#,
    ] {
        refused(&lab, body, 400, "invalid_json", "line 1 column").await;
    }
    let ask = lab.request("POST", "/api/v1/runs").header("content-type", "application/json");
    let answer = told(ask.body(&b"{\"definition\":\"\xff\"}"[..])).await;
    assert_eq!(answer.code(), "invalid_utf8");
    assert!(answer.text.contains("byte 15"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_has_to_say_that_it_is_json() {
    let lab = Lab::open().await;
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonx"),
        Some(""),
    ] {
        let mut ask = lab.request("POST", "/api/v1/runs").body(start(r#""key":"k""#));
        if let Some(kind) = kind {
            ask = ask.header("content-type", kind);
        }
        let answer = told(ask).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (415, "unsupported_media_type"),
            "{kind:?}"
        );
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        let ask = lab.request("POST", "/api/v1/runs").header("content-type", kind);
        assert_eq!(told(ask.body(r#"{"definition":"greet","input":"you"}"#)).await.status, 201);
    }
    let packed = lab.request("POST", "/api/v1/runs").header("content-type", "application/json");
    let packed = told(packed.header("content-encoding", "gzip").body("x")).await;
    assert_eq!(packed.code(), "unsupported_media_type");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_refused_by_what_it_says_and_by_what_it_is() {
    let lab = Lab::open().await;
    let large = format!(r#"{{"definition":"greet","input":"{}"}}"#, "x".repeat(1 << 20));
    refused(&lab, &large, 413, "payload_too_large", "the limit is 1048576 bytes").await;

    // Without a length it is found out while it comes.
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = tokio::net::TcpStream::connect(lab.url.trim_start_matches("http://")).await.unwrap();
    let head = "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..20 {
        if socket.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let _ = socket.write_all(b"0\r\n\r\n").await;
    let mut answer = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(20), socket.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"), "{answer}");

    let raised =
        Lab::with(outlast_testkit::StoreKind::Sqlite, |api| api.without_tokens().body_limit(1 << 30)).await;
    let huge = format!(r#"{{"definition":"greet","input":"{}"}}"#, "x".repeat(5 << 20));
    let answer = raised.post("/api/v1/runs", &huge).await;
    assert!(answer.text.contains("4194304"), "4 MiB is the most, whatever is said: {answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_that_is_too_deep_is_refused_also_inside_of_payloads() {
    let lab = Lab::open().await;
    let nested = |levels: usize| {
        format!(r#"{{"definition":"approve","input":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    assert_eq!(lab.post("/api/v1/runs", &nested(126)).await.status, 201);
    for levels in [127, 20_000] {
        refused(&lab, &nested(levels), 400, "json_too_deep", "127 levels").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_do_not_exist_or_are_there_twice_are_named() {
    let lab = Lab::open().await;
    refused(&lab, &start(r#""delay":5"#), 400, "unknown_field", "did you mean delay_ms?").await;
    refused(&lab, &start(r#""key":"a","key":"b""#), 400, "duplicate_key", "key").await;
    refused(&lab, &start(r#""tags":{"a":"1","a":"2"}"#), 400, "duplicate_key", "\"a\"").await;
    refused(&lab, r#"{"input":1}"#, 400, "invalid_argument", "definition").await;
    refused(&lab, r#"[]"#, 400, "invalid_argument", "line 1").await;
    let answer = lab.post("/api/v1/runs", &start(r#""priority":"high""#)).await;
    assert_eq!(answer.json()["errors"][0]["pointer"], "/priority", "{answer:?}");
    for path in ["/api/v1/runs?statsu=failed", "/api/v1/runs?order_by=id", "/api/v1/runs/count?limit=5"] {
        assert_eq!(lab.get(path).await.code(), "unknown_field", "{path}");
    }
    assert!(lab.get("/api/v1/runs?statsu=failed").await.text.contains("did you mean status?"));
    assert_eq!(lab.get("/api/v1/runs?key=a&key=b").await.code(), "duplicate_key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_keys_that_cannot_be_are_refused_with_what_can() {
    let lab = Lab::open().await;
    for key in ["", "..%2F", "a/b", "a b", "ü", "\u{202e}x", "💥", &"x".repeat(201)] {
        refused(&lab, &start(&format!(r#""key":"{key}""#)), 400, "invalid_id", "letters, digits").await;
    }
    refused(&lab, &start(r#""key":"a\u0000b""#), 400, "invalid_id", "key").await;
    for more in [
        r#""queue":"a\u0000b""#,
        r#""tags":{"a\u0000":"b"}"#,
        r#""tags":{"a":"b\u0000"}"#,
        r#""group":"a\nb""#,
    ] {
        refused(&lab, &start(more), 400, "invalid_character", "control characters").await;
    }
    let long = "x".repeat(1_000_000);
    refused(&lab, &start(&format!(r#""queue":"{long}""#)), 400, "invalid_argument", "200 bytes").await;
    let tags: Vec<String> = (0..10_000).map(|n| format!(r#""t{n}":"x""#)).collect();
    refused(&lab, &start(&format!(r#""tags":{{{}}}"#, tags.join(","))), 400, "invalid_argument", "64").await;
    refused(&lab, &start(r#""priority":10"#), 400, "invalid_argument", "9").await;
    for id in ["x", "run_", "run_0000", "..", "'; drop table runs; --", "%00", "%ff"] {
        let answer = lab.get(&format!("/api/v1/runs/{}", id.replace(' ', "%20").replace(';', "%3B"))).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{id}: {answer:?}");
        assert!(
            ["invalid_id", "invalid_utf8", "invalid_character", "not_found"]
                .contains(&answer.code().as_str())
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durations_times_and_numbers_have_their_range() {
    let lab = Lab::open().await;
    for delay in ["0", "-1", "1.5", "1e300", "\"10m\"", "\"PT10M\"", "99999999999999999999"] {
        refused(
            &lab,
            &start(&format!(r#""delay_ms":{delay}"#)),
            400,
            "invalid_duration",
            "milliseconds from 1",
        )
        .await;
    }
    for priority in ["-1", "10", "256", "1.5", "1e9"] {
        let ask = start(&format!(r#""priority":{priority}"#));
        refused(&lab, &ask, 400, "invalid_argument", "0 (most urgent) to 9").await;
    }
    for at in [
        "+294277-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "infinity",
        "2027-03-14T01:30:00",
        "2026-02-30T00:00:00Z",
        "",
    ] {
        refused(&lab, &start(&format!(r#""at":"{at}""#)), 400, "invalid_timestamp", "1970 to 9999").await;
    }
    for limit in ["0", "-1", "501", "1000000000", "x", ""] {
        let answer = lab.get(&format!("/api/v1/runs?limit={limit}")).await;
        assert_eq!(answer.code(), "invalid_argument", "{limit}");
        assert!(answer.text.contains("1 to 500"), "{answer:?}");
    }
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    for wait in ["2h", "-1s", "soon", ""] {
        let answer = lab.get(&format!("/api/v1/runs/{run}/result?wait={wait}")).await;
        assert_eq!(answer.code(), "invalid_duration", "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_looks_like_sql_is_data() {
    let lab = Lab::open().await;
    lab.start(&start(r#""tags":{"city":"Bern"}"#)).await;
    for evil in ["'; drop table outlast_runs; --", "%", "_", "\\", "' or '1'='1", "Bern' --"] {
        let evil: String = form_urlencoded::byte_serialize(evil.as_bytes()).collect();
        for path in ["def=", "queue=", "owner=", "attr.city=", "tag=city%3D"] {
            let answer = lab.get(&format!("/api/v1/runs?{path}{evil}")).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["items"].as_array().unwrap().len()),
                (200, 0),
                "{evil}"
            );
        }
        for path in ["cursor=", "sort=", "status=", "since=", "parent=", "node=", "version=", "stuck="] {
            let answer = lab.get(&format!("/api/v1/runs?{path}{evil}")).await;
            assert_eq!(answer.status, 400, "{path}{evil}: {answer:?}");
        }
    }
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 1);
    assert_eq!(lab.get("/api/v1/runs?attr.city=%ff").await.code(), "invalid_utf8");
    assert_eq!(lab.get("/api/v1/runs?def=%00").await.code(), "invalid_character");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_definitions_and_wrong_inputs_are_told_with_what_was_meant() {
    let lab = Lab::open().await;
    refused(&lab, r#"{"definition":"gret","input":"x"}"#, 422, "unknown_definition", "did you mean greet?")
        .await;
    refused(&lab, r#"{"definition":"greet","input":7}"#, 422, "undecodable", "the input of greet").await;
    refused(&lab, &start(r#""version":99"#), 422, "unknown_definition", "99").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_there_by_its_use_and_a_run_in_it_says_that_no_node_takes_it() {
    let lab = Lab::open().await;
    let run = lab.start(&start(r#""queue":"nobody""#)).await;
    let why = lab.get(&format!("/api/v1/runs/{run}/explain")).await.json();
    assert!(why["text"].as_str().unwrap().contains("nobody"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_few_megabytes_is_read_and_a_larger_one_is_told_what_reads_it() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&run).await;
    let mut file = lab.get(&format!("/api/v1/runs/{run}/export")).await.json();
    // As many steps as make five megabytes of it, which is more than any other body may have.
    let line = file["journal"][0].clone();
    let lines = (0..5_u64).map(|n| {
        let mut line = line.clone();
        (line["pos"], line["body"]) = (n.into(), json!({ "json": "x".repeat(1 << 20) }));
        line
    });
    file["journal"] = lines.collect();
    let read = lab.post("/api/v1/runs/read", &file.to_string()).await;
    assert_eq!((read.status.as_u16(), read.json()["history"].as_array().unwrap().len()), (200, 5));

    // Whoever asks before they send is told before they do.
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = tokio::net::TcpStream::connect(lab.url.trim_start_matches("http://")).await.unwrap();
    let head = "POST /api/v1/runs/read HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n";
    socket.write_all(format!("{head}content-length: 67108865\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(20), socket.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("the limit is 67108864 bytes"), "{answer}");
    assert!(answer.contains("`outlast show --file` reads larger ones"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_for_a_run_that_reads_none_is_to_be_sent_again_later() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"counts","queue":"nobody"}"#).await;
    let id: outlast::RunId = run.parse().unwrap();
    let tick = || event(Address::Run(id), "next", "\"on\"");
    lab.world.deliver_all(&(0..Limits::INBOX).map(|_| tick()).collect::<Vec<_>>()).await;
    let path = format!("/api/v1/runs/{run}/events");
    for body in [r#"{"name":"next","data":"on"}"#, r#"{"name":"next","data":"on","dry_run":true}"#] {
        let full = lab.post(&path, body).await;
        assert_eq!((full.status.as_u16(), full.code().as_str()), (429, "inbox_full"));
        assert_eq!(full.header("retry-after"), "5");
        assert!(full.text.contains(&run) && full.text.contains("10000"), "{full:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_over_the_limit_is_refused() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    let event = format!(r#"{{"name":"approval","data":"{}"}}"#, "x".repeat(1 << 20));
    let answer = lab.post(&format!("/api/v1/runs/{run}/events"), &event).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (413, "payload_too_large"));
    assert!(lab.world.inbox(run.parse().unwrap()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_to_runs_that_are_not_there_or_have_ended_is_told() {
    let lab = Lab::open().await;
    let event = r#"{"name":"approval","data":1}"#;
    let nobody = "run_00000000000000000000000000";
    let answer = lab.post(&format!("/api/v1/runs/{nobody}/events"), event).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (404, "not_found"));
    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&run).await;
    let answer = lab.post(&format!("/api/v1/runs/{run}/events"), event).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "run_closed"));
    for _ in 0..2 {
        let answer = lab.post(&format!("/api/v1/runs/{run}/cancel"), r#"{"reason":"late"}"#).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (200, &"completed".into()));
        assert_eq!(answer.json()["changed"], false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_and_zones_that_cannot_be_are_told_why() {
    let lab = Lab::open().await;
    let long = "*".repeat(10_000);
    for expression in [
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
        "@every 0s",
        "0 0 30 2 *",
        "٣ * * * *",
        &long,
    ] {
        let encoded: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let answer = lab.get(&format!("/api/v1/cron?expression={encoded}")).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (400, "invalid_cron"), "{expression}");
    }
    for zone in ["Mars/Base", "", "../../etc/passwd", "europe/berlin"] {
        let encoded: String = form_urlencoded::byte_serialize(zone.as_bytes()).collect();
        let answer = lab.get(&format!("/api/v1/cron?expression=@daily&zone={encoded}")).await;
        assert_eq!(answer.code(), "unknown_timezone", "{zone}: {answer:?}");
    }
    let gap = lab.get("/api/v1/cron?expression=30+2+*+*+*&zone=America/New_York&n=3").await;
    assert_eq!(gap.json()["times"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_not_asked_for_or_may_be_left_away_is_no_trouble() {
    let lab = Lab::open().await;
    let run = lab.start(r#"{"definition":"approve"}"#).await;
    let cancel = format!("/api/v1/runs/{run}/cancel");
    // Left away, with and without saying what it would have been.
    assert_eq!(told(lab.request("POST", &cancel)).await.status, 200);
    assert_eq!(lab.post(&cancel, "").await.status, 200);
    assert_eq!(told(lab.request("POST", &cancel).body("reason=x")).await.code(), "unsupported_media_type");
    let read = with_json(lab.request("GET", "/api/v1/runs"), "not json");
    assert_eq!(told(read).await.status, 200);
}
