//! Everything that is known about a run, for whoever has to find out what went wrong.

use std::fmt::Write as _;

use outlast::{Entry, RunId};

use crate::check::Evidence;
use crate::ledger::Line;

/// Everything that is known about one run.
pub(crate) fn story(run: RunId, evidence: &Evidence, out: &mut String) {
    let Some(view) = evidence.runs.iter().find(|view| view.record.id == run) else { return };
    let input = String::from_utf8_lossy(&view.record.input.bytes);
    let _ = writeln!(out, "--- run {run}, key {:?}, {}", view.record.key, view.status);
    let _ = writeln!(
        out,
        "due {:?}, node {:?}, epoch {}, attempt {}, reason {:?}\ninput {input}\nended {:?}\ndoing {:?}",
        view.due_at, view.node, view.epoch, view.attempt, view.reason, view.ended, view.doing
    );
    for entry in evidence.journals.get(&run).into_iter().flatten() {
        let body = entry.body.as_ref().map(|body| String::from_utf8_lossy(&body.bytes).into_owned());
        let Entry { pos, op, phase, name, at, .. } = entry;
        let _ = writeln!(out, "journal {pos} {op:?} {phase:?} {name} at {at}: {}", body.unwrap_or_default());
    }
    let nodes: Vec<u32> = evidence.ledger.iter().filter_map(|line| body_of(line, run)).collect();
    for (place, line) in evidence.ledger.iter().enumerate() {
        let about = match line {
            Line::Fault { .. } | Line::Heal { .. } => true,
            Line::Kill { node }
            | Line::Cut { node }
            | Line::Lapse { node }
            | Line::Up { node }
            | Line::Stop { node }
            | Line::Go { node }
            | Line::Left { node } => nodes.contains(node),
            line => body_of(line, run).is_some(),
        };
        if about {
            let _ = writeln!(out, "ledger {place} {line:?}");
        }
    }
    for call in evidence.calls.iter().filter(|call| view.record.key.as_ref() == Some(&call.key)) {
        let _ = writeln!(out, "client {:?}: {:?}", call.asked, call.answer);
    }
}

fn body_of(line: &Line, of: RunId) -> Option<u32> {
    match line {
        Line::Begin(body) | Line::End(body) | Line::Dropped(body) => (body.run == of).then_some(body.node),
        _ => None,
    }
}
