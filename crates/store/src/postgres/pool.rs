//! Connections to PostgreSQL: a bounded number, opened when needed, dropped when broken.
//!
//! A connection comes back only from a transaction that has ended. One that is dropped on the way (a
//! lost reply, a cancelled caller) is closed, and the server rolls back what was open on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Statement};

use super::error::meaning;
use super::server::{CONNECT, Server};
use super::tls::Wanted;
use crate::address::refused;
use crate::{Shape, StoreError};

/// How long a transaction waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(10);
/// How many connections there are unless the URL says otherwise.
const SIZE: usize = 8;
/// How many there are of a pool beside the others.
const APART: usize = 2;

/// What the URL says.
pub(super) struct Target {
    pub(super) server: Server,
    size: usize,
    /// Whether statements stay unnamed, as a transaction pooler in between needs them.
    unnamed: bool,
}

/// The connections to one database.
pub(super) struct Pool {
    pub(super) server: Server,
    size: usize,
    unnamed: AtomicBool,
    /// Whether the server has ever let us in: the address is right then.
    was_in: AtomicBool,
    free: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
    /// Where connections are driven: whoever opens one may have a runtime of their own, which may end.
    runtime: Handle,
}

/// One connection with the statements it knows.
pub(super) struct Connection {
    pub(super) client: Client,
    opened: Instant,
    pub(super) statements: HashMap<(&'static str, Shape), Statement>,
    /// Whether it was told how to plan.
    pub(super) plans: bool,
    driver: AbortHandle,
}

/// A connection in somebody's hands.
pub(super) struct Leased {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _place: OwnedSemaphorePermit,
}

impl Target {
    /// Reads a URL, ours and the driver's options in it. No refusal quotes a part that may be a password.
    pub(super) fn read(url: &str) -> Result<Target, StoreError> {
        let (mut size, mut unnamed) = (SIZE, false);
        let mut encryption = Wanted::default();
        let (head, options) = parted(url);
        let mut theirs = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("pool", value)) => match value.parse() {
                    Ok(number @ 1..=1000) => size = number,
                    _ => return refused("`pool` in the address is not a number from 1 to 1000".to_owned()),
                },
                Some(("statements", "unnamed")) => unnamed = true,
                Some(("statements", "named")) => unnamed = false,
                Some((name, value)) if encryption.takes(name, value) => {}
                _ => theirs.push(option),
            }
        }
        let theirs = if theirs.is_empty() { head.to_owned() } else { format!("{head}?{}", theirs.join("&")) };
        let Ok(mut config) = theirs.parse::<Config>() else { return refused(unreadable(url)) };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return refused("the address names no host: write postgres://user@host/database".to_owned());
        }
        let tls = encryption.apply(&mut config)?;
        config.connect_timeout(CONNECT);
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(15));
        if config.get_application_name().is_none() {
            config.application_name("outlast");
        }
        Ok(Target { server: Server { config, tls }, size, unnamed })
    }

    /// The database's name for people.
    pub(super) fn place(&self) -> String {
        let config = &self.server.config;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => config.get_hostaddrs().first().map_or("?".to_owned(), ToString::to_string),
        };
        let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
        format!("the PostgreSQL database `{database}` at {host}")
    }
}

/// The options apart from the rest. A `?` before the first `@` belongs to a password.
fn parted(url: &str) -> (&str, &str) {
    let behind_password = url.find('@').unwrap_or(0);
    match url[behind_password..].find('?') {
        Some(at) => (&url[..behind_password + at], &url[behind_password + at + 1..]),
        None => (url, ""),
    }
}

fn unreadable(url: &str) -> String {
    let shape =
        "postgres://user:password@host:5432/database, special characters percent-encoded (`@` is %40)";
    // A password with `@` and `?` in it looks like options.
    match parted(url).1 {
        options if !options.is_empty() && !options.contains('@') => format!(
            "the PostgreSQL address cannot be read; one of its options (`?{options}`) may be unknown: \
             write {shape}"
        ),
        _ => format!("the PostgreSQL address cannot be read: write {shape}"),
    }
}

impl Pool {
    pub(super) fn new(target: Target) -> Pool {
        let Target { server, size, unnamed } = target;
        let places = Arc::new(Semaphore::new(size));
        let (unnamed, was_in) = (unnamed.into(), false.into());
        let runtime = Handle::current();
        Pool { server, size, unnamed, was_in, free: Mutex::default(), places, runtime }
    }

    /// A few connections to the same database that another runtime drives.
    pub(super) fn apart(&self, runtime: &Handle) -> Pool {
        Pool {
            server: self.server.clone(),
            size: APART,
            unnamed: self.is_unnamed().into(),
            was_in: self.was_in.load(Ordering::Relaxed).into(),
            free: Mutex::default(),
            places: Arc::new(Semaphore::new(APART)),
            runtime: runtime.clone(),
        }
    }

