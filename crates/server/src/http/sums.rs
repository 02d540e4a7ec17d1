//! Sums of what has ended and of how long queues were, as far as whoever asks may see them.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast::Timestamp;
use outlast_store::{DepthAsk, DepthPoint, SeriesAsk, SeriesPoint};

use super::problem::Problem;
use super::route::Call;

/// The sums from the beginning of that span on in which `range` ago was.
pub(super) async fn points(
    call: &Call,
    range: Duration,
    step: Duration,
    span: Duration,
) -> Result<Vec<SeriesPoint>, Problem> {
    let store = call.api.client.store();
    let now = store.now().await?.micros();
    let mut points: BTreeMap<Timestamp, SeriesPoint> = BTreeMap::new();
    for queue in call.caller.summed(call.query.one("queue"))? {
        let ask = SeriesAsk {
            tenant: call.caller.tenant.clone(),
            definition: call.query.one("def").map(str::to_owned),
            queue,
            from: Timestamp::from_micros(floor(now - micros(range), micros(span))),
            to: Timestamp::from_micros(now),
            step,
        };
        for found in store.series(&ask).await? {
            let point = points
                .entry(found.at)
                .or_insert_with(|| SeriesPoint { at: found.at, ..SeriesPoint::default() });
            point.completed += found.completed;
            point.failed += found.failed;
            point.cancelled += found.cancelled;
            point.times.extend(found.times);
            point.waits.extend(found.waits);
        }
    }
    Ok(points.into_values().collect())
}

/// How long queues were. What all tenants share is not told of one, and queues know no definitions.
pub(super) async fn depths(call: &Call, range: Duration, step: Duration) -> Result<Vec<DepthPoint>, Problem> {
    if call.caller.tenant.is_some() || call.query.one("def").is_some() {
        return Ok(Vec::new());
    }
    let store = call.api.client.store();
    let now = store.now().await?.micros();
    let mut depths: BTreeMap<Timestamp, DepthPoint> = BTreeMap::new();
    for queue in call.caller.summed(call.query.one("queue"))? {
        let ask = DepthAsk {
            queue,
            from: Timestamp::from_micros(floor(now - micros(range), micros(step))),
            to: Timestamp::from_micros(now),
            step,
        };
        for found in store.depths(&ask).await? {
            let none = DepthPoint { at: found.at, due: 0, running: 0, oldest: Duration::ZERO };
            let depth = depths.entry(found.at).or_insert(none);
            depth.due += found.due;
            depth.running += found.running;
            depth.oldest = depth.oldest.max(found.oldest);
        }
    }
    Ok(depths.into_values().collect())
}

pub(super) fn floor(time: i64, step: i64) -> i64 {
    time - time.rem_euclid(step.max(1))
}

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
