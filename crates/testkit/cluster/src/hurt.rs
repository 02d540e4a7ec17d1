//! Everything that can be done to a server: stopped in three ways and started again, frozen, and left without space.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::account::Account;
use crate::{Cluster, finish, serve};

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Transactions are cut off, and what is in memory is written: `pg_ctl stop -m fast`.
    Fast,
    /// Everybody leaves at once, and the next start recovers: `pg_ctl stop -m immediate`.
    Immediate,
    /// SIGKILL for the one that watches over all others, which leave when they notice.
    Kill,
}

impl Cluster {
    /// Stops the server, and waits until nothing of it is left.
    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let left = self.processes();
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
            Stop::Kill => Signal::KILL,
        };
        kill_process(self.pid(), signal).context("the server cannot be told to stop")?;
        self.server.wait()?;
        // What a dead server left behind still holds its memory, and no other may start.
        let began = Instant::now();
        while left.iter().any(|pid| Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists()) {
            ensure!(began.elapsed() < Duration::from_secs(60), "processes of the server do not leave");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Starts the server again on what it left, and waits until it lets anybody in.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = serve(&self.postgres, self.account, self.folder.path())?;
        self.wait_until_ready()
    }

    /// Whether the server runs.
    pub fn is_up(&mut self) -> Result<bool> {
        Ok(self.server.try_wait()?.is_none())
    }

    /// Stops all of its processes where they are: connections stay open, and nobody answers. Says how many.
    pub fn freeze(&self) -> Result<usize> {
        self.signal_all(Signal::STOP)
    }

    /// Lets them go on.
    pub fn thaw(&self) -> Result<usize> {
        self.signal_all(Signal::CONT)
    }

    /// Takes all the space that is left on a small disk; gives the bytes that were.
    pub fn fill_disk(&self) -> Result<u64> {
        let mount = self.mount.as_ref().context("only a small disk can be filled")?;
        mount.fill()
    }

    /// Gives the space back.
    pub fn free_disk(&self) -> Result<()> {
        self.mount.as_ref().context("only a small disk can be filled")?.free()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.server)
    }

    /// The first first: it cannot start others while they are being stopped.
    fn signal_all(&self, signal: Signal) -> Result<usize> {
        let all = self.processes();
        for pid in &all {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(*pid, signal);
        }
        Ok(all.len())
    }

    /// The server's processes: the one that we started, and its children.
    fn processes(&self) -> Vec<Pid> {
        let first = self.pid();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let children = numbers.filter(|number| parent(*number) == Some(first.as_raw_nonzero().get()));
        [first].into_iter().chain(children.filter_map(Pid::from_raw)).collect()
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything but is closed by the last parenthesis: state, parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A small disk in memory. Dropping it lets it go.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// Makes a disk of so many megabytes, for us.
    pub fn small(at: &Path, megabytes: u32) -> Result<Mount> {
        Mount::make(at, megabytes, Account::Ours)
    }

    pub(crate) fn make(at: &Path, megabytes: u32, account: Account) -> Result<Mount> {
        fs::create_dir_all(at)?;
        let size = format!("size={megabytes}m,mode=0700");
        finish(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at))?;
        let mount = Mount(at.to_owned());
        if let Account::Other { uid, gid } = account {
            chown(at, Some(uid), Some(gid)).context("cannot give the disk away")?;
        }
        Ok(mount)
    }

    /// Takes all the space that is left; gives the bytes that were.
    pub fn fill(&self) -> Result<u64> {
        let mut ballast = File::create(self.ballast())?;
        let (mut taken, mut size) = (0, 1 << 20);
        while size > 0 {
            match ballast.write(&vec![0; size]) {
                Ok(written @ 1..) => taken += written as u64,
                _ => size /= 2,
            }
        }
        Ok(taken)
    }

    /// Gives the space back.
    pub fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }

    /// Beside what PostgreSQL keeps in its folder, under a name that it leaves alone.
    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
