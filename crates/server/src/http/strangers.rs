//! Those whom no token lets in: each of their tries costs a look into the database, so they have a pace too.
//!
//! They are counted by the address they come from, and only against each other: whoever has a token that is valid is let
//! in from the same address all the same, since many may stand behind one proxy.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, header};
use outlast::trouble::Seldom;

use super::code::Code;
use super::pace::Pace;
use super::problem::Problem;

/// What is said of them.
#[derive(Default)]
pub(crate) struct Strangers(Seldom);

impl Strangers {
    /// What somebody is told who was not let in: why, or that they tried too often.
    pub(super) fn turned_away(&self, pace: &Pace, ip: Option<IpAddr>, problem: Problem) -> Problem {
        if problem.code != Code::UNAUTHENTICATED {
            return problem;
        }
        let from = ip.map_or("an unknown address".to_owned(), |ip| ip.to_string());
        // No account of a token is called so.
        let Err(wait) = pace.take(&format!("strangers at {from}")) else { return problem };
        if let Some(unsaid) = self.0.say() {
            tracing::warn!(from, unsaid, "somebody without a valid token tries again and again");
        }
        too_many("somebody without a valid token", wait)
    }
}

/// The problem of whoever sends more requests than they may.
pub(super) fn too_many(who: &str, wait: Duration) -> Problem {
    let seconds = wait.as_secs() + 1;
    let detail = format!("{who} sends too many requests: wait {seconds} s");
    let left = format!("\"default\";r=0;t={seconds}");
    let problem = Problem::new(Code::RATE_LIMITED, detail).with(header::RETRY_AFTER, seconds);
    match HeaderValue::from_str(&left) {
        Ok(left) => problem.with(HeaderName::from_static("ratelimit"), left),
        Err(_) => problem,
    }
}
