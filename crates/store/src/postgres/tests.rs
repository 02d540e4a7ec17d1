//! The PostgreSQL driver below the transitions: flights, conflicts, lost connections.
//!
//! Each test has a database of its own in the cluster that `cargo xtask test` starts.

mod hints;
mod opening;
mod statistics;
mod users;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use super::*;
use crate::{Cell, Row, Sql, Tx, Type, Value, statements};
use outlast_proxy::{Manner, Proxy};

static PUT: Sql = Sql::new(
    "test_put",
    "insert into outlast.meta (name, value) select b.name, b.value from {batch} where true returning name",
)
.rows(&[("name", Type::Text), ("value", Type::Text)]);
static GET: Sql =
    Sql::new("test_get", "select name, value from outlast.meta where name {in:p1} order by name")
        .takes(&[Type::Texts]);
static LOCK: Sql = Sql::new("test_lock", "select name from outlast.meta where name = {p1} {for_update}")
    .takes(&[Type::Text]);
static TIME: Sql = Sql::new("test_time", "select {now}, {p1}").takes(&[Type::Int]);
static ALL: Sql = Sql::new(
    "test_all",
    "select b.i, b.t, b.x, b.u, {p1}, 1::smallint, 2::integer, true, '{p9}' from {batch} where b.u {in:p2}",
)
.rows(&[("i", Type::Int), ("t", Type::Text), ("x", Type::Bytes), ("u", Type::Id)])
.takes(&[Type::Int, Type::Ids, Type::Bytes]);
static WRONG: Sql = Sql::new("test_wrong", "select 1 / {p1}").takes(&[Type::Int]);
static AGAIN: Sql = Sql::new("test_again", "select test_conflict({p1})").takes(&[Type::Text]);

/// A database that goes away with its test.
struct Place {
    name: String,
    url: String,
    admin: Client,
}

impl Place {
    /// `None` when somebody asked to test without PostgreSQL.
    async fn new() -> Option<Place> {
        if std::env::var("OUTLAST_SKIP_POSTGRES").is_ok_and(|value| value == "1") {
            return None;
        }
        let told =
            std::env::var("OUTLAST_TEST_POSTGRES").expect("no PostgreSQL to test with: run cargo xtask test");
        let config: Config = told.parse().expect("OUTLAST_TEST_POSTGRES is a connection string");
        let (admin, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let name = format!("d_{:016x}", fastrand::u64(..));
        admin.batch_execute(&format!("create database {name} template template0")).await.unwrap();
        let host = match &config.get_hosts()[0] {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string().replace('/', "%2F"),
        };
        let (user, port) = (config.get_user().unwrap(), config.get_ports().first().unwrap_or(&5432));
        let url = format!("postgres://{user}@{host}:{port}/{name}");
        Some(Place { name, url, admin })
    }

    async fn open(&self) -> Arc<Postgres> {
        self.open_with("").await
    }

    async fn open_with(&self, options: &str) -> Arc<Postgres> {
        open(&format!("{}{options}", self.url), OpenOptions::default()).await.unwrap()
    }

    async fn gone(self) {
        self.admin.batch_execute(&format!("drop database {} with (force)", self.name)).await.unwrap();
    }

    async fn connections(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity where datname = $1";
        self.admin.query_one(sql, &[&self.name]).await.unwrap().get(0)
    }

    /// Ends every connection to the database.
    async fn cut(&self) {
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
        self.admin.query(sql, &[&self.name]).await.unwrap();
    }
}

fn work<T>(
    work: impl for<'t> FnMut(&'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
) -> Work<T> {
    Box::new(work)
}

fn row(name: &str) -> Vec<Cell> {
    vec![Cell::from(name), Cell::from("x")]
}

fn put(names: &'static [&'static str]) -> Work<()> {
    work(move |tx| {
        Box::pin(async move {
            tx.signal(Signal::Due);
            let rows = names.iter().map(|name| row(name)).collect();
            tx.last_flight(vec![PUT.each(rows, [])]).await.map(drop)
        })
    })
}

async fn names(store: &Arc<Postgres>, names: &[&str]) -> Vec<String> {
    let names = Cell::Texts(names.iter().map(|&name| name.to_owned()).collect());
    let get = work(move |tx| {
        let names = names.clone();
        Box::pin(async move { Ok(tx.last_flight(vec![GET.with([names])]).await?.remove(0)) })
    });
    let rows: Vec<Row> = store.transact(TxKind::Read, get).await.unwrap();
    rows.iter().map(|row| row.text(0).unwrap()).collect()
}

/// Writes the body of a test that has a database.
macro_rules! with_place {
    ($place:ident) => {
        let Some($place) = Place::new().await else { return };
    };
}
use with_place;

