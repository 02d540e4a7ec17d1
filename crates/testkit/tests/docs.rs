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

#[test]
fn every_test_that_the_docs_name_exists() {
    let sources = sources();
    let mut wrong = Vec::new();
    let mut named = 0;
    for row in rows(&page()) {
        let tests: Vec<&str> = row.shown_by.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !ADMITTED.iter().any(|word| row.shown_by.contains(word)) {
            wrong.push(format!("{}: names no test, and does not say so", row.name));
        }
        named += tests.len();
        let missing = tests.iter().filter(|test| !sources.iter().any(|source| source.has(test)));
        wrong.extend(missing.map(|test| format!("{}: there is no test {test}", row.name)));
    }
    assert!(named > NUMBERED, "only {named} tests were found on the page: have its tables changed?");
    assert!(wrong.is_empty(), "docs/behaviours.md:\n  {}", wrong.join("\n  "));
}

#[test]
fn every_numbered_behaviour_has_its_row() {
    let numbers: Vec<usize> = rows(&page()).iter().filter_map(|row| row.name.parse().ok()).collect();
    assert_eq!(numbers, (1..=NUMBERED).collect::<Vec<_>>());
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

fn page() -> String {
    fs::read_to_string(root("docs/behaviours.md")).expect("the page is there")
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
