//! Poison: a body that takes its whole process down as often as it is called, and innocents beside it.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use outlast::prelude::*;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::plan::Work;
use crate::scene::{Orders, Scene};

/// How a process ends that cannot be stopped.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Death {
    /// `std::process::abort`.
    Abort,
    /// Its stack is not large enough.
    Overflow,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Poison {
    /// How processes die.
    pub death: Death,
    /// The program that is a node.
    pub victim: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct PoisonReport {
    /// How many processes died.
    pub deaths: u32,
    /// How the run ended that killed them.
    pub error: String,
    /// How many innocents there were that did not end well.
    pub paid: usize,
}

/// How many processes may die of one run alone before it fails. As few as there can be: a suspect waits ever longer.
const CRASHES: u32 = 1;
/// Nobody needs so many.
const MOST_DEATHS: u32 = 20;
const INNOCENTS: usize = 8;

/// A job that kills.
pub(crate) fn poison() -> Job<Death, u64, AnyError> {
    Job::new("poison", |_: JobCtx, death: Death| async move {
        match death {
            Death::Abort => std::process::abort(),
            Death::Overflow => Ok(deeper(1)),
        }
    })
}

fn deeper(depth: u64) -> u64 {
    let much = black_box([depth; 4096]);
    if depth == u64::MAX { 0 } else { deeper(depth + 1) + much[7] }
}

impl Poison {
    /// Starts one process after another until the run that kills them is over.
    pub async fn run(&self) -> Result<PoisonReport> {
        let folder = TempDir::new().context("cannot make a folder for the ledger")?;
        let url = format!("sqlite://{}", folder.path().join("runs.db").display());
        let orders = Orders { crashes: Some(CRASHES), ..Orders::default() };
        let mut rng = fastrand::Rng::new();
        let scene = Scene::open(&url, &self.victim, folder.path(), orders, &mut rng).await?;
        let run = scene.client.start(poison(), self.death).await?;
        let mut innocents = Vec::new();
        for n in 0..INNOCENTS {
            let work = Work { fails: 0, ms: 20, ticket: None };
            innocents.push(scene.start_work(&format!("innocent-{n}"), work).await?);
        }
        let mut deaths = 0;
        let mut node = scene.spawn(&mut rng).await?;
        while !scene.client.status(run.id()).await?.status.is_final() {
            if node.ended_within(Duration::from_millis(20)).await?.is_some() {
                deaths += 1;
                ensure!(
                    deaths <= MOST_DEATHS,
                    "{deaths} processes died, and the run goes on:\n{}",
                    scene.said(5)
                );
                node = scene.spawn(&mut rng).await?;
            }
        }
        let error = run.result().await.err().map(|error| error.to_string()).unwrap_or_default();
        let mut paid = 0;
        for innocent in innocents {
            paid += usize::from(innocent.result().await.is_err());
        }
        Ok(PoisonReport { deaths, error, paid })
    }
}
