//! Who asks, and what they may do: scopes, roles, tokens.
//!
//! A token is 256 random bits with a checksum, so that a typo is told from a forgery without a look at the database, and
//! so that scanners find leaked ones. Only its SHA-256 is kept: whoever reads the database has no token.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, header};
use outlast::{Client, Error, Timestamp};
use outlast_core::check_name;
use outlast_store::{Access, Accessed, StoreError, TokenCard, TokenView};
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::bound::Queues;
use super::code::Code;
use super::problem::Problem;
use super::{Inner, sessions};

/// What a request needs. One for each route, in the table of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Nothing: for probes, and what is in the documentation anyway.
    Public,
    /// To look.
    Read,
    /// To start runs.
    Start,
    /// To change what is there: runs, queues, schedules.
    Operate,
    /// To say who may do what.
    Admin,
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Looks.
    Viewer,
    /// Looks, starts and changes.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    pub(crate) const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role of this word. A word of a later version is none.
    pub(crate) fn of(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }

    pub(crate) fn scopes(self) -> &'static [Scope] {
        match self {
            Role::Viewer => &[Scope::Read],
            Role::Operator => &[Scope::Read, Scope::Start, Scope::Operate],
            Role::Admin => &[Scope::Read, Scope::Start, Scope::Operate, Scope::Admin],
        }
    }

    pub(crate) fn may(self, scope: Scope) -> bool {
        scope == Scope::Public || self.scopes().contains(&scope)
    }
}

/// Whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// As the audit log names them.
    pub(crate) actor: String,
    pub(crate) token: Option<Uuid>,
    pub(crate) role: Role,
    /// The tenant to which they are bound; `None`: all of them.
    pub(crate) tenant: Option<String>,
    /// The queues to which they are bound; `None`: all of them.
    pub(crate) queues: Option<Queues>,
}

impl Caller {
    /// Whoever sits at this machine, where no token is asked for.
    pub(crate) fn local() -> Caller {
        Caller { actor: "local".to_owned(), token: None, role: Role::Admin, tenant: None, queues: None }
    }

    /// Whose keys and rates these are.
    pub(crate) fn account(&self) -> String {
        // A name is never taken for a token, nor that of one tenant for another's: no name ends a line.
        let name = || format!("{}\n{}", self.actor, self.tenant.as_deref().unwrap_or_default());
        self.token.map_or_else(name, |token| token.to_string())
    }

    /// Whether something of this tenant concerns them.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }
}

/// A secret that opens something. Shown once, to whoever asked for it.
pub(crate) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

const PREFIX: &str = "ol_live_";
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 256 bits, five at a time.
const BODY: usize = 52;
const CHECK: usize = 6;

impl Secret {
    /// A new one.
    pub(crate) fn new() -> Result<Secret, getrandom::Error> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random)?;
        let body = digits(&random, BODY);
        Ok(Secret(format!("{PREFIX}{body}{}", check(&body))))
    }

    /// Reads what somebody sent; `None` when it cannot be one of ours.
    pub(crate) fn read(text: &str) -> Option<Secret> {
        let rest = text.strip_prefix(PREFIX).filter(|rest| rest.len() == BODY + CHECK && rest.is_ascii())?;
        let (body, sum) = rest.split_at(BODY);
        bool::from(check(body).as_bytes().ct_eq(sum.as_bytes())).then(|| Secret(text.to_owned()))
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The token that this opens, which has been used now.
    pub(crate) async fn find(&self, client: &Client) -> Result<TokenView, Problem> {
        let hash = self.hash();
        let found = client.store().token(&hash).await?.ok_or_else(refused)?;
        let now = client.store().now().await?;
        if !bool::from(found.card.hash.ct_eq(&hash)) || !found.is_live(now) {
            return Err(refused());
        }
        note_use(client, &found, now);
        Ok(found)
    }

    /// The text, for whoever asked for it.
    pub(crate) fn shown(&self) -> &str {
        &self.0
    }
}

