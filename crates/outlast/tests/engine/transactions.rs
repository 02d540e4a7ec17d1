//! Transactions: the user's rows and ours commit together, or not at all.

use outlast::prelude::*;
use outlast_testkit::{StoreKind, Watched};

use crate::engine_test;
use crate::harness::{Lab, Ledger};

async fn accounts(lab: &Lab) {
    lab.app()
        .transaction(async |tx: Tx| {
            tx.execute("create table accounts (id text primary key, cents bigint not null)", ()).await?;
            tx.execute("insert into accounts values ($1, $2), ($3, $4)", ("alice", 1000i64, "bob", 0i64))
                .await?;
            Ok::<(), Error>(())
        })
        .await
        .unwrap();
}

async fn cents(lab: &Lab, id: &str) -> i64 {
    let id = id.to_owned();
    lab.app()
        .transaction(async |tx: Tx| {
            let rows = tx.query("select cents from accounts where id = $1", (id,)).await?;
            rows[0].int(0)
        })
        .await
        .unwrap()
}

fn pay() -> Workflow<i64, i64, AnyError> {
    Workflow::new("pay", |ctx: Ctx, amount: i64| async move {
        let ledger = ctx.state::<Ledger>();
        let left = ctx
            .transaction("move", |tx| {
                let ledger = ledger.clone();
                async move {
                    ledger.note("move");
                    tx.execute("update accounts set cents = cents - $1 where id = 'alice'", (amount,))
                        .await?;
                    tx.execute("update accounts set cents = cents + $1 where id = 'bob'", (amount,)).await?;
                    let rows = tx.query("select cents from accounts where id = 'alice'", ()).await?;
                    let left = rows[0].int(0)?;
                    if left < 0 {
                        return Err(AnyError::new("not enough"));
                    }
                    Ok(left)
                }
            })
            .await?;
        ctx.sleep(1.hour()).await?;
        Ok::<i64, AnyError>(left)
    })
}

