//! Who runs the server, and in which folder: PostgreSQL refuses to be root, and its socket's address is short.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Who runs the server: PostgreSQL refuses to be root.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Account {
    Ours,
    Other { uid: u32, gid: u32 },
}

impl Account {
    pub(crate) fn choose() -> Result<Account> {
        if !are_we_root() {
            return Ok(Account::Ours);
        }
        let known = |name| Some(Account::Other { uid: id(&["-u", name])?, gid: id(&["-g", name])? });
        let other = ["postgres", "nobody"].into_iter().find_map(known);
        other.context("we are root, PostgreSQL refuses to be, and there is no user postgres or nobody")
    }

    /// A folder of this account's, which nobody else can look into.
    pub(crate) fn folder(self) -> Result<TempDir> {
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

    /// Writes a file that this account alone may read: PostgreSQL refuses a key that others can see.
    pub(crate) fn write(self, file: &Path, content: &str) -> Result<()> {
        let write = || {
            fs::write(file, content)?;
            fs::set_permissions(file, Permissions::from_mode(0o600))?;
            match self {
                Account::Ours => Ok(()),
                Account::Other { uid, gid } => chown(file, Some(uid), Some(gid)),
            }
        };
        write().with_context(|| format!("cannot write {}", file.display()))
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
    pub(crate) fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null()).process_group(0);
        if let Account::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// Whether we may do anything here.
pub fn are_we_root() -> bool {
    id(&["-u"]) == Some(0)
}

fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
