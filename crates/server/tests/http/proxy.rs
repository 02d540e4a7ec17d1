//! A proxy that says who asks: believed where it was named, and nobody else.

use outlast_server::http::{Api, Proxy};
use outlast_testkit::StoreKind;
use serde_json::{Value, json};

use crate::lab::{Lab, Told, told, with_json};
use crate::walk::routes;

/// From where the lab's requests come.
const HERE: &str = "127.0.0.1";

fn proxy(at: &str) -> Proxy {
    let proxy = Proxy::at([at]).unwrap().user_header("X-User").unwrap();
    proxy.role_header("X-Role").unwrap().tenant_header("X-Tenant").unwrap()
}

/// Where every request needs to say who asks.
async fn lab(change: impl FnOnce(Api) -> Api) -> Lab {
    Lab::with(StoreKind::Sqlite, change).await
}

async fn get(lab: &Lab, path: &str, headers: &[(&str, &str)]) -> Told {
    let request = lab.request("GET", path);
    told(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

const ANN: &[(&str, &str)] = &[("x-user", "ann"), ("x-role", "operator"), ("x-tenant", "acme")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_was_named_says_who_asks_what_they_may_and_of_which_tenant_they_are() {
    let lab = lab(|api| api.proxy(proxy(HERE))).await;
    let me = get(&lab, "/api/v1/me", ANN).await.json();
    assert_eq!(
        (&me["actor"], &me["role"], &me["tenant"]),
        (&json!("ann"), &json!("operator"), &json!("acme"))
    );
    let all =
        get(&lab, "/api/v1/me", &[("x-user", "eve"), ("x-role", "admin"), ("x-tenant", "*")]).await.json();
    assert_eq!((&all["role"], &all["tenant"]), (&json!("admin"), &Value::Null));

    // What they start is theirs, as with a token of that tenant, and they may no more than their role.
    let start = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
    let started = told(ANN.iter().fold(start, |start, (name, value)| start.header(*name, *value))).await;
    assert_eq!(started.status, 201, "{started:?}");
    let run = started.json()["id"].as_str().unwrap().to_owned();
    let shown = get(&lab, &format!("/api/v1/runs/{run}"), ANN).await.json();
    assert_eq!((&shown["tenant"], &shown["owner"]), (&json!("acme"), &json!("ann")));
    let other = [("x-user", "bob"), ("x-role", "operator"), ("x-tenant", "globex")];
    assert_eq!(get(&lab, &format!("/api/v1/runs/{run}"), &other).await.code(), "not_found");
    assert_eq!(get(&lab, "/api/v1/tokens", ANN).await.code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_of_somebody_who_is_no_proxy_opens_no_route() {
    for change in [
        // Another is believed; and nobody is.
        |api: Api| api.proxy(proxy("10.1.0.4")),
        |api: Api| api.proxy(proxy("unix")),
        |api: Api| api,
    ] {
        let lab = lab(change).await;
        let admin =
            [("x-user", "root"), ("x-role", "admin"), ("x-tenant", "*"), ("x-forwarded-for", "10.1.0.4")];
        for route in routes().iter().filter(|route| route.scope != "public") {
            let path = route.path.replace("{id}", "run_00000000000000000000000000").replace("{name}", "x");
            let request = lab.request(&route.method, &path);
            let request = admin.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let refused = told(if route.has_body { with_json(request, "{}") } else { request }).await;
            assert!([401, 429].contains(&refused.status.as_u16()), "{route:?}: {refused:?}");
        }
        // Beside a token they are worth nothing, and harm nobody.
        let viewer = lab.token("viewer", None).await;
        let bearer = format!("Bearer {viewer}");
        let me = get(&lab, "/api/v1/me", &[&admin[..], &[("authorization", &bearer)]].concat()).await.json();
        assert_eq!((&me["actor"], &me["role"]), (&json!("viewer"), &json!("viewer")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_proxy_says_twice_or_not_at_all_or_not_plainly_lets_nobody_in() {
    let lab = lab(|api| api.proxy(proxy(HERE))).await;
    let admin = format!("Bearer {}", lab.token("admin", None).await);
    let sent: &[&[(&str, &str)]] = &[
        // What a client sent stands beside what the proxy said.
        &[("x-user", "root"), ("x-user", "ann"), ("x-role", "viewer"), ("x-tenant", "acme")],
        &[("x-user", "ann"), ("x-role", "admin"), ("x-role", "viewer"), ("x-tenant", "acme")],
        &[("x-user", "ann"), ("x-role", "viewer"), ("x-tenant", "*"), ("x-tenant", "acme")],
        &[("x-user", "root, ann"), ("x-role", "viewer"), ("x-tenant", "acme")],
        &[("x-user", "ann"), ("x-role", "viewer,admin"), ("x-tenant", "acme")],
        // One of them is missing, empty or unknown.
        &[("x-role", "admin"), ("x-tenant", "*")],
        &[("x-user", "ann"), ("x-tenant", "acme")],
        &[("x-user", "ann"), ("x-role", "admin")],
        &[("x-user", ""), ("x-role", "admin"), ("x-tenant", "*")],
        &[("x-user", "ann"), ("x-role", "Admin"), ("x-tenant", "*")],
        &[("x-user", "ann"), ("x-role", "worker"), ("x-tenant", "*")],
        &[("x-user", "ann"), ("x-role", "admin"), ("x-tenant", "")],
        // Two say who asks.
        &[("x-user", "ann"), ("x-role", "viewer"), ("x-tenant", "acme"), ("authorization", &admin)],
        // Nobody does, or under a name that only looks alike.
        &[],
        &[("x_user", "ann"), ("x_role", "admin"), ("x_tenant", "*")],
    ];
    for headers in sent {
        let refused = get(&lab, "/api/v1/runs", headers).await;
        assert_eq!((refused.status.as_u16(), &*refused.code()), (401, "unauthenticated"), "{headers:?}");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
    }
    let bytes = lab.request("GET", "/api/v1/runs").header("x-user", &b"\xc3\xbc"[..]);
    let refused = told(bytes.header("x-role", "admin").header("x-tenant", "*")).await;
    assert_eq!(refused.status, 401, "what is not plain ASCII is no name");
    // Programs that the proxy lets through as they are still come with their token.
    assert_eq!(get(&lab, "/api/v1/runs", &[("authorization", &admin)]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_headers_for_it_everybody_may_look_and_no_more() {
    let lab = lab(|api| api.proxy(Proxy::at([HERE]).unwrap())).await;
    let me = get(&lab, "/api/v1/me", &[("x-forwarded-user", "ann")]).await.json();
    assert_eq!((&me["actor"], &me["role"]), (&json!("ann"), &json!("viewer")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_names_the_address_behind_a_proxy_and_believes_nobody_else() {
    for (at, named) in [(HERE, "192.0.2.7"), ("10.1.0.4", HERE)] {
        let lab = lab(|api| api.proxy(proxy(at))).await;
        let admin = lab.token("admin", None).await;
        let start = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
        let start = start.bearer_auth(&admin).header("x-forwarded-for", "203.0.113.9, 192.0.2.7");
        assert_eq!(told(start).await.status, 201);
        let log = told(lab.request("GET", "/api/v1/audit").bearer_auth(&admin)).await.json();
        let line =
            log["items"].as_array().unwrap().iter().find(|line| line["action"] == "run.start").unwrap();
        assert_eq!(line["ip"], named);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_asks_in_nobodys_name() {
    let lab = lab(|api| api.proxy(proxy(HERE))).await;
    let start = with_json(lab.request("POST", "/api/v1/runs"), r#"{"definition":"greet","input":"you"}"#);
    let start = ANN.iter().fold(start, |start, (name, value)| start.header(*name, *value));
    let refused = told(start.header("origin", "https://evil.example")).await;
    assert_eq!(refused.code(), "cross_site");
}
