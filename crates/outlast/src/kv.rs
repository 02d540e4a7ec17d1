//! Values that handlers keep: small, shared by all runs of one tenant, and there when those have ended.
//!
//! One handle, [`Kv`], wherever values can be used. What differs is where its calls go: through a run's journal, into
//! a transaction, or straight to the store.

use std::any::type_name;
use std::panic::Location;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::{Error, Limits, Payload, Timestamp, check_name};
use outlast_store::{
    Expect, KvChange, KvEntry as Kept, KvList, KvName, KvPage as KeptPage, KvWrite, KvWritten, StoreError,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::client::repeated;
use crate::ctx::Recording;
use crate::in_tx::InTx;
use crate::{Client, Ctx, Tx};

/// The space of whoever names none.
const DEFAULT_SPACE: &str = "default";
/// How many levels a value is nested in where a run records it.
const LEVELS: usize = 3;
/// The most bytes of a step's name that a call makes: half of what a name may have, for the scopes it is called in.
const SHOWN: usize = Limits::NAME / 2;

/// Durable values by key: counters, cursors, locks, caches, settings. Cheap to clone.
///
/// Values belong to a tenant, and within it to a space; a run sees its own tenant's and no other's. They outlive runs,
/// and stay until they are deleted or their time is over.
///
/// | where | what a call is |
/// | --- | --- |
/// | [`Ctx::kv`] | recorded like a step: a replay gives the same answer, and a write happens once whatever crashes |
/// | [`Tx::kv`] | part of the transaction |
/// | [`StepCtx::kv`](crate::StepCtx::kv), [`JobCtx::kv`](crate::JobCtx::kv), [`Client::kv`] | done at once, or in a transaction with [`KvCall::in_tx`] |
///
/// ```
/// # use outlast::prelude::*;
/// use outlast::CompareAndSet;
/// # outlast::testing::check(async |ctx| {
/// let kv = ctx.kv().space("stock");
/// kv.set("cups", &6).await?;
/// kv.set("offer", "half price").ttl(2.days()).await?;
/// let cups = kv.get_versioned::<u32>("cups").await?.ok_or_else(|| AnyError::new("no cups"))?;
/// let taken = kv.compare_and_set("cups", cups.version, &(cups.value - 1)).await?;
/// assert!(matches!(taken, CompareAndSet::Done { .. }));
/// assert_eq!(kv.list::<u32>("cu").await?.entries[0].value, 5);
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Kv {
    door: Door,
    limits: Limits,
    /// Tenant and space, or why they cannot be: every call says so.
    home: Result<(Arc<str>, Arc<str>), Error>,
}

/// Where calls go.
#[derive(Clone)]
enum Door {
    Store(Client),
    Run(Ctx),
    Tx(Tx),
}

impl Kv {
    pub(crate) fn of_client(client: &Client, tenant: &str) -> Kv {
        Kv::new(Door::Store(client.clone()), *client.limits(), tenant)
    }

    pub(crate) fn of_run(ctx: &Ctx, limits: Limits) -> Kv {
        Kv::new(Door::Run(ctx.clone()), limits, ctx.tenant())
    }

    pub(crate) fn of_tx(tx: &Tx, tenant: &str, limits: Limits) -> Kv {
        Kv::new(Door::Tx(tx.clone()), limits, tenant)
    }

    fn new(door: Door, limits: Limits, tenant: &str) -> Kv {
        let tenant = match tenant {
            "" => Ok(""),
            tenant => check_name("tenant", tenant),
        };
        Kv { door, limits, home: tenant.map(|tenant| (tenant.into(), DEFAULT_SPACE.into())) }
    }

    /// The values of another space: keys of one say nothing about those of another. Without this it is `default`.
    pub fn space(&self, name: &str) -> Kv {
        let home = self.home.clone().and_then(|(tenant, _)| Ok((tenant, check_name("space", name)?.into())));
        Kv { home, ..self.clone() }
    }

    /// The value under `key`; `None` when there is none, or its time is over.
    #[track_caller]
    pub fn get<T: DeserializeOwned + 'static>(&self, key: &str) -> KvCall<Option<T>> {
        self.call(
            self.name(key).map(|name| Ask::Get(name, |kept| Ok(read_any(kept)?.map(|entry| entry.value)))),
        )
    }

    /// The same with its version: what [`Kv::compare_and_set`] wants to know.
    #[track_caller]
    pub fn get_versioned<T: DeserializeOwned + 'static>(&self, key: &str) -> KvCall<Option<KvEntry<T>>> {
        self.call(self.name(key).map(|name| Ask::Get(name, read_any)))
    }

    /// Sets `key` to `value`, whatever is there, for good or as long as [`KvCall::ttl`] says. Gives the new version.
    #[track_caller]
    pub fn set<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> KvCall<i64> {
        let write = self.write(key, |limits| setting(key, value, limits), None);
        self.call(write.map(|write| Ask::Write(write, read_version)))
    }

    /// Sets `key` to `value` if exactly what is expected is there: a version, or nothing ([`Expect::Absent`], or
    /// `None` for a version). What it lost against is an answer, not an error.
    ///
    /// Versions of a key only rise, also when it was deleted or gone in between: an old one fits nothing that came
    /// later.
    #[track_caller]
    pub fn compare_and_set<T: Serialize + ?Sized>(
        &self,
        key: &str,
        expected: impl Into<Expect>,
        value: &T,
    ) -> KvCall<CompareAndSet> {
        let write = self.write(key, |limits| setting(key, value, limits), Some(expected.into()));
        self.call(write.map(|write| Ask::Write(write, read_compared)))
    }

    /// Deletes `key`; `false` when nothing was there.
    #[track_caller]
    pub fn delete(&self, key: &str) -> KvCall<bool> {
        let write = self.write(key, |_| Ok(KvChange::Delete), None);
        self.call(write.map(|write| Ask::Write(write, read_deleted)))
    }

    /// Deletes `key` if it has exactly this version; `false` when it has another, or is not there. With
    /// [`Kv::compare_and_set`] of nothing and a time to live this makes a lock that only its holder gives back.
    #[track_caller]
    pub fn compare_and_delete(&self, key: &str, version: i64) -> KvCall<bool> {
        let write = self.write(key, |_| Ok(KvChange::Delete), Some(Expect::Version(version)));
        self.call(write.map(|write| Ask::Write(write, read_deleted)))
    }

    /// Values whose keys begin with `prefix`, in the order of their keys' bytes, a page at a time: at most 1,000, and
    /// no more bytes than one payload may have. No character of a prefix is a wildcard; an empty one means all.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// let kv = ctx.kv();
    /// for user in ["ada", "bob", "eve"] {
    ///     kv.set(&format!("user:{user}"), user).await?;
    /// }
    /// let mut page = kv.list::<String>("user:").limit(2).await?;
    /// assert_eq!(page.entries.len(), 2);
    /// while let Some(next) = page.next {
    ///     page = kv.list("user:").limit(2).after(&next).await?;
    /// }
    /// assert_eq!(page.entries[0].value, "eve");
    /// # Ok(()) });
    /// ```
    #[track_caller]
    pub fn list<T: DeserializeOwned + 'static>(&self, prefix: &str) -> KvCall<KvPage<T>> {
        self.call(self.listing(prefix).map(|list| Ask::List(list, read_page)))
    }

    fn listing(&self, prefix: &str) -> Result<KvList, Error> {
        let (tenant, space) = self.home.clone()?;
        if !prefix.is_empty() {
            check_name("prefix", prefix)?;
        }
        Ok(KvList {
            tenant: tenant.to_string(),
            space: space.to_string(),
            prefix: prefix.to_owned(),
            after: None,
            limit: KvList::MOST,
            // What stands around the values of a page that a run records takes no more than one row.
            bytes: self.limits.payload.min(Limits::HARD_PAYLOAD).saturating_sub(KvList::ROW),
        })
    }

    fn name(&self, key: &str) -> Result<KvName, Error> {
        let (tenant, space) = self.home.clone()?;
        check_name("key", key)?;
        Ok(KvName { tenant: tenant.to_string(), space: space.to_string(), key: key.to_owned() })
    }

    fn write(
        &self,
        key: &str,
        change: impl FnOnce(&Limits) -> Result<KvChange, Error>,
        expect: Option<Expect>,
    ) -> Result<KvWrite, Error> {
        // The write of a run gets another one, by which it is known again after a crash.
        let id = Uuid::from_u128(fastrand::u128(..));
        Ok(KvWrite { id, name: self.name(key)?, change: change(&self.limits)?, expect })
    }

    #[track_caller]
    fn call<T>(&self, ask: Result<Ask<T>, Error>) -> KvCall<T> {
        let source = Location::caller();
        let way = |ask: &Ask<T>| match &self.door {
            Door::Store(client) => Way::Store(client.clone()),
            Door::Run(ctx) => Way::Run(Recording::new(ctx, &ask.shown(), source)),
            Door::Tx(tx) => Way::Tx(tx.clone()),
        };
        KvCall(ask.map(|ask| (way(&ask), ask)))
    }
}

