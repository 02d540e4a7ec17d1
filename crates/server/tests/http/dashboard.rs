//! The dashboard as browsers get it: one document for every page, files beside it, and strict rules for both.

use axum::Router;
use outlast_server::http::Api;
use outlast_testkit::StoreKind;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, told};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_the_same_document_also_behind_a_deep_link() {
    let lab = Lab::open().await;
    let first = lab.get("/").await;
    assert_eq!(first.status, 200, "{first:?}");
    assert!(first.header("content-type").starts_with("text/html"));
    assert!(first.text.contains(r#"<base href="/" />"#) && !first.text.contains("__"), "{first:?}");
    for path in [
        "/runs",
        "/runs/run_01m7j3wzpse008vs7k5tgvk5p8",
        "/runs?status=failed",
        "/queues/a/b.c",
        "/bulk/x",
        "/system",
    ] {
        let page = lab.get(path).await;
        // One line tells browsers what the list will ask for.
        let lines = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| !line.contains("preload\"") && !line.trim().is_empty())
                .map(str::to_owned)
                .collect()
        };
        assert_eq!((page.status.as_u16(), lines(&page.text)), (200, lines(&first.text)), "{path}");
    }
    assert_eq!(lab.get("/robots.txt").await.text, "User-agent: *\nDisallow: /\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_neither_a_page_nor_a_file_is_not_found() {
    let lab = Lab::open().await;
    for path in
        ["/assets/nothing.js", "/assets/../index.html", "/assets/%2e%2e/.source-hash", "/.source-hash"]
    {
        assert_eq!(lab.get(path).await.status, 404, "{path}");
    }
    for (path, is_page) in [("/nothing/here", true), ("/api/v1/nothing", false)] {
        let person = told(lab.request("GET", path).header("accept", "text/html,*/*;q=0.8")).await;
        assert_eq!(person.status, 404, "{path}");
        assert_eq!(person.header("content-type").starts_with("text/html"), is_page, "{path}");
    }
    for path in ["/nothing", "/api/v1/nothing", "/api"] {
        assert_eq!(lab.get(path).await.code(), "not_found", "{path}");
    }
    assert_eq!(told(lab.request("POST", "/runs")).await.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_policy_stands_on_every_file_and_nothing_in_the_document_needs_less() {
    let lab = Lab::guarded().await;
    let page = lab.get("/runs").await;
    for path in ["/runs", "/assets/app.js", "/assets/style.css"] {
        let file = lab.get(path).await;
        assert_eq!(file.status, 200, "the files are nobody's secret: {path}");
        assert_eq!(file.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(file.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(file.header("cache-control"), "no-cache", "{path}");
    }
    assert!(
        !page.text.contains("<style") && !page.text.contains(" style=") && !page.text.contains(" onload=")
    );
    for script in page.text.split("<script").skip(1) {
        let (head, body) = script.split_once('>').unwrap();
        let is_data = head.contains("application/json");
        assert!(is_data || (head.contains("src=") && body.starts_with("</script>")), "{script}");
    }
    assert_eq!(lab.get("/api/v1/runs").await.status, 401, "what they show is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_may_ask_a_decoder_that_the_server_names_and_nobody_else() {
    let lab =
        Lab::with(StoreKind::Sqlite, |api| api.codec_origin("https://codec.example.com").unwrap()).await;
    let page = lab.get("/runs").await;
    let more = POLICY.replace("connect-src 'self'", "connect-src 'self' https://codec.example.com");
    assert_eq!(page.header("content-security-policy"), more);
    assert!(page.text.contains(r#""codec":"https://codec.example.com""#), "{page:?}");
    let api = Api::new(lab.app.client().clone());
    assert!(api.codec_origin("https://codec.example.com; script-src *").is_err());
    assert!(Lab::open().await.get("/runs").await.text.contains(r#""codec":null"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_and_the_first_page_are_asked_for_before_their_script_is_there_and_no_other_is() {
    let lab = Lab::open().await;
    for (path, first) in
        [("/runs", "runs?since=24h&amp;limit=100"), ("/", "stats/summary?range=1h"), ("/", "me")]
    {
        let first = format!(r#"<link rel="preload" as="fetch" crossorigin href="/api/v1/{first}">"#);
        assert!(lab.get(path).await.text.contains(&first), "{path}: {first}");
    }
    for path in ["/?range=24h", "/nodes", "/runs?status=failed", "/runs/run_x", "/runs/"] {
        let page = lab.get(path).await;
        assert!(!page.text.contains("rel=\"preload\"") && !page.text.contains("preload--"), "{path}");
    }
    let mounted = Api::new(lab.app.client().clone()).without_tokens().router().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/ops/runs", listener.local_addr().unwrap());
    let own = Router::new().nest("/ops", mounted);
    tokio::spawn(outlast_server::http::serve(listener, own, CancellationToken::new()));
    let page = told(reqwest::Client::new().get(url)).await;
    assert!(page.text.contains(r#"href="/ops/api/v1/runs?since=24h"#), "{page:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_browser_has_is_not_sent_again() {
    let lab = Lab::open().await;
    for path in ["/runs", "/assets/app.js"] {
        let tag = lab.get(path).await.header("etag").to_owned();
        assert!(tag.len() > 60, "{tag}");
        let again = told(lab.request("GET", path).header("if-none-match", &tag)).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
        let other = told(lab.request("GET", path).header("if-none-match", "\"other\"")).await;
        assert_eq!(other.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_another_path_the_document_says_where_it_is() {
    let lab = Lab::open().await;
    let api = Api::new(lab.app.client().clone()).without_tokens().router().await.unwrap();
    let router = Router::new().nest("/ops", api);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stopping = CancellationToken::new();
    tokio::spawn(outlast_server::http::serve(listener, router, stopping.clone()));
    let http = reqwest::Client::new();
    for path in ["/ops", "/ops/runs/run_x"] {
        let page = told(http.get(format!("{url}{path}"))).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text.contains(r#"<base href="/ops/" />"#), "{path}: {page:?}");
        assert!(page.text.contains(r#""base":"/ops/""#), "{path}: {page:?}");
    }
    assert_eq!(told(http.get(format!("{url}/ops/assets/app.js"))).await.status, 200);
    stopping.cancel();
}

#[test]
fn the_build_stays_within_its_budget() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/assets");
    let sizes = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    let all: u64 = sizes.sum();
    assert!((100_000..1_000_000).contains(&all), "the dashboard has {all} bytes; at most 1 MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_changes_the_dashboard_has_its_pages_from_their_own_server() {
    let lab = Lab::open().await;
    let stopping = CancellationToken::new();
    let listen = async |router: Router| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(outlast_server::http::serve(listener, router, stopping.clone()));
        url
    };
    let page = || async { axum::response::Html(r#"<base href="__BASE__" />__CONFIG__ from afar"#) };
    let script = || async { ([("content-type", "text/javascript")], "let x = '__BASE__'") };
    let vite = Router::new().route("/src/main.tsx", axum::routing::get(script)).fallback(page);
    let vite = listen(vite).await;
    let api = Api::new(lab.app.client().clone()).without_tokens().ui_proxy(&vite).unwrap();
    let ours = listen(api.router().await.unwrap()).await;

    let http = reqwest::Client::new();
    let document = told(http.get(format!("{ours}/runs/run_x?tab=logs"))).await;
    assert!(document.text.starts_with(r#"<base href="/" />{"base":"/""#), "{document:?}");
    assert!(document.text.ends_with("from afar"), "{document:?}");
    assert!(
        document.header("content-security-policy").contains("script-src 'self' 'unsafe-inline'"),
        "{document:?}"
    );
    assert_eq!(told(http.get(format!("{ours}/src/main.tsx"))).await.text, "let x = '__BASE__'");
    assert_eq!(told(http.get(format!("{ours}/api/v1/me"))).await.status, 200);
    assert_eq!(told(http.get(format!("{ours}/api/v1/nothing"))).await.code(), "not_found");
    assert_eq!(told(http.post(format!("{ours}/runs"))).await.status, 405);

    // One that is not there is said to be not there, with what helps.
    let api = Api::new(lab.app.client().clone()).without_tokens().ui_proxy("http://127.0.0.1:9").unwrap();
    let ours = listen(api.router().await.unwrap()).await;
    let none = told(http.get(format!("{ours}/"))).await;
    assert_eq!(none.status, 502);
    assert!(none.text.contains("npm run dev"), "{none:?}");
    stopping.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_are_compressed_for_whoever_takes_that_and_streams_are_not() {
    let lab = Lab::open().await;
    for path in ["/openapi.json", "/assets/app.js"] {
        let plain = lab.request("GET", path).send().await.unwrap();
        assert_eq!((plain.status().as_u16(), plain.headers().get("content-encoding")), (200, None), "{path}");
        let plain = plain.bytes().await.unwrap();
        let asked = lab.request("GET", path).header("accept-encoding", "gzip, br").send().await.unwrap();
        assert_eq!(asked.headers()["content-encoding"], "gzip", "{path}");
        assert!(asked.headers()["vary"].to_str().unwrap().contains("accept-encoding"), "{path}");
        let squeezed = asked.bytes().await.unwrap();
        assert!(squeezed.starts_with(&[0x1f, 0x8b]) && squeezed.len() * 2 < plain.len(), "{path}");
    }
    for path in ["/api/v1/live?topics=runs", "/healthz"] {
        let asked = lab.request("GET", path).header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!((asked.status().as_u16(), asked.headers().get("content-encoding")), (200, None), "{path}");
    }
}
