//! The SQLite driver below the transitions: groups, owners, foreign commits, bad places.

use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::render::rendered;
use crate::{Cell, Dialect, Shape, Sql, Tx, Type, Value, statements};

static PUT: Sql =
    Sql::new("test_put", "insert into outlast.meta (name, value) select b.name, b.value from {batch}")
        .rows(&[("name", Type::Text), ("value", Type::Text)]);
static GET: Sql =
    Sql::new("test_get", "select name, value from outlast.meta where name {in:p1} order by name")
        .takes(&[Type::Texts]);
static TIME: Sql = Sql::new("test_time", "select {now}, {p1}").takes(&[Type::Int]);
static IDS: Sql = Sql::new("test_ids", "select 1 where {p1} {in:p2}").takes(&[Type::Id, Type::Ids]);
static WRONG: Sql = Sql::new("test_wrong", "select nothing from nowhere");

fn work<T>(
    work: impl for<'t> FnMut(&'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
) -> Work<T> {
    Box::new(work)
}

fn put(name: &'static str) -> Work<()> {
    work(move |tx| {
        Box::pin(async move {
            let row = vec![Cell::from(name), Cell::from("x")];
            tx.signal(Signal::Due);
            tx.last_flight(vec![PUT.each(vec![row], [])]).await.map(drop)
        })
    })
}

async fn names(store: &Sqlite, kind: TxKind, names: &[&str]) -> Vec<String> {
    let names = Cell::Texts(names.iter().map(|&name| name.to_owned()).collect());
    let get = work(move |tx| {
        let names = names.clone();
        Box::pin(async move { Ok(tx.last_flight(vec![GET.with([names])]).await?.remove(0)) })
    });
    store.transact(kind, get).await.unwrap().iter().map(|row| row.text(0).unwrap()).collect()
}

async fn at(folder: &TempDir) -> Arc<Sqlite> {
    Arc::new(open(Some(folder.path().join("orders.db")), OpenOptions::default()).await.unwrap())
}

async fn in_memory() -> Arc<Sqlite> {
    Arc::new(open(None, OpenOptions::default()).await.unwrap())
}

/// Stops the writer inside a job until the sender is dropped, so that a queue builds up behind it.
async fn stop_writer(store: &Arc<Sqlite>) -> std_mpsc::Sender<()> {
    let (release, wait) = std_mpsc::channel::<()>();
    let (began, beginning) = std_mpsc::channel();
    let job = work(move |_tx| {
        let _ = began.send(());
        let _ = wait.recv();
        Box::pin(async { Ok(()) })
    });
    let writer = Arc::clone(store);
    tokio::spawn(async move { writer.transact(TxKind::Plain, job).await });
    tokio::task::spawn_blocking(move || beginning.recv().unwrap()).await.unwrap();
    release
}

#[tokio::test]
async fn an_error_in_one_job_leaves_the_others_of_its_group() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let release = stop_writer(&store).await;

    let wrong = work(|tx| {
        Box::pin(async move {
            let row = vec![Cell::from("half"), Cell::from("x")];
            tx.flight(vec![PUT.each(vec![row], [])]).await?;
            tx.last_flight(vec![WRONG.with([])]).await.map(drop)
        })
    });
    let panics = work::<()>(|_tx| Box::pin(async { panic!("on purpose") }));
    let (first, wrong, panics, twice, last, ()) = tokio::join!(
        store.transact(TxKind::Plain, put("first")),
        store.transact(TxKind::Plain, wrong),
        store.transact(TxKind::Plain, panics),
        store.transact(TxKind::Plain, put("first")),
        store.transact(TxKind::Plain, put("last")),
        async { drop(release) },
    );

    first.unwrap();
    last.unwrap();
    assert!(matches!(wrong, Err(StoreError::Refused(_))), "{wrong:?}");
    assert!(matches!(panics, Err(StoreError::Refused(_))), "{panics:?}");
    assert!(matches!(twice, Err(StoreError::Refused(_))), "{twice:?}");
    assert_eq!(names(&store, TxKind::Read, &["first", "half", "last"]).await, ["first", "last"]);
}

