//! Calls: what is asked of values, and where the question goes.

use std::slice;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::{Error, Limits, check_name};
use outlast_store::{
    KvChange, KvEntry as Kept, KvList, KvName, KvPage as KeptPage, KvWrite, KvWritten, StoreError,
};

use super::answer::only;
use super::recorded::{Recorded, RecordedPage};
use super::{CompareAndSet, DEFAULT_SPACE, KvPage};
use crate::client::repeated;
use crate::ctx::Recording;
use crate::in_tx::InTx;
use crate::{Client, Tx};

/// The most bytes of a step's name that a call makes: half of what a name may have, for the scopes it is called in.
const SHOWN: usize = Limits::NAME / 2;

/// A call of [`Kv`](crate::Kv): `.await` does it.
#[must_use = "nothing is read or written unless awaited"]
pub struct KvCall<T>(Result<(Way, Ask<T>), Error>);

/// Where one call goes. A run's has its place in the journal from the moment it is made.
pub(super) enum Way {
    Store(Client),
    Run(Recording),
    Tx(Tx),
}

/// What is asked, and how the answer is read.
pub(super) enum Ask<T> {
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
    pub(super) fn new(call: Result<(Way, Ask<T>), Error>) -> KvCall<T> {
        KvCall(call)
    }

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
    pub(super) fn shown(&self) -> String {
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
            // That the database is away is the engine's to say, once for all that want something of it.
            Err(error) if error.is_retryable() => tracing::debug!(%error, "values cannot be reached yet"),
            answer => return Ok(answer?),
        }
    }
}
