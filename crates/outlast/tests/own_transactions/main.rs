//! Outlast's verbs in transactions of the user's own driver: commit = visible, roll back = gone.

#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod fences;
mod lab;

use std::time::Duration;

use outlast::prelude::*;
use outlast::{CompareAndSet, Target};
use outlast_testkit::{StoreKind, World, skipped, tell};
use rusqlite::TransactionBehavior;
use tokio::time::sleep;
use tokio_postgres::NoTls;

use lab::{Driver, Lab, Own, begin, client, double, file, listen, pool, soon, trust, work};

/// Stories that are told with every driver, with one shard and with four.
macro_rules! stories {
    ($(async fn $name:ident($lab:ident: Lab) $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn story($lab: &Lab) $body

            fn told(driver: Driver, kind: StoreKind, shards: u16) {
                tell(kind, shards, async |world: World| {
                    let lab = Lab::new(driver, world).await;
                    story(&lab).await;
                    lab.app.shutdown(Duration::from_secs(5)).await.expect("the engine stops");
                });
            }

            #[test]
            fn sqlx() {
                told(Driver::Sqlx, StoreKind::Postgres, 1);
            }
            #[test]
            fn sqlx_with_four_shards() {
                told(Driver::Sqlx, StoreKind::Postgres, 4);
            }
            #[test]
            fn tokio_postgres() {
                told(Driver::TokioPostgres, StoreKind::Postgres, 1);
            }
            #[test]
            fn tokio_postgres_with_four_shards() {
                told(Driver::TokioPostgres, StoreKind::Postgres, 4);
            }
            #[test]
            fn rusqlite() {
                told(Driver::Rusqlite, StoreKind::Sqlite, 1);
            }
            #[test]
            fn rusqlite_with_four_shards() {
                told(Driver::Rusqlite, StoreKind::Sqlite, 4);
            }
        }
    )*};
}

