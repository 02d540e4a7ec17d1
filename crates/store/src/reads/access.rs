//! Tokens and the audit log.

use outlast_core::Timestamp;

use crate::rows::{ReadRow, cells};
use crate::transitions::{ACCESS_HOME as HOME, Flight, read_token, token_columns};
use crate::{AuditList, AuditNote, AuditView, Row, SessionView, Sql, StoreError, TokenView, Tx, Type};

/// The token with this hash.
pub(crate) async fn token(tx: &mut dyn Tx, hash: &[u8]) -> Result<Option<TokenView>, StoreError> {
    let mut flight = Flight::default();
    let found = flight.add(TOKEN_BY_HASH.with(cells![HOME, bytes::Bytes::copy_from_slice(hash)]));
    flight.send_last(tx).await?.take(found).first().map(read_token).transpose()
}

/// The session with this hash, and its token.
pub(crate) async fn session(tx: &mut dyn Tx, hash: &[u8]) -> Result<Option<SessionView>, StoreError> {
    let mut flight = Flight::default();
    let hash = bytes::Bytes::copy_from_slice(hash);
    let session = flight.add(SESSION.with(cells![HOME, hash.clone()]));
    let token = flight.add(TOKEN_OF_SESSION.with(cells![HOME, hash]));
    let mut answers = flight.send_last(tx).await?;
    let (session, token) = (answers.take(session), answers.take(token));
    let (Some(session), Some(token)) = (session.first(), token.first()) else { return Ok(None) };
    let (created_at, seen_at) = (session.time(0)?, session.time(1)?);
    Ok(Some(SessionView { token: read_token(token)?, created_at, seen_at }))
}

/// All tokens, newest first.
pub(crate) async fn tokens(tx: &mut dyn Tx) -> Result<Vec<TokenView>, StoreError> {
    let mut flight = Flight::default();
    let all = flight.add(TOKENS.with(cells![HOME]));
    flight.send_last(tx).await?.take(all).iter().map(read_token).collect()
}

/// Lines of the audit log, newest first.
pub(crate) async fn audit(tx: &mut dyn Tx, ask: &AuditList) -> Result<Vec<AuditView>, StoreError> {
    let (time, id) = match ask.before {
        Some((time, id)) => (time, id),
        None => (Timestamp::from_micros(i64::MAX), uuid::Uuid::max()),
    };
    let mut flight = Flight::default();
    let lines = flight.add(match &ask.target {
        Some(target) => AUDIT_OF.with(cells![HOME, time, id, ask.tenant.clone(), ask.limit, target.clone()]),
        None => AUDIT.with(cells![HOME, time, id, ask.tenant.clone(), ask.limit]),
    });
    flight.send_last(tx).await?.take(lines).iter().map(read).collect()
}

fn read(row: &Row) -> Result<AuditView, StoreError> {
    let note = AuditNote {
        id: row.id(0)?,
        tenant: row.text(2)?,
        actor: row.text(3)?,
        token: row.opt_id(4)?,
        action: row.text(5)?,
        target: row.text(6)?,
        reason: row.opt_text(7)?,
        request: row.text(8)?,
        status: row.number(9)?,
    };
    Ok(AuditView { note, at: row.time(1)? })
}

pub(super) static STATEMENTS: &[&Sql] =
    &[&TOKEN_BY_HASH, &SESSION, &TOKEN_OF_SESSION, &TOKENS, &AUDIT, &AUDIT_OF];

static TOKEN_BY_HASH: Sql = Sql::new("token_by_hash", concat!(token_columns!(), "and t.hash = {p2}"))
    .takes(&[Type::Int, Type::Bytes]);

static SESSION: Sql = Sql::new(
    "session",
    "select s.created_at, s.seen_at from outlast.sessions as s where s.shard = {p1} and s.hash = {p2}",
)
.takes(&[Type::Int, Type::Bytes]);

static TOKEN_OF_SESSION: Sql = Sql::new(
    "token_of_session",
    concat!(
        token_columns!(),
        "and t.id = (select s.token from outlast.sessions as s where s.shard = {p1} and s.hash = {p2})"
    ),
)
.takes(&[Type::Int, Type::Bytes]);

static TOKENS: Sql =
    Sql::new("tokens", concat!(token_columns!(), "order by t.created_at desc, t.id desc limit 1000"))
        .takes(&[Type::Int]);

macro_rules! audit_text {
    ($of:literal) => {
        concat!(
            "select a.id, a.at, a.tenant, a.actor, a.token, a.action, a.target, a.reason, a.request, a.status
               from outlast.audit as a
              where a.shard = {p1} and (a.at, a.id) < ({p2}, {p3}) and ({p4} is null or a.tenant = {p4}) ",
            $of,
            " order by a.at desc, a.id desc limit {p5}"
        )
    };
}

static AUDIT: Sql =
    Sql::new("audit", audit_text!("")).takes(&[Type::Int, Type::Int, Type::Id, Type::Text, Type::Int]);

static AUDIT_OF: Sql = Sql::new("audit_of", audit_text!("and a.target = {p6}"))
    .takes(&[Type::Int, Type::Int, Type::Id, Type::Text, Type::Int, Type::Text])
    .by("audit_by_target");
