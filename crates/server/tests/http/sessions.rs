//! Sessions of browsers: a cookie for a token, which opens what the token does and nothing for other sites.

use std::time::Duration;

use outlast_testkit::StoreKind;

use crate::lab::{Lab, Told, told, with_json};

const START: &str = r#"{"definition":"greet","input":"you"}"#;

async fn login(lab: &Lab, token: &str) -> Told {
    told(with_json(lab.request("POST", "/api/v1/session"), &format!(r#"{{"token":"{token}"}}"#))).await
}

/// What a browser sends back.
fn cookie(answer: &Told) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn look(lab: &Lab, cookie: &str) -> u16 {
    told(lab.request("GET", "/api/v1/me").header("cookie", cookie)).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_logs_in_with_a_token_and_out_again() {
    let lab = Lab::guarded().await;
    let operator = lab.token("operator", Some("acme")).await;
    let answer = login(&lab, &operator).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    let set = answer.header("set-cookie");
    assert!(set.starts_with("outlast_session=") && !set.contains("Secure"), "{set}");
    assert!(set.contains("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    let own = cookie(&answer);
    let me = told(lab.request("GET", "/api/v1/me").header("cookie", &own)).await.json();
    assert_eq!(
        (&me["actor"], &me["role"], &me["tenant"]),
        (&"operator".into(), &"operator".into(), &"acme".into())
    );
    // Neither the token nor the cookie is in the database.
    let kept = format!("{:?}", lab.world.raw("select * from outlast.sessions").await);
    assert!(!kept.contains(&own[16..]) && !kept.contains(&operator), "{kept}");

    let left = told(lab.request("DELETE", "/api/v1/session").header("cookie", &own)).await;
    assert_eq!(left.status, 204);
    assert!(left.header("set-cookie").starts_with("outlast_session=; Path=/; Max-Age=0;"), "{left:?}");
    assert_eq!(look(&lab, &own).await, 401, "whoever kept the cookie has nothing");
    assert_eq!(told(lab.request("DELETE", "/api/v1/session")).await.status, 204, "once more is no harm");

    let admin = lab.token("admin", None).await;
    let log = told(lab.request("GET", "/api/v1/audit").bearer_auth(&admin)).await.json();
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert!(actions.contains(&"session.open") && actions.contains(&"session.close"), "{actions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_token_gets_no_session_and_what_is_no_session_opens_nothing() {
    let lab = Lab::guarded().await;
    let good = lab.token("viewer", None).await;
    for token in ["", "nope", &good[..good.len() - 1], &format!("{good}0"), &good.to_uppercase()] {
        let answer = login(&lab, token).await;
        assert_eq!((answer.code().as_str(), answer.header("set-cookie")), ("unauthenticated", ""), "{token}");
    }
    let body = format!(r#"{{"token":"{good}","remember":true}}"#);
    assert_eq!(lab.post("/api/v1/session", &body).await.code(), "unknown_field");
    let made_up = format!("outlast_session={}", "A".repeat(43));
    for sent in ["outlast_session=", "outlast_session=x", made_up.as_str(), "other=1"] {
        assert_eq!(look(&lab, sent).await, 401, "{sent}");
    }
    // A token is no cookie, and a cookie is no token.
    assert_eq!(look(&lab, &format!("outlast_session={good}")).await, 401);
    let own = cookie(&login(&lab, &good).await);
    let as_token = lab.request("GET", "/api/v1/me").bearer_auth(&own[16..]);
    assert_eq!(told(as_token).await.status, 401);
    // Whoever sends a token means the token.
    let both = lab.request("GET", "/api/v1/me").bearer_auth("nope").header("cookie", &own);
    assert_eq!(told(both).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_cookie_only_our_own_pages_change_something() {
    let lab = Lab::guarded().await;
    let own = cookie(&login(&lab, &lab.token("operator", None).await).await);
    let start = async |headers: &[(&str, &str)]| {
        let mut request = with_json(lab.request("POST", "/api/v1/runs"), START).header("cookie", &own);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        told(request).await
    };
    let host = lab.url.trim_start_matches("http://").to_owned();
    for headers in [
        &[][..],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("origin", &lab.url)],
        &[("origin", &format!("http://{host}.evil.example"))],
    ] {
        assert_eq!(start(headers).await.code(), "cross_site", "{headers:?}");
    }
    assert_eq!(start(&[("origin", &lab.url)]).await.status, 201);
    assert_eq!(start(&[("sec-fetch-site", "same-origin")]).await.status, 201);
    // Looking needs no such word: a page of another site is not told what it sees.
    assert_eq!(look(&lab, &own).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_its_token_and_when_nobody_uses_it() {
    let lab = Lab::guarded().await;
    let token = lab.token("viewer", None).await;
    let own = cookie(&login(&lab, &token).await);
    // Used again and again, it goes on.
    for _ in 0..3 {
        lab.world.pass(Duration::from_secs(11 * 3_600)).await;
        assert_eq!(look(&lab, &own).await, 200);
    }
    lab.world.pass(Duration::from_secs(12 * 3_600)).await;
    assert_eq!(look(&lab, &own).await, 401, "nobody used it for twelve hours");

    let own = cookie(&login(&lab, &token).await);
    let admin = lab.token("admin", None).await;
    let tokens = told(lab.request("GET", "/api/v1/tokens").bearer_auth(&admin)).await.json();
    let id = tokens["items"].as_array().unwrap().iter().find(|token| token["role"] == "viewer").unwrap();
    let id = id["id"].as_str().unwrap();
    told(lab.request("DELETE", &format!("/api/v1/tokens/{id}")).bearer_auth(&admin)).await;
    assert_eq!(look(&lab, &own).await, 401, "its token is revoked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_tls_the_cookie_travels_by_tls_alone() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.secure()).await;
    let answer = login(&lab, &lab.token("viewer", None).await).await;
    assert!(answer.header("set-cookie").ends_with("; SameSite=Strict; Secure"), "{answer:?}");
}
