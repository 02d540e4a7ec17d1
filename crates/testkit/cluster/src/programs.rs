//! The server's programs: found wherever packages put them, or installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::packages::{self, on_path};

/// The folder of the server's programs.
pub(crate) struct Programs(pub(crate) PathBuf);

impl Programs {
    pub(crate) fn find_or_install() -> Result<Programs> {
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
