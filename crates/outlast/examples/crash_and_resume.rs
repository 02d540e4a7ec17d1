//! A process that dies in the middle, for real, and goes on where it was.
//!
//! The program starts itself twice on one file. The first process is aborted inside the second step; the
//! second one finds the run, does not repeat the first step, and finishes.
//!
//! `cargo run -p outlast --example crash_and_resume`

use std::process::Command;

use outlast::prelude::*;

#[outlast::workflow]
async fn journey(ctx: Ctx, from: String) -> Result<String, AnyError> {
    let there = ctx
        .step("fly", |_| async {
            say("flying");
            Ok::<_, AnyError>(format!("{from} to Rome"))
        })
        .await?;
    ctx.step("check in", |_| async {
        say("checking in");
        if std::env::args().nth(1).as_deref() == Some("first") {
            say("the process dies here");
            std::process::abort();
        }
        Ok::<_, AnyError>(())
    })
    .await?;
    Ok(there)
}

fn say(what: &str) {
    println!("[process {}] {what}", std::process::id());
}

async fn live(file: &str) -> Result<(), AnyError> {
    let app = Outlast::open(&format!("sqlite://{file}")).await?.workflow(journey).run().await?;
    let run = app.start(journey, "Oslo".to_owned()).key("trip").await?;
    say(&format!("done: {}", run.result().await?));
    Ok(app.shutdown(1.second()).await?)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    if let (Some(_), Some(file)) = (std::env::args().nth(1), std::env::args().nth(2)) {
        return live(&file).await;
    }
    let folder = std::env::temp_dir().join(format!("outlast-example-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("journey.db");
    for life in ["first", "second"] {
        let ended = Command::new(std::env::current_exe()?).arg(life).arg(&file).status()?;
        println!("the {life} process ended with {ended}");
    }
    Ok(std::fs::remove_dir_all(&folder)?)
}
