//! What commands print, letter by letter: the real binary on a fixed scenario, beside committed files.
//!
//! `OUTLAST_UPDATE=1 cargo test -p outlast-server --test golden` writes them anew; the difference is for people to judge.
//! Ids and times are masked, and nothing else.

mod support;

use std::path::{Path, PathBuf};

use support::Shop;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs a command that works; gives what it printed, without what is another each time.
fn printed(shop: &Shop, args: &[&str]) -> String {
    masked(&exactly(shop, args))
}

/// The same to the letter.
fn exactly(shop: &Shop, args: &[&str]) -> String {
    let output =
        shop.command(args).env("TZ", "UTC").env("USER", "ann").env_remove("COLUMNS").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(output.stderr));
    text(output.stdout)
}

/// Digits of times, and ids, as zeros.
fn masked(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || "-:.TZ".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match rest.strip_prefix("run_") {
            Some(id) => 4 + id.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(id.len()),
            None => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()).max(first.len_utf8()),
        };
        let (piece, behind) = rest.split_at(length);
        let is_time = piece.contains(':') || piece.matches('-').count() == 2;
        match piece.strip_prefix("run_") {
            Some(id) => out += &format!("run_{}", "0".repeat(id.len())),
            None if is_time && first.is_ascii_digit() => {
                // Of a fraction of a second, zeros at its end are not written.
                let (time, fraction) = piece.split_once('.').unwrap_or((piece, ""));
                out.extend(time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }));
                out += if fraction.ends_with('Z') { ".000000Z" } else { "" };
            }
            None => out += piece,
        }
        rest = behind;
    }
    out
}

/// Compares with a committed file, or writes it.
fn golden(name: &str, printed: &str) {
    let file = folder().join(name);
    if std::env::var_os("OUTLAST_UPDATE").is_some() {
        std::fs::write(&file, printed).unwrap();
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        known == printed,
        "{name} is another than\n{known}\nnow it is\n{printed}\nOUTLAST_UPDATE=1 takes it"
    );
}

#[test]
fn a_run_is_drawn_as_a_tree_with_bars() {
    let file = folder().join("order.json");
    let file = file.to_str().unwrap();
    let shop = Shop::new();
    golden("show.txt", &printed(&shop, &["show", "--file", file, "--time", "utc"]));
    golden("show-step.txt", &printed(&shop, &["show", "--file", file, "--time", "utc", "--step", "charge"]));
}

#[test]
fn runs_are_listed_and_explained() {
    let shop = Shop::new();
    // Its workflows are known to the database then, and nobody is up to run them.
    let dev = shop.dev_with(&["--port", "0"]);
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    for (key, delay) in [("now", "0s"), ("later", "1h")] {
        let delay: &[&str] = if delay == "0s" { &[] } else { &["--delay", delay] };
        let start = ["start", "ship", "--input", "\"tea\"", "--key", key, "--tag", "shown=yes"];
        let args: Vec<&str> = start.iter().chain(delay).copied().collect();
        printed(&shop, &args);
    }
    shop.ok(&["pause", "ship/later", "--reason", "holidays"]);
    golden("list.txt", &printed(&shop, &["list", "tag:shown=yes", "--time", "utc"]));
    golden("show-ready.txt", &printed(&shop, &["show", "ship/now", "--time", "utc"]));
    golden("explain-ready.txt", &printed(&shop, &["explain", "ship/now", "--time", "utc"]));
    golden("explain-paused.txt", &printed(&shop, &["explain", "ship/later", "--time", "utc"]));
}

#[test]
fn help_says_what_there_is() {
    let shop = Shop::new();
    golden("help.txt", &exactly(&shop, &["--help"]));
    golden("help-show.txt", &exactly(&shop, &["show", "--help"]));
    golden("help-retry.txt", &exactly(&shop, &["retry", "--help"]));
}
