//! Deletes runs that ended long ago, with everything of them.
//!
//! Looking and deleting are apart: a look goes over so many ended runs in the order of their ends, locks nothing and
//! says where it stopped, so that runs which are kept longer are passed once and not by every purge again. What shall
//! go is then locked, without waiting for anybody, and judged once more: a run may have been tried again meanwhile.
//!
//! Rows are bounded, not only runs: a database that gives up on a long statement would give up on the same one for ever.
//! A journal that is too long for one purge goes from its end, a page with each purge, and then the run. A run that
//! has logged much waits until its lines are gone, which go a page with each purge, too.

use outlast_core::{RunId, ShardCount};

use super::commit::{DOING_CLEAR, INBOX_CLEAR};
use super::flight::{Flight, Place};
use super::listen::LISTENERS_CLEAR;
use super::unique::UNIQUES_PURGE;
use crate::rows::{ReadRow, cells, ids, micros};
use crate::{Call, Cell, Mark, PURGING, Purge, Purged, Row, Sql, StoreError, Tx, Type};

/// The most entries of journals that one purge deletes, and the most lines that were logged.
const ENTRIES: i64 = 5_000;

/// Where a purge finds a run again that it did not delete: just before it.
type Found = (RunId, Mark);

/// A run whose journal is too long for one purge.
struct Long {
    run: RunId,
    /// Where its last page begins.
    page: i64,
}

/// Deletes what `ask` is for, oldest first in each shard.
pub(crate) async fn purge(tx: &mut dyn Tx, ask: &Purge, shards: ShardCount) -> Result<Purged, StoreError> {
    let mut purged = Purged::default();
    let (old, long) = look(tx, ask, shards, &mut purged).await?;
    if old.is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(purged);
    }

    let mut flight = Flight::default();
    let status = ask.status.map_or(Cell::Null, Cell::from);
    let lock = |shard: u16, found: &[Found]| {
        let runs: Vec<RunId> = found.iter().map(|(run, _)| *run).collect();
        PURGE_LOCK.with(cells![shard, ids(&runs), micros(ask.older_than), status.clone()])
    };
    let locks: Vec<Place> = old.iter().map(|(shard, found)| flight.add(lock(*shard, found))).collect();
    let mut answers = flight.send(tx).await?;

    let mut flight = Flight::default();
    let mut locked = Vec::new();
    for ((shard, found), place) in old.into_iter().zip(locks) {
        let runs = runs_of(&answers.take(place))?;
        flight.add(PURGE_LINES.with(cells![shard, ids(&runs), ENTRIES]));
        let logging = flight.add(PURGE_LOGGING.with(cells![shard, ids(&runs)]));
        locked.push((shard, found, runs, logging));
    }
    let mut answers = flight.send(tx).await?;

    let mut flight = Flight::default();
    for (shard, found, mut runs, logging) in locked {
        let mut kept = runs_of(&answers.take(logging))?;
        if let Some(long) = long.as_ref().filter(|long| runs.contains(&long.run)) {
            flight.add(PURGE_PAGE.with(cells![shard, long.run, long.page]));
            kept.push(long.run);
        }
        if !kept.is_empty() {
            runs.retain(|run| !kept.contains(run));
            // What is left of them is no whole run any more: nobody may try it again, or fork it.
            flight.add(PURGE_BEGUN.with(cells![shard, ids(&kept), PURGING]));
            let first = found.iter().find(|(run, _)| kept.contains(run));
            purged.marks[usize::from(shard)] = first.map_or(Mark::default(), |(_, before)| *before);
            purged.more = true;
        }
        if !runs.is_empty() {
            purged.runs += runs.len() as u64;
            for sql in PURGES {
                flight.add(sql.with(cells![shard, ids(&runs)]));
            }
        }
    }
    flight.send_last(tx).await?;
    Ok(purged)
}

fn runs_of(rows: &[Row]) -> Result<Vec<RunId>, StoreError> {
    rows.iter().map(|row| row.run(0)).collect()
}

