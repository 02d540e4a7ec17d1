//! Programs that our commands need and that may be missing: installed where that can be done without asking.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::postgres::are_we_root;
use crate::process;

/// Whether packages can be installed here: as root, on Debian and what is made of it.
pub(crate) fn can_install() -> bool {
    are_we_root() && Path::new("/etc/debian_version").exists() && on_path("apt-get").is_some()
}

/// Installs a package of Debian's.
pub(crate) fn install(package: &str) -> Result<()> {
    println!("==> {package}: installing it with apt-get");
    let install = ["install", "-y", "--no-install-recommends", package];
    for args in [&["update"] as &[&str], &install] {
        let mut apt_get = Command::new("apt-get");
        let status = process::run(apt_get.args(args).env("DEBIAN_FRONTEND", "noninteractive"))?;
        ensure!(status.success(), "`apt-get {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Where the shell would find a program.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