#[tokio::test]
async fn a_connection_plans_as_we_say_whatever_it_was_used_for_first() {
    with_place!(place);
    for first in ["nothing", "hints", "a user"] {
        // There is only one.
        let store = place.open_with("?pool=1").await;
        match first {
            "hints" => listen::notify(&store.pool, &["due".to_owned()]).await.unwrap(),
            "a user" => {
                let mut tx = store.begin().await.unwrap();
                tx.query("select 1", &[]).await.unwrap();
                let reason = String::from("enough");
                let run = crate::Address::Run(outlast_core::RunId::new(0, Default::default(), 1));
                tx.control(&crate::Control::Cancel { run, reason }).await.unwrap();
                tx.rollback().await.unwrap();
            }
            _ => {}
        }
        let get = work(|tx| {
            let call = GET.with([Cell::Texts(vec![])]);
            Box::pin(async move { tx.last_flight(vec![call]).await.map(drop) })
        });
        store.transact(TxKind::Plain, get).await.unwrap();
        let lease = store.pool.lease().await.unwrap();
        for (setting, value) in [
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("enable_bitmapscan", "off"),
            ("jit", "off"),
            ("seq_page_cost", "0"),
            ("random_page_cost", "0"),
            ("cpu_tuple_cost", "0.1"),
            ("cpu_index_tuple_cost", "0.1"),
        ] {
            let said = lease.client().query_one("select current_setting($1)", &[&setting]).await.unwrap();
            assert_eq!(said.get::<_, String>(0), value, "{setting} after {first}");
        }
        lease.give_back();
        // A user's own statements are planned as ever.
        let mut tx = store.begin().await.unwrap();
        for (setting, value) in [("enable_hashjoin", "on"), ("random_page_cost", "4")] {
            let said = tx.query(&format!("select current_setting('{setting}')"), &[]).await.unwrap();
            assert_eq!(said, [[Value::Text(value.into())]], "{setting} after {first}");
        }
        tx.rollback().await.unwrap();
    }
    place.gone().await;
}

#[tokio::test]
async fn every_kind_of_cell_goes_in_and_comes_out() {
    with_place!(place);
    for options in ["", "?statements=unnamed"] {
        let store = place.open_with(options).await;
        let id = uuid::Uuid::from_u128(7);
        let ask = work(move |tx| {
            let full = vec![Cell::Int(-5), Cell::from("ä"), Cell::Bytes(vec![0, 255].into()), Cell::Id(id)];
            let other = vec![Cell::Null, Cell::Null, Cell::Null, Cell::Id(id)];
            let hidden = vec![Cell::Null, Cell::Null, Cell::Null, Cell::Null];
            let params = [Cell::Null, Cell::Ids(vec![id]), Cell::Null];
            let call = ALL.each(vec![full, other, hidden], params);
            Box::pin(async move { Ok(tx.last_flight(vec![call]).await?.remove(0)) })
        });
        let rows = store.transact(TxKind::Plain, ask).await.unwrap();
        let same = [Cell::Null, Cell::Int(1), Cell::Int(2), Cell::Int(1), Cell::from("{p9}")];
        let full = [Cell::Int(-5), Cell::from("ä"), Cell::Bytes(vec![0, 255].into()), Cell::Id(id)];
        assert_eq!(rows[0].0, [&full[..], &same].concat());
        assert_eq!(rows[1].0[..4], [Cell::Null, Cell::Null, Cell::Null, Cell::Id(id)]);
        assert_eq!(rows.len(), 2);
    }
    place.gone().await;
}

#[tokio::test]
async fn a_flight_answers_in_order_and_skips_empty_batches() {
    with_place!(place);
    let store = place.open().await;
    let ask = work(|tx| {
        Box::pin(async move {
            let first = tx.flight(vec![PUT.each(vec![row("a"), row("b")], []), PUT.each(vec![], [])]).await?;
            let get = GET.with([Cell::Texts(vec!["a".into(), "b".into(), "c".into()])]);
            let calls = vec![PUT.each(vec![], []), PUT.each(vec![row("c")], []), get];
            let last = tx.last_flight(calls).await?;
            Ok([first, last].concat().iter().map(Vec::len).collect::<Vec<_>>())
        })
    });
    assert_eq!(store.transact(TxKind::Fenced, ask).await.unwrap(), [2, 0, 0, 1, 3]);
    assert_eq!(names(&store, &["a", "b", "c"]).await, ["a", "b", "c"]);
    place.gone().await;
}