stories! {
    async fn commit_makes_a_run_visible_and_it_runs(lab: Lab) {
        let mut tx = lab.begin().await;
        tx.insert(42).await;
        let keyed = tx.start(lab.app.start(double(), 21).key("order-42").tag("shop", "north")).await.unwrap();
        let plain = tx.start(lab.app.start(double(), 4)).await.unwrap();
        let named = tx.start(lab.app.start_by_name("double", "5")).await.unwrap();
        assert!(keyed.created() && plain.created() && named.created());
        assert!(lab.app.find(Target::key("double", "order-42")).await.is_err(), "not before the commit");
        assert_eq!(keyed.status().await.unwrap_err().code(), "not_found");
        assert_eq!(lab.orders().await, 0, "not before the commit");

        tx.commit().await;
        assert_eq!(soon(keyed.result()).await.unwrap(), 42);
        assert_eq!(soon(plain.result()).await.unwrap(), 8);
        assert_eq!(soon(named.result_json()).await.unwrap().get(), "10");
        assert_eq!(lab.app.find(Target::key("double", "order-42")).await.unwrap(), keyed.id());
        assert_eq!(lab.orders().await, 1);
    }

    async fn roll_back_leaves_nothing(lab: Lab) {
        let listens = lab.waiting(listen()).await;
        let trusts = lab.waiting(trust()).await;
        let count = async |table: &str| lab.world.count(&format!("select count(*) from outlast.{table}")).await;

        let mut tx = lab.begin().await;
        tx.insert(42).await;
        let run = tx.start(lab.app.start(double(), 21).key("order-42").tag("shop", "north")).await.unwrap();
        tx.send(&lab.app, listens.id(), 7).await.unwrap();
        tx.send(&lab.app, Target::key("listen", "later"), 7).await.unwrap();
        tx.settle(&lab.app, trusts.id(), 7).await.unwrap();
        assert!(tx.cancel(&lab.app, trusts.id()).await.unwrap());
        tx.roll_back().await;

        assert_eq!(run.status().await.unwrap_err().code(), "not_found");
        assert_eq!(lab.app.find(Target::key("double", "order-42")).await.unwrap_err().code(), "not_found");
        assert_eq!(lab.orders().await, 0);
        assert_eq!(count("runs").await, 2, "only those that were there before");
        for table in ["keys", "inbox", "promises", "tags", "deliveries"] {
            assert_eq!(count(table).await, 0, "{table}");
        }
        // The key is free, and those who waited wait for the first message still.
        assert!(lab.app.start(double(), 5).key("order-42").await.unwrap().created());
        lab.app.send(listens.id(), "go", &8).await.unwrap();
        lab.app.settle(trusts.id(), "paid", &9).await.unwrap();
        assert_eq!(soon(listens.result()).await.unwrap(), 8);
        assert_eq!(soon(trusts.result()).await.unwrap(), 9);
    }

    async fn a_job_completes_with_the_commit_or_as_its_handler_says(lab: Lab) {
        for (order, commits, by) in [(1, false, "by its handler"), (2, true, "in the transaction")] {
            let (run, job) = lab.lends().await;
            let mut tx = lab.begin().await;
            tx.insert(order).await;
            tx.complete(&job, "in the transaction").await.unwrap();
            assert_eq!(lab.orders().await, 0, "not before the commit");
            match commits {
                true => tx.commit().await,
                false => tx.roll_back().await,
            }
            lab.gate.notify_one();
            assert_eq!(soon(run.result()).await.unwrap(), by);
        }
        assert_eq!(lab.orders().await, 1);
    }

    async fn a_job_that_is_no_longer_ours_completes_in_no_transaction(lab: Lab) {
        let (run, job) = lab.lends().await;
        lab.app.kill(run.id(), "by hand").await.unwrap();
        let mut tx = lab.begin().await;
        let error = tx.complete(&job, "too late").await.unwrap_err();
        assert!(error.to_string().contains("roll the transaction back"), "{error}");
        tx.roll_back().await;
        lab.gate.notify_one();
        assert!(soon(run.result()).await.unwrap_err().is_cancelled());
    }

    async fn values_are_there_with_the_commit_and_gone_with_the_roll_back(lab: Lab) {
        let kv = lab.app.kv_of("acme").space("stock");
        let before = kv.set("cups", &6).await.unwrap();
        for commits in [false, true] {
            let mut tx = lab.begin().await;
            tx.insert(42).await;
            let cups = tx.kv(kv.get_versioned::<u32>("cups")).await.unwrap().unwrap();
            assert_eq!((cups.value, cups.version), (6, before));
            let lost = tx.kv(kv.compare_and_set("cups", None, &9)).await.unwrap();
            assert_eq!(lost, CompareAndSet::Conflict { current: Some(before) });
            let taken = tx.kv(kv.compare_and_set("cups", before, &5)).await.unwrap();
            assert!(matches!(taken, CompareAndSet::Done { .. }), "losing is an answer: the transaction goes on");
            tx.kv(kv.set("spoons", &3).ttl(1.hour())).await.unwrap();
            assert!(!tx.kv(kv.delete("forks")).await.unwrap());
            let page = tx.kv(kv.list::<u32>("").limit(1)).await.unwrap();
            assert_eq!((page.entries[0].value, page.next.as_deref()), (5, Some("cups")), "it sees itself");
            let refused = tx.kv(kv.set("", &1)).await.unwrap_err();
            assert_eq!(refused.code(), "invalid_id");

            assert_eq!(kv.get::<u32>("cups").await.unwrap(), Some(6), "not before the commit");
            assert_eq!(kv.list::<u32>("").await.unwrap().entries.len(), 1);
            if commits {
                tx.commit().await;
            } else {
                tx.roll_back().await;
                assert_eq!((kv.get::<u32>("cups").await.unwrap(), lab.orders().await), (Some(6), 0));
                assert_eq!(kv.get::<u32>("spoons").await.unwrap(), None);
            }
        }
        assert_eq!((kv.get::<u32>("cups").await.unwrap(), lab.orders().await), (Some(5), 1));
        assert!(kv.get_versioned::<u32>("spoons").await.unwrap().unwrap().expires_at.is_some());
    }

    async fn a_key_is_unique_inside_the_transaction_too(lab: Lab) {
        let before = lab.app.start(double(), 1).key("before").await.unwrap();
        let mut tx = lab.begin().await;
        let again = tx.start(lab.app.start(double(), 1).key("before")).await.unwrap();
        assert_eq!((again.id(), again.created()), (before.id(), false));
        let other = tx.start(lab.app.start(double(), 2).key("before")).await.err().unwrap();
        assert_eq!(other, Error::KeyConflict { key: "before".into(), run: before.id() });

        let new = tx.start(lab.app.start(double(), 3).key("new")).await.unwrap();
        let again = tx.start(lab.app.start(double(), 3).key("new")).await.unwrap();
        assert_eq!((again.id(), again.created()), (new.id(), false));
        let other = tx.start(lab.app.start(double(), 4).key("new")).await.err().unwrap();
        assert_eq!(other, Error::KeyConflict { key: "new".into(), run: new.id() });

        // A conflict is an answer: the transaction goes on.
        tx.insert(1).await;
        tx.commit().await;
        assert_eq!(soon(new.result()).await.unwrap(), 6);
        assert_eq!(lab.orders().await, 1);
    }

    async fn events_promises_and_cancels_arrive_with_the_commit(lab: Lab) {
        let listens = lab.waiting(listen()).await;
        let trusts = lab.waiting(trust()).await;
        let stops = lab.waiting(listen()).await;
        let late = lab.app.start(double(), 1).delay(1.hour()).await.unwrap();

        let mut tx = lab.begin().await;
        tx.insert(1).await;
        tx.send(&lab.app, listens.id(), 7).await.unwrap();
        tx.settle(&lab.app, trusts.id(), 8).await.unwrap();
        assert!(tx.cancel(&lab.app, stops.id()).await.unwrap());
        assert!(tx.cancel(&lab.app, late.id()).await.unwrap());
        // A message to a key, then the run that has it.
        tx.send(&lab.app, Target::key("listen", "k"), 9).await.unwrap();
        let keyed = tx.start(lab.app.start(listen(), ()).key("k")).await.unwrap();
        for run in [listens.id(), trusts.id(), stops.id()] {
            assert_eq!(lab.world.status(run).await, Status::Waiting, "not before the commit");
        }

        tx.commit().await;
        assert_eq!(soon(listens.result()).await.unwrap(), 7);
        assert_eq!(soon(trusts.result()).await.unwrap(), 8);
        assert!(soon(stops.result()).await.unwrap_err().is_cancelled());
        assert!(soon(late.result()).await.unwrap_err().is_cancelled());
        assert_eq!(soon(keyed.result()).await.unwrap(), 9);
    }

    async fn what_cannot_be_is_an_answer_and_the_transaction_goes_on(lab: Lab) {
        let ended = lab.app.start(double(), 1).await.unwrap();
        soon(ended.result()).await.unwrap();
        let trusts = lab.waiting(trust()).await;
        let unknown = RunId::new(0, Default::default(), 1);

        let mut tx = lab.begin().await;
        assert_eq!(tx.send(&lab.app, ended.id(), 1).await.unwrap_err().code(), "run_closed");
        assert_eq!(tx.send(&lab.app, unknown, 1).await.unwrap_err().code(), "not_found");
        assert_eq!(tx.cancel(&lab.app, unknown).await.unwrap_err().code(), "not_found");
        assert!(!tx.cancel(&lab.app, ended.id()).await.unwrap(), "it had ended before");
        tx.settle(&lab.app, trusts.id(), 1).await.unwrap();
        assert_eq!(tx.settle(&lab.app, trusts.id(), 2).await.unwrap_err().code(), "already_settled");
        let unknown = tx.start(lab.app.start_by_name("dubble", "1")).await.err().unwrap();
        assert_eq!(unknown.to_string(), "no workflow or job is called \"dubble\"; did you mean double?");
        let refused = tx.start(lab.app.start(double(), 1).key("a b")).await.err().unwrap();
        assert_eq!(refused.code(), "invalid_id");
        tx.insert(1).await;
        tx.commit().await;
        assert_eq!(soon(trusts.result()).await.unwrap(), 1);
        assert_eq!(lab.orders().await, 1);
    }

    async fn two_transactions_with_one_key_wait_for_each_other(lab: Lab) {
        for first_commits in [true, false] {
            let key = format!("one-{first_commits}");
            let mut first = lab.begin().await;
            let ours = first.start(lab.app.start(double(), 3).key(&key)).await.unwrap();
            let (driver, url) = (lab.driver, lab.world.url().to_owned());
            let theirs = lab.app.start(double(), 3).key(&key);
            let second = tokio::spawn(async move {
                let mut second = begin(driver, &url).await;
                let theirs = second.start(theirs).await;
                second.commit().await;
                theirs
            });
            sleep(Duration::from_millis(200)).await;
            assert!(!second.is_finished(), "it waits for the first to end");

            if first_commits { first.commit().await } else { first.roll_back().await }
            let theirs = soon(second).await.unwrap().unwrap();
            assert_eq!(theirs.created(), !first_commits);
            assert_eq!(theirs.id() == ours.id(), first_commits);
            assert_eq!(soon(theirs.result()).await.unwrap(), 6);
        }
    }

    async fn many_transactions_with_the_same_runs_and_keys_all_end(lab: Lab) {
        let listens = lab.waiting(listen()).await;
        let tasks: Vec<_> = (0..8).map(|n| {
            let (driver, url, app) = (lab.driver, lab.world.url().to_owned(), lab.app.clone());
            let listens = listens.id();
            tokio::spawn(async move {
                let mut tx = begin(driver, &url).await;
                let run = tx.start(app.start(double(), 5).key("shared")).await.unwrap();
                let sent = tx.send(&app, listens, n).await;
                tx.insert(n.into()).await;
                tx.commit().await;
                // Once the first has arrived, the run may have ended.
                assert!(sent.is_ok() || sent.unwrap_err().code() == "run_closed");
                run.created()
            })
        }).collect();
        let mut created = 0;
        for task in tasks {
            created += u32::from(soon(task).await.unwrap());
        }
        assert_eq!((created, lab.orders().await), (1, 8));
        soon(listens.result()).await.unwrap();
    }

    async fn the_engine_goes_on_while_a_transaction_holds_runs(lab: Lab) {
        let listens = lab.waiting(listen()).await;
        let works = lab.app.start(work(), ()).await.unwrap();
        lab.until(works.id(), Status::Running).await;

        let mut tx = lab.begin().await;
        tx.send(&lab.app, listens.id(), 1).await.unwrap();
        tx.send(&lab.app, works.id(), 2).await.unwrap();
        // A held run that has something to record waits for the transaction.
        lab.gate.notify_one();
        let others = (0..20).map(|n| {
            let app = lab.app.clone();
            tokio::spawn(async move { app.start(double(), n).await.unwrap().result().await.unwrap() })
        });
        let others: Vec<_> = others.collect();
        if lab.driver == Driver::Rusqlite {
            // Who writes has the file: everybody waits, and nobody fails.
            sleep(Duration::from_millis(500)).await;
            tx.commit().await;
            for (n, other) in others.into_iter().enumerate() {
                assert_eq!(soon(other).await.unwrap(), 2 * n as u32);
            }
        } else {
            for (n, other) in others.into_iter().enumerate() {
                assert_eq!(soon(other).await.unwrap(), 2 * n as u32);
            }
            assert_eq!(lab.world.status(listens.id()).await, Status::Waiting);
            assert_eq!(lab.world.status(works.id()).await, Status::Running);
            tx.commit().await;
        }
        assert_eq!(soon(listens.result()).await.unwrap(), 1);
        assert_eq!(soon(works.result()).await.unwrap(), 2);
    }
}

