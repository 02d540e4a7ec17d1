//! One payload of a run, and how much of payloads is sent to whoever only looks.

use axum::http::header;

use super::code::Code;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::runs::find;
use crate::preview::{LONGEST, PreviewJson};
use crate::shapes::raw;
use crate::story::{Operation, Story};
use crate::words::parse_number;

/// All of a payload is sent unless whoever asks says that its beginning is enough.
pub(super) const PREVIEW: Param =
    number("preview", "Of payloads with more bytes than this, only so much of their beginning: 1 to 65536");
pub(crate) const PAYLOAD: &[Param] = &[
    text(
        "of",
        "input (unless said), output, entry:POSITION of its history, or what a step gave, by kind and name: step:charge",
    ),
    PREVIEW,
];

/// How much of each payload is enough for whoever asks.
pub(super) fn enough(call: &Call) -> Result<usize, Problem> {
    match call.query.one("preview") {
        Some(_) => Ok(call.query.number("preview", 1..=LONGEST, LONGEST)? as usize),
        None => Ok(usize::MAX),
    }
}

/// One payload of it: all of it as a file, or how it begins.
pub(crate) async fn payload(call: Call) -> Answer {
    let view = find(&call).await?;
    let (run, of) = (view.record.id, call.query.one("of").unwrap_or("input"));
    let found = match of.split_once(':') {
        None if of == "input" => raw(Some(&view.record.input)),
        None if of == "output" => raw(view.ended.as_ref().and_then(|ended| ended.output.as_ref())),
        Some(("entry", at)) => {
            let at = parse_number(at, 1..=u32::MAX)
                .map_err(|remedy| Problem::new(Code::INVALID_ARGUMENT, format!("an entry is {remedy}")))?;
            let entries = call.api.client.journal(run, at - 1, 1).await?;
            entries.iter().find(|entry| entry.pos == at).and_then(|entry| raw(entry.body.as_ref()))
        }
        Some((kind, name)) => {
            let story = Story::read(&call.api.client, &view).await?;
            let is_it = |one: &&Operation| one.op.word() == kind && one.name == name;
            let end = story.operations.iter().find(is_it).and_then(|one| one.end.as_ref());
            end.and_then(|end| raw(end.result.as_ref().ok()?.as_ref()))
        }
        None => None,
    };
    let Some(json) = found else {
        return Err(Problem::not_found(format_args!("payload {of:?} of {run}")));
    };
    if call.query.one("preview").is_some() {
        return Reply::json(&PreviewJson::new(&json, enough(&call)?));
    }
    let named: String = of.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = format!("attachment; filename=\"{run}-{named}.json\"");
    Ok(Reply::text("application/json", json.get().to_owned()).with(header::CONTENT_DISPOSITION, name))
}
