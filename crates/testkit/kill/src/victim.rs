//! The victim: a node that works until somebody kills it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use outlast::Outlast;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::ledger::{Ledger, Line};
use crate::meter::Meter;
use crate::play::register;

/// Who says at the start whether a pooler stands in between.
const POOLS: &str = "outlast_store::postgres::pool";

/// What a victim is told.
#[derive(Debug, Parser)]
pub struct Victim {
    /// The database
    #[arg(long)]
    database_url: String,
    /// The ledger
    #[arg(long)]
    ledger: PathBuf,
    /// Its number
    #[arg(long)]
    node: u32,
    /// How long its lease is, in milliseconds
    #[arg(long)]
    lease_ms: u64,
    /// How many waiting runs it keeps warm
    #[arg(long)]
    warm: usize,
    /// How many runs it runs at once
    #[arg(long)]
    concurrency: usize,
    /// How long its work in hand may take when it is asked to leave, in milliseconds
    #[arg(long, default_value_t = 2000)]
    grace_ms: u64,
    /// How many processes may die of a run alone before it fails
    #[arg(long, default_value_t = 5)]
    crashes: u32,
    /// Note how long each claim took
    #[arg(long)]
    samples: bool,
}

impl Victim {
    /// Works until it is killed, until it is asked to leave (SIGTERM), or until nobody holds the other end of its
    /// input any more.
    pub async fn work(self) -> Result<()> {
        let ledger = Ledger::open(&self.ledger, self.node)?;
        let lapses = Lapses(Ledger::open(&self.ledger, self.node)?, self.node);
        let said = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .with_filter(Targets::new().with_default(Level::WARN).with_target(POOLS, Level::INFO));
        tracing_subscriber::registry().with(said).with(lapses).init();

        Meter::install(Ledger::open(&self.ledger, self.node)?, self.node, self.samples)?;
        // Before anybody knows that we are here.
        let mut asked_to_leave = signal(SignalKind::terminate())?;

        let lease = Duration::from_millis(self.lease_ms);
        let app = register(Outlast::open(&self.database_url).await?).state(ledger);
        let app = app.settings(|settings| {
            settings.lease = lease;
            settings.renew_every = lease / 4;
            settings.poll_every = Duration::from_millis(500);
            settings.warm = self.warm;
            settings.crashes = self.crashes;
            settings.concurrency = self.concurrency;
            settings.name = format!("victim-{}", self.node);
        });
        let app = app.run().await?;
        Ledger::open(&self.ledger, self.node)?.write(&Line::Up { node: self.node });
        println!("up");
        std::io::stdout().flush()?;

        let orphaned = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        tokio::select! {
            _ = orphaned => {}
            _ = asked_to_leave.recv() => app.shutdown(Duration::from_millis(self.grace_ms)).await?,
        }
        std::process::exit(0)
    }
}

/// Notes in the ledger when the engine says that it lost its lease: a machine that is too slow may run a
/// body twice without any kill, and the checker has to know.
struct Lapses(Ledger, u32);

impl<S: Subscriber> Layer<S> for Lapses {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        // Others may have taken some of its runs and left it in peace, because one of them was locked: then its lease goes on,
        // and a warning names each that was taken.
        let is_over = match *about.level() {
            Level::ERROR => true,
            Level::WARN => about.fields().field("run").is_some(),
            _ => false,
        };
        if about.target() == "outlast::engine::lease" && is_over {
            self.0.write(&Line::Lapse { node: self.1 });
        }
    }
}