#[tokio::test]
async fn a_full_disk_fails_what_it_fails_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let limit = async |pages: u32| {
        let mut tx = store.begin().await.unwrap();
        tx.query(&format!("pragma max_page_count = {pages}"), &[]).await.unwrap();
        tx.rollback().await.unwrap();
    };
    limit(1).await;
    let release = stop_writer(&store).await;
    let huge = work(|tx| {
        Box::pin(async move {
            let row = vec![Cell::from("huge"), Cell::from("x".repeat(5_000_000))];
            tx.last_flight(vec![PUT.each(vec![row], [])]).await.map(drop)
        })
    });
    let (before, huge, after, ()) = tokio::join!(
        store.transact(TxKind::Plain, put("before")),
        store.transact(TxKind::Plain, huge),
        store.transact(TxKind::Plain, put("after")),
        async { drop(release) },
    );
    assert!(matches!(huge, Err(StoreError::Full(_))), "{huge:?}");
    let there = names(&store, TxKind::Read, &["before", "huge", "after"]).await;
    for (name, answer) in [("before", before), ("after", after)] {
        assert_eq!(answer.is_ok(), there.contains(&name.to_owned()), "{name}: {answer:?}");
        assert!(answer.is_ok() || answer.unwrap_err().is_retryable());
    }
    assert!(!there.contains(&"huge".to_owned()));

    limit(1_000_000).await;
    store.transact(TxKind::Plain, put("room again")).await.unwrap();
}

