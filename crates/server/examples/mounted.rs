//! The dashboard and the API in an axum application of one's own, below a path: `/` is the application's, `/ops` is ours.
//!
//! ```sh
//! cargo run --package outlast-server --example mounted -- --port 8080 --database-url sqlite://mounted.db
//! ```
//!
//! Its workflow has as many steps as it is asked for, which is what the dashboard's tests scroll through.

use axum::Router;
use axum::routing::get;
use outlast::prelude::*;
use outlast_server::http::{self, Api};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Adds up, each number in a step of its own.
#[outlast::workflow]
async fn count(ctx: Ctx, steps: u64) -> Result<u64, AnyError> {
    let mut sum = 0;
    for step in 0..steps {
        sum += ctx.step(&format!("add {step}"), |_| add(step)).await?;
    }
    Ok(sum)
}

async fn add(number: u64) -> Result<u64, AnyError> {
    tracing::info!(target: "count", number, "added");
    Ok(number)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    // What handlers log is kept with their runs.
    tracing_subscriber::registry().with(outlast::RunLogs::default()).init();
    let args: Vec<String> = std::env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let port: u16 = after("--port").map_or(Ok(8080), |port| port.parse())?;
    let database = after("--database-url").unwrap_or_else(|| "sqlite::memory:".to_owned());

    let app = Outlast::open(&database).await?.workflow(count).run().await?;
    // Whoever mounts it says who may come in: here, whoever is on this machine.
    let api = Api::new(app.client().clone()).without_tokens().router().await?;
    let router = Router::new().route("/", get(|| async { "an application" })).nest("/ops", api);

    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("the application is at http://{}", listener.local_addr()?);
    http::serve(listener, router, CancellationToken::new()).await;
    Ok(())
}
