//! The ledger: what bodies really did, in a file that the engine never sees.
//!
//! Each line is one write at the end of the file, so the order of the lines is the order in which
//! things happened, across processes. What a process wrote stays when the process is killed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use outlast::RunId;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::gates::Gate;
use crate::plan::Work;

/// The open ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    /// Who writes.
    node: u32,
}

/// One line. Nodes are numbered by the supervisor: process ids come round again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// A body begins.
    Begin(Call),
    /// A body is about to return.
    End(Call),
    /// A body was dropped before it could return.
    Dropped(Call),
    /// A node can work.
    Up {
        node: u32,
    },
    /// A node found that its lease was over, or about to be, without having been killed.
    Lapse {
        node: u32,
    },
    /// A node lives and is about to be cut off from its database.
    Cut {
        node: u32,
    },
    /// A node is dead; it wrote nothing after this.
    Kill {
        node: u32,
    },
    /// A node is stopped where it is (SIGSTOP), with whatever it has in hand, until it may go on.
    Stop {
        node: u32,
    },
    Go {
        node: u32,
    },
    /// A node was asked to leave, and has ended by itself.
    Left {
        node: u32,
    },
    /// The engine of a node counted something that tests want to know of.
    Metric {
        node: u32,
        name: String,
        by: u64,
    },
    /// How long something took, in microseconds.
    Sample {
        node: u32,
        name: String,
        micros: u64,
    },
    /// Something was done to the database, or to all at once.
    Fault {
        what: String,
        at: u64,
    },
    /// No more faults come: whoever is up now has to work.
    Heal {
        at: u64,
    },
}

/// One call of a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) run: RunId,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    pub(crate) node: u32,
    /// Made for this call, and what it returns.
    pub(crate) value: u64,
    /// The sum of what the run had seen before.
    pub(crate) sum: u64,
    /// What a job was asked to do.
    pub(crate) work: Option<Work>,
    /// When it began, by a clock that all processes share and nobody sets.
    pub(crate) at: u64,
}

impl Call {
    /// The gate that let it through.
    pub(crate) fn gate(&self) -> Option<Gate> {
        Some(self.work?.ticket?.gate)
    }
}

/// A body that has begun. Dropped without having ended, it says so.
pub(crate) struct Body<'a> {
    ledger: &'a Ledger,
    call: Call,
    is_over: bool,
}

impl Body<'_> {
    /// What it returns.
    pub(crate) fn value(&self) -> u64 {
        self.call.value
    }

    /// Notes that it is about to return.
    pub(crate) fn end(mut self) {
        self.is_over = true;
        self.ledger.write(&Line::End(self.call.clone()));
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.ledger.write(&Line::Dropped(self.call.clone()));
        }
    }
}

impl Ledger {
    pub(crate) fn open(path: &Path, node: u32) -> Result<Ledger> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Ledger { file: file.with_context(|| format!("cannot open {}", path.display()))?, node })
    }

    /// Notes that a body begins, and gives it the value that it shall return.
    pub(crate) fn begin(
        &self,
        run: RunId,
        step: &str,
        attempt: u32,
        sum: u64,
        work: Option<Work>,
    ) -> Body<'_> {
        let (step, value, at) = (step.to_owned(), fastrand::u64(..), now());
        let call = Call { run, step, attempt, node: self.node, value, sum, work, at };
        self.write(&Line::Begin(call.clone()));
        Body { ledger: self, call, is_over: false }
    }

    /// # Panics
    ///
    /// When the line cannot be written: without a ledger nothing here is worth anything.
    pub(crate) fn write(&self, line: &Line) {
        let line = serde_json::to_string(line).expect("a line is JSON");
        // Broken before and after: a write that a kill cut in two spoils no other line.
        (&self.file).write_all(format!("\n{line}\n").as_bytes()).expect("the ledger can be written");
    }

    pub(crate) fn read(path: &Path) -> Result<Vec<Line>> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(lines(&text))
    }
}

/// The lines of a ledger, or of a part of it that begins and ends with whole ones.
pub(crate) fn lines(text: &[u8]) -> Vec<Line> {
    // What does not parse is a write that a kill cut in two: its body went no further.
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Microseconds since the machine started.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let since = Duration::try_from(now).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
