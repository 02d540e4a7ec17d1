//! Pages of runs, forwards and backwards.
//!
//! A cursor is a place and a direction. Backwards is the same list in the other order from there, turned round.

use outlast::{Cursor, Filter, RunView};

use super::cursor::Towards;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::route::Call;

pub(crate) const CURSOR: Param = text("cursor", "The next_cursor or prev_cursor of another page");
pub(crate) const LIMIT: Param = number("limit", "At most so many: 1 to 500, 50 unless said");

/// A page, and how to get to those beside it.
pub(crate) struct Pages {
    pub(crate) runs: Vec<RunView>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) prev_cursor: Option<String>,
}

/// The page that the query's cursor and limit name. `what` says for what cursors are good.
pub(crate) async fn page(call: &Call, filter: Filter, what: &str) -> Result<Pages, Problem> {
    let (client, signer) = (&call.api.client, &call.api.signer);
    let limit = call.query.number("limit", 1..=500, 50)?;
    let from = call.query.one("cursor").map(|text| signer.read_run(text, what)).transpose()?;
    let is_back = matches!(from, Some((_, Towards::Back)));
    let filter = Filter { oldest_first: filter.oldest_first != is_back, ..filter };
    let page = client.list(&filter, from.map(|(place, _)| place), limit).await?;
    let mut runs = page.runs;
    if is_back {
        runs.reverse();
    }
    let place = |view: &RunView| Cursor { created_at: view.record.created_at, id: view.record.id };
    let on = runs.last().map(|last| signer.write_run(place(last), Towards::On, what));
    let back = runs.first().map(|first| signer.write_run(place(first), Towards::Back, what));
    let has_more = page.next.is_some();
    // Where we came from there is something; in the direction in which we go, the list says.
    let (next_cursor, prev_cursor) = match is_back {
        true => (on, back.filter(|_| has_more)),
        false => (on.filter(|_| has_more), back.filter(|_| from.is_some())),
    };
    Ok(Pages { runs, next_cursor, prev_cursor })
}
