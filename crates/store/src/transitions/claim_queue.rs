//! Leases due runs of a queue with rules to a node: no more than the rules allow, however many nodes ask.
//!
//! Whoever claims locks the queue's row first, so that nodes come one after another and each sees what the one
//! before it took. Who runs is counted among the runs themselves: a limit has no counter that could be wrong, and
//! a run that is taken from a dead node, or ends, has given its slot back by that alone. What may go is
//! decided by [`outlast_core::Admission`]; here it is only asked what it has to know.
//!
//! The cost does not depend on how many stand in line: a line is one range of an index, and groups are found by
//! going from one to the next, beginning behind the one that was served last.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use outlast_core::{
    Admission, Admitted, Candidate, QueueState, RunId, ShardCount, Status, Timestamp, Window,
};

use super::agenda::fence;
use super::claim::{self, CLAIMED_BEFORE, LEAST_URGENT, NOW, UNREAD};
use super::flight::{Flight, Place};
use super::queue;
use crate::rows::{self, ReadRow, cells, ids};
use crate::{Cell, Claims, Dialect, QueueCard, QueueClaim, Row, Sql, StoreError, Tx, Type};

/// So many of each group come into question at first; more where that leaves room.
const EACH: u32 = 4;
/// The most groups that one claim goes through, for each that it could take.
const WALK: u32 = 4;
/// How far a claim looks for runs without a group among those with one, beside what it could take.
const LOOK: u32 = 64;
/// So many more than can go, in case somebody has locked some.
const SPARE: u32 = 8;

/// Leases due runs of one queue, most urgent first, groups in turn.
pub(crate) async fn claim_queue(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    shards: ShardCount,
) -> Result<Claims, StoreError> {
    let shards = shards.max(1);
    let Some(mut line) = open(tx, ask, shards).await? else {
        Flight::default().send_last(tx).await?;
        return Ok(Claims::default());
    };
    let mut claims = Claims { now: line.admission.now, ..Claims::default() };
    if !line.before.is_empty() {
        let runs = line.before.iter().map(claim::claimed_now).collect::<Result<Vec<_>, _>>()?;
        claims.runs = runs.into_iter().map(|run| crate::Claimed { due_at: claims.now, ..run }).collect();
        let flight = Flight::default();
        read_news(tx, flight, &mut claims).await?;
        return Ok(claims);
    }
    if line.card.state == QueueState::Paused {
        Flight::default().send_last(tx).await?;
        return Ok(claims);
    }
    let rows = match line.admission.room() {
        0 => Vec::new(),
        room => {
            let few = look(tx, ask, &line, room, EACH, shards).await?;
            let is_all = !line.admission.rules.is_grouped() || few.is_empty() || few.len() >= room as usize;
            if is_all { few } else { look(tx, ask, &line, room, room, shards).await? }
        }
    };
    claims.is_full = ask.limit > 0 && line.admission.room() == 0;
    let mut found: HashMap<RunId, Row> = HashMap::new();
    let mut candidates = Vec::new();
    for row in rows {
        let candidate = candidate(&row)?;
        found.insert(candidate.run, row);
        candidates.push(candidate);
    }
    remember(tx, ask, &mut line, &mut candidates, &mut found, shards).await?;
    let turns = |candidate: &Candidate| {
        let group = candidate.group.clone().unwrap_or_default();
        (group <= line.served, group)
    };
    candidates.sort_by_cached_key(turns);
    let admitted = line.admission.admit(&candidates);
    let taken = take(tx, ask, &admitted).await?;
    claims.is_full |= admitted.is_full || taken.len() < admitted.runs.len();

    for run in admitted.runs.iter().filter(|run| taken.contains(run)) {
        if let Some(row) = found.get(run) {
            claims.runs.push(claim::claimed_first(row)?);
        }
    }
    let mut flight = Flight::default();
    note(&mut flight, ask, &line, &candidates, &taken, shards);
    let next = |shard| {
        flight.each(&QUEUE_NEXT, priorities(), cells![shard, &*ask.queue, Cell::Texts(ask.codes.clone())])
    };
    let next: Vec<Place> = (0..shards).filter_map(next).collect();
    let mut answers = read_news(tx, flight, &mut claims).await?;
    claims.next_due = admitted.freer_at;
    for row in next.into_iter().flat_map(|place| answers.take(place)) {
        claims.next_due = [claims.next_due, row.opt_time(0)?].into_iter().flatten().min();
    }
    Ok(claims)
}

