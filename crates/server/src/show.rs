//! `outlast show`: one run with everything it did, as a tree with bars.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anstyle::Style;
use outlast::{Doing, Entry, LogLine, Op, RunExport, RunId, RunView, Status, Timestamp};
use outlast_core::Payload;

use crate::backend::{Backend, Journals};
use crate::fault::{Exit, Fault};
use crate::output::{
    BAD, BOLD, DIM, Format, GOOD, NEWS, WAIT, painted, print, print_exact, print_one, style_of, width,
};
use crate::run_commands::find;
use crate::shapes::{EntryJson, LogJson, RunJson, StepJson, WholeRun};
use crate::story::{Operation, Story, failure, far, label, revised, standing};
use crate::words::{ago, clock, json_of, shorten, took};

/// The most log lines that are shown, or read at once.
pub(crate) const LOG_LINES: u32 = 1000;
/// The most entries of a journal that are printed, and how many are read at once.
const ENTRIES: usize = 10_000;
const PAGE: u32 = 1000;
/// How deep children are followed, and how many of them in all.
const DEPTH: usize = 3;
const CHILDREN: usize = 50;
/// How wide a bar is.
const BAR: usize = 24;

/// Which part of a run is asked for.
pub(crate) enum Part {
    Whole,
    Step(String),
    Input,
    Output,
}

impl Part {
    pub(crate) fn new(step: Option<String>, input: bool, output: bool) -> Part {
        match (step, input, output) {
            (Some(step), ..) => Part::Step(step),
            (None, true, _) => Part::Input,
            (None, false, true) => Part::Output,
            (None, false, false) => Part::Whole,
        }
    }
}

/// Shows a run, or a part of it.
pub(crate) async fn show(client: &Backend, id: &str, part: &Part, format: Format) -> Result<(), Fault> {
    let view = find(client, id).await?;
    let run = view.record.id;
    if !matches!(part, Part::Whole) {
        return show_part(&view, &Story::read(client, &view).await?, part, format);
    }
    match format {
        Format::Text | Format::Wide => {
            let (now, (logs, _)) = (client.now().await?, client.logs(run, 0, LOG_LINES).await?);
            print(&page(Some(client), &view, &Story::read(client, &view).await?, &logs, now).await?)
        }
        Format::Name => print(&run.to_string()),
        _ => {
            let journal = whole_journal(client, run).await?.iter().map(EntryJson::new).collect();
            let logs = client.logs(run, 0, LOG_LINES).await?.0.iter().map(LogJson::new).collect();
            let whole = WholeRun { run: RunJson::new(&view), journal, logs };
            print_one(format, &whole, run, String::new)
        }
    }
}

/// Shows a run that `export` wrote, or a part of it. What was not exported (its children, logs, output) is not there.
pub(crate) async fn show_file(file: &Path, part: &Part, format: Format) -> Result<(), Fault> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Fault::usage(format!("cannot read {}: {error}", file.display())))?;
    let export = RunExport::from_json(&text)?;
    let view = export.view();
    let mut story = Story::of(&view);
    for entry in export.entries() {
        story.add(entry);
    }
    if !matches!(part, Part::Whole) {
        return show_part(&view, &story, part, format);
    }
    match format {
        Format::Text | Format::Wide => {
            let now = view.finished_at.unwrap_or_else(|| Timestamp::from(SystemTime::now()));
            print(&page(None, &view, &story, &[], now).await?)
        }
        Format::Name => print(&export.run().to_string()),
        _ => {
            let journal = export.entries().iter().map(EntryJson::new).collect();
            let whole = WholeRun { run: RunJson::new(&view), journal, logs: Vec::new() };
            print_one(format, &whole, export.run(), String::new)
        }
    }
}