/// A call of [`Kv`]: `.await` does it.
#[must_use = "nothing is read or written unless awaited"]
pub struct KvCall<T>(Result<(Way, Ask<T>), Error>);

/// Where one call goes. A run's has its place in the journal from the moment it is made.
enum Way {
    Store(Client),
    Run(Recording),
    Tx(Tx),
}

/// What is asked, and how the answer is read.
enum Ask<T> {
    Get(KvName, fn(Option<Kept>) -> Result<T, Error>),
    List(KvList, fn(KeptPage) -> Result<T, Error>),
    Write(KvWrite, fn(KvWritten) -> Result<T, Error>),
}

/// Does what is asked by a call that takes any of the verbs.
macro_rules! asked {
    ($ask:expr, $verb:ident => $call:expr) => {
        match $ask {
            Ask::Get($verb, read) => read($call),
            Ask::List($verb, read) => read($call),
            Ask::Write(write, read) => {
                let $verb = slice::from_ref(write);
                read(only($call)?)
            }
        }
    };
}

impl KvCall<i64> {
    /// How long the value is there, from 1 µs to 100 years, by the database's clock. One that is set without this is
    /// there for good.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.within(ttl)
    }
}

impl KvCall<CompareAndSet> {
    /// How long the value is there, from 1 µs to 100 years, by the database's clock. One that is set without this is
    /// there for good.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.within(ttl)
    }
}

