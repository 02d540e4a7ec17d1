//! Tokens and the audit log.

use outlast_core::Timestamp;

use crate::rows::{ReadRow, cells};
use crate::transitions::{ACCESS_HOME as HOME, Flight, read_token, token_columns};
use crate::{
    AuditList, AuditNote, AuditView, ChainList, ChainPage, ChainView, Link, Row, SessionView, Sql,
    StoreError, TokenView, Tx, Type,
};

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
        Some(target) => AUDIT_OF.with(cells![
            HOME,
            time,
            id,
            ask.tenant.clone(),
            ask.limit,
            ask.kind.clone(),
            target.clone()
        ]),
        None => AUDIT.with(cells![HOME, time, id, ask.tenant.clone(), ask.limit, ask.kind.clone()]),
    });
    flight.send_last(tx).await?.take(lines).iter().map(read_audit).collect()
}

/// Lines of the audit log's chain, in its order, and what it says of itself.
pub(crate) async fn audit_chain(tx: &mut dyn Tx, ask: ChainList) -> Result<ChainPage, StoreError> {
    let mut flight = Flight::default();
    let chain = flight.add(CHAIN.with(cells![HOME]));
    // One more than asked for says whether there are more.
    let lines = flight.add(CHAIN_LINES.with(cells![HOME, ask.after, ask.limit.saturating_add(1)]));
    let loose = flight.add(LOOSE_COUNT.with(cells![HOME]));
    let mut answers = flight.send_last(tx).await?;
    let chain = answers.take(chain).first().map(read_chain).transpose()?;
    let mut lines = answers.take(lines).iter().map(read_line).collect::<Result<Vec<_>, _>>()?;
    let more = lines.len() > ask.limit as usize;
    lines.truncate(ask.limit as usize);
    let (mut loose_lines, mut older) = (0, 0);
    for row in answers.take(loose) {
        let count = u64::try_from(row.int(1)?).unwrap_or_default();
        *(if row.int(0)? == 1 { &mut older } else { &mut loose_lines }) += count;
    }
    Ok(ChainPage { chain, lines, loose: loose_lines, older, more })
}

fn read_chain(row: &Row) -> Result<ChainView, StoreError> {
    Ok(ChainView {
        end: Link { place: row.int(0)?, hash: row.text(1)? },
        begin: Link { place: row.int(2)?, hash: row.text(3)? },
        begun_at: row.time(4)?,
    })
}

fn read_line(row: &Row) -> Result<(Link, AuditView), StoreError> {
    let view = read_audit(row)?;
    let link = Link { place: view.place.unwrap_or_default(), hash: row.opt_text(14)?.unwrap_or_default() };
    Ok((link, view))
}

/// A line from `audit_columns!`.
pub(crate) fn read_audit(row: &Row) -> Result<AuditView, StoreError> {
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
        ip: row.opt_text(10)?,
        before: row.opt_text(11)?,
        after: row.opt_text(12)?,
    };
    Ok(AuditView { note, at: row.time(1)?, place: row.opt_int(13)? })
}

pub(super) static STATEMENTS: &[&Sql] = &[
    &TOKEN_BY_HASH,
    &SESSION,
    &TOKEN_OF_SESSION,
    &TOKENS,
    &AUDIT,
    &AUDIT_OF,
    &CHAIN,
    &CHAIN_LINES,
    &LOOSE_COUNT,
];

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

/// The columns of [`read_audit`].
macro_rules! audit_columns {
    () => {
        "select a.id, a.at, a.tenant, a.actor, a.token, a.action, a.target, a.reason, a.request, a.status, a.ip, a.before,
                a.after, a.place, a.hash
           from outlast.audit as a "
    };
}
pub(crate) use audit_columns;

macro_rules! audit_text {
    ($of:literal) => {
        concat!(
            audit_columns!(),
            "where a.shard = {p1} and (a.at, a.id) < ({p2}, {p3}) and ({p4} is null or a.tenant = {p4})
               and ({p6} is null or substr(a.action, 1, length({p6}) + 1) = {p6} || '.') ",
            $of,
            " order by a.at desc, a.id desc limit {p5}"
        )
    };
}

static AUDIT: Sql = Sql::new("audit", audit_text!("")).takes(&[
    Type::Int,
    Type::Int,
    Type::Id,
    Type::Text,
    Type::Int,
    Type::Text,
]);

static AUDIT_OF: Sql = Sql::new("audit_of", audit_text!("and a.target = {p7}"))
    .takes(&[Type::Int, Type::Int, Type::Id, Type::Text, Type::Int, Type::Text, Type::Text])
    .by("audit_by_target");

static CHAIN: Sql = Sql::new(
    "chain",
    "select c.place, c.hash, c.begin_place, c.begin_hash, c.begun_at from outlast.audit_chain as c where c.shard = {p1}",
)
.takes(&[Type::Int]);

static CHAIN_LINES: Sql = Sql::new(
    "chain_lines",
    concat!(audit_columns!(), "where a.shard = {p1} and a.place > {p2} order by a.place limit {p3}"),
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("audit_by_place");

static LOOSE_COUNT: Sql = Sql::new(
    "loose_count",
    "select case when c.begun_at <= a.at then 0 else 1 end, count(*)
       from outlast.audit as a left join outlast.audit_chain as c on c.shard = a.shard
      where a.shard = {p1} and a.place is null group by 1",
)
.takes(&[Type::Int]);
