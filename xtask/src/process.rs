//! Child processes that end when we are told to end.
//!
//! Each child runs in a process group of its own, so Ctrl-C, SIGTERM and SIGHUP reach only us. We pass
//! them on to the child's whole group and wait for it: no compiler or test outlives the command, and a
//! database is stopped after the tests that use it, not under them.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The error of a command that was told to end.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::error::Error for Interrupted {}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

/// Turns Ctrl-C, SIGTERM and SIGHUP into [`Interrupted`], so that everything is dropped on the way out.
pub(crate) fn listen_for_interrupts() -> Result<()> {
    ctrlc::set_handler(on_interrupt).context("cannot listen for Ctrl-C")
}

/// The same for a command that must not go on for longer than this: then it is told to end, and this fails.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_late = wait.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        let group = if is_late { lock().group } else { None };
        group.inspect(|group| signal(*group, "TERM")).is_some()
    });
    let status = run(command);
    drop(done);
    match watch.join() {
        Ok(false) => status,
        _ => bail!("it went on for more than {} s and was told to end", limit.as_secs()),
    }
}

/// Runs a command to its end. An interrupt ends it early, and then this fails with [`Interrupted`].
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    command.process_group(0).stdin(Stdio::null());

    // Spawned under the lock: an interrupt comes before the child or finds it, and never slips between.
    let mut state = lock();
    if state.interrupted {
        bail!(Interrupted);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    state.group = Some(child.id());
    drop(state);

    let status = child.wait();
    lock().group = None;
    CHANGED.notify_all();
    fail_if_interrupted()?;
    status.with_context(|| format!("cannot wait for {program}"))
}

/// Fails with [`Interrupted`] once we have been told to end.
pub(crate) fn fail_if_interrupted() -> Result<()> {
    if lock().interrupted {
        bail!(Interrupted);
    }
    Ok(())
}

/// Blocks until we are told to end.
pub(crate) fn wait_for_interrupt() {
    let _told = CHANGED.wait_while(lock(), |state| !state.interrupted);
}

struct State {
    interrupted: bool,
    /// The process group of the running child; its number is the child's.
    group: Option<u32>,
}

static STATE: Mutex<State> = Mutex::new(State { interrupted: false, group: None });
static CHANGED: Condvar = Condvar::new();

/// A little longer than the ten seconds that nextest gives to its tests.
const GRACE: Duration = Duration::from_secs(15);

fn on_interrupt() {
    let mut state = lock();
    state.interrupted = true;
    CHANGED.notify_all();
    if let Some(group) = state.group {
        signal(group, "TERM");
        let waited = CHANGED.wait_timeout_while(state, GRACE, |state| state.group.is_some());
        if waited.is_ok_and(|(_, waited)| waited.timed_out()) {
            signal(group, "KILL");
        }
    }
}

/// Signals a whole process group. The shell's `kill` is there even where the program is not.
fn signal(group: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -s {name} -- -{group}")]).status();
    if let Err(error) = sent {
        eprintln!("warning: cannot send SIG{name} to our child: {error}");
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
