//! Leases due runs to a node.
//!
//! Picking locks (and passes over what others have locked); the update and the news of what was picked come
//! behind: read after the lock, so none is missing. PostgreSQL does it all in one flight, in which what comes
//! later finds the runs by the number of the claim. A claim that finds nothing writes nothing. Its cost does not depend on how many runs wait: every line (a queue at a priority)
//! is one range of an index, and the lines are asked in order until enough is found.

use std::collections::HashMap;

use outlast_core::{RunId, Status, Timestamp};

use super::agenda::fence;
use super::claim_rows;
use super::flight::{Answers, Flight, Place};
use crate::rows::{self, ReadRow, cells, ids, micros};
use crate::whole_look::{AGAIN, ahead};
use crate::{Cell, Claim, Claimed, Claims, Dialect, Hold, News, Row, Sql, StoreError, Tx, Type};

/// The most urgent priority is 0, the least urgent this.
pub(super) const LEAST_URGENT: u8 = 9;

/// Leases due runs of one shard, most urgent first, then oldest.
///
/// Each claim raises the run's epoch. Later writes carry it, so a node that slept past its lease is
/// answered with [`crate::Committed::LeaseLost`] and changes nothing. The same number again gives the
/// same runs again (their `due_at` is then the database's now: nobody keeps when they were due).
pub(crate) async fn claim(tx: &mut dyn Tx, ask: &Claim) -> Result<Claims, StoreError> {
    let found = match tx.dialect() {
        Dialect::Postgres => find(tx, ask).await?,
        Dialect::Sqlite => claim_rows::find(tx, ask).await?,
    };
    let mut claims = Claims { now: found.now, ..Claims::default() };
    if !found.fenced {
        return Ok(claims);
    }
    let again = !found.before.is_empty();
    let runs = if again { found.before } else { found.picked };
    claims.runs = runs.iter().map(|row| claimed(row, found.now, again)).collect::<Result<_, _>>()?;
    let mut unread: HashMap<RunId, Vec<News>> = HashMap::new();
    for row in found.unread {
        let (run, news) = rows::news(&row)?;
        unread.entry(run).or_default().push(news);
    }
    for run in &mut claims.runs {
        run.inbox = unread.remove(&run.id).unwrap_or_default();
    }
    if claims.runs.len() < ask.limit as usize {
        claims.next_due = found.next_due;
        // Nobody knows of what is due later than a short look sees.
        let is_unseen = found.next_due.is_none() && is_short(ask) && tx.dialect() == Dialect::Postgres;
        claims.look_again = is_unseen.then_some(AGAIN);
    }
    // Rows promise no order, and the engine relies on one.
    claims.runs.sort_by_key(|run| (run.priority, run.due_at, run.id));
    Ok(claims)
}

/// What a claim found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) fenced: bool,
    pub(super) now: Timestamp,
    /// What an earlier try of this claim took: then nothing more is taken.
    pub(super) before: Vec<Row>,
    pub(super) picked: Vec<Row>,
    pub(super) unread: Vec<Row>,
    pub(super) next_due: Option<Timestamp>,
}

async fn find(tx: &mut dyn Tx, ask: &Claim) -> Result<Found, StoreError> {
    let mut flight = Flight::default();
    let number = || cells![ask.shard, ask.node, ask.number];
    let fenced = flight.add(fence(ask.shard, ask.node));
    // Before the pick: what becomes due in between is either picked or the next to be due.
    let now = flight.add(NOW.with([]));
    let before = flight.add(CLAIMED_BEFORE.with(number()));
    let taken = [wanted(ask), cells![ask.node, ask.number, Status::Running]].concat();
    let picked = flight.add(PICK_AND_TAKE.with(taken));
    let unread = flight.add(UNREAD_BY_CLAIM.with(number()));
    let next = flight.each(&NEXT_DUE, lines(ask), unfilled(ask));
    let mut answers = flight.send_last(tx).await?;
    Ok(Found {
        fenced: !answers.take(fenced).is_empty(),
        now: answers.take(now).first().map(|row| row.time(0)).transpose()?.unwrap_or_default(),
        before: answers.take(before),
        picked: answers.take(picked),
        unread: answers.take(unread),
        next_due: first_time(&answers.take_any(next))?,
    })
}

