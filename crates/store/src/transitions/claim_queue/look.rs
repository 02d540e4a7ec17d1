//! Who stands in line and is due: those at its head, or of every group the first few.

use std::collections::{BTreeSet, HashSet};

use outlast_core::{Candidate, QueueRules, ShardCount, Timestamp};

use super::Line;
use super::floors::{Firsts, Floors};
use crate::rows::{ReadRow, cells};
use crate::transitions::claim::LEAST_URGENT;
use crate::transitions::flight::{Answers, Flight, Place};
use crate::{Cell, Mark, QueueClaim, Row, Sql, StoreError, Tx, Type};

/// So many more than can go, in case somebody has locked some.
const SPARE: u32 = 8;
/// The fewest groups that one claim goes through before it gives up for now, and how many for each that it could take.
const WALK: (u32, u32) = (1000, 4);
/// How far a claim looks for runs without a group among those with one, beside what it could take: from the head of the
/// line, and once more from where the claim before it stopped.
const LOOSE: u32 = 1000;
/// The fewest groups that come into question where one claim could take few: most may not be able to go.
const GROUPS: u32 = 64;
/// How far a claim looks for those that were there before the queue was asked to drain.
const DRAIN: u32 = 20_000;

/// Who came into question.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) rows: Vec<Row>,
    /// Whether others may be due behind them.
    pub(super) is_cut: bool,
    /// Whether somebody of a group without a free slot is due.
    pub(super) is_full: bool,
    /// How far a walk came that did not come to the end.
    pub(super) upto: Option<String>,
    /// From where the next claim looks for runs without a group, where this one looked for them.
    pub(super) loose: Option<Mark>,
    pub(super) firsts: Firsts,
}

/// Where the heads of the lines stand in a flight.
pub(super) struct Heads(Vec<Place>, usize);

/// Adds a look at the head of the line, in the order of the line: half as many again as could go, where some may
/// have to wait for their groups. Groups that go in turn, if that is known, are asked one by one later.
pub(super) fn add_heads(
    flight: &mut Flight,
    ask: &QueueClaim,
    rules: Option<&QueueRules>,
    shards: ShardCount,
    floors: &Floors,
) -> Heads {
    let most = match rules {
        Some(rules) if rules.fair => return Heads(Vec::new(), 0),
        Some(rules) if !rules.is_grouped() => ask.limit,
        _ => ask.limit + ask.limit / 2 + SPARE,
    };
    let line = |shard| flight.each(&QUEUE_LINE, floors.lines(), cells![shard, &*ask.queue, codes(ask), most]);
    Heads((0..shards).filter_map(line).collect(), most as usize)
}

/// Adds the same of a queue that is worked off: those that were started before, and children, for which somebody may wait
/// who was. As nobody else may go, all of them come to the head some day.
pub(super) fn add_drain(
    flight: &mut Flight,
    ask: &QueueClaim,
    since: Timestamp,
    shards: ShardCount,
) -> Heads {
    let most = ask.limit + ask.limit / 2 + SPARE;
    let line = |shard| {
        let asked = cells![shard, &*ask.queue, codes(ask), most, since, DRAIN];
        flight.each(&QUEUE_DRAIN, priorities(), asked)
    };
    Heads((0..shards).filter_map(line).collect(), most as usize)
}

/// Those at the head of the line.
pub(super) fn found_heads(answers: &mut Answers, Heads(places, most): Heads) -> Result<Looked, StoreError> {
    // Who was not asked for may be there.
    let (is_cut, firsts) = match places.is_empty() {
        true => (true, Firsts::default()),
        false => (false, Firsts::of_all()),
    };
    let mut looked = Looked { is_cut, firsts, ..Looked::default() };
    for place in places {
        let mut rows = answers.take(place);
        looked.is_cut |= rows.len() >= most;
        // The less urgent of somebody who has more urgent ones behind the cut would pass them.
        rows.truncate(most);
        for row in &rows {
            looked.firsts.found(row.number(2)?, row.opt_int(3)?);
        }
        if let Some(last) = rows.last().filter(|_| rows.len() >= most) {
            looked.firsts.cut_behind(last.number(2)?);
        }
        looked.rows.append(&mut rows);
    }
    Ok(looked)
}

