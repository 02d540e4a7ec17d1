//! The audit log as a chain: lines are added to its end, and forgotten from its beginning.
//!
//! Whoever adds lines or forgets some locks the chain's one row first, so that of any number of servers each sees where the
//! one before it ended. A server adds all the lines that wait at once (`Gather`): what is waited for is shared.

use std::collections::HashSet;

use outlast_core::Timestamp;
use uuid::Uuid;

use super::access::HOME;
use super::claim::NOW;
use super::flight::{Flight, Place};
use crate::chain::hash_of;
use crate::reads::{audit_columns, read_audit};
use crate::rows::{ReadRow, cells, micros, plain};
use crate::{AuditNote, Cell, Link, Row, Sql, StoreError, Tx, Type};

/// Adds lines, those that are not there yet.
pub(crate) async fn note(tx: &mut dyn Tx, notes: &[AuditNote]) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = notes.iter().map(|note| note.id).collect();
    let (mut end, [known, now]) =
        locked(tx, [AUDIT_KNOWN.with(cells![HOME, Cell::Ids(ids)]), NOW.with(cells![])]).await?;
    let mut known = known.iter().map(|row| row.id(0)).collect::<Result<HashSet<Uuid>, _>>()?;
    let at = now.first().map_or(Ok(Timestamp::from_micros(0)), |row| row.time(0))?;
    let mut rows = Vec::new();
    for note in notes.iter().filter(|note| known.insert(note.id)) {
        let note = stored(note);
        end = Link { hash: hash_of(&end.hash, end.place + 1, &note, at), place: end.place + 1 };
        let AuditNote {
            id,
            tenant,
            actor,
            token,
            action,
            target,
            reason,
            request,
            status,
            ip,
            before,
            after,
        } = note;
        rows.push(cells![
            id, tenant, actor, token, action, target, reason, request, status, ip, before, after, end.place,
            &*end.hash
        ]);
    }
    let mut flight = Flight::default();
    if flight.each(&AUDIT_PUT, rows, cells![HOME, at]).is_some() {
        flight.add(CHAIN_MOVE.with(cells![HOME, end.place, end.hash]));
    }
    flight.send_last(tx).await?;
    Ok(())
}

/// Forgets lines that are older than `keep`, the first of the chain first, and gives those a place that have none; says how
/// many were forgotten.
///
/// Only what all lines before it have in common is forgotten: a line that a clock which was set back made older than the one
/// before it stays as long as that.
pub(crate) async fn forget(
    tx: &mut dyn Tx,
    keep: std::time::Duration,
    limit: u32,
) -> Result<u32, StoreError> {
    let keep = micros(keep);
    let (mut end, [gone, old, loose]) = locked(
        tx,
        [
            LOOSE_FORGET.with(cells![HOME, keep, limit]),
            CHAIN_OLD.with(cells![HOME, keep, limit]),
            AUDIT_LOOSE.with(cells![HOME, limit]),
        ],
    )
    .await?;
    let mut flight = Flight::default();
    let mut forgotten = gone.len();
    let mut begin = None;
    for row in &old {
        if row.int(2)? == 0 {
            break;
        }
        begin = Some((row.int(0)?, row.text(1)?));
        forgotten += 1;
    }
    if let Some((place, hash)) = begin {
        flight.add(CHAIN_CUT.with(cells![HOME, place]));
        flight.add(CHAIN_BEGIN.with(cells![HOME, place, hash]));
    }
    let mut rows = Vec::new();
    for row in &loose {
        let view = read_audit(row)?;
        end = Link { hash: hash_of(&end.hash, end.place + 1, &view.note, view.at), place: end.place + 1 };
        rows.push(cells![view.note.id, end.place, &*end.hash]);
    }
    if flight.each(&AUDIT_PLACE, rows, cells![HOME]).is_some() {
        flight.add(CHAIN_MOVE.with(cells![HOME, end.place, end.hash]));
    }
    flight.send_last(tx).await?;
    Ok(u32::try_from(forgotten).unwrap_or(u32::MAX).min(limit))
}

/// A line as it will be read again.
fn stored(note: &AuditNote) -> AuditNote {
    let AuditNote { tenant, actor, action, target, reason, request, ip, before, after, .. } = note;
    let some = |text: &Option<String>| text.as_deref().map(plain);
    AuditNote {
        tenant: plain(tenant),
        actor: plain(actor),
        action: plain(action),
        target: plain(target),
        reason: some(reason),
        request: plain(request),
        ip: some(ip),
        before: some(before),
        after: some(after),
        ..*note
    }
}

