//! Changes values that handlers keep.
//!
//! Rows are locked in the order of their names before anything is looked at; a key that a write may make gets its row
//! first, without a value, so that two who make the same key meet there. What a write did is noted under its id: a
//! repeat finds the note and changes nothing, also when others have changed the value since.
//!
//! A version is the microsecond in which it was made, or one more than the last if that is not over yet. So versions of
//! one key only rise, also when it was deleted or gone in between: an old version never fits a new value. A deleted row
//! stays until its version is over, and the sweep takes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outlast_core::{ShardCount, shard_of_key};
use uuid::Uuid;

use super::flight::Flight;
use crate::rows::{cells, micros, payload_cells};
use crate::{Cell, Expect, KvChange, KvName, KvWrite, KvWritten, Sql, StoreError, Tx, Type};

/// How often rows are made and locked that a sweep takes away in between.
const TRIES: u32 = 5;
/// When the time of a row without a value is over: whatever the clock says, it is.
const OVER: i64 = 0;

/// Changes values, each for itself, in the order given.
pub(crate) async fn kv_write(
    tx: &mut dyn Tx,
    writes: &[KvWrite],
    shards: ShardCount,
) -> Result<Vec<KvWritten>, StoreError> {
    let mut held = hold(tx, writes, shards).await?;
    let mut answers = Vec::with_capacity(writes.len());
    let mut notes = ByShard::new();
    for write in writes {
        let answer = match held.noted.get(&write.id) {
            Some(version) => KvWritten::Done { version: *version },
            None => change(held.rows.get_mut(&write.name), write),
        };
        if let KvWritten::Done { version } = answer
            && held.noted.insert(write.id, version).is_none()
        {
            let shard = shard_of(&write.name.tenant, &write.name.space, shards);
            notes.entry(shard).or_default().push(cells![write.id, version]);
        }
        answers.push(answer);
    }

    let (mut puts, mut unused) = (ByShard::new(), ByShard::new());
    for (name, row) in &held.rows {
        match row.change {
            Some(change) => puts.entry(row.shard).or_default().push(row_of(name, row.put(change))),
            None if row.version == 0 => unused.entry(row.shard).or_default().push(row_of(name, [])),
            None => {}
        }
    }
    let mut flight = Flight::default();
    for (sql, rows) in [(&KV_PUT, puts), (&KV_NOTE, notes), (&KV_UNRESERVE, unused)] {
        for (shard, rows) in rows {
            flight.each(sql, rows, cells![shard]);
        }
    }
    flight.send_last(tx).await?;
    Ok(answers)
}

/// The shard of all values of a space: a page of them is read from one.
pub(crate) fn shard_of(tenant: &str, space: &str, shards: ShardCount) -> u16 {
    shard_of_key(tenant, space, "", shards)
}

/// Rows for a batch of each shard.
type ByShard = BTreeMap<u16, Vec<Vec<Cell>>>;

/// A row for a batch: tenant, space, key and `more`.
fn row_of(name: &KvName, more: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let KvName { tenant, space, key } = name;
    cells![&**tenant, &**space, &**key].into_iter().chain(more).collect()
}

/// What the locks found.
#[derive(Default)]
struct Held<'w> {
    rows: BTreeMap<&'w KvName, Kept<'w>>,
    /// The versions that writes made before, by their ids.
    noted: HashMap<Uuid, i64>,
}

/// A locked row, and what becomes of it.
struct Kept<'w> {
    shard: u16,
    version: i64,
    is_there: bool,
    now: i64,
    change: Option<&'w KvChange>,
}

impl Kept<'_> {
    /// The cells of [`KV_PUT`] behind the name.
    fn put(&self, change: &KvChange) -> Vec<Cell> {
        let (value, expires_at) = match change {
            KvChange::Set { value, ttl } => (Some(value), ttl.map(|ttl| self.now + micros(ttl))),
            KvChange::Delete => (None, Some(OVER)),
        };
        let (codec, value) = payload_cells(value);
        cells![self.version, codec, value, expires_at, self.now]
    }
}

/// What a write does to its row, and the answer.
fn change<'w>(row: Option<&mut Kept<'w>>, write: &'w KvWrite) -> KvWritten {
    let current = row.as_ref().filter(|row| row.is_there).map(|row| row.version);
    let fits = match write.expect {
        None => true,
        Some(Expect::Absent) => current.is_none(),
        Some(Expect::Version(version)) => current == Some(version),
    };
    match row {
        _ if !fits => KvWritten::Conflict { current },
        Some(row) if row.is_there || write.change != KvChange::Delete => {
            row.version = row.now.max(row.version + 1);
            row.is_there = write.change != KvChange::Delete;
            row.change = Some(&write.change);
            KvWritten::Done { version: row.version }
        }
        _ => KvWritten::Absent,
    }
}

/// What writes need of one shard: names, each with whether its row has to be made, and ids.
#[derive(Default)]
struct Wanted<'w> {
    names: BTreeMap<&'w KvName, bool>,
    ids: BTreeSet<Uuid>,
}

