//! What happens, told line by line while it happens.
//!
//! The watcher looks at the database like any reader: when a hint says that something happened, and at
//! a slow pace without one. It tells only what was recorded since it began, so that a restart repeats
//! nothing.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use outlast::{
    Client, Entry, FailureDoc, Filter, LogLine, LogPlace, Op, Phase, RunId, RunView, Status, Timestamp,
};
use outlast_core::{OpenNote, Payload};
use outlast_store::Signal;
use tokio::sync::broadcast::Receiver;

use crate::fault::{Exit, Fault};
use crate::output::{BAD, BOLD, DIM, GOOD, NEWS, WAIT, call, note, painted, print};
use crate::story::{Operation, Story, failure, label, revised};
use crate::words::{clock, json_of, shorten, took};

/// How often to look without any hint. Steps inside of a turn give none.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long hints gather.
const GATHER: Duration = Duration::from_millis(30);
/// How much longer than a look the pause after it is.
const REST: u32 = 5;
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The most runs of one look.
const MOST: u32 = 200;
/// How far back a look goes for new runs: transactions of other processes become visible late.
const OVERLAP: Duration = Duration::from_secs(2);
/// The most log lines of one look at one run.
const LOG_LINES: u32 = 1000;
/// How far apart the times of one commit are at most.
const COMMIT: Duration = Duration::from_millis(5);
/// How wide the column with the run's name is.
const WHO: usize = 22;
/// How much of a value is told.
const VALUE: usize = 72;

/// Every status that is not the end.
pub(crate) const OPEN: [Status; 7] = {
    use Status::*;
    [Ready, Running, Waiting, Paused, Blocked, Undoing, UndoFailed]
};

/// Tells what happens in a database.
pub(crate) struct Watch {
    client: Client,
    signals: Receiver<Signal>,
    /// Only what was recorded from here on is told.
    since: Timestamp,
    /// Runs that were started before this have been seen.
    seen_to: Timestamp,
    runs: HashMap<RunId, Seen>,
    hint: Hint,
}

/// What a person could do about a run that waits for an event of this name.
pub(crate) type Hint = Box<dyn Fn(&RunView, &str) -> Option<String> + Send>;

/// What has been told of a run.
struct Seen {
    who: String,
    created_at: Timestamp,
    story: Story,
    /// The last line of its log.
    logs: LogPlace,
    status: Status,
    epoch: i64,
    due_at: Option<Timestamp>,
}

/// One line.
struct Line {
    at: Timestamp,
    who: String,
    run: RunId,
    style: Style,
    text: String,
    /// What was logged came before it.
    after_logs: bool,
}

impl Watch {
    /// A watcher that tells what happens from `since` on.
    pub(crate) fn new(client: Client, since: Timestamp, hint: Hint) -> Watch {
        let signals = client.store().signals();
        Watch { client, signals, since, seen_to: since, runs: HashMap::new(), hint }
    }

    /// Tells what happens until nobody listens.
    pub(crate) async fn run(&mut self) -> Result<(), Fault> {
        let mut away = false;
        loop {
            let began = Instant::now();
            if let Some(change) = reached(&mut away, self.look().await)? {
                note(&change);
            }
            // However much there is to look at, most of the time belongs to the work.
            tokio::time::sleep((began.elapsed() * REST).clamp(GATHER, LONGEST_REST)).await;
            let _ = tokio::time::timeout(LOOK_EVERY, self.signals.recv()).await;
            while self.signals.try_recv().is_ok() {}
        }
    }

    /// Tells what is new.
    pub(crate) async fn look(&mut self) -> Result<(), Fault> {
        let mut lines = Vec::new();
        let mut read = Ok(());
        for view in self.views().await? {
            let mut own = Vec::new();
            read = self.add(&view, &mut own).await;
            // What was read will not be read again.
            lines.extend(own.into_iter().filter(|line| line.at >= self.since));
            if read.is_err() {
                break;
            }
        }
        lines.sort_by_key(|line| line.at);
        let text: String = lines.iter().map(|line| line.shown() + "\n").collect();
        // Ended runs are kept only as long as a look for new ones could meet them again.
        let horizon = self.horizon();
        self.runs.retain(|_, seen| !seen.status.is_final() || seen.created_at >= horizon);
        if !text.is_empty() {
            print(&text)?;
        }
        read
    }