/// The queue, locked, and who of it runs.
struct Line {
    card: QueueCard,
    served: String,
    admission: Admission,
    /// What an earlier try of this claim took: then nothing more is taken.
    before: Vec<Row>,
}

/// Locks the queue's row and counts who runs. Nothing when the node has lost its lease.
async fn open(tx: &mut dyn Tx, ask: &QueueClaim, shards: ShardCount) -> Result<Option<Line>, StoreError> {
    let mut flight = Flight::default();
    let fences: Vec<Place> = (0..shards).map(|shard| flight.add(fence(shard, ask.node))).collect();
    let locked = flight.add(QUEUE_LOCK.with(cells![queue::home(&ask.queue, shards), &*ask.queue]));
    let now = flight.add(NOW.with([]));
    let before: Vec<Place> = (0..shards)
        .map(|shard| flight.add(CLAIMED_BEFORE.with(cells![shard, ask.node, ask.number])))
        .collect();
    let held: Vec<Place> =
        (0..shards).map(|shard| flight.add(QUEUE_HELD.with(cells![shard, &*ask.queue]))).collect();
    let mut answers = flight.send(tx).await?;
    if fences.into_iter().any(|place| answers.take(place).is_empty()) {
        return Ok(None);
    }
    let mut admission = Admission { want: ask.limit, ..Admission::default() };
    admission.now = answers.take(now).first().map(|row| row.time(0)).transpose()?.unwrap_or_default();
    let (mut card, mut served) = (QueueCard::default(), String::new());
    if let Some(row) = answers.take(locked).first() {
        card = queue::read(row)?;
        served = row.text(5)?;
        admission.window = Window::parse(&row.text(6)?);
    }
    admission.rules = card.rules.clone();
    for row in held.into_iter().flat_map(|place| answers.take(place)) {
        let count: u32 = row.number(1)?;
        admission.held += count;
        if let Some(group) = row.opt_text(0)? {
            *admission.held_by_group.entry(group).or_default() += count;
        }
    }
    let before = before.into_iter().flat_map(|place| answers.take(place)).collect();
    Ok(Some(Line { card, served, admission, before }))
}

/// Looks who is due, and could go: of each group at most so many.
async fn look(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    line: &Line,
    room: u32,
    each: u32,
    shards: ShardCount,
) -> Result<Vec<Row>, StoreError> {
    let rules = &line.admission.rules;
    let started_by = line.card.since.filter(|_| line.card.state == QueueState::Draining);
    let started_by = started_by.map_or(i64::MAX, Timestamp::micros);
    let codes = || Cell::Texts(ask.codes.clone());
    let most = room + SPARE;
    if !rules.is_grouped() {
        let mut flight = Flight::default();
        let line = |shard| {
            let asked = cells![shard, &*ask.queue, codes(), most, started_by];
            flight.each(&QUEUE_LINE, priorities(), asked)
        };
        let places: Vec<Place> = (0..shards).filter_map(line).collect();
        let mut answers = flight.send(tx).await?;
        return Ok(places.into_iter().flat_map(|place| answers.take(place)).collect());
    }
    let slots = rules.slots_per_group();
    let full = line.admission.held_by_group.iter().filter(|(_, held)| **held >= slots);
    let full: HashSet<String> = full.map(|(group, _)| group.clone()).collect();
    let walk = most.saturating_mul(WALK).saturating_add(full.len() as u32);
    let (each, rows) = (each.min(slots), most.saturating_mul(EACH));
    let mut flight = Flight::default();
    let (mut groups, mut walks) = (Vec::new(), Vec::new());
    for shard in 0..shards {
        match tx.dialect() {
            Dialect::Postgres => {
                let full = Cell::Texts(full.iter().cloned().collect());
                let asked = cells![shard, &*ask.queue, codes(), rows, started_by, walk, each, full];
                groups.extend(flight.each(&QUEUE_GROUPS, segments(&line.served), asked));
            }
            Dialect::Sqlite => {
                let asked = cells![shard, &*ask.queue, walk];
                walks.extend(
                    flight.each(&QUEUE_WALK, segments(&line.served), asked).map(|place| (shard, place)),
                );
            }
        }
        let asked = cells![shard, &*ask.queue, codes(), most, started_by, room + LOOK];
        groups.extend(flight.each(&QUEUE_LOOSE, priorities(), asked));
    }
    let mut answers = flight.send(tx).await?;
    let mut found: Vec<Row> = groups.into_iter().flat_map(|place| answers.take(place)).collect();
    if walks.is_empty() {
        return Ok(found);
    }
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, place) in walks {
        let mut names = Vec::new();
        for row in answers.take(place).into_iter().take(most as usize + full.len()) {
            let (priority, name) = (row.int(0)?, row.text(1)?);
            if !full.contains(&name) {
                names.push(cells![priority, name]);
            }
        }
        names.truncate(most as usize);
        let asked = cells![shard, &*ask.queue, codes(), each, started_by];
        places.extend(flight.each(&QUEUE_GROUP, names, asked));
    }
    let mut answers = flight.send(tx).await?;
    found.extend(places.into_iter().flat_map(|place| answers.take(place)));
    Ok(found)
}

