//! What a run knows in a turn: its journal, the operations that wait, what came and what is recorded and not
//! durable yet. The [`Turn`](super::turn::Turn) shares it with whoever talks to the run.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use outlast_core::{Entry, FailureDoc, Op, OpenNote, Payload, Phase, Replay, Timestamp};
use outlast_store::{Delivery, Doing, LogLine, NewRun, News};

use super::slot::{Handed, Slot, Stage};
use super::turn::note_payload;
use crate::Verdict;
use crate::ctx::Undoable;
use crate::verdict::{Operation, Source};

pub(crate) struct State {
    pub(crate) epoch: i64,
    pub(crate) replay: Replay,
    /// Nothing new has happened yet: what handlers log was logged before.
    pub(crate) replaying: bool,
    pub(crate) slots: BTreeMap<usize, Slot>,
    pub(super) next_slot: usize,
    pub(super) counts: HashMap<(Op, Arc<str>), u32>,
    pub(super) next_pos: u32,
    pub(crate) outbox: Outbox,
    /// When the code was last found idle, or its node came to it.
    pub(super) now: Timestamp,
    /// When the last entry was recorded that an operation without one of its own is taken to have begun behind, if that
    /// is known: since the claim, or, where it is the run's first, the claim itself.
    pub(super) recorded_at: Option<Timestamp>,
    /// Whatever wants to begin has had to wait since then: for that to be durable, or for the node that claimed the run to
    /// come to it.
    pub(super) waits: bool,
    /// Everything up to this position is durable.
    pub(crate) durable: u32,
    /// The last position given to the committer.
    pub(crate) submitted: u32,
    /// A transaction is about to commit with its position, or has and was not handed over yet: other
    /// entries wait for it.
    pub(crate) reserved: bool,
    /// Transactions that wait for their position.
    pub(super) reserving: Vec<Waker>,
    /// One of them may take it now.
    pub(super) granted: bool,
    pub(crate) inbox: VecDeque<News>,
    pub(crate) seen: i64,
    /// Bodies that ended, in the order in which they did.
    pub(crate) ended: VecDeque<usize>,
    pub(crate) cancelled: Cancelled,
    pub(crate) expires_at: Option<Timestamp>,
    /// It was claimed before its time, to be in hand when that comes.
    pub(crate) was_early: bool,
    /// When it was claimed, at least.
    pub(crate) arrived_at: Timestamp,
    pub(crate) continue_with: Option<Payload>,
    pub(crate) misfit: Option<Verdict>,
    /// The first operation that the code did although the journal, which has more, does not know it.
    pub(super) strayed: Option<(Operation, Source)>,
    pub(crate) mail: Mail,
    pub(crate) saved: HashMap<String, Payload>,
    /// Which patches the run was asked about, and whether it has them.
    pub(crate) patches: HashMap<String, bool>,
    /// The names of the tags that the code has set.
    pub(crate) tags: HashSet<String>,
    /// What bodies had saved when their node died, by step.
    pub(crate) beats: HashMap<String, Payload>,
    /// Whether people may see what it does: rows that go when the turn ends.
    pub(super) did: bool,
    /// Steps whose bodies listen for the cancellation and may finish cleanly.
    pub(crate) listeners: HashSet<Arc<str>>,
    /// How children ended, by name: whoever asks once more is told at once.
    pub(super) ended_children: HashMap<Arc<str>, Entry>,
    pub(super) log_lines: u32,
    /// What is undone if the run does not end well, oldest first.
    pub(crate) undoable: Vec<Undoable>,
    /// The code has ended, not well: the rest undoes.
    pub(super) undoing: bool,
    /// Its time or room was over here the last time.
    pub(super) cut: Option<FailureDoc>,
    /// What could not be undone, and what is left.
    pub(super) undo_failed: Option<String>,
    /// The operation that failed last.
    pub(super) failed: Option<Arc<str>>,
}

/// Where the request to stop stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cancelled {
    No,
    /// Handed to `ctx.cancelled()`: the code goes on as it likes.
    Told(String),
    /// Handed to whatever was open: every later wait fails with it too.
    Enforced(String),
}

/// What the engine tells a turn.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) lost: bool,
    pub(crate) stop: bool,
    /// The commit that ends the turn is durable.
    pub(crate) ended: bool,
}

/// What is recorded and not yet given to the committer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) entries: Vec<Entry>,
    pub(crate) consumed: Vec<i64>,
    pub(crate) starts: Vec<NewRun>,
    pub(crate) sends: Vec<Delivery>,
    pub(crate) doing: Vec<Doing>,
    pub(crate) logs: Vec<LogLine>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) prunes: Option<Range<u32>>,
}

impl State {
    /// Gives an entry its position and puts it into the outbox.
    pub(crate) fn record(&mut self, op: Op, phase: Phase, name: Arc<str>, body: Option<Payload>) -> Entry {
        self.record_took(op, phase, name, body, None)
    }

