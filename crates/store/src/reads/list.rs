//! Lists runs, newest or oldest first, page by page.
//!
//! Each shard gives the first that fit, and the first of those are the page. A filter that is not set
//! is null and fits everything. There are a few texts ([`Way`]), so that the most selective filter finds its
//! index; no text is ever made of what a user wrote.

use std::collections::BTreeSet;

use outlast_core::{RunId, ShardCount, Status};
use uuid::Uuid;

use super::views::{shown_status, view, view_columns, with_details};
use crate::rows::{ReadRow, cells, run_columns};
use crate::transitions::{Flight, Place};
use crate::{Cell, Cursor, Filter, Page, RunView, Sql, StoreError, Tx, Type};

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
    let way = way(tx, filter, false, shards).await?;
    let sql = way.list(filter.oldest_first);
    let mut flight = Flight::default();
    // One more than a page tells whether there is a next.
    let wanted = limit.saturating_add(1);
    let places: Vec<Place> = shards_of(filter, shards)
        .map(|shard| flight.add(sql.with(way.values(shard, filter, after, wanted))))
        .collect();
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
    let way = way(tx, &filter, true, shards).await?;
    let sql = way.count();
    let mut flight = Flight::default();
    let places: Vec<Place> = shards_of(&filter, shards)
        .map(|shard| flight.add(sql.with(way.values(shard, &filter, None, cap))))
        .collect();
    let mut answers = flight.send_last(tx).await?;
    let mut found = 0;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        found += row.number::<u64>(0)?;
    }
    Ok(found.min(cap.into()))
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
    /// Those that have not ended.
    Open,
    /// The same, where they are few among many.
    OpenFew,
    /// Those that failed or were cancelled, where they are few.
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
        _ => ENDED_FEW.with(cells![shard, FEW, codes(&filter.statuses)]),
    };
    let places: Vec<Place> = shards_of(filter, shards).map(|shard| flight.add(look(shard))).collect();
    let mut answers = flight.send(tx).await?;
    let mut found = 0;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        found += row.number::<u32>(0)?;
    }
    Ok(if found < FEW { few } else { way })
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
    let statuses = if filter.statuses.is_empty() { &Status::ALL[..] } else { &filter.statuses[..] };
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
        codes(statuses),
        tags.len() as i64,
        Cell::Texts(tags.into_iter().collect()),
        BETWEEN,
        limit,
    ]
}

pub(super) static STATEMENTS: &[&Sql] = &[
    &LIST,
    &LIST_DEFINITION,
    &LIST_QUEUE,
    &LIST_CHILDREN,
    &LIST_KEY,
    &LIST_TAG,
    &LIST_OPEN,
    &LIST_OPEN_FEW,
    &LIST_ENDED_FEW,
    &LIST_OLDEST,
    &LIST_DEFINITION_OLDEST,
    &LIST_QUEUE_OLDEST,
    &LIST_CHILDREN_OLDEST,
    &LIST_KEY_OLDEST,
    &LIST_TAG_OLDEST,
    &LIST_OPEN_OLDEST,
    &LIST_OPEN_FEW_OLDEST,
    &LIST_ENDED_FEW_OLDEST,
    &COUNT,
    &COUNT_DEFINITION,
    &COUNT_QUEUE,
    &COUNT_CHILDREN,
    &COUNT_KEY,
    &COUNT_TAG,
    &COUNT_OPEN,
    &COUNT_OPEN_FEW,
    &COUNT_ENDED_FEW,
    &OPEN_FEW,
    &ENDED_FEW,
];

static OPEN_FEW: Sql = Sql::new(
    "open_few",
    "select count(*) from (select 1 from outlast.agenda as o where o.shard = {p1} limit {p2}) as c",
)
.takes(&[Type::Int, Type::Int]);

static ENDED_FEW: Sql = Sql::new(
    "ended_few",
    "select count(*) from (select 1 from outlast.results as o
                            where o.shard = {p1} and o.status {in:p3} limit {p2}) as c",
)
.takes(&[Type::Int, Type::Int, Type::Ints]);

/// The runs that fit. `$from`: where the look begins, and which index SQLite has to use where it would choose another.
/// `$beyond`: the order. `$tags`: which index SQLite has to use for them.
macro_rules! fitting {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal, $beyond:literal) => {
        concat!(
            " from ",
            $from,
            $agenda,
            " outlast.agenda as a on a.shard = r.shard and a.id = r.id
              left join outlast.results as z on z.shard = r.shard and z.run = r.id
             where r.shard = {p1} and (r.created_at, r.id) ",
            $beyond,
            " ({p2}, {p3}) ",
            $which,
            " and ({p4} is null or r.tenant = {p4}) and ({p5} is null or r.definition = {p5})
              and ({p6} is null or r.queue = {p6}) and ({p7} is null or r.key = {p7})
              and ({p8} is null or r.parent = {p8}) and ({p9} is null or r.created_at >= {p9})
              and ({p10} is null or r.created_at < {p10}) and coalesce(z.status, ",
            shown_status!(),
            ") {in:p11}
              and ({p12} = 0 or {p12} = (select count(*) from outlast.tags as t ",
            $tags,
            "       where t.shard = r.shard and t.run = r.id and t.name || {p14} || t.value {in:p13}))"
        )
    };
}

/// `$by`: the order.
macro_rules! list_text {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal, $beyond:literal, $by:literal) => {
        concat!(
            "select ",
            run_columns!(),
            view_columns!(),
            fitting!($from, $agenda, $which, $tags, $beyond),
            " order by r.created_at ",
            $by,
            ", r.id ",
            $by,
            " limit {p15}"
        )
    };
}

macro_rules! count_text {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal) => {
        concat!(
            "select count(*) from (select 1",
            fitting!($from, $agenda, $which, $tags, "<"),
            " limit {p15}) as c"
        )
    };
}

