//! A web server whose orders and jobs are one transaction of sqlx: both are there, or neither.
//!
//! `DATABASE_URL=postgres://… cargo run -p outlast --features sqlx --example axum_orders`, then
//!
//! ```console
//! $ curl -d '{"item":"tea","amount":3}' -H 'content-type: application/json' http://127.0.0.1:3000/orders
//! $ curl http://127.0.0.1:3000/orders/1
//! ```
//!
//! `PORT` is 3000 unless set; 0 takes any that is free.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use outlast::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

#[derive(Deserialize)]
struct NewOrder {
    item: String,
    amount: i64,
}

#[derive(Serialize)]
struct Accepted {
    order: i64,
    run: RunId,
}

#[derive(Serialize)]
struct OrderView {
    item: String,
    amount: i64,
    packed: bool,
    run: RunId,
    status: Status,
}

/// Packs an order once: the row and the end of the job are one transaction.
#[outlast::job(attempts = 5, timeout = "30s")]
async fn pack(job: JobCtx, order: i64) -> Result<(), AnyError> {
    let mut tx = job.state::<PgPool>().begin().await?;
    sqlx::query("update orders set packed = true where id = $1").bind(order).execute(&mut *tx).await?;
    job.complete_in(&mut *tx, &()).await?;
    Ok(tx.commit().await?)
}

async fn create(
    State((app, pool)): State<(Client, PgPool)>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Accepted>), Fault> {
    let mut tx = pool.begin().await?;
    let id: i64 = sqlx::query_scalar("select nextval('order_ids')").fetch_one(&mut *tx).await?;
    let run = app.start(pack, id).key(key(id)).in_tx(&mut *tx).await?;
    // The table refuses an amount of nothing: then the transaction is rolled back, and with it the start of the run.
    let insert = sqlx::query("insert into orders (id, item, amount) values ($1, $2, $3)");
    insert.bind(id).bind(order.item).bind(order.amount).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { order: id, run: run.id() })))
}

async fn show(
    State((app, pool)): State<(Client, PgPool)>,
    Path(id): Path<i64>,
) -> Result<Json<OrderView>, Fault> {
    // The run first: once it has completed, the order that is read after it is packed.
    let run = app.status(app.find(Target::key("pack", key(id))).await?).await?;
    let order = sqlx::query_as("select item, amount, packed from orders where id = $1").bind(id);
    let (item, amount, packed) = order.fetch_one(&pool).await?;
    Ok(Json(OrderView { item, amount, packed, run: run.record.id, status: run.status }))
}

/// The key by which the run of an order is found.
fn key(order: i64) -> String {
    format!("order-{order}")
}

/// What is answered when it did not work.
struct Fault(StatusCode, String);

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Fault {
        let status = match &error {
            sqlx::Error::Database(refused) if refused.is_check_violation() => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Fault(status, error.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let status = match &error {
            Error::UnknownRun { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Fault(status, error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let url = std::env::var("DATABASE_URL")?;
    let pool = PgPool::connect(&url).await?;
    for sql in [
        "create sequence if not exists order_ids",
        "create table if not exists orders (
             id bigint primary key, item text not null, amount bigint not null check (amount > 0),
             packed boolean not null default false
         )",
    ] {
        sqlx::query(sql).execute(&pool).await?;
    }
    let app = Outlast::open(&url).await?.job(pack).state(pool.clone()).run().await?;

    let routes = Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(show))
        .with_state((app.client().clone(), pool));
    let port = std::env::var("PORT").map_or(Ok(3000), |port| port.parse::<u16>())?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // No new requests; those in hand are answered; then the jobs in hand finish, or go to another node.
    axum::serve(listener, routes)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    app.shutdown(10.seconds()).await?;
    println!("stopped");
    Ok(())
}
