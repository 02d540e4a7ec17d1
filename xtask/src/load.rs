//! `cargo xtask load`: how many requests the server answers, on both databases, with wrk as the client on the same machine.
//!
//! It prints a table, and with `--write` makes docs/load.md of it: what a machine does is worth a look before it is believed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use outlast_cluster::Cluster;

use crate::process;
use crate::test::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// How long each figure is measured, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// How many connections ask at once
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Measure this binary, which has the workflow of the example own_binary, and build none
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Make docs/load.md of it
    #[arg(long)]
    write: bool,
}

/// What is asked: a name, and how wrk says it.
const ASKED: [(&str, &str); 5] = [
    ("`GET /healthz`", "path = '/healthz'"),
    ("`GET /api/v1/runs?limit=50`, of 10,000", "path = '/api/v1/runs?limit=50'"),
    ("`GET /api/v1/runs/ID`", "path = '/api/v1/runs/RUN'"),
    (
        "`POST /api/v1/runs`",
        "path = '/api/v1/runs'; body = '{\"definition\":\"greet\",\"input\":\"pen\",\"delay_ms\":86400000}'",
    ),
    (
        "`POST /api/v1/runs/ID/events`",
        "path = '/api/v1/runs/RUN/events'; body = '{\"name\":\"note\",\"data\":1}'",
    ),
];

/// What is asked of a server that does the work too.
const WORK: &str = "path = '/api/v1/runs'; body = '{\"definition\":\"greet\",\"input\":\"pen\"}'";

/// Nobody needs a token.
const OPEN: &str = "--insecure-no-auth-i-understand";

/// How many runs there are before anything is measured.
const RUNS: u32 = 10_000;

pub(crate) fn run(options: &Options) -> Result<()> {
    let told = Command::new("wrk").arg("--version").output();
    ensure!(told.is_ok(), "wrk is missing: apt-get install wrk");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let binary = match &options.binary {
        Some(binary) => binary.canonicalize()?,
        None => {
            let example = ["build", "--release", "-p", "outlast-server", "--example", "own_binary"];
            let status = process::run(cargo().args(example))?;
            ensure!(status.success(), "the server cannot be built ({status})");
            root.join("target/release/examples/own_binary").canonicalize()?
        }
    };
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::start_for_figures()?;
    let (postgres, working) = (cluster.fresh_database("load")?, cluster.fresh_database("work")?);
    let mut table = Table::default();
    table.add("| | database | requests a second | p50 | p99 |\n| --- | --- | ---: | ---: | ---: |");
    for (database, url) in [("SQLite", "sqlite://load.db".to_owned()), ("PostgreSQL", postgres)] {
        let server = Server::start(&binary, &url, folder.path())?;
        let server = server.filled(folder.path())?;
        for (name, asked) in ASKED {
            process::fail_if_interrupted()?;
            let Measured { rate, half, most } = server.measure(asked, folder.path(), options)?;
            table.add(&format!("| {name} | {database} | {rate} | {half} | {most} |"));
        }
    }
    let mut work = Table::default();
    work.add("| database | starts a second | p50 | p99 | ended a second meanwhile |\n| --- | ---: | ---: | ---: | ---: |");
    for (database, url) in [("SQLite", "sqlite://work.db".to_owned()), ("PostgreSQL", working)] {
        let args =
            ["serve", "--role", "all", "--migrate", "--listen", "127.0.0.1:0", "--pace", "1000000", OPEN];
        let server = Server::spawn(&binary, &args, &url, folder.path())?;
        let Measured { rate, half, most } = server.measure(WORK, folder.path(), options)?;
        let ended = server.count("&status=completed")? / options.seconds;
        work.add(&format!("| {database} | {rate} | {half} | {most} | {ended} |"));
    }
    if options.write {
        fs::write(root.join("docs/load.md"), page(options, &table.0, &work.0, &root)?)?;
    }
    Ok(())
}

/// Lines that are told as they come, and kept.
#[derive(Default)]
struct Table(String);

impl Table {
    fn add(&mut self, line: &str) {
        println!("{line}");
        self.0 += &format!("{line}\n");
    }
}

