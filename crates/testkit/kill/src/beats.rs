//! Beats: schedules as frequent as they may be, so that many nodes find the same times due.

use std::time::Duration;

use anyhow::Result;
use outlast::prelude::*;
use outlast::{CatchUp, Client, Overlap, Timestamp};

use crate::plan::{Did, Work};
use crate::play::{self, Planned};

/// The name of the job that every beat starts.
pub(crate) const BEAT: &str = "beat";
/// The time from one beat to the next: schedules take nothing shorter.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Several, because they are in the shards of their names.
const NAMES: [&str; 3] = ["beat-a", "beat-b", "beat-c"];
/// What a beat does.
pub(crate) const WORK: Work = Work { fails: 0, ms: 5, ticket: None };

/// A schedule, and how far it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beat {
    pub(crate) name: String,
    /// Its first time.
    pub(crate) first: Timestamp,
    /// The last time that was acted on.
    pub(crate) last: Option<Timestamp>,
    /// How many runs it says that it started.
    pub(crate) started: u64,
}

pub(crate) fn beat() -> Job<Work, Did, Planned> {
    play::job(BEAT)
}

/// Sets the schedules. Whatever time passes while no node is up has its run all the same.
pub(crate) async fn begin(client: &Client) -> Result<Vec<Beat>> {
    let mut beats = Vec::new();
    for name in NAMES {
        let schedule = Schedule::every(name, EVERY).overlap(Overlap::Allow).catch_up(CatchUp::All);
        let set = client.schedule(schedule, &beat(), &WORK).await?;
        let first = set.card.next_at.unwrap_or_default();
        beats.push(Beat { name: name.to_owned(), first, last: None, started: 0 });
    }
    Ok(beats)
}

/// No more beats come; those that came have their runs.
pub(crate) async fn end(client: &Client) -> Result<()> {
    for name in NAMES {
        client.pause_schedule(name).await?;
    }
    Ok(())
}

/// Waits until two times of every schedule have come and nobody has acted on them: of one alone, nobody can tell
/// whether all are caught up or only the last.
pub(crate) async fn miss_some(client: &Client) -> Result<()> {
    for name in NAMES {
        let next = client.schedule_named(name).await?.card.next_at.unwrap_or_default();
        while client.store().now().await? <= next + EVERY {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

/// How far they came.
pub(crate) async fn look(client: &Client, begun: &[Beat]) -> Result<Vec<Beat>> {
    let mut beats = Vec::new();
    for beat in begun {
        let view = client.schedule_named(&beat.name).await?;
        beats.push(Beat { last: view.last_at, started: view.started, ..beat.clone() });
    }
    Ok(beats)
}