/// Makes the rows that writes may need, locks all that are there, and then looks for what was noted.
async fn hold<'w>(
    tx: &mut dyn Tx,
    writes: &'w [KvWrite],
    shards: ShardCount,
) -> Result<Held<'w>, StoreError> {
    let mut wanted: BTreeMap<u16, Wanted<'w>> = BTreeMap::new();
    for write in writes {
        let wanted = wanted.entry(shard_of(&write.name.tenant, &write.name.space, shards)).or_default();
        wanted.ids.insert(write.id);
        *wanted.names.entry(&write.name).or_default() |= makes(write);
    }
    for _ in 0..TRIES {
        let held = hold_once(tx, &wanted).await?;
        let mut made = wanted.values().flat_map(|wanted| &wanted.names).filter(|(_, made)| **made);
        if made.all(|(name, _)| held.rows.contains_key(name)) {
            return Ok(held);
        }
    }
    Err(StoreError::Conflict("values were swept again and again while they were written".into()))
}

async fn hold_once<'w>(tx: &mut dyn Tx, wanted: &BTreeMap<u16, Wanted<'w>>) -> Result<Held<'w>, StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, wanted) in wanted {
        let made = wanted.names.iter().filter(|(_, made)| **made).map(|(name, _)| row_of(name, []));
        flight.each(&KV_RESERVE, made.collect(), cells![*shard]);
        let locks = wanted.names.keys().map(|name| row_of(name, [])).collect();
        let locks = flight.each(&KV_LOCK, locks, cells![*shard]);
        let ids = Cell::Ids(wanted.ids.iter().copied().collect());
        places.push((*shard, wanted, locks, flight.add(KV_NOTED.with(cells![*shard, ids]))));
    }
    let mut answers = flight.send(tx).await?;

    let mut held = Held::default();
    for (shard, wanted, locks, noted) in places {
        for row in answers.take_any(locks) {
            let name = KvName { tenant: row.text(0)?, space: row.text(1)?, key: row.text(2)? };
            let (now, expires_at) = (row.int(5)?, row.opt_int(4)?);
            let is_there = expires_at.is_none_or(|expires_at| expires_at > now);
            if let Some((name, _)) = wanted.names.get_key_value(&name) {
                held.rows.insert(name, Kept { shard, version: row.int(3)?, is_there, now, change: None });
            }
        }
        for row in answers.take(noted) {
            held.noted.insert(row.id(0)?, row.int(1)?);
        }
    }
    Ok(held)
}

/// Whether a write may make a key that is not there.
fn makes(write: &KvWrite) -> bool {
    matches!(write.change, KvChange::Set { .. }) && !matches!(write.expect, Some(Expect::Version(_)))
}

pub(crate) static STATEMENTS: &[&Sql] = &[&KV_RESERVE, &KV_LOCK, &KV_NOTED, &KV_PUT, &KV_NOTE, &KV_UNRESERVE];

const NAME: &[(&str, Type)] = &[("tenant", Type::Text), ("space", Type::Text), ("key", Type::Text)];

// As keys of runs are: a row that is there is not inserted, which would wait for whoever is changing it.
static KV_RESERVE: Sql = Sql::new(
    "kv_reserve",
    "insert into outlast.kv (shard, tenant, space, key, version, expires_at, updated_at)
     select {p1}, b.tenant, b.space, b.key, 0, 0, 0 from {batch}
      where not exists (select 1 from outlast.kv as k where k.shard = {p1} and k.tenant = b.tenant
                           and k.space = b.space and k.key = b.key)
     on conflict do nothing",
)
.rows(NAME)
.takes(&[Type::Int]);

static KV_LOCK: Sql = Sql::new(
    "kv_lock",
    "select k.tenant, k.space, k.key, k.version, k.expires_at, {now} from outlast.kv as k
      where k.shard = {p1} and (k.tenant, k.space, k.key) in (select b.tenant, b.space, b.key from {batch})
      order by k.tenant, k.space, k.key {for_update}",
)
.on_sqlite(
    "select k.tenant, k.space, k.key, k.version, k.expires_at, {now} from outlast.kv as k
      where k.shard = {p1} and k.tenant = {b:tenant} and k.space = {b:space} and k.key = {b:key}",
)
.rows(NAME)
.takes(&[Type::Int]);

static KV_NOTED: Sql = Sql::new(
    "kv_noted",
    "select w.id, w.version from outlast.kv_writes as w where w.shard = {p1} and w.id {in:p2}",
)
.takes(&[Type::Int, Type::Ids]);

static KV_PUT: Sql = Sql::new(
    "kv_put",
    "update outlast.kv as k set version = b.version, codec = b.codec, value = b.value, expires_at = b.expires_at,
            updated_at = b.updated_at
       from {batch}
      where k.shard = {p1} and k.tenant = b.tenant and k.space = b.space and k.key = b.key",
)
.rows(&[
    ("tenant", Type::Text),
    ("space", Type::Text),
    ("key", Type::Text),
    ("version", Type::Int),
    ("codec", Type::Text),
    ("value", Type::Bytes),
    ("expires_at", Type::Int),
    ("updated_at", Type::Int),
])
.takes(&[Type::Int]);

static KV_NOTE: Sql = Sql::new(
    "kv_note",
    "insert into outlast.kv_writes (shard, id, version, at)
     select {p1}, b.id, b.version, {now} from {batch} where true on conflict do nothing",
)
.rows(&[("id", Type::Id), ("version", Type::Int)])
.takes(&[Type::Int]);

// Made for a write that turned out to be a repeat.
static KV_UNRESERVE: Sql = Sql::new(
    "kv_unreserve",
    "delete from outlast.kv
      where shard = {p1} and version = 0 and (tenant, space, key) in (select b.tenant, b.space, b.key from {batch})",
)
.rows(NAME)
.takes(&[Type::Int]);