    fn horizon(&self) -> Timestamp {
        Timestamp::from_micros(self.seen_to.micros() - OVERLAP.as_micros() as i64)
    }

    /// The runs that something may have happened to: those under way, new ones, and those that ended.
    async fn views(&mut self) -> Result<Vec<RunView>, Fault> {
        let open = Filter { statuses: OPEN.to_vec(), ..Filter::default() };
        let mut views = self.client.list(&open, None, MOST).await?.runs;
        let new = Filter { since: Some(self.horizon()), ..Filter::default() };
        let page = self.client.list(&new, None, MOST).await?;
        let unseen = page.runs.iter().filter(|view| !self.runs.contains_key(&view.record.id)).count();
        if page.next.is_some() && unseen == page.runs.len() {
            note(&format!("more runs were started than can be told here: `{}` has them", call("list")));
        }
        views.extend(page.runs);
        let mut ids = HashSet::new();
        views.retain(|view| ids.insert(view.record.id));

        let gone =
            |(run, seen): (&RunId, &Seen)| (!seen.status.is_final() && !ids.contains(run)).then_some(*run);
        let gone: Vec<RunId> = self.runs.iter().filter_map(gone).take(MOST as usize).collect();
        for run in gone {
            match self.client.status(run).await {
                Ok(view) => views.push(view),
                Err(outlast::Error::UnknownRun { .. }) => drop(self.runs.remove(&run)),
                Err(other) => return Err(other.into()),
            }
        }
        views.sort_by_key(|view| view.record.created_at);
        self.seen_to = views.iter().map(|view| view.record.created_at).fold(self.seen_to, Timestamp::max);
        Ok(views)
    }

    /// Adds the lines of one run, in their order.
    async fn add(&mut self, view: &RunView, own: &mut Vec<Line>) -> Result<(), Fault> {
        let record = &view.record;
        let (run, who) = (record.id, label(view));
        let line = |at: Timestamp, style: Style, text: String| Line {
            at,
            who: who.clone(),
            run,
            style,
            text,
            after_logs: false,
        };
        if !self.runs.contains_key(&run) {
            let parent = record.parent.as_ref().and_then(|parent| self.runs.get(&parent.run));
            own.push(line(record.created_at, BOLD, started(view, parent.map(|parent| parent.who.as_str()))));
            let (created_at, story) = (record.created_at, Story::of(view));
            let (who, status) = (who.clone(), Status::Ready);
            self.runs.insert(
                run,
                Seen { who, created_at, story, logs: LogPlace::default(), status, epoch: 0, due_at: None },
            );
        }
        let Some(seen) = self.runs.get_mut(&run) else { return Ok(()) };
        let same = (seen.status, seen.epoch, seen.due_at) == (view.status, view.epoch, view.due_at);
        // Only a run in hand records something without moving.
        if same && view.status != Status::Running {
            return Ok(());
        }

        let now = self.client.store().now().await?;
        let hint = &self.hint;
        seen.story
            .go_on(&self.client, run, |entry, operation, since| {
                if let Some((style, text)) = told(view, entry, operation, since, now) {
                    let steps = matches!(entry.op, Op::Step | Op::Transaction | Op::Job);
                    let after_logs = steps || entry.phase == Phase::Opened;
                    own.push(Line { after_logs, ..line(entry.at, style, text) });
                }
                let asks = entry.op == Op::Event && entry.phase == Phase::Opened && !view.status.is_final();
                if let Some(hint) = asks.then(|| hint(view, &entry.name)).flatten() {
                    own.push(line(entry.at, DIM, hint));
                }
            })
            .await?;

        let logs = self.client.logs_after(run, seen.logs, LOG_LINES).await?;
        for log in &logs {
            // One commit carries what a step logged together with its end: the lines came first.
            let together = |line: &Line| line.after_logs && log.at.since(line.at) < COMMIT;
            let place = own.iter().position(|line| line.at > log.at || together(line));
            let at = place.map_or(log.at, |place| own[place].at.min(log.at));
            let text = format!("  {}", shorten(&log.message, VALUE));
            own.insert(place.unwrap_or(own.len()), line(at, DIM, text));
        }
        seen.logs = logs.last().map_or(seen.logs, LogLine::place);

        let was = std::mem::replace(&mut seen.status, view.status);
        (seen.epoch, seen.due_at) = (view.epoch, view.due_at);
        if was != view.status
            && let Some((at, style, text)) = ended(view, now)
        {
            own.push(line(at, style, text));
        }
        Ok(())
    }
}

