//! Lists runs, newest or oldest first, page by page.
//!
//! Each shard gives the first that fit, and the first of those are the page. A filter that is not set
//! is null and fits everything. There are a few texts, so that the most selective filter finds its
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
    let mut flight = Flight::default();
    let sql = text_for(filter);
    // One more than a page tells whether there is a next.
    let wanted = limit.saturating_add(1);
    let places: Vec<Place> = shards_of(filter, shards)
        .map(|shard| flight.add(sql.with(values(shard, filter, after, wanted))))
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
    let [_, _, sql] = texts_for(&filter);
    let mut flight = Flight::default();
    let places: Vec<Place> = shards_of(&filter, shards)
        .map(|shard| flight.add(sql.with(values(shard, &filter, None, cap))))
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

fn text_for(filter: &Filter) -> &'static Sql {
    let [newest, oldest, _] = texts_for(filter);
    if filter.oldest_first { oldest } else { newest }
}

/// Newest first, oldest first, counted.
fn texts_for(filter: &Filter) -> [&'static Sql; 3] {
    let open = !filter.statuses.is_empty() && !filter.statuses.iter().any(|status| status.is_final());
    match filter {
        Filter { parent: Some(_), .. } => [&LIST_CHILDREN, &LIST_CHILDREN_OLDEST, &COUNT_CHILDREN],
        _ if open => [&LIST_OPEN, &LIST_OPEN_OLDEST, &COUNT_OPEN],
        Filter { definition: Some(_), .. } => [&LIST_DEFINITION, &LIST_DEFINITION_OLDEST, &COUNT_DEFINITION],
        _ => [&LIST, &LIST_OLDEST, &COUNT],
    }
}

fn values(shard: u16, filter: &Filter, after: Option<Cursor>, limit: u32) -> Vec<Cell> {
    let (time, id) = match after {
        Some(cursor) => (cursor.created_at.micros(), cursor.id.uuid()),
        None if filter.oldest_first => (i64::MIN, Uuid::nil()),
        None => (i64::MAX, Uuid::max()),
    };
    let statuses = if filter.statuses.is_empty() { &Status::ALL[..] } else { &filter.statuses[..] };
    let statuses = statuses.iter().map(|status| i64::from(status.code())).collect();
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
        Cell::Ints(statuses),
        tags.len() as i64,
        Cell::Texts(tags.into_iter().collect()),
        BETWEEN,
        limit,
    ]
}

pub(super) static STATEMENTS: &[&Sql] = &[
    &LIST,
    &LIST_DEFINITION,
    &LIST_CHILDREN,
    &LIST_OPEN,
    &LIST_OLDEST,
    &LIST_DEFINITION_OLDEST,
    &LIST_CHILDREN_OLDEST,
    &LIST_OPEN_OLDEST,
    &COUNT,
    &COUNT_DEFINITION,
    &COUNT_CHILDREN,
    &COUNT_OPEN,
];

/// The runs that fit, from `from` on. `$beyond`: the order. `$runs`, `$tags`: which index SQLite has to use, where it
/// would choose another for it.
macro_rules! fitting {
    ($agenda:literal, $which:literal, $runs:literal, $tags:literal, $beyond:literal) => {
        concat!(
            " from outlast.runs as r ",
            $runs,
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
    ($agenda:literal, $which:literal, $runs:literal, $tags:literal, $beyond:literal, $by:literal) => {
        concat!(
            "select ",
            run_columns!(),
            view_columns!(),
            fitting!($agenda, $which, $runs, $tags, $beyond),
            " order by r.created_at ",
            $by,
            ", r.id ",
            $by,
            " limit {p15}"
        )
    };
}

const VALUES: &[Type] = &[
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
];

macro_rules! list_sql {
    ($name:literal, $agenda:literal, $which:literal, $runs:literal, $beyond:literal, $by:literal) => {
        Sql::new($name, list_text!($agenda, $which, "", "", $beyond, $by))
            .on_sqlite(list_text!($agenda, $which, $runs, "indexed by outlast.tags_by_run", $beyond, $by))
            .takes(VALUES)
    };
}

macro_rules! count_text {
    ($agenda:literal, $which:literal, $runs:literal, $tags:literal) => {
        concat!(
            "select count(*) from (select 1",
            fitting!($agenda, $which, $runs, $tags, "<"),
            " limit {p15}) as c"
        )
    };
}

macro_rules! count_sql {
    ($name:literal, $agenda:literal, $which:literal, $runs:literal) => {
        Sql::new($name, count_text!($agenda, $which, "", ""))
            .on_sqlite(count_text!($agenda, $which, $runs, "indexed by outlast.tags_by_run"))
            .takes(VALUES)
    };
}

static COUNT: Sql = count_sql!("count", "left join", "", "");
static COUNT_DEFINITION: Sql = count_sql!(
    "count_definition",
    "left join",
    "and r.definition = {p5}",
    "indexed by outlast.runs_by_definition "
);
static COUNT_CHILDREN: Sql =
    count_sql!("count_children", "left join", "and r.parent = {p8}", "indexed by outlast.runs_by_parent ");
static COUNT_OPEN: Sql = count_sql!("count_open", "join", "", "");

static LIST: Sql = list_sql!("list", "left join", "", "", "<", "desc").by("runs_by_time");
static LIST_OLDEST: Sql = list_sql!("list_oldest", "left join", "", "", ">", "asc").by("runs_by_time");

macro_rules! list_definition {
    ($name:literal, $beyond:literal, $by:literal) => {
        list_sql!(
            $name,
            "left join",
            "and r.definition = {p5}",
            "indexed by outlast.runs_by_definition ",
            $beyond,
            $by
        )
        .by("runs_by_definition")
    };
}

static LIST_DEFINITION: Sql = list_definition!("list_definition", "<", "desc");
static LIST_DEFINITION_OLDEST: Sql = list_definition!("list_definition_oldest", ">", "asc");

macro_rules! list_children {
    ($name:literal, $beyond:literal, $by:literal) => {
        list_sql!(
            $name,
            "left join",
            "and r.parent = {p8}",
            "indexed by outlast.runs_by_parent ",
            $beyond,
            $by
        )
        .by("runs_by_parent")
    };
}

static LIST_CHILDREN: Sql = list_children!("list_children", "<", "desc");
static LIST_CHILDREN_OLDEST: Sql = list_children!("list_children_oldest", ">", "asc");

// Only unfinished runs are asked for, which may be few among many: whoever plans may begin with those.
static LIST_OPEN: Sql = list_sql!("list_open", "join", "", "", "<", "desc");
static LIST_OPEN_OLDEST: Sql = list_sql!("list_open_oldest", "join", "", "", ">", "asc");
