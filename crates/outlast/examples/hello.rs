//! The smallest durable program: a step that is remembered, a sleep that survives restarts.
//!
//! `cargo run -p outlast --example hello`

use outlast::prelude::*;

#[outlast::workflow]
async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
    let hello = ctx.step("greet", |_| async { Ok::<_, AnyError>(format!("Hello, {name}!")) }).await?;
    ctx.sleep(100.millis()).await?;
    Ok(hello)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let app = Outlast::open("sqlite::memory:").await?.workflow(greet).run().await?;
    let run = app.start(greet, "world".to_owned()).await?;
    println!("{}", run.result().await?);
    Ok(app.shutdown(1.second()).await?)
}
