//! `outlast show` and `outlast logs`: one run with everything it did, as a tree with bars.

use std::time::Duration;

use anstyle::Style;
use outlast::{Client, LogLine, Op, RunView, Status, Timestamp};
use outlast_core::Payload;

use crate::fault::Fault;
use crate::output::{
    BAD, BOLD, DIM, Format, GOOD, NEWS, WAIT, json, note, painted, print, print_one, style_of, width,
};
use crate::run_commands::find;
use crate::shapes::{EntryJson, LogJson, RunJson, WholeRun};
use crate::story::{Operation, Story, failure, far, label, revised, standing};
use crate::words::{ago, clock, json_of, shorten, took};

/// The most log lines that are shown.
const LOG_LINES: u32 = 1000;
/// How deep children are followed, and how many of them in all.
const DEPTH: usize = 3;
const CHILDREN: usize = 50;
/// How wide a bar is.
const BAR: usize = 24;

/// Shows a run.
pub(crate) async fn show(client: &Client, id: &str, format: Format) -> Result<(), Fault> {
    let view = find(client, id).await?;
    let run = view.record.id;
    match format {
        Format::Text => print(&page(client, &view).await?),
        Format::Name => print(&run.to_string()),
        _ => {
            let journal = client.journal(run, 0, 10_000).await?.iter().map(EntryJson::new).collect();
            let logs = client.logs(run, LOG_LINES).await?.iter().map(LogJson::new).collect();
            let whole = WholeRun { run: RunJson::new(&view), journal, logs };
            print_one(format, &whole, run, String::new)
        }
    }
}

/// Prints what a run's handlers logged.
pub(crate) async fn logs(client: &Client, id: &str, format: Format) -> Result<(), Fault> {
    let view = find(client, id).await?;
    let lines = client.logs(view.record.id, LOG_LINES).await?;
    if lines.is_empty() && format == Format::Text {
        note("nothing was logged");
        return Ok(());
    }
    let now = client.store().now().await?;
    let text: Result<Vec<String>, Fault> = match format {
        Format::Text | Format::Name => Ok(lines.iter().map(|line| log_line(line, now)).collect()),
        Format::Jsonl => lines.iter().map(|line| json(&LogJson::new(line), false)).collect(),
        Format::Json => Ok(vec![json(&lines.iter().map(LogJson::new).collect::<Vec<_>>(), true)?]),
    };
    print(&text?.join("\n"))
}

async fn page(client: &Client, view: &RunView) -> Result<String, Fault> {
    let now = client.store().now().await?;
    let story = Story::read(client, view).await?;
    let mut lines = head(view, &story, now);

    let mut tree = Tree::new(view, now);
    tree.add_run(client, view, &story, 0).await?;
    if !tree.rows.is_empty() {
        lines.push(String::new());
        lines.extend(tree.lines());
    }

    let logs = client.logs(view.record.id, LOG_LINES).await?;
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

fn log_line(line: &LogLine, now: Timestamp) -> String {
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
        client: &Client,
        view: &RunView,
        story: &Story,
        depth: usize,
    ) -> Result<(), Fault> {
        for operation in story.operations.iter().filter(|operation| is_shown(operation)) {
            self.add(operation, view, depth);
            let Some(child) = operation.child.filter(|_| operation.op == Op::Child) else { continue };
            self.children += 1;
            if depth < DEPTH && self.children <= CHILDREN {
                // A purged child has nothing more to say.
                if let Ok(child) = client.status(child).await {
                    let story = Story::read(client, &child).await?;
                    Box::pin(self.add_run(client, &child, &story, depth + 1)).await?;
                }
            }
        }
        for step in view.doing.iter().filter(|_| view.status == Status::Running) {
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

/// Values fixed at their first use are for the code, not for people, and so is that something could be undone.
fn is_shown(operation: &Operation) -> bool {
    let is_done = operation.end.is_some() || !operation.attempts.is_empty();
    match operation.op {
        Op::Value | Op::State => false,
        Op::Undo => is_done,
        _ => true,
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
