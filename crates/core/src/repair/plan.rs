//! Where a journal is cut, and what follows from that: pure, so that it can be said before it is done.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;

use super::{OpWord, Operated, counts};
use crate::{
    Entry, Error, FailureDoc, Op, OpenNote, Payload, Phase, RunId, name_anew, name_in_any_life, name_in_life,
    split_life, strip_anew,
};

/// Where a journal is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutAt {
    /// Where the run went wrong: at the operation whose failure it ended with, or where it was asked to stop. Where
    /// neither is known, all of it counts.
    Failure,
    /// At an operation, which runs again.
    Operation(Operated),
    /// Behind an operation, whose result is replaced.
    Behind(Operated),
    /// Nowhere: all of it counts.
    Nowhere,
    /// At the beginning.
    Start,
}

/// What a repair takes back, keeps and asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Positions of entries that count no more.
    pub void: Vec<u32>,
    /// How many results are kept.
    pub kept: usize,
    /// Steps, transactions and children that had happened, wholly or in part, and run again; in the order of the journal.
    pub again: Vec<Operated>,
    /// Operations that begin anew: see [`Revision::anew`](super::Revision::anew).
    pub anew: Vec<Operated>,
    /// Messages that were consumed by what counts no more: they arrive again.
    pub messages: Vec<Message>,
    /// Children that are waited for again, and under what name they tell their end.
    pub children: Vec<(RunId, String)>,
}

/// A message that arrives again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An event.
    Event(String, Option<Payload>),
    /// The value of a promise.
    Settled(String, Option<Payload>),
    /// The refusal of a promise.
    Rejected(String, Option<Payload>),
    /// The end of a child that completed: its output.
    Ended(String, Option<Payload>),
}

/// Children that a journal started and whose end it may have to hear of anew: it knows no result of theirs.
pub fn children(entries: &[Entry]) -> Vec<RunId> {
    let of = |phase: Phase| entries.iter().filter(move |entry| entry.op == Op::Child && entry.phase == phase);
    let done: HashSet<&str> = of(Phase::Done).map(|entry| &*entry.name).collect();
    let open = of(Phase::Opened).filter(|entry| !done.contains(&*entry.name));
    let notes = open.filter_map(|entry| entry.note::<OpenNote>().ok());
    notes.filter(|note| !note.detached).filter_map(|note| note.run).collect()
}

fn is_result(entry: &Entry) -> bool {
    matches!(entry.phase, Phase::Done | Phase::Failed)
}

/// An operation's entries that count.
#[derive(Default)]
struct Record<'a> {
    opened: Option<&'a Entry>,
    attempts: Vec<&'a Entry>,
    result: Option<&'a Entry>,
}

impl<'a> Record<'a> {
    fn entries(&self) -> impl Iterator<Item = &'a Entry> {
        self.opened.into_iter().chain(self.attempts.iter().copied()).chain(self.result)
    }

    fn first(&self) -> u32 {
        self.entries().map(|entry| entry.pos).min().unwrap_or(u32::MAX)
    }

    /// The run that it started and waits for, if it is known here.
    fn child(&self) -> Option<RunId> {
        let note = self.opened?.note::<OpenNote>().ok()?;
        note.run.filter(|_| !note.detached)
    }

    /// Whether it started a run and does not wait for it.
    fn is_detached(&self) -> bool {
        self.opened.is_some_and(|entry| entry.note::<OpenNote>().is_ok_and(|note| note.detached))
    }
}

/// A child that was found by its key, which a step recorded.
struct Found<'a> {
    step: &'a Entry,
    run: RunId,
}

/// Children that were found by their keys and tell their end, by their operations.
fn found_by_key<'a>(live: &[&'a Entry]) -> HashMap<Operated, Found<'a>> {
    #[derive(Deserialize)]
    struct Note {
        run: RunId,
        name: String,
    }
    let steps = live
        .iter()
        .filter(|entry| entry.op == Op::Step && entry.phase == Phase::Done && entry.name.contains("start "));
    let found = steps.filter_map(|step| {
        let Note { run, name } = step.note().ok()?;
        let name = strip_anew(split_life(&name).0).into();
        Some((Operated { op: OpWord(Op::Child), name }, Found { step, run }))
    });
    found.collect()
}