/// The document about both tables.
fn page(options: &Options, table: &str, work: &str, root: &Path) -> Result<String> {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root).output()?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    let cores = std::thread::available_parallelism()?;
    let Options { seconds, connections, .. } = options;
    Ok(format!(
        "# How many requests the server answers\n\n\
         Measured at {commit} with `cargo xtask load --write`, which builds the server, starts it and makes this page of what it\n\
         finds. Measure on your own machine before you count on it: {cores} cores had the server, the database and the client \n\
         ([wrk](https://github.com/wg/wrk), one thread, {connections} connections, {seconds} s for each line).\n\n\
         - The server is `outlast serve --role api`, over a database with {RUNS} runs that are due tomorrow: nobody works meanwhile.\n\
         - SQLite is one file, with every commit synced. PostgreSQL is a cluster of its own on the same disk, durable as it is by\n  \
         default.\n\
         - What changes something is answered when it is durable, and its line in the audit log too.\n\
         - No token is asked for. `--pace`, which is 500 requests a second for each token, is out of the way.\n\n{table}\n\
         ## While it works\n\n\
         `outlast serve --role all`, which also does what it is asked to start: `POST /api/v1/runs` of a workflow with a step and a sleep of 0.1 s, due at\n\
         once. What had not ended when the last was answered goes on afterwards.\n\n{work}"
    )
    .replace(" \n", "\n"))
}

struct Measured {
    rate: String,
    half: String,
    most: String,
}

/// A server that answers. Killed when dropped.
struct Server {
    child: Child,
    url: String,
    /// Some of the runs that are there: no single one is asked for again and again.
    runs: Vec<String>,
}

impl Server {
    /// A server over a database that knows the binary's definitions, and works on none of them.
    fn start(binary: &Path, database: &str, folder: &Path) -> Result<Server> {
        drop(Server::spawn(binary, &["dev", "--port", "0"], database, folder)?);
        let args = ["serve", "--role", "api", "--listen", "127.0.0.1:0", "--pace", "1000000", OPEN];
        Server::spawn(binary, &args, database, folder)
    }

    fn spawn(binary: &Path, args: &[&str], database: &str, folder: &Path) -> Result<Server> {
        let mut command = Command::new(binary);
        command.args(args).current_dir(folder).env("OUTLAST_DATABASE_URL", database);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        let mut server = Server { child, url: String::new(), runs: Vec::new() };
        let told = lines.by_ref().map_while(Result::ok).find(|line| line.contains("http://"));
        let told = told.context("the server does not say where it is")?;
        let (_, rest) = told.split_once("http://").context("it says an address")?;
        let address: String = rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        server.url = format!("http://{address}");
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// Starts runs that are due tomorrow: nobody works while it is measured.
    fn filled(mut self, folder: &Path) -> Result<Server> {
        let (_, start) = ASKED[3];
        let options = Options { seconds: 1, connections: 16, binary: None, write: false };
        let mut rounds = 0;
        while rounds < 120 {
            self.measure(start, folder, &options)?;
            rounds += 1;
            if self.count("")? >= RUNS {
                let page = self.get("/api/v1/runs?limit=500")?;
                let ids = page.split("\"id\":\"").skip(1).filter_map(|rest| rest.split('"').next());
                self.runs = ids.map(str::to_owned).collect();
                ensure!(self.runs.len() == 500, "{} runs of 500 are listed", self.runs.len());
                return Ok(self);
            }
        }
        bail!("{RUNS} runs could not be started in {rounds} s")
    }

    /// How many runs fit.
    fn count(&self, filter: &str) -> Result<u32> {
        let count = self.get(&format!("/api/v1/runs/count?cap=100000{filter}"))?;
        let digits: String =
            count.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
        Ok(digits.parse()?)
    }

    fn get(&self, path: &str) -> Result<String> {
        let output = Command::new("curl").args(["-sf", &format!("{}{path}", self.url)]).output()?;
        ensure!(output.status.success(), "{path} is not answered");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn measure(&self, asked: &str, folder: &Path, options: &Options) -> Result<Measured> {
        let script = folder.join("load.lua");
        let runs: Vec<String> = self.runs.iter().map(|run| format!("'{run}'")).collect();
        fs::write(
            &script,
            format!(
                "body = nil\n{asked}\nlocal runs, n = {{ {} }}, 0\nlocal headers = {{}}\n\
                 if body then headers['content-type'] = 'application/json' end\n\
                 request = function()\n  n = n + 1\n  local asked = path:gsub('RUN', runs[n % #runs + 1] or '')\n  \
                 return wrk.format(body and 'POST' or 'GET', asked, headers, body)\nend\n",
                runs.join(", ")
            ),
        )?;
        let output = Command::new("wrk")
            .args(["--latency", "--threads", "1"])
            .args([
                "--connections",
                &options.connections.to_string(),
                "--duration",
                &format!("{}s", options.seconds),
            ])
            .arg("--script")
            .arg(&script)
            .arg(&self.url)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!text.contains("Non-2xx"), "some were not done:\n{text}");
        let behind = |word: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(word));
            line.and_then(|line| line.split_whitespace().last())
                .map(str::to_owned)
                .with_context(|| format!("{word}: {text}"))
        };
        let rate = behind("Requests/sec:")?.parse::<f64>()?;
        Ok(Measured { rate: format!("{rate:.0}"), half: behind("50%")?, most: behind("99%")? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
