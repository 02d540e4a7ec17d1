//! The registry: all that a node knows how to run, with the types erased, and what it says of that to others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Error, Payload, check_name, check_named};
use outlast_store::{DefinitionCard, RunKind, code};

use crate::definition::{Definition, Erased, Options, UniqueArgs, check_duration, check_priority};
use crate::judge::Backoff;
use crate::of_jobs::{ErasedBatch, ErasedUndo};
use crate::{Ctx, JobCtx, Retention, Verdict};

/// What the names of Outlast's own definitions begin with. Every node knows them, and nobody is shown them who lists
/// what there is.
const BUILT_IN: &str = "outlast.";

/// Whether a definition is Outlast's own.
pub(crate) fn is_built_in(name: &str) -> bool {
    name.starts_with(BUILT_IN)
}

/// A definition in the registry.
#[doc(hidden)]
pub struct Registered {
    pub(crate) options: Options,
    pub(crate) signature: String,
    pub(crate) body: Body,
    /// The pauses between a job's attempts, where it has its own.
    pub(crate) backoff: Option<Backoff>,
    /// What is done when a job that began is cancelled.
    pub(crate) undo: Option<ErasedUndo>,
    pub(crate) accepts: fn(&str, &Payload) -> Result<(), Error>,
}

pub(crate) enum Body {
    Workflow(Erased<Ctx>),
    Job(Erased<JobCtx>),
    Batch(ErasedBatch),
}

impl Registered {
    /// Refuses an input that is not of the definition's type.
    pub(crate) fn check_input(&self, input: &Payload) -> Result<(), Error> {
        (self.accepts)(self.options.name, input)
    }

    /// Why its code must not be called for those who have these roles.
    pub(crate) fn refuses(&self, roles: &[String]) -> Option<Error> {
        let role = self.options.role.filter(|role| roles.iter().all(|has| has != role))?;
        let what = match self.body {
            Body::Workflow(_) => format!("workflow {:?}", self.options.name),
            Body::Job(_) | Body::Batch(_) => format!("job {:?}", self.options.name),
        };
        Some(Error::MissingRole { what, role: role.to_owned() })
    }

    fn kind(&self) -> RunKind {
        match self.body {
            Body::Workflow(_) => RunKind::Workflow,
            Body::Job(_) | Body::Batch(_) => RunKind::Job,
        }
    }
}

/// All that a node knows how to run.
#[derive(Default)]
pub(crate) struct Registry {
    by_code: HashMap<String, Arc<Registered>>,
}

impl Registry {
    /// Adds a definition of the user's, or says what is wrong with it.
    pub(crate) fn add(&mut self, definition: Registered) -> Result<(), Error> {
        let name = definition.options.name;
        if is_built_in(name) {
            let remedy = format!("none that begins with {BUILT_IN:?}: those are Outlast's own");
            return Err(Error::invalid("definition name", name, remedy));
        }
        self.add_any(definition)
    }

    /// Adds what every node knows.
    pub(crate) fn add_built_in(&mut self) -> Result<(), Error> {
        self.add_any(crate::bulk::job().erase())
    }

    fn add_any(&mut self, definition: Registered) -> Result<(), Error> {
        let options = &definition.options;
        check_named("definition name", options.name)?;
        check_named("queue", options.queue)?;
        check_priority(options.priority)?;
        if let Some(role) = options.role {
            check_name("role", role)?;
        }
        options.retry.check()?;
        for (what, timeout) in [("timeout", options.timeout), ("http_timeout", options.http_timeout)] {
            check_duration(what, timeout.unwrap_or_default())?;
            if timeout == Some(Duration::ZERO) {
                return Err(Error::invalid(what, "0", "longer than nothing: no attempt could even begin"));
            }
        }
        if let Some(retention) = options.retention {
            retention.check()?;
        }
        if let Body::Batch(batch) = &definition.body {
            batch.check()?;
        }
        if let Some(UniqueArgs::For(period)) = options.unique {
            check_duration("unique", period)?;
            // As short as callers without the code can be told.
            if period < Duration::from_millis(1) {
                return Err(Error::invalid("unique", format!("{period:?}"), "1 ms to 100 years"));
            }
        }
        if let Some(schema) = options.input_schema
            && !serde_json::from_str::<serde_json::Value>(schema).is_ok_and(|schema| schema.is_object())
        {
            return Err(Error::invalid("input_schema", options.name, "a JSON object"));
        }
        if options.name.contains('@') {
            return Err(Error::invalid(
                "definition name",
                options.name,
                "no '@': it stands before the version",
            ));
        }
        let code = code(options.name, options.version);
        if self.by_code.contains_key(&code) {
            return Err(Error::misconfigured(format!(
                "{:?} version {} is registered twice: give one of them another name or version",
                options.name, options.version
            )));
        }
        self.by_code.insert(code, Arc::new(definition));
        Ok(())
    }