/// Plans where to cut a journal, and what follows.
///
/// `failure` is what the run ended with. Children in `gone` ended without a result: whoever waits for one of these
/// again starts it anew. `anew` is what [`revise`](super::revise) gave.
pub fn plan(
    entries: &[Entry],
    at: &CutAt,
    failure: Option<&FailureDoc>,
    gone: &HashSet<RunId>,
    anew: &BTreeMap<Operated, u32>,
) -> Plan {
    let live: Vec<&Entry> = entries.iter().filter(|entry| counts(entry) && binds(entry)).collect();
    let mut records: HashMap<Operated, Record<'_>> = HashMap::new();
    for entry in &live {
        let record = records.entry(Operated::of(entry)).or_default();
        match entry.phase {
            Phase::Opened => record.opened = Some(entry),
            Phase::Attempt => record.attempts.push(entry),
            Phase::Done | Phase::Failed => record.result = Some(entry),
            Phase::Void => {}
        }
    }
    let named = match at {
        CutAt::Failure => failed(&live, failure),
        CutAt::Operation(operated) => Some(operated.clone()),
        CutAt::Behind(_) | CutAt::Start | CutAt::Nowhere => None,
    };
    let life = entries.iter().rev().find(|entry| entry.op == Op::Continue).map_or(0, |entry| entry.pos);
    let told = |operated: &Operated| {
        let times = anew.get(operated).copied().unwrap_or_default();
        name_in_life(&name_anew(&operated.name, times), life)
    };
    if *at == CutAt::Nowhere {
        let kept = records.values().filter(|record| record.result.is_some()).count();
        return Plan { kept, ..Plan::default() };
    }
    let anyway = matches!(at, CutAt::Operation(_));
    let (pos, undone) = cut_pos(at, named.as_ref(), &live, &records);
    let cut = Cut { pos, named, anyway, undone, gone, found: found_by_key(&live) };
    let mut void: BTreeSet<u32> =
        records.iter().flat_map(|(operated, record)| cut.takes_back(operated, record)).collect();
    // Who begins anew is looked for by its key again, and told under another name.
    let again = cut.found.iter().filter(|(operated, _)| cut.restarts(operated));
    void.extend(again.map(|(_, found)| found.step.pos));
    cut.follow(void, &records, told)
}

/// The mark in a journal that the run has begun to undo.
pub const BEGUN: &str = "*";

/// What neither opens a life nor says what it brought along.
fn binds(entry: &Entry) -> bool {
    !matches!(entry.op, Op::Revise | Op::Continue) && !entry.name.starts_with('=')
}

/// The position before which everything counts that is not begun anew, and what was undone behind it.
fn cut_pos(
    at: &CutAt,
    named: Option<&Operated>,
    live: &[&Entry],
    records: &HashMap<Operated, Record<'_>>,
) -> (u32, HashSet<Operated>) {
    let end =
        |operated: &Operated| records.get(operated).and_then(|record| record.result).map(|entry| entry.pos);
    let first = |operated: &Operated| records.get(operated).map(Record::first);
    let asked = match (at, named) {
        (CutAt::Start, _) => live.first().map(|entry| entry.pos),
        (CutAt::Behind(operated), _) => end(operated).map(|pos| pos + 1),
        (_, Some(operated)) => end(operated).or_else(|| first(operated)),
        (_, None) => None,
    };
    // Whoever was asked to stop would only be asked again, and whoever began to undo would go on with that.
    let stops = |entry: &&&Entry| match entry.op {
        Op::Cancel => is_result(entry),
        Op::Undo => &*entry.name == BEGUN,
        _ => false,
    };
    let stopped = live.iter().find(stops).map(|entry| entry.pos);
    let mut pos = asked.into_iter().chain(stopped).min().unwrap_or(u32::MAX);
    // What was undone before, by code that went another way then, is part of what it did.
    loop {
        let undone: HashSet<Operated> =
            live.iter().filter(|entry| entry.pos >= pos).filter_map(|entry| undone(entry)).collect();
        match undone.iter().filter_map(end).min() {
            Some(before) if before < pos => pos = before,
            _ => return (pos, undone),
        }
    }
}

/// Where a journal is cut, and what begins anew wherever it stands.
struct Cut<'a> {
    pos: u32,
    named: Option<Operated>,
    /// Somebody wants what is named to run again, whatever became of it.
    anyway: bool,
    undone: HashSet<Operated>,
    gone: &'a HashSet<RunId>,
    found: HashMap<Operated, Found<'a>>,
}

