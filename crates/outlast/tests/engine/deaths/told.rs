//! What is known of one trip, and what was promised.

use outlast::{Client, Filter, Outlast, Target};
use outlast_core::{Entry, Op, Phase};
use outlast_testkit::World;
use tempfile::TempDir;

use super::trip::Book;

/// Where a process died: what was done and recorded by then.
pub struct Grave {
    pub notes: usize,
    pub journal: Vec<Entry>,
}

impl Grave {
    /// What was recorded as done and must never be done again.
    fn recorded(&self) -> Vec<String> {
        self.journal.iter().filter_map(recorded).collect()
    }

    fn knows(&self, op: Op, name: &str, phases: &[Phase]) -> bool {
        self.journal
            .iter()
            .any(|entry| entry.op == op && &*entry.name == name && phases.contains(&entry.phase))
    }

    /// Whether the trip had come to its end.
    pub fn has_failed(&self) -> bool {
        self.knows(Op::Step, "pay", &[Phase::Failed])
    }

    /// Whether something was done, or may have been, that has to be undone when no body runs any more.
    pub fn can_undo(&self, op: Op, name: &str) -> bool {
        match name {
            // Its start has no body: the code does it on the way to where it hears that it shall stop.
            "guide" => self.knows(Op::Transaction, "debit", &[Phase::Done]),
            // In doubt: it was about to begin.
            "hotel" => self.knows(Op::Undo, name, &[Phase::Opened]),
            name => self.knows(op, name, &[Phase::Done]),
        }
    }
}

/// The call of a body that an entry is the record of.
fn recorded(entry: &Entry) -> Option<String> {
    // What undoes something that is not a step is called after that: `debit#transaction`.
    let name = entry.name.split('#').next().unwrap_or_default();
    let attempts = name == "mail";
    let call = match (entry.op, entry.phase) {
        (Op::Step | Op::Transaction, Phase::Done | Phase::Failed) if attempts => format!("{name} 2"),
        (Op::Step | Op::Transaction, Phase::Done | Phase::Failed) => name.to_owned(),
        (Op::Step, Phase::Attempt) => format!("{name} 1"),
        (Op::Undo, Phase::Done) if attempts => format!("undo {name} 2"),
        (Op::Undo, Phase::Done) => format!("undo {name}"),
        (Op::Undo, Phase::Attempt) => format!("undo {name} 1"),
        _ => return None,
    };
    Some(call)
}

/// One trip, through however many processes.
pub struct Told {
    pub world: World,
    pub client: Client,
    pub key: String,
    pub book: Book,
    pub graves: Vec<Grave>,
    _folder: TempDir,
}

impl Told {
    pub fn new(world: &World, how: &str) -> Told {
        let folder = tempfile::tempdir().unwrap();
        Told {
            world: world.clone(),
            client: Outlast::on(world.store().clone()).client(),
            key: how.replace(|letter: char| !letter.is_alphanumeric(), "-"),
            book: Book(folder.path().join("book")),
            graves: Vec::new(),
            _folder: folder,
        }
    }

    pub fn target(&self) -> Target {
        Target::key("trip", &self.key)
    }

    /// A process died, and nothing of it is left.
    pub async fn dig(&mut self) {
        let journal = match self.client.find(self.target()).await {
            Ok(run) => self.client.journal(run, 0, 1000).await.unwrap(),
            Err(_) => Vec::new(),
        };
        self.graves.push(Grave { notes: self.book.notes().len(), journal });
    }

    /// What bodies did, in order, without their numbers; a body that a death cut off may run again after it.
    pub fn calls(&self, guides: bool) -> Vec<String> {
        let notes = self.book.notes();
        let mut calls: Vec<String> = Vec::new();
        let mut is_first = false;
        for (place, note) in notes.iter().enumerate() {
            is_first |= self.graves.iter().any(|grave| grave.notes == place);
            let call = note.split('=').next().unwrap_or_default();
            if guides != (call == "guide") {
                continue;
            }
            if !(std::mem::take(&mut is_first) && calls.last().is_some_and(|last| last == call)) {
                calls.push(call.to_owned());
            }
        }
        calls
    }

    /// The numbers of the calls of a body, in order.
    fn numbers(&self, body: &str) -> Vec<String> {
        let notes = self.book.notes();
        let of = notes.iter().filter_map(|note| note.split_once('=')).filter(|(name, _)| *name == body);
        of.map(|(_, number)| number.to_owned()).collect()
    }

    /// Compares what happened with what was promised. `wanted`: all that was done, in order.
    pub async fn check(&self, wanted: &[&str], how: &str) {
        let notes = self.book.notes();
        assert_eq!(self.calls(false), wanted, "{how}: {notes:?}");
        for grave in &self.graves {
            let again = notes[grave.notes..].iter().filter_map(|note| note.split('=').next());
            let recorded = grave.recorded();
            for call in again {
                assert!(
                    !recorded.iter().any(|known| known == call),
                    "{how}: {call:?} was recorded: {notes:?}"
                );
            }
        }
        // An undo gets what was recorded: of the last call.
        for (undo, body) in [("undo flight", "flight"), ("undo debit", "debit"), ("undo mail 2", "mail 2")] {
            for number in self.numbers(undo) {
                assert_eq!(Some(&number), self.numbers(body).last(), "{how}: {undo}: {notes:?}");
            }
        }
        let Ok(run) = self.client.find(self.target()).await else { return };
        let children = Filter { parent: Some(run), ..Filter::default() };
        let children = self.client.list(&children, None, 10).await.unwrap().runs;
        let debits = self.world.raw(&format!("select call from debits where run = '{run}'")).await;
        let journal = self.client.journal(run, 0, 1000).await.unwrap();
        let has = |op, phase| journal.iter().any(|entry| entry.op == op && entry.phase == phase);
        assert_eq!(debits.len(), usize::from(has(Op::Transaction, Phase::Done)), "{how}: {notes:?}");
        assert_eq!(children.len(), usize::from(has(Op::Child, Phase::Opened)), "{how}: {notes:?}");
    }
}
