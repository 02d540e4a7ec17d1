//! Whether the audit log is what was written: its chain, looked through page by page, so that no request takes long.

use outlast::Client;
use outlast_store::{ChainBreak, ChainList, Link, StoreError, check_chain};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::code::Code;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::Call;

/// How many lines are looked at with one request unless said.
pub(crate) const LINES: u32 = 5_000;

/// What was found in a part of the audit log's chain.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = AuditVerified)]
pub(crate) struct ChainJson {
    /// How many lines were looked at.
    pub(crate) lines: usize,
    /// What does not fit: lines that were changed or removed by hand.
    pub(crate) breaks: Vec<BreakJson>,
    /// Where to go on, for `after`; `null` at the end.
    pub(crate) next: Option<String>,
    /// The line behind which the chain begins: those before were kept long enough. `PLACE:HASH`.
    pub(crate) begin: String,
    /// Its last line, `PLACE:HASH`. Whoever keeps it elsewhere and gives it back as `known` finds out if all was written anew.
    pub(crate) end: String,
    /// How many lines have no place yet: older programs wrote them, and a server gives them one within a minute.
    pub(crate) loose: u64,
    /// How many lines are older than the chain, and in none.
    pub(crate) older: u64,
}

/// Something that does not fit.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = AuditBreak)]
pub(crate) struct BreakJson {
    /// The place in the chain.
    pub(crate) place: i64,
    /// The line there, if there is one.
    pub(crate) line: Option<String>,
    pub(crate) what: String,
}

impl BreakJson {
    fn new(found: ChainBreak) -> BreakJson {
        BreakJson { place: found.place, line: found.line.map(|line| line.to_string()), what: found.what }
    }
}

pub(crate) const QUERY: &[Param] = &[
    text("after", "Behind this line, PLACE:HASH: the next of the part before"),
    text("known", "A line that you know, PLACE:HASH: an end that you were told once"),
    number("limit", "At most so many lines: 1 to 20000, 5000 unless said"),
];

/// Looks whether lines were changed or removed.
pub(crate) async fn verify(call: Call) -> Answer {
    let link = |name: &str| {
        call.query.one(name).map(|text| read_link(text).ok_or_else(|| unreadable(name))).transpose()
    };
    let (after, known) = (link("after")?, link("known")?);
    let limit = call.query.number("limit", 1..=20_000, LINES)?;
    Reply::json(&look(&call.api.client, after.as_ref(), known.as_ref(), limit).await?)
}

/// Looks at the next lines.
pub(crate) async fn look(
    client: &Client,
    after: Option<&Link>,
    known: Option<&Link>,
    limit: u32,
) -> Result<ChainJson, StoreError> {
    let ask = ChainList { after: after.map_or(0, |after| after.place), limit };
    let page = client.store().audit_chain(ask).await?;
    let checked = check_chain(&page, after, known);
    let (begin, end) = page.chain.map(|chain| (chain.begin, chain.end)).unwrap_or_default();
    Ok(ChainJson {
        lines: page.lines.len(),
        breaks: checked.breaks.into_iter().map(BreakJson::new).collect(),
        next: checked.next.as_ref().map(write_link),
        begin: write_link(&begin),
        end: write_link(&end),
        loose: page.loose,
        older: page.older,
    })
}

/// A line of the chain as people keep it.
pub(crate) fn write_link(link: &Link) -> String {
    format!("{}:{}", link.place, link.hash)
}

/// Reads what [`write_link`] wrote.
pub(crate) fn read_link(text: &str) -> Option<Link> {
    let (place, hash) = text.split_once(':')?;
    let is_hash = matches!(hash.len(), 0 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let place = place.parse().ok().filter(|place| *place >= 0)?;
    is_hash.then(|| Link { place, hash: hash.to_ascii_lowercase() })
}

fn unreadable(name: &str) -> Problem {
    Problem::new(
        Code::INVALID_ARGUMENT,
        format!("{name} is PLACE:HASH, as an answer had it under end or next"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_nothing_else_is() {
        for link in [Link::default(), Link { place: 7, hash: "ab".repeat(32) }] {
            assert_eq!(read_link(&write_link(&link)), Some(link));
        }
        for text in ["", "7", "7:xyz", "-1:", &format!("7:{}", "g".repeat(64)), ":"] {
            assert_eq!(read_link(text), None, "{text}");
        }
    }
}
