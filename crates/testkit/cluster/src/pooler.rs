//! A transaction pooler before a cluster: pgbouncer, found or installed, and gone with us.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::Cluster;
use crate::account::Account;
use crate::packages::{self, on_path};

/// A running pgbouncer. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler {
    keeper: Child,
    port: u16,
}

impl Pooler {
    /// Stands before all databases of a cluster, and hands each transaction to whichever connection is free.
    pub fn before(cluster: &Cluster) -> Result<Pooler> {
        if on_path("pgbouncer").is_none() && packages::can_install() {
            packages::install("pgbouncer")?;
        }
        let program = on_path("pgbouncer").context("pgbouncer is missing: apt-get install pgbouncer")?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let folder = cluster.folder().display();
        let settings = format!(
            "[databases]\n* = host={folder} port={} user=outlast\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nadmin_users = outlast\npool_mode = transaction\ndefault_pool_size = 20\n\
             max_client_conn = 500\nlogfile = {folder}/pgbouncer.log\n",
            cluster.port
        );
        let file = cluster.folder().join("pgbouncer.ini");
        fs::write(&file, settings)?;
        if let Account::Other { uid, gid } = cluster.account {
            chown(&file, Some(uid), Some(gid))?;
        }
        let keeper = keep(&program, cluster.account, cluster.folder())?;
        let pooler = Pooler { keeper, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || fs::read_to_string(cluster.folder().join("pgbouncer.log")).unwrap_or_default();
            ensure!(began.elapsed() < Duration::from_secs(20), "pgbouncer does not get ready:\n{}", log());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(pooler)
    }

    /// The same database as `url`, through here.
    pub fn url(&self, url: &str) -> String {
        let database = url.rsplit_once('/').map_or("postgres", |(_, database)| database);
        format!("postgres://outlast@127.0.0.1:{}/{database}", self.port)
    }

    /// Its version, in its own words.
    pub fn version() -> Result<String> {
        let program = on_path("pgbouncer").context("pgbouncer is missing")?;
        let said = std::process::Command::new(program).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.keeper.stdin.take();
        let _ = self.keeper.wait();
    }
}

/// Runs pgbouncer until the end of its keeper's input, which comes also when we are killed outright.
fn keep(program: &Path, account: Account, folder: &Path) -> Result<Child> {
    const KEEP: &str = r#"
        trap '' INT TERM HUP
        "$1" --quiet "$2/pgbouncer.ini" </dev/null &
        read -r _
        kill -KILL $!
        wait $!
    "#;
    let mut keeper = account.command(Path::new("sh"), folder);
    keeper.args(["-c", KEEP, "keeper"]).arg(program).arg(folder);
    keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    keeper.spawn().context("cannot run sh")
}
