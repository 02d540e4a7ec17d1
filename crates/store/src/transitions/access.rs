//! What the API keeps for itself: its key, tokens, the audit log, and answers to requests with an idempotency key.
//!
//! All of it is in the first shard: there is little of it, and none of it concerns a run.

use super::audit;
use super::flight::Flight;
use crate::rows::{ReadRow, cells, micros};
use crate::{Access, Accessed, Reply, Reserve, Row, Sql, StoreError, TokenCard, TokenView, Tx, Type};

/// The shard of all of it.
pub(crate) const HOME: u16 = 0;

/// Does what the API asks.
pub(crate) async fn access(tx: &mut dyn Tx, ask: &Access) -> Result<Accessed, StoreError> {
    let mut flight = Flight::default();
    match ask {
        Access::Key(key) => {
            flight.add(KEY_PUT.with(cells![&**key]));
            let look = flight.add(KEY_LOOK.with(cells![]));
            let rows = flight.send_last(tx).await?.take(look);
            return Ok(Accessed::Key(rows.first().map_or_else(|| Ok(key.clone()), |row| row.text(0))?));
        }
        Access::Token(card) => flight.add(TOKEN_PUT.with(cells![
            HOME,
            card.id,
            card.hash.clone(),
            &*card.subject,
            kept_role(card),
            card.tenant.clone(),
            &*card.by,
            card.expires_at,
            card.queues.as_ref().map(|queues| serde_json::json!(queues).to_string()),
        ])),
        Access::Revoke { token } => {
            flight.add(TOKEN_REVOKE.with(cells![HOME, *token]));
            let look = flight.add(TOKEN_LOOK.with(cells![HOME, *token]));
            let rows = flight.send_last(tx).await?.take(look);
            return rows.first().map(read_token).transpose().map(Accessed::Token);
        }
        Access::Used { token } => flight.add(TOKEN_USED.with(cells![HOME, *token])),
        Access::Session { hash, token, idle } => {
            flight.add(SESSIONS_EXPIRE.with(cells![HOME, micros(*idle)]));
            flight.add(SESSION_PUT.with(cells![HOME, hash.clone(), *token]))
        }
        Access::Redeem { ticket, hash, within } => {
            flight.add(SESSION_REDEEM.with(cells![HOME, ticket.clone(), hash.clone(), micros(*within)]));
            // Whoever repeats it finds what the first time made.
            let look = flight.add(SESSION_TOKEN.with(cells![HOME, hash.clone()]));
            let rows = flight.send_last(tx).await?.take(look);
            return rows.first().map(read_token).transpose().map(Accessed::Token);
        }
        Access::Seen { hash } => flight.add(SESSION_SEEN.with(cells![HOME, hash.clone()])),
        Access::Leave { hash } => flight.add(SESSION_END.with(cells![HOME, hash.clone()])),
        Access::Forget { keep, limit } => {
            return audit::forget(tx, *keep, *limit).await.map(Accessed::Forgotten);
        }
        Access::Note(note) => {
            audit::note(tx, std::slice::from_ref(note)).await?;
            return Ok(Accessed::Done);
        }
        Access::Reserve(ask) => return reserve(tx, ask).await,
        Access::Extend { holder, hold } => {
            flight.add(REPLY_EXTEND.with(cells![HOME, *holder, micros(*hold)]))
        }
        Access::Reply { holder, reply } => flight.add(REPLY_PUT.with(cells![
            HOME,
            *holder,
            reply.status,
            &*reply.headers,
            reply.body.clone()
        ])),
        Access::Release { holder } => flight.add(REPLY_RELEASE.with(cells![HOME, *holder])),
        Access::Yield { holder } => flight.add(REPLY_YIELD.with(cells![HOME, *holder])),
    };
    flight.send_last(tx).await?;
    Ok(Accessed::Done)
}

