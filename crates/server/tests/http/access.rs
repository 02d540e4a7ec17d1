//! Tokens, the audit log, hosts and other sites.

use serde_json::json;

use crate::lab::{Lab, told, with_json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_what_its_role_may_until_it_is_revoked_or_over() {
    let lab = Lab::guarded().await;
    let admin = lab.token("admin", None).await;
    let me = told(lab.request("GET", "/api/v1/me").bearer_auth(&admin)).await.json();
    assert_eq!(me["role"], "admin");
    assert_eq!(me["capabilities"], json!(["read", "start", "operate", "admin"]));

    let body = r#"{"subject":"ann","role":"viewer","age_ms":3600000}"#;
    let made = told(with_json(lab.request("POST", "/api/v1/tokens"), body).bearer_auth(&admin)).await.json();
    let (secret, id) = (made["secret"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(secret.starts_with("ol_live_") && id.starts_with("tok_"));
    let look = async || told(lab.request("GET", "/api/v1/runs").bearer_auth(secret)).await.status.as_u16();
    assert_eq!(look().await, 200);
    // The secret is nowhere: not in the list, not in the database.
    let listed = told(lab.request("GET", "/api/v1/tokens").bearer_auth(&admin)).await.text;
    assert!(listed.contains(id) && !listed.contains(secret), "{listed}");
    let kept = format!("{:?}", lab.world.raw("select * from outlast.tokens").await);
    assert!(!kept.contains(&secret[8..30]), "{kept}");

    let revoked = told(lab.request("DELETE", &format!("/api/v1/tokens/{id}")).bearer_auth(&admin)).await;
    assert_eq!(revoked.json()["live"], false);
    assert_eq!(look().await, 401);
    let unknown = told(lab.request("DELETE", "/api/v1/tokens/tok_nope").bearer_auth(&admin)).await;
    assert_eq!(unknown.code(), "not_found");

    let short = lab.token("viewer", None).await;
    let look = async || told(lab.request("GET", "/api/v1/runs").bearer_auth(&short)).await.status.as_u16();
    assert_eq!(look().await, 200);
    lab.world.pass(std::time::Duration::from_secs(91 * 86_400)).await;
    assert_eq!(look().await, 401, "90 days are over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_no_token_is_refused_alike_and_never_echoed() {
    let lab = Lab::guarded().await;
    let good = lab.token("viewer", None).await;
    let forged = format!("{}0000000000", &good[..good.len() - 10]);
    let long = format!("Bearer {}", "x".repeat(8_000));
    for sent in [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        &format!("Basic {good}"),
        &good,
        &format!("Bearer {forged}"),
        &format!("Bearer {good} {good}"),
        &format!("Bearer {}", good.to_uppercase()),
        "Bearer ol_live_ü",
        &long,
    ] {
        let request = lab.request("GET", "/api/v1/runs");
        let refused = told(request.header("authorization", sent.as_bytes())).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "unauthenticated"), "{sent}");
        let rest = sent.trim_start_matches("Bearer").trim();
        assert!(rest.len() < 4 || !refused.text.contains(rest), "{refused:?}");
    }
    // In the address it is a parameter like any other.
    let refused = lab.get(&format!("/api/v1/runs?token={good}")).await;
    assert_eq!(refused.status, 401);
    let twice = lab.request("GET", "/api/v1/runs").bearer_auth(&good).header("authorization", "Bearer x");
    assert_eq!(told(twice).await.status, 401);
    assert_eq!(told(lab.request("GET", "/api/v1/runs").bearer_auth(&good)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_in_the_audit_log_with_who_what_and_why() {
    let lab = Lab::guarded().await;
    let (admin, operator) = (lab.token("admin", None).await, lab.token("operator", Some("acme")).await);
    let viewer = lab.token("viewer", Some("acme")).await;
    let post = async |secret: &str, path: &str, body: &str| {
        told(with_json(lab.request("POST", path), body).bearer_auth(secret).header("x-request-id", "r-1"))
            .await
    };
    let run = post(&operator, "/api/v1/runs", r#"{"definition":"approve"}"#).await.json();
    let run = run["id"].as_str().unwrap().to_owned();
    post(&operator, &format!("/api/v1/runs/{run}/cancel"), r#"{"reason":"wrong address"}"#).await;
    post(&operator, &format!("/api/v1/runs/{run}/retry"), r#"{"from":"nope"}"#).await;
    // Whoever may not is refused before anything happens, and that is in the log; whoever only looks is not.
    assert_eq!(post(&viewer, &format!("/api/v1/runs/{run}/cancel"), "{}").await.status, 403);
    assert_eq!(told(lab.request("GET", "/api/v1/tokens").bearer_auth(&viewer)).await.status, 403);
    post(&admin, "/api/v1/queues/mail/pause", "").await;

    let log = told(lab.request("GET", "/api/v1/audit?limit=4").bearer_auth(&admin)).await.json();
    let lines = log["items"].as_array().unwrap();
    let told_of = |n: usize| {
        let line = &lines[n];
        [&line["action"], &line["target"], &line["actor"], &line["tenant"], &line["request_id"]]
            .map(|part| part.as_str().unwrap().to_owned())
    };
    assert_eq!(told_of(0), ["queue.pause", "mail", "admin", "", "r-1"]);
    assert_eq!(told_of(1), ["run.cancel", &run, "viewer", "acme", "r-1"]);
    assert_eq!(lines[1]["status"], 403);
    assert_eq!(told_of(2), ["run.retry", &run, "operator", "acme", "r-1"]);
    assert!(lines[2]["status"].as_u64().unwrap() >= 400, "a refusal is in the log too");
    assert_eq!(told_of(3), ["run.cancel", &run, "operator", "acme", "r-1"]);
    assert_eq!((&lines[3]["reason"], &lines[3]["status"]), (&json!("wrong address"), &json!(200)));
    let cursor = log["next_cursor"].as_str().unwrap();
    let next = lab.request("GET", &format!("/api/v1/audit?limit=4&cursor={cursor}")).bearer_auth(&admin);
    let next = told(next).await.json();
    assert_eq!(next["items"][0]["action"], "run.start");

    // A tenant's own admin reads that tenant's lines.
    let own = lab.token("admin", Some("acme")).await;
    let lines = told(lab.request("GET", "/api/v1/audit").bearer_auth(&own)).await.json();
    let lines = lines["items"].as_array().unwrap();
    assert!(lines.len() == 4 && lines.iter().all(|line| line["tenant"] == "acme"), "{lines:?}");
    let other = lab.token("admin", Some("globex")).await;
    let lines = told(lab.request("GET", "/api/v1/audit").bearer_auth(&other)).await.json();
    assert_eq!(lines["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_requests_that_mean_this_host_are_answered() {
    let lab = Lab::with(outlast_testkit::StoreKind::Sqlite, |api| {
        api.without_tokens().hosts(["localhost", "127.0.0.1", "[::1]", "ops.example.com"])
    })
    .await;
    for host in ["localhost", "LOCALHOST:7777", "127.0.0.1:1", "[::1]:7777", "ops.example.com"] {
        let told = told(lab.request("GET", "/api/v1/runs").header("host", host)).await;
        assert_eq!(told.status, 200, "{host}");
    }
    for host in [
        "evil.com",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "evil.com:7777",
        "[::2]",
        "localhost@evil.com",
    ] {
        for path in ["/api/v1/runs", "/healthz", "/nothing"] {
            let told = told(lab.request("GET", path).header("host", host)).await;
            assert_eq!(
                (told.status.as_u16(), told.code().as_str()),
                (421, "host_not_allowed"),
                "{host}{path}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_change_nothing() {
    let lab = Lab::open().await;
    let body = r#"{"definition":"greet","input":"you"}"#;
    let host = lab.url.trim_start_matches("http://").to_owned();
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"] {
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "SAME-ORIGIN"),
            ("origin", "null"),
            ("origin", "http://evil.com"),
            ("origin", &format!("http://{host}.evil.com")),
        ] {
            let ask = with_json(lab.request(method, "/api/v1/runs"), body).header(name, value);
            let refused = told(ask).await;
            assert_eq!(
                (refused.status.as_u16(), refused.code().as_str()),
                (403, "cross_site"),
                "{method} {value}"
            );
            assert_eq!(refused.header("access-control-allow-origin"), "");
        }
    }
    assert_eq!(lab.get("/api/v1/runs/count").await.json()["count"], 0);
    for (name, value) in [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
        ("origin", &*format!("http://{host}")),
    ] {
        let ask = with_json(lab.request("POST", "/api/v1/runs"), body).header(name, value);
        assert_eq!(told(ask).await.status, 201, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_not_kept_guessed_at_or_framed() {
    let lab = Lab::open().await;
    for path in ["/api/v1/runs", "/nothing", "/healthz"] {
        let told = lab.get(path).await;
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(told.header(name), value, "{path}");
        }
        assert_eq!(told.header("server"), "");
    }
}
