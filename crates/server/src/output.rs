//! Everything that is printed goes through here: formats, colours, tables, and a reader that leaves.

use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use outlast::Status;
use serde::Serialize;

use crate::fault::Fault;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// Ids or names alone, one per line.
    Name,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    pub(crate) fn write_global(self) {
        let choice = match self {
            Colour::Auto => anstream::ColorChoice::Auto,
            Colour::Always => anstream::ColorChoice::Always,
            Colour::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WAIT: Style = AnsiColor::Yellow.on_default();
pub(crate) const NEWS: Style = AnsiColor::Cyan.on_default();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// `text` in a style. Written to something that is no terminal, the style is left away.
pub(crate) fn painted(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The style of a status.
pub(crate) fn style_of(status: Status) -> Style {
    match status {
        Status::Completed => GOOD,
        Status::Failed | Status::Blocked | Status::UndoFailed => BAD,
        Status::Waiting | Status::Paused => WAIT,
        Status::Cancelled => DIM,
        _ => NEWS,
    }
}

/// Writes an answer to stdout.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes what is not the answer to stderr. Nobody has to hear it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

pub(crate) fn print_error(fault: &Fault) {
    note(&format!("{} {fault}", painted(BAD.bold(), "error:")));
}

/// Writes one thing as JSON, or as its text or name.
pub(crate) fn print_one(
    format: Format,
    value: &impl Serialize,
    name: impl std::fmt::Display,
    text: impl FnOnce() -> String,
) -> Result<(), Fault> {
    match format {
        Format::Text => print(&text()),
        Format::Name => print(&name.to_string()),
        Format::Json => print(&json(value, true)?),
        Format::Jsonl => print(&json(value, false)?),
    }
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize, pretty: bool) -> Result<String, Fault> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.map_err(|error| io::Error::other(error).into())
}

/// The width of the terminal; `None` when the output goes elsewhere.
pub(crate) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// Columns with a higher number go first when the terminal is narrow; 0 stays.
    pub(crate) spare: u8,
}

/// Rows in columns. The last column is cut, and spare columns are left away, to fit the terminal.
pub(crate) fn table(columns: &[Column], rows: &[Vec<(String, Option<Style>)>]) -> String {
    let wide = |place: usize| {
        let cells = rows.iter().map(|row| row[place].0.chars().count());
        cells.chain([columns[place].head.len()]).max().unwrap_or(0) + 2
    };
    let widths: Vec<usize> = (0..columns.len()).map(wide).collect();
    let mut shown: Vec<usize> = (0..columns.len()).filter(|place| !is_empty(rows, *place)).collect();
    let limit = width().unwrap_or(usize::MAX);
    // The last column can be cut to this and still says something.
    const LEAST: usize = 20;
    let needs = |shown: &[usize]| {
        shown
            .iter()
            .map(|place| if *place + 1 == columns.len() { widths[*place].min(LEAST) } else { widths[*place] })
            .sum::<usize>()
    };
    while needs(&shown) > limit {
        let Some(spare) =
            shown.iter().copied().filter(|p| columns[*p].spare > 0).max_by_key(|p| columns[*p].spare)
        else {
            break;
        };
        shown.retain(|place| *place != spare);
    }

    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .enforce_styling();
    table.set_header(shown.iter().map(|place| Cell::new(columns[*place].head)));
    let last = columns.len() - 1;
    let before: usize = shown.iter().filter(|place| **place != last).map(|place| widths[*place]).sum();
    for row in rows {
        table.add_row(shown.iter().map(|place| {
            let (text, style) = &row[*place];
            let text = match *place == last {
                true => crate::words::shorten(text, limit.saturating_sub(before + 2).max(LEAST)),
                false => text.clone(),
            };
            let cell = Cell::new(text);
            match style.and_then(colour) {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    if let Some(head) = lines.first_mut() {
        *head = painted(DIM, &head);
    }
    lines.join("\n")
}

/// A column without anything in it takes no room.
fn is_empty(rows: &[Vec<(String, Option<Style>)>], place: usize) -> bool {
    !rows.is_empty() && rows.iter().all(|row| row[place].0.is_empty())
}

fn colour(style: Style) -> Option<Color> {
    match style.get_fg_color()? {
        anstyle::Color::Ansi(AnsiColor::Green) => Some(Color::DarkGreen),
        anstyle::Color::Ansi(AnsiColor::Red) => Some(Color::DarkRed),
        anstyle::Color::Ansi(AnsiColor::Yellow) => Some(Color::DarkYellow),
        anstyle::Color::Ansi(AnsiColor::Cyan) => Some(Color::DarkCyan),
        _ => None,
    }
}

/// How the reader calls this program: through cargo when it runs out of its target folder.
pub(crate) fn program() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let folder = exe.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let built_by_cargo =
        exe.parent().and_then(Path::parent).is_some_and(|target| target.join("CACHEDIR.TAG").exists());
    match folder {
        Some("release") if built_by_cargo => "cargo run --release --".to_owned(),
        Some("debug") if built_by_cargo => "cargo run --".to_owned(),
        _ => "outlast".to_owned(),
    }
}
