//! A user's transaction: their rows and our runs happen together or not at all.

use bytes::Bytes;
use outlast_core::{NodeId, Status};
use outlast_store::{
    Address, Committed, Control, Controlled, Delivered, Purge, Purged, Started, StoreError, UserTx, Value,
};
use outlast_testkit::{LEASE, StoreKind, Turn, World, event, key, settlement, step, store_test};

use crate::DAY;

const INSERT: &str = "insert into ledger (run, amount) values ($1, $2)";

async fn with_ledger(world: &World) {
    let mut tx = world.begin().await;
    tx.execute("create table ledger (run text, amount bigint)", &[]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn debit(tx: &mut dyn UserTx, amount: i64) {
    let changed = tx.execute(INSERT, &[Value::Text("r".into()), Value::Int(amount)]).await.unwrap();
    assert_eq!(changed, 1);
}

async fn ledger(world: &World) -> i64 {
    world.count("select count(*) from ledger").await
}

#[store_test]
async fn values_of_every_type_return_as_they_went_in(world: World) {
    let mut tx = world.begin().await;
    let table = "create table things (n bigint, b boolean, i bigint, f double precision, t text, x bytea)";
    tx.execute(table, &[]).await.unwrap();
    let bytes = |bytes: &'static [u8]| Value::Bytes(Bytes::from_static(bytes));
    let text = |text: &str| Value::Text(text.into());
    let rows = [
        [Value::Bool(true), Value::Int(i64::MAX), Value::Float(0.1), text("Grüße 📦"), bytes(&[0, 255, 39])],
        [Value::Bool(false), Value::Int(i64::MIN), Value::Float(-1.5e300), text(""), bytes(b"")],
        [Value::Null, Value::Null, Value::Null, Value::Null, Value::Null],
        [
            Value::Bool(true),
            Value::Int(0),
            Value::Float(f64::INFINITY),
            text("'; drop table things"),
            bytes(b"\\x"),
        ],
    ];
    for (n, row) in rows.iter().enumerate() {
        let params = [&[Value::Int(n as i64)], &row[..]].concat();
        let insert = "insert into things (n, b, i, f, t, x) values ($1, $2, $3, $4, $5, $6)";
        assert_eq!(tx.execute(insert, &params).await.unwrap(), 1);
    }
    let back = tx.query("select b, i, f, t, x from things order by n", &[]).await.unwrap();
    for (row, back) in rows.iter().zip(back) {
        let as_stored = |value: &Value| match (value, world.kind()) {
            // SQLite has no truth values.
            (Value::Bool(value), StoreKind::Sqlite) => Value::Int((*value).into()),
            (value, _) => value.clone(),
        };
        assert_eq!(row.iter().map(as_stored).collect::<Vec<_>>(), back);
    }
    let found = "select n from things where b = $1 and i > $2 and f >= $3 and t <> $4 order by n";
    let params = [Value::Bool(true), Value::Int(-1), Value::Float(0.1), text("")];
    assert_eq!(tx.query(found, &params).await.unwrap(), [[Value::Int(0)], [Value::Int(3)]]);
    tx.commit().await.unwrap();
}

#[store_test]
async fn the_number_of_changed_rows_is_told(world: World) {
    with_ledger(&world).await;
    let mut tx = world.begin().await;
    for amount in 0..5 {
        debit(&mut *tx, amount).await;
    }
    let halve = "update ledger set amount = amount / 2 where amount >= $1";
    assert_eq!(tx.execute(halve, &[Value::Int(2)]).await.unwrap(), 3);
    assert_eq!(tx.execute(halve, &[Value::Int(99)]).await.unwrap(), 0);
    assert_eq!(tx.execute("delete from ledger", &[]).await.unwrap(), 5);
    assert_eq!(tx.query("select * from ledger", &[]).await.unwrap(), Vec::<Vec<Value>>::new());
    tx.rollback().await.unwrap();
}

#[store_test]
async fn a_refused_statement_ends_the_transaction(world: World) {
    with_ledger(&world).await;
    let wrong = [
        ("select nothing from nowhere", vec![]),
        ("insert into ledger (run, amount) values ($1, $2)", vec![Value::Int(1)]),
        ("not even sql", vec![]),
    ];
    for (sql, params) in wrong {
        let mut tx = world.begin().await;
        debit(&mut *tx, 1).await;
        let refused = tx.execute(sql, &params).await.unwrap_err();
        assert!(matches!(refused, StoreError::Statement(_)), "{refused:?}");
        assert!(!refused.is_retryable());
        let later = tx.execute("delete from ledger", &[]).await.unwrap_err();
        assert!(matches!(later, StoreError::Statement(_)), "{later:?}");
        assert!(tx.start(&[world.start("greet").asked()]).await.is_err());
        assert!(tx.commit().await.is_err(), "half a transaction must not commit");
    }
    assert_eq!(ledger(&world).await, 0);
}

#[store_test]
async fn a_statement_cannot_end_the_transaction(world: World) {
    with_ledger(&world).await;
    let mut tx = world.begin().await;
    debit(&mut *tx, 1).await;
    for sql in ["commit", "rollback", "begin", "end"] {
        assert!(matches!(tx.execute(sql, &[]).await, Err(StoreError::Statement(_))), "{sql}");
    }
    tx.rollback().await.unwrap();
    assert_eq!(ledger(&world).await, 0);
}

#[store_test]
async fn what_is_committed_is_visible_and_not_before(world: World) {
    with_ledger(&world).await;
    let waiting = world.start("greet").await;
    waiting.claimed_by("node").await.suspended().await;
    let victim = world.start("greet").delayed(DAY).await;
    let new = world.start("greet").delayed(DAY).tag("city", "Bern").asked();

    let mut tx = world.begin().await;
    debit(&mut *tx, 1).await;
    assert_eq!(
        tx.start(std::slice::from_ref(&new)).await.unwrap(),
        [Started::Created { id: new.id, held: false }]
    );
    let message = event(Address::Run(waiting.id), "approval", "yes");
    assert_eq!(tx.deliver(&[message]).await.unwrap(), [Delivered::Done { run: waiting.id }]);
    let cancel = Control::Cancel { run: Address::Run(victim.id), reason: "enough".into() };
    let ended = Controlled::Final { run: victim.id, status: Status::Cancelled, by_this: true };
    assert_eq!(tx.control(&cancel).await.unwrap(), ended);
    assert_eq!(
        tx.query("select amount from ledger", &[]).await.unwrap(),
        [[Value::Int(1)]],
        "it sees itself"
    );

    assert!(world.store().run(new.id).await.unwrap().is_none());
    assert_eq!(world.status(waiting.id).await, Status::Waiting);
    assert_eq!(world.status(victim.id).await, Status::Ready);
    tx.commit().await.unwrap();
    assert_eq!(world.status(new.id).await, Status::Ready);
    assert_eq!(world.status(waiting.id).await, Status::Ready);
    assert_eq!(world.status(victim.id).await, Status::Cancelled);
    assert_eq!((ledger(&world).await, world.inbox(waiting.id).await.len()), (1, 1));
}

#[store_test]
async fn what_is_rolled_back_or_dropped_never_was(world: World) {
    with_ledger(&world).await;
    let turn = world.start("greet").held_by("node").await;
    let victim = world.start("greet").delayed(DAY).await;
    let before = world.snapshot().await;
    for dropped in [false, true] {
        let mut tx = world.begin().await;
        debit(&mut *tx, 1).await;
        tx.start(&[world.start("greet").asked(), world.start_keyed("order", "o-1").asked()]).await.unwrap();
        tx.deliver(&[event(Address::Run(turn.run), "a", "b"), settlement(key("ship", "s-1"), "a", "b")])
            .await
            .unwrap();
        let cancel = Control::Cancel { run: Address::Run(victim.id), reason: "enough".into() };
        tx.control(&cancel).await.unwrap();
        let recorded = tx.record(turn.node, turn.run, turn.epoch, &step(1, "debit")).await.unwrap();
        assert_eq!(recorded, Committed::Done);
        match dropped {
            true => drop(tx),
            false => tx.rollback().await.unwrap(),
        }
        // The next who needs its rows waits until it is gone.
        world.send(turn.run, "after", "").await;
        let writing = turn.writes().consumes(&[1, 2]);
        world.commit(writing).await;
    }
    let ignored = ["deliveries", "agenda"];
    assert_eq!(world.snapshot().await.without(&ignored), before.without(&ignored));
    assert_eq!((ledger(&world).await, world.status(victim.id).await), (0, Status::Ready));
}

#[store_test]
async fn keys_answer_inside_a_transaction_as_outside(world: World) {
    let taken = world.start_keyed("order", "taken").input("tea").await;
    let mut tx = world.begin().await;
    let same = world.start_keyed("order", "taken").input("tea").asked();
    let other = world.start_keyed("order", "taken").input("milk").asked();
    let new = world.start_keyed("order", "new").asked();
    let answers = tx.start(&[same, other, new.clone()]).await.unwrap();
    let created = Started::Created { id: new.id, held: false };
    assert_eq!(
        answers,
        [Started::Existing { id: taken.id }, Started::Conflict { id: taken.id }, created.clone()]
    );
    assert_eq!(tx.start(std::slice::from_ref(&new)).await.unwrap(), [created]);
    let sent = tx.deliver(&[event(key("order", "new"), "approval", "yes")]).await.unwrap();
    assert_eq!(sent, [Delivered::Done { run: new.id }]);
    tx.commit().await.unwrap();
    assert_eq!(world.inbox(new.id).await, ["yes"]);
}

#[store_test]
async fn a_purge_can_be_part_of_a_transaction(world: World) {
    let turn = world.start("greet").held_by("node").await;
    turn.completed("done").await;
    world.pass(DAY * 2).await;
    let purge = Control::Purge(Purge::older_than(DAY, 10));
    let mut tx = world.begin().await;
    assert!(matches!(tx.control(&purge).await.unwrap(), Controlled::Purged(Purged { runs: 1, .. })));
    tx.rollback().await.unwrap();
    assert_eq!(world.output(turn.run).await, "done");
    let mut tx = world.begin().await;
    assert!(matches!(tx.control(&purge).await.unwrap(), Controlled::Purged(Purged { runs: 1, .. })));
    tx.commit().await.unwrap();
    assert!(world.store().run(turn.run).await.unwrap().is_none());
}

/// A transactional step: rows and record commit together, or nothing does.
async fn transfer(world: &World, turn: &Turn, pos: u32) -> Committed {
    let mut tx = world.begin().await;
    debit(&mut *tx, i64::from(pos)).await;
    let answer = tx.record(turn.node, turn.run, turn.epoch, &step(pos, "debit")).await.unwrap();
    match answer {
        Committed::Done => tx.commit().await.unwrap(),
        _ => tx.rollback().await.unwrap(),
    }
    answer
}

#[store_test]
async fn a_transactional_step_happens_with_its_record(world: World) {
    with_ledger(&world).await;
    let turn = world.start("greet").held_by("node").await;
    assert_eq!(transfer(&world, &turn, 1).await, Committed::Done);
    assert_eq!(transfer(&world, &turn, 2).await, Committed::Done);
    assert_eq!((ledger(&world).await, world.journal(turn.run).await.len()), (2, 2));
    turn.completed("done").await;
}

#[store_test]
async fn a_transactional_step_whose_reply_was_lost_does_not_happen_again(world: World) {
    with_ledger(&world).await;
    let turn = world.start("greet").held_by("node").await;
    assert_eq!(transfer(&world, &turn, 1).await, Committed::Done);
    assert_ne!(transfer(&world, &turn, 1).await, Committed::Done, "it was recorded: look into the journal");
    assert_eq!((ledger(&world).await, world.journal(turn.run).await.len()), (1, 1));
}

#[store_test]
async fn of_racing_tries_of_one_transactional_step_one_happens(world: World) {
    with_ledger(&world).await;
    for pos in 1..=10 {
        let turn = world.start("greet").held_by("node").await;
        let tries: Vec<_> = (0..4)
            .map(|_| {
                let (world, turn) = (world.clone(), turn.clone());
                tokio::spawn(async move { transfer(&world, &turn, pos).await })
            })
            .collect();
        let mut done = 0;
        for tried in tries {
            done += usize::from(tried.await.unwrap() == Committed::Done);
        }
        assert_eq!((done, ledger(&world).await), (1, i64::from(pos)));
    }
}

#[store_test]
async fn a_transactional_step_without_its_lease_does_not_happen(world: World) {
    with_ledger(&world).await;
    let stale = world.start("greet").held_by("node").await.of_epoch(2);
    assert_eq!(transfer(&world, &stale, 1).await, Committed::LeaseLost);
    let others = world.start("greet").held_by("other").await.of_node(stale.node);
    assert_eq!(transfer(&world, &others, 1).await, Committed::LeaseLost);
    let stranger = world.start("greet").held_by("node").await.of_node(NodeId::new(42));
    assert_eq!(transfer(&world, &stranger, 1).await, Committed::LeaseLost);

    let swept = world.start("greet").held_by("gone").await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    assert_eq!(transfer(&world, &swept, 1).await, Committed::LeaseLost);
    assert_eq!((ledger(&world).await, world.count("select count(*) from outlast.journal").await), (0, 0));
}

#[store_test]
async fn transactions_follow_each_other_without_end(world: World) {
    with_ledger(&world).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                for amount in 0..10 {
                    let mut tx = world.begin().await;
                    debit(&mut *tx, amount).await;
                    tx.start(&[world.start("greet").asked()]).await.unwrap();
                    match amount {
                        0..5 => tx.commit().await.unwrap(),
                        5..8 => tx.rollback().await.unwrap(),
                        _ => drop(tx),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((ledger(&world).await, world.claims_as("node", 100).await.len()), (40, 40));
}
