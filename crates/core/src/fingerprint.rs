//! Failures that are alike: what is left of a message without the numbers, ids and quoted texts that differ every time.

use uuid::Uuid;

/// The longest message that counts: what differs behind it is the same failure.
const LONGEST: usize = 300;

/// The same for failures of one definition whose messages differ only in numbers, ids and quoted texts.
///
/// ```
/// use outlast_core::fingerprint;
/// let of = |message| fingerprint("charge", message);
/// assert_eq!(of("order 42 of \"ann\" was declined"), of("order 7 of \"bob\" was declined"));
/// assert_ne!(of("order 42 was declined"), of("order 42 was lost"));
/// assert_ne!(of("lost"), fingerprint("ship", "lost"));
/// ```
pub fn fingerprint(definition: &str, message: &str) -> String {
    let text = [definition, "\0", &normal(message)].concat();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string()
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

    #[test]
    fn what_differs_every_time_is_left_out() {
        assert_eq!(normal("run_01m7j0 timed out after 300 ms"), "# timed out after # ms");
        assert_eq!(normal("no \"a 1\" in `b`\nsecond line 7"), "no \" in \"");
        assert_eq!(normal("connect to 10.0.0.7:5432: refused"), "connect to #.#.#.#:#: refused");
        assert_eq!(normal("it's gone"), "it's gone");
    }
}