impl Cut<'_> {
    /// Whether an operation begins anew wherever it stands.
    fn restarts(&self, operated: &Operated) -> bool {
        self.named.as_ref() == Some(operated) || self.undone.contains(operated)
    }

    /// The positions of an operation's entries that count no more.
    fn takes_back(&self, operated: &Operated, record: &Record<'_>) -> Vec<u32> {
        let restarts = self.restarts(operated);
        if record.is_detached() && !restarts {
            return record.entries().filter(|entry| entry.pos >= self.pos).map(|entry| entry.pos).collect();
        }
        if record.result.is_some_and(|result| result.pos < self.pos) && !restarts {
            return Vec::new();
        }
        let waits = matches!(operated.op.0, Op::Sleep | Op::Event | Op::Promise);
        // A child that is there, or has a result, is waited for; others are started again.
        let keeps_opening = match operated.op.0 {
            Op::Child => {
                let anyway = self.undone.contains(operated) || (restarts && self.anyway);
                record.child().is_some_and(|child| !self.gone.contains(&child)) && !anyway
            }
            _ => waits && !restarts,
        };
        let ended = record.result.is_some();
        let is_void = |entry: &&Entry| match entry.phase {
            Phase::Opened if keeps_opening => entry.pos >= self.pos,
            Phase::Opened if operated.op.0 == Op::Child => true,
            // An attempt that failed counts while there is no result.
            _ => entry.pos >= self.pos || restarts || ended,
        };
        record.entries().filter(is_void).map(|entry| entry.pos).collect()
    }

    /// What follows when the entries at these positions count no more.
    fn follow(
        &self,
        void: BTreeSet<u32>,
        records: &HashMap<Operated, Record<'_>>,
        told: impl Fn(&Operated) -> String,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut messages: Vec<(u32, Message)> = Vec::new();
        let is_void = |entry: &Entry| void.contains(&entry.pos);
        let mut order: Vec<(&Operated, &Record<'_>)> = records.iter().collect();
        order.sort_unstable_by_key(|(_, record)| record.first());
        for (operated, record) in order {
            let op = operated.op.0;
            let starts_again = match op {
                Op::Step | Op::Transaction => record.entries().any(is_void),
                Op::Child => record.opened.is_some_and(is_void),
                _ => false,
            };
            let reverts = op == Op::Undo && record.entries().any(|e| e.phase != Phase::Opened && is_void(e));
            let is_sought_again = op == Op::Child && record.opened.is_none() && self.restarts(operated);
            let is_anew = self.undone.contains(operated) || (op == Op::Child && starts_again);
            if is_anew || is_sought_again || reverts {
                plan.anew.push(operated.clone());
            }
            let result = record.result.filter(|result| !is_void(result));
            plan.kept += usize::from(result.is_some());
            if starts_again {
                plan.again.push(operated.clone());
            }
            let taken = record.result.filter(|result| is_void(result));
            // A promise is settled once for ever. Of other things that are named somebody wants another.
            let is_asked_anew = self.restarts(operated) && op != Op::Promise;
            let message = taken.filter(|_| !starts_again && !is_asked_anew);
            let message = message
                .and_then(|result| Some((result.pos, message_of(result, record.opened, || told(operated))?)));
            // One that has completed says so once for ever; another may have been tried again since.
            let is_told = message.is_some() || result.is_some() || starts_again;
            if let Some(child) = record.child().filter(|_| op == Op::Child && !is_told) {
                plan.children.push((child, told(operated)));
            }
            messages.extend(message);
        }
        for (operated, found) in &self.found {
            let record = records.get(operated);
            let has_end = record.is_some_and(|record| {
                record.result.is_some_and(|end| !is_void(end) || end.phase == Phase::Done)
            });
            if !is_void(found.step) && !has_end {
                plan.children.push((found.run, told(operated)));
            }
        }
        plan.children.sort_unstable();
        messages.sort_by_key(|(pos, _)| *pos);
        plan.messages = messages.into_iter().map(|(_, message)| message).collect();
        plan.void = void.into_iter().collect();
        plan
    }
}

/// The message that an entry recorded the arrival of.
fn message_of(entry: &Entry, opened: Option<&Entry>, told: impl Fn() -> String) -> Option<Message> {
    let body = entry.body.clone();
    Some(match (entry.op, entry.phase) {
        (Op::Event, Phase::Done) => {
            let note = opened.and_then(|entry| entry.note::<OpenNote>().ok());
            let own = entry.name.split('#').next().unwrap_or_default();
            Message::Event(note.and_then(|note| note.event).unwrap_or_else(|| own.to_owned()), body)
        }
        (Op::Promise, Phase::Done) => Message::Settled(name_in_any_life(&entry.name), body),
        (Op::Promise, Phase::Failed) if !timed_out(entry) => {
            Message::Rejected(name_in_any_life(&entry.name), body)
        }
        (Op::Child, Phase::Done) => Message::Ended(told(), body),
        _ => return None,
    })
}

fn timed_out(entry: &Entry) -> bool {
    matches!(entry.failure(), Ok(FailureDoc::Outlast(Error::TimedOut { .. })))
}

/// The operation that an undo entry says is reverted.
fn undone(entry: &Entry) -> Option<Operated> {
    if entry.op != Op::Undo || entry.phase != Phase::Done {
        return None;
    }
    let marked = entry.name.rsplit_once('#').and_then(|(name, word)| match word {
        "transaction" => Some((Op::Transaction, name)),
        "child" => Some((Op::Child, name)),
        _ => None,
    });
    let (op, name) = marked.unwrap_or((Op::Step, &*entry.name));
    Some(Operated { op: OpWord(op), name: name.into() })
}

/// The operation whose failure the run ended with: the last one that failed so, or else the last result, if it is a
/// failure.
fn failed(live: &[&Entry], failure: Option<&FailureDoc>) -> Option<Operated> {
    let failure = failure?;
    let fits = |op: Op| matches!(op, Op::Step | Op::Transaction | Op::Event | Op::Promise | Op::Child);
    let mut results = live.iter().rev().filter(|entry| is_result(entry) && fits(entry.op));
    let last = results.clone().next().filter(|entry| entry.phase == Phase::Failed);
    let says_it = |entry: &&&Entry| {
        entry.phase == Phase::Failed && entry.failure().is_ok_and(|own| own.message() == failure.message())
    };
    results.find(says_it).or(last).map(|entry| Operated::of(entry))
}