    pub(crate) fn get(&self, code: &str) -> Option<Arc<Registered>> {
        self.by_code.get(code).cloned()
    }

    /// Whether some version of it is here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_code.values().any(|definition| definition.options.name == name)
    }

    /// Why there is no such code here.
    pub(crate) fn missing(&self, name: &str, version: u32) -> Verdict {
        let named = self.by_code.values().filter(|definition| definition.options.name == name);
        let mut versions: Vec<u32> = named.map(|definition| definition.options.version).collect();
        versions.sort_unstable();
        if !versions.is_empty() {
            return Verdict::NoSuchVersion { name: name.to_owned(), version, known: versions };
        }
        let own = self.by_code.values().map(|d| d.options.name).filter(|name| !is_built_in(name));
        let mut known: Vec<String> = own.map(str::to_owned).collect();
        known.sort_unstable();
        known.dedup();
        Verdict::NoSuchDefinition { name: name.to_owned(), known }
    }

    /// Accepts batches that fit into what a node has in hand at once: others never come together.
    pub(crate) fn check_batches(&self, concurrency: usize) -> Result<(), Error> {
        for definition in self.by_code.values() {
            if let Body::Batch(batch) = &definition.body
                && batch.most > concurrency
            {
                let remedy =
                    format!("at most {concurrency}, the concurrency of this node, which is raised with it");
                return Err(Error::invalid("jobs of a batch", batch.most, remedy));
            }
        }
        Ok(())
    }

    /// Whether one of these says itself how long its runs are kept.
    pub(crate) fn has_retention(&self) -> bool {
        self.by_code.values().any(|definition| definition.options.retention.is_some())
    }

    pub(crate) fn codes(&self) -> Vec<String> {
        let mut codes: Vec<String> = self.by_code.keys().cloned().collect();
        codes.sort_unstable();
        codes
    }

    /// The queues that these definitions use.
    pub(crate) fn queues(&self) -> Vec<String> {
        let mut queues: Vec<String> = self.by_code.values().map(|d| d.options.queue.to_owned()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// What is recorded in the database for callers without the code.
    pub(crate) fn cards(&self) -> Vec<DefinitionCard> {
        let newest = |name: &str| {
            self.by_code.values().filter(|d| d.options.name == name).map(|d| d.options.version).max()
        };
        let card = |definition: &Arc<Registered>| {
            let options = &definition.options;
            DefinitionCard {
                name: options.name.to_owned(),
                version: options.version,
                kind: definition.kind(),
                active: newest(options.name) == Some(options.version),
                signature: definition.signature.clone(),
                queue: options.queue.to_owned(),
                priority: options.priority,
                options: serde_json::json!({
                    "attempts": options.retry.attempts(),
                    "timeout_ms": options.timeout.map(|timeout| timeout.as_millis() as u64),
                    "role": options.role,
                    "strict": options.strict,
                    "unique_ms": options.unique.map(|unique| match unique {
                        UniqueArgs::Unfinished => 0,
                        UniqueArgs::For(period) => period.as_millis() as u64,
                    }),
                    "retention_ms": options.retention.map(Retention::to_json),
                    "undo": definition.undo.is_some(),
                    "input_schema": options.input_schema.and_then(|schema| {
                        serde_json::from_str::<serde_json::Value>(schema).ok()
                    }),
                    "http_timeout_ms": options.http_timeout.map(|timeout| timeout.as_millis() as u64),
                })
                .to_string(),
            }
        };
        self.by_code.values().map(card).collect()
    }
}
