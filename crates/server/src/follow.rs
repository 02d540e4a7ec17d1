//! `outlast follow` and `outlast logs -f`: one run while it goes on.
//!
//! On a terminal, what it does right now has a line each at the bottom and what is done scrolls above; elsewhere there are
//! lines only. What is told is told once, in the order in which it was recorded.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use outlast::{Doing, Entry, LogLine, Op, RunId, RunView, Status, Timestamp};
use outlast_store::RunKind;

use crate::backend::Backend;
use crate::cli::LogArgs;
use crate::fault::{Exit, Fault};
use crate::list::moment;
use crate::output::{Format, harmless, json, manner, note, painted, print, print_exact};
use crate::run_commands::{find, unfinished};
use crate::shapes::{EntryJson, LogJson};
use crate::show::{LOG_LINES, find_step, log_line};
use crate::story::{Operation, Story, far, standing};
use crate::watch::{ended, told};
use crate::words::{clock, took};

/// How often to look without any hint, and how often what stands at the bottom is drawn anew.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Follows a run to its end.
pub(crate) async fn follow(
    client: &Backend,
    id: &str,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Fault> {
    let run = find(client, id).await?.record.id;
    follow_run(client, run, timeout, format).await
}

/// The same for a run that is known to be there.
pub(crate) async fn follow_run(
    client: &Backend,
    run: RunId,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Fault> {
    if !matches!(format, Format::Text | Format::Jsonl) {
        return Err(Fault::usage(
            "`follow` tells its story as text, or as jsonl: leave -o away, or say -o jsonl",
        ));
    }
    let mut shown = Shown::new();
    let looked = go(client, run, format, &mut shown);
    let view = match timeout {
        None => looked.await?,
        Some(timeout) => {
            tokio::time::timeout(timeout, looked).await.unwrap_or_else(|_| Err(unfinished(run, timeout)))?
        }
    };
    match view.status {
        Status::Completed => Ok(()),
        status => {
            let message = format!("{run} is {status}");
            Err(Fault::new(Exit::Failed, status.word(), message))
        }
    }
}

/// Tells what happens until the run has ended.
async fn go(client: &Backend, run: RunId, format: Format, shown: &mut Shown) -> Result<RunView, Fault> {
    // Listening before looking, so that nothing in between is missed.
    let mut news = client.news(run).await;
    let (mut story, mut logs) = (None::<Story>, 0);
    loop {
        let view = client.status(run).await?;
        let now = client.now().await?;
        let story = story.get_or_insert_with(|| Story::of(&view));
        let mut lines: Vec<(Timestamp, String)> = Vec::new();
        let mut wrong = None;
        let mut tell = |entry: &Entry, operation: Option<&Operation>, since| match format {
            Format::Jsonl => match json(&EntryJson::new(entry), false) {
                Ok(line) => lines.push((entry.at, line)),
                Err(fault) => wrong = Some(fault),
            },
            _ => lines.extend(told(&view, entry, operation, since, now).map(|(style, text)| {
                (entry.at, format!("{}  {}", clock(entry.at, now), painted(style, text)))
            })),
        };
        while story.go_on(client, run, &mut tell).await? {}
        if let Some(fault) = wrong {
            return Err(fault);
        }
        for line in new_lines(client, run, &mut logs).await? {
            let text = match format {
                Format::Jsonl => json(&LogJson::new(&line), false)?,
                _ => log_line(&line, now),
            };
            lines.push((line.at, text));
        }
        lines.sort_by_key(|(at, _)| *at);
        for (_, line) in lines {
            shown.tell(&line, format)?;
        }
        if view.status.is_final() {
            shown.clear();
            if let Some((at, style, text)) = ended(&view, now).filter(|_| format == Format::Text) {
                print(&format!("{}  {}", clock(at, now), painted(style, text)))?;
            }
            return Ok(view);
        }
        let looked = Instant::now();
        shown.draw(&view, story, now);
        while !news.within(LOOK_EVERY).await {
            // Nothing happened, but time goes by.
            let passed = i64::try_from(looked.elapsed().as_micros()).unwrap_or(i64::MAX);
            shown.draw(&view, story, Timestamp::from_micros(now.micros().saturating_add(passed)));
        }
    }
}

/// What stands at the bottom of a terminal.
struct Shown {
    bars: Option<MultiProgress>,
    lines: Vec<ProgressBar>,
    /// Since when each step is seen at it.
    since: HashMap<(String, u32), Timestamp>,
}

impl Shown {
    fn new() -> Shown {
        let is_terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Shown {
            bars: (is_terminal && !manner().quiet).then(MultiProgress::new),
            lines: Vec::new(),
            since: HashMap::new(),
        }
    }

    /// Tells a line above what stands there.
    fn tell(&self, line: &str, format: Format) -> Result<(), Fault> {
        let print = if format == Format::Jsonl { print_exact } else { print };
        match &self.bars {
            Some(bars) => bars.suspend(|| print(line)),
            None => print(line),
        }
    }

    /// One line for each thing that it does; where it does nothing, one that says why.
    fn draw(&mut self, view: &RunView, story: &Story, now: Timestamp) {
        let Some(bars) = &self.bars else { return };
        let at = |step: &Doing| (step.name.clone(), step.attempt);
        self.since.retain(|known, _| view.doing.iter().any(|step| at(step) == *known));
        let age = |since: Timestamp| took(Duration::from_secs(now.since(since).as_secs()));
        let mut texts: Vec<String> = Vec::new();
        for step in &view.doing {
            let attempt =
                if step.attempt > 1 { format!(", attempt {}", step.attempt) } else { String::new() };
            let far = far(step).map(|far| format!("  {far}")).unwrap_or_default();
            // It began before it was seen. Another attempt did right behind what was recorded last, and so did a job.
            let is_first = step.attempt <= 1 && view.record.kind == RunKind::Workflow;
            let began = || if is_first { story.began_of(step) } else { story.last() };
            let since = *self.since.entry(at(step)).or_insert_with(|| began().min(now));
            texts.push(format!("{}{attempt}{far}  ({})", step.name, age(since)));
        }
        if texts.is_empty() {
            texts.push(format!("{}  ({})", standing(view, Some(story), now), age(view.record.created_at)));
        }
        while self.lines.len() > texts.len() {
            if let Some(line) = self.lines.pop() {
                line.finish_and_clear();
                bars.remove(&line);
            }
        }
        while self.lines.len() < texts.len() {
            let line = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                line.set_style(style);
            }
            line.enable_steady_tick(Duration::from_millis(120));
            self.lines.push(line);
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(harmless(&text).into_owned());
        }
    }

    fn clear(&mut self) {
        for line in self.lines.drain(..) {
            line.finish_and_clear();
        }
    }
}

/// Prints what a run's handlers logged; with `-f` also what they log from now on, until its end.
pub(crate) async fn logs(client: &Backend, args: &LogArgs, format: Format) -> Result<(), Fault> {
    let mut view = find(client, &args.id).await?;
    let now = client.now().await?;
    let since = args.since.as_deref().map(|text| moment(text, now)).transpose();
    let since =
        since.map_err(|why| Fault::new(Exit::Usage, "invalid_timestamp", format!("--since: {why}")))?;
    let least = args.level.map_or(Level::Trace, |level| level);
    let step = match &args.step {
        Some(which) => Some(step_name(client, &view, which, args.follow).await?),
        None => None,
    };
    let wanted = |line: &&LogLine| {
        least.lets(&line.level)
            && since.is_none_or(|since| line.at >= since)
            && step.as_deref().is_none_or(|step| is_of(line, step))
    };
    let (run, mut told) = (view.record.id, 0);
    if !args.follow {
        let lines = new_lines(client, run, &mut told).await?;
        return print_logs(&lines.iter().filter(wanted).collect::<Vec<_>>(), now, format);
    }
    if !matches!(format, Format::Text | Format::Jsonl) {
        return Err(Fault::usage("logs that go on are text or jsonl: leave -o away, or say -o jsonl"));
    }
    let mut news = client.news(run).await;
    loop {
        for line in new_lines(client, run, &mut told).await?.iter().filter(wanted) {
            match format {
                Format::Jsonl => print_exact(&json(&LogJson::new(line), false)?)?,
                _ => print(&log_line(line, now))?,
            }
        }
        if view.status.is_final() {
            return Ok(());
        }
        while !news.within(LOOK_EVERY).await {}
        // Looked at before its lines are read again: what it logged last is there then.
        view = client.status(run).await?;
    }
}

/// All lines behind those that were told, which they are then as well.
async fn new_lines(client: &Backend, run: RunId, told: &mut u64) -> Result<Vec<LogLine>, Fault> {
    let mut lines = Vec::new();
    loop {
        let (page, next_after) = client.logs(run, *told, LOG_LINES).await?;
        let is_last = page.len() < LOG_LINES as usize;
        *told = next_after;
        lines.extend(page);
        if is_last {
            return Ok(lines);
        }
    }
}

/// The name by which lines of a step are found. Whoever follows may know of a step that is still to come.
async fn step_name(client: &Backend, view: &RunView, which: &str, follows: bool) -> Result<String, Fault> {
    let story = Story::read(client, view).await?;
    match find_step(&story, view.record.id, which) {
        Ok(step) if step.op == Op::Undo => Ok(format!("{}:{}", step.op.word(), step.name)),
        Ok(step) => Ok(step.name.clone()),
        Err(_) if follows || view.doing.iter().any(|doing| is_named(&doing.name, which)) => {
            Ok(which.to_owned())
        }
        Err(fault) => Err(fault),
    }
}

/// Whether a line was logged by this step, or by one of the occurrences of its name.
pub(crate) fn is_of(line: &LogLine, step: &str) -> bool {
    line.step.as_deref().is_some_and(|name| is_named(name, step))
}

fn is_named(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

fn print_logs(lines: &[&LogLine], now: Timestamp, format: Format) -> Result<(), Fault> {
    if lines.is_empty() && format == Format::Text {
        note("nothing was logged");
        return Ok(());
    }
    let shapes = || lines.iter().map(|line| LogJson::new(line)).collect::<Vec<_>>();
    match format {
        Format::Jsonl => crate::output::print_list(format, shapes(), false, |_| String::new()),
        Format::Json | Format::Yaml => crate::output::print_one(format, &shapes(), "", String::new),
        _ => print(&lines.iter().map(|line| log_line(line, now)).collect::<Vec<_>>().join("\n")),
    }
}

/// How urgent a line is at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    /// Only errors.
    Error,
    /// And warnings.
    Warn,
    /// And what is worth knowing.
    Info,
    /// And what helps to find faults.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    fn lets(self, word: &str) -> bool {
        let level = match word {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "info" => Level::Info,
            "debug" => Level::Debug,
            _ => Level::Trace,
        };
        level <= self
    }
}
