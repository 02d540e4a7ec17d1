//! Failures that are alike: what is left of a message without the numbers, ids and quoted texts that differ every time.

use uuid::Uuid;

use crate::FailureDoc;

/// The longest message that counts: what differs behind it is the same failure.
const LONGEST: usize = 300;

/// The same for failures of one kind in one definition and step whose messages differ only in numbers, ids and quoted texts.
///
/// ```
/// use outlast_core::{AnyError, Failure, FailureDoc, Limits, fingerprint};
/// let of = |definition, message| {
///     let failure = Failure::Own(AnyError::new(message));
///     fingerprint(definition, Some(&FailureDoc::new(&failure, &Limits::default())))
/// };
/// assert_eq!(of("charge", "order 42 of \"ann\" was declined"), of("charge", "order 7 of \"bob\" was declined"));
/// assert_ne!(of("charge", "order 42 was declined"), of("charge", "order 42 was lost"));
/// assert_ne!(of("charge", "lost"), of("ship", "lost"));
/// ```
pub fn fingerprint(definition: &str, failure: Option<&FailureDoc>) -> String {
    let (step, kind) = (failure.and_then(FailureDoc::step), failure.map(FailureDoc::kind));
    let message = failure.map(FailureDoc::message).unwrap_or_default();
    let parts = [definition, &normal(step.unwrap_or_default()), kind.unwrap_or_default(), &normal(&message)];
    Uuid::new_v5(&Uuid::NAMESPACE_OID, parts.join("\0").as_bytes()).simple().to_string()
}

/// The first line of a message, with a mark for each word that has a digit in it, and for what stands in quotes.
fn normal(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut normal = String::new();
    let mut quote = None;
    let mut word = String::new();
    let end = |word: &mut String, normal: &mut String| {
        match word.chars().any(|c| c.is_ascii_digit()) {
            true => normal.push('#'),
            false => normal.push_str(word),
        }
        word.clear();
    };
    for c in line.chars().take(LONGEST) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`') => {
                end(&mut word, &mut normal);
                normal.push('"');
                quote = Some(c);
            }
            (None, c) if c.is_alphanumeric() || c == '_' || c == '-' => word.push(c),
            (None, c) => {
                end(&mut word, &mut normal);
                normal.push(c);
            }
        }
    }
    end(&mut word, &mut normal);
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, OwnFailure};

    #[test]
    fn the_same_message_of_another_step_or_kind_is_another_failure() {
        let own = |step: Option<&str>| {
            let value = serde_json::value::to_raw_value("refused").unwrap();
            FailureDoc::Own(OwnFailure { message: "refused".into(), value, step: step.map(str::to_owned) })
        };
        let of = |failure: &FailureDoc| fingerprint("order", Some(failure));
        assert_eq!(of(&own(Some("charge 1"))), of(&own(Some("charge 27"))));
        assert_ne!(of(&own(Some("charge"))), of(&own(Some("ship"))));
        assert_ne!(of(&own(Some("charge"))), of(&own(None)));
        assert_ne!(of(&own(None)), of(&FailureDoc::Outlast(Error::misconfigured("refused"))));
    }

    #[test]
    fn what_differs_every_time_is_left_out() {
        assert_eq!(normal("run_01m7j0 timed out after 300 ms"), "# timed out after # ms");
        assert_eq!(normal("no \"a 1\" in `b`\nsecond line 7"), "no \" in \"");
        assert_eq!(normal("connect to 10.0.0.7:5432: refused"), "connect to #.#.#.#:#: refused");
        assert_eq!(normal("it's gone"), "it's gone");
    }
}