/// Goes from group to group, beginning behind the one that was served last, and looks at the first few of each that
/// has a free slot.
pub(super) async fn by_turns(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    line: &Line,
    room: u32,
    shards: ShardCount,
) -> Result<Looked, StoreError> {
    let slots = line.admission.rules.slots_per_group();
    let full = line.admission.held_by_group.iter().filter(|(_, held)| **held >= slots);
    let full: HashSet<&str> = full.map(|(group, _)| group.as_str()).collect();
    let most = room + SPARE;
    let turns = most.max(GROUPS);
    let walk = WALK.0.max(turns.saturating_mul(WALK.1)).saturating_add(full.len() as u32);

    let mut flight = Flight::default();
    let (mut walks, mut loose) = (Vec::new(), Vec::new());
    for shard in 0..shards {
        let asked = cells![shard, &*ask.queue, turns + full.len() as u32 + 1, walk];
        walks.extend(
            flight
                .each(&QUEUE_WALK, segments(&line.served, line.floors()), asked)
                .map(|place| (shard, place)),
        );
        for from in BTreeSet::from([Mark::default(), line.loose]) {
            let Mark { at: due, run: id } = from;
            let asked = cells![shard, &*ask.queue, codes(ask), most, room + LOOSE, due, id];
            loose.extend(flight.each(&QUEUE_LOOSE, line.floors().lines(), asked).map(|place| (from, place)));
        }
    }
    let mut answers = flight.send(tx).await?;
    let mut looked = Looked::default();
    let mut groups = Vec::new();
    for (shard, place) in walks {
        let (mut names, mut ended): (Vec<(i64, String)>, _) = (Vec::new(), None);
        for row in answers.take(place) {
            let (priority, name, is_due) = (row.int(0)?, row.text(1)?, row.int(2)? == 1);
            if !is_due {
                // Behind it come those before the one that was served last: it is not their turn yet.
                (looked.upto, ended) = (Some(name), Some(priority));
            } else if names.len() >= turns as usize {
                looked.upto = names.last().map(|(_, last)| last.clone());
            } else if full.contains(&*name) {
                looked.is_full = true;
            } else if ended != Some(priority) {
                names.push((priority, name));
            }
        }
        groups.push((shard, names));
    }
    let mut next: Option<Mark> = None;
    let mut stays = false;
    for (from, place) in loose {
        for row in answers.take(place) {
            // The last that was looked at, where others are behind it.
            if from == line.loose && row.int(COLUMNS)? == i64::from(room + LOOSE) {
                let end = Mark { at: row.opt_time(3)?.unwrap_or_default(), run: row.run(0)? };
                next = Some(next.map_or(end, |next| next.min(end)));
            }
            if row.opt_text(9)?.is_none() {
                stays |= from == line.loose;
                looked.rows.push(row);
            }
        }
    }
    // As long as somebody is found there, others may be beside them who did not fit.
    looked.loose = Some(if stays { line.loose } else { next.unwrap_or_default() });

    // As many of each as they could take if each had as many, and twice as many in case some have fewer.
    let found: usize = groups.iter().map(|(_, names)| names.len()).sum();
    let share = room.div_ceil(found.max(1) as u32);
    let each = if share > 1 { share.saturating_mul(2).min(slots) } else { 1 };
    looked.is_cut |= each < slots || looked.upto.is_some();
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, names) in groups {
        let from =
            |priority: i64| u8::try_from(priority).map_or(i64::MIN, |priority| line.floors().of(priority));
        let names =
            names.into_iter().map(|(priority, name)| cells![priority, name, from(priority)]).collect();
        places.extend(flight.each(&QUEUE_GROUP, names, cells![shard, &*ask.queue, codes(ask), each]));
    }
    if !places.is_empty() {
        let mut answers = flight.send(tx).await?;
        looked.rows.extend(places.into_iter().flat_map(|place| answers.take(place)));
    }
    Ok(looked)
}

