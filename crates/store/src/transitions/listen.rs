//! Listens for the end of a run: what a parent hears of its child, any other run can hear too.
//!
//! A listener is noted under the lock of the run's row, and whoever ends the run holds the same lock: it
//! either sees the listener, or the listener sees the end. The row itself says that somebody listens, so that
//! whoever locks it need not look any further when nobody does.

use std::collections::HashMap;

use outlast_core::RunId;

use super::agenda::{self, ByShard, by_shard};
use super::flight::{Answers, Flight, Place};
use super::post::{Post, Receiver};
use crate::rows::{self, ReadRow, cells, ids};
use crate::sql::look_each;
use crate::{Ended, Listen, Listened, NewsKind, Sql, StoreError, Tx, Type};

/// Who hears of a run's end, and under what name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) run: RunId,
    pub(crate) name: String,
}

/// Notes a listener of a run that goes on; the end of one that has ended is told at once. A repeat finds
/// the note, or the end unread in the inbox, and adds nothing.
pub(crate) async fn listen(tx: &mut dyn Tx, ask: &Listen) -> Result<Listened, StoreError> {
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &by_shard([ask.run]), true);
    let end = flight.add(LISTEN_END.with(cells![ask.run.shard(), ask.run]));
    let mut answers = flight.send(tx).await?;
    let goes_on = agenda::found(&mut answers, &locks)?.contains_key(&ask.run);
    let end = answers.take(end).first().map(|row| rows::ended(row, 0)).transpose()?;

    let mut flight = Flight::default();
    let answer = match end {
        _ if goes_on => {
            flight.add(LISTENERS_ADD.with(cells![ask.run.shard(), ask.run, ask.listener, &*ask.name]));
            flight.add(LISTENERS_SAY.with(cells![ask.run.shard(), ask.run]));
            Listened::Noted
        }
        Some(end) => {
            tell_once(tx, ask, &end).await?.add(&mut flight, tx);
            Listened::Ended
        }
        None => Listened::Unknown,
    };
    flight.send_last(tx).await?;
    Ok(answer)
}

/// The end of a run for a listener that may have it unread: told when the run ended, or by an earlier try.
async fn tell_once(tx: &mut dyn Tx, ask: &Listen, end: &Ended) -> Result<Post, StoreError> {
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &by_shard([ask.listener]), true);
    let unread = cells![ask.listener.shard(), ask.listener, NewsKind::Child, &*ask.name];
    let unread = flight.add(LISTEN_UNREAD.with(unread));
    let mut answers = flight.send(tx).await?;
    let mut post = Post::to(agenda::found(&mut answers, &locks)?);
    if answers.take(unread).is_empty() {
        tell(&mut post, &[Listener { run: ask.listener, name: ask.name.clone() }], end);
    }
    Ok(post)
}

/// Puts the end of a run into the inboxes of those `listeners` whose rows are locked; one without a row has
/// ended.
pub(crate) fn tell(post: &mut Post, listeners: &[Listener], end: &Ended) {
    if listeners.is_empty() {
        return;
    }
    let body = end.to_payload();
    for listener in listeners {
        post.put(&Receiver::Run(listener.run), NewsKind::Child, &listener.name, Some(&body));
    }
}

/// Adds looks at who listens to `runs`. Behind the locks of these: nobody comes later.
pub(crate) fn add_looks(flight: &mut Flight, runs: &ByShard) -> Vec<Place> {
    runs.iter().map(|(shard, runs)| flight.add(LISTENERS.with(cells![*shard, ids(runs)]))).collect()
}

/// The listeners of each run that has some.
pub(crate) fn found(
    answers: &mut Answers,
    places: &[Place],
) -> Result<HashMap<RunId, Vec<Listener>>, StoreError> {
    let mut found: HashMap<RunId, Vec<Listener>> = HashMap::new();
    for place in places {
        for row in answers.take(*place) {
            let listener = Listener { run: row.run(1)?, name: row.text(2)? };
            found.entry(row.run(0)?).or_default().push(listener);
        }
    }
    Ok(found)
}

/// Nobody listens to these runs any more: they have been told.
pub(crate) fn add_clear(flight: &mut Flight, runs: &ByShard) {
    for (shard, runs) in runs {
        flight.add(LISTENERS_CLEAR.with(cells![*shard, ids(runs)]));
    }
}

pub(crate) static STATEMENTS: &[&Sql] =
    &[&LISTEN_END, &LISTEN_UNREAD, &LISTENERS_ADD, &LISTENERS_SAY, &LISTENERS, &LISTENERS_CLEAR];

static LISTEN_END: Sql = Sql::new(
    "listen_end",
    "select r.status, r.codec, r.output, r.error from outlast.results as r
      where r.shard = {p1} and r.run = {p2}",
)
.takes(&[Type::Int, Type::Id]);

static LISTEN_UNREAD: Sql = Sql::new(
    "listen_unread",
    "select i.seq from outlast.inbox as i
      where i.shard = {p1} and i.run = {p2} and i.kind = {p3} and i.name = {p4} limit 1",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Text]);

pub(super) static LISTENERS_ADD: Sql = Sql::new(
    "listeners_add",
    "insert into outlast.listeners (shard, run, listener, name) values ({p1}, {p2}, {p3}, {p4})
     on conflict do nothing",
)
.takes(&[Type::Int, Type::Id, Type::Id, Type::Text]);

pub(super) static LISTENERS_SAY: Sql =
    Sql::new("listeners_say", "update outlast.agenda set heard = 1 where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id]);

static LISTENERS: Sql = look_each!(
    "listeners",
    "select l.run, l.listener, l.name from outlast.listeners as l where l.shard = {p1} and l.run"
)
.takes(&[Type::Int, Type::Ids]);

pub(crate) static LISTENERS_CLEAR: Sql =
    Sql::new("listeners_clear", "delete from outlast.listeners where shard = {p1} and run {in:p2}")
        .takes(&[Type::Int, Type::Ids]);