impl<T> KvCall<KvPage<T>> {
    /// Begins after this key: what [`KvPage::next`] of the page before says.
    pub fn after(self, key: &str) -> Self {
        let checked = check_name("key", key).map(str::to_owned);
        self.changed(|ask| match ask {
            Ask::List(list, _) => checked.map(|key| list.after = Some(key)),
            _ => Ok(()),
        })
    }

    /// At most so many values, from 1 to 1,000.
    pub fn limit(self, limit: u32) -> Self {
        self.changed(|ask| match (limit, ask) {
            (1..=KvList::MOST, Ask::List(list, _)) => {
                list.limit = limit;
                Ok(())
            }
            _ => Err(Error::invalid("page size", limit, format!("1 to {}", KvList::MOST))),
        })
    }
}

impl<T> KvCall<T> {
    fn within(self, span: Duration) -> Self {
        self.changed(|ask| match ask {
            _ if span < Duration::from_micros(1) || span > Limits::DURATION => {
                Err(Error::invalid("ttl", format!("{span:?}"), "1 µs to 100 years"))
            }
            Ask::Write(KvWrite { change: KvChange::Set { ttl, .. }, .. }, _) => {
                *ttl = Some(span);
                Ok(())
            }
            _ => Ok(()),
        })
    }

    fn changed(self, change: impl FnOnce(&mut Ask<T>) -> Result<(), Error>) -> Self {
        KvCall(self.0.and_then(|(way, mut ask)| {
            change(&mut ask)?;
            Ok((way, ask))
        }))
    }

    /// Does it in a transaction, Outlast's own or your driver's: see [`InTx`]. What is written is there when that
    /// commits; what is read is what the transaction sees.
    pub async fn in_tx(self, tx: impl InTx) -> Result<T, Error> {
        let (client, ask) = self.plain()?;
        asked!(&ask, verb => client.perform(tx, verb).await?)
    }

    /// The same in an SQLite transaction of rusqlite, which blocks as it does.
    #[cfg(feature = "rusqlite")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rusqlite")))]
    pub fn in_tx_blocking(self, tx: &rusqlite::Connection) -> Result<T, Error> {
        let (client, ask) = self.plain()?;
        asked!(&ask, verb => client.perform_blocking(tx, verb)?)
    }

    fn plain(self) -> Result<(Client, Ask<T>), Error> {
        match self.0? {
            (Way::Store(client), ask) => Ok((client, ask)),
            (Way::Run(_), _) => Err(Error::misconfigured(
                "a workflow's own values are not part of a transaction: inside ctx.transaction say tx.kv()",
            )),
            (Way::Tx(_), _) => {
                Err(Error::misconfigured("these values are part of a transaction already: leave out in_tx"))
            }
        }
    }
}

