//! Looks, page by page, whether something wakes every unfinished run, and whether rows contradict each other.
//!
//! A page is one snapshot, so a run that moves meanwhile is seen before or after: a run that is found here really had
//! nothing that wakes it. Only what is suspended without a time has to be looked at more closely.

use outlast_core::{Holder, RunId, ShardCount, Stand, Status, wake_source};
use uuid::Uuid;

use super::never;
use super::waits::{Suspended, waits};
use crate::rows::{ReadRow, cells};
use crate::transitions::Flight;
use crate::{Sql, StoreError, Tx, Type, Unwakeable, VerifyMark, VerifyPage};

/// One page: at most `limit` runs are looked at.
pub(crate) async fn verify(
    tx: &mut dyn Tx,
    from: VerifyMark,
    limit: u32,
    shards: ShardCount,
) -> Result<VerifyPage, StoreError> {
    let limit = limit.max(1);
    let mut page = VerifyPage::default();
    let last = if from.in_line {
        lost(tx, from, limit, &mut page).await?
    } else {
        in_line(tx, from, limit, shards, &mut page).await?
    };
    Flight::default().send_last(tx).await?;
    page.next = match last {
        Some(after) => Some(VerifyMark { after: Some(after), ..from }),
        None if from.shard + 1 < shards.max(1) => {
            Some(VerifyMark { shard: from.shard + 1, after: None, ..from })
        }
        None if !from.in_line => Some(VerifyMark { in_line: true, shard: 0, after: None }),
        None => None,
    };
    Ok(page)
}

/// Looks at runs that are in line; gives the last of them if there may be more.
async fn in_line(
    tx: &mut dyn Tx,
    from: VerifyMark,
    limit: u32,
    shards: ShardCount,
    page: &mut VerifyPage,
) -> Result<Option<RunId>, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(VERIFY_AGENDA.with(cells![from.shard, after(from), limit]));
    let rows = flight.send(tx).await?.take(place);
    let mut stands: Vec<(RunId, Stand)> = Vec::with_capacity(rows.len());
    for row in &rows {
        let node = row.opt_node(3)?;
        let lease_until = row.opt_time(4)?;
        let holder = node.map(|node| Holder { node, name: node.to_string(), lease_until });
        let stand = Stand {
            status: row.status(1)?,
            due_at: row.opt_time(2)?,
            holder,
            reason: row.opt_text(5)?,
            waits: Vec::new(),
        };
        stands.push((row.run(0)?, stand));
    }
    let is_open =
        |stand: &Stand| stand.status == Status::Waiting && stand.due_at.is_none() && stand.holder.is_none();
    let mut open = Vec::new();
    for ((run, stand), row) in stands.iter().zip(&rows) {
        if is_open(stand) {
            let asked_to_stop = row.opt_text(6)?.is_some();
            open.push(Suspended { run: *run, due_at: None, asked_to_stop });
        }
    }
    let mut found = if open.is_empty() { Default::default() } else { waits(tx, &open, shards).await? };
    for (run, stand) in &mut stands {
        stand.waits = found.remove(run).unwrap_or_default();
        match wake_source(stand) {
            Ok(source) => *page.wakes.entry(source).or_default() += 1,
            Err(detail) => {
                page.without.push(Unwakeable { run: *run, status: Some(stand.status), detail });
            }
        }
    }
    Ok(stands.last().map(|(run, _)| *run).filter(|_| rows.len() >= limit as usize))
}

/// Looks for runs that are neither in line nor ended, and for rows that contradict each other; gives the last run that was looked at if there may be more.
async fn lost(
    tx: &mut dyn Tx,
    from: VerifyMark,
    limit: u32,
    page: &mut VerifyPage,
) -> Result<Option<RunId>, StoreError> {
    let mut flight = Flight::default();
    let bound = flight.add(VERIFY_BOUND.with(cells![from.shard, after(from), limit]));
    let last = flight.send(tx).await?.take(bound);
    let last = last.first().map(|row| row.run(0)).transpose()?;
    let mut flight = Flight::default();
    let upto = last.map_or(Uuid::max(), RunId::uuid);
    let found = flight.add(VERIFY_LOST.with(cells![from.shard, after(from), upto]));
    for row in flight.send(tx).await?.take(found) {
        let detail = "it has neither ended nor stands in line".to_owned();
        page.without.push(Unwakeable { run: row.run(0)?, status: None, detail });
    }
    page.contradictions = never::contradictions(tx, from.shard, after(from), upto).await?;
    Ok(last)
}

fn after(from: VerifyMark) -> Uuid {
    from.after.map_or(Uuid::nil(), RunId::uuid)
}

pub(super) static STATEMENTS: &[&Sql] = &[&VERIFY_AGENDA, &VERIFY_BOUND, &VERIFY_LOST];

static VERIFY_AGENDA: Sql = Sql::new(
    "verify_agenda",
    "select a.id, a.status, a.due_at, a.node, n.lease_until, a.reason, a.cancel_reason
       from outlast.agenda as a left join outlast.members as n on n.shard = a.shard and n.id = a.node
      where a.shard = {p1} and a.id > {p2} order by a.id limit {p3}",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

// The last run of a full page.
static VERIFY_BOUND: Sql = Sql::new(
    "verify_bound",
    "select r.id from outlast.runs as r where r.shard = {p1} and r.id > {p2}
      order by r.id limit 1 offset {p3} - 1",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

static VERIFY_LOST: Sql = Sql::new(
    "verify_lost",
    "select r.id from outlast.runs as r
      where r.shard = {p1} and r.id > {p2} and r.id <= {p3}
        and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = r.id)
        and not exists (select 1 from outlast.results as z where z.shard = {p1} and z.run = r.id)",
)
.takes(&[Type::Int, Type::Id, Type::Id]);
