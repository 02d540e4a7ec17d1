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
async fn the_document_is_served() {
    let lab = Lab::guarded().await;
    let served = lab.get("/openapi.json").await;
    assert_eq!(
        (served.header("content-type"), served.text.as_str()),
        ("application/json", outlast_server::http::document().as_str())
    );
}