/// The runs to delete, shard by shard, with one that is too long if it comes first, and how far that was looked for.
async fn look(
    tx: &mut dyn Tx,
    ask: &Purge,
    shards: ShardCount,
    purged: &mut Purged,
) -> Result<(Vec<(u16, Vec<Found>)>, Option<Long>), StoreError> {
    let mut flight = Flight::default();
    let places: Vec<(u16, Mark, Option<Place>)> = (0..shards.max(1))
        .map(|shard| {
            let after = ask.after.get(usize::from(shard)).copied().unwrap_or_default();
            let is_asked = ask.run.is_none_or(|run| run.shard() == shard);
            (shard, after, is_asked.then(|| flight.add(pick(ask, shard, after))))
        })
        .collect();
    let mut answers = flight.send(tx).await?;

    let (mut room, mut entries) = (ask.limit as usize, ENTRIES);
    let (mut old, mut long) = (Vec::new(), None);
    for (shard, mut mark, place) in places {
        let looked = answers.take_any(place);
        purged.more |= ask.run.is_none() && looked.len() >= ask.limit as usize;
        let mut runs = Vec::new();
        for row in looked {
            let run = row.run(0)?;
            if ask.of.has(&row.opt_text(2)?.unwrap_or_default()) {
                let length = row.int(3)?;
                let is_long = length > ENTRIES && entries == ENTRIES;
                if room == 0 || (length > entries && !is_long) {
                    purged.more = true;
                    break;
                }
                if is_long {
                    purged.more = true;
                    long = Some(Long { run, page: length - ENTRIES });
                }
                (room, entries) = (room - 1, entries - length.min(ENTRIES));
                runs.push((run, mark));
            }
            mark = Mark { at: row.time(1)?, run };
        }
        purged.marks.push(mark);
        if !runs.is_empty() {
            old.push((shard, runs));
        }
    }
    Ok((old, long))
}

fn pick(ask: &Purge, shard: u16, after: Mark) -> Call {
    let (age, limit) = (micros(ask.older_than), ask.limit.min(i32::MAX as u32));
    let from = cells![shard, age, after.at, after.run, limit];
    if let Some(run) = ask.run {
        return PURGE_PICK_ONE.with(cells![shard, age, run]);
    }
    match ask.status {
        None => PURGE_PICK.with(from),
        Some(status) => PURGE_PICK_STATUS.with([from, cells![status]].concat()),
    }
}

pub(crate) fn statements() -> Vec<&'static Sql> {
    let own: &[&Sql] = &[
        &PURGE_PICK,
        &PURGE_PICK_STATUS,
        &PURGE_PICK_ONE,
        &PURGE_LOCK,
        &PURGE_LINES,
        &PURGE_LOGGING,
        &PURGE_BEGUN,
        &PURGE_PAGE,
    ];
    // Some of the purges are others' own.
    let purges = PURGES.iter().copied().filter(|sql| sql.name.starts_with("purge"));
    own.iter().copied().chain(purges).collect()
}

macro_rules! pick_text {
    ($which:literal) => {
        concat!(
            "select p.run, p.finished_at, u.definition,
                    coalesce((select max(j.pos) + 1 from outlast.journal as j
                               where j.shard = {p1} and j.run = p.run), 0)
               from (select r.run, r.finished_at from outlast.results as r
                      where r.shard = {p1} ",
            $which,
            " and r.finished_at < {now} - {p2} and (r.finished_at, r.run) > ({p3}, {p4})
                      order by r.finished_at, r.run limit {p5}) as p
                    left join outlast.runs as u on u.shard = {p1} and u.id = p.run
              order by p.finished_at, p.run"
        )
    };
}

static PURGE_PICK: Sql = Sql::new("purge_pick", pick_text!(""))
    .takes(&[Type::Int, Type::Int, Type::Int, Type::Id, Type::Int])
    .by("results_by_time");

static PURGE_PICK_STATUS: Sql = Sql::new("purge_pick_status", pick_text!("and r.status = {p6}"))
    .takes(&[Type::Int, Type::Int, Type::Int, Type::Id, Type::Int, Type::Int])
    .by("results_by_status");