#[tokio::test]
async fn signals_go_out_after_the_commit_and_only_for_what_was_committed() {
    let store = in_memory().await;
    let mut signals = store.subscribe();
    store.transact(TxKind::Plain, put("one")).await.unwrap();
    assert_eq!(signals.recv().await.unwrap(), Signal::Due);
    store.transact(TxKind::Plain, put("one")).await.unwrap_err();
    assert_eq!(signals.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test]
async fn memory_is_read_and_written_through_one_connection() {
    let store = in_memory().await;
    store.transact(TxKind::Plain, put("one")).await.unwrap();
    assert_eq!(names(&store, TxKind::Read, &["one", "two"]).await, ["one"]);
}

#[tokio::test]
async fn the_bound_clock_is_the_stores() {
    let clock = Clock::stopped_at(outlast_core::Timestamp::from_micros(1_000));
    let store = open(None, OpenOptions { clock: clock.clone(), ..OpenOptions::default() }).await.unwrap();
    clock.advance(Duration::from_micros(234));
    let ask = work(|tx| {
        Box::pin(async move { Ok(tx.last_flight(vec![TIME.with([Cell::Int(7)])]).await?.remove(0)) })
    });
    let rows = store.transact(TxKind::Read, ask).await.unwrap();
    assert_eq!(rows[0].0, [Cell::Int(1_234), Cell::Int(7)]);
}

#[tokio::test]
async fn ids_are_found_among_many() {
    let store = in_memory().await;
    let id = uuid::Uuid::from_u128(0xfeed);
    for (many, found) in [(vec![uuid::Uuid::nil(), id], 1), (vec![], 0)] {
        let ask = work(move |tx| {
            let call = IDS.with([Cell::Id(id), Cell::Ids(many.clone())]);
            Box::pin(async move { Ok(tx.last_flight(vec![call]).await?.remove(0).len()) })
        });
        assert_eq!(store.transact(TxKind::Read, ask).await.unwrap(), found);
    }
}

#[tokio::test]
async fn a_commit_by_somebody_else_is_noticed() {
    let folder = TempDir::new().unwrap();
    let (store, other) = (at(&folder).await, at(&folder).await);
    let mut signals = store.subscribe();
    store.transact(TxKind::Plain, put("ours")).await.unwrap();
    assert_eq!(signals.recv().await.unwrap(), Signal::Due);
    // Its own commits must not look foreign, however long it looks.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(signals.try_recv(), Err(TryRecvError::Empty));

    other.transact(TxKind::Plain, put("theirs")).await.unwrap();
    let noticed = tokio::time::timeout(Duration::from_secs(10), signals.recv()).await;
    assert_eq!(noticed.unwrap().unwrap(), Signal::Anything);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_begun_on_a_file_that_was_removed_or_replaced_until_it_is_back() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    store.transact(TxKind::Plain, put("before")).await.unwrap();
    let (file, aside) = (folder.path().join("orders.db"), folder.path().join("aside.db"));
    std::fs::rename(&file, &aside).unwrap();
    for _ in 0..2 {
        let refused = store.transact(TxKind::Plain, put("lost")).await.unwrap_err();
        let why = refused.to_string();
        assert!(refused.is_retryable() && why.contains("orders.db was removed or replaced"), "{why}");
        let read = work(|tx| Box::pin(async move { tx.last_flight(vec![TIME.with([1_i64.into()])]).await }));
        assert!(store.transact(TxKind::Read, read).await.is_err(), "nobody is told that all is well");
        // Another file of that name is not ours either.
        std::fs::write(&file, "").unwrap();
    }
    std::fs::rename(&aside, &file).unwrap();
    store.transact(TxKind::Plain, put("after")).await.unwrap();
    assert_eq!(names(&store, TxKind::Read, &["before", "lost", "after"]).await, ["after", "before"]);
}

#[tokio::test]
async fn a_second_owner_is_refused_with_the_pid_of_the_first() {
    let folder = TempDir::new().unwrap();
    let (first, second) = (at(&folder).await, at(&folder).await);
    first.own().await.unwrap();
    first.own().await.unwrap();

    let refusal = second.own().await.unwrap_err();
    let StoreError::Owned { file, pid } = refusal else { panic!("{refusal}") };
    assert!(file.ends_with("orders.db"));
    assert_eq!(pid, std::process::id().to_string());

    drop(first);
    second.own().await.unwrap();
}

#[tokio::test]
async fn an_owner_ends_the_leases_of_the_dead() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let mut tx = store.begin().await.unwrap();
    let node = "insert into outlast_nodes (shard, id, name, host, pid, codes, joined_at, lease_until)
                values (0, $1, 'dead', 'here', 1, '', 0, 9000000000000000)";
    assert_eq!(tx.execute(node, &[Value::Bytes(vec![1u8; 16].into())]).await.unwrap(), 1);
    tx.commit().await.unwrap();

    store.own().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let leases = tx.query("select lease_until from outlast_nodes", &[]).await.unwrap();
    assert_eq!(leases, [[Value::Int(0)]]);
}

#[tokio::test]
async fn a_users_transaction_commits_all_or_nothing() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.execute("create table orders (id integer, price real, name text)", &[]).await.unwrap(), 0);
    let order = [Value::Float(1.5), Value::Int(42), Value::Text("tea".into())];
    let insert = "insert into orders (id, price, name) values ($2, $1, $3)";
    assert_eq!(tx.execute(insert, &order).await.unwrap(), 1);
    tx.commit().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    tx.execute("delete from orders where id = $1", &[Value::Int(42)]).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute("delete from orders", &[]).await.unwrap();
    drop(tx);

    let mut tx = store.begin().await.unwrap();
    let rows = tx.query("select id, price, name, null from orders", &[]).await.unwrap();
    assert_eq!(rows, [[Value::Int(42), Value::Float(1.5), Value::Text("tea".into()), Value::Null]]);
}

