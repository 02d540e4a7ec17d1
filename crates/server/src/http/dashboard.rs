//! The dashboard: the built pages of `ui/`, which are in the binary, and what browsers are told about them.
//!
//! There is nothing secret in these files: what they show comes from the API, which asks for tokens. The pages are one
//! document whose script reads the address; a link to `/runs/ID` therefore gives the same document as `/`. Where the
//! router is mounted is read off each request, so that it works below any path without being told.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{OriginalUri, Path, Request};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};

use super::policy::policy;
use super::{nothing_here, preload};

/// What `npm run build` made.
#[derive(RustEmbed)]
#[folder = "dist"]
#[include = "index.html"]
#[include = "assets/*"]
struct Dist;

/// The pages. Each can have more behind it; names may have slashes.
const PAGES: [&str; 9] =
    ["runs", "errors", "queues", "schedules", "nodes", "definitions", "bulk", "system", "settings"];

/// What an installation says of itself to its dashboard.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// What it is called.
    pub(super) environment: Option<String>,
    /// Whom pages may ask to decode payloads.
    pub(super) codec: Option<String>,
}

/// A router with the pages, and what they need.
pub(super) fn add(mut router: Router, told: Told) -> Router {
    let told = Arc::new(told);
    let unknown = told.clone();
    router = router.fallback(move |whole: OriginalUri, request: Request| elsewhere(unknown, whole, request));
    let page = get(move |whole: OriginalUri, request: Request| page(told.clone(), whole, request));
    router = router
        .route("/", page.clone())
        .route("/assets/{*path}", get(asset))
        .route("/robots.txt", get(robots));
    for name in PAGES {
        router = router
            .route(&format!("/{name}"), page.clone())
            .route(&format!("/{name}/{{*rest}}"), page.clone());
    }
    router
}

/// The document, for the place at which it is mounted.
async fn page(told: Arc<Told>, OriginalUri(whole): OriginalUri, request: Request) -> Response<Body> {
    let Some(file) = Dist::get("index.html") else { return missing() };
    let base = base(whole.path(), request.uri().path());
    let text = filled(&String::from_utf8_lossy(&file.data), &base, request.uri(), &told);
    let tag = format!("\"{}\"", hex(&Sha256::digest(text.as_bytes())));
    let data = text.into_bytes().into();
    let mut response = answer(request.headers(), "text/html; charset=utf-8", "no-cache", tag, data);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy(told.codec.as_deref()));
    response
}

/// Where there is nothing: people are told so by the pages, programs by a problem.
async fn elsewhere(told: Arc<Told>, whole: OriginalUri, request: Request) -> Response<Body> {
    let accepts = request.headers().get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let is_person = request.method() == Method::GET
        && !request.uri().path().starts_with("/api/")
        && accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if !is_person {
        return nothing_here(request).await;
    }
    let mut response = page(told, whole, request).await;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// The document with what its script has to know, for an address below the place at which it is mounted.
pub(super) fn filled(text: &str, base: &str, own: &Uri, told: &Told) -> String {
    let Told { environment, codec } = told;
    let version = env!("CARGO_PKG_VERSION");
    let config =
        serde_json::json!({ "base": base, "version": version, "environment": environment, "codec": codec });
    // Whatever stands in the address must not end the element in which it is written.
    let config = config.to_string().replace('<', "\\u003c");
    text.replace("__BASE__", &escaped(base))
        .replace("__CONFIG__", &config)
        .replace("<!--preload-->", &preload::links(base, own))
}

async fn asset(Path(path): Path<String>, request: Request) -> Response<Body> {
    let Some(file) = Dist::get(&format!("assets/{path}")) else { return missing() };
    let kind = match path.rsplit_once('.').map(|(_, kind)| kind) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let tag = format!("\"{}\"", hex(&file.metadata.sha256_hash()));
    // Names stay the same from build to build: only the tag says whether a file is.
    let takes = request.headers().get(header::ACCEPT_ENCODING).and_then(|takes| takes.to_str().ok());
    if !takes.is_some_and(takes_gzip) {
        return answer(request.headers(), kind, "no-cache", tag, file.data);
    }
    let data = compressed(file.metadata.sha256_hash(), &file.data);
    let mut response = answer(request.headers(), kind, "no-cache", tag, data.to_vec().into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

fn takes_gzip(takes: &str) -> bool {
    takes.split(',').any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        name.trim() == "gzip" && !matches!(weight.trim(), "q=0" | "q=0.0")
    })
}

/// A file, compressed: once, and as well as can be, instead of for every browser that opens the first page.
fn compressed(hash: [u8; 32], data: &[u8]) -> Bytes {
    static KNOWN: LazyLock<Mutex<HashMap<[u8; 32], Bytes>>> = LazyLock::new(Mutex::default);
    if let Some(known) = KNOWN.lock().get(&hash) {
        return known.clone();
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Nothing fails where bytes only go into memory.
    let _ = gzip.write_all(data);
    let made = Bytes::from(gzip.finish().unwrap_or_default());
    KNOWN.lock().insert(hash, made.clone());
    made
}

async fn robots() -> &'static str {
    "User-agent: *\nDisallow: /\n"
}

fn missing() -> Response<Body> {
    (StatusCode::NOT_FOUND, "there is no such file of the dashboard\n").into_response()
}

fn answer(
    sent: &HeaderMap,
    kind: &'static str,
    cache: &'static str,
    tag: String,
    data: Cow<'static, [u8]>,
) -> Response<Body> {
    let known = sent.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(data.into_owned()).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, cache),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, policy(None));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Where this is mounted: what of the whole path is not ours. Begins and ends with a slash.
fn base(whole: &str, own: &str) -> String {
    let above = whole.strip_suffix(own).unwrap_or(if own == "/" { whole } else { "" });
    format!("{}/", above.trim_end_matches('/'))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Every file from which the build is made, under its path in `ui/`.
    fn sources(root: &Path, at: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            if path.is_dir() {
                sources(root, &path, found);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }

    #[test]
    fn dist_is_fresh() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.join("../../ui");
        let mut found = BTreeMap::new();
        for folder in ["src", "public", "scripts"] {
            sources(&root, &root.join(folder), &mut found);
        }
        for file in ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"] {
            found.insert(file.to_owned(), fs::read(root.join(file)).unwrap());
        }
        let mut hash = Sha256::new();
        for (name, text) in &found {
            hash.update(format!("{name} {}\n", hex(&Sha256::digest(text))));
        }
        let sealed = fs::read_to_string(here.join("dist/.source-hash")).unwrap();
        let now = hex(&hash.finalize());
        assert_eq!(sealed.trim(), now, "ui/ has changed since dist was built: run `npm run build` in ui/");
    }

    #[test]
    fn files_that_come_or_go_make_the_crate_anew() {
        // What embeds the files hears of changed ones, and not of those that are added or gone.
        let build = include_str!("../../build.rs");
        assert!(build.contains("cargo:rerun-if-changed=dist"), "{build}");
    }

    #[test]
    fn the_base_is_what_stands_before_our_own_path() {
        assert_eq!(base("/runs/a", "/runs/a"), "/");
        assert_eq!(base("/ops/runs/a", "/runs/a"), "/ops/");
        assert_eq!(base("/", "/"), "/");
        assert_eq!(base("/ops", "/"), "/ops/");
        assert_eq!(base("/ops/", "/"), "/ops/");
    }
}
