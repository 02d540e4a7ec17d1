//! What a run's handlers logged: line by line, or followed as server-sent events until the run has ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::stream;
use outlast::{Client, Error, LogLine, LogPlace, RunId};
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
use crate::words::parse_number;

/// How often a follower looks without any hint, and how long hints gather.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const GATHER: Duration = Duration::from_millis(250);
/// How often a silent stream says that it is there; and how often it is looked whether the token still opens it.
const PING: Duration = Duration::from_secs(15);
/// The most lines of one look.
const LINES: u32 = 500;

/// The greatest number that JSON holds everywhere.
const MOST: u64 = (1 << 53) - 1;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(crate) const LOGS: &[Param] = &[
    number(
        "after",
        "Behind the line with this number: next_after of the page before, or the id of an event; up to 1048575: without the first so many lines",
    ),
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
    /// What to ask behind for more, also for what is logged later.
    next_after: u64,
    /// Whether there may be more by now: lines that `level` and `step` leave away are counted too.
    has_more: bool,
}

/// The lines, or a stream of them.
pub(crate) async fn logs(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    let after = match call.query.one("after").map(|after| parse_number(after, 0..=MOST)) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(remedy)) => {
            return Err(Problem::new(Code::INVALID_ARGUMENT, format!("after is {remedy}")));
        }
    };
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
        Some("1" | "true") => return follow(call, run, after, Wanted { least, step }).await,
        Some(other) => {
            let detail = format!("follow is 1 or 0, not {:?}", outlast_core::shorten(other, 40));
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    }
    let after = behind(&call.api.client, run, after).await?;
    let lines = call.api.client.logs_after(run, after, limit).await?;
    let next_after = lines.last().map_or(after, LogLine::place).number();
    let has_more = lines.len() == limit as usize;
    let wanted = Wanted { least, step };
    let shown = lines.iter().filter(|line| wanted.has(line));
    Reply::json(&Logs { items: shown.map(LogJson::new).collect(), next_after, has_more })
}

/// The place that a number stands for. Before lines had numbers they were counted, and whoever has such a count goes on there: a
/// stream that was cut off by an upgrade, an older command line.
async fn behind(client: &Client, run: RunId, after: u64) -> Result<LogPlace, Error> {
    match u32::try_from(after).ok().filter(|_| (1..=LogPlace::COUNTS).contains(&after)) {
        None => Ok(LogPlace::of_number(after)),
        Some(count) => Ok(client.logs(run, count).await?.last().map(LogLine::place).unwrap_or_default()),
    }
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

/// Whoever was cut off says which line it had last, by the id of its event.
async fn follow(call: Call, run: RunId, after: u64, wanted: Wanted) -> Answer {
    let last = call.headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let after = behind(&call.api.client, run, last.unwrap_or(after)).await?;
    let follower = Follower {
        signals: call.api.client.store().signals(),
        api: call.api,
        headers: call.headers,
        run,
        after,
        wanted,
        is_first: true,
        is_over: false,
        pinged: tokio::time::Instant::now(),
    };
    let body = stream::unfold(follower, |mut follower| async move {
        let chunk = follower.next().await?;
        Some((Ok::<Bytes, Infallible>(chunk.into()), follower))
    });
    Ok(Reply::events(Body::from_stream(body)))
}

/// One stream of lines.
struct Follower {
    api: Arc<Inner>,
    headers: HeaderMap,
    run: RunId,
    /// The last line that was told, or passed over.
    after: LogPlace,
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
        let mut told = String::new();
        // Where none of so many was wanted, others may be behind them.
        while told.is_empty() && !self.is_over {
            let lines = client.logs_after(self.run, self.after, LINES).await?;
            if lines.is_empty() && !has_ended {
                break;
            }
            for line in &lines {
                self.after = line.place();
                if self.wanted.has(line)
                    && let Ok(data) = serde_json::to_string(&LogJson::new(line))
                {
                    told += &format!("id: {}\nevent: log\ndata: {data}\n\n", self.after.number());
                }
            }
            if lines.is_empty() {
                self.is_over = true;
                told = format!("id: {}\nevent: end\ndata: {{}}\n\n", self.after.number());
            }
        }
        Ok(told)
    }
}