/// Asks what is remembered of the groups that could go. Of an ordered group the one that began and has not ended is
/// the only one that may go.
async fn remember(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    line: &mut Line,
    candidates: &mut Vec<Candidate>,
    found: &mut HashMap<RunId, Row>,
    shards: ShardCount,
) -> Result<(), StoreError> {
    let rules = line.admission.rules.clone();
    let groups: BTreeSet<String> = candidates.iter().filter_map(|run| run.group.clone()).collect();
    if groups.is_empty() || !(rules.ordered || rules.rate_per_group.is_some()) {
        return Ok(());
    }
    let groups = Cell::Texts(groups.into_iter().collect());
    let mut flight = Flight::default();
    let known = flight.add(GROUPS_LOOK.with(cells![queue::home(&ask.queue, shards), &*ask.queue, groups]));
    let mut heads: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for row in flight.send(tx).await?.take(known) {
        let group = row.text(0)?;
        line.admission.windows.insert(group.clone(), Window::parse(&row.text(2)?));
        if let Some(head) = row.opt_id(1)?.map(RunId::from_uuid).filter(|_| rules.ordered) {
            line.admission.heads.insert(group, head);
            heads.entry(head.shard()).or_default().push(head);
        }
    }
    if heads.is_empty() {
        return Ok(());
    }
    let mut flight = Flight::default();
    let codes = || Cell::Texts(ask.codes.clone());
    let places: Vec<Place> = heads
        .iter()
        .map(|(shard, heads)| flight.add(QUEUE_HEADS.with(cells![*shard, ids(heads), codes()])))
        .collect();
    let mut answers = flight.send(tx).await?;
    let mut unfinished = BTreeSet::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let head = candidate(&row)?;
        unfinished.insert(head.run);
        // Due, and of code that this node knows.
        if row.int(COLUMNS)? == 1 {
            candidates.retain(|other| other.group != head.group);
            found.insert(head.run, row);
            candidates.push(head);
        }
    }
    line.admission.heads.retain(|_, head| unfinished.contains(head));
    Ok(())
}

/// Takes those who were let go; one that somebody else has locked is left out.
async fn take(tx: &mut dyn Tx, ask: &QueueClaim, admitted: &Admitted) -> Result<BTreeSet<RunId>, StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in super::agenda::by_shard(admitted.runs.iter().copied()) {
        places.push(flight.add(QUEUE_TAKE.with(cells![
            shard,
            ids(&runs),
            ask.node,
            ask.number,
            Status::Running
        ])));
    }
    if places.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut answers = flight.send(tx).await?;
    places.into_iter().flat_map(|place| answers.take(place)).map(|row| row.run(0)).collect()
}

