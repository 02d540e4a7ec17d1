//! A walk over every route: who may use it, and who hears nothing of whom.
//!
//! The table of routes makes both the router and the OpenAPI document, so the document names every route that there is,
//! with the scope that it needs.

use serde_json::Value;

use crate::lab::{Lab, Told, told, with_json};

/// A route as the document has it.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) scope: String,
    pub(crate) has_body: bool,
}

pub(crate) fn routes() -> Vec<Walked> {
    let document: Value = serde_json::from_str(&outlast_server::http::document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            routes.push(Walked {
                method: method.to_uppercase(),
                path: path.clone(),
                scope: operation["x-scope"].as_str().unwrap().to_owned(),
                has_body: operation["requestBody"].is_object(),
            });
        }
    }
    assert!(routes.len() > 40, "{}", routes.len());
    routes
}

/// A body that every route that takes one refuses or accepts, but reads.
const BODY: &str = r#"{"dry_run":true}"#;

pub(crate) async fn ask(lab: &Lab, route: &Walked, path: &str, secret: Option<&str>) -> Told {
    let mut request = lab.request(&route.method, path);
    if let Some(secret) = secret {
        request = request.bearer_auth(secret);
    }
    told(if route.has_body { with_json(request, BODY) } else { request }).await
}

fn filled(route: &Walked, id: &str) -> String {
    route.path.replace("{id}", id).replace("{name}", "nightly-globex")
}

const NOBODY: &str = "run_00000000000000000000000000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_who_it_is_and_lets_each_role_do_what_it_may() {
    let lab = Lab::guarded().await;
    let roles = [
        ("viewer", lab.token("viewer", None).await),
        ("operator", lab.token("operator", None).await),
        ("admin", lab.token("admin", None).await),
    ];
    for route in routes() {
        let path = filled(&route, NOBODY);
        let named = format!("{} {path}", route.method);
        let anonymous = ask(&lab, &route, &path, None).await;
        if route.scope == "public" {
            // Probes; and a session, for which a token has to be shown.
            let expected = match named.as_str() {
                "GET /healthz" | "GET /readyz" | "GET /startupz" | "GET /version" | "GET /openapi.json" => {
                    200
                }
                "POST /api/v1/session" => 400,
                "DELETE /api/v1/session" => 204,
                _ => panic!("{named} is open to everybody"),
            };
            assert_eq!(anonymous.status, expected, "{named}");
            continue;
        }
        assert_eq!(
            (anonymous.status.as_u16(), anonymous.code().as_str()),
            (401, "unauthenticated"),
            "{named}"
        );
        assert_eq!(anonymous.header("www-authenticate"), "Bearer", "{named}");
        for (role, secret) in &roles {
            // A stream does not end by itself.
            if path == "/api/v1/live" {
                let answer = lab.request("GET", &path).bearer_auth(secret).send().await.unwrap();
                assert_eq!(answer.status(), 200, "{named} as {role}");
                continue;
            }
            let may = match route.scope.as_str() {
                "read" => true,
                "start" | "operate" => *role != "viewer",
                "admin" => *role == "admin",
                other => panic!("{other} is no scope that this test knows"),
            };
            let answer = ask(&lab, &route, &path, Some(secret)).await;
            match may {
                true => {
                    assert!(!matches!(answer.status.as_u16(), 401 | 403), "{named} as {role}: {answer:?}")
                }
                false => assert_eq!(answer.code(), "forbidden", "{named} as {role}: {answer:?}"),
            }
        }
    }
}

