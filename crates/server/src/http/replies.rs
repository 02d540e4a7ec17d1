//! Idempotency keys: a request that is sent twice with the same key is done once, and answered twice alike.
//!
//! Whoever comes first takes the right to answer, durably, for a moment that they extend as long as they live; then does it;
//! then keeps the answer for a day. A server that dies in between leaves a right that runs out, one that fails gives it on at once, and whoever has it next
//! makes the same things of the same seed: a run with the same id, an event that arrives once. What changes something that is
//! there already is noted together with the change ([`holding`]): whoever takes over what was done only answers.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use outlast_store::{Access, Accessed, Reply as Kept, Reserve, holding};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Inner;
use super::code::Code;
use super::problem::Problem;
use super::reply::{Answer, Reply, ReplyBody};
use super::route::{Call, Route, seeded};

/// How long the right to answer is somebody's who says nothing. Whoever lives says so before that is over, however long the
/// answer takes; it is as long as a database may stand still without another server taking over what is being done.
const HOLD: Duration = Duration::from_secs(5);
/// How long an answer is kept.
const KEEP: Duration = Duration::from_secs(24 * 3_600);
/// The longest key.
const LONGEST: usize = 200;

/// Says that this was answered before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The key of a request, if it has one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let Some(first) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(Problem::new(Code::INVALID_ID, "Idempotency-Key is there twice: send one"));
    }
    // The draft has it as a quoted text; many send it bare.
    let key = first.to_str().unwrap_or_default().trim().trim_matches('"');
    let is_plain = (1..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    match is_plain {
        true => Ok(Some(key.to_owned())),
        false => {
            let detail = format!("Idempotency-Key is 1 to {LONGEST} visible ASCII characters");
            Err(Problem::new(Code::INVALID_ID, detail))
        }
    }
}

/// Does a request once.
pub(super) async fn once<F>(
    api: &Inner,
    route: &Route,
    key: String,
    body: Bytes,
    call: Call,
    work: impl FnOnce(Call) -> F,
) -> Answer
where
    F: Future<Output = Answer>,
{
    let holder = Uuid::from_u128(fastrand::u128(..));
    let path: Vec<&str> = call.path.iter().map(|(_, value)| value.as_str()).collect();
    let ask = Reserve {
        holder,
        actor: call.caller.account(),
        key,
        route: format!("{} {} {}", route.method, route.path, path.join(" ")),
        body_hash: Bytes::copy_from_slice(&Sha256::digest(&body)),
        seed: new_seed(),
        hold: HOLD,
        keep: KEEP,
    };
    let store = api.client.store();
    let (seed, changed) = match store.access(&Access::Reserve(ask)).await? {
        Accessed::Reserved { seed, changed } => (seed, changed),
        Accessed::Replied(kept) => return Ok(replayed(kept)),
        Accessed::Busy { until } => {
            let detail = format!(
                "the same request with this Idempotency-Key is being answered: ask again in a moment, or after {until} at the \
                 latest if whoever answers it died"
            );
            return Err(Problem::new(Code::IN_PROGRESS, detail).with(header::RETRY_AFTER, 1));
        }
        _ => {
            let detail = "this Idempotency-Key was sent with another request: use a new one for each";
            return Err(Problem::new(Code::IDEMPOTENCY_MISMATCH, detail));
        }
    };
    let answer = tokio::select! {
        answer = holding(holder, work(seeded(call, seed, changed))) => answer,
        never = extended(api, holder) => match never {},
    };
    let end = match &answer {
        Ok(reply) => kept(reply).map_or(Access::Release { holder }, |reply| Access::Reply { holder, reply }),
        // It may have been done, all but the line in the audit log: whoever asks again makes the same of it.
        Err(problem) if problem.code.status >= 500 => Access::Yield { holder },
        // What was refused may be right another time.
        Err(_) => Access::Release { holder },
    };
    store.access(&end).await?;
    answer
}

/// Says again and again that the holder is still at it. Where that cannot be said, another may take over: what was done is
/// not done twice.
async fn extended(api: &Inner, holder: Uuid) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(HOLD / 3).await;
        let said = api.client.store().access(&Access::Extend { holder, hold: HOLD }).await;
        if let Err(error) = said {
            tracing::debug!(%error, "a request that is being answered could not be held on to");
        }
    }
}

/// A time and randomness: what a new run's id is made of.
fn new_seed() -> Uuid {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    Uuid::from_u64_pair(millis << 16 | fastrand::u64(..1 << 16), fastrand::u64(..))
}

fn kept(reply: &Reply) -> Option<Kept> {
    let ReplyBody::Json(body) = &reply.body else { return None };
    let headers: Vec<(&str, &str)> = reply
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let headers = serde_json::to_string(&headers).ok()?;
    Some(Kept { status: reply.status, headers, body: body.clone() })
}

fn replayed(kept: Kept) -> Reply {
    let headers: Vec<(String, String)> = serde_json::from_str(&kept.headers).unwrap_or_default();
    let header = |(name, value): (String, String)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    };
    let mut headers: Vec<_> = headers.into_iter().filter_map(header).collect();
    headers.push((REPLAYED, HeaderValue::from_static("true")));
    Reply { status: kept.status, headers, body: ReplyBody::Json(kept.body) }
}
