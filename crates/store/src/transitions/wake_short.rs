//! The short way of a wake: an event to a run that waits, and the claim of it, in a single statement.
//!
//! PostgreSQL only, where a round trip is what a wake costs. The run's row is locked, or passed over, and has to
//! be found waiting; the node's row is held against a takeover in the same statement. Whoever suspended the run
//! had read all its news then, so the message is all that is new. What this finds no way for (a message that came
//! before, a run that has changed, a lock) goes the long way.

use outlast_core::{Limits, Status};

use super::claim;
use crate::rows::{ReadRow, cells, payload_cells};
use crate::transitions::flight::Flight;
use crate::{
    Address, Claimed, Delivered, Delivery, Dialect, Hold, News, NewsKind, Sql, StoreError, Tx, Type,
};

/// Delivers an event and takes its run, or says `None`: then nothing is known of it.
pub(crate) async fn wake_short(
    tx: &mut dyn Tx,
    message: &Delivery,
    hold: Hold,
    epoch: i64,
) -> Result<Option<(Delivered, Option<Claimed>)>, StoreError> {
    let (Address::Run(run), NewsKind::Event, Dialect::Postgres) = (&message.to, message.kind, tx.dialect())
    else {
        Flight::default().send_last(tx).await?;
        return Ok(None);
    };
    let (codec, body) = payload_cells(message.body.as_ref());
    let held = cells![run.shard(), *run, epoch, hold.node, hold.claim];
    let said = cells![message.id, message.kind, &*message.name, codec, body];
    let rules = cells![Status::Waiting, Status::Running, Limits::INBOX];
    let mut flight = Flight::default();
    let taken = flight.add(WAKE_AND_TAKE.with([held, said, rules].concat()));
    let Some(row) = flight.send_last(tx).await?.take(taken).pop() else { return Ok(None) };
    let mut claimed = claim::claimed_now(&row)?;
    let (name, body) = (message.name.clone(), message.body.clone());
    claimed.inbox = vec![News { seq: claimed.news, kind: message.kind, name, body, at: row.time(9)? }];
    Ok(Some((Delivered::Done { run: *run }, Some(claimed))))
}

pub(crate) static STATEMENTS: &[&Sql] = &[&WAKE_AND_TAKE];

static WAKE_AND_TAKE: Sql = Sql::new(
    "wake_and_take",
    "with fence as materialized (
         select n.id from outlast.nodes as n where n.shard = {p1} and n.id = {p4} {key_share}
     ), waits as materialized (
         select a.shard, a.id, a.news from outlast.agenda as a
          where a.shard = {p1} and a.id = {p2} and a.epoch = {p3} and a.status = {p11} and a.node is null
            and a.news < {p13}
         {skip_locked}
     ), fit as materialized (
         select w.shard, w.id, w.news + 1 as news, {now} as at from waits as w cross join fence
     ), noted as (
         insert into outlast.deliveries (shard, id, at) select f.shard, {p6}, f.at from fit as f
     ), put as (
         insert into outlast.inbox (shard, run, seq, kind, name, sent_at, codec, body)
         select f.shard, f.id, f.news, {p7}, {p8}, f.at, {p9}, {p10} from fit as f
     )
     update outlast.agenda as a
        set news = f.news, node = {p4}, claim = {p5}, epoch = a.epoch + 1, status = {p12}, due_at = null
       from fit as f where a.shard = f.shard and a.id = f.id
     returning a.id, a.epoch, a.priority, a.due_at, a.code, a.attempt, a.crashes, a.expires_at, a.news, f.at",
)
.on_sqlite("")
.takes(&[
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Text,
    Type::Text,
    Type::Bytes,
    Type::Int,
    Type::Int,
    Type::Int,
])
.by("agenda_pkey");
