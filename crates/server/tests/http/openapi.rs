//! The OpenAPI document: committed, served, and true.

use serde_json::Value;

use crate::lab::Lab;

#[test]
fn the_committed_document_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../api/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let said = outlast_server::http::document();
    if committed != said && std::env::var_os("OUTLAST_UPDATE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &said).unwrap();
        return;
    }
    assert!(
        committed == said,
        "api/openapi.json is not what the code says: run this test with OUTLAST_UPDATE=1"
    );
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name() {
    let document: Value = serde_json::from_str(&outlast_server::http::document()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = std::collections::HashSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path} says nothing");
        }
    }
    let mut references = Vec::new();
    gather(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn gather(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| gather(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| gather(value, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_accepted_in_the_range_that_the_document_tells_and_no_further() {
    let lab = Lab::open().await;
    let document: Value = serde_json::from_str(&outlast_server::http::document()).unwrap();
    let range = |schema: &str, field: &str| {
        let field = &document["components"]["schemas"][schema]["properties"][field];
        let bound =
            |name: &str| field[name].as_i64().unwrap_or_else(|| panic!("{schema} has no {name}: {field}"));
        (bound("minimum"), bound("maximum"))
    };
    lab.start(r#"{"definition":"approve","queue":"narrow","delay_ms":9000000}"#).await;
    let start = |field: &str, value: i64| {
        let body = format!(r#"{{"definition":"approve","{field}":{value}}}"#);
        ("POST", "/api/v1/runs", body)
    };
    let limit = |field: &str, value: i64| {
        ("PUT", "/api/v1/queues/narrow/limits", format!(r#"{{"{field}":{value}}}"#))
    };
    let rate = |field: &str, value: i64| {
        let (count, per) = if field == "count" { (value, 1000) } else { (5, value) };
        let body = format!(r#"{{"rate_per_group":{{"count":{count},"per_ms":{per}}}}}"#);
        ("PUT", "/api/v1/queues/narrow/limits", body)
    };
    type Ask<'a> = &'a dyn Fn(&str, i64) -> (&'static str, &'static str, String);
    let asks: [(&str, &[&str], Ask); 3] = [
        ("StartRun", &["delay_ms", "timeout_ms", "priority"], &start),
        ("Limits", &["limit", "per_node", "per_group"], &limit),
        ("RateLimit", &["count", "per_ms"], &rate),
    ];
    for (schema, fields, ask) in asks {
        for field in fields {
            let (least, most) = range(schema, field);
            for value in [least - 1, least, most, most + 1] {
                let (method, path, body) = ask(field, value);
                let answer = match method {
                    "POST" => lab.post(path, &body).await,
                    _ => lab.put(path, &body).await,
                };
                let status = if (least..=most).contains(&value) { 200..300 } else { 400..401 };
                assert!(status.contains(&answer.status.as_u16()), "{body}: {answer:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_served() {
    let lab = Lab::guarded().await;
    let served = lab.get("/openapi.json").await;
    assert_eq!(
        (served.header("content-type"), served.text.as_str()),
        ("application/json", outlast_server::http::document().as_str())
    );
}