fn check(body: &str) -> String {
    digits(&Sha256::digest(body.as_bytes()), CHECK)
}

/// So many digits of five bits each.
fn digits(bytes: &[u8], count: usize) -> String {
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let digit = |place: usize| (0..5).fold(0, |digit, at| digit << 1 | usize::from(bit(place * 5 + at)));
    (0..count).map(|place| char::from(DIGITS[digit(place)])).collect()
}

/// How long a token opens something unless said otherwise.
pub(crate) const DEFAULT_AGE: Duration = Duration::from_secs(90 * 86_400);

/// A token to make.
pub(crate) struct TokenAsk {
    /// Whom it stands for.
    pub(crate) subject: String,
    pub(crate) role: Role,
    /// The tenant to which it is bound.
    pub(crate) tenant: Option<String>,
    /// The queues to which it is bound.
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) age: Duration,
}

impl TokenAsk {
    /// Accepts whom it stands for and what it is bound to; gives its queues as they are kept.
    pub(crate) fn check(&self) -> Result<Option<Queues>, Error> {
        check_name("subject", &self.subject)?;
        if let Some(tenant) = &self.tenant {
            check_name("tenant", tenant)?;
        }
        self.queues.clone().map(Queues::new).transpose()
    }
}

/// Makes a token; the secret is nowhere but in what this gives.
pub(crate) async fn create(client: &Client, ask: TokenAsk, by: &str) -> Result<(TokenView, Secret), Error> {
    create_as(client, Uuid::from_u128(fastrand::u128(..)), ask, by).await
}

/// The same, with this id; where there is one of it already, nothing is made.
pub(super) async fn create_as(
    client: &Client,
    id: Uuid,
    ask: TokenAsk,
    by: &str,
) -> Result<(TokenView, Secret), Error> {
    let queues = ask.check()?;
    let secret = Secret::new().map_err(|error| Error::misconfigured(error.to_string()))?;
    let now = client.store().now().await?;
    let card = TokenCard {
        id,
        hash: bytes::Bytes::copy_from_slice(&secret.hash()),
        subject: ask.subject,
        role: ask.role.word().to_owned(),
        tenant: ask.tenant,
        queues: queues.map(|queues| queues.names().to_vec()),
        by: by.to_owned(),
        expires_at: now + ask.age,
    };
    let ask = Access::Token(card.clone());
    client.store().access(&ask).await?;
    Ok((TokenView { card, created_at: now, used_at: None, revoked_at: None }, secret))
}

/// What there is of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Nobody ever made one: that of a first start which let nobody in is none.
    Never,
    /// All that were made are revoked or over. Whoever wanted tokens once is not open to everybody for that.
    Over,
    /// One at least opens something now.
    Valid,
}

/// What there is of tokens now.
pub(crate) async fn tokens(client: &Client) -> Result<Tokens, StoreError> {
    let now = client.store().now().await?;
    let mut all = client.store().tokens().await?;
    all.retain(|token| !sessions::is_unopened(token, now));
    Ok(match all.iter().any(|token| token.is_live(now)) {
        true => Tokens::Valid,
        false if all.is_empty() => Tokens::Never,
        false => Tokens::Over,
    })
}

/// Whether whoever asks has to show a token.
pub(crate) enum Door {
    /// Everybody has.
    Guarded,
    /// Nobody has: that is looked at elsewhere.
    Open,
    /// Nobody has until there is a token, whoever made it; from then on everybody has.
    UntilToken { is_guarded: AtomicBool, looked: Mutex<Option<Instant>> },
}

