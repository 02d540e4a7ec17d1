//! Claims on SQLite, which cannot say what a row was before an update, but whose flights go nowhere: look by look.
//!
//! Most claims find nothing, and most others a few runs. So the first look is at what is due first, whoever may take it. A few
//! that are due are read as they are, and chosen from here; only where there are more are the lines asked one by one, so
//! that the cost does not depend on how many runs wait.

use outlast_core::{Status, Timestamp};

use super::claim::{CLAIMED_BEFORE, Found, LEAST_URGENT, TAKE, UNREAD, first_time, from, wanted};
use super::flight::Flight;
use crate::rows::{ReadRow, cells, ids};
use crate::{Cell, Claim, Row, Sql, StoreError, Tx, Type};

/// As many due runs are read to choose from.
const FEW: usize = 32;

/// Takes what is due, and looks what comes next.
pub(super) async fn find(tx: &mut dyn Tx, ask: &Claim) -> Result<Found, StoreError> {
    let mut flight = Flight::default();
    let look = flight.add(CLAIM_LOOK.with(cells![ask.shard, ask.node, ask.number]));
    let soonest = flight.add(SOONEST.with(cells![ask.shard, from(ask)]));
    let mut answers = flight.send(tx).await?;
    let soonest = answers.take(soonest).pop();
    let (mut found, mut is_again) = (Found::default(), false);
    if let Some(row) = answers.take(look).first() {
        (found.now, found.fenced) = (row.time(0)?, row.opt_int(1)?.is_some());
        is_again = row.opt_int(2)?.is_some();
    }
    if !found.fenced {
        Flight::default().send_last(tx).await?;
        return Ok(found);
    }
    let until = found.now + ask.early;
    let is_due = soonest.as_ref().map_or(Ok(false), |row| row.time(0).map(|due| due <= until))?;
    let mut next = if is_due { Next::Behind(until) } else { Next::First(soonest) };
    if is_again {
        let mut flight = Flight::default();
        let before = flight.add(CLAIMED_BEFORE.with(cells![ask.shard, ask.node, ask.number]));
        found.before = flight.send(tx).await?.take(before);
        next = Next::OfLines;
    } else if is_due {
        next = pick(tx, ask, until, &mut found, next).await?;
    }

    let rows = if is_again { &found.before } else { &found.picked };
    let runs = rows.iter().map(|row| row.run(0)).collect::<Result<Vec<_>, _>>()?;
    let mut told = Vec::new();
    for (run, row) in runs.iter().zip(rows) {
        if row.int(8)? > 0 {
            told.push(*run);
        }
    }
    let mut flight = Flight::default();
    if !is_again {
        let taken = runs.iter().map(|run| cells![*run]).collect();
        flight.each(&TAKE, taken, cells![ask.shard, ask.node, ask.number, Status::Running]);
    }
    let unread = (!told.is_empty()).then(|| flight.add(UNREAD.with(cells![ask.shard, ids(&told)])));
    found.unread = flight.send(tx).await?.take_any(unread);
    if runs.len() < ask.limit as usize {
        found.next_due = next_due(tx, ask, next).await?;
    }
    Flight::default().send_last(tx).await?;
    Ok(found)
}

/// Where to look for what is due next.
enum Next {
    /// It is this, or there is none, unless it is for others.
    First(Option<Row>),
    /// What is due then is ours and was not taken.
    At(Timestamp),
    /// The first that is due later than this.
    Behind(Timestamp),
    /// In every line.
    OfLines,
}

/// Picks what is due until then; says where to look for what comes next.
async fn pick(
    tx: &mut dyn Tx,
    ask: &Claim,
    until: Timestamp,
    found: &mut Found,
    next: Next,
) -> Result<Next, StoreError> {
    let mut flight = Flight::default();
    let due = flight.add(DUE.with(cells![ask.shard, from(ask), until, FEW as u32 + 1]));
    let due = flight.send(tx).await?.take(due);
    if due.len() <= FEW {
        let left = choose(due, ask, found)?;
        return Ok(left.map_or(next, Next::At));
    }
    let mut flight = Flight::default();
    let picked = flight.add(PICK.with(wanted(ask)));
    found.picked = flight.send(tx).await?.take(picked);
    Ok(Next::OfLines)
}

/// Of all that is due, those to take: most urgent first, then as the queues were named, then oldest. Gives the time of the
/// first that is ours and may not be taken before it.
fn choose(due: Vec<Row>, ask: &Claim, found: &mut Found) -> Result<Option<Timestamp>, StoreError> {
    let (mut ours, mut left) = (Vec::new(), None);
    for row in due {
        let Some(place) = place(ask, &row.text(9)?, &row.text(4)?) else { continue };
        let at = row.time(3)?;
        if at <= found.now || row.status(10)? == Status::Waiting {
            ours.push(((row.int(2)?, place, at, row.run(0)?), row));
        } else {
            left = [left, Some(at)].into_iter().flatten().min();
        }
    }
    ours.sort_unstable_by_key(|(order, _)| *order);
    ours.truncate(ask.limit as usize);
    found.picked = ours.into_iter().map(|(_, row)| row).collect();
    Ok(left)
}