engine_test! {
    async fn a_transactional_step_and_its_rows_happen_once(lab: Lab) {
        lab.start(|app| app.workflow(pay())).await;
        accounts(&lab).await;
        let run = lab.app().start(pay(), 300).await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.workflow(pay())).await;
        lab.advance(2.hours()).await;
        assert_eq!(lab.app().handle(&pay(), run.id()).result().await.unwrap(), 700);
        assert_eq!((cents(&lab, "alice").await, cents(&lab, "bob").await), (700, 300));
        assert_eq!(lab.ledger.count("move"), 1);
    }

    async fn a_transactional_step_that_cannot_begin_waits_for_the_database(lab: Lab) {
        let store = Watched::over(lab.world.store().clone());
        let look = Workflow::new("look", |ctx: Ctx, (): ()| async move {
            let work = |tx: Tx| async move { tx.query("select 7", ()).await?[0].int(0).map_err(AnyError::from) };
            Ok::<i64, AnyError>(ctx.transaction("look", work).await?)
        });
        let app = Outlast::on(store.clone()).workflow(look.clone()).run().await.unwrap();
        // More often than one is begun again that was in somebody's way.
        store.lose_replies("begin", 11);
        let run = app.start(look, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
    }

    async fn a_transactional_step_whose_connection_breaks_begins_again_whatever_its_code_makes_of_it(lab: Lab) {
        // SQLite has no connection that could break.
        if lab.world.kind() == StoreKind::Sqlite {
            return;
        }
        let breaks = || Workflow::new("breaks", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let work = |tx: Tx| {
                let ledger = ledger.clone();
                async move {
                    ledger.note("try");
                    if ledger.count("try") == 1 {
                        tx.execute("select pg_terminate_backend(pg_backend_pid())", ()).await?;
                    }
                    Ok::<i64, AnyError>(tx.query("select 7", ()).await?[0].int(0)?)
                }
            };
            Ok::<i64, AnyError>(ctx.transaction("look", work).await?)
        });
        lab.start(|app| app.workflow(breaks())).await;
        let run = lab.app().start(breaks(), ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
        assert_eq!(lab.ledger.count("try"), 2);
    }

    async fn a_failed_transactional_step_leaves_no_rows(lab: Lab) {
        lab.start(|app| app.workflow(pay())).await;
        accounts(&lab).await;
        let run = lab.app().start(pay(), 3000).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "not enough");
        assert_eq!((cents(&lab, "alice").await, cents(&lab, "bob").await), (1000, 0));
    }

    async fn transactional_steps_of_one_run_can_run_side_by_side_with_others(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let pays = (0..5).map(|n| ctx.transaction("pay", move |tx| async move {
                tx.execute("update accounts set cents = cents - 1 where id = 'alice'", ()).await?;
                Ok::<i32, AnyError>(n)
            }));
            let steps = (0..5).map(|n| ctx.step("step", move |_| async move {
                tokio::task::yield_now().await;
                Ok::<i32, AnyError>(n)
            }));
            let (pays, steps) = tokio::join!(
                futures_util::future::try_join_all(pays),
                futures_util::future::try_join_all(steps),
            );
            Ok::<i32, AnyError>(pays?.iter().sum::<i32>() + steps?.iter().sum::<i32>())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        accounts(&lab).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 20);
        assert_eq!(cents(&lab, "alice").await, 995);
        assert_eq!(lab.test().steps(run.id()).await.unwrap().len(), 10);
    }

    async fn a_transactional_step_that_lost_its_race_left_no_rows(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut wins = 0;
            for round in 0..60 {
                let pay = || ctx.transaction("pay", |tx| async move {
                    tx.execute("update accounts set cents = cents - 1 where id = 'alice'", ()).await?;
                    Ok::<i64, AnyError>(1)
                });
                // Sometimes before them, sometimes after, sometimes while one commits.
                let other = ctx.step("other", move |_| async move {
                    tokio::time::sleep(std::time::Duration::from_micros(round * 50)).await;
                    Ok::<i64, AnyError>(0)
                });
                wins += tokio::select! { won = pay() => won?, won = pay() => won?, none = other => none? };
            }
            Ok::<i64, AnyError>(wins)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        accounts(&lab).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let wins = run.result().await.unwrap();
        assert_eq!(cents(&lab, "alice").await, 1000 - wins);
        let steps = lab.test().steps(run.id()).await.unwrap();
        assert_eq!(steps.iter().filter(|step| step.starts_with("pay")).count() as i64, wins);
    }

    async fn what_happens_in_a_transaction_is_visible_on_commit_and_gone_on_roll_back(lab: Lab) {
        lab.start(|app| app.workflow(pay())).await;
        accounts(&lab).await;
        let waiting = Workflow::new("waiting", |ctx: Ctx, (): ()| async move {
            Ok::<u32, AnyError>(ctx.event::<u32>("go").await?)
        });
        lab.restart(|app| app.workflow(pay()).workflow(waiting.clone())).await;
        let listener = lab.app().start(waiting.clone(), ()).await.unwrap();
        lab.settle().await;

        let client = lab.app().client().clone();
        let (one, two) = (client.clone(), client.clone());
        let rolled_back = lab.app().transaction(async |tx: Tx| {
            tx.execute("insert into accounts values ('carol', 1)", ()).await?;
            one.start(pay(), 1).key("never").in_tx(&tx).await?;
            one.send_in_tx(&tx, listener.id(), "go", &1).await?;
            Err::<(), AnyError>(AnyError::new("changed my mind"))
        }).await;
        assert_eq!(rolled_back.unwrap_err().to_string(), "changed my mind");
        lab.settle().await;
        assert!(client.find(Target::key("pay", "never")).await.is_err());
        assert_eq!(listener.status().await.unwrap().status, Status::Waiting);

        let run = lab.app().transaction(async |tx: Tx| {
            tx.execute("insert into accounts values ('dave', 1)", ()).await?;
            two.send_in_tx(&tx, listener.id(), "go", &2).await?;
            let run = two.start(pay(), 5).key("really").in_tx(&tx).await?;
            Ok::<RunId, AnyError>(run.id())
        }).await.unwrap();
        lab.advance(2.hours()).await;
        assert_eq!(listener.result().await.unwrap(), 2);
        assert_eq!(lab.app().handle(&pay(), run).result().await.unwrap(), 995);
        assert_eq!(cents(&lab, "dave").await, 1);
    }

    async fn transactional_steps_that_borrow_can_be_joined(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, who: String| async move {
            let pay = |cents: i64| { let who = &who; ctx.transaction("pay", move |tx| async move {
                tx.execute("update accounts set cents = cents - $1 where id = $2", (cents, who.as_str())).await?;
                Ok::<i64, AnyError>(cents)
            })};
            let (one, two, look) = tokio::join!(pay(1), pay(2), ctx.step("look", |_| async { Ok::<_, AnyError>(who.len()) }));
            Ok::<i64, AnyError>(one? + two? + look? as i64)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        accounts(&lab).await;
        let run = lab.app().start(flow, "alice".to_owned()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 8);
        assert_eq!(cents(&lab, "alice").await, 997);
    }
}
