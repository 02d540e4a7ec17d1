//! Values that handlers keep: one by its name, and pages of those whose keys begin alike.
//!
//! A prefix is a range of keys, because keys are compared byte by byte: nothing in it is a wildcard.

use outlast_core::{Limits, ShardCount};

use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, shard_of_kv};
use crate::{KvEntry, KvList, KvName, KvPage, Row, Sql, StoreError, Tx, Type};

/// The value under a name, unless its time is over.
pub(crate) async fn kv_get(
    tx: &mut dyn Tx,
    name: &KvName,
    shards: ShardCount,
) -> Result<Option<KvEntry>, StoreError> {
    let KvName { tenant, space, key } = name;
    let mut flight = Flight::default();
    let shard = shard_of_kv(tenant, space, shards);
    let place = flight.add(KV_GET.with(cells![shard, &**tenant, &**space, &**key]));
    let rows = flight.send_last(tx).await?.take(place);
    rows.first().map_or(Ok(None), entry)
}

/// Values whose keys begin with a prefix, after a key, in the order of their keys.
pub(crate) async fn kv_list(tx: &mut dyn Tx, ask: &KvList, shards: ShardCount) -> Result<KvPage, StoreError> {
    let limit = ask.limit.min(KvList::MOST);
    let values = cells![
        shard_of_kv(&ask.tenant, &ask.space, shards),
        &*ask.tenant,
        &*ask.space,
        &*ask.prefix,
        ask.after.as_deref().unwrap_or_default(),
        behind(&ask.prefix),
        // One more than a page tells whether there is a next.
        limit + 1,
        i64::try_from(ask.bytes).unwrap_or(i64::MAX),
        KvList::ROW as i64,
    ];
    let mut flight = Flight::default();
    let place = flight.add(KV_LIST.with(values));
    let rows = flight.send_last(tx).await?.take(place);

    let found = rows.first().map_or(Ok(0), |row| row.int(6))?;
    let entries = rows.iter().filter_map(|row| entry(row).transpose()).take(limit as usize);
    let entries = entries.collect::<Result<Vec<KvEntry>, _>>()?;
    let more = found > entries.len() as i64;
    let next = entries.last().filter(|_| more).map(|last| last.key.clone());
    Ok(KvPage { entries, next })
}

/// What sorts behind every key that begins with `prefix`, and before every other that is greater.
fn behind(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return chars.into_iter().collect();
        }
    }
    // Longer than any key, and nothing but the greatest.
    String::from_iter([char::MAX; Limits::NAME])
}

/// A value from `key, version, codec, value, expires_at, updated_at`; `None` for one that was deleted.
fn entry(row: &Row) -> Result<Option<KvEntry>, StoreError> {
    let Some(value) = row.payload(2)? else { return Ok(None) };
    Ok(Some(KvEntry {
        key: row.text(0)?,
        version: row.int(1)?,
        value,
        expires_at: row.opt_time(4)?,
        updated_at: row.time(5)?,
    }))
}

pub(super) static STATEMENTS: &[&Sql] = &[&KV_GET, &KV_LIST];

static KV_GET: Sql = Sql::new(
    "kv_get",
    "select k.key, k.version, k.codec, k.value, k.expires_at, k.updated_at from outlast.kv as k
      where k.shard = {p1} and k.tenant = {p2} and k.space = {p3} and k.key = {p4}
        and (k.expires_at is null or k.expires_at > {now})",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Text]);

// `ahead` is what the values before it take.
static KV_LIST: Sql = Sql::new(
    "kv_list",
    "select p.key, p.version, p.codec, p.value, p.expires_at, p.updated_at, p.found
       from (select f.key, f.version, f.codec, f.value, f.expires_at, f.updated_at, count(*) over () as found,
                    sum(length(f.value) + {p9}) over (order by f.key rows between unbounded preceding and 1 preceding)
                        as ahead
               from (select k.key, k.version, k.codec, k.value, k.expires_at, k.updated_at from outlast.kv as k
                      where k.shard = {p1} and k.tenant = {p2} and k.space = {p3}
                        and k.key >= {p4} and k.key > {p5} and k.key < {p6}
                        and (k.expires_at is null or k.expires_at > {now})
                      order by k.key limit {p7}) as f) as p
      where p.ahead is null or p.ahead + length(p.value) + {p9} <= {p8}
      order by p.key",
)
.takes(&[
    Type::Int,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Int,
    Type::Int,
    Type::Int,
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range_of_bytes() {
        for prefix in ["a", "a%", "a_", "ä", "\u{d7ff}", "z\u{10ffff}", "\u{10ffff}", ""] {
            let end = behind(prefix);
            for more in ["", "a", "\u{10ffff}", "\u{e000}"] {
                let key = format!("{prefix}{more}");
                assert!(key.as_str() >= prefix && key < end, "{key:?} begins with {prefix:?}");
            }
        }
        for (prefix, other) in
            [("a", "b"), ("a%", "a&"), ("a_", "a`"), ("z\u{10ffff}", "{"), ("\u{d7ff}", "\u{e000}")]
        {
            assert!(other >= behind(prefix).as_str(), "{other:?} does not begin with {prefix:?}");
        }
    }
}
