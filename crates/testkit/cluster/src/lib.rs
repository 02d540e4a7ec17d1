//! A PostgreSQL for the tests: found or installed, started on its own, and gone afterwards.
//!
//! Tests must not depend on a server that somebody set up by hand, nor leave one behind. So each
//! command makes a fresh cluster in a temporary folder, reachable through a socket in that folder and
//! through no network address. Durability is off unless asked for: this data never has to survive anything.

mod account;
mod hurt;
pub mod packages;
mod pooler;
mod programs;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use self::account::Account;
pub use self::account::are_we_root;
pub use self::hurt::{Mount, Stop};
pub use self::pooler::Pooler;
use self::programs::Programs;

/// A running PostgreSQL. Dropping it stops the server and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    keeper: Child,
    server: Child,
    /// Let go after the server and before the folder.
    mount: Option<Mount>,
    folder: TempDir,
    port: u16,
    account: Account,
    postgres: PathBuf,
}

impl Cluster {
    /// Starts a fresh cluster; its superuser is `outlast`, and who reaches its socket is trusted.
    pub fn start() -> Result<Cluster> {
        Cluster::start_with("", PORT, None)
    }

    /// The same with durability on, as a production server has it.
    pub fn start_durable() -> Result<Cluster> {
        Cluster::start_with(DURABLE, PORT, None)
    }

    /// Durable, with settings of the caller's own, each on a line, that count more than ours.
    pub fn start_durable_with(settings: &str) -> Result<Cluster> {
        Cluster::start_with(&format!("{DURABLE}{settings}"), PORT, None)
    }

    /// Durable, on a disk of so many megabytes that is memory: only root can make one.
    pub fn start_on_a_small_disk(megabytes: u32) -> Result<Cluster> {
        Cluster::start_with(&format!("{DURABLE}{SMALL}"), PORT, Some(megabytes))
    }

    /// Durable, with statements counted where the server can, and reachable on loopback for programs that
    /// know no sockets.
    pub fn start_for_figures() -> Result<Cluster> {
        let counts = Programs::find_or_install()?.0.join("../lib/pg_stat_statements.so").is_file();
        let (open, port) = on_loopback()?;
        Cluster::start_with(&format!("{DURABLE}{open}{}", if counts { COUNTED } else { "" }), port, None)
    }

    /// Reachable on loopback as the caller's settings and files say, which stand in its data folder for it alone to
    /// read: certificates and their keys, and `pg_hba.conf`, which says who may come in.
    pub fn start_on_loopback(settings: &str, files: &[(&str, &str)]) -> Result<Cluster> {
        let (open, port) = on_loopback()?;
        Cluster::start_with_files(&format!("{open}{settings}"), port, None, files)
    }

    fn start_with(more_settings: &str, port: u16, megabytes: Option<u32>) -> Result<Cluster> {
        Cluster::start_with_files(more_settings, port, megabytes, &[])
    }

    fn start_with_files(
        more_settings: &str,
        port: u16,
        megabytes: Option<u32>,
        files: &[(&str, &str)],
    ) -> Result<Cluster> {
        let programs = Programs::find_or_install()?;
        let account = Account::choose()?;
        let folder = account.folder()?;
        let data = folder.path().join("data");
        let mount = megabytes.map(|megabytes| Mount::make(&data, megabytes, account)).transpose()?;

        let mut initdb = account.command(&programs.0.join("initdb"), folder.path());
        initdb.arg("--pgdata").arg(&data).args(["--username", "outlast", "--auth", "trust", "--no-sync"]);
        finish(initdb.args(["--encoding", "UTF8", "--locale", "C"]))?;
        configure(&data.join("postgresql.conf"), folder.path(), more_settings)?;
        for (name, content) in files {
            account.write(&data.join(name), content)?;
        }

        let keeper = keep(&programs, account, folder.path())?;
        let postgres = programs.0.join("postgres");
        let server = serve(&postgres, account, folder.path())?;
        let mut cluster = Cluster { keeper, server, mount, folder, port, account, postgres };
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// How to connect, in libpq's keywords.
    pub fn keywords(&self) -> String {
        format!("host={} port={} user=outlast dbname=postgres", self.folder.path().display(), self.port)
    }

    /// The port of its socket, and on loopback if it is there.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How to connect, as a URL.
    pub fn url(&self) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://outlast@{host}:{}/postgres", self.port)
    }

