//! Everything that is printed goes through here: formats, colours, tables, and a reader that leaves.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use outlast::Status;
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::fault::Fault;
use crate::shapes::Items;
use crate::words::shorten;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The same as JSON, easier to read.
    Yaml,
    /// For people, with nothing left away on a narrow terminal.
    Wide,
    /// Ids or names alone, one per line.
    Name,
}

impl Format {
    /// Whether people read it.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Format::Text | Format::Wide)
    }
}

/// How times are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TimeStyle {
    /// How long ago, or until when; the clock on the wall otherwise.
    Relative,
    /// Date and time of this machine's zone.
    Local,
    /// Date and time in UTC.
    Utc,
    /// As programs write it.
    Rfc3339,
}

/// How this process writes, whatever it writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) time: TimeStyle,
    /// Nothing but answers and errors.
    pub(crate) quiet: bool,
    /// Tables keep all columns.
    pub(crate) wide: bool,
    /// How often it was asked to say what is done on the way.
    pub(crate) verbose: u8,
}

static MANNER: OnceLock<Manner> = OnceLock::new();

/// Settles how this process writes. The first stays.
pub(crate) fn settle(manner: Manner) {
    let _ = MANNER.set(manner);
}

pub(crate) fn manner() -> Manner {
    MANNER.get().copied().unwrap_or(Manner {
        time: TimeStyle::Relative,
        quiet: false,
        wide: false,
        verbose: 0,
    })
}

/// How much is told of what is done on the way, if that was asked for.
pub(crate) fn verbosity() -> Option<LevelFilter> {
    match manner().verbose {
        0 => None,
        1 => Some(LevelFilter::INFO),
        _ => Some(LevelFilter::DEBUG),
    }
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

/// Writes an answer for people to stdout. Whatever handlers put into it, it does nothing but stand there.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    write(anstream::stdout().lock(), &harmless(text))
}

/// Writes an answer for programs to stdout, as it is.
pub(crate) fn print_exact(text: &str) -> Result<(), Fault> {
    write(std::io::stdout().lock(), text)
}

fn write(mut out: impl Write, text: &str) -> Result<(), Fault> {
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Text without anything that moves a cursor, sets a title or hides what stands there: control characters go, but for the
/// ends of lines, tabs, and the colours that [`painted`] has.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c == '\u{1b}' { escape(rest) } else { c.len_utf8() };
        let (piece, behind) = rest.split_at(length);
        let is_colour = piece
            .strip_prefix("\u{1b}[")
            .and_then(|rest| rest.strip_suffix('m'))
            .is_some_and(|code| matches!(code.parse(), Ok(0_u8..=2 | 31..=36 | 91..=96)));
        if is_plain(c) || is_colour {
            out.push_str(piece);
        }
        rest = behind;
    }
    Cow::Owned(out)
}

/// How many bytes an escape sequence has that the text begins with.
fn escape(text: &str) -> usize {
    let behind = &text[1..];
    match behind.as_bytes().first() {
        Some(b'[') => {
            let is_end = |byte: u8| (0x40..=0x7e).contains(&byte);
            let end = behind.bytes().skip(1).position(|byte| is_end(byte) || !byte.is_ascii());
            end.filter(|end| is_end(behind.as_bytes()[end + 1])).map_or(2, |end| end + 3)
        }
        // Titles and links, up to their end.
        Some(b']' | b'P' | b'^' | b'_') => {
            let end = behind.find(['\u{7}', '\u{1b}', '\u{9c}', '\n']);
            end.map_or(text.len(), |end| end + 1)
        }
        _ => 1,
    }
}

/// Writes what is not the answer to stderr. Nobody has to hear it.
pub(crate) fn note(text: &str) {
    if !manner().quiet {
        tell(text);
    }
}

fn tell(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", harmless(text));
}

pub(crate) fn print_error(fault: &Fault) {
    tell(&format!("{} {fault}", painted(BAD.bold(), "error:")));
}

/// Writes one thing as JSON, or as its text or name.
pub(crate) fn print_one(
    format: Format,
    value: &impl Serialize,
    name: impl std::fmt::Display,
    text: impl FnOnce() -> String,
) -> Result<(), Fault> {
    match format {
        Format::Text | Format::Wide => print(&text()),
        Format::Name => print(&name.to_string()),
        Format::Json => print_exact(&json(value, true)?),
        Format::Jsonl => print_exact(&json(value, false)?),
        Format::Yaml => print_exact(&yaml(value)?),
    }
}

/// Writes a list for programs; people get theirs from a [`table`].
pub(crate) fn print_list<T: Serialize>(
    format: Format,
    items: Vec<T>,
    more: bool,
    name: impl Fn(&T) -> String,
) -> Result<(), Fault> {
    let lines = match format {
        Format::Name => items.iter().map(name).collect(),
        Format::Jsonl => items.iter().map(|item| json(item, false)).collect::<Result<Vec<_>, _>>()?,
        Format::Yaml => vec![yaml(&Items { items, more })?],
        _ => vec![json(&Items { items, more }, true)?],
    };
    if lines.is_empty() { Ok(()) } else { print_exact(&lines.join("\n")) }
}

/// A value as YAML.
fn yaml(value: &impl Serialize) -> Result<String, Fault> {
    crate::yaml::yaml(&json(value, false)?).map_err(|error| io::Error::other(error).into())
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize, pretty: bool) -> Result<String, Fault> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.map_err(|error| io::Error::other(error).into())
}

