//! The real server behind pgbouncer, which hands each transaction to whichever connection is free.

mod support;

use std::time::Duration;

use outlast_cluster::{Cluster, Pooler};
use serde_json::{Value, json};
use support::Shop;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_works_behind_a_transaction_pooler() {
    if outlast_testkit::skipped() {
        return;
    }
    let cluster = Cluster::start().unwrap();
    let pooler = Pooler::before(&cluster).unwrap();
    let direct = cluster.fresh_database("pooled").unwrap();
    let shop = Shop::at(&pooler.url(&direct));
    let server = shop.spawned_with(&["dev", "--port", "0"], &[("RUST_LOG", "warn,outlast_store=info")]);
    server.until_told("http://");
    let told = server.told();
    let address = told.split("http://").nth(1).unwrap();
    let address: String = address.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    assert!(server.noted().contains("a transaction pooler stands before PostgreSQL"), "{}", server.noted());

    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
    let api = format!("http://{address}/api/v1");
    let post = async |path: &str, body: Value| -> Value {
        let ask = http.post(format!("{api}{path}")).header("content-type", "application/json");
        let answer = ask.body(body.to_string()).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    };
    // Many at once, so that transactions meet on few connections.
    let starts = (0..40).map(|n| {
        let order = json!({ "definition": "order", "input": { "item": "pen", "cents": 100 }, "key": format!("p-{n}") });
        post("/runs", order)
    });
    let started = futures_util::future::join_all(starts).await;
    for run in started {
        let id = run["id"].as_str().unwrap();
        let answer = http.get(format!("{api}/runs/{id}/result?wait=60s")).send().await.unwrap();
        let ended: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    let order =
        json!({ "definition": "order", "input": { "item": "kayak", "cents": 55_000 }, "key": "p-large" });
    let large = post("/runs", order).await["id"].as_str().unwrap().to_owned();
    shop.until_asking(&large);
    post(
        &format!("/runs/{large}/events"),
        json!({ "name": "approval", "data": { "by": "you", "ok": true } }),
    )
    .await;
    shop.until_status(&large, "completed");
    let ready = http.get(format!("http://{address}/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
}
