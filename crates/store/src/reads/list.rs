//! Lists runs, newest or oldest first, page by page.
//!
//! Each shard (and each queue, where several are meant) gives the first that fit, and the first of those are the page. A filter that is not set
//! is null and fits everything. There are a few texts ([`Way`], in `list_texts.rs`), so that the most selective filter finds its
//! index; no text is ever made of what a user wrote.

use std::collections::BTreeSet;

use outlast_core::{NodeId, RunId, ShardCount, Status};
use uuid::Uuid;

use super::list_texts::*;
use super::views::{view, with_details};
use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, Place};
use crate::{Cell, Cursor, Filter, Page, RunView, Sql, StoreError, Tx};

/// Stands between a tag's name and value; neither can hold it.
const BETWEEN: &str = "\u{1f}";

/// The runs that fit `filter`, after the cursor, at most `limit`.
pub(crate) async fn list(
    tx: &mut dyn Tx,
    filter: &Filter,
    after: Option<Cursor>,
    limit: u32,
    shards: ShardCount,
) -> Result<Page, StoreError> {
    let (mut flight, mut places) = (Flight::default(), Vec::<Place>::new());
    // One more than a page tells whether there is a next.
    let wanted = limit.saturating_add(1);
    for filter in &by_queue(filter) {
        let way = way(tx, filter, false, shards).await?;
        let sql = way.list(filter.oldest_first);
        places.extend(
            shards_of(filter, shards)
                .map(|shard| flight.add(sql.with(way.values(shard, filter, after, wanted)))),
        );
    }
    let mut answers = flight.send(tx).await?;

    let rows = places.into_iter().flat_map(|place| answers.take(place));
    let views = rows.filter_map(|row| view(&row).transpose()).collect::<Result<Vec<RunView>, _>>()?;
    let mut views: Vec<RunView> = views;
    views.sort_by_key(|view| (view.record.created_at, view.record.id));
    if !filter.oldest_first {
        views.reverse();
    }
    let more = views.len() > limit as usize;
    views.truncate(limit as usize);

    let last = views.last().filter(|_| more);
    let next = last.map(|view| Cursor { created_at: view.record.created_at, id: view.record.id });
    Ok(Page { runs: with_details(tx, views.into_iter().map(Ok)).await?, next })
}

/// How many runs fit `filter`; no more than `cap` are counted.
pub(crate) async fn count(
    tx: &mut dyn Tx,
    filter: &Filter,
    cap: u32,
    shards: ShardCount,
) -> Result<u64, StoreError> {
    // In one order all come behind the first place.
    let filter = Filter { oldest_first: false, ..filter.clone() };
    let (mut flight, mut places) = (Flight::default(), Vec::<Place>::new());
    for filter in &by_queue(&filter) {
        let way = way(tx, filter, true, shards).await?;
        let sql = way.count();
        places.extend(
            shards_of(filter, shards).map(|shard| flight.add(sql.with(way.values(shard, filter, None, cap)))),
        );
    }
    let mut answers = flight.send_last(tx).await?;
    let mut found = 0;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        found += row.number::<u64>(0)?;
    }
    Ok(found.min(cap.into()))
}

/// A filter for each queue where several are meant, so that each finds its runs by the index that fits it.
fn by_queue(filter: &Filter) -> Vec<Filter> {
    if filter.queues.is_empty() {
        return vec![filter.clone()];
    }
    let is_meant = |queue: &&String| filter.queue.as_ref().is_none_or(|one| one == *queue);
    let meant: BTreeSet<&String> = filter.queues.iter().filter(is_meant).collect();
    let one = |queue: &String| Filter { queue: Some(queue.clone()), queues: Vec::new(), ..filter.clone() };
    meant.into_iter().map(one).collect()
}

/// A key of a known tenant and definition lives in one shard; everything else may be in any.
fn shards_of(filter: &Filter, shards: ShardCount) -> std::ops::Range<u16> {
    match (&filter.tenant, &filter.definition, &filter.key) {
        (Some(tenant), Some(definition), Some(key)) => {
            let shard = outlast_core::shard_of_key(tenant, definition, key, shards);
            shard..shard + 1
        }
        _ => 0..shards.max(1),
    }
}

/// The queue of runs for which nobody named one. The index of queues leaves it out.
const DEFAULT_QUEUE: &str = "default";

/// Runs in the states that are asked for are looked up by those as long as there are no more than this: more are found soon by
/// walking along the time.
const FEW: u32 = 2_000;

/// Which of the filters finds the runs; all others only leave some out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Those that one run started.
    Children,
    /// Those with a key.
    Key,
    /// Those with a tag.
    Tag,
    /// Those that a node has in hand.
    Node,
    /// Those that do not get on, where they are few.
    StuckFew,
    /// Those that have not ended.
    Open,
    /// The same, where they are few among many.
    OpenFew,
    /// Those that ended (so, or since then), where they are few.
    EndedFew,
    /// Those of a definition.
    Definition,
    /// Those of a queue that somebody named.
    Queue,
    /// All, along the time.
    Time,
}

