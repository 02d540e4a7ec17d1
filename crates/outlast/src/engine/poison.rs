//! Runs that took too many processes down. Nobody runs their code once more, not even to undo: that may be what takes
//! processes down. One that has nothing to undo fails; any other waits for a person, and undoes when it is tried again.

use std::sync::Arc;

use outlast_core::repair::BEGUN;
use outlast_core::{Entry, Error, FailureDoc, Limits, Op, Phase, Status, Timestamp, shorten};
use outlast_store::{Loaded, Next};

use super::hand::MOST_LEFT;
use super::job::JobTurn;
use super::run::finish;
use super::turn::{CUT_NAME, note_payload};
use crate::registry::{Body, Registered};

/// Ends the turn of a poison run, whose whole journal is loaded.
pub(super) async fn end(job: &Arc<JobTurn>, definition: &Registered, loaded: &Loaded, crashes: u32) {
    let error = Error::Poison { crashes };
    tracing::error!(run = %job.record.id, definition = definition.options.name, "{error}");
    let entries = &loaded.entries;
    let reason = match &definition.body {
        Body::Workflow(_) => left_to_undo(entries).map(|left| format!("{error}; left to undo: {left}")),
        // A job is undone when it was asked to stop, and only then.
        Body::Job(_) | Body::Batch(_) => (definition.undo.is_some() && job.cancel.borrow().is_some())
            .then(|| format!("{error}; it was not undone")),
    };
    let failure = FailureDoc::Outlast(error);
    let Some(reason) = reason else {
        let saved = job.saved().filter(|_| !matches!(definition.body, Body::Workflow(_)));
        let (next, sends) = finish(&job.record, Status::Failed, saved, Some(&failure));
        return job.end_with(next, sends).await;
    };
    let reason = shorten(&format!("{reason}: try it again to undo that"), Limits::MESSAGE);
    let cut = is_cut_short(definition, entries).then(|| Entry {
        pos: entries.last().map_or(0, |entry| entry.pos) + 1,
        op: Op::Cancel,
        phase: Phase::Failed,
        name: CUT_NAME.into(),
        at: Timestamp::default(),
        took: None,
        body: Some(note_payload(&failure)),
    });
    job.end(Next::GiveUp { reason }, cut.into_iter().collect()).await;
}

/// What a workflow did and has not undone, newest first; `None` if there is nothing.
fn left_to_undo(entries: &[Entry]) -> Option<String> {
    let mut entries = entries.to_vec();
    // What does not decode was written by another version: then nothing is known to be undone by hand.
    let _ = outlast_core::repair::revise(&mut entries);
    let of = |phase| entries.iter().filter(move |entry| entry.op == Op::Undo && entry.phase == phase);
    let is_undone = |entry: &&Entry| of(Phase::Done).any(|done| done.name == entry.name);
    let left = of(Phase::Opened).rev().filter(|entry| *entry.name != *BEGUN && !is_undone(entry));
    let left: Vec<&str> = left.map(|entry| &*entry.name).take(MOST_LEFT).collect();
    (!left.is_empty()).then(|| left.join(", "))
}

/// Whether it was in the middle of its work, which ends here: from now on a replay only undoes.
fn is_cut_short(definition: &Registered, entries: &[Entry]) -> bool {
    let ends = |entry: &Entry| match entry.op {
        Op::Undo => *entry.name == *BEGUN,
        Op::Cancel => *entry.name == *CUT_NAME,
        _ => false,
    };
    matches!(definition.body, Body::Workflow(_)) && !entries.iter().any(ends)
}
