//! Times in JSON: each of them is RFC 3339 in UTC with six digits, wherever it stands.

use serde_json::Value;

use crate::lab::Lab;
use crate::walk::routes;

/// Every text that is a time, and every number that can be nothing else, with its place.
fn times(at: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if text.len() > 19 && text.parse::<outlast::Timestamp>().is_ok() => {
            found.push((at.to_owned(), text.clone()));
        }
        Value::Number(number) if number.as_u64().is_some_and(|micros| micros > 1_000_000_000_000_000) => {
            found.push((at.to_owned(), number.to_string()));
        }
        Value::Array(all) => all.iter().for_each(|value| times(at, value, found)),
        Value::Object(all) => {
            let ours = all.iter().filter(|(name, _)| *name != "input");
            ours.for_each(|(name, value)| times(&format!("{at}.{name}"), value, found))
        }
        _ => {}
    }
}

/// `2027-03-14T01:30:00.000000Z`
fn is_exact(text: &str) -> bool {
    let pattern = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    text.len() == pattern.len()
        && text.chars().zip(pattern.chars()).all(|(c, p)| if p == 'd' { c.is_ascii_digit() } else { c == p })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_time_in_json_has_six_digits() {
    let lab = Lab::open().await;
    let late = r#"{"definition":"greet","input":"you","at":"2099-03-14T01:30:00Z","key":"late"}"#;
    let late = lab.start(late).await;
    assert_eq!(
        lab.get(&format!("/api/v1/runs/{late}")).await.json()["due_at"],
        "2099-03-14T01:30:00.000000Z"
    );
    let why = lab.get(&format!("/api/v1/runs/{late}/explain")).await.json();
    assert_eq!(why["at"], "2099-03-14T01:30:00.000000Z", "{why}");
    lab.token("viewer", None).await;
    let run = lab.start(r#"{"definition":"talk","input":null}"#).await;
    lab.until(&run, "waiting").await;
    let failed = lab.start(r#"{"definition":"broken","input":null}"#).await;
    lab.until(&failed, "failed").await;
    lab.post("/api/v1/queues/mail/pause", "{}").await;
    let filter = "status:completed since:2h until:2099-03-14T01:30:00Z ended:2h stuck:5m";
    let bulk = format!(r#"{{"op":"delete","filter":"{filter}","reason":"old"}}"#);
    let bulk = lab.post("/api/v1/bulk", &bulk).await.json();
    assert_eq!(bulk["ask"]["filter"]["until"], "2099-03-14T01:30:00.000000Z", "{bulk}");
    let bulk = bulk["id"].as_str().unwrap().to_owned();

    let mut found = Vec::new();
    for route in routes().iter().filter(|route| route.method == "GET") {
        for id in [&late, &run, &failed, &bulk] {
            let path = route.path.replace("{id}", id);
            let name = if path.contains("/queues/") { "mail" } else { "nightly-acme" };
            // Those that go on until somebody leaves have the same shapes.
            if path.ends_with("/live") {
                continue;
            }
            let told = lab.get(&path.replace("{name}", name)).await;
            if let Ok(value) = serde_json::from_str(&told.text) {
                // What an exported run looks like is its own format's to say, and a payload is what was sent.
                if !path.ends_with("/export") && !path.ends_with("/payload") {
                    times(&route.path, &value, &mut found);
                }
            }
        }
    }
    let wrong: Vec<_> = found.iter().filter(|(_, text)| !is_exact(text)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let places: std::collections::BTreeSet<&str> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert!(places.len() > 25, "{places:?}");
}

#[test]
fn the_document_says_what_a_time_looks_like() {
    let document: Value = serde_json::from_str(&outlast_server::http::document()).unwrap();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Time"]["format"], "date-time");
    for (schema, field) in [("Run", "created_at"), ("Audit", "at"), ("Node", "lease_until"), ("Point", "at")]
    {
        let of = &schemas[schema]["properties"][field];
        assert!(of.to_string().contains("#/components/schemas/Time"), "{schema}.{field}: {of}");
    }
}
