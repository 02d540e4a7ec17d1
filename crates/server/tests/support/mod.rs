//! For the tests of the command line: the real binary in a folder of its own, and patience with a bound.

#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to come true on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(40);

/// A folder with a database, and commands that look at it.
pub(crate) struct Shop {
    folder: TempDir,
    url: Option<String>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running `outlast dev`. Killed when dropped.
pub(crate) struct Dev {
    child: Child,
    out: Lines,
    err: Lines,
}

impl Shop {
    /// A shop on the usual SQLite file.
    pub(crate) fn new() -> Shop {
        Shop { folder: tempfile::tempdir().unwrap(), url: None }
    }

    /// A shop on another database.
    pub(crate) fn at(url: &str) -> Shop {
        Shop { url: Some(url.to_owned()), ..Shop::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command that was not started by cargo.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG", "CARGO_MANIFEST_DIR"] {
            command.env_remove(name);
        }
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTLAST_"))
        {
            command.env_remove(name);
        }
        // Whoever runs the tests may have settings of their own.
        command.env("XDG_CONFIG_HOME", self.folder.path().join(".config"));
        if let Some(url) = &self.url {
            command.env("OUTLAST_DATABASE_URL", url);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Answer {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that has to work; gives what it answered.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let answer = self.run(args);
        assert_eq!(answer.code, 0, "outlast {}: {answer:?}", args.join(" "));
        answer.out
    }

    /// Runs a command that has to be refused, in one line on stderr; gives the line.
    pub(crate) fn refused(&self, args: &[&str], code: i32) -> String {
        let answer = self.run(args);
        assert_eq!(answer.code, code, "outlast {}: {answer:?}", args.join(" "));
        assert!(answer.out.is_empty(), "{answer:?}");
        let line = answer.err.strip_suffix('\n').unwrap().to_owned();
        assert!(line.starts_with("error: ") && line.ends_with(')') && !line.contains('\n'), "{line}");
        line
    }

    /// A run as `show -o json` has it; `null` while there is none.
    pub(crate) fn show(&self, run: &str) -> Value {
        let answer = self.run(&["show", run, "-o", "json"]);
        serde_json::from_str(&answer.out).unwrap_or_default()
    }

    /// Waits until a run is in a status.
    pub(crate) fn until_status(&self, run: &str, status: &str) -> Value {
        until(&format!("{run} is {status}"), || {
            let shown = self.show(run);
            (shown["status"] == status).then_some(shown)
        })
    }

    /// Waits until a run waits for its approval.
    pub(crate) fn until_asking(&self, run: &str) {
        until(&format!("{run} waits for its approval"), || {
            let shown = self.ok(&["show", run]);
            shown.contains("waiting for event approval since").then_some(())
        });
    }

    /// Starts `outlast dev` and waits until it can be looked at.
    pub(crate) fn dev(&self) -> Dev {
        self.dev_with(&[])
    }

    pub(crate) fn dev_with(&self, args: &[&str]) -> Dev {
        let args: Vec<&str> = ["dev"].iter().chain(args).copied().collect();
        let dev = self.spawned(&args);
        dev.until_told("Ctrl-C stops it gently");
        dev
    }

    /// Starts a command that does not end by itself.
    pub(crate) fn spawned(&self, args: &[&str]) -> Dev {
        self.spawned_as(&mut self.command(args))
    }

    /// The same, with variables of the environment.
    pub(crate) fn spawned_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Dev {
        self.spawned_as(self.command(args).envs(variables.iter().copied()))
    }

    /// The same for a command of another binary.
    pub(crate) fn spawned_as(&self, command: &mut Command) -> Dev {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = Lines::of(child.stdout.take().unwrap());
        let err = Lines::of(child.stderr.take().unwrap());
        Dev { child, out, err }
    }

    /// Starts `outlast dev` with a reader that leaves after the first line.
    pub(crate) fn dev_without_reader(&self) -> ExitStatus {
        let mut child = self.command(&["dev"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        drop(out);
        until("dev ends", || child.try_wait().unwrap())
    }
}

impl Dev {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it said so far.
    pub(crate) fn told(&self) -> String {
        self.out.text()
    }

    /// What it said on stderr so far.
    pub(crate) fn noted(&self) -> String {
        self.err.text()
    }

    /// Waits until it has said this.
    pub(crate) fn until_told(&self, what: &str) {
        let told = || self.told().contains(what).then_some(());
        assert!(try_until(told), "dev never said {what:?}, but:\n{}\n{}", self.told(), self.noted());
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Its exit code once it has ended; until then sends the signal.
    pub(crate) fn signalled(&mut self, name: &str) -> Option<Option<i32>> {
        let ended = self.child.try_wait().unwrap();
        if ended.is_none() {
            self.signal(name);
        }
        ended.map(|status| status.code())
    }

    /// Waits for its end; gives the exit code and everything it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let status = until("dev ends", || self.child.try_wait().unwrap());
        self.out.join();
        self.err.join();
        (status.code(), self.told(), self.noted())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a pipe, as it comes.
struct Lines {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = text.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                *shared.lock().unwrap() += &(line + "\n");
            }
        });
        Lines { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn join(&mut self) {
        self.reader.take().into_iter().for_each(|reader| reader.join().unwrap());
    }
}

/// Waits until there is an answer.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    let came = try_until(|| {
        found = look();
        found.is_some().then_some(())
    });
    assert!(came, "waited too long until {what}");
    found.unwrap()
}

fn try_until(mut look: impl FnMut() -> Option<()>) -> bool {
    let began = Instant::now();
    while look().is_none() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