/// Notes who was served last, what rates have used, and who has to end first.
fn note(
    flight: &mut Flight,
    ask: &QueueClaim,
    line: &Line,
    candidates: &[Candidate],
    taken: &BTreeSet<RunId>,
    shards: ShardCount,
) {
    let (rules, admission, home) = (&line.admission.rules, &line.admission, queue::home(&ask.queue, shards));
    let gone: Vec<&Candidate> = candidates.iter().filter(|run| taken.contains(&run.run)).collect();
    // In the order of the walk the last one that got a turn.
    let Some(last) = gone.last() else { return };
    let served = last.group.clone().filter(|_| rules.is_grouped()).unwrap_or_default();
    let used = rules.rate.map(|_| admission.window.to_text()).unwrap_or_default();
    if rules.is_grouped() || rules.rate.is_some() {
        flight.add(QUEUE_NOTE.with(cells![home, &*ask.queue, served, used]));
    }
    if !(rules.ordered || rules.rate_per_group.is_some()) {
        return;
    }
    let mut rows = BTreeMap::new();
    for run in gone {
        let Some(group) = &run.group else { continue };
        let window = admission.windows.get(group);
        let used = window.map(Window::to_text).unwrap_or_default();
        let until = rules.rate_per_group.and_then(|rate| window?.unused_from(rate)).unwrap_or(admission.now);
        let head = rules.ordered.then(|| run.run.uuid());
        rows.insert(group, cells![&**group, head, used, until]);
    }
    flight.each(&GROUPS_NOTE, rows.into_values().collect(), cells![home, &*ask.queue]);
}

/// Adds the unread news to `claims`, and ends the transaction.
async fn read_news(
    tx: &mut dyn Tx,
    mut flight: Flight,
    claims: &mut Claims,
) -> Result<super::flight::Answers, StoreError> {
    let told = claims.runs.iter().filter(|run| run.news > 0).map(|run| run.id);
    let places: Vec<Place> = super::agenda::by_shard(told)
        .into_iter()
        .map(|(shard, runs)| flight.add(UNREAD.with(cells![shard, ids(&runs)])))
        .collect();
    let mut answers = flight.send_last(tx).await?;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let (id, news) = rows::news(&row)?;
        if let Some(run) = claims.runs.iter_mut().find(|run| run.id == id) {
            run.inbox.push(news);
        }
    }
    Ok(answers)
}

/// How many columns a candidate has.
const COLUMNS: usize = 12;

fn candidate(row: &Row) -> Result<Candidate, StoreError> {
    Ok(Candidate {
        run: row.run(0)?,
        priority: row.number(2)?,
        due_at: row.opt_time(3)?.unwrap_or_default(),
        group: row.opt_text(9)?,
        // A workflow begins once, a job with every attempt.
        begins: row.int(10)? == 1 || row.int(1)? == 0,
    })
}

/// Every priority.
fn priorities() -> Vec<Vec<Cell>> {
    (0..=LEAST_URGENT).map(|priority| cells![priority]).collect()
}

/// At every priority the groups behind the one that was served last, then those before it.
fn segments(served: &str) -> Vec<Vec<Cell>> {
    let both = |priority| {
        let behind = cells![priority, served, Cell::Null];
        let before = (!served.is_empty()).then(|| cells![priority, "", served]);
        std::iter::once(behind).chain(before)
    };
    (0..=LEAST_URGENT).flat_map(both).collect()
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &QUEUE_LOCK,
    &QUEUE_HELD,
    &QUEUE_LINE,
    &QUEUE_GROUPS,
    &QUEUE_WALK,
    &QUEUE_GROUP,
    &QUEUE_LOOSE,
    &GROUPS_LOOK,
    &QUEUE_HEADS,
    &QUEUE_TAKE,
    &QUEUE_NOTE,
    &GROUPS_NOTE,
    &QUEUE_NEXT,
];

static QUEUE_LOCK: Sql = Sql::new(
    "queue_lock",
    "select q.name, q.rules, q.own_rules, q.state, q.since, q.served, q.used from outlast.queues as q
      where q.shard = {p1} and q.name = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Text]);

