//! Users' own transactions.

use super::*;

#[tokio::test]
async fn a_users_values_fit_whatever_the_column_is() {
    with_place!(place);
    let store = place.open().await;
    let mut tx = store.begin().await.unwrap();
    let table = "create table orders
                 (a int2, b numeric, c timestamptz, d uuid, e jsonb, f float8, g bool, h bytea, i text)";
    tx.execute(table, &[]).await.unwrap();
    let values = [
        Value::Int(7),
        Value::Text("12.50".into()),
        Value::Text("2026-11-15T00:00:00Z".into()),
        Value::Text("00000000-0000-0000-0000-000000000007".into()),
        Value::Text("{\"a\":1}".into()),
        Value::Float(f64::NEG_INFINITY),
        Value::Bool(true),
        Value::Bytes(vec![0, 1].into()),
        Value::Null,
    ];
    let insert = "insert into orders values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    assert_eq!(tx.execute(insert, &values).await.unwrap(), 1);
    let select = "select a, b::text, extract(year from c)::int4, d, e, f, g, h, i from orders where a = $1";
    let rows = tx.query(select, &[Value::Int(7)]).await.unwrap();
    let mut expected = values.to_vec();
    expected[2] = Value::Int(2026);
    expected[4] = Value::Text("{\"a\": 1}".into());
    assert_eq!(rows, [expected]);
    let refusal = tx.query("select b from orders", &[]).await.unwrap_err();
    assert!(refusal.to_string().contains("`b::text`"), "{refusal}");
    place.gone().await;
}

#[tokio::test]
async fn a_users_transaction_commits_all_or_nothing() {
    with_place!(place);
    let store = place.open().await;
    let put = "insert into outlast.meta (name, value) values ($1, 'x')";
    let name = |name: &str| [Value::Text(name.into())];

    let mut tx = store.begin().await.unwrap();
    tx.execute(put, &name("kept")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute(put, &name("undone")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute(put, &name("dropped")).await.unwrap();
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    tx.execute(put, &name("failed")).await.unwrap();
    let refusal = tx.execute(put, &name("kept")).await.unwrap_err();
    assert!(
        matches!(&refusal, StoreError::Statement(why) if why.to_string().contains("duplicate key")),
        "{refusal}"
    );
    assert!(matches!(tx.execute(put, &name("after")).await, Err(StoreError::Statement(_))));
    assert!(matches!(tx.commit().await, Err(StoreError::Statement(_))));

    let all = ["kept", "undone", "dropped", "failed", "after"];
    assert_eq!(names(&store, &all).await, ["kept"]);
    place.gone().await;
}

#[tokio::test]
async fn a_stuck_user_is_rolled_back() {
    with_place!(place);
    let store = place.open().await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("insert into outlast.meta values ('stuck', 'x')", &[]).await.unwrap();
    tokio::time::sleep(crate::user_tx::USER_IDLE + Duration::from_millis(500)).await;
    let refusal = tx.execute("select 1", &[]).await.unwrap_err();
    assert!(refusal.to_string().contains("idle for 5 s"), "{refusal}");
    assert!(tx.commit().await.is_err());
    assert!(names(&store, &["stuck"]).await.is_empty());
    place.gone().await;
}