#[tokio::test]
async fn a_flight_costs_one_round_trip_with_begin_and_commit() {
    with_place!(place);
    let proxy = Proxy::before(&place.url).await.unwrap().unwrap();
    // One connection, which has prepared every statement before it counts.
    let store = open(&format!("{}?pool=1", proxy.url(&place.url)), OpenOptions::default()).await.unwrap();
    let two = || {
        work(|tx| {
            Box::pin(async move {
                tx.flight(vec![LOCK.with([Cell::from("a")]), LOCK.with([Cell::from("b")])]).await?;
                tx.last_flight(vec![LOCK.with([Cell::from("c")])]).await.map(drop)
            })
        })
    };
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    store.transact(TxKind::Fenced, two()).await.unwrap();

    // Replies come late, so that whatever does not wait for them is sent before the first.
    proxy.set(Manner { delay: Duration::from_millis(400), ..Manner::default() });
    store.transact(TxKind::Plain, put(&["b"])).await.unwrap();
    let before = proxy.counts().trips;
    store.transact(TxKind::Fenced, two()).await.unwrap();
    assert_eq!(proxy.counts().trips - before, 2, "two flights, with begin and commit on board");
    place.gone().await;
}

#[tokio::test]
async fn a_lost_reply_to_the_commit_is_unavailable_though_it_happened() {
    with_place!(place);
    let proxy = Proxy::before(&place.url).await.unwrap().unwrap();
    let store = open(&format!("{}?pool=2", proxy.url(&place.url)), OpenOptions::default()).await.unwrap();
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    proxy.set(Manner { loses_replies: true, ..Manner::default() });
    let error = store.transact(TxKind::Plain, put(&["b"])).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    proxy.set(Manner::default());
    assert_eq!(names(&store, &["a", "b"]).await, ["a", "b"]);
    place.gone().await;
}

#[tokio::test]
async fn the_first_real_error_is_told_and_nothing_is_committed() {
    with_place!(place);
    let store = place.open().await;
    for last in [true, false] {
        let ask = work(move |tx| {
            Box::pin(async move {
                let calls = vec![
                    PUT.each(vec![row("a")], []),
                    WRONG.with([Cell::Int(0)]),
                    PUT.each(vec![row("b")], []),
                ];
                if last { tx.last_flight(calls).await } else { tx.flight(calls).await }
            })
        });
        let error = store.transact(TxKind::Plain, ask).await.unwrap_err();
        assert!(error.to_string().contains("division by zero"), "{error}");
        assert!(names(&store, &["a", "b"]).await.is_empty());
    }
    place.gone().await;
}

#[tokio::test]
async fn a_swallowed_error_still_fails_the_transaction() {
    with_place!(place);
    let store = place.open().await;
    let ask = work(|tx| {
        Box::pin(async move {
            tx.flight(vec![PUT.each(vec![row("a")], []), WRONG.with([Cell::Int(0)])]).await.unwrap_err();
            Ok(())
        })
    });
    store.transact(TxKind::Plain, ask).await.unwrap_err();
    assert!(names(&store, &["a"]).await.is_empty());
    place.gone().await;
}

#[tokio::test]
async fn what_cannot_be_encoded_keeps_the_commit_from_going_out() {
    with_place!(place);
    let store = place.open().await;
    let ask = work(|tx| {
        Box::pin(async move {
            tx.last_flight(vec![PUT.each(vec![row("a")], []), WRONG.with([Cell::from("zero")])])
                .await
                .map(drop)
        })
    });
    let error = store.transact(TxKind::Plain, ask).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    assert!(names(&store, &["a"]).await.is_empty());
    place.gone().await;
}

#[tokio::test]
async fn a_transition_without_a_last_flight_is_committed_all_the_same() {
    with_place!(place);
    let store = place.open().await;
    let ask =
        work(|tx| Box::pin(async move { tx.flight(vec![PUT.each(vec![row("a")], [])]).await.map(drop) }));
    store.transact(TxKind::Plain, ask).await.unwrap();
    let nothing = work(|tx| Box::pin(async move { tx.last_flight(vec![]).await.map(drop) }));
    store.transact(TxKind::Fenced, nothing).await.unwrap();
    assert_eq!(names(&store, &["a"]).await, ["a"]);
    place.gone().await;
}