/// How many columns a candidate has.
pub(super) const COLUMNS: usize = 12;

pub(super) fn candidate(row: &Row) -> Result<Candidate, StoreError> {
    Ok(Candidate {
        run: row.run(0)?,
        priority: row.number(2)?,
        due_at: row.opt_time(3)?.unwrap_or_default(),
        group: row.opt_text(9)?,
        // A workflow begins once, a job with every attempt.
        begins: row.int(10)? == 1 || row.int(1)? == 0,
    })
}

pub(super) fn codes(ask: &QueueClaim) -> Cell {
    Cell::Texts(ask.codes.clone())
}

/// Every priority.
pub(super) fn priorities() -> Vec<Vec<Cell>> {
    (0..=LEAST_URGENT).map(|priority| cells![priority]).collect()
}

/// At every priority the groups behind the one that was served last, then those before it.
fn segments(served: &str, floors: &Floors) -> Vec<Vec<Cell>> {
    let both = |priority| {
        let from = floors.of(priority);
        let behind = cells![priority, served, Cell::Null, from];
        let before = (!served.is_empty()).then(|| cells![priority, "", served, from]);
        std::iter::once(behind).chain(before)
    };
    (0..=LEAST_URGENT).flat_map(both).collect()
}

pub(super) static STATEMENTS: &[&Sql] = &[&QUEUE_LINE, &QUEUE_DRAIN, &QUEUE_WALK, &QUEUE_GROUP, &QUEUE_LOOSE];

/// The columns of a candidate.
macro_rules! columns {
    () => {
        "a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news, a.group_key,
         a.kind, a.shard"
    };
}
pub(super) use columns;

/// Due runs of one priority.
macro_rules! due {
    ($priority:literal) => {
        concat!(
            "a.shard = {p1} and a.queue = {p2} and a.priority = ",
            $priority,
            " and a.due_at <= {now} and a.code {in:p3}"
        )
    };
    ($priority:literal, $from:literal) => {
        concat!(due!($priority), " and a.due_at >= ", $from)
    };
}

/// A line, and since when those are due who are looked at.
const LINE: &[(&str, Type)] = &[("priority", Type::Int), ("since", Type::Int)];

// No locks: whoever was let go is locked when it is taken.
static QUEUE_LINE: Sql = Sql::new(
    "queue_line",
    concat!(
        "select c.* from {batch} cross join lateral (select ",
        columns!(),
        " from outlast.agenda as a where ",
        due!("b.priority", "b.since"),
        " order by a.due_at, a.id limit {p4}) as c limit {p4}"
    ),
)
.on_sqlite(concat!(
    "select ",
    columns!(),
    " from outlast.agenda as a where ",
    due!("{b:priority}", "{b:since}"),
    " order by a.due_at, a.id limit {p4}"
))
.rows(LINE)
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int])
.by("agenda_due");

/// Those at the head of a line who were started by then, or by another run.
macro_rules! drain {
    ($priority:literal) => {
        concat!(
            "select a.* from (select ",
            columns!(),
            " from outlast.agenda as a where ",
            due!($priority),
            " order by a.due_at, a.id limit {p6}) as a
               join outlast.runs as r on r.shard = {p1} and r.id = a.id
              where r.created_at <= {p5} or r.parent is not null
              order by a.due_at, a.id limit {p4}"
        )
    };
}

static QUEUE_DRAIN: Sql = Sql::new(
    "queue_drain",
    concat!("select c.* from {batch} cross join lateral (", drain!("b.priority"), ") as c limit {p4}"),
)
.on_sqlite(drain!("{b:priority}"))
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int, Type::Int])
.by("agenda_due");