    /// A new database, by its address on loopback: only of a cluster that was started for figures.
    pub fn fresh_database(&self, name: &str) -> Result<String> {
        let psql = Programs::find_or_install()?.0.join("psql");
        let psql = if psql.is_file() { psql } else { PathBuf::from("psql") };
        for sql in [format!("drop database if exists {name}"), format!("create database {name}")] {
            finish(Command::new(&psql).args(["--quiet", "--dbname", &self.keywords(), "--command", &sql]))?;
        }
        Ok(format!("postgres://outlast@127.0.0.1:{}/{name}", self.port))
    }

    /// Where everything is: the socket, the log and the data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the server writes its log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let file = self.folder.path().join("data/postmaster.pid");
        let began = Instant::now();
        loop {
            // The eighth line is the server's state; pg_ctl waits for the same word. One that was killed left its own
            // behind, with its own number.
            let state = fs::read_to_string(&file).unwrap_or_default();
            let is_ours = state.lines().next() == Some(&self.server.id().to_string());
            if is_ours && state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return Ok(());
            }
            let ended = self.server.try_wait()?.is_some();
            if ended || began.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                bail!("PostgreSQL {}:\n{log}", if ended { "ended at once" } else { "does not get ready" });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // One that was stopped with SIGSTOP hears nothing else.
        let _ = self.thaw();
        // The keeper acts on the end of its input.
        self.keeper.stdin.take();
        let _ = self.keeper.wait();
        // Over by now, unless it never got as far as pg_ctl can see.
        let _ = self.server.kill();
        let _ = self.server.wait();
        self.mount.take();
        let _ = fs::remove_dir_all(self.folder.path());
    }
}

/// Runs a server. A child of ours, not pg_ctl's orphan: where nobody adopts orphans it would stay as a zombie.
fn serve(postgres: &Path, account: Account, folder: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(folder.join("log"));
    let log = log.context("cannot write the server's log")?;
    let mut postgres = account.command(postgres, folder);
    postgres.arg("-D").arg(folder.join("data")).stdout(log.try_clone()?).stderr(log);
    postgres.spawn().context("cannot run postgres")
}

/// Only a part of the socket's name: no TCP port is taken.
const PORT: u16 = 5432;

const SETTINGS: &str = "\
listen_addresses = ''
port = 5432
max_connections = 400
shared_buffers = 128MB
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 4GB
checkpoint_timeout = 1h
log_checkpoints = off
timezone = 'UTC'
log_timezone = 'UTC'
";

/// What stands last counts.
const DURABLE: &str = "\
fsync = on
synchronous_commit = on
full_page_writes = on
";

/// What little space there is shall not go to the log of changes.
const SMALL: &str = "\
max_wal_size = 48MB
min_wal_size = 32MB
";

const COUNTED: &str = "\
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track_utility = on
";

/// Further settings, each on a line, for whoever wants to see what a server does: `auto_explain` above all.
const WANTED: &str = "OUTLAST_CLUSTER_SETTINGS";

/// Settings that open a server to this machine, on a port that nobody has.
fn on_loopback() -> Result<(String, u16)> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    Ok((format!("listen_addresses = '127.0.0.1'\nport = {port}\n"), port))
}

fn configure(file: &Path, socket: &Path, more: &str) -> Result<()> {
    let wanted = env::var(WANTED).unwrap_or_default();
    let settings = format!("unix_socket_directories = '{}'\n{SETTINGS}{more}{wanted}\n", socket.display());
    let append = || OpenOptions::new().append(true).open(file)?.write_all(settings.as_bytes());
    append().with_context(|| format!("cannot write {}", file.display()))
}

/// Starts the process that ends the cluster when we end, in whichever way.
///
/// It waits for the end of its input, which comes when we drop the cluster and also when we are killed
/// outright. It ignores the signals that tell us to end: we have a say in when.
fn keep(programs: &Programs, account: Account, folder: &Path) -> Result<Child> {
    const KEEP: &str = r#"
        trap '' INT TERM HUP
        read -r _
        "$1" stop --pgdata "$2/data" --mode immediate --silent
        cd / && rm -rf "$2"
    "#;
    let mut keeper = account.command(Path::new("sh"), folder);
    keeper.args(["-c", KEEP, "keeper"]).arg(programs.0.join("pg_ctl")).arg(folder);
    keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    keeper.spawn().context("cannot run sh")
}

/// Runs a command to its end, and shows what it said only if it failed.
fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{program} failed:\n{}", String::from_utf8_lossy(&said));
    Ok(())
}
