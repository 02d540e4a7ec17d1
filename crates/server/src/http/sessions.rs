//! Sessions: a browser shows a token once and is given a cookie for it, which no script can read.
//!
//! The cookie is 256 random bits, of which the database has the hash. It opens what its token does and no longer than that
//! does; it ends when it is left, or when nobody used it for twelve hours. Because browsers send cookies by themselves, a
//! request that could change something has to say that it comes from our own pages.

use std::time::Duration;

use axum::http::{HeaderMap, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use outlast::{Client, Error, Timestamp};
use outlast_store::{Access, Accessed, SessionView, TokenView};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Inner;
use super::access::{Caller, DEFAULT_AGE, Role, Secret, TokenAsk, caller_of, create_as, refused};
use super::audit::note_session;
use super::code::Code;
use super::guard::is_own_page;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;

/// The name of the cookie.
pub(crate) const NAME: &str = "outlast_session";
/// How long a session lasts that nobody uses.
const IDLE: Duration = Duration::from_secs(12 * 3_600);
/// How long a ticket can be made a session of.
const TICKET: Duration = Duration::from_secs(3_600);

/// What to log in with: one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// The secret of a token: `ol_live_…`.
    token: Option<String>,
    /// What stands in the address that a server prints when it starts for the first time. It opens once.
    ticket: Option<String>,
}

/// Gives a cookie for a token, or for a ticket.
pub(crate) async fn open(call: Call) -> Answer {
    let cookie = random()?;
    let opened = match call.json()? {
        Login { token: Some(token), ticket: None } => by_token(&call, &token, &cookie).await,
        Login { token: None, ticket: Some(ticket) } => by_ticket(&call, ticket.trim(), &cookie).await,
        _ => return Err(Problem::new(Code::INVALID_ARGUMENT, "send a token or a ticket, one of the two")),
    };
    let caller = match opened {
        Ok(caller) => caller,
        Err(problem) if problem.code == Code::UNAUTHENTICATED => {
            return Err(call.api.strangers.turned_away(&call.api.pace, call.names.ip, problem));
        }
        Err(problem) => return Err(problem),
    };
    note_session(&call, caller, "session.open").await?;
    let age = IDLE.as_secs();
    Ok(Reply::nothing().with(header::SET_COOKIE, written(&call, &cookie, age)))
}

/// Begins a session of whom the secret of a token stands for.
async fn by_token(call: &Call, token: &str, cookie: &str) -> Result<Caller, Problem> {
    let client = &call.api.client;
    let secret = Secret::read(token.trim()).ok_or_else(refused)?;
    let caller = caller_of(secret.find(client).await?).ok_or_else(refused)?;
    let token = caller.token.unwrap_or_default();
    client.store().access(&Access::Session { hash: hash(cookie), token, idle: IDLE }).await?;
    Ok(caller)
}

/// Makes a session of a ticket, which opens nothing more.
async fn by_ticket(call: &Call, ticket: &str, cookie: &str) -> Result<Caller, Problem> {
    let store = call.api.client.store();
    let ask = Access::Redeem { ticket: hash_of_ticket(ticket), hash: hash(cookie), within: TICKET };
    let Accessed::Token(Some(token)) = store.access(&ask).await? else { return Err(spent()) };
    store.access(&Access::Used { token: token.card.id }).await?;
    let is_live = token.is_live(store.now().await?);
    caller_of(token).filter(|_| is_live).ok_or_else(refused)
}

/// Why a ticket opens nothing.
fn spent() -> Problem {
    let detail = "this ticket has been used, or its hour is over: `outlast token create NAME --role admin` makes a token to log in with";
    Problem::new(Code::UNAUTHENTICATED, detail)
}

/// The id of the token that a first start makes: of any number of servers that start at once one makes it.
const FIRST: Uuid = Uuid::from_u128(1);

/// What a server tells whoever starts it for the first time: a ticket that opens one session, as an admin. The token behind it
/// is like any other, can be revoked like any other, and nobody knows its secret.
pub(crate) async fn first_ticket(client: &Client) -> Result<String, Error> {
    let (subject, age) = ("first".to_owned(), DEFAULT_AGE);
    let ask = TokenAsk { subject, role: Role::Admin, tenant: None, queues: None, age };
    create_as(client, FIRST, ask, "the first start").await?;
    let ticket = random()?;
    let ask = Access::Session { hash: hash_of_ticket(&ticket), token: FIRST, idle: IDLE };
    client.store().access(&ask).await?;
    Ok(ticket)
}

/// Whether a token is that of a first start, and its ticket has let nobody in: the next start is the first again, also of a
/// server that died before it could tell anybody.
pub(super) fn is_unopened(token: &TokenView, now: Timestamp) -> bool {
    token.card.id == FIRST && token.used_at.is_none() && token.is_live(now)
}

/// 256 random bits as text.
fn random() -> Result<String, Error> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| Error::misconfigured(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Ends a session, here and in the database. Without one there is nothing to end.
pub(crate) async fn close(call: Call) -> Answer {
    if let Some(cookie) = cookie(&call.headers) {
        let hash = hash(&cookie);
        let store = call.api.client.store();
        if let Some(SessionView { token, .. }) = store.session(&hash).await? {
            store.access(&Access::Leave { hash }).await?;
            if let Some(caller) = caller_of(token) {
                note_session(&call, caller, "session.close").await?;
            }
        }
    }
    Ok(Reply::nothing().with(header::SET_COOKIE, written(&call, "", 0)))
}

/// Who sent this cookie; `None` when there is none.
pub(crate) async fn authenticate(
    api: &Inner,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Problem> {
    let Some(cookie) = cookie(headers) else { return Ok(None) };
    is_own_page(method, headers)?;
    let (store, hash) = (api.client.store(), hash(&cookie));
    let found = store.session(&hash).await?.ok_or_else(refused)?;
    let now = store.now().await?;
    if now.since(found.seen_at) >= IDLE || !found.token.is_live(now) {
        return Err(refused());
    }
    if now.since(found.seen_at) >= Duration::from_secs(60) {
        store.access(&Access::Seen { hash }).await?;
    }
    caller_of(found.token).map(Some).ok_or_else(refused)
}

/// The cookie that a browser sent, if it could be one of ours.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|sent| sent.to_str().ok());
    let mut pairs = sent.flat_map(|sent| sent.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == NAME)?;
    (value.len() == 43).then(|| value.to_owned())
}

fn hash(cookie: &str) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(cookie.as_bytes()))
}

/// Another than that of a cookie with the same text: a ticket that is sent as one opens nothing.
fn hash_of_ticket(ticket: &str) -> Bytes {
    hash(&format!("ticket {ticket}"))
}

/// The cookie as browsers are given it: for the place at which the API is mounted, and nothing but requests.
fn written(call: &Call, value: &str, age: u64) -> String {
    let secure = if call.api.secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path={}/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}", call.base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cookie_is_found_among_others_and_only_if_it_could_be_one() {
        let own = "a".repeat(43);
        for (sent, found) in [
            (format!("{NAME}={own}"), true),
            (format!("theme=dark; {NAME}={own}; x=y"), true),
            (format!("x{NAME}={own}"), false),
            (format!("{NAME}={own}a"), false),
            (format!("{NAME}="), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, sent.parse().unwrap());
            assert_eq!(cookie(&headers).is_some(), found, "{sent}");
        }
    }
}