/// The earliest of the times that rows begin with.
pub(super) fn first_time(rows: &[Row]) -> Result<Option<Timestamp>, StoreError> {
    rows.iter().try_fold(None, |first, row| Ok([first, row.opt_time(0)?].into_iter().flatten().min()))
}

/// Adds looks at a run that a claim took, and at what it has not read.
pub(super) fn add_claimed(flight: &mut Flight, run: RunId, hold: Hold) -> (Place, Place) {
    let claimed = flight.add(CLAIMED_BEFORE.with(cells![run.shard(), hold.node, hold.claim]));
    (claimed, flight.add(UNREAD.with(cells![run.shard(), ids(&[run])])))
}

/// The run that the looks found.
pub(super) fn found_claimed(
    answers: &mut Answers,
    (taken, unread): (Place, Place),
) -> Result<Option<Claimed>, StoreError> {
    let Some(row) = answers.take(taken).pop() else { return Ok(None) };
    let mut run = claimed_now(&row)?;
    for row in answers.take(unread) {
        run.inbox.push(rows::news(&row)?.1);
    }
    Ok(Some(run))
}

/// A run that was claimed just now, from the columns that a claim gives.
pub(super) fn claimed_now(row: &Row) -> Result<Claimed, StoreError> {
    claimed(row, Timestamp::default(), true)
}

/// A run that is claimed by this, from the columns that a claim gives.
pub(super) fn claimed_first(row: &Row) -> Result<Claimed, StoreError> {
    claimed(row, Timestamp::default(), false)
}

/// What a claim asks for.
pub(super) fn wanted(ask: &Claim) -> Vec<Cell> {
    let texts = |texts: &[String]| Cell::Texts(texts.to_vec());
    let early = micros(ask.early);
    cells![ask.shard, texts(&ask.queues), texts(&ask.codes), ask.limit, early, Status::Waiting, from(ask)]
}

/// Says that the claim has room left, and where it began.
fn unfilled(ask: &Claim) -> Vec<Cell> {
    let codes = Cell::Texts(ask.codes.clone());
    cells![ask.shard, codes, ask.node, ask.number, ask.limit, from(ask), ahead(is_short(ask))]
}

/// Whether it looks only at a part of each line.
fn is_short(ask: &Claim) -> bool {
    ask.from.is_some()
}

/// Where a claim begins in each line.
pub(super) fn from(ask: &Claim) -> i64 {
    ask.from.map_or(i64::MIN, Timestamp::micros)
}

/// Every queue at every priority.
fn lines(ask: &Claim) -> Vec<Vec<Cell>> {
    let lines = ask.queues.iter().flat_map(|queue| (0..=LEAST_URGENT).map(move |priority| (queue, priority)));
    lines.map(|(queue, priority)| cells![&**queue, priority]).collect()
}

fn claimed(row: &Row, now: Timestamp, again: bool) -> Result<Claimed, StoreError> {
    Ok(Claimed {
        id: row.run(0)?,
        // A repeated claim raised it before.
        epoch: row.int(1)? + i64::from(!again),
        priority: row.number(2)?,
        due_at: row.opt_time(3)?.unwrap_or(now),
        code: row.text(4)?,
        attempt: row.number(5)?,
        crashes: row.number(6)?,
        expires_at: row.opt_time(7)?,
        news: row.int(8)?,
        inbox: Vec::new(),
    })
}

pub(crate) static STATEMENTS: &[&Sql] =
    &[&NOW, &CLAIMED_BEFORE, &PICK_AND_TAKE, &TAKE, &UNREAD_BY_CLAIM, &UNREAD, &NEXT_DUE];

/// The database's now.
pub(crate) static NOW: Sql = Sql::new("now", "select {now}");

pub(super) static CLAIMED_BEFORE: Sql = Sql::new(
    "claimed_before",
    "select a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news
       from outlast.agenda as a where a.shard = {p1} and a.node = {p2} and a.claim = {p3}",
)
.takes(&[Type::Int, Type::Id, Type::Int])
.by("agenda_node");

