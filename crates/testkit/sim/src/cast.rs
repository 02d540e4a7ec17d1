//! Who plays what: programs by the labels of their runs. What a run is called with is but its label then, and not the whole
//! program, with its children's in it, in every row and every turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlast::RunId;
use parking_lot::Mutex;

use crate::program::{Program, What};

/// What a schedule's runs perform, and who some of them are.
#[derive(Debug, Default)]
pub(crate) struct Cast {
    programs: Mutex<BTreeMap<String, Arc<Program>>>,
    /// Those to whom others write.
    runs: Mutex<BTreeMap<String, RunId>>,
}

impl Cast {
    /// The run of this label performs `program`, and its children theirs.
    pub(crate) fn give(&self, label: &str, program: &Arc<Program>) {
        let mut programs = self.programs.lock();
        if programs.contains_key(label) {
            return;
        }
        give(&mut programs, label.to_owned(), program);
    }

    /// What the run of this label performs.
    pub(crate) fn of(&self, label: &str) -> Option<Arc<Program>> {
        self.programs.lock().get(label).cloned()
    }

    /// The run of this label is this one: others may write to it.
    pub(crate) fn is(&self, label: &str, run: RunId) {
        self.runs.lock().insert(label.to_owned(), run);
    }

    /// Who has this label.
    pub(crate) fn run(&self, label: &str) -> Option<RunId> {
        self.runs.lock().get(label).copied()
    }
}

fn give(programs: &mut BTreeMap<String, Arc<Program>>, label: String, program: &Arc<Program>) {
    program.each(&mut |act| {
        if let What::Child { program, .. } = &act.what {
            give(programs, child(&label, act.number), program);
        }
    });
    programs.insert(label, program.clone());
}

/// The label of what a run starts with one of its acts.
pub(crate) fn child(label: &str, number: u32) -> String {
    format!("{label}.{number}")
}