/// What every text takes, and behind it the name and the value of the tag by which runs are found.
const TAG_VALUES: &[Type] = &[
    Type::Int,
    Type::Int,
    Type::Id,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Ints,
    Type::Int,
    Type::Texts,
    Type::Text,
    Type::Int,
    Type::Text,
    Type::Text,
];
const VALUES: &[Type] = TAG_VALUES.split_at(TAG_VALUES.len() - 2).0;

/// Newest first, oldest first and counted, of one way: from where on PostgreSQL, from where on SQLite, how the agenda is
/// joined, what finds the runs, and what values it takes.
macro_rules! texts {
    ($newest:ident $oldest:ident $counted:ident, $names:tt, $from:literal, $sqlite:literal, $agenda:literal, $which:literal, $takes:ident $(, $index:literal)?) => {
        texts!(@one $newest, $names, 0, $takes, list_text!($from, $agenda, $which, "", "<", "desc"), list_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run", "<", "desc") $(, $index)?);
        texts!(@one $oldest, $names, 1, $takes, list_text!($from, $agenda, $which, "", ">", "asc"), list_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run", ">", "asc") $(, $index)?);
        texts!(@one $counted, $names, 2, $takes, count_text!($from, $agenda, $which, ""), count_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run"));
    };
    (@one $name:ident, $names:tt, $nth:tt, $takes:ident, $text:expr, $sqlite:expr $(, $index:literal)?) => {
        static $name: Sql = Sql::new($names[$nth], $text).on_sqlite($sqlite).takes($takes)$(.by($index))?;
    };
}

texts!(LIST LIST_OLDEST COUNT, ["list", "list_oldest", "count"],
    "outlast.runs as r ", "outlast.runs as r ", "left join", "", VALUES, "runs_by_time");
texts!(LIST_DEFINITION LIST_DEFINITION_OLDEST COUNT_DEFINITION, ["list_definition", "list_definition_oldest", "count_definition"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_definition ", "left join", "and r.definition = {p5}", VALUES, "runs_by_definition");
texts!(LIST_QUEUE LIST_QUEUE_OLDEST COUNT_QUEUE, ["list_queue", "list_queue_oldest", "count_queue"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_queue ", "left join", "and r.queue = {p6} and r.queue <> 'default'", VALUES, "runs_by_queue");
texts!(LIST_CHILDREN LIST_CHILDREN_OLDEST COUNT_CHILDREN, ["list_children", "list_children_oldest", "count_children"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_parent ", "left join", "and r.parent = {p8}", VALUES, "runs_by_parent");
texts!(LIST_KEY LIST_KEY_OLDEST COUNT_KEY, ["list_key", "list_key_oldest", "count_key"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_key ", "left join", "and r.key = {p7}", VALUES, "runs_by_key");
texts!(LIST_OPEN LIST_OPEN_OLDEST COUNT_OPEN, ["list_open", "list_open_oldest", "count_open"],
    "outlast.runs as r ", "outlast.runs as r ", "join", "", VALUES);
// What comes first is looked at first: SQLite keeps the order of a cross join, PostgreSQL plans a subquery with an offset by itself.
// Without the second one it walked along the time, and went through all of the first for each run.
texts!(LIST_TAG LIST_TAG_OLDEST COUNT_TAG, ["list_tag", "list_tag_oldest", "count_tag"],
    "(select g.run from outlast.tags as g where g.shard = {p1} and g.name = {p16} and g.value = {p17} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.tags as y cross join outlast.runs as r on r.id = y.run and y.shard = {p1} and y.name = {p16} and y.value = {p17} ",
    "left join", "", TAG_VALUES);
texts!(LIST_ENDED_FEW LIST_ENDED_FEW_OLDEST COUNT_ENDED_FEW, ["list_ended_few", "list_ended_few_oldest", "count_ended_few"],
    "(select o.run from outlast.results as o where o.shard = {p1} and o.status {in:p11} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.results as y indexed by outlast.results_by_status
      cross join outlast.runs as r on r.id = y.run and y.shard = {p1} and y.status {in:p11} ",
    "left join", "", VALUES);
texts!(LIST_OPEN_FEW LIST_OPEN_FEW_OLDEST COUNT_OPEN_FEW, ["list_open_few", "list_open_few_oldest", "count_open_few"],
    "(select o.id as run from outlast.agenda as o where o.shard = {p1} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.agenda as y cross join outlast.runs as r on r.id = y.id and y.shard = {p1} ",
    "join", "", VALUES);
