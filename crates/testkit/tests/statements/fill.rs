//! Tables as large as they get.

use outlast_core::{NodeId, RunId};
use outlast_store::Value;
use outlast_testkit::{StoreKind, TABLES, World};
use uuid::Uuid;

/// The run with this number, in [`fill`].
pub(crate) fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

/// The node with this number, in [`fill`].
pub(crate) fn node(number: u128) -> NodeId {
    NodeId::new((1 << 40) + number)
}

/// Fills the tables as a large installation has them: most runs wait, few are due, fewer are held.
pub(crate) async fn fill(world: &World, runs: i64) {
    let began = std::time::Instant::now();
    let now = world.now().await.micros();
    let day: i64 = 86_400_000_000;
    let (id, series) = match world.kind() {
        StoreKind::Sqlite => (
            "unhex(printf('%032x', {}))",
            "(with recursive c(i) as (select {from} union all select i + 1 from c where i < {to}) select i from c) as s",
        ),
        StoreKind::Postgres => {
            ("lpad(to_hex({}::bigint), 32, '0')::uuid", "generate_series({from}, {to}) as s(i)")
        }
    };
    let id = |number: &str| id.replace("{}", number);
    let of =
        |from: i64, to: i64| series.replace("{from}", &from.to_string()).replace("{to}", &to.to_string());
    let (run, node) = (id("i"), id("1099511627776 + i % 50"));

    // Short enough for a user's transaction.
    const CHUNK: i64 = 100_000;
    let chunks =
        |rows: i64| (0..rows).step_by(CHUNK as usize).map(move |from| (from, (from + CHUNK).min(rows) - 1));
    let parent = id("i / 10");
    let bytes = if world.kind() == StoreKind::Sqlite { "x'00'" } else { "'\\x00'" };
    let mut texts = Vec::new();
    for (from, to) in chunks(runs) {
        let from_series = of(from, to);
        texts.push(format!(
            "insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at, parent, key, input)
             select 0, {run}, '', 'definition ' || i % 20, 1, 0, 'queue ' || i % 20, i % 10, {now} - i * 1000,
                    case when i % 10 = 3 then {parent} end, case when i % 10 = 4 then 'key ' || i end, {bytes} from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim,
                 epoch, news, queue, code, reason)
             select 0, {run}, case when i % 1000 = 1 then 2 when i % 1000 = 2 then 5 when i % 20 = 3 then 1 else 3 end,
                    0, i % 10, 1, 0, case when i % 20 = 3 then {now} - i * 1000 when i % 20 = 5 then {now} + {day} end,
                    case when i % 1000 = 1 then {node} end, case when i % 1000 = 1 then i end, 1, 0,
                    'queue ' || i % 20, 'definition ' || i % 20 || '@1', case when i % 1000 = 2 then 'no node' end
               from {from_series}"
        ));
    }
    for (from, to) in chunks(runs / 5) {
        let from_series = of(from, to);
        texts.push(format!(
            "insert into outlast.results (shard, run, status, epoch, finished_at)
             select 0, {}, 8 + i % 3, 1, {now} - i * 1000 from {from_series}",
            id("10000000 + i")
        ));
        texts.push(format!(
            "insert into outlast.tags (shard, name, value, run)
             select 0, 'city', 'city ' || i % 100, {run} from {from_series}"
        ));
        texts.push(format!("insert into outlast.deliveries (shard, id, at) select 0, {run}, {now} - i * 1000 from {from_series}"));
        // Few of the values expire, and few of those have.
        texts.push(format!(
            "insert into outlast.kv (shard, tenant, space, key, version, value, expires_at, updated_at)
             select 0, '', 'space ' || i % 20, 'key ' || i, {now} - {day}, {bytes},
                    case when i % 100 = 1 then {now} + (i - 1000) * 1000 end, {now} - {day} from {from_series}"
        ));
        texts.push(format!("insert into outlast.kv_writes (shard, id, version, at) select 0, {run}, 1, {now} - i * 1000 from {from_series}"));
        texts.push(format!(
            "insert into outlast.audit (shard, id, at, tenant, actor, action, target, request, status)
             select 0, {run}, {now} - i * 1000, '', 'ann', 'run.start', 'run ' || i, 'r', 201 from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.keys (shard, tenant, definition, key, run, started, news)
             select 0, '', 'definition ' || i % 20, 'key ' || i, {run}, 1, 0 from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.journal (shard, run, pos, kind, epoch, at, name)
             select 0, {}, 1 + i % 10, 2, 1, {now}, 'step' from {from_series}",
            id("i / 10")
        ));
        texts.push(format!(
            "insert into outlast.inbox (shard, run, seq, kind, name, sent_at)
             select 0, {}, 1 + i % 10, 1, 'tick', {now} from {from_series}",
            id("i / 10")
        ));
    }
    let nodes = of(0, 49);
    texts.push(format!(
        "insert into outlast.nodes (shard, id, name, host, pid, codes, joined_at, lease_until)
         select 0, {node}, 'node', 'here', 1, '[]', {now}, {now} + {day} from {nodes}"
    ));
    let indexes = without_indexes(world).await;
    for text in texts.iter().chain(&indexes) {
        world.raw(text).await;
    }
    println!("filled in {:?}", began.elapsed());
}

/// Takes PostgreSQL's indexes away and gives what makes them anew: a full table is indexed faster than
/// one that fills.
async fn without_indexes(world: &World) -> Vec<String> {
    if world.kind() == StoreKind::Sqlite {
        return Vec::new();
    }
    for (table, _) in TABLES {
        world.raw(&format!("alter table outlast.{table} set unlogged")).await;
    }
    let plain = "select indexname::text, indexdef from pg_indexes
                  where schemaname = 'outlast' and indexname not like '%_pkey'";
    let mut texts = Vec::new();
    for row in world.raw(plain).await {
        let [Value::Text(name), Value::Text(text)] = &row[..] else { panic!("{row:?}") };
        world.raw(&format!("drop index outlast.{name}")).await;
        texts.push(text.clone());
    }
    texts
}
