//! Pages of runs, forwards and backwards.
//!
//! A cursor is a place and a direction. Backwards is the same list in the other order from there, turned round.

use outlast::{Client, Cursor, Error, Filter, RunView};
use outlast_store::failure_of;

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

/// How many runs one request looks through for those that failed alike, and how many of them are asked for at once.
const LOOKED: u32 = 10_000;
const PAGE: u32 = 500;

/// Runs that fit, and where the next begin.
pub(crate) struct Found {
    pub(crate) runs: Vec<RunView>,
    pub(crate) next: Option<Cursor>,
}

/// Runs that fit a filter and, if one is named, failed like that: what a failure says is no column that a database could
/// look for, so that those that fit are looked through, up to a bound. Whoever goes on from `next` finds the others.
pub(crate) async fn found(
    client: &Client,
    filter: &Filter,
    failure: Option<&str>,
    mut from: Option<Cursor>,
    limit: u32,
) -> Result<Found, Error> {
    let mut runs = Vec::new();
    for _ in 0..LOOKED / PAGE {
        let page = client.list(filter, from, if failure.is_some() { PAGE } else { limit }).await?;
        let fits = |view: &RunView| failure.is_none() || failure_of(view).as_deref() == failure;
        runs.extend(page.runs.into_iter().filter(fits));
        from = page.next;
        if runs.len() > limit as usize {
            runs.truncate(limit as usize);
            from = runs.last().map(place);
        }
        if failure.is_none() || runs.len() >= limit as usize || from.is_none() {
            break;
        }
    }
    Ok(Found { runs, next: from })
}

fn place(view: &RunView) -> Cursor {
    Cursor { created_at: view.record.created_at, id: view.record.id }
}

/// The page that the query's cursor and limit name. `what` says for what cursors are good.
pub(crate) async fn page(call: &Call, filter: Filter, what: &str) -> Result<Pages, Problem> {
    let (client, signer) = (&call.api.client, &call.api.signer);
    let limit = call.query.number("limit", 1..=500, 50)?;
    let from = call.query.one("cursor").map(|text| signer.read_run(text, what)).transpose()?;
    let is_back = matches!(from, Some((_, Towards::Back)));
    let filter = Filter { oldest_first: filter.oldest_first != is_back, ..filter };
    let failure = call.query.one("failure");
    let Found { mut runs, next } =
        found(client, &filter, failure, from.map(|(place, _)| place), limit).await?;
    if is_back {
        runs.reverse();
    }
    let on = |place: Cursor| signer.write_run(place, Towards::On, what);
    let back = |place: Cursor| signer.write_run(place, Towards::Back, what);
    // Where we came from there is something; in the direction in which we go, the list says.
    let (next_cursor, prev_cursor) = match is_back {
        true => (runs.last().map(place).map(on), next.map(back)),
        false => (next.map(on), runs.first().map(place).filter(|_| from.is_some()).map(back)),
    };
    Ok(Pages { runs, next_cursor, prev_cursor })
}