#[tokio::test]
async fn a_users_failed_statement_fails_the_transaction() {
    let store = in_memory().await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("create table orders (id integer primary key)", &[]).await.unwrap();
    let refusal = tx.execute("insert into nowhere values (1)", &[]).await.unwrap_err();
    assert!(
        matches!(&refusal, StoreError::Statement(why) if why.to_string().contains("nowhere")),
        "{refusal}"
    );
    assert!(matches!(tx.query("select 1", &[]).await, Err(StoreError::Statement(_))));
    assert!(matches!(tx.commit().await, Err(StoreError::Statement(_))));

    let mut tx = store.begin().await.unwrap();
    let tables = tx.query("select 1 from sqlite_master where name = 'orders'", &[]).await.unwrap();
    assert!(tables.is_empty());
    let refusal = tx.query("select $1, $2", &[Value::Int(1)]).await.unwrap_err();
    assert!(refusal.to_string().contains("2 parameters, and 1 values"), "{refusal}");
}

#[tokio::test]
async fn others_write_again_when_a_user_is_stuck() {
    let store = in_memory().await;
    let began = Instant::now();
    let mut stuck = store.begin().await.unwrap();
    store.transact(TxKind::Plain, put("one")).await.unwrap();
    assert!(began.elapsed() >= crate::user_tx::USER_IDLE);
    let refusal = stuck.execute("select 1", &[]).await.unwrap_err();
    assert!(refusal.to_string().contains("idle for 5 s"), "{refusal}");
}

#[tokio::test]
async fn another_processs_lock_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let (store, other) = (at(&folder).await, at(&folder).await);
    let mut user = other.begin().await.unwrap();
    user.execute("create table mine (x)", &[]).await.unwrap();
    let blocked = put("one");
    let (wrote, ended) = tokio::join!(store.transact(TxKind::Plain, blocked), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        user.commit().await
    });
    ended.unwrap();
    wrote.unwrap();
}

#[tokio::test]
async fn dropping_the_store_closes_its_files() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    store.own().await.unwrap();
    store.transact(TxKind::Plain, put("one")).await.unwrap();
    names(&store, TxKind::Read, &["one"]).await;
    let _listener = store.subscribe();
    drop(store);
    // The last connection to close removes the log.
    assert!(!folder.path().join("orders.db-wal").exists());
    at(&folder).await.own().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_openers_at_once_make_one_schema() {
    let folder = TempDir::new().unwrap();
    let openings: Vec<_> = (0..8)
        .map(|_| {
            let options = OpenOptions { shards: 4, ..OpenOptions::default() };
            tokio::spawn(open(Some(folder.path().join("orders.db")), options))
        })
        .collect();
    for opening in openings {
        assert_eq!(opening.await.unwrap().unwrap().shards, 4);
    }
    // An existing schema keeps its own number.
    assert_eq!(at(&folder).await.shards, 4);
}

#[tokio::test]
async fn a_newer_schema_that_serves_older_programs_is_used_by_them() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("insert into outlast_migrations values (900, 'later', '', 0)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    drop(store);
    at(&folder).await;
}

#[tokio::test]
async fn a_schema_of_another_version_is_refused() {
    let newer = "insert into outlast_migrations values (900, 'later', '', 0)";
    let changes: [(&[&str], &str); 4] = [
        (&[newer, "update outlast_meta set value = '900' where name = 'serves'"], "schema version 900"),
        (&["update outlast_migrations set checksum = 'beef'"], "checksum beef"),
        (&["drop table outlast_migrations"], "not ours"),
        (&["delete from outlast_meta"], "how many shards"),
    ];
    for (changes, said) in changes {
        let folder = TempDir::new().unwrap();
        let store = at(&folder).await;
        let mut tx = store.begin().await.unwrap();
        for change in changes {
            tx.execute(change, &[]).await.unwrap();
        }
        tx.commit().await.unwrap();
        drop(store);
        let refusal =
            open(Some(folder.path().join("orders.db")), OpenOptions::default()).await.err().unwrap();
        assert!(matches!(refusal, StoreError::Schema(_)));
        assert!(refusal.to_string().contains(said), "{refusal}");
    }
}

