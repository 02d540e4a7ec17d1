//! A PostgreSQL database for each test, copied from a migrated template.
//!
//! Tests that share a database see each other's runs and have to be written around that. Migrating a
//! database for every test takes longer than most tests. So the first process that needs a template
//! migrates it, all others copy it, and a copy goes away with the test it was made for.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::thread;

use anyhow::{Context, Result, ensure};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A database that exists for one test. Dropping it removes it, whoever is still connected.
///
/// A test that is killed leaves its database behind, until the cluster of `cargo xtask` ends.
#[derive(Debug)]
pub struct TestDatabase {
    cluster: Config,
    name: String,
    url: String,
}

impl TestDatabase {
    /// Copies the database `template`, which `migrate` fills if it does not exist yet.
    ///
    /// `migrate` gets the URL of an empty database. It runs once in a cluster, however many processes
    /// start at the same time; if that one dies or fails, the next begins anew. Give a template another
    /// name when its contents change.
    ///
    /// # Panics
    ///
    /// Without `OUTLAST_TEST_POSTGRES`, which `cargo xtask` sets.
    pub async fn create(template: &str, migrate: impl AsyncFn(&str) -> Result<()>) -> Result<TestDatabase> {
        let plain = template.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        ensure!(plain && template.len() <= 50, "{template}: a template's name is made of a-z, 0-9 and _");

        let cluster = cluster()?;
        let client = connect(&cluster).await?;
        if !exists(&client, template).await? {
            let made = make_template(&cluster, template, migrate).await;
            made.with_context(|| format!("cannot make the template {template}"))?;
        }

        let name = format!("t_{:016x}", random());
        client.batch_execute(&format!("create database {name} template {template}")).await?;
        Ok(TestDatabase { url: url(&cluster, &name), cluster, name })
    }

    /// Where to connect, such as `postgres://outlast@%2Fsocket%2Fdir:5432/t_0123456789abcdef`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the server lets anybody in. When it does not, it throws out who is there.
    pub async fn admits(&self, admits: bool) -> Result<()> {
        let client = connect(&self.cluster).await?;
        client.batch_execute(&format!("alter database {} allow_connections {admits}", self.name)).await?;
        if !admits {
            let end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
            client.query(end, &[&self.name]).await?;
        }
        Ok(())
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let cluster = self.cluster.clone();
        let drop = format!("drop database {} with (force)", self.name);

        // A runtime cannot block inside another, and a test may drop us inside or outside of one. Errors
        // do not matter: the test has its result, and the database has a name that nobody meets again.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { anyhow::Ok(connect(&cluster).await?.batch_execute(&drop).await?) })
        });
        let _ = dropping.join();
    }
}

/// Whether somebody asked to test without PostgreSQL: `cargo xtask test --skip-postgres`.
pub fn skipped() -> bool {
    env::var_os("OUTLAST_SKIP_POSTGRES").is_some_and(|value| value == "1")
}

/// Makes the template under another name and renames it once it is complete.
///
/// So a database called `template` is always finished, whenever its maker died. The lock belongs to the
/// connection that does the work: a dead maker's lock is freed after its last statement has ended, and
/// what is found unfinished then is nobody's.
async fn make_template(
    cluster: &Config,
    template: &str,
    migrate: impl AsyncFn(&str) -> Result<()>,
) -> Result<()> {
    let client = connect(cluster).await?;
    client.batch_execute(&format!("select pg_advisory_lock(hashtext('{template}'))")).await?;
    if exists(&client, template).await? {
        return Ok(());
    }

    let unfinished = format!("{template}_unfinished");
    if exists(&client, &unfinished).await? {
        client.batch_execute(&format!("alter database {unfinished} is_template false")).await?;
        client.batch_execute(&format!("drop database {unfinished} with (force)")).await?;
    }
    client.batch_execute(&format!("create database {unfinished} template template0")).await?;
    migrate(&url(cluster, &unfinished)).await?;

    // A database is renamed and copied only while nobody is connected, and pools close late.
    let seal = format!("alter database {unfinished} allow_connections false is_template true");
    client.batch_execute(&seal).await?;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
    client.query(end, &[&unfinished]).await?;
    client.batch_execute(&format!("alter database {unfinished} rename to {template}")).await?;
    Ok(())
}

async fn exists(client: &Client, name: &str) -> Result<bool> {
    let row = client.query_opt("select from pg_database where datname = $1", &[&name]).await?;
    Ok(row.is_some())
}

fn cluster() -> Result<Config> {
    let told = env::var("OUTLAST_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "OUTLAST_TEST_POSTGRES is not set: run `cargo xtask test`, or start a PostgreSQL with \
             `cargo xtask postgres` and export what it prints"
        )
    });
    told.parse().with_context(|| format!("OUTLAST_TEST_POSTGRES is not a connection string: {told}"))
}

async fn connect(cluster: &Config) -> Result<Client> {
    let connected = cluster.connect(NoTls).await;
    let (client, connection) =
        connected.context("cannot reach the PostgreSQL of OUTLAST_TEST_POSTGRES; is it still running?")?;
    tokio::spawn(connection);
    Ok(client)
}

fn url(cluster: &Config, database: &str) -> String {
    let user = encoded(cluster.get_user().unwrap_or("outlast"));
    let password = cluster.get_password().map(|password| format!(":{}", encoded(password)));
    let host = match cluster.get_hosts().first() {
        Some(Host::Unix(folder)) => encoded(folder.as_os_str().as_bytes()),
        Some(Host::Tcp(name)) => encoded(name),
        None => "localhost".to_owned(),
    };
    let port = cluster.get_ports().first().unwrap_or(&5432);
    format!("postgres://{user}{}@{host}:{port}/{database}", password.unwrap_or_default())
}

/// Percent-encodes what a URL might read as its own.
fn encoded(text: impl AsRef<[u8]>) -> String {
    let encode = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.as_ref().iter().map(encode).collect()
}

/// A number that no other process draws: the standard library seeds its maps with such.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
