//! What completing a job does to the user's transaction: others wait for its end before they take over from this node.

use std::time::Duration;

use outlast::prelude::*;
use outlast_testkit::{StoreKind, World, tell};

use crate::lab::{client, pool, soon};

/// Statement, idle, lock: what the server bounds at the moment.
const BOUNDS: &str = "select current_setting('statement_timeout') || ' '
    || current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('lock_timeout')";

#[derive(Clone)]
struct Url(String);

/// Completes with what is bounded before that, then, and after the commit; the second of them with bounds of its own.
fn pay(driver: &'static str) -> Job<(), String, AnyError> {
    Job::new("pay", move |job: JobCtx, (): ()| async move {
        let url = job.state::<Url>().0.clone();
        let bounds = match driver {
            "sqlx" => {
                let mut connection = pool(&url).await.acquire().await?;
                sqlx::query("set statement_timeout = '2s'").execute(&mut *connection).await?;
                let mut tx = sqlx::Connection::begin(&mut *connection).await?;
                job.complete_in(&mut *tx, &"done").await?;
                let inside: String = sqlx::query_scalar(BOUNDS).fetch_one(&mut *tx).await?;
                tx.commit().await?;
                [inside, sqlx::query_scalar(BOUNDS).fetch_one(&mut *connection).await?]
            }
            _ => {
                let mut client = client(&url).await;
                let tx = client.transaction().await?;
                job.complete_in(&tx, &"done").await?;
                let inside: String = tx.query_one(BOUNDS, &[]).await?.get(0);
                tx.commit().await?;
                [inside, client.query_one(BOUNDS, &[]).await?.get(0)]
            }
        };
        job.state::<tokio::sync::mpsc::UnboundedSender<[String; 2]>>().send(bounds)?;
        Ok("done".to_owned())
    })
}

/// What is bounded inside the transaction that completes a job, and after it.
async fn bounds(world: &World, driver: &'static str) -> [String; 2] {
    let (told, mut bounds) = tokio::sync::mpsc::unbounded_channel::<[String; 2]>();
    let app =
        Outlast::on(world.store().clone()).state(Url(world.url().to_owned())).state(told).job(pay(driver));
    let app = app.run().await.unwrap();
    assert_eq!(soon(app.start(pay(driver), ()).await.unwrap().result()).await.unwrap(), "done");
    let bounds = soon(bounds.recv()).await.unwrap();
    app.shutdown(Duration::from_secs(5)).await.unwrap();
    bounds
}

#[test]
fn a_process_that_freezes_between_completing_and_the_commit_does_not_hold_up_who_takes_over() {
    tell(StoreKind::Postgres, 1, async |world: World| {
        assert_eq!(bounds(&world, "tokio-postgres").await, ["5s 5s 2s", "0 0 0"]);
        assert_eq!(bounds(&world, "sqlx").await, ["2s 5s 2s", "2s 0 0"], "narrower ones stay");
    });
}