/// Locks the chain, which is begun where there is none; gives its end, and what these statements find behind the lock.
async fn locked<const N: usize>(
    tx: &mut dyn Tx,
    asks: [crate::Call; N],
) -> Result<(Link, [Vec<Row>; N]), StoreError> {
    let mut is_new = false;
    loop {
        let mut flight = Flight::default();
        if is_new {
            flight.add(CHAIN_MAKE.with(cells![HOME]));
        }
        let chain = flight.add(CHAIN_LOCK.with(cells![HOME]));
        let places: [Place; N] = asks.clone().map(|ask| flight.add(ask));
        let mut answers = flight.send(tx).await?;
        match answers.take(chain).first() {
            Some(row) => {
                let end = Link { place: row.int(0)?, hash: row.text(1)? };
                return Ok((end, places.map(|place| answers.take(place))));
            }
            None if is_new => return Err(StoreError::Conflict("the row of the chain is gone".into())),
            None => is_new = true,
        }
    }
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &CHAIN_LOCK,
    &CHAIN_MAKE,
    &CHAIN_MOVE,
    &CHAIN_OLD,
    &CHAIN_CUT,
    &CHAIN_BEGIN,
    &AUDIT_KNOWN,
    &AUDIT_PUT,
    &AUDIT_LOOSE,
    &AUDIT_PLACE,
    &LOOSE_FORGET,
];

static CHAIN_LOCK: Sql = Sql::new(
    "chain_lock",
    "select c.place, c.hash from outlast.audit_chain as c where c.shard = {p1} {for_update}",
)
.takes(&[Type::Int]);

// Where somebody took the row away, lines go on behind the last that is there; what is missing is found by whoever verifies.
static CHAIN_MAKE: Sql = Sql::new(
    "chain_make",
    "insert into outlast.audit_chain (shard, place, hash, begin_place, begin_hash, begun_at)
     select {p1}, coalesce(max(l.place), 0), coalesce(max(l.hash), ''), 0, '', {now}
       from (select a.place, a.hash from outlast.audit as a
              where a.shard = {p1} and a.place > 0 order by a.place desc limit 1) as l
      where true on conflict do nothing",
)
.takes(&[Type::Int]);

static CHAIN_MOVE: Sql =
    Sql::new("chain_move", "update outlast.audit_chain set place = {p2}, hash = {p3} where shard = {p1}")
        .takes(&[Type::Int, Type::Int, Type::Text]);

static CHAIN_OLD: Sql = Sql::new(
    "chain_old",
    "select a.place, a.hash, case when a.at < {now} - {p2} then 1 else 0 end
       from outlast.audit as a where a.shard = {p1} and a.place > 0 order by a.place limit {p3}",
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("audit_by_place");

static CHAIN_CUT: Sql =
    Sql::new("chain_cut", "delete from outlast.audit where shard = {p1} and place <= {p2}")
        .takes(&[Type::Int, Type::Int]);

static CHAIN_BEGIN: Sql = Sql::new(
    "chain_begin",
    "update outlast.audit_chain set begin_place = {p2}, begin_hash = {p3} where shard = {p1}",
)
.takes(&[Type::Int, Type::Int, Type::Text]);

static AUDIT_KNOWN: Sql =
    Sql::new("audit_known", "select a.id from outlast.audit as a where a.shard = {p1} and a.id {in:p2}")
        .takes(&[Type::Int, Type::Ids]);

static AUDIT_PUT: Sql = Sql::new(
    "audit_put",
    "insert into outlast.audit (shard, id, at, tenant, actor, token, action, target, reason, request, status, ip, before,
                                after, place, hash)
     select {p1}, b.id, {p2}, b.tenant, b.actor, b.token, b.action, b.target, b.reason, b.request, b.status, b.ip, b.before,
            b.after, b.place, b.hash
       from {batch}",
)
.rows(&[
    ("id", Type::Id),
    ("tenant", Type::Text),
    ("actor", Type::Text),
    ("token", Type::Id),
    ("action", Type::Text),
    ("target", Type::Text),
    ("reason", Type::Text),
    ("request", Type::Text),
    ("status", Type::Int),
    ("ip", Type::Text),
    ("before", Type::Text),
    ("after", Type::Text),
    ("place", Type::Int),
    ("hash", Type::Text),
])
.takes(&[Type::Int, Type::Int]);

// What is older than the chain is in none, and goes when it was kept long enough.
static AUDIT_LOOSE: Sql = Sql::new(
    "audit_loose",
    concat!(
        audit_columns!(),
        "where a.shard = {p1} and a.place is null
           and a.at >= (select c.begun_at from outlast.audit_chain as c where c.shard = {p1})
         order by a.at, a.id limit {p2}"
    ),
)
.takes(&[Type::Int, Type::Int])
.by("audit_loose");

static AUDIT_PLACE: Sql = Sql::new(
    "audit_place",
    "update outlast.audit set place = b.place, hash = b.hash
       from {batch} where outlast.audit.shard = {p1} and outlast.audit.id = b.id and outlast.audit.place is null",
)
.rows(&[("id", Type::Id), ("place", Type::Int), ("hash", Type::Text)])
.takes(&[Type::Int]);

static LOOSE_FORGET: Sql = Sql::new(
    "loose_forget",
    "delete from outlast.audit where shard = {p1} and id in (
         select a.id from outlast.audit as a
          where a.shard = {p1} and a.place is null and a.at < {now} - {p2} order by a.at, a.id limit {p3} {skip_locked})
     returning id",
)
.takes(&[Type::Int, Type::Int, Type::Int]);
