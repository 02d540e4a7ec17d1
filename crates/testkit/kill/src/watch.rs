//! Reads the ledger while it is written, so that a kill comes when there is something to hit.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::gates::Gate;
use crate::ledger::{Call, Line, lines, now};

/// How long something may be waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the ledger is looked at.
const PAUSE: Duration = Duration::from_millis(4);

/// The bodies that run, as far as the ledger says.
pub(crate) struct Watch {
    file: File,
    /// What was read of a line that is not whole yet.
    rest: Vec<u8>,
    open: HashMap<u64, Call>,
    /// How many bodies ended.
    ends: u64,
    /// The last that ended.
    last: Option<Call>,
    /// How many bodies of jobs each node began, by how long they take.
    begun: HashMap<(u32, u64), usize>,
    /// What engines counted.
    counted: HashMap<String, u64>,
}

impl Watch {
    pub(crate) fn open(path: &Path) -> Result<Watch> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Watch {
            file,
            rest: Vec::new(),
            open: HashMap::new(),
            ends: 0,
            last: None,
            begun: HashMap::new(),
            counted: HashMap::new(),
        })
    }

    /// Waits until a node is in the middle of a body that this gate let through; gives that.
    pub(crate) async fn body_at(&mut self, gate: Gate) -> Result<Call> {
        let what = format!("{} lets somebody through", gate.name());
        self.until(&what, |open| open.values().find(|body| body.gate() == Some(gate)).cloned()).await
    }

    /// Waits until another node is in the middle of the same attempt.
    pub(crate) async fn taken_over(&mut self, from: &Call) -> Result<()> {
        let same =
            |body: &&Call| (body.run, body.attempt) == (from.run, from.attempt) && body.node != from.node;
        self.until("a run is taken over", |open| open.values().find(same).map(drop)).await
    }

    /// Waits until a body is over that began at this time or later; gives how long after that it ended.
    pub(crate) async fn new_end(&mut self, since: u64) -> Result<Duration> {
        let is_new = |watch: &Watch| watch.last.as_ref().filter(|call| call.at >= since).map(drop);
        self.until_seen("somebody finishes something new", is_new).await?;
        Ok(Duration::from_micros(now() - since))
    }

    /// Waits until a node is in the middle of a body; gives that.
    pub(crate) async fn body_on(&mut self, node: u32) -> Result<Call> {
        let what = format!("node {node} works");
        self.until(&what, |open| open.values().find(|body| body.node == node).cloned()).await
    }

    /// How many bodies of jobs that take so long a node has begun so far.
    pub(crate) fn begun(&mut self, node: u32, ms: u64) -> Result<usize> {
        self.look()?;
        Ok(self.begun.get(&(node, ms)).copied().unwrap_or(0))
    }

    /// What engines have counted under this name so far.
    pub(crate) fn counted(&mut self, name: &str) -> Result<u64> {
        self.look()?;
        Ok(self.counted.get(name).copied().unwrap_or(0))
    }

    /// How many bodies have ended so far.
    pub(crate) fn ends(&mut self) -> Result<u64> {
        self.look()?;
        Ok(self.ends)
    }

    async fn until<T>(&mut self, what: &str, look: impl Fn(&HashMap<u64, Call>) -> Option<T>) -> Result<T> {
        self.until_seen(what, |watch| look(&watch.open)).await
    }

    async fn until_seen<T>(&mut self, what: &str, seen: impl Fn(&Watch) -> Option<T>) -> Result<T> {
        let since = Instant::now();
        loop {
            self.look()?;
            if let Some(found) = seen(self) {
                return Ok(found);
            }
            if since.elapsed() > PATIENCE {
                bail!("waited {PATIENCE:?} until {what}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn look(&mut self) -> Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in lines(&self.rest[..whole]) {
            match line {
                Line::Begin(body) => {
                    if let Some(work) = body.work {
                        *self.begun.entry((body.node, work.ms)).or_default() += 1;
                    }
                    self.open.insert(body.value, body);
                }
                Line::End(body) => {
                    self.open.remove(&body.value);
                    self.ends += 1;
                    self.last = Some(body);
                }
                Line::Metric { name, by, .. } => *self.counted.entry(name).or_default() += by,
                Line::Dropped(body) => drop(self.open.remove(&body.value)),
                Line::Kill { node } => self.open.retain(|_, body| body.node != node),
                _ => {}
            }
        }
        self.rest.drain(..whole);
        Ok(())
    }
}
