//! The documentation says which test shows what; here it is held to its word.

#![allow(missing_docs, reason = "tests")]

use std::fs;
use std::path::Path;

/// The heading of the columns that name tests.
const SHOWN_BY: &str = "shown by";
/// What stands there instead of a test.
const ADMITTED: [&str; 2] = ["later", "no test yet"];
/// How many behaviours have a number.
const NUMBERED: usize = 91;

/// The pages that name tests.
const PAGES: [&str; 3] = ["docs/behaviours.md", "docs/faults.md", "docs/input.md"];
/// The faults that have to be on their page, tested or not.
const FAULTS: [&str; 58] = [
    "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P12", "P16", "P17", "P18", "P19", "P20",
    "D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D19", "D20", "N1", "N3",
    "N4", "N5", "S1", "S2", "S3", "S4", "U1", "U3", "W1", "W2", "W3", "W5", "W6", "W7", "W8", "D23", "D24",
    "C1", "C2", "C5", "N7", "N8", "S8", "S9", "U4", "W10",
];
/// Those of which the page says why they are not played.
const NOT_PLAYED: [&str; 12] =
    ["P13", "P14", "D14", "D15", "D16", "D17", "D22", "N6", "S6", "U5", "W4", "W11"];
/// How a fault is named that `cargo xtask chaos` plays, and where they all are.
const CHAOS: &str = "chaos --fault ";
const CHAOS_FAULTS: &str = "crates/testkit/kill/src/chaos/fault.rs";

#[test]
fn every_test_that_the_docs_name_exists() {
    let sources = sources();
    let faults = read(CHAOS_FAULTS);
    let exists = |name: &str| match name.strip_prefix(CHAOS) {
        Some(fault) => faults.contains(&format!("(\"{fault}\", ")),
        None => sources.iter().any(|source| source.has(name)),
    };
    let mut wrong = Vec::new();
    let mut named = 0;
    for page in PAGES {
        for row in rows(&read(page)) {
            let tests: Vec<&str> = row.shown_by.split('`').skip(1).step_by(2).collect();
            if tests.is_empty() && !ADMITTED.iter().any(|word| row.shown_by.contains(word)) {
                wrong.push(format!("{page} {}: names no test, and does not say so", row.name));
            }
            named += tests.len();
            let missing = tests.iter().filter(|test| !exists(test));
            wrong.extend(missing.map(|test| format!("{page} {}: there is no test {test}", row.name)));
        }
    }
    assert!(named > NUMBERED, "only {named} tests were found on the pages: have their tables changed?");
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

#[test]
fn every_numbered_behaviour_has_its_row() {
    let page = read("docs/behaviours.md");
    let numbers: Vec<usize> = rows(&page).iter().filter_map(|row| row.name.parse().ok()).collect();
    assert_eq!(numbers, (1..=NUMBERED).collect::<Vec<_>>());
}

#[test]
fn every_fault_has_its_row_and_every_one_that_is_played_is_named_there() {
    let page = read("docs/faults.md");
    let names: Vec<String> = rows(&page).into_iter().map(|row| row.name).collect();
    let missing: Vec<&str> =
        FAULTS.into_iter().filter(|fault| !names.iter().any(|name| name == fault)).collect();
    assert!(missing.is_empty(), "docs/faults.md has no row for {missing:?}");
    let without_reason: Vec<&str> = NOT_PLAYED
        .into_iter()
        .filter(|fault| {
            let is_told = |part: &&str| part.starts_with("Not played") && part.contains(*fault);
            !page.split("\n\n").any(|part| is_told(&part))
        })
        .collect();
    assert!(without_reason.is_empty(), "docs/faults.md does not say why {without_reason:?} are not played");

    let faults = read(CHAOS_FAULTS);
    let played =
        faults.lines().filter_map(|line| line.split_once("=> (\"")?.1.split_once('"').map(|(name, _)| name));
    let unnamed: Vec<&str> = played.filter(|name| !page.contains(&format!("`{CHAOS}{name}`"))).collect();
    assert!(unnamed.is_empty(), "docs/faults.md does not name {unnamed:?}");
}

/// A row of a table whose last column names tests.
struct Row {
    name: String,
    shown_by: String,
}

fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let last = cells.last().copied().unwrap_or_default();
        in_table = line.starts_with('|') && (in_table || last == SHOWN_BY);
        if in_table && last != SHOWN_BY && last != "---" {
            rows.push(Row { name: cells[0].to_owned(), shown_by: last.to_owned() });
        }
    }
    rows
}

/// A Rust file: the folders and the name of its path, and its text.
struct Source {
    path: Vec<String>,
    text: String,
}

impl Source {
    /// Whether a test of this path is here: `engine::waits::a_sentence` stands in `engine/waits.rs`.
    fn has(&self, test: &str) -> bool {
        let (place, name) = test.rsplit_once("::").unwrap_or(("", test));
        let is_here = |part: &str| self.path.iter().any(|own| own == part) || self.defines("mod", part);
        (self.defines("fn", name) || self.defines("mod", name))
            && place.split("::").filter(|part| !part.is_empty()).all(is_here)
    }

    fn defines(&self, keyword: &str, name: &str) -> bool {
        let definition = format!("{keyword} {name}");
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let ends = |(at, _): (usize, &str)| !self.text[at + definition.len()..].starts_with(is_word);
        self.text.match_indices(&definition).any(ends)
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    gather(Path::new(&root("crates")), &mut found);
    found
}

/// Every `.rs` file in here, as deep as it may be.
fn gather(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace can be read") {
        let path = entry.expect("a folder of the workspace can be read").path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            let path = path.with_extension("");
            let parts = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            found.push(Source { path: parts, text });
        }
    }
}

fn root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}
