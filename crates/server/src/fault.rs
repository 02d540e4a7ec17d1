//! What a command says when it cannot do what it was asked, and how the process ends then.
//!
//! One line: what is wrong, what to do about it, and the stable word for it. Scripts go by the exit code,
//! which is part of the interface.

use std::fmt;
use std::io;

use outlast::Error;
use outlast_store::StoreError;

use crate::output::call;

/// How the process ends when it does not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Whoever read our output has gone: nobody is left to be told.
    Quiet = 0,
    /// The run failed, or something did that no other number names.
    Failed = 1,
    /// Asked in a way that cannot be.
    Usage = 2,
    /// What was named is not there.
    NotFound = 3,
    /// What is there stands against it.
    Conflict = 4,
    /// Who asks is not known, or may not.
    Auth = 5,
    /// The database, or the server, is out of reach.
    Unreachable = 6,
    /// It took longer than it may.
    Timeout = 7,
    /// It was done to many, and could not be done to some of them.
    Partly = 8,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    code: &'static str,
    pub(crate) exit: Exit,
}

impl Fault {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { message: message.into(), code, exit }
    }

    /// The stable word for it.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// What is wrong, in one line.
    pub(crate) fn message(&self) -> String {
        self.message.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Something on the command line that cannot be accepted.
    pub(crate) fn usage(message: impl Into<String>) -> Fault {
        Fault::new(Exit::Usage, "invalid_argument", message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever a database or a user's error had to say.
        write!(f, "{} ({})", self.message(), self.code)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let exit = match &error {
            Error::UnknownRun { .. } | Error::UnknownDefinition { .. } => Exit::NotFound,
            Error::Closed { .. }
            | Error::NotRetryable { .. }
            | Error::KeyConflict { .. }
            | Error::AlreadyExists { .. }
            | Error::AlreadySettled { .. }
            | Error::InboxFull { .. } => Exit::Conflict,
            Error::Invalid { .. } | Error::TooLarge { .. } | Error::Undecodable { .. } => Exit::Usage,
            Error::InvalidCron { .. } | Error::UnknownTimezone { .. } => Exit::Usage,
            Error::Store { .. } | Error::ShuttingDown => Exit::Unreachable,
            Error::TimedOut { .. } => Exit::Timeout,
            _ => Exit::Failed,
        };
        let message = match remedy(&error) {
            Some(remedy) => format!("{error}: {remedy}"),
            None => error.to_string(),
        };
        Fault::new(exit, error.code(), message)
    }
}

/// What to do, where the error alone does not say it.
fn remedy(error: &Error) -> Option<String> {
    match error {
        Error::UnknownRun { .. } => Some(format!("`{}` shows those that are there", call("list"))),
        Error::UnknownDefinition { nearest, .. } if nearest.is_empty() => {
            Some(format!("`{}` shows those that are known", call("list definitions")))
        }
        Error::Closed { .. } => Some("nothing reaches it any more".to_owned()),
        Error::KeyConflict { run, .. } => {
            Some(format!("use another key, or look at it with `{}`", call(&format!("show {run}"))))
        }
        Error::AlreadySettled { .. } => Some("the first value stays".to_owned()),
        Error::Store { retryable: true, detail } => Some(store_remedy(detail).to_owned()),
        _ => None,
    }
}

/// What to do about a database that cannot be used now. Its words are all that is left of the reason.
fn store_remedy(detail: &str) -> &'static str {
    let begins = |like: StoreError| detail.starts_with(&like.to_string());
    if begins(StoreError::Full("".into())) {
        "make room where it lives, then try again"
    } else if begins(StoreError::Conflict("".into())) {
        "try again in a moment"
    } else {
        "see whether it is up and the address is right, or try again in a moment"
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        match error {
            StoreError::Address(why) => Fault::usage(why),
            StoreError::Schema(why) => Fault::new(Exit::Conflict, "precondition_failed", why),
            owned @ StoreError::Owned { .. } => Fault::new(Exit::Conflict, "conflict", owned.to_string()),
            StoreError::Refused(why) => Fault::new(Exit::Failed, "internal", why.to_string()),
            other => Error::from(other).into(),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Fault::new(Exit::Quiet, "broken_pipe", "nobody reads the output"),
            _ => Fault::new(Exit::Failed, "io", error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_in_trouble_is_told_with_what_helps() {
        let told = |error: StoreError| Fault::from(error).to_string();
        assert_eq!(
            told(StoreError::Full("database or disk is full".into())),
            "the database has no room left: database or disk is full: make room where it lives, then try \
             again (unavailable)"
        );
        assert!(
            told(StoreError::Conflict("locked".into()))
                .ends_with("locked: try again in a moment (unavailable)")
        );
        assert!(told(StoreError::Unavailable("refused".into())).contains("see whether it is up"));
    }
}
