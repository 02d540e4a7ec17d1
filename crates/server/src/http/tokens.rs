//! Tokens, and who the caller is.

use axum::http::header;
use outlast::Timestamp;
use outlast_store::{Access, Accessed, TokenView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::access::{DEFAULT_AGE, Role, Scope, TokenAsk, create as create_token};
use super::audit::token_name;
use super::body::Millis;
use super::code::Code;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::standing;
use crate::when::When;

/// Whoever asks.
#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    actor: String,
    role: Role,
    capabilities: Vec<Scope>,
    /// The tenant to which the token is bound; `null`: all of them.
    tenant: Option<String>,
    /// The queues to which the token is bound; `null`: all of them.
    queues: Option<Vec<String>>,
    token: Option<String>,
    /// The database's time, by which everything is judged.
    now: When,
}

/// A token; never its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenJson {
    pub(crate) id: String,
    pub(crate) subject: String,
    pub(crate) role: String,
    pub(crate) tenant: Option<String>,
    /// The queues to which it is bound; `null`: all of them.
    pub(crate) queues: Option<Vec<String>>,
    created_by: String,
    created_at: When,
    pub(crate) expires_at: When,
    /// To the minute.
    used_at: Option<When>,
    revoked_at: Option<When>,
    /// Whether it opens anything now.
    pub(crate) live: bool,
}

/// All tokens, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenPage {
    items: Vec<TokenJson>,
}

/// A token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Whom it stands for.
    subject: String,
    /// `viewer`, `operator` or `admin`.
    role: String,
    /// A tenant to which it is bound.
    #[serde(default)]
    tenant: Option<String>,
    /// Queues to which it is bound: at least one, at most 20. It sees, starts and changes runs of these alone.
    #[serde(default)]
    queues: Option<Vec<String>>,
    /// How long it opens something, in milliseconds: 90 days unless said.
    #[serde(default)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_162_240_000_000i64)]
    age_ms: Option<Millis>,
}

/// A new token, with its secret: this is the only time that it is shown.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeToken {
    #[serde(flatten)]
    token: TokenJson,
    secret: String,
}

impl TokenJson {
    pub(crate) fn new(view: &TokenView, now: Timestamp) -> TokenJson {
        TokenJson {
            id: token_name(view.card.id),
            subject: view.card.subject.clone(),
            role: view.card.role.clone(),
            tenant: view.card.tenant.clone(),
            queues: view.card.queues.clone(),
            created_by: view.card.by.clone(),
            created_at: When(view.created_at),
            expires_at: When(view.card.expires_at),
            used_at: view.used_at.map(When),
            revoked_at: view.revoked_at.map(When),
            live: view.is_live(now),
        }
    }
}

/// Reads how people name a token.
pub(crate) fn parse_token_name(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name.strip_prefix("tok_")?).ok()
}

pub(crate) async fn me(call: Call) -> Answer {
    let caller = &call.caller;
    Reply::json(&Me {
        actor: caller.actor.clone(),
        role: caller.role,
        capabilities: caller.role.scopes().to_vec(),
        tenant: caller.tenant.clone(),
        queues: caller.queues.as_ref().map(|queues| queues.names().to_vec()),
        token: caller.token.map(token_name),
        now: When(call.api.client.store().now().await?),
    })
}

pub(crate) async fn list(call: Call) -> Answer {
    let store = call.api.client.store();
    let now = store.now().await?;
    let items = store.tokens().await?.iter().map(|view| TokenJson::new(view, now)).collect();
    Reply::json(&TokenPage { items })
}

pub(crate) async fn create(call: Call) -> Answer {
    let NewToken { subject, role, tenant, queues, age_ms } = call.json()?;
    call.to(&subject);
    let role = Role::of(&role).ok_or_else(|| {
        let detail = format!("role is viewer, operator or admin, not {role:?}");
        Problem::new(Code::INVALID_ARGUMENT, detail).at("/role")
    })?;
    if call.seed.is_some() {
        // The answer would be kept for a day, and the secret with it.
        let detail = "a secret is answered once: leave the Idempotency-Key away";
        return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
    }
    let age = age_ms.map_or(DEFAULT_AGE, |age| age.0);
    let ask = TokenAsk { subject, role, tenant, queues, age };
    let (view, secret) = create_token(&call.api.client, ask, &call.caller.actor).await?;
    call.api.door.close();
    call.to(token_name(view.card.id));
    call.is_now(|| standing::token(&view));
    let made = MadeToken { token: TokenJson::new(&view, view.created_at), secret: secret.shown().to_owned() };
    let location = call.address(&format!("/tokens/{}", made.token.id));
    Ok(Reply::json(&made)?.status(201).with(header::LOCATION, location))
}

/// From now on it opens nothing.
pub(crate) async fn revoke(call: Call) -> Answer {
    call.because(call.query.one("reason"));
    let name = call.part("id");
    let unknown = || Problem::not_found(format_args!("token {name:?}"));
    let token = parse_token_name(name).ok_or_else(unknown)?;
    let store = call.api.client.store();
    if let Some(view) = store.tokens().await?.iter().find(|view| view.card.id == token) {
        call.was(|| standing::token(view));
    }
    match store.access(&Access::Revoke { token }).await? {
        Accessed::Token(Some(view)) => {
            call.is_now(|| standing::token(&view));
            Reply::json(&TokenJson::new(&view, store.now().await?))
        }
        _ => Err(unknown()),
    }
}
