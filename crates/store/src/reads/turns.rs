//! What a turn needs: records, journals, unread news.

use std::collections::{BTreeMap, HashMap};

use outlast_core::{Entry, Op, RunId};

use crate::rows::{self, cells, ids, run_columns};
use crate::sql::look_each;
use crate::transitions::Flight;
use crate::{Doing, Loaded, News, RunRecord, Sql, StoreError, Tx, Type};

/// How many entries come with the first load; a longer journal is paged in.
const FIRST_PAGE: usize = 1_000;

/// What turns need to begin, for each of `runs` that exists, in their order.
pub(crate) async fn load(tx: &mut dyn Tx, runs: &[RunId]) -> Result<Vec<Loaded>, StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in by_shard(runs.iter().map(|run| (*run, ()))) {
        let all = ids(runs.iter().map(|(run, ())| run));
        let rows = runs.iter().map(|(run, ())| cells![*run]).collect();
        // One more than a page tells whether the journal goes on.
        let entries = flight.each(&JOURNAL_FIRST, rows, cells![shard, FIRST_PAGE as u32 + 1]);
        let records = flight.add(RECORDS.with(cells![shard, all.clone()]));
        places.push((records, entries, flight.add(DOING.with(cells![shard, all]))));
    }
    let mut answers = flight.send_last(tx).await?;

    let mut records: HashMap<RunId, RunRecord> = HashMap::new();
    let mut entries: HashMap<RunId, Vec<Entry>> = HashMap::new();
    let mut doing: HashMap<RunId, Vec<Doing>> = HashMap::new();
    let mut unreadable: HashMap<RunId, String> = HashMap::new();
    for (records_at, entries_at, doing_at) in places {
        for row in answers.take(records_at) {
            let record = rows::record(&row)?;
            records.insert(record.id, record);
        }
        for row in answers.take_any(entries_at) {
            match rows::entry(&row) {
                Ok((run, entry)) => entries.entry(run).or_default().push(entry),
                // One run that a newer version wrote must not hold up all others.
                Err(StoreError::Unreadable { run, detail }) => {
                    unreadable.insert(run, detail);
                }
                Err(error) => return Err(error),
            }
        }
        for row in answers.take(doing_at) {
            let (run, step) = rows::doing(&row)?;
            doing.entry(run).or_default().push(step);
        }
    }
    let load = |run: &RunId| {
        let record = records.remove(run)?;
        let mut entries = entries.remove(run).unwrap_or_default();
        entries.sort_by_key(|entry| entry.pos);
        let more = entries.len() > FIRST_PAGE;
        entries.truncate(FIRST_PAGE);
        let doing = doing.remove(run).unwrap_or_default();
        Some(Loaded { record, entries, more, doing, unreadable: unreadable.remove(run) })
    };
    Ok(runs.iter().filter_map(load).collect())
}

/// Where `continue_as_new` began the journal of each of `runs`; a run in its first life is not among them.
pub(crate) async fn lives(tx: &mut dyn Tx, runs: &[RunId]) -> Result<HashMap<RunId, u32>, StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in by_shard(runs.iter().map(|run| (*run, ()))) {
        let rows = runs.iter().map(|(run, ())| cells![*run]).collect();
        places.extend(flight.each(&JOURNAL_FIRST, rows, cells![shard, 1u32]));
    }
    let mut answers = flight.send(tx).await?;
    let first = places.into_iter().flat_map(|place| answers.take(place));
    let entries = first.map(|row| rows::entry(&row)).collect::<Result<Vec<_>, _>>()?;
    let continued = entries.into_iter().filter(|(_, entry)| entry.op == Op::Continue);
    Ok(continued.map(|(run, entry)| (run, entry.pos)).collect())
}

/// Entries of a run's journal after `pos`, at most `limit`.
pub(crate) async fn journal(
    tx: &mut dyn Tx,
    run: RunId,
    after: u32,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(JOURNAL_AFTER.with(cells![run.shard(), run, after, limit]));
    let rows = flight.send_last(tx).await?.take(place);
    rows.iter().map(|row| rows::entry(row).map(|(_, entry)| entry)).collect()
}

/// Unread news of runs after the given number, oldest first.
pub(crate) async fn inbox(tx: &mut dyn Tx, runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in by_shard(runs.iter().copied()) {
        let rows = runs.into_iter().map(|(run, after)| cells![run, after]).collect();
        places.extend(flight.each(&INBOX_AFTER, rows, cells![shard]));
    }
    let mut answers = flight.send_last(tx).await?;
    let rows = places.into_iter().flat_map(|place| answers.take(place));
    let mut news = rows.map(|row| rows::news(&row)).collect::<Result<Vec<_>, _>>()?;
    news.sort_by_key(|(run, news)| (*run, news.seq));
    Ok(news)
}

fn by_shard<T>(runs: impl Iterator<Item = (RunId, T)>) -> BTreeMap<u16, Vec<(RunId, T)>> {
    let mut shards: BTreeMap<u16, Vec<(RunId, T)>> = BTreeMap::new();
    for (run, more) in runs {
        shards.entry(run.shard()).or_default().push((run, more));
    }
    shards
}

pub(super) static STATEMENTS: &[&Sql] = &[&RECORDS, &JOURNAL_FIRST, &DOING, &JOURNAL_AFTER, &INBOX_AFTER];

static RECORDS: Sql =
    look_each!("records", "select ", run_columns!(), " from outlast.runs as r where r.shard = {p1} and r.id")
        .takes(&[Type::Int, Type::Ids])
        .value_by_value();

// A page of each run: SQLite runs the text once for each, PostgreSQL loops inside.
static JOURNAL_FIRST: Sql = Sql::new(
    "journal_first",
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from {batch} cross join lateral (
               select f.run, f.pos, f.kind, f.name, f.at, f.codec, f.body, f.took from outlast.journal as f
                where f.shard = {p1} and f.run = b.run order by f.pos limit {p2}) as j",
)
.on_sqlite(
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took
       from outlast.journal as j where j.shard = {p1} and j.run = (select b.run from {batch})
      order by j.pos limit {p2}",
)
.rows(&[("run", Type::Id)])
.takes(&[Type::Int, Type::Int]);

/// Steps in progress of many runs.
pub(super) static DOING: Sql = Sql::new(
    "doing",
    "select d.run, d.name, d.attempt, d.codec, d.saved, d.percent, d.message, d.since from outlast.doing as d
      where d.shard = {p1} and d.run {in:p2} order by d.run, d.since, d.name",
)
.takes(&[Type::Int, Type::Ids])
.value_by_value();

static JOURNAL_AFTER: Sql = Sql::new(
    "journal_after",
    "select j.run, j.pos, j.kind, j.name, j.at, j.codec, j.body, j.took from outlast.journal as j
      where j.shard = {p1} and j.run = {p2} and j.pos > {p3} order by j.pos limit {p4}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int]);

static INBOX_AFTER: Sql = Sql::new(
    "inbox_after",
    "select i.* from {batch} cross join lateral (
         select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body from outlast.inbox as i
          where i.shard = {p1} and i.run = b.run and i.seq > b.after_seq offset 0) as i",
)
.on_sqlite(
    "select i.run, i.seq, i.kind, i.name, i.sent_at, i.codec, i.body from outlast.inbox as i
      where i.shard = {p1} and i.run = {b:run} and i.seq > {b:after_seq}",
)
.rows(&[("run", Type::Id), ("after_seq", Type::Int)])
.takes(&[Type::Int]);
