//! Programs that our commands need and that may be missing: installed where that can be done without asking.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::account::are_we_root;

/// Whether packages can be installed here: as root or with a `sudo` that asks nothing, on Debian and what is made of it.
pub fn can_install() -> bool {
    let is_debian = Path::new("/etc/debian_version").exists() && on_path("apt-get").is_some();
    is_debian && (are_we_root() || can_become_root())
}

fn can_become_root() -> bool {
    let asked =
        Command::new("sudo").args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Installs a package of Debian's.
pub fn install(package: &str) -> Result<()> {
    println!("==> {package}: installing it with apt-get");
    let install = ["install", "-y", "--no-install-recommends", package];
    for args in [&["update"] as &[&str], &install] {
        let mut apt_get = if are_we_root() {
            Command::new("apt-get")
        } else {
            let mut sudo = Command::new("sudo");
            sudo.args(["-n", "--preserve-env=DEBIAN_FRONTEND", "apt-get"]);
            sudo
        };
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