/// Gives a request to whoever asks first; to another when that one has lost the right to it.
async fn reserve(tx: &mut dyn Tx, ask: &Reserve) -> Result<Accessed, StoreError> {
    let mut flight = Flight::default();
    flight.add(REPLIES_EXPIRE.with(cells![HOME]));
    flight.add(REPLY_EXPIRE.with(cells![HOME, &*ask.actor, &*ask.key]));
    flight.add(REPLY_MAKE.with(cells![
        HOME,
        &*ask.actor,
        &*ask.key,
        &*ask.route,
        ask.body_hash.clone(),
        ask.seed,
        ask.holder,
        micros(ask.hold),
        micros(ask.keep),
    ]));
    let look = flight.add(REPLY_LOOK.with(cells![HOME, &*ask.actor, &*ask.key]));
    let rows = flight.send(tx).await?.take(look);
    let Some(row) = rows.first() else {
        // Somebody else's row, which is gone again: they are at it.
        Flight::default().send_last(tx).await?;
        return Err(StoreError::Conflict("the row of an idempotency key is gone".into()));
    };

    let mut flight = Flight::default();
    let seed = row.id(2)?;
    let changed = row.opt_int(9)?.map(|changed| changed == 1);
    let answer = if row.text(0)? != ask.route || row.bytes(1)? != ask.body_hash {
        Accessed::Other
    } else if let Some(status) = row.opt_int(5)? {
        let status = u16::try_from(status).unwrap_or(500);
        let (headers, body) = (row.opt_text(6)?.unwrap_or_default(), row.opt_bytes(7)?.unwrap_or_default());
        Accessed::Replied(Reply { status, headers, body })
    } else if row.id(3)? == ask.holder {
        Accessed::Reserved { seed, changed }
    } else if row.int(8)? == 1 {
        Accessed::Busy { until: row.time(4)? }
    } else {
        let holder = cells![HOME, &*ask.actor, &*ask.key, ask.holder, micros(ask.hold)];
        flight.add(REPLY_TAKE.with(holder));
        Accessed::Reserved { seed, changed }
    };
    flight.send_last(tx).await?;
    Ok(answer)
}

/// How the role of a token begins that is bound to queues. A program that knows nothing of those would let it do the same
/// everywhere: but it knows no such role, and lets nobody in with it.
const BOUND: &str = "queues:";

fn kept_role(card: &TokenCard) -> String {
    [if card.queues.is_some() { BOUND } else { "" }, &card.role].concat()
}

/// A token from `token_columns!`.
pub(crate) fn read_token(row: &Row) -> Result<TokenView, StoreError> {
    // What cannot be read binds it to no queue at all.
    let queues: Option<Vec<String>> =
        row.opt_text(10)?.map(|text| serde_json::from_str(&text).unwrap_or_default());
    let kept = row.text(3)?;
    // Without its queues it has a role that nobody knows.
    let role = kept.strip_prefix(BOUND).filter(|_| queues.is_some()).unwrap_or(&kept).to_owned();
    Ok(TokenView {
        card: TokenCard {
            id: row.id(0)?,
            hash: row.bytes(1)?,
            subject: row.text(2)?,
            role,
            tenant: row.opt_text(4)?,
            queues,
            by: row.text(5)?,
            expires_at: row.time(7)?,
        },
        created_at: row.time(6)?,
        used_at: row.opt_time(8)?,
        revoked_at: row.opt_time(9)?,
    })
}

/// The columns of [`read_token`].
macro_rules! token_columns {
    () => {
        "select t.id, t.hash, t.subject, t.role, t.tenant, t.created_by, t.created_at, t.expires_at, t.used_at,
                t.revoked_at, t.queues
           from outlast.tokens as t where t.shard = {p1} "
    };
}
pub(crate) use token_columns;

pub(crate) static STATEMENTS: &[&Sql] = &[
    &KEY_PUT,
    &KEY_LOOK,
    &TOKEN_PUT,
    &TOKEN_REVOKE,
    &TOKEN_LOOK,
    &TOKEN_USED,
    &SESSIONS_EXPIRE,
    &SESSION_PUT,
    &SESSION_REDEEM,
    &SESSION_TOKEN,
    &SESSION_SEEN,
    &SESSION_END,
    &REPLIES_EXPIRE,
    &REPLY_EXPIRE,
    &REPLY_MAKE,
    &REPLY_LOOK,
    &REPLY_TAKE,
    &REPLY_PUT,
    &REPLY_RELEASE,
    &REPLY_YIELD,
    &REPLY_EXTEND,
];

static KEY_PUT: Sql = Sql::new(
    "access_key_put",
    "insert into outlast.meta (name, value) values ('api_key', {p1}) on conflict do nothing",
)
.takes(&[Type::Text]);

static KEY_LOOK: Sql =
    Sql::new("access_key_look", "select m.value from outlast.meta as m where m.name = 'api_key'");

static TOKEN_PUT: Sql = Sql::new(
    "token_put",
    "insert into outlast.tokens (shard, id, hash, subject, role, tenant, created_by, created_at, expires_at, queues)
     values ({p1}, {p2}, {p3}, {p4}, {p5}, {p6}, {p7}, {now}, {p8}, {p9}) on conflict do nothing",
)
.takes(&[
    Type::Int,
    Type::Id,
    Type::Bytes,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Int,
    Type::Text,
]);

static TOKEN_REVOKE: Sql = Sql::new(
    "token_revoke",
    "update outlast.tokens set revoked_at = {now} where shard = {p1} and id = {p2} and revoked_at is null",
)
.takes(&[Type::Int, Type::Id]);

static TOKEN_LOOK: Sql =
    Sql::new("token_look", concat!(token_columns!(), "and t.id = {p2}")).takes(&[Type::Int, Type::Id]);