    /// A connection: a free one, or a new one when there are fewer than there may be.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Leased, StoreError> {
        let place = timeout(ACQUIRE, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            let why = format!("all {} connections have been busy for {ACQUIRE:?}", self.size);
            return Err(StoreError::Unavailable(why.into()));
        };
        let free = || {
            let mut free = self.free.lock();
            free.retain(|connection| !connection.client.is_closed());
            free.pop()
        };
        let connection = match free() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        Ok(Leased { connection: Some(connection), pool: Arc::clone(self), _place: place })
    }

    async fn open(&self) -> Result<Connection, StoreError> {
        let opened = Instant::now();
        let (client, mut messages) = self.server.connect().await.map_err(|error| self.refusal(error))?;
        self.was_in.store(true, Ordering::Relaxed);
        // Whoever uses the client hears of errors.
        let driver = self.runtime.spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
        let driver = driver.abort_handle();
        Ok(Connection { client, opened, statements: HashMap::new(), plans: false, driver })
    }

    /// What it means that no connection could be had. Where we were let in before, whatever keeps us out now
    /// (a database that is closed for a while, a password that is being changed) may be over in a moment; and
    /// it says nothing about what we wanted to do.
    fn refusal(&self, error: StoreError) -> StoreError {
        match self.was_in.load(Ordering::Relaxed) && !error.is_retryable() {
            true => StoreError::Unavailable(error.to_string().into()),
            false => error,
        }
    }

    /// How many connections there may be.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How many are in somebody's hands.
    pub(super) fn in_use(&self) -> usize {
        self.size.saturating_sub(self.places.available_permits())
    }

    /// Whether statements are sent without names.
    pub(super) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Relaxed)
    }

    /// Says so if the server acknowledges what a crash of its machine may undo: that is its owner's choice.
    pub(super) async fn look_at_durability(self: &Arc<Self>) -> Result<(), StoreError> {
        let lease = self.lease().await?;
        let asked = lease.client().query_typed("select current_setting('synchronous_commit')", &[]);
        let answer = answered(asked).await?;
        if answer.first().is_some_and(|row| row.get::<_, &str>(0) == "off") {
            tracing::warn!(
                "synchronous_commit is off: if PostgreSQL crashes, the last acknowledged runs may be lost"
            );
        }
        lease.give_back();
        Ok(())
    }

    /// Looks whether a pooler hands our transactions to changing servers, and keeps statements unnamed
    /// then: names belong to a server, and another client's statement may answer to ours.
    pub(super) async fn look_for_pooler(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.is_unnamed() || self.size < 2 {
            return Ok(());
        }
        let (first, second) = (self.lease().await?, self.lease().await?);
        // Among many others' transactions ours may meet the same server again; but that was there before us.
        let is_older = is_older(&first).await?;
        let before = server(&first).await?;
        execute(&second, "begin").await?;
        let between = server(&second).await?;
        let after = server(&first).await?;
        execute(&second, "rollback").await?;
        if is_older || before != after || before == between {
            tracing::warn!("a transaction pooler stands before PostgreSQL: statements stay unnamed");
            self.unnamed.store(true, Ordering::Relaxed);
        }
        first.give_back();
        second.give_back();
        Ok(())
    }
}

impl Leased {
    /// Back to the others, when no transaction is open on it.
    pub(super) fn give_back(mut self) {
        if let Some(connection) = self.connection.take()
            && !connection.client.is_closed()
        {
            self.pool.free.lock().push(connection);
        }
    }

    /// Whether statements are sent without names.
    pub(super) fn is_unnamed(&self) -> bool {
        self.pool.is_unnamed()
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a connection is taken only when its lease ends")
    }

    pub(super) fn client(&self) -> &Client {
        &self.connection.as_ref().expect("a connection is taken only when its lease ends").client
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // Not given back: nobody knows what is open on it, or whether anybody still answers.
        if let Some(connection) = self.connection.take() {
            connection.driver.abort();
        }
    }
}

/// Runs a statement that has no parameters and no answer.
pub(super) async fn execute(connection: &Leased, sql: &str) -> Result<(), StoreError> {
    answered(connection.client().batch_execute(sql)).await
}

async fn server(connection: &Leased) -> Result<i32, StoreError> {
    let asked = connection.client().query_typed("select pg_backend_pid()", &[]);
    let rows = answered(asked).await?;
    rows[0].try_get(0).map_err(|error| meaning(&error))
}

/// Whether the server behind a connection has been there for longer than the connection.
async fn is_older(connection: &Leased) -> Result<bool, StoreError> {
    const CLOCKS: Duration = Duration::from_secs(1);
    let asked = connection.client().query_typed(
        "select cast(extract(epoch from clock_timestamp() - a.backend_start) * 1000 as bigint)
           from pg_catalog.pg_stat_activity as a where a.pid = pg_catalog.pg_backend_pid()",
        &[],
    );
    let rows = answered(asked).await?;
    let age = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok()).unwrap_or_default();
    let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
    let opened = connection.connection.as_ref().map(|connection| connection.opened.elapsed());
    Ok(opened.is_some_and(|opened| age > opened + CLOCKS))
}

/// Waits for a short answer, and not for ever.
pub(super) async fn answered<T>(
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match timeout(ACQUIRE, asked).await {
        Ok(answer) => answer.map_err(|error| meaning(&error)),
        Err(_) => {
            Err(StoreError::Unavailable(format!("PostgreSQL did not answer within {ACQUIRE:?}").into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Target::read(url).err().unwrap().to_string()
    }

    #[test]
    fn our_own_options_are_read_and_taken_out() {
        let target =
            Target::read("postgres://ann@host/db?pool=3&connect_timeout=2&statements=unnamed").unwrap();
        assert_eq!((target.size, target.unnamed), (3, true));
        assert_eq!(target.place(), "the PostgreSQL database `db` at host");
        assert!(refusal("postgres://host/db?pool=0").contains("from 1 to 1000"));
    }

    #[test]
    fn what_cannot_be_read_is_said_without_the_password() {
        assert!(refusal("postgres://ann@host/db?colour=red").contains("`?colour=red`"));
        for url in ["postgres://ann:hunter2@host:port/db", "postgres://ann:x@y?hunter2=1@host/db"] {
            let said = refusal(url);
            assert!(said.contains("cannot be read") && !said.contains("hunter2"), "{said}");
        }
        assert!(refusal("postgres:///db").contains("names no host"));
    }
}
