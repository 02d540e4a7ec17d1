//! What the planner knows of a young database.

use super::*;

#[tokio::test]
async fn a_table_that_has_grown_is_looked_at_before_autovacuum_comes_by() {
    with_place!(place);
    let store = place.open().await;
    let lease = store.pool.lease().await.unwrap();
    let client = lease.client();
    client.batch_execute("alter table outlast.runs set (autovacuum_enabled = off)").await.unwrap();
    let insert = "insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at, input)
                  select 0, gen_random_uuid(), '', 'd', 1, 1, 'q', 5, n, 'x' from generate_series(1, 5000) as n";
    client.batch_execute(insert).await.unwrap();

    let known = "select relname from pg_class where relnamespace = 'outlast'::regnamespace and reltuples > 0";
    assert!(client.query(known, &[]).await.unwrap().is_empty());
    store.keep_statistics().await;
    let tables: Vec<String> = client.query(known, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.contains(&"runs".to_owned()), "{tables:?}");
    assert!(!tables.contains(&"journal".to_owned()), "nobody looks at what is empty: {tables:?}");

    // Not again so soon.
    client.batch_execute("truncate outlast.runs").await.unwrap();
    client.batch_execute(insert).await.unwrap();
    store.keep_statistics().await;
    assert!(client.query(known, &[]).await.unwrap().is_empty());
    lease.give_back();
    place.gone().await;
}
