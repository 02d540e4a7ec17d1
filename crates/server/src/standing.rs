//! How things stand before and after a change, for the audit log: as JSON, in the words of the API.
//!
//! What people sent is not in it, only its hash: the log is kept longer than runs are, and read by others.

use outlast::{QueueCard, RunView, ScheduleView};
use outlast_store::TokenView;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The longest that is kept as it is; of what is longer, the hash.
const LONGEST: usize = 2_000;

/// The hash of something that people sent.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// How a run stands.
pub(crate) fn run(view: &RunView) -> Value {
    let mut stands = json!({
        "status": view.status,
        "version": view.record.version,
        "attempt": view.attempt,
        "input": hash(&view.record.input.bytes),
    });
    if let Some(due) = view.due_at {
        stands["due_at"] = due.exact().into();
    }
    for (name, reason) in [("asked_to_stop", &view.cancel_reason), ("asked_to_pause", &view.pause_reason)] {
        if reason.is_some() {
            stands[name] = true.into();
        }
    }
    stands
}

/// How a queue stands.
pub(crate) fn queue(card: &QueueCard) -> Value {
    json!({ "state": card.state, "rules": card.rules, "own_rules": card.is_own, "changes": card.changes })
}

/// What a schedule says.
pub(crate) fn schedule(view: &ScheduleView) -> Value {
    let card = &view.card;
    json!({
        "timetable": card.timetable,
        "zone": card.zone,
        "definition": card.definition,
        "input": hash(&card.input.bytes),
        "options": serde_json::from_str::<Value>(&card.options).unwrap_or_default(),
        "paused": view.is_paused,
    })
}

/// What a token opens.
pub(crate) fn token(view: &TokenView) -> Value {
    let card = &view.card;
    json!({
        "subject": card.subject,
        "role": card.role,
        "tenant": card.tenant,
        "queues": card.queues,
        "expires_at": card.expires_at.exact(),
        "revoked": view.revoked_at.is_some(),
    })
}

/// As the log keeps it.
pub(crate) fn text(stands: &Value) -> String {
    let text = stands.to_string();
    if text.len() > LONGEST { json!({ "hash": hash(text.as_bytes()) }).to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_kept_as_its_hash() {
        assert_eq!(text(&json!({ "a": 1 })), r#"{"a":1}"#);
        let long = text(&json!({ "a": "x".repeat(LONGEST) }));
        assert!(long.starts_with(r#"{"hash":"sha256:"#) && long.len() < 100, "{long}");
    }
}