static TOKEN_USED: Sql = Sql::new(
    "token_used",
    "update outlast.tokens set used_at = {now}
      where shard = {p1} and id = {p2} and coalesce(used_at, 0) < {now} - 60000000",
)
.takes(&[Type::Int, Type::Id]);

// A few with each new one: as many as come go.
static SESSIONS_EXPIRE: Sql = Sql::new(
    "sessions_expire",
    "delete from outlast.sessions where shard = {p1} and hash in (
         select s.hash from outlast.sessions as s
          where s.shard = {p1} and s.seen_at <= {now} - {p2} order by s.seen_at limit 10 {skip_locked})",
)
.takes(&[Type::Int, Type::Int]);

static SESSION_PUT: Sql = Sql::new(
    "session_put",
    "insert into outlast.sessions (shard, hash, token, created_at, seen_at) values ({p1}, {p2}, {p3}, {now}, {now})
     on conflict do nothing",
)
.takes(&[Type::Int, Type::Bytes, Type::Id]);

static SESSION_REDEEM: Sql = Sql::new(
    "session_redeem",
    "update outlast.sessions set hash = {p3}, created_at = {now}, seen_at = {now}
      where shard = {p1} and hash = {p2} and created_at > {now} - {p4}",
)
.takes(&[Type::Int, Type::Bytes, Type::Bytes, Type::Int]);

static SESSION_TOKEN: Sql = Sql::new(
    "session_token",
    concat!(
        token_columns!(),
        "and t.id = (select s.token from outlast.sessions as s where s.shard = {p1} and s.hash = {p2})"
    ),
)
.takes(&[Type::Int, Type::Bytes]);

static SESSION_SEEN: Sql = Sql::new(
    "session_seen",
    "update outlast.sessions set seen_at = {now}
      where shard = {p1} and hash = {p2} and seen_at < {now} - 60000000",
)
.takes(&[Type::Int, Type::Bytes]);

static SESSION_END: Sql =
    Sql::new("session_end", "delete from outlast.sessions where shard = {p1} and hash = {p2}")
        .takes(&[Type::Int, Type::Bytes]);

// A few with each new one: as many as come go.
static REPLIES_EXPIRE: Sql = Sql::new(
    "replies_expire",
    "delete from outlast.replies where shard = {p1} and (actor, key) in (
         select r.actor, r.key from outlast.replies as r
          where r.shard = {p1} and r.expires_at <= {now} order by r.expires_at limit 10 {skip_locked})",
)
.takes(&[Type::Int]);

static REPLY_EXPIRE: Sql = Sql::new(
    "reply_expire",
    "delete from outlast.replies where shard = {p1} and actor = {p2} and key = {p3} and expires_at <= {now}",
)
.takes(&[Type::Int, Type::Text, Type::Text]);

static REPLY_MAKE: Sql = Sql::new(
    "reply_make",
    "insert into outlast.replies (shard, actor, key, route, body_hash, seed, holder, held_until, expires_at)
     values ({p1}, {p2}, {p3}, {p4}, {p5}, {p6}, {p7}, {now} + {p8}, {now} + {p9}) on conflict do nothing",
)
.takes(&[
    Type::Int,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Bytes,
    Type::Id,
    Type::Id,
    Type::Int,
    Type::Int,
]);

static REPLY_LOOK: Sql = Sql::new(
    "reply_look",
    "select r.route, r.body_hash, r.seed, r.holder, r.held_until, r.status, r.headers, r.body,
            case when r.held_until > {now} then 1 else 0 end, r.changed
       from outlast.replies as r where r.shard = {p1} and r.actor = {p2} and r.key = {p3} {for_update}",
)
.takes(&[Type::Int, Type::Text, Type::Text]);

static REPLY_TAKE: Sql = Sql::new(
    "reply_take",
    "update outlast.replies set holder = {p4}, held_until = {now} + {p5}
      where shard = {p1} and actor = {p2} and key = {p3}",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Id, Type::Int]);

static REPLY_PUT: Sql = Sql::new(
    "reply_put",
    "update outlast.replies set status = {p3}, headers = {p4}, body = {p5}
      where shard = {p1} and holder = {p2} and status is null",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Text, Type::Bytes]);

static REPLY_RELEASE: Sql = Sql::new(
    "reply_release",
    "delete from outlast.replies where shard = {p1} and holder = {p2} and status is null",
)
.takes(&[Type::Int, Type::Id]);

static REPLY_YIELD: Sql = Sql::new(
    "reply_yield",
    "update outlast.replies set held_until = 0 where shard = {p1} and holder = {p2} and status is null",
)
.takes(&[Type::Int, Type::Id]);

static REPLY_EXTEND: Sql = Sql::new(
    "reply_extend",
    "update outlast.replies set held_until = {now} + {p3}
      where shard = {p1} and holder = {p2} and status is null",
)
.takes(&[Type::Int, Type::Id, Type::Int]);