impl<T: 'static> IntoFuture for KvCall<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (way, ask) = self.0?;
            match way {
                Way::Store(client) => ask.of(&client).await,
                Way::Run(recording) => ask.recorded(recording).await,
                Way::Tx(tx) => asked!(&ask, verb => tx.perform_in_ours(verb).await?),
            }
        })
    }
}

/// A value with what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvEntry<T> {
    /// Its key.
    pub key: String,
    /// The value.
    pub value: T,
    /// Its version: raised by every change, and never used again for this key.
    pub version: i64,
    /// When its time is over.
    pub expires_at: Option<Timestamp>,
}

/// A page of [`Kv::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvPage<T> {
    /// The values, in the order of their keys' bytes.
    pub entries: Vec<KvEntry<T>>,
    /// What the next page begins after ([`KvCall::after`]); `None` at the end.
    pub next: Option<String>,
}

/// How a [`Kv::compare_and_set`] came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "without a look at it nobody knows whether the value was set"]
pub enum CompareAndSet {
    /// The value is set.
    Done {
        /// Its version.
        version: i64,
    },
    /// Something else was there, and still is.
    Conflict {
        /// The version that is there; `None` when there is no value.
        current: Option<i64>,
    },
}

impl<T> Ask<T> {
    /// Asks the store.
    async fn of(&self, client: &Client) -> Result<T, Error> {
        let store = client.store();
        match self {
            Ask::Get(name, read) => read(repeated(|| store.kv_get(name)).await?),
            Ask::List(list, read) => read(repeated(|| store.kv_list(list)).await?),
            // It has its id: repeating it is the same write.
            Ask::Write(write, read) => {
                read(only(repeated(|| store.kv_write(slice::from_ref(write))).await?)?)
            }
        }
    }

    /// Asks the store in a step of a run.
    async fn recorded(self, recording: Recording) -> Result<T, Error> {
        let client = recording.client().clone();
        match self {
            Ask::Get(name, read) => {
                let get = |_| {
                    let (client, name) = (client.clone(), name.clone());
                    async move {
                        let kept = until_told(|| client.store().kv_get(&name)).await?;
                        kept.map(Recorded::new).transpose()
                    }
                };
                let recorded = recording.step(get).await?;
                read(recorded.map(|recorded| recorded.into_kept(name.key)))
            }
            Ask::List(list, read) => {
                let page = |_| {
                    let (client, list) = (client.clone(), list.clone());
                    async move { RecordedPage::new(until_told(|| client.store().kv_list(&list)).await?) }
                };
                read(recording.step(page).await?.into_kept())
            }
            Ask::Write(write, read) => {
                let write = |id| {
                    let (client, write) = (client.clone(), KvWrite { id, ..write.clone() });
                    async move { only(until_told(|| client.store().kv_write(slice::from_ref(&write))).await?) }
                };
                read(recording.step(write).await?)
            }
        }
    }

    /// The name of the step that a run records. What a name cannot hold of a key is left out: steps of one name are
    /// told apart by their occurrence.
    fn shown(&self) -> String {
        let (verb, space, key) = match self {
            Ask::Get(name, _) => ("get", &name.space, &name.key),
            Ask::List(list, _) => ("list", &list.space, &list.prefix),
            Ask::Write(KvWrite { name, change: KvChange::Delete, .. }, _) => {
                ("delete", &name.space, &name.key)
            }
            Ask::Write(KvWrite { name, .. }, _) => ("set", &name.space, &name.key),
        };
        let space = if space == DEFAULT_SPACE { String::new() } else { format!("{space}/") };
        let mut shown = format!("kv {verb} {space}{key}").replace('#', "_");
        shown.truncate(shown.floor_char_boundary(SHOWN));
        shown
    }
}

/// Asks until the database answers: a run has to know. A node that cannot reach it drops its work in time.
async fn until_told<T, Fut>(call: impl Fn() -> Fut) -> Result<T, Error>
where
    Fut: Future<Output = Result<T, StoreError>>,
{
    loop {
        match repeated(&call).await {
            Err(error) if error.is_retryable() => tracing::warn!(%error, "values cannot be reached yet"),
            answer => return Ok(answer?),
        }
    }
}

/// A value as a run records it.
#[derive(Serialize, Deserialize)]
struct Recorded {
    /// Where a page has many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    version: i64,
    expires_at: Option<Timestamp>,
    updated_at: Timestamp,
    value: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct RecordedPage {
    entries: Vec<Recorded>,
    next: Option<String>,
}

impl Recorded {
    fn new(kept: Kept) -> Result<Recorded, Error> {
        let value = kept.value.decode(format_args!("the value of {:?}", kept.key))?;
        let Kept { version, expires_at, updated_at, .. } = kept;
        Ok(Recorded { key: None, version, expires_at, updated_at, value })
    }