/// The way to the runs of a filter. Whoever only counts needs no order, and begins with the fewer ones in any case.
async fn way(tx: &mut dyn Tx, filter: &Filter, counts: bool, shards: ShardCount) -> Result<Way, StoreError> {
    let are = |fits: fn(&Status) -> bool| !filter.statuses.is_empty() && filter.statuses.iter().all(fits);
    let has_open = are(|status| !status.is_final());
    let has_bad = are(|status| matches!(status, Status::Failed | Status::Cancelled));
    let along = match filter {
        Filter { queue: Some(queue), .. } if queue != DEFAULT_QUEUE => Way::Queue,
        Filter { definition: Some(_), .. } => Way::Definition,
        _ => Way::Time,
    };
    let (way, few) = match filter {
        Filter { parent: Some(_), .. } => return Ok(Way::Children),
        Filter { key: Some(_), .. } => return Ok(Way::Key),
        Filter { tags, .. } if !tags.is_empty() => return Ok(Way::Tag),
        Filter { node: Some(_), .. } => return Ok(Way::Node),
        Filter { stuck_since: Some(_), .. } if counts => return Ok(Way::StuckFew),
        Filter { stuck_since: Some(_), .. } => (Way::Open, Way::StuckFew),
        // Those that have not ended have no such time.
        Filter { ended_since: Some(_), .. } if counts => return Ok(Way::EndedFew),
        Filter { ended_since: Some(_), .. } => (along, Way::EndedFew),
        _ if has_open && counts => return Ok(Way::OpenFew),
        _ if has_open && along == Way::Queue => (along, Way::OpenFew),
        _ if has_open => (Way::Open, Way::OpenFew),
        _ if has_bad && counts && along == Way::Time => return Ok(Way::EndedFew),
        _ if has_bad => (along, Way::EndedFew),
        _ => return Ok(along),
    };
    let mut flight = Flight::default();
    let look = |shard: u16| match few {
        Way::OpenFew => OPEN_FEW.with(cells![shard, FEW]),
        Way::StuckFew => STUCK_FEW.with(cells![shard, FEW, filter.stuck_since]),
        _ => ENDED_FEW.with(cells![shard, FEW, codes(asked(filter)), filter.ended_since.unwrap_or_default()]),
    };
    let places: Vec<Place> = shards_of(filter, shards).map(|shard| flight.add(look(shard))).collect();
    let mut answers = flight.send(tx).await?;
    let mut found = 0;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        found += row.number::<u32>(0)?;
    }
    Ok(if found < FEW { few } else { way })
}

/// The statuses that fit.
fn asked(filter: &Filter) -> &[Status] {
    if filter.statuses.is_empty() { &Status::ALL } else { &filter.statuses }
}

fn codes(statuses: &[Status]) -> Cell {
    Cell::Ints(statuses.iter().map(|status| i64::from(status.code())).collect())
}

impl Way {
    fn list(self, oldest_first: bool) -> &'static Sql {
        let [newest, oldest] = match self {
            Way::Children => [&LIST_CHILDREN, &LIST_CHILDREN_OLDEST],
            Way::Key => [&LIST_KEY, &LIST_KEY_OLDEST],
            Way::Tag => [&LIST_TAG, &LIST_TAG_OLDEST],
            Way::Node => [&LIST_NODE, &LIST_NODE_OLDEST],
            Way::StuckFew => [&LIST_STUCK_FEW, &LIST_STUCK_FEW_OLDEST],
            Way::Open => [&LIST_OPEN, &LIST_OPEN_OLDEST],
            Way::OpenFew => [&LIST_OPEN_FEW, &LIST_OPEN_FEW_OLDEST],
            Way::EndedFew => [&LIST_ENDED_FEW, &LIST_ENDED_FEW_OLDEST],
            Way::Definition => [&LIST_DEFINITION, &LIST_DEFINITION_OLDEST],
            Way::Queue => [&LIST_QUEUE, &LIST_QUEUE_OLDEST],
            Way::Time => [&LIST, &LIST_OLDEST],
        };
        if oldest_first { oldest } else { newest }
    }

    fn count(self) -> &'static Sql {
        match self {
            Way::Children => &COUNT_CHILDREN,
            Way::Key => &COUNT_KEY,
            Way::Tag => &COUNT_TAG,
            Way::Node => &COUNT_NODE,
            Way::StuckFew => &COUNT_STUCK_FEW,
            Way::Open => &COUNT_OPEN,
            Way::OpenFew => &COUNT_OPEN_FEW,
            Way::EndedFew => &COUNT_ENDED_FEW,
            Way::Definition => &COUNT_DEFINITION,
            Way::Queue => &COUNT_QUEUE,
            Way::Time => &COUNT,
        }
    }

    fn values(self, shard: u16, filter: &Filter, after: Option<Cursor>, limit: u32) -> Vec<Cell> {
        let mut values = values(shard, filter, after, limit);
        if let (Way::Tag, Some((name, value))) = (self, filter.tags.first()) {
            values.extend(cells![name.clone(), value.clone()]);
        }
        values
    }
}

fn values(shard: u16, filter: &Filter, after: Option<Cursor>, limit: u32) -> Vec<Cell> {
    let (time, id) = match after {
        Some(cursor) => (cursor.created_at.micros(), cursor.id.uuid()),
        None if filter.oldest_first => (i64::MIN, Uuid::nil()),
        None => (i64::MAX, Uuid::max()),
    };
    let tags: BTreeSet<String> =
        filter.tags.iter().map(|(name, value)| [name, BETWEEN, value].concat()).collect();
    cells![
        shard,
        time,
        id,
        filter.tenant.clone(),
        filter.definition.clone(),
        filter.queue.clone(),
        filter.key.clone(),
        filter.parent.map(RunId::uuid),
        filter.since,
        filter.until,
        codes(asked(filter)),
        tags.len() as i64,
        Cell::Texts(tags.into_iter().collect()),
        BETWEEN,
        limit,
        filter.node.map(NodeId::uuid),
        filter.version.map(i64::from),
        filter.owner.clone(),
        filter.stuck_since,
        filter.ended_since,
    ]
}