// No order outside of the lines: the loops run in the order of the lines and stop at the limit, while a
// sort would first read (and lock) everything that is due. Nothing is taken without the node's row, which is
// locked, or beside what an earlier try of this claim took.
static PICK_AND_TAKE: Sql = Sql::new(
    "claim_pick",
    "with picked as materialized (
         select p.shard, p.id, p.epoch, p.due_at
           from (select g.priority, q.queue
                   from generate_series(0, 9) as g(priority)
                        cross join unnest({p2}) with ordinality as q(queue, place)
                  where exists (select 1 from outlast.nodes as n where n.shard = {p1} and n.id = {p8})
                    and not exists (select 1 from outlast.agenda as o
                                     where o.shard = {p1} and o.node = {p8} and o.claim = {p9})
                  order by g.priority, q.place) as line
                cross join lateral (
                   select a.shard, a.id, a.epoch, a.due_at from outlast.agenda as a
                    where a.shard = {p1} and a.queue = line.queue and a.priority = line.priority
                      and a.due_at >= {p7} and a.due_at <= {now} + {p5} and (a.due_at <= {now} or a.status = {p6})
                      and a.code {in:p3}
                    order by a.due_at, a.id
                    limit {p4} {skip_locked}
                ) as p
          limit {p4}
     )
     update outlast.agenda as a
        set node = {p8}, claim = {p9}, epoch = a.epoch + 1, status = {p10}, due_at = null,
            began_at = coalesce(a.began_at, {now})
       from picked as p where a.shard = p.shard and a.id = p.id
     returning a.id, p.epoch, a.priority, p.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news",
)
.on_sqlite("")
.takes(&[
    Type::Int,
    Type::Texts,
    Type::Texts,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Int,
])
.by("agenda_due");

// Run by run: to read a list costs SQLite more than a row.
pub(super) static TAKE: Sql = Sql::new("claim_take", "")
    .on_sqlite(
        "update outlast.agenda set node = {p2}, claim = {p3}, epoch = epoch + 1, status = {p4}, due_at = null,
                began_at = coalesce(began_at, {now})
          where shard = {p1} and id = {b:run} and node is null",
    )
    .rows(&[("run", Type::Id)])
    .takes(&[Type::Int, Type::Id, Type::Int, Type::Int]);

pub(super) static UNREAD_BY_CLAIM: Sql = Sql::new(
    "claim_unread",
    "select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body
       from outlast.agenda as a
            cross join lateral (
               select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body from outlast.inbox as i
                where i.shard = {p1} and i.run = a.id and a.news > 0 offset 0
            ) as i
      where a.shard = {p1} and a.node = {p2} and a.claim = {p3}
      order by i.run, i.seq",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Id, Type::Int])
.by("agenda_node");

pub(super) static UNREAD: Sql = Sql::new(
    "claim_unread_rows",
    "select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body
       from unnest({p2}) as k(run) cross join lateral (
            select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body from outlast.inbox as i
             where i.shard = {p1} and i.run = k.run offset 0) as i
      order by i.run, i.seq",
)
.on_sqlite(
    "select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body from outlast.inbox as i
      where i.shard = {p1} and i.run {in:p2} order by i.run, i.seq",
)
.takes(&[Type::Int, Type::Ids])
.value_by_value();

// Not only what is due later: a run that is due and was passed over, because someone has locked it, too. Nobody
// asks when the claim got all that it wanted, and behind what it took lie the remains of all that was taken before. A
// claim that begins further back asks only from there: what lies before is for the next look at the whole line.
static NEXT_DUE: Sql = Sql::new(
    "claim_next_due",
    // By an order that only one index has: where all runs are of one line, a planner takes the index of all due times for
    // as good, and reads what is due of every other line. Not by a range of (queue, priority): PostgreSQL does not see
    // where it ends, and reads all lines behind it.
    "select (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and a.queue = b.queue and a.priority = b.priority
                and a.due_at >= {p6} and a.due_at <= {now} + {p7} and a.code {in:p2}
              order by a.due_at, a.id limit 1)
       from {batch}
      where (select count(*) from outlast.agenda as o
              where o.shard = {p1} and o.node = {p3} and o.claim = {p4}) < {p5}",
)
.on_sqlite("")
.rows(&[("queue", Type::Text), ("priority", Type::Int)])
.takes(&[Type::Int, Type::Texts, Type::Id, Type::Int, Type::Int, Type::Int, Type::Int])
.by("agenda_due");
