//! An order and its run, in a transaction of your own driver: both or neither.
//!
//! `cargo run -p outlast --features rusqlite --example in_your_transaction`

use outlast::prelude::*;
use rusqlite::Connection;
use rusqlite::TransactionBehavior::Immediate;

#[outlast::workflow]
async fn ship(ctx: Ctx, order: i64) -> Result<String, AnyError> {
    let parcel = ctx.step("pack", |_| async { Ok::<_, AnyError>(format!("the parcel of order {order}")) });
    Ok(parcel.await?)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let file = std::env::temp_dir().join(format!("orders-{}.db", std::process::id()));
    let app = Outlast::open(&format!("sqlite://{}", file.display())).await?.workflow(ship).run().await?;
    let mut shop = Connection::open(&file)?;
    shop.execute_batch("create table orders (id integer primary key)")?;

    let tx = shop.transaction_with_behavior(Immediate)?;
    tx.execute("insert into orders values (1)", [])?;
    let run = app.start(ship, 1).key("order-1").in_tx_blocking(&tx)?;
    tx.commit()?;
    println!("committed: {} is on its way", run.result().await?);

    let tx = shop.transaction_with_behavior(Immediate)?;
    tx.execute("insert into orders values (2)", [])?;
    app.start(ship, 2).key("order-2").in_tx_blocking(&tx)?;
    tx.rollback()?;
    let orders: i64 = shop.query_row("select count(*) from orders", [], |row| row.get(0))?;
    let second = app.find(Target::key("ship", "order-2")).await;
    println!("rolled back: {orders} order is left, and {}", second.unwrap_err());

    app.shutdown(1.second()).await?;
    Ok(std::fs::remove_file(file)?)
}
