//! What a run's handlers logged: line by line, or followed as server-sent events until the run has ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::stream;
use outlast::{Error, LogLine, RunId};
use serde::Serialize;
use tokio::sync::broadcast;
use utoipa::ToSchema;

use super::Inner;
use super::access::is_shut;
use super::code::Code;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::runs::find;
use crate::follow::is_of;
use crate::shapes::LogJson;

/// How often a follower looks without any hint, and how long hints gather.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const GATHER: Duration = Duration::from_millis(250);
/// How often a silent stream says that it is there; and how often it is looked whether the token still opens it.
const PING: Duration = Duration::from_secs(15);
/// The most lines of one look.
const LINES: u32 = 500;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(crate) const LOGS: &[Param] = &[
    number("after", "Without the first so many lines"),
    number("limit", "At most so many: 1 to 1000, 500 unless said"),
    text("level", "At least so urgent: error, warn, info, debug or trace"),
    text(
        "step",
        "Only of this step: its name; with its occurrence, as in pack#2, only of that; undo:pack has what its undo logged",
    ),
    text("follow", "1: a stream of server-sent events, until the run has ended"),
];

/// What a run's handlers logged.
#[derive(Serialize, ToSchema)]
pub(crate) struct Logs {
    items: Vec<LogJson>,
    /// How many lines to ask behind for more.
    next_after: u32,
}

/// The lines, or a stream of them.
pub(crate) async fn logs(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    let after = call.query.number("after", 0..=1_000_000, 0)?;
    let limit = call.query.number("limit", 1..=1000, LINES)?;
    let least = match call.query.one("level") {
        None => LEVELS.len() - 1,
        Some(level) => LEVELS.iter().position(|known| *known == level).ok_or_else(|| {
            let detail = format!("level is one of {}, not {level:?}", LEVELS.join(", "));
            Problem::new(Code::INVALID_ARGUMENT, detail)
        })?,
    };
    let step = call.query.one("step").map(str::to_owned);
    match call.query.one("follow") {
        None | Some("0" | "false") => {}
        Some("1" | "true") => return Ok(follow(call, run, after, Wanted { least, step })),
        Some(other) => {
            let detail = format!("follow is 1 or 0, not {:?}", outlast_core::shorten(other, 40));
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    }
    let lines = call.api.client.logs(run, after + limit).await?;
    let next_after = u32::try_from(lines.len()).unwrap_or(u32::MAX).max(after);
    let wanted = Wanted { least, step };
    let shown = lines.iter().skip(after as usize).filter(|line| wanted.has(line));
    Reply::json(&Logs { items: shown.map(LogJson::new).collect(), next_after })
}

/// Which lines are asked for.
struct Wanted {
    /// How urgent they are at least.
    least: usize,
    step: Option<String>,
}

impl Wanted {
    fn has(&self, line: &LogLine) -> bool {
        LEVELS[..=self.least].contains(&line.level.as_str())
            && self.step.as_deref().is_none_or(|step| is_of(line, step))
    }
}

/// Whoever was cut off says how many lines it had, by the id of the last event.
fn follow(call: Call, run: RunId, after: u32, wanted: Wanted) -> Reply {
    let last = call.headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let follower = Follower {
        signals: call.api.client.store().signals(),
        api: call.api,
        headers: call.headers,
        run,
        after: last.unwrap_or(after),
        wanted,
        is_first: true,
        is_over: false,
        pinged: tokio::time::Instant::now(),
    };
    let body = stream::unfold(follower, |mut follower| async move {
        let chunk = follower.next().await?;
        Some((Ok::<Bytes, Infallible>(chunk.into()), follower))
    });
    Reply::events(Body::from_stream(body))
}

/// One stream of lines.
struct Follower {
    api: Arc<Inner>,
    headers: HeaderMap,
    run: RunId,
    /// How many lines were told.
    after: u32,
    wanted: Wanted,
    signals: broadcast::Receiver<outlast_store::Signal>,
    is_first: bool,
    is_over: bool,
    pinged: tokio::time::Instant,
}

impl Follower {
    /// The next piece; `None` when the stream ends.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_first) {
            return Some("retry: 2000\n\n".to_owned());
        }
        loop {
            if self.is_over || self.api.stopping.is_cancelled() {
                return None;
            }
            match self.look().await {
                Ok(told) if !told.is_empty() => return Some(told),
                Ok(_) => {}
                // Deleted meanwhile: there is nothing more to come.
                Err(Error::UnknownRun { .. }) => return None,
                Err(error) => tracing::debug!(%error, "a look for lines failed"),
            }
            if self.pinged.elapsed() >= PING {
                self.pinged = tokio::time::Instant::now();
                if is_shut(&self.api, &self.headers).await {
                    return None;
                }
                return Some(": here\n\n".to_owned());
            }
            tokio::select! {
                _ = tokio::time::timeout(LOOK_EVERY, self.signals.recv()) => {}
                () = self.api.stopping.cancelled() => return None,
            }
            tokio::time::sleep(GATHER).await;
            self.signals = self.signals.resubscribe();
        }
    }

    /// New lines, and that the run has ended once there are none left.
    async fn look(&mut self) -> Result<String, Error> {
        let client = &self.api.client;
        // Looked at before the lines: what it said last is among them.
        let has_ended = client.status(self.run).await?.status.is_final();
        let lines = client.logs(self.run, self.after.saturating_add(LINES)).await?;
        let mut told = String::new();
        for line in lines.iter().skip(self.after as usize) {
            self.after += 1;
            if self.wanted.has(line)
                && let Ok(data) = serde_json::to_string(&LogJson::new(line))
            {
                told += &format!("id: {}\nevent: log\ndata: {data}\n\n", self.after);
            }
        }
        if told.is_empty() && has_ended {
            self.is_over = true;
            told = format!("id: {}\nevent: end\ndata: {{}}\n\n", self.after);
        }
        Ok(told)
    }
}