static PURGE_PICK_ONE: Sql = Sql::new(
    "purge_pick_one",
    "select r.run, r.finished_at, u.definition,
            coalesce((select max(j.pos) + 1 from outlast.journal as j where j.shard = {p1} and j.run = r.run), 0)
       from outlast.results as r left join outlast.runs as u on u.shard = r.shard and u.id = r.run
      where r.shard = {p1} and r.finished_at < {now} - {p2} and r.run = {p3}",
)
.takes(&[Type::Int, Type::Int, Type::Id]);

// A run that stands for its kind for a time is kept until that is over: whoever starts another is given this one.
static PURGE_LOCK: Sql = Sql::new(
    "purge_lock",
    "select r.run from outlast.results as r
      where r.shard = {p1} and r.run {in:p2} and r.finished_at < {now} - {p3}
        and ({p4} is null or r.status = {p4})
        and not exists (select 1 from outlast.uniques as u
                         where u.shard = {p1} and u.run = r.run and u.scope = 2 and u.until > {now})
      order by r.run {skip_locked}",
)
.takes(&[Type::Int, Type::Ids, Type::Int, Type::Int]);

// In no order: that would be to read all their lines first.
static PURGE_LINES: Sql = Sql::new(
    "purge_lines",
    "delete from outlast.logs where shard = {p1} and (run, epoch, n) in (
         select l.run, l.epoch, l.n from outlast.logs as l
          where l.shard = {p1} and l.run {in:p2} limit {p3})",
)
.takes(&[Type::Int, Type::Ids, Type::Int]);

static PURGE_LOGGING: Sql = Sql::new(
    "purge_logging",
    "select r.run from outlast.results as r
      where r.shard = {p1} and r.run {in:p2}
        and exists (select 1 from outlast.logs as l where l.shard = {p1} and l.run = r.run)",
)
.takes(&[Type::Int, Type::Ids]);

static PURGE_BEGUN: Sql = Sql::new(
    "purge_begun",
    "insert into outlast.tags (shard, name, value, run)
     select {p1}, {p3}, 'true', r.run from outlast.results as r where r.shard = {p1} and r.run {in:p2}
         on conflict do nothing",
)
.takes(&[Type::Int, Type::Ids, Type::Text]);

static PURGE_PAGE: Sql =
    Sql::new("purge_page", "delete from outlast.journal where shard = {p1} and run = {p2} and pos >= {p3}")
        .takes(&[Type::Int, Type::Id, Type::Int]);

/// Everything of a run. The key goes with it: it is free again.
static PURGES: [&Sql; 10] = [
    &PURGE_JOURNAL,
    &INBOX_CLEAR,
    &PURGE_PROMISES,
    &DOING_CLEAR,
    &LISTENERS_CLEAR,
    &PURGE_TAGS,
    &PURGE_KEYS,
    &UNIQUES_PURGE,
    &PURGE_RUNS,
    &PURGE_RESULTS,
];

static PURGE_JOURNAL: Sql =
    purge_sql("purge_journal", "delete from outlast.journal where shard = {p1} and run {in:p2}");
static PURGE_PROMISES: Sql =
    purge_sql("purge_promises", "delete from outlast.promises where shard = {p1} and run {in:p2}");
pub(super) static PURGE_TAGS: Sql =
    purge_sql("purge_tags", "delete from outlast.tags where shard = {p1} and run {in:p2}");
static PURGE_KEYS: Sql =
    purge_sql("purge_keys", "delete from outlast.keys where shard = {p1} and run {in:p2}");
static PURGE_RUNS: Sql =
    purge_sql("purge_runs", "delete from outlast.runs where shard = {p1} and id {in:p2}");
static PURGE_RESULTS: Sql =
    purge_sql("purge_results", "delete from outlast.results where shard = {p1} and run {in:p2}");

const fn purge_sql(name: &'static str, text: &'static str) -> Sql {
    Sql::new(name, text).takes(&[Type::Int, Type::Ids])
}
