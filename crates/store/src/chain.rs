//! The chain of the audit log: each line has the hash of itself and of the hash of the line before it.
//!
//! So a line that somebody changed or removed by hand is found, and named. Whoever may write to the whole table can write the
//! whole chain anew; that is found by whoever kept its end elsewhere ([`Link`]) and gives it back to be looked for. No I/O
//! here: lines and what the chain says of itself come in, what does not fit goes out.

use outlast_core::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{AuditNote, AuditView};

/// A place in the chain, and the hash of the line there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The first line has 1.
    pub place: i64,
    /// In hexadecimal digits; empty before the first.
    pub hash: String,
}

/// What the chain says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainView {
    /// Its last line.
    pub end: Link,
    /// The last of the lines that were kept long enough and are gone: it begins behind it.
    pub begin: Link,
    /// When it was begun; lines from before that are in no chain.
    pub begun_at: Timestamp,
}

/// Lines of the chain in its order, and what it says of itself at the same moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainPage {
    /// `None` while nobody has written a line.
    pub chain: Option<ChainView>,
    /// Lines with their hashes.
    pub lines: Vec<(Link, AuditView)>,
    /// How many lines wait for a place: programs wrote them that know no chain.
    pub loose: u64,
    /// How many lines are older than the chain.
    pub older: u64,
    /// Whether there are more behind these.
    pub more: bool,
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBreak {
    /// Where.
    pub place: i64,
    /// The line there, if there is one.
    pub line: Option<Uuid>,
    /// What is wrong, as a sentence.
    pub what: String,
}

/// What became of looking at a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainChecked {
    /// What does not fit, in order.
    pub breaks: Vec<ChainBreak>,
    /// Where to go on; `None` at the end.
    pub next: Option<Link>,
}

/// Looks whether the lines of a page follow from each other behind `from`, or behind the chain's beginning. Where `known` is
/// on this page, or can be on none, it has to be what somebody remembers.
pub fn check_chain(page: &ChainPage, from: Option<&Link>, known: Option<&Link>) -> ChainChecked {
    let mut breaks = Vec::new();
    let Some(chain) = &page.chain else {
        if let Some((link, view)) = page.lines.first() {
            let what = "the row that says where the chain begins and ends is gone".to_owned();
            breaks.push(ChainBreak { place: link.place, line: Some(view.note.id), what });
        }
        if let Some(known) = known.filter(|known| known.place > 0) {
            breaks.push(cut_off(known.place, 0));
        }
        return ChainChecked { breaks, next: None };
    };
    // Lines may have been kept long enough since the page before.
    let from = from.filter(|from| from.place >= chain.begin.place).unwrap_or(&chain.begin);
    let is_first = from == &chain.begin;
    let (mut last, mut is_certain) = (from.clone(), true);
    if let Some(known) = known.filter(|known| is_first && known.place == chain.begin.place) {
        breaks.extend((known.hash != chain.begin.hash).then(|| other(known.place, None)));
    }
    for (link, view) in &page.lines {
        if link.place > last.place + 1 {
            breaks.push(missing(last.place + 1, link.place - 1));
            is_certain = false;
        }
        if is_certain && hash_of(&last.hash, link.place, &view.note, view.at) != link.hash {
            breaks.push(changed(link, view));
        }
        if let Some(known) = known.filter(|known| known.place == link.place) {
            breaks.extend((known.hash != link.hash).then(|| other(link.place, Some(view.note.id))));
        }
        (last, is_certain) = (link.clone(), true);
    }
    if page.more {
        return ChainChecked { breaks, next: Some(last) };
    }
    let end = &chain.end;
    if last.place < end.place {
        breaks.push(missing(last.place + 1, end.place));
    } else if last != *end {
        let what =
            format!("the chain says that it ends with line {}, and that is not its last line", end.place);
        breaks.push(ChainBreak { place: last.place, line: None, what });
    }
    let beyond = known.filter(|known| known.place > end.place.max(last.place));
    breaks.extend(beyond.map(|known| cut_off(known.place, end.place)));
    ChainChecked { breaks, next: None }
}

/// The hash of a line that follows another, in hexadecimal digits. Every part has its length before it, so that nothing
/// moves from one to the next.
pub(crate) fn hash_of(before: &str, place: i64, note: &AuditNote, at: Timestamp) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: Option<&[u8]>| {
        hash.update([u8::from(bytes.is_some())]);
        let bytes = bytes.unwrap_or_default();
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(Some(before.as_bytes()));
    part(Some(&place.to_be_bytes()));
    part(Some(note.id.as_bytes()));
    part(Some(&at.micros().to_be_bytes()));
    part(Some(note.tenant.as_bytes()));
    part(Some(note.actor.as_bytes()));
    part(note.token.as_ref().map(|token| &token.as_bytes()[..]));
    part(Some(note.action.as_bytes()));
    part(Some(note.target.as_bytes()));
    part(note.reason.as_ref().map(String::as_bytes));
    part(Some(note.request.as_bytes()));
    part(Some(&note.status.to_be_bytes()));
    part(note.ip.as_ref().map(String::as_bytes));
    part(note.before.as_ref().map(String::as_bytes));
    part(note.after.as_ref().map(String::as_bytes));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn missing(from: i64, to: i64) -> ChainBreak {
    let what = match from == to {
        true => format!("line {from} is missing"),
        false => format!("lines {from} to {to} are missing"),
    };
    ChainBreak { place: from, line: None, what }
}

fn changed(link: &Link, view: &AuditView) -> ChainBreak {
    let AuditNote { id, actor, action, target, .. } = &view.note;
    let what = format!(
        "line {} ({action} of {target:?} by {actor} at {}) was changed, or the hash of the line before it was",
        link.place, view.at
    );
    ChainBreak { place: link.place, line: Some(*id), what }
}

fn other(place: i64, line: Option<Uuid>) -> ChainBreak {
    let what = format!("line {place} is another than the one that you know: the chain was written anew");
    ChainBreak { place, line, what }
}

fn cut_off(known: i64, end: i64) -> ChainBreak {
    let what =
        format!("you know line {known}, and the chain ends with line {end}: what was behind is cut off");
    ChainBreak { place: end, line: None, what }
}
