//! Keys: which run a (tenant, definition, key) names, also before that run exists.
//!
//! A row without a started run reserves an id. Messages that came first lie under it and are counted in
//! the row; whoever starts the key adopts id and messages. Key rows are locked before agenda rows.

use std::collections::{BTreeMap, HashMap};

use outlast_core::{RunId, ShardCount, shard_of_key};

use super::flight::{Answers, Flight, Place};
use crate::rows::{ReadRow, cells};
use crate::{Cell, Sql, StoreError, Type};

/// A key with everything that makes it unique, and the shard in which it lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyName {
    pub(crate) shard: u16,
    tenant: String,
    definition: String,
    key: String,
}

/// What the key's row says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRow {
    /// The run, or the id that is reserved for it.
    pub(crate) run: RunId,
    /// Whether the run exists.
    pub(crate) started: bool,
    /// How many messages came before the run.
    pub(crate) news: i64,
}

impl KeyName {
    /// The key `key`, in the shard that its hash says.
    pub(crate) fn new(tenant: &str, definition: &str, key: &str, shards: ShardCount) -> KeyName {
        KeyName {
            shard: shard_of_key(tenant, definition, key, shards),
            tenant: tenant.into(),
            definition: definition.into(),
            key: key.into(),
        }
    }

    /// The key of a run whose id has it in its shard already.
    pub(crate) fn in_shard(shard: u16, tenant: &str, definition: &str, key: &str) -> KeyName {
        KeyName { shard, tenant: tenant.into(), definition: definition.into(), key: key.into() }
    }

    /// Tenant, definition and key.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        cells![&*self.tenant, &*self.definition, &*self.key]
    }

    /// A row for a batch: tenant, definition, key and `more`.
    pub(crate) fn row(&self, more: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
        self.cells().into_iter().chain(more).collect()
    }
}

/// Rows by shard, in the order of the keys.
fn rows_by_shard<'a>(
    rows: impl IntoIterator<Item = (&'a KeyName, Vec<Cell>)>,
) -> BTreeMap<u16, Vec<Vec<Cell>>> {
    let mut shards: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for (name, row) in rows {
        shards.entry(name.shard).or_default().push(row);
    }
    shards
}

/// Makes rows for keys that have none, with these ids, and locks all of them.
///
/// Inserting waits for a transaction that is just inserting the same key; the lock then sees what it
/// wrote. A key that is there is not inserted: that would wait for whoever is changing its row.
pub(crate) fn add_reserve(
    flight: &mut Flight,
    names: &BTreeMap<KeyName, RunId>,
    started: bool,
    wait: bool,
) -> Vec<(u16, Place)> {
    let wanted = rows_by_shard(names.iter().map(|(name, run)| (name, name.row([Cell::from(*run)]))));
    let mut places = Vec::new();
    for (shard, rows) in wanted {
        flight.each(&KEYS_RESERVE, rows.clone(), cells![shard, i64::from(started)]);
        let named = rows.into_iter().map(|row| row[..3].to_vec()).collect();
        let lock = if wait { &KEYS_LOCK } else { &KEYS_LOCK_FREE };
        places.extend(flight.each(lock, named, cells![shard]).map(|place| (shard, place)));
    }
    places
}

/// The rows that the locks at `places` found. A key is missing when another transaction holds it and we
/// do not wait.
pub(crate) fn found(
    answers: &mut Answers,
    places: &[(u16, Place)],
) -> Result<HashMap<KeyName, KeyRow>, StoreError> {
    let mut found = HashMap::new();
    for (shard, place) in places {
        for row in answers.take(*place) {
            let name = KeyName::in_shard(*shard, &row.text(0)?, &row.text(1)?, &row.text(2)?);
            found.insert(name, KeyRow { run: row.run(3)?, started: row.int(4)? != 0, news: row.int(5)? });
        }
    }
    Ok(found)
}

/// The row of a key that we hold. A key whose run was purged between our insert and our lock is gone:
/// the transaction begins again and makes it anew.
pub(crate) fn held(found: &HashMap<KeyName, KeyRow>, name: &KeyName) -> Result<KeyRow, StoreError> {
    let gone = || StoreError::Conflict("a key was freed at this moment".into());
    found.get(name).copied().ok_or_else(gone)
}

