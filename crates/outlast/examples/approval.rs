//! A person in the loop: an order waits for its approval, for two days if need be, and costs nothing
//! meanwhile. Errors are the program's own type, on both sides of the durable boundary.
//!
//! `cargo run -p outlast --example approval`

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    id: u32,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    by: String,
    ok: bool,
}

#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
enum OrderError {
    #[error("{0} refused the order")]
    Refused(String),
    #[error(transparent)]
    Pay(#[from] Failure<PayError>),
    #[error(transparent)]
    Outlast(#[from] Error),
}

#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("the card was declined")]
struct PayError;

#[outlast::workflow(timeout = "7d")]
async fn order(ctx: Ctx, order: Order) -> Result<String, OrderError> {
    let approval: Approval = ctx.event("approval").timeout(2.days()).await?;
    if !approval.ok {
        return Err(OrderError::Refused(approval.by));
    }
    let receipt = ctx.step("charge", |s| charge(order.clone(), s.key())).retry(Retry::times(3)).await?;
    Ok(format!("{receipt}, approved by {}", approval.by))
}

/// The key is the same in every attempt: a payment service that gets it twice charges once.
async fn charge(order: Order, key: String) -> Result<String, PayError> {
    println!("charging {} cents with key {key}", order.cents);
    if order.cents > 100_000 { Err(PayError) } else { Ok(format!("order {} paid", order.id)) }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let app = Outlast::open("sqlite::memory:").await?.workflow(order).run().await?;

    let good = app.start(order, Order { id: 1, cents: 4200 }).key("order-1").await?;
    app.send(Target::key("order", "order-1"), "approval", &Approval { by: "Ada".into(), ok: true }).await?;
    println!("{}", good.result().await?);

    let bad = app.start(order, Order { id: 2, cents: 9900 }).key("order-2").await?;
    bad.send("approval", &Approval { by: "Grace".into(), ok: false }).await?;
    match bad.result().await {
        Err(Failure::Own(OrderError::Refused(by))) => println!("order 2 was refused by {by}"),
        other => println!("unexpected: {other:?}"),
    }
    Ok(app.shutdown(1.second()).await?)
}
