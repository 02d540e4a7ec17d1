//! Tokens that are bound to queues: a walk over every route, and what is left of each.

use serde_json::{Value, json};

use crate::lab::{Lab, Told, told, with_json};
use crate::live::Stream;
use crate::walk::{ask, routes};

/// What whoever is bound to queues may use: every handler of it keeps to them. All else is shut to them.
const OPEN: &[&str] = &[
    "DELETE /api/v1/queues/{name}/limits",
    "DELETE /api/v1/runs/{id}",
    "GET /api/v1/bulk/{id}",
    "GET /api/v1/definitions",
    "GET /api/v1/definitions/{name}",
    "GET /api/v1/live",
    "GET /api/v1/me",
    "GET /api/v1/queues",
    "GET /api/v1/queues/{name}",
    "GET /api/v1/queues/{name}/actions",
    "GET /api/v1/queues/{name}/groups",
    "GET /api/v1/runs",
    "GET /api/v1/runs/count",
    "GET /api/v1/runs/{id}",
    "GET /api/v1/runs/{id}/actions",
    "GET /api/v1/runs/{id}/explain",
    "GET /api/v1/runs/{id}/export",
    "GET /api/v1/runs/{id}/history",
    "GET /api/v1/runs/{id}/logs",
    "GET /api/v1/runs/{id}/payload",
    "GET /api/v1/runs/{id}/queries/{name}",
    "GET /api/v1/runs/{id}/result",
    "GET /api/v1/runs/{id}/steps",
    "GET /api/v1/stats/series",
    "GET /api/v1/stats/summary",
    "GET /api/v1/suggest",
    "POST /api/v1/bulk",
    "POST /api/v1/bulk/{id}/abort",
    "POST /api/v1/queues/{name}/drain",
    "POST /api/v1/queues/{name}/pause",
    "POST /api/v1/queues/{name}/resume",
    "POST /api/v1/runs",
    "POST /api/v1/runs/read",
    "POST /api/v1/runs/{id}/cancel",
    "POST /api/v1/runs/{id}/due",
    "POST /api/v1/runs/{id}/events",
    "POST /api/v1/runs/{id}/fork",
    "POST /api/v1/runs/{id}/kill",
    "POST /api/v1/runs/{id}/pause",
    "POST /api/v1/runs/{id}/promises",
    "POST /api/v1/runs/{id}/replace",
    "POST /api/v1/runs/{id}/rerun",
    "POST /api/v1/runs/{id}/resume",
    "POST /api/v1/runs/{id}/retry",
    "PUT /api/v1/queues/{name}/limits",
];

/// A server with a run in each of two queues, and a token that is bound to one of them.
struct Two {
    lab: Lab,
    /// Bound to nothing.
    all: String,
    /// Bound to `mail`.
    mail: String,
    /// In `mail`.
    own: String,
    /// In the default queue.
    other: String,
}

