//! The client log: every call of the supervisor's client, noted before it is made, with its answer.

use std::time::{Duration, Instant};

use outlast::{Error, RunId};
use parking_lot::Mutex;

use crate::plan::{Plan, Work};
use crate::sagas::{Halt, Saga};

/// A call and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The key of the run that it is about.
    pub(crate) key: String,
    pub(crate) asked: Asked,
    pub(crate) answer: Answer,
    asked_at: Instant,
    took: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Play(Plan),
    Work(Work),
    Saga(Saga),
    Halt(Halt),
    Send { name: String, value: u32 },
    Settle { name: String, value: u32 },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// None came, or one that leaves it open whether the call happened.
    Unknown(String),
    /// It happened, and this is the run.
    Ok(Option<RunId>),
    /// It did not happen.
    Refused(String),
}

impl Answer {
    pub(crate) fn of(answer: Result<Option<RunId>, Error>) -> Answer {
        match answer {
            Ok(run) => Answer::Ok(run),
            Err(error @ Error::Store { .. }) => Answer::Unknown(error.to_string()),
            Err(error) => Answer::Refused(error.to_string()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<Call>>);

impl Log {
    /// Notes a call that is about to be made. Gives its place in the log.
    pub(crate) fn invoke(&self, key: &str, asked: Asked) -> usize {
        let mut calls = self.0.lock();
        let answer = Answer::Unknown("no answer yet".into());
        calls.push(Call { key: key.to_owned(), asked, answer, asked_at: Instant::now(), took: None });
        calls.len() - 1
    }

    pub(crate) fn answered(&self, place: usize, answer: Answer) {
        let call = &mut self.0.lock()[place];
        call.answer = answer;
        call.took = Some(call.asked_at.elapsed());
    }

    /// How long the slowest call took, or has taken that is still not answered.
    pub(crate) fn slowest(&self) -> Duration {
        let took = |call: &Call| call.took.unwrap_or_else(|| call.asked_at.elapsed());
        self.0.lock().iter().map(took).max().unwrap_or_default()
    }

    /// How many calls were answered with these words.
    pub(crate) fn answers_with(&self, words: &str) -> u64 {
        let has = |call: &&Call| matches!(&call.answer, Answer::Unknown(why) if why.contains(words));
        self.0.lock().iter().filter(has).count() as u64
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().clone()
    }
}
