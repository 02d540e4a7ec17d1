//! `outlast explain`: why a run is not progressing; `outlast verify`: whether something wakes every unfinished run,
//! and whether the tables agree about all.

use outlast::{Explained, Verified};
use outlast_core::WakeSource;
use serde::Serialize;

use crate::backend::{Backend, Which};
use crate::fault::{Exit, Fault};
use crate::output::{Format, call, note, print_one};
use crate::words::count;

/// A reason as JSON: the fields of its kind, and the sentence.
#[derive(Serialize)]
pub(crate) struct ExplainedJson<'a> {
    #[serde(flatten)]
    pub(crate) explained: &'a Explained,
    pub(crate) text: String,
}

/// Says why a run is not progressing.
pub(crate) async fn explain(client: &Backend, id: &str, format: Format) -> Result<(), Fault> {
    let explained = client.explain(&Which::read(id)?).await?;
    let text = told(&explained);
    let json = ExplainedJson { explained: &explained, text: explained.why.to_string() };
    print_one(format, &json, explained.why.kind(), || text)
}

/// One line: where the run stands, the reason, and whether it was asked to stop.
fn told(explained: &Explained) -> String {
    let Explained { run, status, why, asked_to_stop, .. } = explained;
    let asked = asked_to_stop.as_ref().map(|reason| format!("; it was asked to stop: {reason}"));
    let (status, why) = (status.to_string(), why.to_string());
    // Where the reason begins with the status, one of them is enough.
    let rest = why.strip_prefix(&status).filter(|rest| !rest.starts_with(char::is_alphanumeric));
    let stands = rest.map_or_else(|| format!("{status}: {why}"), |rest| format!("{status}{rest}"));
    format!("{run} is {stands}{}", asked.unwrap_or_default())
}

/// Looks whether something wakes every unfinished run, and whether the tables agree.
pub(crate) async fn verify(client: &Backend, format: Format) -> Result<(), Fault> {
    let verified = client.direct("verify")?.verify().await?;
    print_one(format, &verified, verified.lacking, || lines(&verified))?;
    if verified.is_fine() {
        return Ok(());
    }
    if verified.lacking == 0 {
        let message = "the tables contradict each other: restore a backup, or tell us how it came to be";
        return Err(Fault::new(Exit::Conflict, "precondition_failed", message));
    }
    if format == Format::Text {
        note(&format!("`{}` shows a run, and `{}` ends it", call("show ID"), call("cancel ID")));
    }
    let runs = count(usize::try_from(verified.runs).unwrap_or(usize::MAX), "unfinished run");
    let message = format!("nothing wakes {} of {runs}", verified.lacking);
    Err(Fault::new(Exit::Conflict, "precondition_failed", message))
}

fn lines(verified: &Verified) -> String {
    let word = |source: &WakeSource| match source {
        WakeSource::Due => "due at a time",
        WakeSource::Held => "in the hands of a node",
        WakeSource::Waiting => "waiting for what others do",
        WakeSource::Paused => "paused",
        WakeSource::Blocked => "blocked, and say why",
        WakeSource::UndoFailed => "undo failed, and say why",
        _ => "woken by something newer",
    };
    let runs = count(usize::try_from(verified.runs).unwrap_or(usize::MAX), "unfinished run");
    let mut lines = vec![runs];
    lines.extend(verified.wakes.iter().map(|(source, count)| format!("  {count} {}", word(source))));
    if verified.lacking > 0 {
        lines.push(format!("  {} that nothing wakes:", verified.lacking));
    }
    for lost in &verified.without {
        lines.push(format!("    {}: {}", lost.run, lost.detail));
    }
    let more = verified.lacking.saturating_sub(verified.without.len() as u64);
    if more > 0 {
        lines.push(format!("    and {more} more"));
    }
    for found in &verified.contradictions {
        lines.push(format!("  {} ({} times)", found.what, found.times));
    }
    lines.join("\n")
}
