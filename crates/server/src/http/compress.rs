//! Which answers are sent compressed to whoever takes that: texts that are there as a whole and long enough to be worth it.
//!
//! Streams are not: what a compressor still holds back would be news that nobody hears.

use axum::body::HttpBody;
use axum::http::{Response, header};
use tower_http::compression::predicate::Predicate;

/// What is shorter than a packet arrives no sooner.
const SHORTEST: u64 = 1_024;

/// Texts of a known length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts;

impl Predicate for Texts {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_text = kind.is_some_and(|kind| {
            ["text/", "application/", "image/svg"].iter().any(|start| kind.starts_with(start))
        });
        is_text && response.body().size_hint().exact().is_some_and(|length| length >= SHORTEST)
    }
}
