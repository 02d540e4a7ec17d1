//! What can go wrong, in forms that cross the durable boundary.
//!
//! [`Error`] is Outlast's own; [`Failure`] is the user's error or Outlast's; [`AnyError`] is for
//! code whose errors cannot be stored as themselves. All three can be written and read back.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Limits, RunId};

/// An error of Outlast's own. Each says what is wrong with what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Error {
    /// Someone asked the run to stop.
    #[error("cancelled: {reason}")]
    Cancelled {
        /// Why, in the words of whoever asked.
        reason: String,
    },
    /// It took longer than it may.
    #[error("{what} timed out after {after_ms} ms")]
    TimedOut {
        /// The step, wait or run.
        what: String,
        /// How long it was allowed.
        after_ms: u64,
    },
    /// User code panicked; the process went on.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// The step, workflow or job.
        what: String,
        /// The panic's message and place.
        message: String,
    },
    /// The run took its process down too often.
    #[error("poison: {crashes} processes died while they ran it")]
    Poison {
        /// How many.
        crashes: u32,
    },
    /// Whoever started the run does not have the role that its code asks for.
    #[error("{what} needs the role {role:?}, without which the run was started")]
    MissingRole {
        /// The workflow or job.
        what: String,
        /// The role.
        role: String,
    },
    /// A value that cannot be accepted.
    #[error("invalid {what} {value:?}: {remedy}")]
    Invalid {
        /// Which kind of value.
        what: String,
        /// The value, shortened.
        value: String,
        /// What is accepted.
        remedy: String,
    },
    /// More bytes or entries than allowed.
    #[error("{what} is too large: {size}, the limit is {limit}")]
    TooLarge {
        /// Which thing.
        what: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Bytes that do not decode as the type asked for.
    #[error("{what} cannot be decoded as {wanted}: {detail}")]
    Undecodable {
        /// Which payload.
        what: String,
        /// The type asked for.
        wanted: String,
        /// What the decoder said.
        detail: String,
    },
    /// No node has registered this definition.
    #[error("no workflow or job is called {name:?}{}", suggestion(.nearest))]
    UnknownDefinition {
        /// The name asked for.
        name: String,
        /// Names that look alike.
        nearest: Vec<String>,
    },
    /// A cron expression, or another text that says when, that cannot be accepted.
    #[error("invalid cron expression {text:?}, {field}: {remedy}")]
    InvalidCron {
        /// The text, shortened.
        text: String,
        /// The part of it that is wrong.
        field: String,
        /// What is wrong with it, and what is accepted.
        remedy: String,
    },
    /// A time zone that is not in the IANA database, or not under this name.
    #[error("unknown time zone {zone:?}: write an IANA name such as Europe/Berlin, or UTC{}", suggestion(.nearest))]
    UnknownTimezone {
        /// The name asked for, shortened.
        zone: String,
        /// Names that look alike, or that mean the same.
        nearest: Vec<String>,
    },
    /// No such run (perhaps it was purged).
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run asked for, by id or by definition and key.
        run: String,
    },
    /// The run has ended already.
    #[error("run {run} has ended ({status})")]
    Closed {
        /// The run.
        run: RunId,
        /// How it ended.
        status: String,
    },
    /// The run is none that can be tried again.
    #[error("run {run} cannot be tried again: {reason}")]
    NotRetryable {
        /// The run.
        run: RunId,
        /// Why not.
        reason: String,
    },
    /// The key belongs to a run with another input.
    #[error("key {key:?} belongs to {run}, which was started with another input")]
    KeyConflict {
        /// The key.
        key: String,
        /// The run that has it.
        run: RunId,
    },
    /// The run was to be the only one of its kind, and there is one.
    #[error("{run} is there already, and {definition:?} was to be the only one of its kind")]
    AlreadyExists {
        /// The workflow or job.
        definition: String,
        /// The run that is there.
        run: RunId,
    },
    /// A promise was settled before.
    #[error("promise {name:?} of {run} is settled already")]
    AlreadySettled {
        /// The promise.
        name: String,
        /// Its run.
        run: RunId,
    },
    /// The run has as many unread messages as it may: it takes more when it has read some.
    #[error(
        "the inbox of {run} is full: {limit} unread messages are the limit, send again when it has read some"
    )]
    InboxFull {
        /// The run.
        run: RunId,
        /// The limit.
        limit: u64,
    },
    /// Registered twice, or otherwise not as it must be.
    #[error("{detail}")]
    Misconfigured {
        /// What, and the remedy.
        detail: String,
    },
    /// The database cannot be used (now, or at all).
    #[error("{detail}")]
    Store {
        /// What the store said.
        detail: String,
        /// Whether the same call may work in a moment.
        retryable: bool,
    },
    /// The engine is stopping or has stopped.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl Error {
    /// An [`Error::Invalid`], with the value shortened for showing.
    pub fn invalid(what: &str, value: impl fmt::Display, remedy: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), value: shorten(&value.to_string(), 80), remedy: remedy.into() }
    }

    /// An [`Error::InvalidCron`], with the text shortened for showing.
    pub(crate) fn invalid_cron(text: &str, field: &str, remedy: impl Into<String>) -> Error {
        Error::InvalidCron { text: shorten(text, 80), field: field.into(), remedy: remedy.into() }
    }

    /// An [`Error::Misconfigured`].
    pub fn misconfigured(detail: impl Into<String>) -> Error {
        Error::Misconfigured { detail: detail.into() }
    }

    /// The stable word for this kind of error, as in the API.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Cancelled { .. } => "cancelled",
            Error::TimedOut { .. } => "timeout",
            Error::Panicked { .. } => "panicked",
            Error::Poison { .. } => "poison",
            Error::MissingRole { .. } => "permission_denied",
            Error::Invalid { what, value, .. } => invalid_code(what, value),
            Error::TooLarge { .. } => "payload_too_large",
            Error::Undecodable { .. } => "undecodable",
            Error::UnknownDefinition { .. } => "unknown_definition",
            Error::InvalidCron { .. } => "invalid_cron",
            Error::UnknownTimezone { .. } => "unknown_timezone",
            Error::UnknownRun { .. } => "not_found",
            Error::Closed { .. } => "run_closed",
            Error::NotRetryable { .. } => "not_retryable",
            Error::KeyConflict { .. } => "idempotency_conflict",
            Error::AlreadyExists { .. } => "already_exists",
            Error::AlreadySettled { .. } => "already_settled",
            Error::InboxFull { .. } => "inbox_full",
            Error::Misconfigured { .. } => "misconfigured",
            Error::Store { .. } => "unavailable",
            Error::ShuttingDown => "shutting_down",
        }
    }
}