/// Prints a part of a run: a payload exactly as it is, a step with everything about it.
fn show_part(view: &RunView, story: &Story, part: &Part, format: Format) -> Result<(), Fault> {
    let run = view.record.id;
    match part {
        Part::Input => print_exact(&json_of(&view.record.input)),
        Part::Output => match view.ended.as_ref().and_then(|ended| ended.output.as_ref()) {
            Some(output) => print_exact(&json_of(output)),
            None => {
                // A file of before exports said how a run ended.
                let message = match view.status == Status::Completed && view.ended.is_none() {
                    true => {
                        format!("{run} is completed, and the file does not have its output: export it again")
                    }
                    false => format!("{run} is {} and has no output", view.status),
                };
                Err(Fault::new(Exit::NotFound, "not_found", message))
            }
        },
        Part::Whole => Ok(()),
        Part::Step(which) => {
            let step = find_step(story, run, which)?;
            print_one(format, &StepJson::of(step, view.finished_at), &step.name, || step_text(step, view))
        }
    }
}

/// The step of a run by its name, or by its number in what `show` prints.
pub(crate) fn find_step<'a>(story: &'a Story, run: RunId, which: &str) -> Result<&'a Operation, Fault> {
    let steps: Vec<&Operation> = story.operations.iter().filter(|step| step.is_shown()).collect();
    let by_number = || which.parse::<usize>().ok()?.checked_sub(1).and_then(|at| steps.get(at).copied());
    let found = steps.iter().copied().find(|step| step.name == which || named(step) == which);
    found.or_else(by_number).ok_or_else(|| {
        let names: Vec<String> = steps.iter().map(|step| named(step)).collect();
        let message = format!("{run} has no step {which:?}: it has {}", names.join(", "));
        Fault::new(Exit::NotFound, "not_found", message)
    })
}

/// A step with everything about it.
fn step_text(step: &Operation, view: &RunView) -> String {
    let now = view.finished_at.unwrap_or_else(|| Timestamp::from(SystemTime::now()));
    let mut lines = vec![format!("{}  {}", painted(BOLD, named(step)), painted(DIM, step.op.word()))];
    let mut field = |name: &str, value: String| {
        lines.push(format!("  {}  {value}", painted(DIM, format!("{name:<8}"))));
    };
    field("began", clock(step.began, now));
    for attempt in &step.attempts {
        let lasted = took(attempt.failed_at.since(attempt.began));
        field(
            "failed",
            painted(BAD, format!("attempt {} after {lasted}: {}", attempt.number, attempt.failure.message())),
        );
    }
    if let Some(until) = step.until {
        field("until", clock(until, now));
    }
    if let Some(child) = step.child {
        field("child", child.to_string());
    }
    match &step.end {
        None => field("now", open_words(step, now)),
        Some(end) => {
            field(
                "ended",
                format!("{} (took {})", clock(end.at, now), took(end.at.since(step.began_last()))),
            );
            match &end.result {
                Ok(Some(body)) => field("result", json_of(body)),
                Ok(None) => {}
                Err(why) => field("error", painted(BAD, why.message())),
            }
        }
    }
    lines.join("\n")
}

