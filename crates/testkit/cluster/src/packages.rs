//! Programs that our commands need and that may be missing: installed where that can be done without asking.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::account::are_we_root;

/// Whether packages can be installed here: as root, on Debian and what is made of it.
pub fn can_install() -> bool {
    are_we_root() && Path::new("/etc/debian_version").exists() && on_path("apt-get").is_some()
}

/// Installs a package of Debian's.
pub fn install(package: &str) -> Result<()> {
    println!("==> {package}: installing it with apt-get");
    let install = ["install", "-y", "--no-install-recommends", package];
    for args in [&["update"] as &[&str], &install] {
        let mut apt_get = Command::new("apt-get");
        apt_get.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        let status = apt_get.status().context("cannot run apt-get")?;
        ensure!(status.success(), "`apt-get {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Where the shell would find a program, or an administrator's would.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
