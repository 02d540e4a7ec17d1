//! A PostgreSQL for the tests: found or installed, started on its own, and gone afterwards.
//!
//! Tests must not depend on a server that somebody set up by hand, nor leave one behind. So each
//! command makes a fresh cluster in a temporary folder, reachable through a socket in that folder and
//! through no network address. Durability is off unless asked for: this data never has to survive anything.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::packages::{self, on_path};
use crate::process;

/// A running PostgreSQL. Dropping it stops the server and removes its folder.
pub(crate) struct Cluster {
    keeper: Child,
    server: Child,
    folder: TempDir,
    port: u16,
}

impl Cluster {
    /// Starts a fresh cluster; its superuser is `outlast`, and who reaches its socket is trusted.
    pub(crate) fn start() -> Result<Cluster> {
        Cluster::start_with("", PORT)
    }

    /// The same with durability on, as a production server has it.
    pub(crate) fn start_durable() -> Result<Cluster> {
        Cluster::start_with(DURABLE, PORT)
    }

    /// Durable, with statements counted where the server can, and reachable on loopback for programs that
    /// know no sockets.
    pub(crate) fn start_for_figures() -> Result<Cluster> {
        let counts = Programs::find_or_install()?.0.join("../lib/pg_stat_statements.so").is_file();
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let open = format!("listen_addresses = '127.0.0.1'\nport = {port}\n");
        Cluster::start_with(&format!("{DURABLE}{open}{}", if counts { COUNTED } else { "" }), port)
    }

    fn start_with(more_settings: &str, port: u16) -> Result<Cluster> {
        let programs = Programs::find_or_install()?;
        let account = Account::choose()?;
        let folder = account.folder()?;
        let data = folder.path().join("data");

        let mut initdb = account.command(&programs.0.join("initdb"), folder.path());
        initdb.arg("--pgdata").arg(&data).args(["--username", "outlast", "--auth", "trust", "--no-sync"]);
        finish(initdb.args(["--encoding", "UTF8", "--locale", "C"]))?;
        configure(&data.join("postgresql.conf"), folder.path(), more_settings)?;

        // A child of ours, not pg_ctl's orphan: where nobody adopts orphans it would stay as a zombie.
        let keeper = keep(&programs, account, folder.path())?;
        let log = File::create(folder.path().join("log")).context("cannot create the server's log")?;
        let mut postgres = account.command(&programs.0.join("postgres"), folder.path());
        postgres.arg("-D").arg(&data).stdout(log.try_clone()?).stderr(log);
        let server = postgres.spawn().context("cannot run postgres")?;

        let mut cluster = Cluster { keeper, server, folder, port };
        cluster.wait_until_ready()?;
        // Not while it starts: a server can be stopped properly once it is up.
        process::fail_if_interrupted()?;
        Ok(cluster)
    }

    /// How to connect, in libpq's keywords.
    pub(crate) fn keywords(&self) -> String {
        format!("host={} port={} user=outlast dbname=postgres", self.folder.path().display(), self.port)
    }

