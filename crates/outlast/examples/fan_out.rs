//! A fan-out: one run starts many, awaits them all and adds up what they found.
//!
//! `cargo run -p outlast --example fan_out`

use futures_util::future::try_join_all;
use outlast::prelude::*;

#[outlast::workflow]
async fn count_words(ctx: Ctx, texts: Vec<String>) -> Result<usize, AnyError> {
    let mut pages = Vec::new();
    for text in texts {
        pages.push(ctx.start(count_page, text).await?);
    }
    let counts = try_join_all(pages.iter().map(|page| page.result())).await?;
    Ok(counts.into_iter().sum())
}

#[outlast::job(queue = "pages", attempts = 3)]
async fn count_page(_job: JobCtx, text: String) -> Result<usize, AnyError> {
    Ok(text.split_whitespace().count())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let app = Outlast::open("sqlite::memory:").await?.workflow(count_words).job(count_page).run().await?;
    let texts = (1..=100).map(|n| "word ".repeat(n)).collect();
    let words = app.start(count_words, texts).await?.result().await?;
    println!("{words} words on 100 pages");
    Ok(app.shutdown(1.second()).await?)
}