/// On PostgreSQL, with both of its drivers.
fn on_postgres(story: impl AsyncFn(Lab)) {
    for driver in [Driver::Sqlx, Driver::TokioPostgres] {
        tell(StoreKind::Postgres, 1, async |world: World| story(Lab::new(driver, world).await).await);
    }
}

#[test]
fn a_transaction_that_has_failed_says_so() {
    on_postgres(async |lab: Lab| {
        let mut tx = lab.begin().await;
        let wrong = "select * from nowhere";
        match &mut tx {
            Own::Sqlx(tx) => drop(sqlx::query(wrong).execute(&mut **tx).await.unwrap_err()),
            Own::TokioPostgres(tx) => drop(tx.execute(wrong, &[]).await.unwrap_err()),
            Own::Rusqlite(_) => unreachable!(),
        }
        let error = tx.start(lab.app.start(double(), 1)).await.err().unwrap();
        assert!(error.to_string().contains("roll it back and begin again"), "{error}");
        tx.roll_back().await;
    });
}

#[test]
fn a_transaction_that_may_only_read_is_refused_for_good() {
    on_postgres(async |lab: Lab| {
        let mut tx = lab.begin().await;
        let only_read = "set transaction read only";
        match &mut tx {
            Own::Sqlx(tx) => drop(sqlx::query(only_read).execute(&mut **tx).await.unwrap()),
            Own::TokioPostgres(tx) => tx.batch_execute(only_read).await.unwrap(),
            Own::Rusqlite(_) => unreachable!(),
        }
        let error = tx.start(lab.app.start(double(), 1)).await.err().unwrap();
        assert!(error.to_string().contains("read-only transaction"), "{error}");
        assert!(matches!(error, Error::Store { retryable: false, .. }), "trying again does not help");
        tx.roll_back().await;
    });
}