    /// How to connect, as a URL.
    pub(crate) fn url(&self) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://outlast@{host}:{}/postgres", self.port)
    }

    /// A new database, by its address on loopback: only of a cluster that was started for figures.
    pub(crate) fn fresh_database(&self, name: &str) -> Result<String> {
        let psql = Programs::find_or_install()?.0.join("psql");
        let psql = if psql.is_file() { psql } else { PathBuf::from("psql") };
        for sql in [format!("drop database if exists {name}"), format!("create database {name}")] {
            finish(Command::new(&psql).args(["--quiet", "--dbname", &self.keywords(), "--command", &sql]))?;
        }
        Ok(format!("postgres://outlast@127.0.0.1:{}/{name}", self.port))
    }

    /// Where the server writes its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let file = self.folder.path().join("data/postmaster.pid");
        let began = Instant::now();
        loop {
            // The eighth line is the server's state; pg_ctl waits for the same word.
            let state = fs::read_to_string(&file).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
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
        // The keeper acts on the end of its input.
        self.keeper.stdin.take();
        let _ = self.keeper.wait();
        // Over by now, unless it never got as far as pg_ctl can see.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
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

const COUNTED: &str = "\
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track_utility = on
";

fn configure(file: &Path, socket: &Path, more: &str) -> Result<()> {
    let settings = format!("unix_socket_directories = '{}'\n{SETTINGS}{more}", socket.display());
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

/// Who runs the server: PostgreSQL refuses to be root.
#[derive(Clone, Copy)]
enum Account {
    Ours,
    Other { uid: u32, gid: u32 },
}

impl Account {
    fn choose() -> Result<Account> {
        if !are_we_root() {
            return Ok(Account::Ours);
        }
        let known = |name| Some(Account::Other { uid: id(&["-u", name])?, gid: id(&["-g", name])? });
        let other = ["postgres", "nobody"].into_iter().find_map(known);
        other.context("we are root, PostgreSQL refuses to be, and there is no user postgres or nobody")
    }

    /// A folder of this account's, which nobody else can look into.
    fn folder(self) -> Result<TempDir> {
        let places = [env::temp_dir(), PathBuf::from("/tmp")];
        let place = places.iter().find(|place| self.can_live_in(place));
        let place = place.with_context(|| format!("no folder among {places:?} suits a PostgreSQL socket"))?;

        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("outlast-pg-").permissions(private).tempdir_in(place);
        let folder = folder.with_context(|| format!("cannot make a folder in {}", place.display()))?;
        if let Account::Other { uid, gid } = self {
            chown(folder.path(), Some(uid), Some(gid)).context("cannot give the cluster's folder away")?;
        }
        Ok(folder)
    }

    fn can_live_in(self, place: &Path) -> bool {
        // The address of a socket holds 103 bytes on macOS and 107 on Linux.
        let fits = place.as_os_str().len() + "/outlast-pg-123456/.s.PGSQL.5432".len() <= 100;
        // Such a path needs no quotes: not in the settings, not in keywords, not in a shell.
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let others_may_pass = |folder: &Path| {
            fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
        };
        fits && place.is_absolute()
            && place.to_str().is_some_and(|place| place.chars().all(plain))
            && (matches!(self, Account::Ours) || place.ancestors().all(others_may_pass))
    }

    /// A command of this account's, which Ctrl-C in our terminal does not reach.
    fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null()).process_group(0);
        if let Account::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

pub(crate) fn are_we_root() -> bool {
    id(&["-u"]) == Some(0)
}

fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// The folder of the server's programs.
struct Programs(PathBuf);

impl Programs {
    fn find_or_install() -> Result<Programs> {
        if let Some(named) = env::var_os("OUTLAST_PG_BIN") {
            let programs = Programs(named.into());
            ensure!(
                programs.are_complete(),
                "OUTLAST_PG_BIN names {}, which lacks initdb, pg_ctl or postgres",
                programs.0.display()
            );
            return Ok(programs);
        }
        if let Some(programs) = Programs::find() {
            return Ok(programs);
        }
        if packages::can_install() {
            install()?;
            return Programs::find().context("PostgreSQL was installed, and yet its programs are missing");
        }
        bail!("{HOW_TO_INSTALL}")
    }

    fn find() -> Option<Programs> {
        let told = || Some(PathBuf::from(output_of(Command::new("pg_config").arg("--bindir"))?));
        // The one on the path may be a link; its neighbours stand where it leads.
        let on_path = || Some(on_path("initdb")?.canonicalize().ok()?.parent()?.to_owned());
        let complete = |folder| Some(Programs(folder)).filter(Programs::are_complete);
        told().and_then(complete).or_else(|| on_path().and_then(complete)).or_else(Programs::newest)
    }

    fn newest() -> Option<Programs> {
        let folders = PLACES.iter().flat_map(|&(parent, prefix, bin)| versions(parent, prefix, bin));
        let complete = folders.map(|(version, folder)| (version, Programs(folder)));
        let complete = complete.filter(|(_, programs)| programs.are_complete());
        Some(complete.max_by_key(|(version, _)| *version)?.1)
    }

    fn are_complete(&self) -> bool {
        ["initdb", "pg_ctl", "postgres"].iter().all(|program| self.0.join(program).is_file())
    }
}

/// Where packages put a server: a parent, how the version's folder begins, and what is inside.
const PLACES: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/libexec", "postgresql", ""),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/usr/local", "pgsql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

const HOW_TO_INSTALL: &str = "\
PostgreSQL's server programs (initdb, pg_ctl, postgres) are missing. Install them:

  Debian, Ubuntu   sudo apt-get install postgresql
  Fedora, RHEL     sudo dnf install postgresql-server
  Arch             sudo pacman -S postgresql
  Alpine           sudo apk add postgresql
  macOS            brew install postgresql@17

If they are somewhere unusual, set OUTLAST_PG_BIN to their folder. To test on SQLite alone, run
`cargo xtask test --skip-postgres`.";

/// The folders `{parent}/{prefix}*/{bin}` with the version that each name tells.
fn versions(parent: &str, prefix: &str, bin: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let version = |name: &str| {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let rest = name.strip_prefix(prefix)?;
        Some((version(rest).unwrap_or(0), entry.path().join(bin)))
    });
    found.collect()
}

fn install() -> Result<()> {
    // Debian would make and start a cluster of its own, which nobody here has asked for.
    let debians_own = Path::new("/etc/postgresql-common/createcluster.conf");
    if !debians_own.exists() {
        fs::create_dir_all("/etc/postgresql-common")?;
        fs::write(debians_own, "create_main_cluster = false\n")?;
    }
    packages::install("postgresql")
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command to its end, and shows what it said only if it failed.
fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{program} failed:\n{}", String::from_utf8_lossy(&said));
    Ok(())
}
