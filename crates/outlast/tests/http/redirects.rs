//! Redirects: followed a little, judged each time, and told no secrets.

use outlast::http::{HttpError, Rule};

use crate::server::{Server, nearby, ok, redirect};
use crate::{get, in_job};

#[tokio::test]
async fn a_redirect_to_an_inner_address_is_refused() {
    let targets = [
        ("http://169.254.169.254/latest", Rule::Metadata),
        ("http://10.0.0.1/", Rule::Private),
        ("http://[::1]/", Rule::Loopback),
        ("http://[::ffff:10.0.0.1]/", Rule::Private),
        ("http://localhost/", Rule::Localhost),
        ("//0/", Rule::Unspecified),
        ("http://10.0.0.1.leads.example/", Rule::Private),
        ("file:///etc/passwd", Rule::Scheme),
        ("http://ada:pw@b.example/", Rule::Userinfo),
        ("http://b.example:25/", Rule::Port),
    ];
    for (target, rule) in targets {
        let server = Server::start(move |_| redirect(302, target)).await;
        let error = get(nearby(), server.at("a.example", "/")).await.unwrap_err();
        assert!(matches!(&error, HttpError::Denied { rule: said, .. } if *said == rule), "{target}: {error}");
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let server = Server::start(|_| redirect(302, "/again")).await;
    let error = get(nearby(), server.at("a.example", "/")).await.unwrap_err();
    assert!(
        matches!(error, HttpError::TooManyRedirects { limit: 3, .. }) && !error.is_retryable(),
        "{error}"
    );
    assert_eq!(server.count(), 4, "the call, and three redirects");
}

#[tokio::test]
async fn three_redirects_are_followed_wherever_they_lead_from() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/a/one" => redirect(301, "two"),
        "/a/two" => redirect(307, "/three"),
        "/three" => redirect(308, "?four"),
        _ => ok("here"),
    });
    let server = server.await;
    assert_eq!(get(nearby(), server.at("a.example", "/a/one")).await.unwrap(), (200, "here".into()));
    let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/a/one", "/a/two", "/three", "/three?four"]);
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_is_an_answer() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/" => crate::server::status(302),
        _ => redirect(302, "http://"),
    });
    let server = server.await;
    assert_eq!(get(nearby(), server.at("a.example", "/")).await.unwrap().0, 302);
    assert_eq!(get(nearby(), server.at("a.example", "/odd")).await.unwrap().0, 302);
}

#[tokio::test]
async fn a_post_that_is_redirected_is_repeated_or_becomes_a_get_as_its_status_says() {
    for (status, method, body) in [
        (301, "GET", ""),
        (302, "GET", ""),
        (303, "GET", ""),
        (307, "POST", "\"it\""),
        (308, "POST", "\"it\""),
    ] {
        let server = Server::start(move |seen| match seen.path.as_str() {
            "/" => redirect(status, "/next"),
            _ => ok(""),
        });
        let server = server.await;
        let url = server.at("a.example", "/");
        in_job(nearby(), move |job| job.http().post(&url).json("it").send()).await.unwrap();
        let next = &server.seen()[1];
        assert_eq!((next.method.as_str(), next.body.as_str()), (method, body), "{status}");
        assert_eq!(next.header("idempotency-key").is_some(), method == "POST", "{status}");
        assert_eq!(next.header("content-type").is_some(), method == "POST", "{status}");
    }
}

#[tokio::test]
async fn what_was_meant_for_one_origin_does_not_reach_another() {
    let other = Server::start(|_| ok("")).await;
    let (to_other_port, port) = (other.at("a.example", "/"), other.port);
    let server = Server::start(move |seen| match (seen.host(), seen.path.as_str()) {
        (_, "/same") => redirect(307, "/end"),
        (_, "/port") => redirect(307, &to_other_port),
        (_, "/host") => redirect(307, format!("http://b.example:{port}/")),
        _ => ok(""),
    });
    let server = server.await;
    let secrets = ["authorization", "cookie", "x-api-key", "proxy-authorization"];
    for path in ["/same", "/port", "/host"] {
        let url = server.at("a.example", path);
        in_job(nearby(), move |job| {
            let call = job.http().post(&url).bearer("secret").header("Cookie", "a=secret");
            let call = call.header("X-Api-Key", "secret").header("Proxy-Authorization", "secret");
            call.header("Accept", "text/plain").json("it").send()
        })
        .await
        .unwrap();
        let last = if path == "/same" { server.seen().pop() } else { other.seen().pop() }.unwrap();
        for name in secrets {
            assert_eq!(last.header(name).is_some(), path == "/same", "{name} after {path}");
        }
        assert_eq!(last.header("accept"), Some("text/plain"));
        assert!(last.header("idempotency-key").is_some() && last.body == "\"it\"");
    }
    assert_eq!(other.count(), 2);
}