// Behind the lock, in a statement of its own: it sees what the one before took.
static QUEUE_HELD: Sql = Sql::new(
    "queue_held",
    "select a.group_key, count(*) from outlast.agenda as a
      where a.shard = {p1} and a.node is not null and a.queue = {p2} group by a.group_key",
)
.takes(&[Type::Int, Type::Text])
.by("agenda_node");

/// The columns of a candidate.
macro_rules! columns {
    () => {
        "a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news, a.group_key,
         a.kind, a.shard"
    };
}

/// Whether it was started before the queue was asked to drain.
macro_rules! in_time {
    ($by:literal) => {
        concat!(
            "({p5} = ",
            $by,
            " or (select r.created_at from outlast.runs as r where r.shard = {p1} and r.id = a.id) <= {p5})"
        )
    };
}

/// Due runs of one priority.
macro_rules! due {
    ($priority:literal) => {
        concat!(
            "a.shard = {p1} and a.queue = {p2} and a.priority = ",
            $priority,
            " and a.due_at <= {now} and a.code {in:p3} and ",
            in_time!("9223372036854775807")
        )
    };
}

// No locks: whoever was let go is locked when it is taken.
static QUEUE_LINE: Sql = Sql::new(
    "queue_line",
    concat!(
        "select c.* from {batch} cross join lateral (select ",
        columns!(),
        " from outlast.agenda as a where ",
        due!("b.priority"),
        " order by a.due_at, a.id limit {p4}) as c limit {p4}"
    ),
)
.on_sqlite(concat!(
    "select ",
    columns!(),
    " from outlast.agenda as a where ",
    due!("{b:priority}"),
    " order by a.due_at, a.id limit {p4}"
))
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int])
.by("agenda_due");

// From each group to the next one that has somebody in line, and of each the first few who are due.
static QUEUE_GROUPS: Sql = Sql::new(
    "queue_groups",
    concat!(
        "select c.* from {batch} cross join lateral (
             with recursive walk(name, n) as (
                 select (select a.group_key from outlast.agenda as a
                          where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority
                            and a.group_key > b.behind and a.group_key <= coalesce(b.upto, a.group_key)
                            and a.due_at is not null
                          order by a.group_key limit 1), 1
                 union all
                 select (select a.group_key from outlast.agenda as a
                          where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority
                            and a.group_key > w.name and a.group_key <= coalesce(b.upto, a.group_key)
                            and a.due_at is not null
                          order by a.group_key limit 1), w.n + 1
                   from walk as w where w.name is not null and w.n < {p6}
             )
             select d.* from walk as w cross join lateral (select ",
        columns!(),
        " from outlast.agenda as a where ",
        due!("b.priority"),
        " and a.group_key = w.name order by a.due_at, a.id limit {p7}) as d
              where w.name is not null and not (w.name {in:p8})
         ) as c limit {p4}"
    ),
)
.on_sqlite("")
.rows(&[("priority", Type::Int), ("behind", Type::Text), ("upto", Type::Text)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int, Type::Int, Type::Int, Type::Texts])
.by("agenda_groups");

// SQLite's own way, which is one of many small steps: the names of the groups, and then the first few of each.
static QUEUE_WALK: Sql = Sql::new("queue_walk", "")
    .on_sqlite(
        "with recursive walk(name, n) as (
             select (select a.group_key from outlast.agenda as a
                      where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                        and a.group_key > {b:behind} and a.group_key <= coalesce({b:upto}, a.group_key)
                        and a.due_at is not null
                      order by a.group_key limit 1), 1
             union all
             select (select a.group_key from outlast.agenda as a
                      where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                        and a.group_key > w.name and a.group_key <= coalesce({b:upto}, a.group_key)
                        and a.due_at is not null
                      order by a.group_key limit 1), w.n + 1
               from walk as w where w.name is not null and w.n < {p3}
         )
         select {b:priority}, w.name from walk as w where w.name is not null",
    )
    .rows(&[("priority", Type::Int), ("behind", Type::Text), ("upto", Type::Text)])
    .takes(&[Type::Int, Type::Text, Type::Int])
    .by("agenda_groups");

