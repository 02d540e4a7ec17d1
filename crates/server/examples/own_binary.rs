//! A binary with workflows of its own that has the whole command line of `outlast`.
//!
//! ```sh
//! cargo run -p outlast-server --example own_binary -- dev
//! cargo run -p outlast-server --example own_binary -- start greet --input '"world"' --wait
//! ```

use std::process::ExitCode;

use outlast::prelude::*;

#[outlast::workflow]
async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
    let hello = ctx.step("greet", |_| async { Ok::<_, AnyError>(format!("Hello, {name}!")) }).await?;
    ctx.sleep(100.millis()).await?;
    Ok(hello)
}

fn main() -> ExitCode {
    outlast_server::cli(|app| app.workflow(greet))
}