/// Where the queue of a run stands among those that are asked for; `None` for a run that is for others.
fn place(ask: &Claim, queue: &str, code: &str) -> Option<usize> {
    let place = ask.queues.iter().position(|ours| ours == queue)?;
    ask.codes.iter().any(|ours| ours == code).then_some(place)
}

/// When the next run of ours is due.
async fn next_due(tx: &mut dyn Tx, ask: &Claim, next: Next) -> Result<Option<Timestamp>, StoreError> {
    let first = match next {
        Next::At(time) => return Ok(Some(time)),
        Next::First(first) => first,
        Next::Behind(time) => {
            let mut flight = Flight::default();
            let first = flight.add(SOONEST.with(cells![ask.shard, time.micros() + 1]));
            flight.send(tx).await?.take(first).pop()
        }
        Next::OfLines => return of_lines(tx, ask).await,
    };
    let Some(first) = first else { return Ok(None) };
    match place(ask, &first.text(1)?, &first.text(2)?) {
        Some(_) => first.time(0).map(Some),
        None => of_lines(tx, ask).await,
    }
}

async fn of_lines(tx: &mut dyn Tx, ask: &Claim) -> Result<Option<Timestamp>, StoreError> {
    let texts = |texts: &[String]| Cell::Texts(texts.to_vec());
    let mut flight = Flight::default();
    let lines = cells![ask.shard, texts(&ask.codes), texts(&ask.queues), from(ask)];
    let next = flight.add(NEXT_DUE_OF_ALL.with(lines));
    first_time(&flight.send(tx).await?.take(next))
}

pub(crate) static STATEMENTS: &[&Sql] = &[&CLAIM_LOOK, &SOONEST, &DUE, &PICK, &NEXT_DUE_OF_ALL];

// The time, the fence, and whether an earlier try of this claim took something.
static CLAIM_LOOK: Sql = Sql::new("claim_look", "")
    .on_sqlite(
        "select {now}, (select 1 from outlast.nodes as n where n.shard = {p1} and n.id = {p2}),
                (select 1 from outlast.agenda as a
                  where a.shard = {p1} and a.node = {p2} and a.claim = {p3} limit 1)",
    )
    .takes(&[Type::Int, Type::Id, Type::Int])
    .by("agenda_node");

static SOONEST: Sql = Sql::new("claim_soonest", "")
    .on_sqlite(
        "select a.due_at, a.queue, a.code from outlast.agenda as a
          where a.shard = {p1} and a.due_at >= {p2} order by a.due_at limit 1",
    )
    .takes(&[Type::Int, Type::Int])
    .by("agenda_next");

static DUE: Sql = Sql::new("claim_due", "")
    .on_sqlite(
        "select a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news, a.queue,
                a.status
           from outlast.agenda as a where a.shard = {p1} and a.due_at >= {p2} and a.due_at <= {p3} order by a.due_at limit {p4}",
    )
    .takes(&[Type::Int, Type::Int, Type::Int, Type::Int])
    .by("agenda_next");

// SQLite keeps the order of a `cross join` and reads a line in the order of its index.
static PICK: Sql = Sql::new("claim_pick_rows", "")
    .on_sqlite(
        "with g(priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
         select a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news
           from g cross join json_each({p2}) as q cross join outlast.agenda as a
          where a.shard = {p1} and a.queue = q.value and a.priority = g.priority
            and a.due_at >= {p7} and a.due_at <= {now} + {p5} and (a.due_at <= {now} or a.status = {p6})
            and a.code {in:p3}
          limit {p4}",
    )
    .takes(&[Type::Int, Type::Texts, Type::Texts, Type::Int, Type::Int, Type::Int, Type::Int])
    .by("agenda_due");

// The text below names every priority.
const _: () = assert!(LEAST_URGENT == 9);

// All lines at once: SQLite takes a batch row by row, and would read the codes anew for each.
static NEXT_DUE_OF_ALL: Sql = Sql::new("claim_next_due_of_all", "")
    .on_sqlite(
        "with g(priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
         select min((select a.due_at from outlast.agenda as a
                      where a.shard = {p1} and a.queue = q.value and a.priority = g.priority
                        and a.due_at >= {p4} and a.code {in:p2}
                      order by a.due_at limit 1))
           from g cross join json_each({p3}) as q",
    )
    .takes(&[Type::Int, Type::Texts, Type::Texts, Type::Int])
    .by("agenda_due");
