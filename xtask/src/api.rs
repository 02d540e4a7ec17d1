//! The stage `api` of `cargo xtask test`: schemathesis makes up requests from the OpenAPI document and sends them to the real
//! binary, which must answer each as the document says, and never with a 500.
//!
//! It is a program in Python, which gets an environment of its own in `target/`. Where there is no Python, or nothing can be
//! installed, that is said in so many words: nobody believes to have tested what was not.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::test::cargo;

/// The version that the figures below were chosen for.
const VERSION: &str = "4.32.5";
/// What holds for every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,\
                      missing_required_header";
/// How many requests are made up for each operation, and how long all of it takes at most.
const EXAMPLES: &str = "12";
const SECONDS: &str = "100";
/// The same every time: a failure is found again.
const SEED: &str = "20261116";

/// Runs it, or says why it cannot be run.
pub(crate) fn run() -> Result<()> {
    let began = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let schemathesis = match installed(&root.join("target/schemathesis")) {
        Ok(program) => program,
        Err(error) => {
            println!("==> api: NOT TESTED, because schemathesis {VERSION} cannot be had here: {error:#}");
            return Ok(());
        }
    };
    let status =
        process::run(cargo().args(["build", "--all-features", "-p", "outlast-server", "--bin", "outlast"]))?;
    if !status.success() {
        bail!("stage api failed: the binary cannot be built ({status})");
    }
    let server = Server::start(&root)?;
    println!("==> api: schemathesis {VERSION} against {}", server.url);
    let mut command = Command::new(schemathesis);
    command.current_dir(server.folder.path()).arg("run").arg(root.join("api/openapi.json").canonicalize()?);
    command.args(["--url", &server.url, "--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED]);
    command.args(["--phases", "examples,coverage,fuzzing", "--max-time", SECONDS, "--request-timeout", "20"]);
    // One thread: with two, Python 3.11 fails now and then by itself.
    command.args(["--suppress-health-check", "all", "--workers", "1", "--warnings", "off", "--no-color"]);
    // Streams have no end.
    command.args(["--exclude-path", "/api/v1/live", "--exclude-path", "/api/v1/runs/{id}/logs"]);
    let status = process::run(&mut command)?;
    if !status.success() {
        bail!("stage api failed: schemathesis found answers that the document does not allow ({status})");
    }
    println!("==> api: passed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// The program, installed if need be.
fn installed(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin/st");
    let is_there = |program: &Path| {
        let told = Command::new(program).arg("--version").output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains(VERSION))
    };
    if is_there(&program) {
        return Ok(program);
    }
    println!("==> api: installing schemathesis {VERSION} into {}", folder.display());
    let quiet = |command: &mut Command| -> Result<()> {
        let output = command.stdin(Stdio::null()).output().context("python3 is missing")?;
        match output.status.success() {
            true => Ok(()),
            false => bail!("{}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    };
    quiet(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let package = format!("schemathesis=={VERSION}");
    quiet(Command::new(folder.join("bin/pip")).args(["install", "--quiet", &package]))?;
    match is_there(&program) {
        true => Ok(program),
        false => bail!("{} does not start", program.display()),
    }
}

/// A running `outlast dev`. Killed when dropped.
struct Server {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(root: &Path) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(root.join("target/debug/outlast").canonicalize()?);
        command.args(["dev", "--port", "0"]).current_dir(folder.path());
        command.env_remove("OUTLAST_DATABASE_URL").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the server does not start")?;
        let mut lines = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            let address: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
            Some(format!("http://{address}"))
        });
        // What it goes on to tell has to be read by somebody.
        std::thread::spawn(move || lines.for_each(drop));
        let url = url.context("the server does not say where it is")?;
        Ok(Server { child, url, folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
