//! The scribe: a node that starts runs of its own, and says what it was told to be done as soon as it was.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use clap::Parser;
use futures_util::StreamExt;
use futures_util::stream;
use outlast::RunId;
use outlast::prelude::*;

/// How many runs are under way at once.
const AT_ONCE: usize = 8;

/// What a scribe is told.
#[derive(Debug, Parser)]
pub struct Scribe {
    /// The file
    #[arg(long)]
    database_url: String,
    /// How many runs it starts
    #[arg(long)]
    runs: u32,
}

impl Scribe {
    /// Works until all runs have ended.
    pub async fn write(self) -> Result<()> {
        let app = Outlast::open(&self.database_url).await?.workflow(note()).run().await?;
        let client = app.client();
        let stories = stream::iter(0..self.runs).map(|number| async move {
            let key = format!("note-{number}");
            let run = loop {
                match client.start(note(), u64::from(number)).key(&key).await {
                    // A disk may refuse all repetitions of one call. Whoever was refused asks again.
                    Err(Error::Store { retryable: true, .. }) => {}
                    answer => break answer?,
                }
            };
            say(&Said { key: key.clone(), run: run.id(), output: None });
            let output = run.result().await?;
            say(&Said { key, run: run.id(), output: Some(output) });
            anyhow::Ok(())
        });
        let ended: Vec<Result<()>> = stories.buffer_unordered(AT_ONCE).collect().await;
        ended.into_iter().collect::<Result<()>>()?;
        // The power goes before anybody could say good-bye.
        std::process::exit(0)
    }
}

/// Two steps, the second of which needs the first.
pub(super) fn note() -> Workflow<u64, u64, AnyError> {
    Workflow::new("note", |ctx: Ctx, number: u64| async move {
        let twice = ctx.step("twice", move |_| async move { Ok::<u64, AnyError>(number * 2) }).await?;
        Ok(ctx.step("more", move |_| async move { Ok::<u64, AnyError>(twice + 1) }).await?)
    })
}

/// Something that was acknowledged: a run was started, or ended with this.
pub(super) struct Said {
    key: String,
    run: RunId,
    output: Option<u64>,
}

impl Said {
    /// From a line that was said.
    pub(super) fn read(line: &str) -> Option<Said> {
        let mut words = line.split(' ');
        let (key, run) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let output = words.next().map(str::parse).transpose().ok()?;
        Some(Said { key, run, output })
    }

    /// Counts from now on.
    pub(super) fn note(self, said: &mut BTreeMap<String, (RunId, Option<u64>)>) {
        let known = said.entry(self.key).or_insert((self.run, None));
        known.1 = known.1.or(self.output);
    }
}

fn say(said: &Said) {
    let Said { key, run, output } = said;
    let output = output.map(|output| format!(" {output}")).unwrap_or_default();
    // In one write, so that it stands at one place among the others.
    let _ = std::io::stdout().lock().write_all(format!("{key} {run}{output}\n").as_bytes());
}
