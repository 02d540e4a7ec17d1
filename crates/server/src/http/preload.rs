//! What a page asks for first: browsers are told so in the document, and ask while the script of the dashboard is still on its way.
//!
//! Addresses stand here as the dashboard writes them, to the letter: a browser takes what it has for the same address alone.

use axum::http::Uri;

use super::dashboard::escaped;

/// What the list of runs shows, and the first page.
const OF_RUNS: &str = "api/v1/runs?since=24h&limit=100";
const OF_OVERVIEW: &str = "api/v1/stats/summary?range=1h";
/// Who looks decides what every page offers them.
const OF_ALL: &str = "api/v1/me";

/// The elements that say so, for an address below the place at which the dashboard is mounted.
pub(super) fn links(base: &str, own: &Uri) -> String {
    let first = match (own.path(), own.query().unwrap_or_default()) {
        ("/", "") => OF_OVERVIEW,
        ("/runs", "") => OF_RUNS,
        _ => return String::new(),
    };
    let link = |path: &str| {
        format!(r#"<link rel="preload" as="fetch" crossorigin href="{}{}">"#, escaped(base), escaped(path))
    };
    link(first) + &link(OF_ALL)
}