/// What a look says of the database: that it is away, and that it is back, each once.
fn reached(away: &mut bool, looked: Result<(), Fault>) -> Result<Option<String>, Fault> {
    let (now, change) = match looked {
        Ok(()) => (false, "the database is back".to_owned()),
        Err(fault) if fault.exit == Exit::Unreachable => (true, format!("cannot look right now: {fault}")),
        Err(fault) => return Err(fault),
    };
    let was = std::mem::replace(away, now);
    Ok((was != now).then_some(change))
}

impl Line {
    fn shown(&self) -> String {
        let (time, who) = (clock(self.at, self.at), shorten(&self.who, WHO));
        let who = painted(colour_of(self.run), format!("{who:<WHO$}"));
        format!("{}  {who}  {}", painted(DIM, time), painted(self.style, &self.text))
    }
}

/// A run keeps its colour, so that the eye can follow it.
fn colour_of(run: RunId) -> Style {
    const COLOURS: [AnsiColor; 6] = {
        use AnsiColor::*;
        [Blue, Magenta, Cyan, BrightBlue, BrightMagenta, BrightCyan]
    };
    let (_, random) = run.uuid().as_u64_pair();
    COLOURS[(random % 6) as usize].on_default()
}

/// The line of a new run, with the id where no key names it.
fn started(view: &RunView, parent: Option<&str>) -> String {
    let record = &view.record;
    let later =
        view.due_at.filter(|due| due.since(record.created_at) > Duration::from_secs(1) && view.epoch == 0);
    let mut text = match later {
        Some(due) => format!("▷ scheduled for {}", clock(due, record.created_at)),
        None => "▷ started".to_owned(),
    };
    if let Some(parent) = parent {
        text += &format!(" by {parent}");
    }
    text += &format!(" with {}", shorten(&json_of(&record.input), VALUE));
    if record.key.is_none() {
        text += &format!(" as {}", record.id);
    }
    text
}

