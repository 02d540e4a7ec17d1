//! Sagas: runs whose steps can be undone, of which some fail, and some are cancelled or killed at any moment.

use std::time::Duration;

use fastrand::Rng;
use outlast::prelude::*;
use outlast::{Client, Target};
use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;
use crate::plan::Score;
use crate::play::{Miss, PAUSE, finish};

/// What a run of `saga` shall do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saga {
    pub(crate) legs: Vec<Leg>,
    /// Whether it ends with an error once all is done.
    pub(crate) fails: bool,
}

/// One step, and a rest behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Leg {
    pub(crate) ms: u64,
    pub(crate) rest_ms: u64,
    pub(crate) undo_ms: u64,
    /// How often its undo fails before it succeeds.
    pub(crate) undo_fails: u32,
}

/// How somebody ends a run from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It undoes what it did.
    Cancel,
    /// It ends at once, and nothing is undone any more.
    Kill,
}

/// The name of the workflow.
pub(crate) const SAGA: &str = "saga";

impl Saga {
    pub(crate) fn random(rng: &mut Rng) -> Saga {
        let ms = |rng: &mut Rng| if rng.bool() { 0 } else { rng.u64(1..=25) };
        let leg = |rng: &mut Rng| Leg {
            ms: ms(rng),
            rest_ms: ms(rng),
            undo_ms: ms(rng),
            undo_fails: if rng.u8(..4) == 0 { rng.u32(1..=2) } else { 0 },
        };
        Saga { legs: (0..rng.usize(1..=5)).map(|_| leg(rng)).collect(), fails: rng.bool() }
    }
}

/// What the step of a leg is called, in the journal and in the ledger.
pub(crate) fn step_of(leg: usize) -> String {
    format!("do-{leg}")
}

/// What the body that undoes a step is called in the ledger.
pub(crate) fn undo_of(step: &str) -> String {
    format!("un{step}")
}

pub(crate) fn saga() -> Workflow<Saga, (), Miss> {
    Workflow::new(SAGA, |ctx: Ctx, saga: Saga| async move {
        for (nth, leg) in saga.legs.iter().enumerate() {
            go(&ctx, nth, *leg).await?;
            if leg.rest_ms > 0 {
                ctx.sleep(leg.rest_ms.millis()).await?;
            }
        }
        if saga.fails { Err(Miss::Planned(Score::default())) } else { Ok(()) }
    })
}

async fn go(ctx: &Ctx, nth: usize, leg: Leg) -> Result<(), Miss> {
    let (ledger, undoes, step) = (ctx.state::<Ledger>(), ctx.state::<Ledger>(), step_of(nth));
    let body = |s: StepCtx| {
        let (ledger, step) = (ledger.clone(), step.clone());
        async move {
            let body = ledger.begin(s.run_id(), &step, s.attempt(), 0, None);
            finish(body, s.attempt(), leg.ms, 0).await
        }
    };
    let undo = undo_of(&step);
    let operation = ctx.step(&step, body).undo(move |s: StepCtx, _| {
        let (ledger, undo) = (undoes.clone(), undo.clone());
        async move {
            let body = ledger.begin(s.run_id(), &undo, s.attempt(), 0, None);
            finish(body, s.attempt(), leg.undo_ms, leg.undo_fails).await.map(drop)
        }
    });
    operation.undo_retry(Retry::fixed(leg.undo_fails + 1, PAUSE)).await?;
    Ok(())
}

impl Halt {
    /// One way or the other, and after how long; half of them not at all. How soon a saga is over depends on the machine.
    pub(crate) fn random(rng: &mut Rng) -> Option<(Halt, Duration)> {
        let how = match rng.u8(..6) {
            0 | 1 => Halt::Cancel,
            2 => Halt::Kill,
            _ => return None,
        };
        let latest = if rng.bool() { 60 } else { 600 };
        Some((how, Duration::from_millis(rng.u64(..latest))))
    }

    pub(crate) async fn ask(self, client: &Client, run: impl Into<Target>) -> Result<bool, Error> {
        match self {
            Halt::Cancel => client.cancel(run, "somebody changed their mind").await,
            Halt::Kill => client.kill(run, "somebody had enough").await,
        }
    }
}