/// The width of the terminal; `None` when the output goes elsewhere.
pub(crate) fn width() -> Option<usize> {
    let width = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    if manner().wide { None } else { width() }
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// Columns with a higher number go first when the terminal is narrow; 0 stays.
    pub(crate) spare: u8,
}

/// A row of a table: its cells, and the style of the first.
pub(crate) struct Row {
    pub(crate) style: Style,
    pub(crate) cells: Vec<String>,
}

/// Rows in columns. The last column is cut, and spare columns are left away, to fit the terminal.
pub(crate) fn table(columns: &[Column], rows: &[Row]) -> String {
    fit(columns, rows, width().unwrap_or(usize::MAX))
}

/// What the last column can be cut to and still says something.
const LEAST: usize = 20;

fn fit(columns: &[Column], rows: &[Row], limit: usize) -> String {
    let last = columns.len() - 1;
    let longest = |place: usize| rows.iter().map(|row| row.cells[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..=last).map(|place| longest(place).max(columns[place].head.len()) + 2).collect();
    let least = |place: usize| if place == last { widths[place].min(LEAST) } else { widths[place] };

    // A column without anything in it takes no room.
    let mut shown: Vec<usize> = (0..=last).filter(|place| longest(*place) > 0).collect();
    while shown.iter().map(|place| least(*place)).sum::<usize>() > limit {
        let spare = shown.iter().copied().filter(|place| columns[*place].spare > 0);
        let Some(spare) = spare.max_by_key(|place| columns[*place].spare) else { break };
        shown.retain(|place| *place != spare);
    }

    let before: usize = shown.iter().filter(|place| **place != last).map(|place| widths[*place]).sum();
    let room = limit.saturating_sub(before).max(LEAST);
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells = shown.iter().map(|place| match *place == last {
            true => shorten(&cell(*place), room),
            false => format!("{:<width$}", cell(*place), width = widths[*place]),
        });
        cells.collect::<String>().trim_end().to_owned()
    };
    let mut lines = vec![painted(DIM, line(&|place| columns[place].head.to_owned()))];
    for row in rows {
        let (text, first) = (line(&|place| row.cells[place].clone()), row.cells[0].as_str());
        let rest = text.strip_prefix(first).unwrap_or_default();
        lines.push(painted(row.style, first) + rest);
    }
    lines.join("\n")
}

/// A command as the reader can call it, on the database that this process was given.
pub(crate) fn call(command: &str) -> String {
    let database = DATABASE.get().map(String::as_str).unwrap_or_default();
    format!("{} {command}{database}", program())
}

/// What [`call`] adds so that a command finds the same database.
static DATABASE: OnceLock<String> = OnceLock::new();

/// Lets every [`call`] name what this process asks: a database, or a server.
pub(crate) fn calls_name(argument: String) {
    // The first stays: a process works on one database.
    let _ = DATABASE.set(argument);
}

/// The name of this program, without its folder.
pub(crate) fn program_name() -> String {
    let called = std::env::args_os().next().unwrap_or_else(|| "outlast".into());
    let name = std::path::Path::new(&called).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "outlast".to_owned())
}

/// How the reader calls this program: through cargo where `cargo run` started it, else as it was called.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_else(|| "outlast".into());
    through_cargo().map_or_else(|| quoted(&called.to_string_lossy()), str::to_owned)
}

/// The call through cargo, if `cargo run` started this process and would find its package from here.
fn through_cargo() -> Option<&'static str> {
    std::env::var_os("CARGO_MANIFEST_DIR")?;
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|folder| folder.join("Cargo.toml").exists())?;
    let exe = std::env::current_exe().ok()?;
    match exe.parent()?.file_name()?.to_str()? {
        "release" => Some("cargo run --release --"),
        "debug" => Some("cargo run --"),
        _ => None,
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/\\._-+:=@,%~".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(limit: usize) -> Vec<String> {
        let columns = [
            Column { head: "STATUS", spare: 0 },
            Column { head: "KEY", spare: 1 },
            Column { head: "STARTED", spare: 2 },
            Column { head: "NOW", spare: 0 },
        ];
        let cells = ["waiting", "order-1", "3 s ago", "for event approval since noon"];
        let row = Row { style: Style::new(), cells: cells.map(str::to_owned).to_vec() };
        fit(&columns, &[row], limit).lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_of_others_moves_no_cursor_and_keeps_what_it_says() {
        for (given, shown) in [
            ("plain ü\tand\nmore", "plain ü\tand\nmore"),
            ("\u{1b}[2J\u{1b}[1;1Hgone", "gone"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\rb\u{8}c\u{7f}d\u{9b}2J", "abcd2J"),
            ("\u{1b}[31mred\u{1b}[0m \u{1b}[8mhidden", "\u{1b}[31mred\u{1b}[0m hidden"),
            ("end\u{1b}[", "end"),
            ("end\u{1b}", "end"),
            ("\u{1b}[12ü", "12ü"),
        ] {
            assert_eq!(harmless(given), shown, "{given:?}");
        }
        let ours = painted(BAD.bold(), "x") + &painted(DIM, "y");
        assert_eq!(harmless(&ours), ours);
    }

    #[test]
    fn a_table_gives_up_spare_columns_before_it_cuts_what_a_run_does() {
        assert_eq!(narrow(80)[1], "waiting  order-1  3 s ago  for event approval since noon");
        assert_eq!(narrow(47)[1], "waiting  order-1  3 s ago  for event approval …");
        assert_eq!(narrow(46)[1], "waiting  order-1  for event approval since no…");
        assert_eq!(narrow(30)[1], "waiting  for event approval s…");
    }
}
