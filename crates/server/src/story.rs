//! A journal read as a story: entry by entry in, operations with their attempts and durations out.
//!
//! `show` draws the whole of it, `watch` tells what each new entry adds, `list` only asks what a run
//! waits for. The journal keeps when things were recorded, and how long a step took where that tells
//! more than this: a step is taken to have begun when the entry before it was recorded, which is about
//! so for steps that run one by one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outlast::{Doing, Entry, FailureDoc, Op, Phase, RunId, RunView, Status, Timestamp};
use outlast_core::repair::Replaced;
use outlast_core::{AttemptNote, NodeId, OpenNote, Payload, Revision};
use outlast_store::RunKind;

use crate::backend::Journals;
use crate::fault::Fault;
use crate::words::{clock, took};

/// How many entries are read at once.
const PAGE: u32 = 1000;
/// How many entries are told of at once.
const MOST: usize = 10_000;

/// What a run has done so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) operations: Vec<Operation>,
    places: HashMap<(Op, Arc<str>), usize>,
    /// The last position that was read.
    pub(crate) pos: u32,
    /// When whatever comes next may have begun.
    last: Timestamp,
    /// When a node took the run, until its first entry is told.
    began: Option<Timestamp>,
}

/// One operation of a run.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) op: Op,
    /// The name, with its occurrence when it is not the first.
    pub(crate) name: String,
    pub(crate) began: Timestamp,
    /// When a sleep or a wait is over.
    pub(crate) until: Option<Timestamp>,
    /// The child that was started.
    pub(crate) child: Option<RunId>,
    /// Failed attempts after which another follows.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) end: Option<End>,
}

/// A failed attempt.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) began: Timestamp,
    pub(crate) failed_at: Timestamp,
    pub(crate) failure: FailureDoc,
    /// When the next one begins.
    pub(crate) next_at: Timestamp,
    /// The node that made it, since that is recorded.
    pub(crate) node: Option<NodeId>,
}

/// How an operation ended.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) at: Timestamp,
    pub(crate) result: Result<Option<Payload>, FailureDoc>,
}

impl Story {
    /// The story of a run that was started at this time.
    pub(crate) fn new(created_at: Timestamp) -> Story {
        Story { last: created_at, ..Story::default() }
    }

    /// The story of a run, from when a node took it: before that it stood in line, and did nothing.
    pub(crate) fn of(view: &RunView) -> Story {
        Story { began: view.began_at, ..Story::new(view.record.created_at) }
    }

    /// Reads the journal of a run, to its end: the engine bounds how long one becomes.
    pub(crate) async fn read(client: &impl Journals, view: &RunView) -> Result<Story, Fault> {
        let mut story = Story::of(view);
        while story.go_on(client, view.record.id, |_, _, _| {}).await? {}
        Ok(story)
    }