static QUEUE_GROUP: Sql = Sql::new("queue_group", "")
    .on_sqlite(concat!(
        "select ",
        columns!(),
        // Without statistics the index of all due times looks as good.
        " from outlast.agenda as a indexed by outlast_agenda_groups where ",
        due!("{b:priority}"),
        " and a.group_key = {b:name} order by a.due_at, a.id limit {p4}"
    ))
    .rows(&[("priority", Type::Int), ("name", Type::Text)])
    .takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int])
    .by("agenda_groups");

// Those without a group, among the first of all.
static QUEUE_LOOSE: Sql = Sql::new(
    "queue_loose",
    concat!(
        "select c.* from {batch} cross join lateral (select a.* from (select ",
        columns!(),
        " from outlast.agenda as a where ",
        due!("b.priority"),
        " order by a.due_at, a.id limit {p6}) as a where a.group_key is null limit {p4}) as c limit {p4}"
    ),
)
.on_sqlite(concat!(
    "select a.* from (select ",
    columns!(),
    " from outlast.agenda as a where ",
    due!("{b:priority}"),
    " order by a.due_at, a.id limit {p6}) as a where a.group_key is null limit {p4}"
))
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int, Type::Int, Type::Int])
.by("agenda_due");

static GROUPS_LOOK: Sql = Sql::new(
    "groups_look",
    "select g.name, g.head, g.used from outlast.groups as g
      where g.shard = {p1} and g.queue = {p2} and g.name {in:p3}",
)
.takes(&[Type::Int, Type::Text, Type::Texts]);

static QUEUE_HEADS: Sql = Sql::new(
    "queue_heads",
    concat!(
        "select ",
        columns!(),
        ", case when a.due_at <= {now} and a.code {in:p3} then 1 else 0 end
           from outlast.agenda as a where a.shard = {p1} and a.id {in:p2}"
    ),
)
.takes(&[Type::Int, Type::Ids, Type::Texts]);

static QUEUE_TAKE: Sql = Sql::new(
    "queue_take",
    "with picked as materialized (
         select a.shard, a.id from outlast.agenda as a
          where a.shard = {p1} and a.id {in:p2} and a.node is null and a.due_at <= {now} {skip_locked}
     )
     update outlast.agenda as a
        set node = {p3}, claim = {p4}, epoch = a.epoch + 1, status = {p5}, due_at = null
       from picked as p where a.shard = p.shard and a.id = p.id returning a.id",
)
.on_sqlite(
    "update outlast.agenda set node = {p3}, claim = {p4}, epoch = epoch + 1, status = {p5}, due_at = null
      where shard = {p1} and id {in:p2} and node is null and due_at <= {now} returning id",
)
.takes(&[Type::Int, Type::Ids, Type::Id, Type::Int, Type::Int]);

static QUEUE_NOTE: Sql = Sql::new(
    "queue_note",
    "update outlast.queues set served = {p3}, used = {p4} where shard = {p1} and name = {p2}",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Text]);

static GROUPS_NOTE: Sql = Sql::new(
    "groups_note",
    "insert into outlast.groups (shard, queue, name, head, used, used_until)
     select {p1}, {p2}, b.name, b.head, b.used, b.used_until from {batch} where true
     on conflict (shard, queue, name) do update
        set head = excluded.head, used = excluded.used, used_until = excluded.used_until",
)
.rows(&[("name", Type::Text), ("head", Type::Id), ("used", Type::Text), ("used_until", Type::Int)])
.takes(&[Type::Int, Type::Text]);

static QUEUE_NEXT: Sql = Sql::new(
    "queue_next",
    "select (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and (a.queue, a.priority) >= ({p2}, b.priority)
                and (a.queue, a.priority) <= ({p2}, b.priority)
                and a.due_at > {now} and a.code {in:p3}
              order by a.queue, a.priority, a.due_at limit 1)
       from {batch}",
)
.on_sqlite(
    "select (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                and a.due_at > {now} and a.code {in:p3} order by a.due_at limit 1)",
)
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts])
.by("agenda_due");