    /// The same, of something that took so long if that has to be said.
    pub(super) fn record_took(
        &mut self,
        op: Op,
        phase: Phase,
        name: Arc<str>,
        body: Option<Payload>,
        took: Option<Duration>,
    ) -> Entry {
        if !self.replay.is_met() && self.strayed.is_none() && phase != Phase::Opened {
            let is_it = |slot: &&Slot| slot.op == op && slot.name == name && !self.replay.knows(op, &name);
            let slot = self.slots.values().find(is_it);
            self.strayed = slot.map(|slot| (Operation::new(op, &name), slot.source));
        }
        let pos = self.next_pos;
        self.next_pos += 1;
        let entry = Entry { pos, op, phase, name, at: Timestamp::default(), took, body };
        self.outbox.entries.push(entry.clone());
        self.has_recorded();
        entry
    }

    /// Something was recorded just now.
    pub(super) fn has_recorded(&mut self) {
        (self.recorded_at, self.waits) = (Some(self.now), true);
    }

    /// Lets the bodies start that want to.
    pub(super) fn begin_bodies(&mut self) {
        let (now, recorded_at, waits) = (self.now, self.recorded_at, std::mem::take(&mut self.waits));
        for slot in self.slots.values_mut().filter(|slot| matches!(slot.stage, Stage::WantsBody)) {
            slot.begin(now, recorded_at, waits);
        }
    }

    /// Notes, once, that there is something to undo: whoever cancels the run without its code has to know.
    pub(super) fn mark_undo(&mut self, name: Arc<str>) {
        if self.replay.opened(Op::Undo, &name).is_none() {
            self.record(Op::Undo, Phase::Opened, name, None);
        }
    }

    /// Takes a position for an entry that a transaction of the user's carries.
    pub(crate) fn reserve(&mut self) -> u32 {
        let pos = self.next_pos;
        self.next_pos += 1;
        self.reserved = true;
        pos
    }

    /// What the transaction recorded was handed over, or nothing was recorded: other entries may go on.
    pub(crate) fn unreserve(&mut self) {
        self.reserved = false;
    }

    /// The code is idle and nothing is left to hand over: lets a transaction take its position. `false`
    /// when none waits for it.
    pub(crate) fn grant(&mut self) -> bool {
        self.granted = !self.reserved && !self.reserving.is_empty();
        if self.granted {
            self.reserving.drain(..).for_each(Waker::wake);
        }
        self.granted
    }

    /// When the next timer goes off that somebody waits for.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.slots.values().filter(|slot| slot.waits_for_timer()).filter_map(|slot| slot.until).min()
    }

    /// When the next timer after `now` goes off, or the run's time is over.
    pub(super) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let timers = self.slots.values().filter(|slot| slot.waits_for_timer()).filter_map(|slot| slot.until);
        timers.chain(self.expires_at).filter(|at| *at > now).min()
    }

    /// How many entries the journal has, with those still on their way.
    pub(crate) fn length(&self) -> u32 {
        self.next_pos - 1
    }

    /// Whether everything that was recorded is durable.
    pub(crate) fn all_durable(&self) -> bool {
        self.outbox.entries.is_empty() && self.durable >= self.submitted
    }

    /// Hands a result to the operation in `slot`; a child's end to everybody who waits for it.
    pub(crate) fn hand(&mut self, slot: usize, handed: Handed) {
        self.granted = false;
        if let Handed::Entry(entry) = &handed
            && entry.phase == Phase::Failed
            && !matches!(entry.op, Op::Undo | Op::Cancel)
        {
            self.failed = Some(entry.name.clone());
        }
        if let Handed::Entry(entry) = &handed
            && entry.op == Op::Child
        {
            for place in
                self.slots.values_mut().filter(|place| place.op == Op::Child && place.name == entry.name)
            {
                place.stage = Stage::Handed(handed.clone());
                place.wake();
            }
            self.ended_children.insert(entry.name.clone(), entry.clone());
            return;
        }
        if let Some(place) = self.slots.get_mut(&slot) {
            place.stage = Stage::Handed(handed);
            place.wake();
        }
    }

    /// Waits become visible, and their deadlines durable, with the next commit.
    pub(super) fn record_openings(&mut self, suspends: bool) {
        if suspends {
            self.record_stop_opening();
        }
        let waiting = |slot: &Slot| !slot.opened && matches!(slot.stage, Stage::Wait);
        let open: Vec<usize> = self.slots.iter().filter(|(_, s)| waiting(s)).map(|(id, _)| *id).collect();
        for id in open {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.opened = true;
            let note = OpenNote { until: slot.until, event: slot.scoped_event(), ..OpenNote::default() };
            let (op, name) = (slot.op, slot.name.clone());
            self.record(op, Phase::Opened, name, Some(note_payload(&note)));
        }
    }

    /// A run that waits for nothing but the request to stop says so, once: from its journal alone one could not tell it
    /// from a run that nothing wakes.
    fn record_stop_opening(&mut self) {
        let Some(slot) =
            self.slots.values().next().filter(|_| self.slots.values().all(|s| s.op == Op::Cancel))
        else {
            return;
        };
        let name = slot.name.clone();
        let is_new = self.replay.opened(Op::Cancel, &name).is_none();
        if self.counts.insert((Op::Cancel, name.clone()), 1).is_none() && is_new {
            self.record(Op::Cancel, Phase::Opened, name, Some(note_payload(&OpenNote::default())));
        }
    }
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.doing.is_empty() && self.logs.is_empty() && self.tags.is_empty()
    }
}
