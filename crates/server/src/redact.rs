//! Fields of payloads that the API shows to admins alone, by their names.
//!
//! What is kept and what runs get stays as it was sent; only who looks sees less. So this is decided where a payload becomes
//! part of an answer (`shapes::raw`), for the request in hand.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::yaml::Fields;

/// What stands where a value was.
const HIDDEN: &str = "\"[redacted]\"";
/// Deeper than the API takes JSON, nothing is looked at: all of it is hidden.
const DEEPEST: usize = 128;

tokio::task_local! {
    static NOW: Option<Arc<Redact>>;
}

/// Names of fields whose values are hidden, wherever they stand and however they are capitalized.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redact(Vec<String>);

impl Redact {
    pub(crate) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Redact {
        Redact(names.into_iter().map(|name| name.into().to_lowercase()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// JSON without those values. Everything else stays as it is, to the last digit.
    pub(crate) fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::with_capacity(text.len());
        match self.write(text.trim(), 0, &mut out) {
            Ok(true) => Cow::Owned(out),
            Ok(false) => Cow::Borrowed(text),
            // Payloads are JSON; what is not is not shown.
            Err(_) => Cow::Borrowed(HIDDEN),
        }
    }

    /// Writes a value; says whether something of it is hidden.
    fn write(&self, json: &str, depth: usize, out: &mut String) -> Result<bool, serde_json::Error> {
        if json.starts_with('"')
            && let Some(text) = self.text(json, depth)
        {
            out.push_str(&text);
            return Ok(true);
        }
        if !is_nested(json) {
            out.push_str(json);
            return Ok(false);
        }
        if depth >= DEEPEST {
            out.push_str(HIDDEN);
            return Ok(true);
        }
        let mut hides = false;
        if json.starts_with('{') {
            let Fields(fields) = serde_json::from_str(json)?;
            out.push('{');
            for (place, (name, value)) in fields.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                out.push_str(&serde_json::to_string(name)?);
                out.push(':');
                if self.0.contains(&name.to_lowercase()) {
                    out.push_str(HIDDEN);
                    hides = true;
                } else {
                    hides |= self.write(value.get().trim(), depth + 1, out)?;
                }
            }
            out.push('}');
        } else {
            let items: Vec<Box<RawValue>> = serde_json::from_str(json)?;
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                hides |= self.write(item.get().trim(), depth + 1, out)?;
            }
            out.push(']');
        }
        Ok(hides)
    }

    /// A text that is JSON itself, as bulks have the values that they were given, where something in it is hidden.
    fn text(&self, json: &str, depth: usize) -> Option<String> {
        let text: String = serde_json::from_str(json).ok()?;
        let inner = text.trim();
        if !is_nested(inner) {
            return None;
        }
        let mut out = String::with_capacity(inner.len());
        match self.write(inner, depth + 1, &mut out) {
            Ok(true) => serde_json::to_string(&out).ok(),
            _ => None,
        }
    }
}

fn is_nested(json: &str) -> bool {
    json.starts_with(['{', '['])
}

/// Where in a body something stands that somebody was shown in place of a value, as a JSON pointer.
pub(crate) fn hidden_at(body: &[u8]) -> Option<String> {
    // What is no JSON, or deeper than the API takes it, is refused elsewhere.
    fn look(json: &str, at: &str, depth: usize) -> Option<String> {
        if json == HIDDEN || depth >= DEEPEST {
            return (json == HIDDEN).then(|| at.to_owned());
        }
        if json.starts_with('{') {
            let Fields(fields) = serde_json::from_str(json).ok()?;
            fields.iter().find_map(|(name, value)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                look(value.get().trim(), &format!("{at}/{name}"), depth + 1)
            })
        } else if json.starts_with('[') {
            let items: Vec<Box<RawValue>> = serde_json::from_str(json).ok()?;
            let mut items = items.iter().enumerate();
            items.find_map(|(place, item)| look(item.get().trim(), &format!("{at}/{place}"), depth + 1))
        } else if json.starts_with('"') {
            // However it is written; and a text may be JSON itself.
            let text: String = serde_json::from_str(json).ok()?;
            match text.trim() {
                text if text == HIDDEN.trim_matches('"') => Some(at.to_owned()),
                text if is_nested(text) => look(text, at, depth + 1).map(|_| at.to_owned()),
                _ => None,
            }
        } else {
            None
        }
    }
    look(std::str::from_utf8(body).ok()?.trim(), "", 0)
}

/// Answers a request whose answer has these hidden.
pub(crate) async fn hiding<F: Future>(hidden: Option<Arc<Redact>>, answer: F) -> F::Output {
    NOW.scope(hidden, answer).await
}

/// Whether something is hidden from whoever asked.
pub(crate) fn hides() -> bool {
    NOW.try_with(Option::is_some).unwrap_or(false)
}

/// JSON as whoever asked may see it.
pub(crate) fn shown(json: &str) -> Cow<'_, str> {
    let hidden = NOW.try_with(Clone::clone).ok().flatten();
    match hidden {
        Some(hidden) => Cow::Owned(hidden.json(json).into_owned()),
        None => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_named_fields_are_hidden_at_any_depth_and_the_rest_stays_as_it_was() {
        let redact = Redact::new(["Password", "iban"]);
        for (given, shown) in [
            (
                r#"{"a": 1, "b": [1.0, 12345678901234567890123]}"#,
                r#"{"a": 1, "b": [1.0, 12345678901234567890123]}"#,
            ),
            (r#"{"user": "ann", "password": {"deep": 1}}"#, r#"{"user":"ann","password":"[redacted]"}"#),
            (r#"[{"IBAN": 1}, 1.50]"#, r#"[{"IBAN":"[redacted]"},1.50]"#),
            (r#"{"a\"b": {"iban": null}, "n": 1e400}"#, r#"{"a\"b":{"iban":"[redacted]"},"n":1e400}"#),
            (r#""password""#, r#""password""#),
            // JSON in a text is looked at too; what only looks like it stays.
            (
                r#"{"input": "{\"iban\": 1, \"n\": 1.0}"}"#,
                r#"{"input":"{\"iban\":\"[redacted]\",\"n\":1.0}"}"#,
            ),
            (r#"{"input": "[1, 2]", "text": "{iban"}"#, r#"{"input": "[1, 2]", "text": "{iban"}"#),
            // A name can be spelled in more than one way.
            (r#"{"pass\u0077ord": 1}"#, r#"{"password":"[redacted]"}"#),
        ] {
            assert_eq!(redact.json(given), shown);
        }
    }

    #[test]
    fn a_mark_that_is_sent_back_is_found() {
        assert_eq!(hidden_at(br#"{"input":{"a/b":[1,"[redacted]"]}}"#).as_deref(), Some("/input/a~1b/1"));
        assert_eq!(hidden_at(br#"{"n":1e400,"b":"\u005bredacted]"}"#).as_deref(), Some("/b"));
        let inside = br#"{"input":"{\"iban\":\"[redacted]\"}"}"#;
        assert_eq!(hidden_at(inside).as_deref(), Some("/input"), "in a text that is JSON itself");
        assert_eq!(hidden_at(br#"{"input":"not [redacted] alone"}"#), None);
        assert_eq!(hidden_at(b"{"), None);
    }

    #[test]
    fn what_is_too_deep_to_be_looked_at_is_hidden() {
        let deep = format!("{}{{\"password\":1}}{}", "[".repeat(5000), "]".repeat(5000));
        let shown = Redact::new(["password"]).json(&deep).into_owned();
        assert!(shown.contains("[redacted]") && !shown.contains("password"), "{}", shown.len());
    }
}