    fn into_kept(self, key: String) -> Kept {
        let Recorded { version, expires_at, updated_at, value, .. } = self;
        let value = Payload { codec: None, bytes: String::from(Box::<str>::from(value)).into() };
        Kept { key, version, value, expires_at, updated_at }
    }
}

impl RecordedPage {
    fn new(page: KeptPage) -> Result<RecordedPage, Error> {
        let with_key = |kept: Kept| Ok(Recorded { key: Some(kept.key.clone()), ..Recorded::new(kept)? });
        let entries = page.entries.into_iter().map(with_key).collect::<Result<_, Error>>()?;
        Ok(RecordedPage { entries, next: page.next })
    }

    fn into_kept(self) -> KeptPage {
        let kept = |mut recorded: Recorded| {
            let key = recorded.key.take().unwrap_or_default();
            recorded.into_kept(key)
        };
        KeptPage { entries: self.entries.into_iter().map(kept).collect(), next: self.next }
    }
}

/// What a value is set to. What can be set here can be recorded by any run that reads it, alone or in a page.
fn setting<T: Serialize + ?Sized>(key: &str, value: &T, limits: &Limits) -> Result<KvChange, Error> {
    let what = format!("the value of {key:?}");
    let payload = Payload::encode(&what, value, limits)?;
    let time = Timestamp::MAX;
    let kept = Kept {
        key: key.to_owned(),
        version: i64::MAX,
        value: payload.clone(),
        expires_at: Some(time),
        updated_at: time,
    };
    let page = RecordedPage::new(KeptPage { entries: vec![kept], next: Some(key.to_owned()) })?;
    match Payload::encode(&what, &page, limits) {
        Err(Error::Invalid { what, .. }) => {
            let remedy = format!("at most {} levels of nesting", Limits::DEPTH - LEVELS);
            Err(Error::Invalid { what, value: type_name::<T>().into(), remedy })
        }
        recorded => recorded.map(|_| KvChange::Set { value: payload, ttl: None }),
    }
}

fn read<T: DeserializeOwned>(kept: Kept) -> Result<KvEntry<T>, Error> {
    let value = kept.value.decode(format_args!("the value of {:?}", kept.key))?;
    Ok(KvEntry { key: kept.key, value, version: kept.version, expires_at: kept.expires_at })
}

fn read_any<T: DeserializeOwned>(kept: Option<Kept>) -> Result<Option<KvEntry<T>>, Error> {
    kept.map(read).transpose()
}

fn read_page<T: DeserializeOwned>(page: KeptPage) -> Result<KvPage<T>, Error> {
    let entries = page.entries.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(KvPage { entries, next: page.next })
}

fn read_version(written: KvWritten) -> Result<i64, Error> {
    match written {
        KvWritten::Done { version } => Ok(version),
        other => Err(unexpected(&other)),
    }
}

fn read_compared(written: KvWritten) -> Result<CompareAndSet, Error> {
    match written {
        KvWritten::Done { version } => Ok(CompareAndSet::Done { version }),
        KvWritten::Conflict { current } => Ok(CompareAndSet::Conflict { current }),
        other => Err(unexpected(&other)),
    }
}

fn read_deleted(written: KvWritten) -> Result<bool, Error> {
    Ok(matches!(written, KvWritten::Done { .. }))
}

/// The answer to a lone write.
fn only(answers: Vec<KvWritten>) -> Result<KvWritten, Error> {
    answers.into_iter().next().ok_or_else(|| Error::misconfigured("the store gave no answer to a write"))
}

fn unexpected(answer: &KvWritten) -> Error {
    Error::misconfigured(format!("the store answered {answer:?} to a write that cannot end so"))
}

impl Client {
    /// Values that outlive runs: those of nobody in particular, which runs without a tenant share.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let client = Outlast::open("sqlite::memory:").await?.client();
    /// client.kv().set("greeting", "hello").await?;
    /// assert_eq!(client.kv().get::<String>("greeting").await?.as_deref(), Some("hello"));
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub fn kv(&self) -> Kv {
        Kv::of_client(self, "")
    }

    /// The values of a tenant, which its runs share.
    pub fn kv_of(&self, tenant: &str) -> Kv {
        Kv::of_client(self, tenant)
    }
}