/// What a new entry tells; nothing when it is of no interest to people.
pub(crate) fn told(
    view: &RunView,
    entry: &Entry,
    operation: Option<&Operation>,
    since: Duration,
    now: Timestamp,
) -> Option<(Style, String)> {
    let (name, lasted) = (&entry.name, took(since));
    let plain = operation.map_or(&**name, Operation::plain_name);
    let result = value(entry.body.as_ref());
    let failure = || entry.failure().unwrap_or_else(FailureDoc::Outlast).message();
    let until = || {
        let until = entry.note::<OpenNote>().ok()?.until?;
        Some(clock(until, now))
    };
    let child = || entry.note::<OpenNote>().ok()?.run;
    Some(match (entry.op, entry.phase) {
        (Op::Step | Op::Transaction, Phase::Done) => (GOOD, format!("✓ {name} took {lasted}{result}")),
        (Op::Step | Op::Transaction, Phase::Failed) => {
            (BAD, format!("✗ {name} failed for good: {}", failure()))
        }
        (Op::Step | Op::Transaction | Op::Job, Phase::Attempt) => {
            let attempt = operation?.attempts.last()?;
            let what = if entry.op == Op::Job { String::new() } else { format!("{name}: ") };
            let again = match view.status.is_final() && entry.op == Op::Job && attempt.next_at <= entry.at {
                true => String::new(),
                false => format!("; tries again in {}", took(attempt.next_at.since(entry.at))),
            };
            (BAD, format!("✗ {what}attempt {} failed: {}{again}", attempt.number, attempt.failure.message()))
        }
        (Op::Sleep, Phase::Opened) => (WAIT, format!("… sleeping until {}", until()?)),
        (Op::Sleep, Phase::Done) => (DIM, format!("✓ slept {lasted}")),
        (Op::Event | Op::Promise, Phase::Opened) => {
            let bound = until().map(|until| format!(" (until {until})")).unwrap_or_default();
            let what = if entry.op == Op::Event { plain } else { &**name };
            (WAIT, format!("… waiting for {} {what}{bound}", entry.op.word()))
        }
        (Op::Event | Op::Promise, Phase::Done) => {
            let waited = if since.is_zero() { String::new() } else { format!(" after {lasted}") };
            (NEWS, format!("✓ {} {plain} came{waited}{result}", entry.op.word()))
        }
        (Op::Event | Op::Promise, Phase::Failed) => {
            (BAD, format!("✗ {} {plain}: {}", entry.op.word(), failure()))
        }
        // That it starts, it says itself.
        (Op::Child, Phase::Opened) if child().is_some() => return None,
        (Op::Child, Phase::Opened) => (WAIT, format!("… waiting for {name}")),
        (Op::Child, Phase::Done) => (GOOD, format!("✓ {name} ended{result}")),
        (Op::Child, Phase::Failed) => (BAD, format!("✗ {name} failed: {}", failure())),
        (Op::Send, Phase::Done) => (DIM, format!("  sent an event to {}", child()?)),
        (Op::Cancel, Phase::Done) => (WAIT, format!("! asked to stop{result}")),
        (Op::Revise, Phase::Done) => (NEWS, format!("✎ {}", revised(entry.body.as_ref()))),
        (Op::Continue, Phase::Done) => (DIM, format!("↻ starts over with an empty journal{result}")),
        _ => return None,
    })
}

/// A result behind an arrow, unless there is nothing to show.
fn value(body: Option<&Payload>) -> String {
    match body.map(json_of).as_deref() {
        None | Some("null") => String::new(),
        Some(json) => format!(" → {}", shorten(json, VALUE)),
    }
}

/// How a run ended, or why it cannot go on.
pub(crate) fn ended(view: &RunView, now: Timestamp) -> Option<(Timestamp, Style, String)> {
    let at = view.finished_at.unwrap_or(now);
    let lasted = took(at.since(view.record.created_at));
    let output = value(view.ended.as_ref().and_then(|ended| ended.output.as_ref()));
    let why = || failure(view).map(|why| why.message()).unwrap_or_default();
    Some(match view.status {
        Status::Completed => (at, GOOD.bold(), format!("■ completed in {lasted}{output}")),
        Status::Failed => (at, BAD.bold(), format!("■ failed after {lasted}: {}", why())),
        Status::Cancelled => (at, DIM.bold(), format!("■ {}", why())),
        Status::Blocked => {
            (at, BAD, format!("■ blocked: {}", view.reason.as_deref().unwrap_or("no reason known")))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_away_is_told_once_and_so_is_its_return() {
        let mut away = false;
        let fault = |exit| Err(Fault::new(exit, "unavailable", "refused"));
        let mut look = |looked| reached(&mut away, looked).unwrap();
        assert_eq!(look(Ok(())), None);
        assert_eq!(look(fault(Exit::Unreachable)).unwrap(), "cannot look right now: refused (unavailable)");
        assert_eq!(look(fault(Exit::Unreachable)), None);
        assert_eq!(look(Ok(())).unwrap(), "the database is back");
        assert_eq!(look(Ok(())), None);
        assert!(reached(&mut away, fault(Exit::Failed)).is_err());
    }
}