/// How soon a token counts that another process made.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Door {
    pub(crate) fn until_token() -> Door {
        Door::UntilToken { is_guarded: AtomicBool::new(false), looked: Mutex::new(None) }
    }

    /// Whether a token has to be shown now. Where that cannot be found out, nobody comes in.
    pub(crate) async fn asks(&self, client: &Client) -> Result<bool, StoreError> {
        let (is_guarded, looked) = match self {
            Door::Guarded => return Ok(true),
            Door::Open => return Ok(false),
            Door::UntilToken { is_guarded, looked } => (is_guarded, looked),
        };
        if is_guarded.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if looked.lock().is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(false);
        }
        if tokens(client).await? != Tokens::Never {
            self.close();
            return Ok(true);
        }
        *looked.lock() = Some(Instant::now());
        Ok(false)
    }

    /// There is a token now.
    pub(crate) fn close(&self) {
        if let Door::UntilToken { is_guarded, .. } = self {
            is_guarded.store(true, Ordering::Relaxed);
        }
    }
}

/// What is wrong with a token is never told: whoever guesses learns nothing.
pub(crate) fn refused() -> Problem {
    let detail =
        "send a token that is valid: Authorization: Bearer ol_live_…; `outlast token create` makes one";
    Problem::new(Code::UNAUTHENTICATED, detail)
        .with(header::WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"))
}

/// Who sent these headers: as a proxy says it, by a token, or by the cookie that a browser was given for one.
pub(crate) async fn authenticate(
    api: &Inner,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    // Whoever is not believed has none of these headers any more.
    if let Some(said) = api.proxy.as_ref().and_then(|proxy| proxy.caller(headers)) {
        return said;
    }
    if !headers.contains_key(header::AUTHORIZATION)
        && let Some(caller) = sessions::authenticate(api, method, headers).await?
    {
        return Ok(caller);
    }
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(sent), None) = (sent.next(), sent.next()) else { return Err(refused()) };
    let (scheme, text) = sent.to_str().ok().and_then(|sent| sent.split_once(' ')).ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(refused());
    }
    let secret = Secret::read(text.trim()).ok_or_else(refused)?;
    caller_of(secret.find(&api.client).await?).ok_or_else(refused)
}

/// Whether what these headers opened is shut by now: a token that was revoked opens nothing, also what it had opened.
pub(crate) async fn is_shut(api: &Inner, headers: &HeaderMap) -> bool {
    match api.door.asks(&api.client).await {
        Ok(false) => false,
        _ => authenticate(api, &Method::GET, headers).await.is_err(),
    }
}

/// Whom a token stands for; nobody, where its role is of a later version, or where nobody can say to which queues it is bound.
pub(crate) fn caller_of(found: TokenView) -> Option<Caller> {
    let TokenCard { id, subject, role, tenant, queues, .. } = found.card;
    let queues = match queues {
        Some(names) => Some(Queues::kept(names)?),
        None => None,
    };
    Some(Caller { actor: subject, token: Some(id), role: Role::of(&role)?, tenant, queues })
}

/// When a token was last used is worth a write a minute, and nobody waits for it.
fn note_use(client: &Client, found: &TokenView, now: Timestamp) {
    let is_noted = found.used_at.is_some_and(|used| now.since(used) < Duration::from_secs(60));
    if !is_noted {
        let (client, token) = (client.clone(), found.card.id);
        tokio::spawn(async move {
            let noted: Result<Accessed, _> = client.store().access(&Access::Used { token }).await;
            if let Err(error) = noted {
                tracing::warn!(%error, "the use of a token was not noted");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_a_typo_is_none() {
        let secret = Secret::new().unwrap();
        let text = secret.shown().to_owned();
        assert_eq!(Secret::read(&text).unwrap().hash(), secret.hash());
        assert_eq!(text.len(), PREFIX.len() + BODY + CHECK);
        let last = if text.ends_with('0') { '1' } else { '0' };
        let typo = format!("{}{last}", &text[..text.len() - 1]);
        for wrong in ["", "ol_live_", &typo, &text[1..], &format!("{text}0"), "ol_live_ü"] {
            assert!(Secret::read(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }

    #[test]
    fn whoever_may_do_more_may_do_all_that_less_may() {
        for pair in Role::ALL.windows(2) {
            assert!(pair[0].scopes().iter().all(|scope| pair[1].may(*scope)));
        }
        assert!(!Role::Viewer.may(Scope::Start) && !Role::Operator.may(Scope::Admin));
    }
}
