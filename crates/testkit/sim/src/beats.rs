//! A schedule, which starts one run for each of its times whoever is up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outlast::prelude::*;
use outlast::{CatchUp, Overlap, Timestamp};
use outlast_store::StoreError;

use crate::check::Row;
use crate::play::Stage;
use crate::world::World;

/// The name of the schedule, and of the job that it starts.
pub(crate) const BEAT: &str = "beat";
/// From one of its times to the next.
const EVERY: Duration = Duration::from_secs(3);
/// How long people wait before they ask again.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) fn beat() -> Job<(), u64, AnyError> {
    Job::new(BEAT, |job: JobCtx, (): ()| async move {
        let body = (format!("{BEAT}-{}/0", job.run_id()), BEAT.to_owned(), false, job.attempt());
        Ok(job.state::<Stage>().run(&body, 0, 0).await)
    })
}

/// Sets the schedule. What passes while no node is up is caught up with.
pub(crate) async fn begin(world: &Arc<World>, rng: &mut Rng) {
    let set = || Schedule::every(BEAT, EVERY).overlap(Overlap::Allow).catch_up(CatchUp::All);
    loop {
        let asked =
            world.ask(rng, |client| async move { client.schedule(set(), &beat(), &()).await.is_ok() });
        if asked.await == Some(true) {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// No more of its times count; those that did have their runs.
pub(crate) async fn end(world: &Arc<World>, rng: &mut Rng) {
    loop {
        let asked = world.ask(rng, |client| async move { client.pause_schedule(BEAT).await.is_ok() });
        if asked.await == Some(true) {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Each time from the first to the last that was acted on has one run, and there are no others.
pub(crate) async fn check(world: &World, rows: &[Row]) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    for schedule in world.store.schedules().await? {
        let beats: Vec<&Row> = rows.iter().filter(|row| row.definition == BEAT).collect();
        for row in beats.iter().filter(|row| row.status != Some(Status::Completed)) {
            wrong.push(format!("{:?} of the schedule is {:?}: {:?}", row.key, row.status, row.error));
        }
        if schedule.started != beats.len() as u64 {
            wrong.push(format!(
                "the schedule started {} runs, and there are {}",
                schedule.started,
                beats.len()
            ));
        }
        let mut missing: BTreeSet<String> = BTreeSet::new();
        let mut time = schedule.last_at;
        while let Some(last) = time.filter(|_| missing.len() < beats.len()) {
            missing.insert(format!("{BEAT}:{last}"));
            time = Some(Timestamp::from_micros(last.micros() - EVERY.as_micros() as i64));
        }
        for row in beats {
            if !row.key.as_ref().is_some_and(|key| missing.remove(key)) {
                wrong.push(format!(
                    "{:?} of the schedule has two runs, or a time before it has none",
                    row.key
                ));
            }
        }
    }
    Ok(wrong)
}