#[test]
fn a_savepoint_takes_back_what_was_done_in_it() {
    on_postgres(async |lab: Lab| {
        let mut tx = lab.begin().await;
        let kept = tx.start(lab.app.start(double(), 1).key("kept")).await.unwrap();
        match &mut tx {
            Own::Sqlx(tx) => {
                let mut inner = sqlx::Connection::begin(&mut **tx).await.unwrap();
                lab.app.start(double(), 2).key("gone").in_tx(&mut *inner).await.unwrap();
                inner.rollback().await.unwrap();
            }
            Own::TokioPostgres(tx) => {
                let inner = tx.transaction().await.unwrap();
                lab.app.start(double(), 2).key("gone").in_tx(&inner).await.unwrap();
                inner.rollback().await.unwrap();
            }
            Own::Rusqlite(_) => unreachable!(),
        }
        tx.commit().await;
        assert_eq!(soon(kept.result()).await.unwrap(), 2);
        assert!(lab.app.find(Target::key("double", "gone")).await.is_err());
    });
}

#[test]
fn a_strictly_isolated_transaction_is_as_good() {
    on_postgres(async |lab: Lab| {
        let listens = lab.waiting(listen()).await;
        let mut tx = lab.begin().await;
        let strictly = "set transaction isolation level serializable";
        match &mut tx {
            Own::Sqlx(tx) => drop(sqlx::query(strictly).execute(&mut **tx).await.unwrap()),
            Own::TokioPostgres(tx) => tx.batch_execute(strictly).await.unwrap(),
            Own::Rusqlite(_) => unreachable!(),
        }
        let run = tx.start(lab.app.start(double(), 1).key("k")).await.unwrap();
        tx.send(&lab.app, listens.id(), 3).await.unwrap();
        tx.commit().await;
        assert_eq!(soon(run.result()).await.unwrap(), 2);
        assert_eq!(soon(listens.result()).await.unwrap(), 3);
    });
}