impl Two {
    async fn of(role: &str) -> Two {
        let lab = Lab::guarded().await;
        let (all, mail) = (lab.token("admin", None).await, lab.bound(role, &["mail"]).await);
        let two = Two { lab, all, mail, own: String::new(), other: String::new() };
        let own =
            two.start(r#"{"definition":"approve","key":"own-key","queue":"mail","tags":{"a":"b"}}"#).await;
        let other = two.start(r#"{"definition":"approve","key":"other-secret","tags":{"a":"b"}}"#).await;
        Two { own, other, ..two }
    }

    /// Starts something as somebody who may start everything.
    async fn start(&self, body: &str) -> String {
        let told = self.post(&self.all, "/api/v1/runs", body).await;
        assert_eq!(told.status, 201, "{told:?}");
        told.json()["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, secret: &str, path: &str) -> Told {
        told(self.lab.request("GET", path).bearer_auth(secret)).await
    }

    async fn post(&self, secret: &str, path: &str, body: &str) -> Told {
        told(with_json(self.lab.request("POST", path), body).bearer_auth(secret)).await
    }
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_is_shut_to_a_token_of_a_queue_or_keeps_to_that_queue() {
    let two = Two::of("admin").await;
    let bulk = r#"{"op":"pause","filter":"tag:a=b","reason":"x","dry_run":false}"#;
    let bulk = two.post(&two.all, "/api/v1/bulk", bulk).await.json()["id"].as_str().unwrap().to_owned();
    let mut open = Vec::new();
    for route in routes().into_iter().filter(|route| route.scope != "public") {
        let named = format!("{} {}", route.method, route.path);
        if route.path == "/api/v1/live" {
            open.push(named);
            continue;
        }
        let mut is_open = true;
        for (id, name) in
            [(&*two.other, "default"), (&bulk, "outlast"), ("approve%2Fother-secret", "nightly-globex")]
        {
            let path = route.path.replace("{id}", id).replace("{name}", name);
            let answer = ask(&two.lab, &route, &path, Some(&two.mail)).await;
            let status = answer.status.as_u16();
            if status == 403 && answer.text.contains("is about more than single queues") {
                assert_eq!(answer.code(), "forbidden", "{named}");
                assert!(
                    answer.text.contains("bound to mail") && answer.text.contains("token create"),
                    "{answer:?}"
                );
                is_open = false;
            }
            if route.path.contains("{id}") || route.path.contains("{name}") {
                // Not even that it is there.
                assert!(matches!(status, 404 | 403 | 400), "{named}: {answer:?}");
            }
            for secret in ["other-secret\"", "\"default\"", &two.other, &bulk] {
                let is_asked = path.contains(secret.trim_matches('"'));
                assert!(is_asked || !answer.text.contains(secret), "{named} tells of {secret}: {answer:?}");
            }
        }
        if is_open {
            open.push(named);
        }
    }
    open.sort();
    assert_eq!(open, OPEN, "a route is opened to tokens of queues where its handler keeps to them");
    let view = two.get(&two.all, &format!("/api/v1/runs/{}", two.other)).await.json();
    assert_ne!(view["status"], "cancelled", "{view}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_another_queue_is_as_if_there_were_none() {
    let two = Two::of("operator").await;
    for (what, body) in [
        ("cancel", r#"{"reason":"x"}"#),
        ("kill", r#"{"reason":"x"}"#),
        ("events", r#"{"name":"approval","data":1}"#),
        ("promises", r#"{"name":"approval","data":1}"#),
        ("replace", r#"{"step":"ask","result":1,"reason":"x"}"#),
        ("rerun", "{}"),
        ("fork", r#"{"from_start":true}"#),
    ] {
        for id in [&*two.other, "approve%2Fother-secret", "approve%2Fnobody"] {
            let refused = two.post(&two.mail, &format!("/api/v1/runs/{id}/{what}"), body).await;
            assert_eq!(refused.code(), "not_found", "{what} {id}");
            assert!(id == two.other || !refused.text.contains(&two.other), "{refused:?}");
        }
    }
    assert_eq!(two.get(&two.all, "/api/v1/runs/count").await.json()["count"], 2);
    // What is in the queue is done as ever.
    for id in [&*two.own, "approve%2Fown-key"] {
        assert_eq!(two.get(&two.mail, &format!("/api/v1/runs/{id}")).await.json()["queue"], "mail");
    }
    let sent =
        two.post(&two.mail, "/api/v1/runs/approve%2Fown-key/events", r#"{"name":"approval","data":7}"#);
    assert_eq!(sent.await.status, 200);
    let ended = two.get(&two.mail, &format!("/api/v1/runs/{}/result?wait=60s", two.own)).await.json();
    assert_eq!(ended["output"], 7);
    let again = two.post(&two.mail, &format!("/api/v1/runs/{}/rerun", two.own), "{}").await.json();
    let again = again["id"].as_str().unwrap();
    assert_eq!(two.get(&two.mail, &format!("/api/v1/runs/{again}")).await.json()["queue"], "mail");
    // One that waits, since what the other was sent arrives again.
    let waits = two.start(r#"{"definition":"approve","queue":"mail"}"#).await;
    let cancelled = two.post(&two.mail, &format!("/api/v1/runs/{waits}/cancel"), r#"{"reason":"x"}"#).await;
    assert_eq!(cancelled.json()["changed"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_started_into_the_queues_of_a_token_and_no_other() {
    let two = Two::of("operator").await;
    let start = async |body: &str| two.post(&two.mail, "/api/v1/runs", body).await;
    // The definition's own queue counts where none is asked for.
    for body in [
        r#"{"definition":"greet","input":"you"}"#,
        r#"{"definition":"greet","input":"you","dry_run":true}"#,
        r#"{"definition":"fail","input":"x","queue":"default"}"#,
        r#"{"definition":"greet","input":"you","queue":"reports"}"#,
    ] {
        let refused = start(body).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "forbidden"), "{body}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        let queue = if body.contains("reports") { "\"reports\"" } else { "\"default\"" };
        assert!(detail.contains("bound to mail") && detail.contains(queue), "{detail}");
    }
    assert_eq!(two.get(&two.all, "/api/v1/runs/count").await.json()["count"], 2);
    assert_eq!(start(r#"{"definition":"fail","input":"x"}"#).await.status, 201);
    assert_eq!(start(r#"{"definition":"greet","input":"you","queue":"mail"}"#).await.status, 201);
    assert_eq!(
        start(r#"{"definition":"greet","input":"you","queue":"mail","dry_run":true}"#).await.status,
        200
    );

    // A key that a run of another queue has gives nothing away, with the same input and with another.
    for (input, dry_run) in [("null", false), ("1", false), ("null", true)] {
        let body = format!(
            r#"{{"definition":"approve","input":{input},"key":"other-secret","queue":"mail","dry_run":{dry_run}}}"#
        );
        let refused = start(&body).await;
        assert_eq!(refused.code(), "forbidden", "{body}");
        assert!(!refused.text.contains(&two.other) && refused.text.contains("another key"), "{refused:?}");
    }
    let known = start(r#"{"definition":"approve","key":"own-key","queue":"mail","tags":{"a":"b"}}"#).await;
    assert_eq!((known.status.as_u16(), &known.json()["id"]), (200, &json!(two.own)));
    // Whoever only looks starts nothing in their own queue either.
    let viewer = two.lab.bound("viewer", &["mail"]).await;
    let refused = two.post(&viewer, "/api/v1/runs", r#"{"definition":"fail","input":"x"}"#).await;
    assert!(refused.text.contains("needs the scope start"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_counts_have_the_runs_of_all_queues_of_a_token_and_of_no_other() {
    let two = Two::of("viewer").await;
    let several = two.lab.bound("viewer", &["reports", "mail"]).await;
    let report = two.start(r#"{"definition":"approve","queue":"reports"}"#).await;
    let list =
        async |secret: &str, query: &str| two.get(secret, &format!("/api/v1/runs{query}")).await.json();
    assert_eq!(ids(&list(&two.mail, "").await), [&two.own]);
    assert_eq!(ids(&list(&two.mail, "?queue=mail&def=approve").await), [&two.own]);
    assert_eq!(ids(&list(&several, "").await), [&report, &two.own]);
    assert_eq!(ids(&list(&several, "?sort=oldest").await), [&two.own, &report]);
    assert_eq!(ids(&list(&several, "?queue=reports").await), [&report]);
    // By its id or its key another's run is not found either.
    for query in [format!("?q={}", two.other), "?q=other-secret".to_owned(), "?key=other-secret".to_owned()] {
        assert_eq!(list(&two.mail, &query).await["items"], json!([]), "{query}");
        assert_eq!(ids(&list(&two.all, &query).await), [&two.other], "{query}");
    }
    let count = async |secret: &str, query: &str| {
        two.get(secret, &format!("/api/v1/runs/count{query}")).await.json()["count"].clone()
    };
    assert_eq!((count(&two.mail, "").await, count(&several, "").await), (json!(1), json!(2)));
    assert_eq!(count(&several, "?tag=a%3Db").await, json!(1));
    assert_eq!(count(&two.mail, &format!("?q={}", two.other)).await, json!(0));
    // Whoever names another queue is told why there is nothing.
    for path in [
        "/api/v1/runs?queue=default",
        "/api/v1/runs/count?queue=default",
        "/api/v1/stats/series?queue=default",
    ] {
        let refused = two.get(&two.mail, path).await;
        assert_eq!(refused.code(), "forbidden", "{path}");
        assert!(refused.text.contains("bound to mail"), "{refused:?}");
    }
    // Pages go on over all queues of the token, and a cursor is good for those alone.
    let first = list(&several, "?limit=1").await;
    assert_eq!(ids(&first), [&report]);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&list(&several, &format!("?limit=1&cursor={cursor}")).await), [&two.own]);
    let stolen = two.get(&two.mail, &format!("/api/v1/runs?limit=1&cursor={cursor}")).await;
    assert_eq!(stolen.code(), "invalid_cursor");

    let summary = async |secret: &str| two.get(secret, "/api/v1/stats/summary").await.json();
    for (secret, unfinished) in [(&two.mail, 1), (&several, 2), (&two.all, 3)] {
        let summary = summary(secret).await;
        let sum = ["running", "queued", "waiting", "stopped"].map(|part| summary[part].as_u64().unwrap());
        assert_eq!(sum.iter().sum::<u64>(), unfinished, "{summary}");
    }
    assert_eq!(two.get(&several, "/api/v1/stats/series").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_reaches_the_queues_of_its_token_and_no_further() {
    let two = Two::of("operator").await;
    two.lab.until_waiting(&two.all, &[&two.own, &two.other]).await;
    let bulk = async |body: &str| two.post(&two.mail, "/api/v1/bulk", body).await;
    let preview = bulk(r#"{"op":"kill","all":true,"reason":"x","dry_run":true}"#).await.json();
    let runs: Vec<&Value> = preview["runs"].as_array().unwrap().iter().map(|run| &run["run"]).collect();
    assert_eq!(runs, [&json!(two.own)]);
    let refused = bulk(r#"{"op":"kill","filter":"queue:default","reason":"x"}"#).await;
    assert_eq!(refused.code(), "forbidden");
    // One by one, another queue's run is none.
    let named = format!(r#"{{"op":"kill","ids":["{}"],"reason":"x"}}"#, two.other);
    let made = bulk(&named).await.json()["id"].as_str().unwrap().to_owned();
    let ended = async |id: &str| {
        two.lab.app.bulk_run(id.parse().unwrap()).result().await.unwrap();
        two.get(&two.mail, &format!("/api/v1/bulk/{id}")).await.json()
    };
    let report = ended(&made).await;
    assert_eq!((&report["done"], &report["failed"]), (&json!(0), &json!(1)), "{report}");
    let made =
        bulk(r#"{"op":"kill","all":true,"reason":"x"}"#).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&made).await["done"], 1);
    let status =
        async |id: &str| two.get(&two.all, &format!("/api/v1/runs/{id}")).await.json()["status"].clone();
    assert_eq!((status(&two.own).await, status(&two.other).await), (json!("cancelled"), json!("waiting")));

    // A bulk is known to those who reach all that it does, and to nobody else.
    let both = two.lab.bound("operator", &["mail", "reports"]).await;
    let reports = two.lab.bound("operator", &["reports"]).await;
    let look =
        async |secret: &str, id: &str| two.get(secret, &format!("/api/v1/bulk/{id}")).await.status.as_u16();
    assert_eq!((look(&both, &made).await, look(&reports, &made).await), (200, 404));
    let wide = two.post(&both, "/api/v1/bulk", r#"{"op":"resume","all":true}"#).await.json();
    assert_eq!(look(&two.mail, wide["id"].as_str().unwrap()).await, 404);
    let all = two.post(&two.all, "/api/v1/bulk", r#"{"op":"resume","all":true}"#).await.json();
    assert_eq!(look(&both, all["id"].as_str().unwrap()).await, 404);
    // Whoever waits for one of their own looks at it as at any run, and at nothing more of it.
    let run = async |secret: &str| two.get(secret, &format!("/api/v1/runs/{made}")).await.status.as_u16();
    assert_eq!((run(&two.mail).await, run(&reports).await), (200, 404));
    assert_eq!(two.get(&two.mail, &format!("/api/v1/runs/{made}/steps")).await.code(), "not_found");
    assert_eq!(two.get(&two.mail, "/api/v1/bulk").await.code(), "forbidden");
    assert_eq!(two.get(&two.mail, "/api/v1/runs?def=outlast.bulk").await.code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_and_definitions_are_those_of_the_token() {
    let two = Two::of("operator").await;
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&two.get(&two.mail, "/api/v1/queues").await.json()), ["mail"]);
    assert_eq!(names(&two.get(&two.mail, "/api/v1/definitions").await.json()), ["fail"]);
    // One that is named can be started in any queue that is theirs.
    assert_eq!(two.get(&two.mail, "/api/v1/definitions/greet").await.status.as_u16(), 200);
    assert_eq!(two.get(&two.mail, "/api/v1/suggest?field=queue").await.json()["items"], json!(["mail"]));
    assert_eq!(two.get(&two.mail, "/api/v1/suggest?field=def").await.json()["items"], json!(["fail"]));
    for act in ["pause", "drain", "resume"] {
        let done = two.post(&two.mail, &format!("/api/v1/queues/mail/{act}"), "{}").await;
        assert_eq!(done.status, 200, "{done:?}");
        for other in ["default", "outlast", "nobody"] {
            let refused = two.post(&two.mail, &format!("/api/v1/queues/{other}/{act}"), "{}").await;
            assert_eq!(refused.code(), "forbidden", "{act} {other}");
        }
    }
    assert_eq!(two.get(&two.all, "/api/v1/queues/default").await.json()["state"], "open");
    // Of a queue that is not there yet nobody is told which others are.
    let reports = two.lab.bound("operator", &["reports"]).await;
    let unknown = two.get(&reports, "/api/v1/queues/reports").await;
    assert_eq!(unknown.code(), "not_found");
    assert!(!unknown.text.contains("mail"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_a_token_of_its_queues_and_of_nothing_else() {
    let two = Two::of("operator").await;
    let mut stream = Stream::open(&two.lab, "runs,queues", None, Some(&two.mail)).await;
    let mut tells_all = Stream::open(&two.lab, "runs", None, Some(&two.all)).await;
    let other = two.start(r#"{"definition":"approve"}"#).await;
    tells_all.until(&other, "waiting").await;
    assert_eq!(two.post(&two.all, "/api/v1/queues/default/pause", "{}").await.status, 200);
    let own = two.start(r#"{"definition":"approve","queue":"mail"}"#).await;
    tells_all.until(&own, "waiting").await;
    // All that comes until then is of the queue, and what comes last is among it.
    assert_eq!(two.post(&two.mail, "/api/v1/queues/mail/pause", "{}").await.status, 200);
    let mut seen = Vec::new();
    loop {
        let event = stream.next().await.expect("the stream goes on");
        let changed = event.data["changed"].as_array().unwrap().clone();
        assert!(!changed.is_empty(), "{event:?}");
        for one in &changed {
            let queue = if event.name == "runs" { &one["queue"] } else { &one["name"] };
            assert_eq!(queue, "mail", "{event:?}");
        }
        seen.extend(changed);
        if seen.iter().any(|one| one["state"] == "paused") && seen.iter().any(|one| one["id"] == own.as_str())
        {
            break;
        }
    }
    for topic in ["run", "logs"] {
        let path = |run: &str| format!("/api/v1/live?topics={topic}:{run}");
        assert_eq!(two.get(&two.mail, &path(&other)).await.code(), "not_found");
        let heard = two.lab.request("GET", &path(&own)).bearer_auth(&two.mail).send().await.unwrap();
        assert_eq!(heard.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_says_to_which_queues_it_is_bound_and_none_is_bound_to_nothing() {
    let lab = Lab::guarded().await;
    let admin = lab.token("admin", None).await;
    let make = async |queues: &str| {
        let body = format!(r#"{{"subject":"ann","role":"operator","queues":{queues}}}"#);
        told(with_json(lab.request("POST", "/api/v1/tokens"), &body).bearer_auth(&admin)).await
    };
    let made = make(r#"["reports","mail","mail"]"#).await.json();
    assert_eq!((&made["queues"], &made["role"]), (&json!(["mail", "reports"]), &json!("operator")));
    let secret = made["secret"].as_str().unwrap();
    let me = told(lab.request("GET", "/api/v1/me").bearer_auth(secret)).await.json();
    assert_eq!((&me["queues"], &me["role"]), (&json!(["mail", "reports"]), &json!("operator")));
    let listed = told(lab.request("GET", "/api/v1/tokens").bearer_auth(&admin)).await.json();
    assert_eq!(listed["items"][0]["queues"], json!(["mail", "reports"]));
    assert_eq!(listed["items"][1]["queues"], Value::Null);
    let many = json!((0..21).map(|n| format!("q{n}")).collect::<Vec<_>>()).to_string();
    for wrong in ["[]", r#"[""]"#, r#"["outlast"]"#, r#"["a\u0000"]"#, r#"[".."]"#, &many] {
        let refused = make(wrong).await;
        assert!(matches!(refused.status.as_u16(), 400 | 413), "{wrong}: {refused:?}");
    }
    assert_eq!(make("\"mail\"").await.status, 400);
    assert_eq!(make("null").await.json()["queues"], Value::Null);

    // An admin who is bound makes no token, and so none that reaches further.
    let bound = lab.bound("admin", &["mail"]).await;
    let body = r#"{"subject":"eve","role":"admin"}"#;
    let refused = told(with_json(lab.request("POST", "/api/v1/tokens"), body).bearer_auth(&bound)).await;
    assert_eq!(refused.code(), "forbidden");
    // A browser that logs in with it is bound as well.
    let login = with_json(lab.request("POST", "/api/v1/session"), &json!({ "token": bound }).to_string());
    let cookie = told(login).await.header("set-cookie").split(';').next().unwrap().to_owned();
    let look = async |path: &str| {
        let ask = lab.request("GET", path).header("cookie", &cookie).header("sec-fetch-site", "same-origin");
        told(ask).await
    };
    assert_eq!(look("/api/v1/me").await.json()["queues"], json!(["mail"]));
    assert_eq!(look("/api/v1/tokens").await.code(), "forbidden");
    // What nobody can read sets nobody free.
    for lost in ["null", "'[]'", "'mail'"] {
        lab.world
            .raw(&format!("update outlast.tokens set queues = {lost} where role = 'queues:admin'"))
            .await;
        assert_eq!(look("/api/v1/me").await.status, 401, "{lost}");
    }
}