#[tokio::test]
async fn a_conflict_begins_the_work_again() {
    with_place!(place);
    let store = place.open().await;
    let make = "create function test_conflict(code text) returns int language plpgsql as
                $$ begin raise exception using errcode = code, message = 'on purpose'; end $$";
    let mut tx = store.begin().await.unwrap();
    tx.execute(make, &[]).await.unwrap();
    tx.commit().await.unwrap();

    for (code, tries) in [("40001", CONFLICT_TRIES), ("40P01", CONFLICT_TRIES), ("55P03", 1), ("57014", 1)] {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let ask = work(move |tx| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { tx.last_flight(vec![AGAIN.with([Cell::from(code)])]).await.map(drop) })
        });
        let error = store.transact(TxKind::Plain, ask).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{code}: {error:?}");
        assert_eq!(calls.load(Ordering::SeqCst), tries, "{code}");
    }
    for (code, is_expected) in [
        ("53100", (|error| matches!(error, StoreError::Full(_))) as fn(&StoreError) -> bool),
        ("53300", |error| matches!(error, StoreError::Unavailable(_))),
        ("57P01", |error| matches!(error, StoreError::Unavailable(_))),
        ("08006", |error| matches!(error, StoreError::Unavailable(_))),
        ("22012", |error| matches!(error, StoreError::Refused(_))),
    ] {
        let ask = work(move |tx| {
            Box::pin(async move { tx.last_flight(vec![AGAIN.with([Cell::from(code)])]).await.map(drop) })
        });
        let error = store.transact(TxKind::Plain, ask).await.unwrap_err();
        assert!(is_expected(&error), "{code}: {error:?}");
    }
    place.gone().await;
}

#[tokio::test]
async fn somebody_elses_lock_is_waited_for_only_so_long() {
    with_place!(place);
    let store = place.open().await;
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    let mut holder = store.begin().await.unwrap();
    holder.query("select 1 from outlast.meta where name = 'a' for update", &[]).await.unwrap();

    let ask = work(|tx| {
        Box::pin(async move { tx.last_flight(vec![LOCK.with([Cell::from("a")])]).await.map(drop) })
    });
    let error = store.transact(TxKind::Plain, ask).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    place.gone().await;
}

#[tokio::test]
async fn the_clock_is_the_servers_and_can_be_moved() {
    with_place!(place);
    let store = place.open().await;
    let ask = || {
        work(|tx| {
            Box::pin(async move { tx.last_flight(vec![TIME.with([Cell::Int(7)])]).await?[0][0].int(0) })
        })
    };
    let before = store.transact(TxKind::Read, ask()).await.unwrap();
    store.clock.advance(Duration::from_secs(3600));
    let after = store.transact(TxKind::Plain, ask()).await.unwrap();
    assert!((3_600_000_000..3_660_000_000).contains(&(after - before)), "{before} {after}");
    place.gone().await;
}

#[tokio::test]
async fn cut_connections_are_replaced() {
    with_place!(place);
    let store = place.open().await;
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    place.cut().await;
    // One that was cut a moment ago may look alive; the caller hears that it may repeat.
    for _ in 0..10 {
        match store.transact(TxKind::Plain, put(&["b"])).await {
            Ok(()) => break,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(names(&store, &["a", "b"]).await, ["a", "b"]);
    place.gone().await;
}

#[tokio::test]
async fn a_dropped_caller_does_not_cost_a_connection() {
    with_place!(place);
    let store = place.open_with("?pool=2").await;
    for _ in 0..20 {
        let slow = store.transact(TxKind::Plain, put(&["a"]));
        let _ = tokio::time::timeout(Duration::from_micros(200), slow).await;
    }
    store.transact(TxKind::Plain, put(&["b"])).await.unwrap();
    assert_eq!(names(&store, &["a", "b"]).await, ["a", "b"]);
    assert!(place.connections().await <= 2);
    place.gone().await;
}

#[tokio::test]
async fn hints_reach_this_process_at_once_and_others_soon() {
    with_place!(place);
    let (here, there) = (place.open().await, place.open().await);
    let (mut ours, mut theirs) = (here.subscribe(), there.subscribe());
    // Both hear that they may have missed something, once they listen.
    assert_eq!(ours.recv().await.unwrap(), Signal::Anything);
    assert_eq!(theirs.recv().await.unwrap(), Signal::Anything);

    here.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    assert_eq!(ours.try_recv().unwrap(), Signal::Due);
    let heard = tokio::time::timeout(Duration::from_secs(10), theirs.recv()).await;
    assert_eq!(heard.unwrap().unwrap(), Signal::Due);
    // Ours came back by now, and was not taken for news.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(ours.try_recv().is_err());

    place.cut().await;
    let again = tokio::time::timeout(Duration::from_secs(10), theirs.recv()).await;
    assert_eq!(again.unwrap().unwrap(), Signal::Anything);
    place.gone().await;
}

#[tokio::test]
async fn nothing_of_a_failed_transaction_is_hinted() {
    with_place!(place);
    let store = place.open().await;
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    let mut signals = store.subscribe();
    assert_eq!(signals.recv().await.unwrap(), Signal::Anything);
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap_err();
    assert!(signals.try_recv().is_err());
    place.gone().await;
}