#[test]
fn one_hint_goes_out_with_the_commit_unless_it_is_switched_off() {
    on_postgres(async |lab: Lab| {
        let (heard, mut messages) = tokio::sync::mpsc::unbounded_channel();
        let (listener, mut connection) = tokio_postgres::connect(lab.world.url(), NoTls).await.unwrap();
        tokio::spawn(async move {
            let mut next =
                std::pin::pin!(futures_util::stream::poll_fn(move |cx| connection.poll_message(cx)));
            while let Some(Ok(message)) = futures_util::StreamExt::next(&mut next).await {
                if let tokio_postgres::AsyncMessage::Notification(note) = message {
                    let _ = heard.send(note.payload().to_owned());
                }
            }
        });
        listener.batch_execute("listen outlast").await.unwrap();
        // Hints of the engine's own transactions say who sent them.
        let mut ours = async || loop {
            let payload = soon(messages.recv()).await.unwrap();
            if !payload.contains('@') {
                return payload;
            }
        };

        let mut tx = lab.begin().await;
        tx.start(lab.app.start(double(), 1)).await.unwrap();
        tx.start(lab.app.start(double(), 2)).await.unwrap();
        tx.commit().await;
        assert_eq!(ours().await, "due", "two starts of one transaction are one hint");

        let quiet = Outlast::on(lab.world.store().clone()).notify_in_tx(false).client();
        let mut tx = lab.begin().await;
        tx.start(quiet.start(double(), 3)).await.unwrap();
        tx.commit().await;

        // Values are nobody's reason to look.
        let mut tx = lab.begin().await;
        tx.kv(lab.app.kv().set("key", &1)).await.unwrap();
        tx.kv(lab.app.kv().get::<u8>("key")).await.unwrap();
        tx.kv(lab.app.kv().list::<u8>("")).await.unwrap();
        tx.commit().await;
        listener.batch_execute("notify outlast, 'the end'").await.unwrap();
        assert_eq!(ours().await, "the end");
    });
}