/// The whole journal, as far as it is shown.
async fn whole_journal(client: &Backend, run: RunId) -> Result<Vec<Entry>, Fault> {
    let mut entries: Vec<Entry> = Vec::new();
    while entries.len() < ENTRIES {
        let after = entries.last().map_or(0, |entry| entry.pos);
        let page = client.entries(run, after, PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        entries.extend(page);
        if is_last {
            break;
        }
    }
    Ok(entries)
}

async fn page(
    client: Option<&Backend>,
    view: &RunView,
    story: &Story,
    logs: &[LogLine],
    now: Timestamp,
) -> Result<String, Fault> {
    let mut lines = head(view, story, now);

    let mut tree = Tree::new(view, now);
    tree.add_run(client, view, story, 0).await?;
    if !tree.rows.is_empty() {
        lines.push(String::new());
        lines.extend(tree.lines());
    }

    if !logs.is_empty() {
        lines.push(String::new());
        lines.push(painted(BOLD, "logs"));
        lines.extend(logs.iter().map(|line| format!("  {}", log_line(line, now))));
    }
    Ok(lines.join("\n"))
}

/// What stands above the tree.
fn head(view: &RunView, story: &Story, now: Timestamp) -> Vec<String> {
    let record = &view.record;
    let mut lines = vec![format!("{}  {}", painted(BOLD, label(view)), painted(DIM, record.id))];
    let mut field = |name: &str, value: String| {
        lines.push(format!("  {}  {value}", painted(DIM, format!("{name:<8}"))));
    };
    field("status", painted(style_of(view.status), standing(view, Some(story), now)));
    let mut started = format!("{} ({})", clock(record.created_at, now), ago(record.created_at, now));
    if let Some(parent) = &record.parent {
        started += &format!(" by {}", parent.run);
    }
    field("started", started);
    if let Some(began) = view.began_at {
        let later = match view.wanted_at.filter(|wanted| *wanted > record.created_at) {
            Some(wanted) => format!("{} after it was wanted", took(began.since(wanted))),
            None => format!("{} later", took(began.since(record.created_at))),
        };
        field("taken", format!("{} (by a node, {later})", clock(began, now)));
    }
    let mut place = format!(
        "{} version {}, queue {}, priority {}",
        record.definition, record.version, record.queue, record.priority
    );
    if let Some(owner) = &record.owner {
        place += &format!(", owner {owner}");
    }
    field("code", place);
    if !view.tags.is_empty() {
        let tags: Vec<String> = view.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        field("tags", tags.join(" "));
    }
    field("input", json_of(&record.input));
    if let Some(output) = view.ended.as_ref().and_then(|ended| ended.output.as_ref()) {
        field("output", json_of(output));
    }
    if let Some(why) = failure(view).filter(|_| view.status == Status::Failed) {
        field("error", painted(BAD, why.message()));
    }
    lines
}

pub(crate) fn log_line(line: &LogLine, now: Timestamp) -> String {
    let style = match line.level.as_str() {
        "error" => BAD,
        "warn" => WAIT,
        _ => DIM,
    };
    format!("{}  {}  {}", clock(line.at, now), painted(style, format!("{:<5}", line.level)), line.message)
}

/// The operations of a run and of its children, on one scale of time.
struct Tree {
    rows: Vec<Row>,
    from: Timestamp,
    to: Timestamp,
    now: Timestamp,
    children: usize,
}

struct Row {
    /// The sign and the name, indented.
    sign: &'static str,
    style: Style,
    name: String,
    took: String,
    /// When it was, for the bar; nothing for a remark.
    span: Option<(Timestamp, Timestamp, char)>,
    more: String,
}

impl Tree {
    fn new(view: &RunView, now: Timestamp) -> Tree {
        let from = view.record.created_at;
        let to = view.finished_at.unwrap_or(now).max(from + Duration::from_millis(1));
        Tree { rows: Vec::new(), from, to, now, children: 0 }
    }

    async fn add_run(
        &mut self,
        client: Option<&Backend>,
        view: &RunView,
        story: &Story,
        depth: usize,
    ) -> Result<(), Fault> {
        for operation in story.operations.iter().filter(|operation| operation.is_shown()) {
            self.add(operation, view, depth);
            let Some(child) = operation.child.filter(|_| operation.op == Op::Child) else { continue };
            self.children += 1;
            if let Some(reader) = client.filter(|_| depth < DEPTH && self.children <= CHILDREN) {
                // A purged child has nothing more to say.
                if let Ok(child) = reader.status(child).await {
                    let story = Story::read(reader, &child).await?;
                    Box::pin(self.add_run(client, &child, &story, depth + 1)).await?;
                }
            }
        }
        let is_on = |step: &&Doing| view.status == Status::Running && !story.is_over(step);
        for step in view.doing.iter().filter(is_on) {
            let name = format!("{}{}", "  ".repeat(depth), step.name);
            let more = if step.attempt > 1 {
                format!("running, attempt {}", step.attempt)
            } else {
                "running".into()
            };
            let more = [Some(more), far(step)].into_iter().flatten().collect::<Vec<_>>().join(", ");
            self.rows.push(Row { sign: "▶", style: NEWS, name, took: String::new(), span: None, more });
        }
        Ok(())
    }

    fn add(&mut self, operation: &Operation, view: &RunView, depth: usize) {
        let indent = "  ".repeat(depth);
        for attempt in &operation.attempts {
            self.rows.push(Row {
                sign: "✗",
                style: BAD,
                name: format!("{indent}{}", named(operation)),
                took: took(attempt.failed_at.since(attempt.began)),
                span: Some((attempt.began, attempt.failed_at, '█')),
                more: format!("attempt {} failed: {}", attempt.number, attempt.failure.message()),
            });
        }
        let finished_at = view.finished_at;
        let (sign, style, more) = match &operation.end {
            // A job records its failed attempts; how the last one ended is how the run did.
            None if operation.op == Op::Job => match view.status {
                Status::Completed => ("✓", GOOD, format!("attempt {}", operation.attempts.len() + 1)),
                _ => return,
            },
            None if finished_at.is_some() => ("–", DIM, "not waited for any more".to_owned()),
            None => ("…", WAIT, open_words(operation, self.now)),
            Some(end) => match &end.result {
                Ok(body) if operation.op == Op::Revise => ("✎", NEWS, revised(body.as_ref())),
                Ok(Some(body)) if operation.op != Op::Sleep => ("✓", GOOD, value(body)),
                Ok(_) => ("✓", GOOD, String::new()),
                Err(why) => ("✗", BAD, why.message()),
            },
        };
        let more = match operation.child {
            Some(child) if operation.op == Op::Child => format!("{child}  {more}"),
            _ => more,
        };
        let end = operation.end.as_ref().map(|end| end.at).or(finished_at).unwrap_or(self.now);
        let began = operation.began_last();
        let fill = if matches!(operation.op, Op::Step | Op::Transaction | Op::Job) { '█' } else { '░' };
        self.rows.push(Row {
            sign,
            style,
            name: format!("{indent}{}", named(operation)),
            took: if began > end { String::new() } else { took(end.since(began)) },
            span: Some((began, end, fill)).filter(|_| began <= end),
            more,
        });
    }

    fn lines(&self) -> Vec<String> {
        let name_width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(8, 40);
        let took_width = self.rows.iter().map(|row| row.took.chars().count()).max().unwrap_or(0);
        let before = 2 + 2 + name_width + 2 + took_width + 2 + BAR + 4;
        let room = width().map_or(100, |width| width.saturating_sub(before)).max(20);
        let scale = took(self.to.since(self.from));
        let blank = " ".repeat(name_width + took_width + 3);
        let rule = "─".repeat(BAR.saturating_sub(scale.chars().count() + 3));
        let mut lines =
            vec![format!("{}{}", painted(BOLD, "steps"), painted(DIM, format!("{blank}0 {rule} {scale}")))];
        for row in &self.rows {
            let bar = match row.span {
                Some(span) => self.bar(span),
                None => " ".repeat(BAR),
            };
            let bar = if row.more.is_empty() { bar.trim_end() } else { &bar };
            let line = format!(
                "  {} {:<name_width$}  {}  {}  {}",
                painted(row.style, row.sign),
                shorten(&row.name, name_width),
                painted(DIM, format!("{:>took_width$}", row.took)),
                painted(row.style, bar),
                shorten(&row.more, room),
            );
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// A bar from one time to another, at least one character long.
    fn bar(&self, (from, to, fill): (Timestamp, Timestamp, char)) -> String {
        let whole = self.to.since(self.from).as_secs_f64();
        let place = |time: Timestamp| ((time.since(self.from).as_secs_f64() / whole) * BAR as f64) as usize;
        let first = place(from).min(BAR - 1);
        let last = place(to).clamp(first + 1, BAR);
        let mark = |at: usize| if (first..last).contains(&at) { fill } else { ' ' };
        (0..BAR).map(mark).collect()
    }
}

/// What kind of operation it is, where that is no step, and its name.
fn named(operation: &Operation) -> String {
    match operation.op {
        Op::Step | Op::Sleep | Op::Job | Op::Cancel | Op::Revise => operation.name.clone(),
        op => format!("{} {}", op.word(), operation.name),
    }
}

fn open_words(operation: &Operation, now: Timestamp) -> String {
    match (operation.attempts.last(), operation.until) {
        (Some(attempt), _) if attempt.next_at > now => format!("retrying at {}", clock(attempt.next_at, now)),
        (_, Some(until)) => format!("until {}", clock(until, now)),
        _ => "waiting".to_owned(),
    }
}

fn value(body: &Payload) -> String {
    match json_of(body).as_str() {
        "null" => String::new(),
        json => json.to_owned(),
    }
}
