//! Money that moves exactly once: the rows and the step's record are one commit, and the run that moves it
//! is started in the same transaction as the order that asks for it.
//!
//! `cargo run -p outlast --example transaction`

use outlast::prelude::*;

#[outlast::workflow]
async fn pay(ctx: Ctx, cents: i64) -> Result<i64, AnyError> {
    let left = ctx.transaction("move", |tx| async move {
        tx.execute("update accounts set cents = cents - $1 where name = 'alice'", (cents,)).await?;
        tx.execute("update accounts set cents = cents + $1 where name = 'bob'", (cents,)).await?;
        let rows = tx.query("select cents from accounts where name = 'alice'", ()).await?;
        match rows[0].int(0)? {
            left if left < 0 => Err(AnyError::new("not enough money")),
            left => Ok(left),
        }
    });
    Ok(left.await?)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let app = Outlast::open("sqlite::memory:").await?.workflow(pay).run().await?;
    let client = app.client().clone();
    let run = app.transaction(async |tx: Tx| {
        tx.execute("create table accounts (name text primary key, cents bigint not null)", ()).await?;
        tx.execute("insert into accounts values ('alice', 1000), ('bob', 0)", ()).await?;
        client.start(pay, 300).key("order-1").in_tx(&tx).await
    });
    let run = run.await?;
    println!("alice has {} cents left", run.result().await?);
    match client.start(pay, 5000).await?.result().await {
        Err(error) => println!("the second payment failed and moved nothing: {error}"),
        Ok(left) => println!("unexpected: {left}"),
    }
    Ok(app.shutdown(1.second()).await?)
}