#[test]
fn a_handler_of_a_server_can_use_it() {
    on_postgres(async |lab: Lab| {
        let (app, url) = (lab.app.clone(), lab.world.url().to_owned());
        let run = match lab.driver {
            Driver::Sqlx => tokio::spawn(async move {
                let mut tx = pool(&url).await.begin().await?;
                sqlx::query("insert into orders values (1)").execute(&mut *tx).await?;
                let run = app.start(double(), 1).key("k").in_tx(&mut *tx).await?;
                app.send_in_tx(&mut *tx, Target::key("listen", "k"), "go", "value").await?;
                tx.commit().await?;
                Ok::<_, AnyError>(run)
            }),
            _ => tokio::spawn(async move {
                let mut client = client(&url).await;
                let tx = client.transaction().await?;
                tx.execute("insert into orders values (1)", &[]).await?;
                let run = app.start(double(), 1).key("k").in_tx(&tx).await?;
                app.send_in_tx(&tx, Target::key("listen", "k"), "go", "value").await?;
                tx.commit().await?;
                Ok::<_, AnyError>(run)
            }),
        };
        let run = run.await.unwrap().unwrap();
        assert_eq!(soon(run.result()).await.unwrap(), 2);
        assert_eq!(lab.orders().await, 1);
    });
}

#[test]
fn a_transaction_on_another_database_is_refused_with_what_is_wrong() {
    on_postgres(async |lab: Lab| {
        let elsewhere = lab.world.url().rsplit_once('/').unwrap().0.to_owned() + "/postgres";
        let mut tx = begin(lab.driver, &elsewhere).await;
        let error = tx.start(lab.app.start(double(), 1).key("k")).await.err().unwrap();
        let said = "this transaction is on a database without Outlast's tables";
        assert!(error.to_string().starts_with(said), "{error}");
        assert_eq!(error.code(), "unavailable");
        tx.roll_back().await;

        let sqlite = Outlast::open("sqlite::memory:").await.unwrap().client();
        let mut tx = lab.begin().await;
        let error = tx.start(sqlite.start(double(), 1)).await.err().unwrap();
        assert!(error.to_string().contains("a transaction of PostgreSQL cannot reach them"), "{error}");
        tx.roll_back().await;
    });
    tell(StoreKind::Sqlite, 1, async |world: World| {
        let client = Outlast::on(world.store().clone()).client();
        let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
        let tx = elsewhere.transaction().unwrap();
        let error = client.start(double(), 1).key("k").in_tx_blocking(&tx).err().unwrap();
        let said = "this transaction is on a database without Outlast's tables";
        assert!(error.to_string().starts_with(said), "{error}");
        assert!(tx.execute_batch("create table t (x)").is_ok(), "the transaction itself goes on");
    });
}

#[test]
fn a_connection_outside_of_a_transaction_is_refused() {
    tell(StoreKind::Sqlite, 1, async |world: World| {
        let client = Outlast::on(world.store().clone()).client();
        let error = client.start(double(), 1).in_tx_blocking(&file(world.url())).err().unwrap();
        assert!(error.to_string().contains("no transaction is open on this connection"), "{error}");
    });
    if skipped() {
        return;
    }
    tell(StoreKind::Postgres, 1, async |world: World| {
        let client = Outlast::on(world.store().clone()).client();
        let mut connection = pool(world.url()).await.acquire().await.unwrap();
        let error = client.start(double(), 1).in_tx(&mut *connection).await.err().unwrap();
        assert!(error.to_string().contains("no transaction is open on this connection"), "{error}");
    });
}

#[test]
fn a_deferred_transaction_that_came_too_late_is_told_to_begin_again() {
    tell(StoreKind::Sqlite, 1, async |world: World| {
        let client = Outlast::on(world.store().clone()).client();
        let mut connection = file(world.url());
        let late = connection.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
        late.query_row("select count(*) from outlast_runs", [], |row| row.get::<_, i64>(0)).unwrap();
        client.start(double(), 1).await.unwrap();
        let error = client.start(double(), 2).in_tx_blocking(&late).err().unwrap();
        assert!(matches!(error, Error::Store { retryable: true, .. }), "{error}");
    });
}
