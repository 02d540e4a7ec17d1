//! Every code that a problem document can have, in one place: the word, its status, its title.
//!
//! Words never change: programs go by them. The documentation has a line for each (`docs/http.md`).

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Code {
    /// The word that programs go by.
    pub(crate) word: &'static str,
    pub(crate) status: u16,
    pub(crate) title: &'static str,
}

macro_rules! codes {
    ($($name:ident $status:literal $title:literal),* $(,)?) => {
        impl Code {
            $(pub(crate) const $name: Code = Code { word: stringify_lower!($name), status: $status, title: $title };)*

            /// All of them.
            pub(crate) const ALL: &'static [Code] = &[$(Code::$name),*];
        }
    };
}

/// The words, which `stringify!` cannot make small.
macro_rules! stringify_lower {
    ($name:ident) => {{
        const UPPER: &str = stringify!($name);
        const LOWER: [u8; UPPER.len()] = {
            let mut lower = [0; UPPER.len()];
            let mut at = 0;
            while at < lower.len() {
                lower[at] = UPPER.as_bytes()[at].to_ascii_lowercase();
                at += 1;
            }
            lower
        };
        match std::str::from_utf8(&LOWER) {
            Ok(word) => word,
            Err(_) => UPPER,
        }
    }};
}

codes! {
    INVALID_JSON 400 "The body is not JSON",
    JSON_TOO_DEEP 400 "The JSON is nested too deeply",
    INVALID_UTF8 400 "Not UTF-8",
    INVALID_CHARACTER 400 "A character that a name cannot have",
    UNKNOWN_FIELD 400 "A field that does not exist",
    DUPLICATE_KEY 400 "A field that is there twice",
    INVALID_ARGUMENT 400 "A value that cannot be accepted",
    INVALID_ID 400 "An id or key that cannot be accepted",
    INVALID_DURATION 400 "A duration that cannot be accepted",
    INVALID_TIMESTAMP 400 "A time that cannot be accepted",
    INVALID_CRON 400 "A cron expression that cannot be accepted",
    INVALID_CURSOR 400 "A cursor that is not ours",
    UNKNOWN_TIMEZONE 400 "A time zone that does not exist",
    UNAUTHENTICATED 401 "Who are you?",
    FORBIDDEN 403 "Not allowed",
    CROSS_SITE 403 "A request of another site",
    NOT_FOUND 404 "Not found",
    METHOD_NOT_ALLOWED 405 "This can be asked for in another way only",
    TIMEOUT 408 "It took too long",
    CONFLICT 409 "What is there stands against it",
    ALREADY_EXISTS 409 "It is there already",
    ALREADY_SETTLED 409 "The promise is settled already",
    IDEMPOTENCY_CONFLICT 409 "The key belongs to another input",
    IN_PROGRESS 409 "The same request is being answered",
    RUN_CLOSED 409 "The run has ended",
    NOT_RETRYABLE 409 "The run cannot be tried again",
    PRECONDITION_FAILED 412 "It was changed meanwhile",
    PAYLOAD_TOO_LARGE 413 "Too large",
    UNSUPPORTED_MEDIA_TYPE 415 "The body has to be JSON",
    HOST_NOT_ALLOWED 421 "Not the host that this is",
    UNKNOWN_DEFINITION 422 "No such workflow or job",
    IDEMPOTENCY_MISMATCH 422 "The idempotency key belongs to another request",
    UNDECODABLE 422 "A value of another type than the code wants",
    RATE_LIMITED 429 "Too many requests",
    INBOX_FULL 429 "The run has too many unread messages",
    INTERNAL 500 "It went wrong here",
    UNAVAILABLE 503 "Out of reach for now",
    SHUTTING_DOWN 503 "About to stop",
}

impl Code {
    /// The code of this word.
    pub(crate) fn of(word: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.word == word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_are_small_and_each_is_there_once() {
        let words: HashSet<&str> = Code::ALL.iter().map(|code| code.word).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(words.contains("payload_too_large") && words.iter().all(|word| *word == word.to_lowercase()));
    }

    #[test]
    fn every_problem_leads_to_its_line() {
        let docs = include_str!("codes.md");
        for Code { word, status, title } in Code::ALL {
            let line = format!("| <a id=\"{word}\"></a>`{word}` | {status} | {title} |");
            assert!(docs.contains(&line), "http/codes.md has no line {line}");
        }
        assert_eq!(docs.matches("<a id=").count(), Code::ALL.len());
    }

    #[test]
    fn every_code_is_explained() {
        let docs = include_str!("../../../../docs/http.md");
        for code in Code::ALL {
            let line = format!("| `{}` | {} |", code.word, code.status);
            assert!(docs.contains(&line), "docs/http.md has no line {line}");
        }
    }
}