/// The word for a value that cannot be accepted: by what it is, or by a character that it has.
fn invalid_code(what: &str, value: &str) -> &'static str {
    // As a value is shown.
    let has_control = || ["\\0", "\\n", "\\r", "\\t", "\\u{"].iter().any(|mark| value.contains(mark));
    match what {
        "key" | "run id" => "invalid_id",
        _ if has_control() => "invalid_character",
        "delay" | "timeout" | "span of the rate" | "span of the rate per group" => "invalid_duration",
        "time" => "invalid_timestamp",
        _ => "invalid_argument",
    }
}

fn suggestion(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) }
}

/// At most `limit` bytes of `text`, cut at a character, with a mark that it was cut.
pub fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..cut], text.len())
}

/// How many letters have to change to make one word of the other.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

/// Why an operation gave no result: the code's own error, or Outlast's.
///
/// With `thiserror`, `#[from] Failure<PayError>` lets `?` carry it into your own error type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure<E> {
    /// The error that the step, transaction or run returned.
    Own(E),
    /// A timeout, a panic, a cancellation, an input that was refused.
    Outlast(Error),
}

impl<E> Failure<E> {
    /// The code's own error, if that is what it was.
    pub fn own(self) -> Option<E> {
        match self {
            Failure::Own(error) => Some(error),
            Failure::Outlast(_) => None,
        }
    }

    /// Outlast's error, if that is what it was.
    pub fn outlast(&self) -> Option<&Error> {
        match self {
            Failure::Own(_) => None,
            Failure::Outlast(error) => Some(error),
        }
    }

    /// Whether a cancellation is the reason.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Failure::Outlast(Error::Cancelled { .. }))
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Own(error) => error.fmt(f),
            Failure::Outlast(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Failure<E> {}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Failure<E> {
        Failure::Outlast(error)
    }
}

/// Any error, kept as its text and the texts of its causes: of each what [`Limits::MESSAGE`] allows, and of
/// causes [`Limits::CAUSES`].
///
/// For step bodies and handlers whose errors cannot be stored as themselves: `?` turns every
/// [`std::error::Error`] into one.
///
/// ```
/// use outlast_core::AnyError;
/// fn parse(text: &str) -> Result<u32, AnyError> { Ok(text.parse()?) }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnyError {
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl AnyError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> AnyError {
        AnyError { message: shorten(&message.into(), Limits::MESSAGE), causes: Vec::new() }
    }

    /// What lies behind it, outermost first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// Like `anyhow::Error`, this is deliberately no `std::error::Error` itself, so that the
// conversion below can cover all of those.
impl<E: std::error::Error> From<E> for AnyError {
    fn from(error: E) -> AnyError {
        let text = |error: &dyn std::error::Error| shorten(&error.to_string(), Limits::MESSAGE);
        let causes = std::iter::successors(error.source(), |cause| cause.source()).take(Limits::CAUSES);
        AnyError { message: text(&error), causes: causes.map(text).collect() }
    }
}

/// A [`Failure`] as the database keeps it: readable without the user's types.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureDoc {
    /// The code's own error.
    Own(OwnFailure),
    /// Outlast's error.
    Outlast(Error),
}

