//! What the tests of this folder share.

use outlast_core::{
    AttemptNote, Entry, Error, FailureDoc, Op, OpenNote, Phase, RunId, Timestamp, WaitOn, Why,
};
use outlast_testkit::{World, payload};

/// Why a run is not progressing.
pub(crate) async fn why(world: &World, run: RunId) -> Why {
    world.store().explain(run).await.expect("a run can be explained").expect("the run exists").why
}

/// The entry that opens a wait.
pub(crate) fn open(pos: u32, on: WaitOn, name: &str) -> Entry {
    open_until(pos, on, name, None)
}

/// The same, until then.
pub(crate) fn open_until(pos: u32, on: WaitOn, name: &str, until: Option<Timestamp>) -> Entry {
    let op = match on {
        WaitOn::Event => Op::Event,
        WaitOn::Promise => Op::Promise,
        WaitOn::Child => Op::Child,
        WaitOn::Sleep => Op::Sleep,
        WaitOn::Stop => Op::Cancel,
        other => panic!("{other:?} is not opened"),
    };
    let body = Some(payload(OpenNote { until, ..OpenNote::default() }));
    Entry { pos, op, phase: Phase::Opened, name: name.into(), at: Timestamp::default(), took: None, body }
}

/// A sleep.
pub(crate) fn sleep_until(pos: u32, until: Timestamp) -> Entry {
    open_until(pos, WaitOn::Sleep, "sleep", Some(until))
}

/// A failed attempt of a step.
pub(crate) fn failed_attempt(pos: u32, step: &str, attempt: u32, next_at: Timestamp) -> Entry {
    let failure = FailureDoc::Outlast(Error::Cancelled { reason: "a test".into() });
    let body =
        Some(payload(AttemptNote { attempt, failure, next_at, saved: None, gave_up: false, node: None }));
    Entry {
        pos,
        op: Op::Step,
        phase: Phase::Attempt,
        name: step.into(),
        at: Timestamp::default(),
        took: None,
        body,
    }
}