#[test]
fn whatever_changes_something_needs_more_than_looking() {
    // Logs in and out; and reads a file that it is sent, of which nothing is kept.
    let others = ["/api/v1/session", "/api/v1/runs/read"];
    for route in routes().iter().filter(|route| route.method != "GET" && !others.contains(&&*route.path)) {
        assert!(["start", "operate", "admin"].contains(&route.scope.as_str()), "{route:?}");
    }
    for action in ["retry", "rerun", "fork", "resume", "due", "cancel", "kill", "replace"] {
        let path = format!("/api/v1/runs/{{id}}/{action}");
        let route = routes().into_iter().find(|route| route.path == path).unwrap();
        assert_eq!(route.scope, "operate", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_spelling_of_a_path_leads_past_the_question_who_it_is() {
    let lab = Lab::guarded().await;
    let run = lab.app.start_by_name("approve", "null").await.unwrap().id().to_string();
    for route in routes().into_iter().filter(|route| route.scope != "public") {
        let path = filled(&route, &run);
        let upper = path.replace("/api/", "/API/");
        for trick in [
            format!("{path}/healthz"),
            format!("{path}/configs"),
            format!("{path}/"),
            format!("{path}%2f..%2fhealthz"),
            format!("{path};/healthz"),
            format!("{path}.json"),
            format!("/healthz/..{path}"),
            format!("/{path}"),
            format!("/healthz%2f..{path}"),
            path.replace("/api/v1", "/api/v1/."),
            format!("{path}?path=/healthz"),
            format!("{path}%00"),
            upper,
        ] {
            let answer = ask(&lab, &route, &trick, None).await;
            assert!(
                matches!(answer.status.as_u16(), 401 | 404 | 405 | 400),
                "{} {trick}: {answer:?}",
                route.method
            );
            assert!(
                !answer.text.contains("\"items\"") && !answer.text.contains("approve"),
                "{trick}: {answer:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_sees_and_changes_nothing_of_another_on_any_route() {
    let lab = Lab::guarded().await;
    let acme = lab.token("admin", Some("acme")).await;
    let globex = lab.token("admin", Some("globex")).await;
    // What the other tenant has: a run that waits, one that failed, and a bulk.
    let start = async |secret: &str, body: &str| {
        let ask = with_json(lab.request("POST", "/api/v1/runs"), body).bearer_auth(secret);
        let told = told(ask).await;
        assert_eq!(told.status, 201, "{told:?}");
        told.json()["id"].as_str().unwrap().to_owned()
    };
    let secret_run =
        start(&globex, r#"{"definition":"approve","key":"globex-secret","tags":{"a":"b"}}"#).await;
    let own_run = start(&acme, r#"{"definition":"approve","key":"acme-own","tags":{"a":"b"}}"#).await;
    let bulk = r#"{"op":"pause","filter":"tag:a=b","reason":"x"}"#;
    let ask_bulk = with_json(lab.request("POST", "/api/v1/bulk"), bulk).bearer_auth(&globex);
    let bulk = told(ask_bulk).await.json()["id"].as_str().unwrap().to_owned();

    let mut walked = 0;
    for route in routes().into_iter().filter(|route| route.scope != "public" && route.path != "/api/v1/live")
    {
        for id in [&secret_run, &bulk] {
            let path = filled(&route, id);
            let named = format!("{} {path}", route.method);
            let answer = ask(&lab, &route, &path, Some(&acme)).await;
            if route.path.contains("{id}") || route.path.contains("schedules/{name}") {
                // Not even that it is there.
                let status = answer.status.as_u16();
                assert!(matches!(status, 404 | 403 | 400), "{named}: {answer:?}");
            }
            for theirs in ["globex-secret", "nightly-globex\"", &bulk, &secret_run] {
                let is_told = answer.text.contains(theirs) && answer.status == 200;
                assert!(!is_told, "{named} tells of {theirs}: {answer:?}");
            }
            walked += 1;
        }
    }
    assert!(walked > 80);
    // With a whole body it is no different: the run is looked for first, in the caller's tenant.
    for (what, body) in [
        ("events", r#"{"name":"approval","data":1}"#),
        ("promises", r#"{"name":"approval","data":1}"#),
        ("replace", r#"{"step":"ask","result":1,"reason":"x"}"#),
        ("cancel", r#"{"reason":"x"}"#),
    ] {
        let ask = with_json(lab.request("POST", &format!("/api/v1/runs/{secret_run}/{what}")), body);
        assert_eq!(told(ask.bearer_auth(&acme)).await.code(), "not_found", "{what}");
    }
    // A filter reaches as far as the tenant does, whatever it says.
    let all = with_json(
        lab.request("POST", "/api/v1/bulk"),
        r#"{"op":"kill","all":true,"reason":"x","dry_run":true}"#,
    );
    let preview = told(all.bearer_auth(&acme)).await.json();
    assert_eq!(preview["runs"][0]["run"], own_run.as_str(), "{preview}");
    assert_eq!(preview["runs"].as_array().unwrap().len(), 1);
    let kill = with_json(lab.request("POST", "/api/v1/bulk"), r#"{"op":"kill","all":true,"reason":"x"}"#);
    let kill = told(kill.bearer_auth(&acme)).await.json()["id"].as_str().unwrap().parse().unwrap();
    lab.app.bulk_run(kill).result().await.unwrap();
    let run = secret_run.parse().unwrap();
    assert!(!lab.app.status(run).await.unwrap().status.is_final(), "another tenant's run was killed");
    // A cursor of one tenant is none of another's.
    for n in 0..2 {
        start(&globex, &format!(r#"{{"definition":"approve","key":"more-{n}"}}"#)).await;
    }
    let page = told(lab.request("GET", "/api/v1/runs?limit=1").bearer_auth(&globex)).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let stolen = lab.request("GET", &format!("/api/v1/runs?limit=1&cursor={cursor}")).bearer_auth(&acme);
    assert_eq!(told(stolen).await.code(), "invalid_cursor");
    // And a stream tells nothing of others' runs.
    let theirs = lab.request("GET", &format!("/api/v1/live?topics=run:{secret_run}")).bearer_auth(&acme);
    assert_eq!(told(theirs).await.code(), "not_found");
    let shared = lab.request("GET", "/api/v1/live?topics=queues").bearer_auth(&acme);
    assert_eq!(told(shared).await.code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_of_one_tenant_cannot_be_made_one_of_all() {
    let lab = Lab::guarded().await;
    let (acme, all) = (lab.token("operator", Some("acme")).await, lab.token("admin", None).await);
    let post = async |secret: &str, path: &str, body: &str| {
        told(with_json(lab.request("POST", path), body).bearer_auth(secret)).await
    };
    let other = post(&all, "/api/v1/runs", r#"{"definition":"approve"}"#).await.json();
    let bulk = post(&acme, "/api/v1/bulk", r#"{"op":"resume","all":true}"#).await.json();
    let bulk = bulk["id"].as_str().unwrap();
    lab.app.bulk_run(bulk.parse().unwrap()).result().await.unwrap();
    // What it may reach stands in its input.
    let input = r#"{"input":{"op":{"op":"kill","reason":"x"},"filter":{}}}"#;
    for what in ["rerun", "fork", "retry"] {
        let refused = post(&acme, &format!("/api/v1/runs/{bulk}/{what}"), input).await;
        assert_eq!(refused.code(), "invalid_argument", "{what}");
        assert!(refused.text.contains("make another"), "{what}: {refused:?}");
    }
    let again = post(&acme, &format!("/api/v1/runs/{bulk}/rerun"), "{}").await;
    assert_eq!(again.status, 201, "as it was made it can be done again: {again:?}");
    let view = format!("/api/v1/runs/{}", other["id"].as_str().unwrap());
    let view = told(lab.request("GET", &view).bearer_auth(&all)).await.json();
    assert_ne!(view["status"], "cancelled");
}
