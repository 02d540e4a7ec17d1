//! Values that handlers keep: small, shared by all runs of one tenant, and there when those have ended.
//!
//! One handle, [`Kv`], wherever values can be used. What differs is where its calls go: through a run's journal, into
//! a transaction, or straight to the store.

mod answer;
mod call;
mod recorded;

use std::panic::Location;
use std::sync::Arc;

use outlast_core::{Error, Limits, check_name};
use outlast_store::{Expect, KvChange, KvList, KvName, KvWrite};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use self::answer::{CompareAndSet, KvEntry, KvPage};
pub use self::call::KvCall;

use self::answer::{read_any, read_compared, read_deleted, read_page, read_version};
use self::call::{Ask, Way};
use self::recorded::setting;
use crate::ctx::Recording;
use crate::{Client, Ctx, Tx};

/// The space of whoever names none.
const DEFAULT_SPACE: &str = "default";

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
        KvCall::new(ask.map(|ask| (way(&ask), ask)))
    }
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