#[tokio::test]
async fn whoever_listened_before_runs_said_so_is_heard() {
    let folder = TempDir::new().unwrap();
    let store = at(&folder).await;
    let mut tx = store.begin().await.unwrap();
    let old = [
        "insert into outlast_agenda (shard, id, status, kind, priority, attempt, crashes, epoch, news, queue, code)
         values (0, x'01', 2, 1, 5, 1, 0, 1, 0, 'main', 'ship@1'), (0, x'02', 2, 1, 5, 1, 0, 1, 0, 'main', 'ship@1')",
        "insert into outlast_listeners (shard, run, listener, name) values (0, x'01', x'03', 'ship')",
        "delete from outlast_migrations where number = 5",
    ];
    for sql in old {
        tx.execute(sql, &[]).await.unwrap();
    }
    tx.commit().await.unwrap();
    drop(store);

    let mut tx = at(&folder).await.begin().await.unwrap();
    let heard = tx.query("select heard from outlast_agenda order by id", &[]).await.unwrap();
    assert_eq!(heard, [[Value::Int(1)], [Value::Int(0)]]);
}

#[tokio::test]
async fn a_file_that_is_refused_is_left_as_it_was() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("theirs.db");
    let theirs = rusqlite::Connection::open(&file).unwrap();
    theirs.execute_batch("create table orders (id)").unwrap();
    drop(theirs);
    let before = std::fs::read(&file).unwrap();
    let options = OpenOptions { no_migrate: true, ..OpenOptions::default() };
    assert!(matches!(open(Some(file.clone()), options).await, Err(StoreError::Schema(_))));
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn our_tables_stand_beside_the_users() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let users = rusqlite::Connection::open(&file).unwrap();
    users.execute_batch("create table runs (id); create index runs_by_time on runs (id)").unwrap();

    let no_migrate = OpenOptions { no_migrate: true, ..OpenOptions::default() };
    let refusal = open(Some(file.clone()), no_migrate.clone()).await.err().unwrap();
    assert!(refusal.to_string().contains("no schema of ours"), "{refusal}");
    open(Some(file.clone()), OpenOptions::default()).await.unwrap();
    open(Some(file), no_migrate).await.unwrap();
}

#[tokio::test]
async fn places_that_cannot_hold_a_database_are_named() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("letter.txt"),
        "Dear reader, this is long enough to be a header of 100 bytes. ".repeat(9),
    )
    .unwrap();
    let path = |name: &str| Some(folder.path().join(name));
    for (file, said) in [
        (Some(folder.path().to_owned()), "is a folder: name a file in it"),
        (path("missing/orders.db"), "does not exist: make it first"),
        (path("letter.txt"), "is not an SQLite database"),
    ] {
        let refusal = open(file, OpenOptions::default()).await.err().unwrap();
        assert!(matches!(refusal, StoreError::Address(_)), "{refusal:?}");
        assert!(refusal.to_string().contains(said), "{refusal}");
    }
    let no_migrate = OpenOptions { no_migrate: true, ..OpenOptions::default() };
    let refusal = open(path("new.db"), no_migrate).await.err().unwrap();
    assert!(refusal.to_string().contains("does not exist: name an existing file"), "{refusal}");
    assert!(!folder.path().join("new.db").exists());
}

#[tokio::test]
async fn names_of_files_are_taken_as_they_are() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file: my orders ä#1?%20.db");
    open(Some(file.clone()), OpenOptions::default()).await.unwrap();
    assert!(file.exists());
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let connection = connection::writer(None, &OpenOptions::default()).unwrap();
    connection::migrate(&connection, &OpenOptions::default(), "memory").unwrap();
    for sql in statements::all() {
        let text = &rendered(sql, Dialect::Sqlite, Shape::One).text;
        if let Err(error) = connection.prepare(text) {
            panic!("{}: {error}\n{text}", sql.name);
        }
    }
}
