//! Verdicts: whether a run's journal fits the code that is here, and the exact difference where it does not.
//!
//! The same words tell why a run is blocked and what a check found: whoever reads one knows the other.

use std::fmt;
use std::panic::Location;

use outlast_core::{Error, Op};

/// Whether what a run recorded fits the code that is here: see [`Outlast::check`](crate::Outlast::check).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The code repeats what was recorded, and goes on from there.
    Fits {
        /// How many entries were replayed.
        entries: usize,
    },
    /// The code does something else than what was recorded.
    Diverges(Difference),
    /// Something that was recorded, or the input, is not of the type that the code asks for.
    CannotDecode {
        /// What it is.
        what: String,
        /// The type asked for, what is wrong, and where the code asks.
        message: String,
    },
    /// The code panics before it comes to the end of what was recorded.
    Panics {
        /// What the panic said.
        message: String,
    },
    /// No workflow or job has this name.
    NoSuchDefinition {
        /// The name.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// The name is registered, but not in this version.
    NoSuchVersion {
        /// The name.
        name: String,
        /// The version that the run began with.
        version: u32,
        /// The versions that are registered.
        known: Vec<u32>,
    },
    /// The definition is strict, and its code is not the one that the run began with.
    SignatureDiffers {
        /// What the run began with.
        began: String,
        /// What is here.
        here: String,
    },
    /// Anything else that keeps the run from going on with this code.
    Blocks {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// Whether the run goes on with this code.
    pub fn fits(&self) -> bool {
        matches!(self, Verdict::Fits { .. })
    }

    /// One word for it, the same in JSON, metrics and logs.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Fits { .. } => "fits",
            Verdict::Diverges(_) => "diverges",
            Verdict::CannotDecode { .. } => "cannot_decode",
            Verdict::Panics { .. } => "panics",
            Verdict::NoSuchDefinition { .. } => "no_such_definition",
            Verdict::NoSuchVersion { .. } => "no_such_version",
            Verdict::SignatureDiffers { .. } => "signature_differs",
            Verdict::Blocks { .. } => "blocks",
        }
    }

    /// What an error says about the code that made it.
    pub(crate) fn of_error(error: Error, source: Option<Source>) -> Verdict {
        match error {
            Error::Undecodable { what, wanted, detail } => {
                let message = format!("as {wanted}{}: {detail}", At(source));
                Verdict::CannotDecode { what, message }
            }
            other => Verdict::Blocks { reason: other.to_string() },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Fits { entries: 0 } => write!(f, "fits: nothing is recorded yet"),
            Verdict::Fits { entries: 1 } => write!(f, "fits: 1 entry"),
            Verdict::Fits { entries } => write!(f, "fits: {entries} entries"),
            Verdict::Diverges(difference) => difference.fmt(f),
            Verdict::CannotDecode { what, message } => write!(f, "{what} cannot be decoded {message}"),
            Verdict::Panics { message } => write!(f, "the code panics: {message}"),
            Verdict::NoSuchDefinition { name, known } if known.is_empty() => {
                write!(f, "no workflow or job is called {name:?}: none is registered")
            }
            Verdict::NoSuchDefinition { name, known } => {
                write!(f, "no workflow or job is called {name:?}; registered: {}", known.join(", "))
            }
            Verdict::NoSuchVersion { name, version, known } => {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                write!(f, "{name:?} has no version {version} here; registered: {}", known.join(", "))
            }
            Verdict::SignatureDiffers { began, here } => write!(
                f,
                "it is strict, and the run began with code {began}, while this is {here}: deploy the old code, or \
                 the new one as another version"
            ),
            Verdict::Blocks { reason } => f.write_str(reason),
        }
    }
}

/// Where the code and the journal part.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The entry of the journal; where that is at its end, the last one.
    pub entry: u32,
    /// What the journal goes on with; `None` where it ends, because the run did.
    pub expected: Option<Operation>,
    /// What the code does there; `None` when it ended.
    pub found: Option<Operation>,
    /// Whether the journal knows nothing of what was found.
    pub is_new: bool,
    /// Where in the code that is.
    pub source: Option<Source>,
}

/// An operation by its kind and its name, with the occurrence when that is not the first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its kind.
    pub op: Op,
    /// Its name.
    pub name: String,
}

/// A place in the source of whoever called us.
pub type Source = &'static Location<'static>;

impl Operation {
    pub(crate) fn new(op: Op, name: &str) -> Operation {
        Operation { op, name: name.to_owned() }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.op.word(), self.name)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entry, at) = (self.entry, At(self.source));
        match (&self.expected, &self.found) {
            (Some(expected), None) => write!(
                f,
                "the journal holds {expected} (entry {entry}), which the code did not ask for before it ended"
            ),
            (Some(expected), Some(found)) => {
                write!(f, "the journal goes on with {expected} (entry {entry}), but the code ")?;
                self.does(f, found)?;
                write!(f, "{at}")
            }
            (None, Some(found)) => {
                write!(f, "the run ended with entry {entry}, but the code ")?;
                self.does(f, found)?;
                write!(f, "{at}")
            }
            (None, None) => write!(f, "the run ended with entry {entry} in another way"),
        }
    }
}

impl Difference {
    fn does(&self, f: &mut fmt::Formatter<'_>, found: &Operation) -> fmt::Result {
        match found.op {
            Op::Step | Op::Transaction if self.is_new => write!(f, "begins {found}, which is not recorded"),
            _ => write!(f, "waits for {found}"),
        }
    }
}

/// A place in words, where it is known.
struct At(Option<Source>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(source) => write!(f, " (at {}:{})", source.file(), source.line()),
            None => Ok(()),
        }
    }
}