// From each group to the next one that has somebody in line: those whose first is due, and where it stopped.
static QUEUE_WALK: Sql = Sql::new(
    "queue_walk",
    "select c.* from {batch} cross join lateral (
         with recursive walk as (
             select x.name, x.due_at, 1 as n
               from (select a.group_key as name, a.due_at from outlast.agenda as a
                      where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority
                        and a.group_key > b.behind and a.group_key <= coalesce(b.upto, a.group_key)
                        and a.due_at >= b.since
                      order by a.group_key, a.due_at limit 1) as x
             union all
             select x.name, x.due_at, w.n + 1
               from walk as w cross join lateral (
                     select a.group_key as name, a.due_at from outlast.agenda as a
                      where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority
                        and a.group_key > w.name and a.group_key <= coalesce(b.upto, a.group_key)
                        and a.due_at >= b.since
                      order by a.group_key, a.due_at limit 1) as x
              where w.n < {p4}
         )
         select b.priority, w.name, case when w.due_at <= {now} then 1 else 0 end from walk as w
          where w.due_at <= {now} or w.n = {p4}
     ) as c limit {p3}",
)
.on_sqlite(
    "with recursive walk(name, n) as (
         select (select a.group_key from outlast.agenda as a
                  where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                    and a.group_key > {b:behind} and a.group_key <= coalesce({b:upto}, a.group_key)
                    and a.due_at >= {b:since}
                  order by a.group_key limit 1), 1
         union all
         select (select a.group_key from outlast.agenda as a
                  where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                    and a.group_key > w.name and a.group_key <= coalesce({b:upto}, a.group_key)
                    and a.due_at >= {b:since}
                  order by a.group_key limit 1), w.n + 1
           from walk as w where w.name is not null and w.n < {p4}
     )
     select {b:priority}, s.name, s.is_due
       from (select w.name, w.n,
                    (select min(a.due_at) from outlast.agenda as a indexed by outlast_agenda_groups
                      where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                        and a.group_key = w.name and a.due_at >= {b:since}) <= {now} as is_due
               from walk as w where w.name is not null) as s
      where s.is_due or s.n = {p4} limit {p3}",
)
.rows(&[("priority", Type::Int), ("behind", Type::Text), ("upto", Type::Text), ("since", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Int, Type::Int])
.by("agenda_groups");

static QUEUE_GROUP: Sql = Sql::new(
    "queue_group",
    concat!(
        "select c.* from {batch} cross join lateral (select ",
        columns!(),
        " from outlast.agenda as a where ",
        due!("b.priority", "b.since"),
        " and a.group_key = b.name order by a.due_at, a.id limit {p4}) as c"
    ),
)
.on_sqlite(concat!(
    "select ",
    columns!(),
    // Without statistics the index of all due times looks as good.
    " from outlast.agenda as a indexed by outlast_agenda_groups where ",
    due!("{b:priority}", "{b:since}"),
    " and a.group_key = {b:name} order by a.due_at, a.id limit {p4}"
))
.rows(&[("priority", Type::Int), ("name", Type::Text), ("since", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int])
.by("agenda_groups");

/// Those without a group, among the first behind a place in line; and the last of those.
macro_rules! loose {
    ($priority:literal, $since:literal) => {
        concat!(
            "select a.* from (select a.*, row_number() over (order by a.due_at, a.id) as n from (select ",
            columns!(),
            " from outlast.agenda as a where ",
            due!($priority, $since),
            " and (a.due_at, a.id) > ({p6}, {p7}) order by a.due_at, a.id limit {p5}) as a) as a
              where a.group_key is null or a.n = {p5} limit {p4}"
        )
    };
}

static QUEUE_LOOSE: Sql = Sql::new(
    "queue_loose",
    concat!("select c.* from {batch} cross join lateral (", loose!("b.priority", "b.since"), ") as c"),
)
.on_sqlite(loose!("{b:priority}", "{b:since}"))
.rows(LINE)
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int, Type::Int, Type::Id])
.by("agenda_due");