/// Looks up one key, without a lock.
pub(crate) fn add_look(flight: &mut Flight, name: &KeyName) -> Option<(u16, Place)> {
    let place = flight.each(&KEYS_LOOK, vec![name.cells()], cells![name.shard]);
    place.map(|place| (name.shard, place))
}

/// Says how many messages lie under reserved ids now.
pub(crate) fn add_news(flight: &mut Flight, news: &BTreeMap<KeyName, i64>) {
    let rows = news.iter().map(|(name, news)| (name, name.row([Cell::from(*news)])));
    for (shard, rows) in rows_by_shard(rows) {
        flight.each(&KEYS_NEWS, rows, cells![shard]);
    }
}

pub(crate) static STATEMENTS: &[&Sql] = &[&KEYS_RESERVE, &KEYS_LOCK, &KEYS_LOCK_FREE, &KEYS_LOOK, &KEYS_NEWS];

const NAME: &[(&str, Type)] = &[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text)];

static KEYS_RESERVE: Sql = Sql::new(
    "keys_reserve",
    "insert into outlast.keys (shard, tenant, definition, key, run, started, news)
     select {p1}, b.tenant, b.definition, b.key, b.run, {p2}, 0 from {batch}
      where not exists (select 1 from outlast.keys as k where k.shard = {p1} and k.tenant = b.tenant
                           and k.definition = b.definition and k.key = b.key)
     on conflict do nothing",
)
.on_sqlite(
    "insert into outlast.keys (shard, tenant, definition, key, run, started, news)
     values ({p1}, {b:tenant}, {b:definition}, {b:key}, {b:run}, {p2}, 0) on conflict do nothing",
)
.rows(&[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text), ("run", Type::Id)])
.takes(&[Type::Int, Type::Int]);

/// One writer needs no locks, and one row no list.
macro_rules! key_of_row {
    () => {
        "select k.tenant, k.definition, k.key, k.run, k.started, k.news from outlast.keys as k
          where k.shard = {p1} and k.tenant = {b:tenant} and k.definition = {b:definition} and k.key = {b:key}"
    };
}

static KEYS_LOCK: Sql = Sql::new(
    "keys_lock",
    "select k.tenant, k.definition, k.key, k.run, k.started, k.news from outlast.keys as k
      where k.shard = {p1}
        and (k.tenant, k.definition, k.key) in (select b.tenant, b.definition, b.key from {batch})
      order by k.tenant, k.definition, k.key {for_update}",
)
.on_sqlite(key_of_row!())
.rows(NAME)
.takes(&[Type::Int]);

static KEYS_LOCK_FREE: Sql = Sql::new(
    "keys_lock_free",
    "select k.tenant, k.definition, k.key, k.run, k.started, k.news from outlast.keys as k
      where k.shard = {p1}
        and (k.tenant, k.definition, k.key) in (select b.tenant, b.definition, b.key from {batch})
      order by k.tenant, k.definition, k.key {skip_locked}",
)
.on_sqlite(key_of_row!())
.rows(NAME)
.takes(&[Type::Int]);

static KEYS_LOOK: Sql = Sql::new(
    "keys_look",
    "select k.tenant, k.definition, k.key, k.run, k.started, k.news from outlast.keys as k
      where k.shard = {p1}
        and (k.tenant, k.definition, k.key) in (select b.tenant, b.definition, b.key from {batch})",
)
.on_sqlite(key_of_row!())
.rows(NAME)
.takes(&[Type::Int]);

static KEYS_NEWS: Sql = Sql::new(
    "keys_news",
    "update outlast.keys as k set news = b.news from {batch}
      where k.shard = {p1} and k.tenant = b.tenant and k.definition = b.definition and k.key = b.key",
)
.on_sqlite(
    "update outlast.keys set news = {b:news}
      where shard = {p1} and tenant = {b:tenant} and definition = {b:definition} and key = {b:key}",
)
.rows(&[("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text), ("news", Type::Int)])
.takes(&[Type::Int]);
