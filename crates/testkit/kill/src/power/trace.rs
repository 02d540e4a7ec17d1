//! What `strace` wrote down: changes of the database's files, syncs, and what the process said.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The calls that have to be seen.
pub(super) const CALLS: &str = "trace=pwrite64,write,fsync,fdatasync,ftruncate,unlink";

/// Something that happened, in the order in which it had happened.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Resize {
        file: String,
        length: usize,
    },
    Sync {
        file: String,
    },
    /// A sync failed: the kernel takes what it was about for written from now on, and no later one is about it.
    SyncFailed {
        file: String,
    },
    Remove {
        file: String,
    },
    /// The process said this on its standard output.
    Said(String),
}

/// Reads a trace; other files than those of this database are left out, and so is its shared memory, which no disk holds.
pub(super) fn events(trace: &Path, database: &Path) -> Result<Vec<Event>> {
    let text = std::fs::read_to_string(trace).with_context(|| format!("cannot read {}", trace.display()))?;
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // A call counts when it is over: of one that another interrupts, both halves together say what it was.
        if let Some(half) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, half.to_owned());
            continue;
        }
        let whole = match call.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, rest)) => begun.remove(thread).unwrap_or_default() + rest,
            None => call.to_owned(),
        };
        if let Some(event) = event(&whole, database).with_context(|| shortened(&whole))? {
            events.push(event);
        }
    }
    Ok(events)
}

/// One call; none when it is about something else, or failed.
fn event(call: &str, database: &Path) -> Result<Option<Event>> {
    let Some((call, result)) = call.rsplit_once(" = ") else { return Ok(None) };
    let Some((name, args)) = call.trim_end().strip_suffix(')').and_then(|call| call.split_once('(')) else {
        return Ok(None);
    };
    let (failed, is_sync) = (result.starts_with('-'), matches!(name, "fsync" | "fdatasync"));
    if failed && !is_sync {
        return Ok(None);
    }
    if name == "unlink" {
        let file = String::from_utf8(bytes(args)?)?;
        return Ok(of(&file, database).map(|file| Event::Remove { file }));
    }
    // A file descriptor and what it leads to: 7</tmp/runs.db-wal>, written in hex like all texts.
    let (fd, rest) = args.split_once('<').context("no descriptor")?;
    let (path, rest) = rest.split_once('>').context("no file")?;
    if name == "write" && fd == "1" {
        let said = rest.trim_start_matches(", ");
        return Ok(Some(Event::Said(String::from_utf8_lossy(&bytes(said)?).into_owned())));
    }
    let path = String::from_utf8_lossy(&unescaped(path)?).into_owned();
    let Some(file) = of(&path, database) else { return Ok(None) };
    let rest = rest.trim_start_matches(", ");
    Ok(Some(match name {
        "pwrite64" => {
            let mut numbers = rest.rsplit(", ");
            let at = numbers.next().context("no offset")?.parse()?;
            let mut bytes = bytes(rest)?;
            bytes.truncate(result.trim().parse()?);
            Event::Write { file, at, bytes }
        }
        "ftruncate" => Event::Resize { file, length: rest.parse()? },
        _ if is_sync && failed => Event::SyncFailed { file },
        _ if is_sync => Event::Sync { file },
        other => bail!("{other} changes {file}, which nobody expected"),
    }))
}

/// The name of a file of this database.
fn of(path: &str, database: &Path) -> Option<String> {
    let database = database.to_str()?;
    let end = path.strip_prefix(database)?;
    let name = database.rsplit('/').next()?;
    matches!(end, "" | "-wal" | "-journal").then(|| format!("{name}{end}"))
}

/// The first text of these arguments.
fn bytes(args: &str) -> Result<Vec<u8>> {
    let text = args.strip_prefix('"').and_then(|text| text.split_once('"'));
    let (text, behind) = text.context("no text")?;
    if behind.starts_with("...") {
        bail!("the trace left out a part of a text");
    }
    unescaped(text)
}

/// A text of which every byte may be written as `\x2f`.
fn unescaped(text: &str) -> Result<Vec<u8>> {
    if !text.starts_with("\\x") {
        return Ok(text.as_bytes().to_vec());
    }
    text.split("\\x").skip(1).map(|hex| Ok(u8::from_str_radix(hex, 16)?)).collect()
}

fn shortened(call: &str) -> String {
    call.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_the_order_in_which_they_were_over() {
        let trace = concat!(
            "11 pwrite64(7</tmp/runs.db-wal>, \"\\x01\\x02\\x03\", 3, 32) = 3\n",
            "12 write(1<pipe:[9]>, \"\\x68\\x69\\x0a\", 3 <unfinished ...>\n",
            "11 fdatasync(7</tmp/runs.db-wal>) = 0\n",
            "12 <... write resumed>) = 3\n",
            "11 pwrite64(9</tmp/other>, \"\\x01\", 1, 0) = 1\n",
            "11 ftruncate(6</tmp/runs.db>, 4096) = 0\n",
            "11 fdatasync(6</tmp/runs.db>) = -1 EIO (Input/output error)\n",
            "11 unlink(\"\\x2f\\x74\\x6d\\x70\\x2f\\x72\\x75\\x6e\\x73\\x2e\\x64\\x62\\x2d\\x77\\x61\\x6c\") = 0\n",
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, trace).unwrap();
        let wal = || "runs.db-wal".to_owned();
        assert_eq!(
            events(&path, Path::new("/tmp/runs.db")).unwrap(),
            [
                Event::Write { file: wal(), at: 32, bytes: vec![1, 2, 3] },
                Event::Sync { file: wal() },
                Event::Said("hi\n".to_owned()),
                Event::Resize { file: "runs.db".to_owned(), length: 4096 },
                Event::SyncFailed { file: "runs.db".to_owned() },
                Event::Remove { file: wal() },
            ]
        );
    }
}
