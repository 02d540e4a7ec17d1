//! What the pure parts cost in instructions: replay, turns, commits, payloads, statements.
//!
//! A clock on a busy machine tells nothing below a few percent; the number of instructions is the same in every
//! run. So each part is done here by itself, on one thread, without a database and without waiting, and
//! `cargo xtask instructions` counts under callgrind what happens inside of [`measured`]. It asks for each part
//! twice, for some and for twice as many: the difference is what one costs, without what all of them share.

mod engine;
mod pure;
mod rows;
mod store;

use std::process::ExitCode;

/// Something that is measured.
struct Part {
    name: &'static str,
    /// How many are done at first; then twice as many.
    count: usize,
    /// One of what, for people.
    one: &'static str,
    run: fn(usize),
}

const PARTS: [Part; 11] = [
    Part {
        name: "replay",
        count: 2000,
        one: "a recorded step, asked for and handed over",
        run: pure::replay,
    },
    Part {
        name: "cold-turn",
        count: 1000,
        one: "a recorded step, replayed by the engine",
        run: engine::replay,
    },
    Part {
        name: "new-step",
        count: 500,
        one: "a new step, run, recorded and acknowledged",
        run: engine::steps,
    },
    Part { name: "run", count: 500, one: "a run of one step, from its claim to its end", run: engine::runs },
    Part { name: "gather", count: 4000, one: "a commit of one entry, put into a batch", run: pure::gather },
    Part {
        name: "commit-entries",
        count: 500,
        one: "a run with one entry, as rows",
        run: rows::commit_entries,
    },
    Part {
        name: "commit-ends",
        count: 500,
        one: "a run with one entry that ends, as rows",
        run: rows::commit_ends,
    },
    Part { name: "start", count: 500, one: "a run with one tag, as rows", run: rows::start },
    Part { name: "encode", count: 1000, one: "a value of 200 bytes, as a payload", run: pure::encode },
    Part { name: "decode", count: 1000, one: "a payload of 200 bytes, as a value", run: pure::decode },
    Part { name: "render", count: 1000, one: "a statement, for one of the databases", run: pure::render },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => list(),
        [name, count] => match (PARTS.iter().find(|part| part.name == name), count.parse()) {
            (Some(part), Ok(count)) => (part.run)(count),
            _ => return usage(),
        },
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

/// Where this program is, and what it measures.
fn list() {
    println!("{}", std::env::current_exe().unwrap_or_default().display());
    PARTS.iter().for_each(|part| println!("{}\t{}\t{}", part.name, part.count, part.one));
}

fn usage() -> ExitCode {
    eprintln!("usage: outlast-instructions list | PART COUNT");
    ExitCode::from(2)
}

/// Does `work` so that it is counted, and nothing around it is.
fn counted<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut done) = (Some(work), None);
    measured(&mut || done = work.take().map(|work| work()));
    std::hint::black_box(done.expect("what is measured is done once"))
}

/// Callgrind counts from here to the end of this, which it knows by the name.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    std::hint::black_box(work)();
}