/// The user's error as the database keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnFailure {
    /// What the error's `Display` says, shortened.
    pub message: String,
    /// The error itself, as JSON.
    pub value: Box<RawValue>,
    /// Of a run: the operation that failed last before it did, if one had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

impl FailureDoc {
    /// The durable form of `failure`. An error that is larger than a payload may be is left out: its message
    /// stays, shortened.
    pub fn new<E: Serialize + fmt::Display>(failure: &Failure<E>, limits: &Limits) -> FailureDoc {
        match failure {
            Failure::Outlast(error) => FailureDoc::Outlast(error.clone()),
            Failure::Own(error) => match serde_json::value::to_raw_value(error) {
                Ok(value) if value.get().len() > limits.largest_payload() => {
                    FailureDoc::Outlast(Error::TooLarge {
                        what: format!("the error {:?}", shorten(&error.to_string(), 200)),
                        size: value.get().len() as u64,
                        limit: limits.largest_payload() as u64,
                    })
                }
                Ok(value) => {
                    let message = shorten(&error.to_string(), Limits::MESSAGE);
                    FailureDoc::Own(OwnFailure { message, value, step: None })
                }
                Err(refused) => FailureDoc::Outlast(Error::Undecodable {
                    what: format!("the error {:?}", shorten(&error.to_string(), 200)),
                    wanted: "JSON".into(),
                    detail: refused.to_string(),
                }),
            },
        }
    }

    /// The failure again, with the user's own type.
    pub fn typed<E: DeserializeOwned>(&self) -> Failure<E> {
        match self {
            FailureDoc::Outlast(error) => Failure::Outlast(error.clone()),
            FailureDoc::Own(own) => match serde_json::from_str(own.value.get()) {
                Ok(error) => Failure::Own(error),
                Err(refused) => Failure::Outlast(Error::Undecodable {
                    what: format!("the recorded error {:?}", shorten(&own.message, 200)),
                    wanted: std::any::type_name::<E>().into(),
                    detail: refused.to_string(),
                }),
            },
        }
    }

    /// The same, of a run in which this operation had failed before.
    pub fn after(mut self, step: Option<&str>) -> FailureDoc {
        if let FailureDoc::Own(own) = &mut self {
            own.step = step.map(str::to_owned);
        }
        self
    }

    /// The operation that failed last before the run did, where that was noted.
    pub fn step(&self) -> Option<&str> {
        match self {
            FailureDoc::Own(own) => own.step.as_deref(),
            FailureDoc::Outlast(_) => None,
        }
    }

    /// What kind of failure it is, in one word: `own`, or the [code](Error::code) of Outlast's error.
    pub fn kind(&self) -> &'static str {
        match self {
            FailureDoc::Own(_) => "own",
            FailureDoc::Outlast(error) => error.code(),
        }
    }

    /// One line for people.
    pub fn message(&self) -> String {
        match self {
            FailureDoc::Own(own) => own.message.clone(),
            FailureDoc::Outlast(error) => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
    #[error("{0}")]
    struct Verbose(String);

    #[test]
    fn a_long_message_is_cut_and_the_error_itself_is_kept() {
        let long = Verbose("ü".repeat(Limits::MESSAGE));
        let kept = FailureDoc::new(&Failure::Own(long.clone()), &Limits::default());
        let message = kept.message();
        assert!(message.ends_with("… (32768 bytes)") && message.len() < Limits::MESSAGE + 30, "{message}");
        assert_eq!(kept.typed::<Verbose>(), Failure::Own(long));
    }

    #[test]
    fn an_error_larger_than_a_payload_leaves_its_message() {
        let limits = Limits { payload: 1000, ..Limits::default() };
        let huge = Failure::Own(Verbose("no room. ".repeat(200)));
        let kept = FailureDoc::new(&huge, &limits);
        let error = Error::TooLarge {
            what: format!("the error {:?}", shorten(&"no room. ".repeat(200), 200)),
            size: 1802,
            limit: 1000,
        };
        assert_eq!(kept.typed::<Verbose>(), Failure::Outlast(error));
        assert!(kept.message().contains("no room. no room."), "{}", kept.message());
    }

    #[test]
    fn any_error_fits_into_a_payload_with_all_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Chain(String, #[source] Option<Box<Chain>>);
        let link = |inner, _| Some(Box::new(Chain("x".repeat(1 << 20), inner)));
        let chain = (0..100).fold(None, link).unwrap();
        let error = AnyError::from(*chain);
        assert_eq!(error.causes().len(), Limits::CAUSES);
        let kept = FailureDoc::new(&Failure::Own(error.clone()), &Limits::default());
        assert_eq!(kept.typed::<AnyError>(), Failure::Own(error));
        assert!(AnyError::new("x".repeat(1 << 20)).to_string().len() < Limits::MESSAGE + 30);
    }
}