    /// Reads what is new and tells of each entry: with what it belongs to, and since when that goes on. Says whether
    /// there may be more.
    pub(crate) async fn go_on(
        &mut self,
        client: &impl Journals,
        run: RunId,
        mut tell: impl FnMut(&Entry, Option<&Operation>, Duration),
    ) -> Result<bool, Fault> {
        for _ in 0..MOST / PAGE as usize {
            let page = client.entries(run, self.pos, PAGE).await?;
            for entry in &page {
                let since = self.add(entry);
                tell(entry, self.operation(entry), entry.at.since(since));
            }
            if page.len() < PAGE as usize {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// When whatever goes on now may have begun.
    pub(crate) fn last(&self) -> Timestamp {
        self.began.unwrap_or(self.last).max(self.last)
    }

    fn operation(&self, entry: &Entry) -> Option<&Operation> {
        self.places.get(&(entry.op, entry.name.clone())).map(|place| &self.operations[*place])
    }

    /// Adds an entry; gives the time at which what it tells of began.
    pub(crate) fn add(&mut self, entry: &Entry) -> Timestamp {
        self.pos = self.pos.max(entry.pos);
        // Of one that was tried again after its end what it had recorded is older.
        if let Some(began) = self.began.take().filter(|began| (self.last..=entry.at).contains(began)) {
            self.last = began;
        }
        if entry.op == Op::Continue {
            // The journal starts over: names begin again.
            self.operations.clear();
            self.places.clear();
            self.last = entry.at;
            return entry.at;
        }
        if entry.phase == Phase::Void && entry.op != Op::Revise {
            return entry.at;
        }
        if (entry.op, entry.phase) == (Op::Undo, Phase::Opened) {
            // That something could be undone, told when it was done. The undo begins much later, if ever.
            self.last = entry.at;
            return entry.at;
        }
        if let Some(replaced) = replaced(entry) {
            let of = replaced.of;
            if let Some(place) = self.places.get(&(of.op.0, of.name)) {
                let result = Ok(Some(Payload { codec: None, bytes: replaced.body.get().to_owned().into() }));
                self.operations[*place].end = Some(End { at: entry.at, result });
            }
        }
        let told = entry.took.map(|took| entry.at.before(took));
        let began = match entry.op {
            Op::Step | Op::Transaction | Op::Job | Op::Undo => told.unwrap_or(self.last.min(entry.at)),
            _ => entry.at,
        };
        let place = *self.places.entry((entry.op, entry.name.clone())).or_insert_with(|| {
            self.operations.push(Operation {
                op: entry.op,
                name: entry.name.to_string(),
                began,
                until: None,
                child: None,
                attempts: Vec::new(),
                end: None,
            });
            self.operations.len() - 1
        });
        let operation = &mut self.operations[place];
        let since = told.unwrap_or(operation.began_last().min(entry.at));
        // An attempt may begin later than it was due.
        if let Some(before) = operation.attempts.last_mut().filter(|_| operation.end.is_none()) {
            before.next_at = before.next_at.max(since);
        }
        self.last = entry.at;
        match entry.phase {
            Phase::Opened => {
                let note: OpenNote = entry.note().unwrap_or_default();
                operation.until = note.until.or(operation.until);
                operation.child = note.run.or(operation.child);
            }
            Phase::Attempt => {
                if let Ok(AttemptNote { attempt, failure, next_at, gave_up, node, .. }) = entry.note() {
                    let (began, failed_at) = (since, entry.at);
                    // An undo that gave up has ended, until somebody tries it again.
                    operation.end = gave_up.then(|| End { at: failed_at, result: Err(failure.clone()) });
                    if !gave_up {
                        self.last = next_at;
                        operation.attempts.push(Attempt {
                            number: attempt,
                            began,
                            failed_at,
                            failure,
                            next_at,
                            node,
                        });
                    }
                }
            }
            Phase::Failed => {
                let failure = entry.failure().unwrap_or_else(FailureDoc::Outlast);
                operation.end = Some(End { at: entry.at, result: Err(failure) });
            }
            _ => operation.end = Some(End { at: entry.at, result: Ok(entry.body.clone()) }),
        }
        since
    }

    /// Adds what a node that has the run is at, and has not recorded: steps that take a while say that they do.
    pub(crate) fn add_doing(&mut self, view: &RunView) {
        let in_hand = view.node.is_some() && view.record.kind == RunKind::Workflow;
        for doing in view.doing.iter().filter(|_| in_hand) {
            if self.step(&doing.name).is_none() {
                self.operations.push(Operation {
                    op: Op::Step,
                    name: doing.name.clone(),
                    began: self.began_of(doing),
                    until: None,
                    child: None,
                    attempts: Vec::new(),
                    end: None,
                });
            }
        }
    }

    /// When a step began that is announced: behind the last entry, or, where that was recorded long before it or while it
    /// was running, as long before it was announced as steps are.
    pub(crate) fn began_of(&self, doing: &Doing) -> Timestamp {
        let (announced, last) = (doing.since.before(Doing::ANNOUNCED_AFTER), self.last());
        if last <= doing.since { last.max(announced) } else { announced }
    }

    /// Whether a step that was announced has ended since.
    pub(crate) fn is_over(&self, doing: &Doing) -> bool {
        self.step(&doing.name).is_some_and(|step| step.end.is_some())
    }

    fn step(&self, name: &str) -> Option<&Operation> {
        let name: Arc<str> = name.into();
        let place = |op| self.places.get(&(op, name.clone()));
        [Op::Step, Op::Transaction].into_iter().find_map(place).map(|place| &self.operations[*place])
    }

    /// Whether the run waits for an event of this name.
    pub(crate) fn awaits_event(&self, name: &str, now: Timestamp) -> bool {
        self.live(now).any(|operation| operation.op == Op::Event && operation.plain_name() == name)
    }

    /// Operations without an end.
    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Operation> {
        let open = self.operations.iter().filter(|operation| operation.end.is_none());
        // A wait whose time is over was dropped, not forgotten.
        open.filter(move |operation| operation.until.is_none_or(|until| until >= now))
    }

    /// What the run waits for, in words; nothing when the journal does not say.
    fn waits(&self, now: Timestamp) -> Vec<String> {
        self.live(now).filter_map(|operation| operation.waits_for(now)).collect()
    }
}

impl Operation {
    /// Values fixed at their first use are for the code, not for people.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.op, Op::Value | Op::State)
    }

    /// When its last attempt began; after a failed one, when the pause is over.
    pub(crate) fn began_last(&self) -> Timestamp {
        self.attempts.last().map_or(self.began, |attempt| attempt.next_at)
    }

    /// The name as the code has it: without its occurrence.
    pub(crate) fn plain_name(&self) -> &str {
        self.name.split_once('#').map_or(self.name.as_str(), |(plain, _)| plain)
    }

    fn waits_for(&self, now: Timestamp) -> Option<String> {
        let since = format!("since {}", clock(self.began, now));
        let until = self.until.map(|until| clock(until, now));
        let bound = until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
        Some(match self.op {
            Op::Sleep => format!("sleeping until {}", until?),
            Op::Event => format!("waiting for event {} {since}{bound}", self.plain_name()),
            Op::Promise => format!("waiting for promise {} {since}{bound}", self.name),
            Op::Child => match self.child {
                Some(run) => format!("waiting for {} {run} {since}", self.plain_name()),
                None => format!("waiting for {} {since}", self.plain_name()),
            },
            Op::Step | Op::Transaction => {
                let failed = self.attempts.last()?;
                format!("retrying {} at {}", self.name, clock(failed.next_at, now))
            }
            _ => return None,
        })
    }
}

/// How far a step or a job says that it is.
pub(crate) fn far(step: &Doing) -> Option<String> {
    let percent = step.percent.map(|percent| format!("{percent} %"));
    let words: Vec<String> = [percent, step.message.clone()].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Where a run stands, in words.
pub(crate) fn standing(view: &RunView, story: Option<&Story>, now: Timestamp) -> String {
    let later = view.due_at.filter(|due| *due > now).map(|due| clock(due, now));
    let lasted = view.finished_at.map(|end| took(end.since(view.record.created_at)));
    let mut words = match view.status {
        Status::Ready => match later {
            None => "queued".to_owned(),
            Some(at) if view.attempt > 1 => format!("retrying at {at} (attempt {})", view.attempt),
            Some(at) => format!("scheduled for {at}"),
        },
        Status::Running if view.doing.is_empty() => "running".to_owned(),
        Status::Running => {
            let step = |step: &Doing| match far(step) {
                Some(far) => format!("{} ({far})", step.name),
                None => step.name.clone(),
            };
            let steps: Vec<String> = view.doing.iter().map(step).collect();
            format!("running {}", steps.join(", "))
        }
        Status::Waiting => match (story.map(|story| story.waits(now)).unwrap_or_default(), later) {
            (waits, Some(at)) if waits.is_empty() => format!("waiting until {at}"),
            (waits, None) if waits.is_empty() => "waiting".to_owned(),
            (waits, _) => waits.join("; "),
        },
        Status::Completed => format!("completed in {}", lasted.unwrap_or_default()),
        Status::Failed => match failure(view) {
            Some(why) => format!("failed after {}: {}", lasted.unwrap_or_default(), why.message()),
            None => "failed".to_owned(),
        },
        Status::Cancelled => match failure(view) {
            Some(why) => why.message(),
            None => "cancelled".to_owned(),
        },
        other => other.word().to_owned(),
    };
    if let Some(reason) = view.reason.as_ref().filter(|_| !view.status.is_final()) {
        words = format!("{words}: {reason}");
    }
    if let Some(reason) = view.cancel_reason.as_ref().filter(|_| !view.status.is_final()) {
        words = format!("{words}; asked to stop: {reason}");
    }
    if let Some(reason) = &view.pause_reason {
        words = format!("{words}; asked to pause: {reason}");
    }
    words
}

/// Why a run has no output.
pub(crate) fn failure(view: &RunView) -> Option<FailureDoc> {
    let error = view.ended.as_ref()?.error.as_ref()?;
    serde_json::from_str(error).ok()
}

/// How a run is called in few letters: `order/order-1`, or `ship …bg9x` with the end of its id.
pub(crate) fn label(view: &RunView) -> String {
    let record = &view.record;
    match &record.key {
        Some(key) => format!("{}/{key}", record.definition),
        None => {
            let id = record.id.to_string();
            format!("{} …{}", record.definition, &id[id.len() - 4..])
        }
    }
}

/// The result that a repair put in place of another.
fn replaced(entry: &Entry) -> Option<Replaced> {
    (entry.op == Op::Revise).then(|| entry.note::<Revision>().ok()?.result).flatten()
}

/// What a repair was, for people.
pub(crate) fn revised(body: Option<&Payload>) -> String {
    let note: Option<Revision> = body.and_then(|body| body.decode("the repair").ok());
    let Revision { by, reason, result, fork_of, .. } = note.unwrap_or_default();
    let what = match (fork_of, result) {
        (Some(run), _) => format!("forked from {run}"),
        (None, Some(replaced)) => format!("the result of {} was replaced", replaced.of),
        (None, None) => "tried again".to_owned(),
    };
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{what}{by}{reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn entry(pos: u32, op: Op, phase: Phase, name: &str, seconds: i64, body: &str) -> Entry {
        let body = Some(Payload { codec: None, bytes: body.to_owned().into() });
        Entry { pos, op, phase, name: name.into(), at: at(seconds), took: None, body }
    }

    #[test]
    fn steps_begin_where_the_entry_before_them_ended() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Step, Phase::Done, "reserve", 12, "1"));
        story.add(&entry(2, Op::Step, Phase::Done, "charge", 15, "1"));
        let began: Vec<Timestamp> = story.operations.iter().map(|operation| operation.began).collect();
        assert_eq!(began, [at(10), at(12)]);
    }

    /// The same of what took so many seconds.
    fn took(entry: Entry, seconds: u64) -> Entry {
        Entry { took: Some(Duration::from_secs(seconds)), ..entry }
    }

    fn attempt(number: u32, failed: i64, next: i64, gave_up: bool) -> String {
        let failure = FailureDoc::Outlast(outlast::Error::invalid("seat", "it", "another"));
        let note =
            AttemptNote { attempt: number, failure, next_at: at(next), saved: None, gave_up, node: None };
        assert!(failed <= next);
        serde_json::to_string(&note).unwrap()
    }

    #[test]
    fn steps_at_once_begin_together() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Step, Phase::Done, "reserve", 12, "1"));
        story.add(&entry(2, Op::Step, Phase::Done, "hotel", 22, "1"));
        let since = story.add(&took(entry(3, Op::Transaction, Phase::Failed, "flight", 25, "{}"), 13));
        let spans = story.operations.iter().map(|one| (one.began, one.end.as_ref().unwrap().at));
        let spans: Vec<(Timestamp, Timestamp)> = spans.collect();
        assert_eq!(spans, [(at(10), at(12)), (at(12), at(22)), (at(12), at(25))]);
        assert_eq!(since, at(12));
    }

    #[test]
    fn a_step_after_a_pause_begins_behind_it() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Step, Phase::Done, "reserve", 12, "1"));
        story.add(&took(entry(2, Op::Step, Phase::Done, "charge", 3612, "1"), 2));
        story.add(&entry(3, Op::Step, Phase::Done, "ship", 3615, "1"));
        let began: Vec<Timestamp> = story.operations.iter().map(|operation| operation.began).collect();
        assert_eq!(began, [at(10), at(3610), at(3612)]);
    }

    #[test]
    fn an_attempt_that_began_later_than_it_was_due_ends_the_pause_when_it_began() {
        let mut story = Story::new(at(10));
        let failed = |number: u32, failed: i64, next: i64| {
            entry(number, Op::Step, Phase::Attempt, "charge", failed, &attempt(number, failed, next, false))
        };
        story.add(&took(failed(1, 15, 20), 2));
        story.add(&took(failed(2, 43, 50), 3));
        assert_eq!(story.add(&took(entry(3, Op::Step, Phase::Done, "charge", 61, "1"), 1)), at(60));
        let charge = &story.operations[0];
        let attempts = charge.attempts.iter().map(|one| (one.began, one.failed_at, one.next_at));
        let attempts: Vec<_> = attempts.collect();
        assert_eq!(attempts, [(at(13), at(15), at(40)), (at(40), at(43), at(60))]);
        assert_eq!((charge.began, charge.began_last()), (at(13), at(60)));
    }

    #[test]
    fn what_goes_on_beside_a_pause_before_another_attempt_does_not_begin_behind_it() {
        let mut story = Story::new(at(10));
        let note = attempt(1, 15, 90, false);
        story.add(&entry(1, Op::Step, Phase::Attempt, "charge", 15, &note));
        story.add(&entry(2, Op::Step, Phase::Done, "mail", 17, "1"));
        assert_eq!(story.operations[1].began, at(17), "nobody knows better");
    }

    #[test]
    fn a_step_that_is_announced_began_before_that() {
        let announced = |last: i64, since: i64| {
            let mut story = Story::new(at(0));
            story.add(&entry(1, Op::Step, Phase::Done, "reserve", last, "1"));
            let since = Timestamp::from_micros(since * 1000);
            let doing = Doing { name: "charge".into(), since, ..Doing::default() };
            story.began_of(&doing).micros() / 1000
        };
        assert_eq!(announced(10, 10_150), 10_000, "behind the entry before it");
        assert_eq!(announced(10, 3_600_000), 3_599_800, "after a pause");
        assert_eq!(announced(10, 5_200), 5_000, "beside what was recorded meanwhile");
    }

    #[test]
    fn the_first_step_begins_when_a_node_took_the_run() {
        let first = |taken: i64| {
            let mut story = Story { began: Some(at(taken)), ..Story::new(at(10)) };
            story.add(&entry(1, Op::Step, Phase::Done, "reserve", 15, "1"));
            story.operations[0].began
        };
        assert_eq!(first(14), at(14), "until then it stood in line");
        assert_eq!(first(90), at(10), "that was when it was tried again");
    }

    #[test]
    fn an_undo_begins_where_it_is_done_and_not_where_it_became_possible() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Step, Phase::Done, "charge", 12, "1"));
        story.add(&entry(2, Op::Undo, Phase::Opened, "charge", 12, "{}"));
        story.add(&entry(3, Op::Event, Phase::Opened, "approval", 12, "{}"));
        let names =
            |story: &Story| story.operations.iter().map(|one| (one.op, one.began)).collect::<Vec<_>>();
        assert_eq!(names(&story), [(Op::Step, at(10)), (Op::Event, at(12))]);
        story.add(&entry(4, Op::Event, Phase::Failed, "approval", 90, r#"{"kind":"timed_out"}"#));
        story.add(&entry(5, Op::Undo, Phase::Done, "charge", 93, "null"));
        assert_eq!(names(&story)[2], (Op::Undo, at(90)));
        assert_eq!(story.operations[2].end.as_ref().unwrap().at, at(93));
    }

    #[test]
    fn an_undo_that_gave_up_has_ended_until_somebody_tries_it_again() {
        let mut story = Story::new(at(10));
        let attempt = |number: u32, failed: i64, next: i64, gave_up: bool| {
            let note = attempt(number, failed, next, gave_up);
            entry(number, Op::Undo, Phase::Attempt, "book", failed, &note)
        };
        let ended = |story: &Story| story.operations[0].end.as_ref().map(|end| (end.at, end.result.is_err()));
        story.add(&attempt(1, 13, 20, false));
        assert_eq!(ended(&story), None);
        story.add(&attempt(2, 21, 21, true));
        assert_eq!((ended(&story), story.operations[0].attempts.len()), (Some((at(21), true)), 1));
        story.add(&attempt(3, 50, 60, false));
        assert_eq!(ended(&story), None);
        story.add(&entry(4, Op::Undo, Phase::Done, "book", 61, "null"));
        assert_eq!(ended(&story), Some((at(61), false)));
    }

    #[test]
    fn a_wait_is_open_until_its_end_and_says_for_what() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Event, Phase::Opened, "approval", 12, "{}"));
        assert!(story.waits(at(20))[0].starts_with("waiting for event approval since "));
        assert!(story.awaits_event("approval", at(20)) && !story.awaits_event("approvall", at(20)));
        assert_eq!(story.add(&entry(2, Op::Event, Phase::Done, "approval", 30, "true")), at(12));
        assert!(story.waits(at(40)).is_empty());
    }

    #[test]
    fn a_journal_that_starts_over_begins_its_names_again() {
        let mut story = Story::new(at(10));
        story.add(&entry(1, Op::Step, Phase::Done, "beat", 12, "1"));
        story.add(&entry(2, Op::Continue, Phase::Done, "continue", 13, "5"));
        story.add(&entry(3, Op::Step, Phase::Done, "beat", 14, "6"));
        assert_eq!(story.operations.len(), 1);
        assert_eq!(story.operations[0].began, at(13));
    }
}
