//! Runs about to be started: what they are made of, what is refused, and how the start is made durable.

use std::time::Duration;

use outlast_core::{
    Error, Limits, Payload, RunId, ShardCount, Timestamp, check_count, check_key, check_name, check_named,
    check_trace, distance, shard_of_key,
};
use outlast_store::{DefinitionCard, Due, NewRun, Parent, RunRecord, Started, StoreError};

use crate::client::{Client, repeated};
use crate::definition::{Definition, UniqueArgs, check_duration, check_priority};
use crate::engine::{OpenClaim, Slot};
use crate::unique::Unique;

/// Everything about a run that is not its input.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartOptions {
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<Unique>,
    /// Whether two things say which run is the only one.
    pub(crate) is_unique_twice: bool,
    pub(crate) queue: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) delay: Option<Duration>,
    /// How long a debounced start waits for others.
    pub(crate) wait: Option<Duration>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) owner: Option<String>,
    pub(crate) tenant: String,
    pub(crate) roles: Vec<String>,
    pub(crate) trace: Option<String>,
    pub(crate) parent: Option<Parent>,
    pub(crate) stops_with_parent: bool,
    pub(crate) shard: Option<u16>,
    /// The version of the code, for a start by name.
    pub(crate) version: Option<u32>,
    /// What its id is made of, besides its shard.
    pub(crate) seed: Option<(Timestamp, u64)>,
}

impl StartOptions {
    /// Whoever is started by a run acts for whoever that run acts for.
    pub(crate) fn act_for(&mut self, run: &RunRecord) {
        self.tenant.clone_from(&run.tenant);
        self.owner.clone_from(&run.owner);
        self.roles.clone_from(&run.roles);
        self.trace.clone_from(&run.trace);
        self.parent = Some(Parent { run: run.id, op: None });
    }
}

impl Client {
    pub(crate) fn new_run<D: Definition>(
        &self,
        definition: &D,
        input: &D::Input,
        start: StartOptions,
    ) -> Result<NewRun, Error> {
        let options = definition.options();
        let payload = Payload::encode(format_args!("the input of {}", options.name), input, self.limits())?;
        let mut run = self.draft(
            options.name,
            options.version,
            definition.kind(),
            options.queue,
            options.priority,
            payload,
        );
        // The timeout of a job is that of one attempt, and known to the code.
        if definition.kind() == outlast_store::RunKind::Workflow {
            run.timeout = options.timeout;
        }
        run.unique = options.unique.map(|unique| by_args(unique).of(&run.input)).transpose()?;
        self.apply(&mut run, start)?;
        Ok(run)
    }

    pub(crate) fn draft(
        &self,
        name: &str,
        version: u32,
        kind: outlast_store::RunKind,
        queue: &str,
        priority: u8,
        input: Payload,
    ) -> NewRun {
        NewRun {
            id: self.new_id(None),
            kind,
            tenant: String::new(),
            definition: name.to_owned(),
            version,
            key: None,
            queue: queue.to_owned(),
            group: None,
            unique: None,
            priority,
            due: Due::Now,
            timeout: None,
            input,
            owner: None,
            roles: Vec::new(),
            tags: Vec::new(),
            trace: None,
            parent: None,
            stops_with_parent: false,
        }
    }

    pub(crate) fn new_id(&self, shard: Option<u16>) -> RunId {
        let shard = shard.unwrap_or_else(|| fastrand::u16(..self.shards()));
        let (time, random) = self.store().clock().next_id();
        RunId::new(shard, time, random)
    }

    fn shards(&self) -> ShardCount {
        self.store().shards().max(1)
    }

    /// Puts options onto a run, or says which of them cannot be.
    pub(crate) fn apply(&self, run: &mut NewRun, start: StartOptions) -> Result<(), Error> {
        if let Some(queue) = start.queue {
            check_named("queue", &queue)?;
            run.queue = queue;
        }
        if let Some(group) = &start.group {
            check_name("group", group)?;
        }
        let own_group = start.group.clone();
        run.group = start.group.or_else(|| (!start.tenant.is_empty()).then(|| start.tenant.clone()));
        if let Some(priority) = start.priority {
            check_priority(priority)?;
            run.priority = priority;
        }
        if let (Some(wait), Some(delay)) = (start.wait, start.delay) {
            let remedy =
                format!("none beside `debounce`, which waits {wait:?}: both say when the run begins");
            return Err(Error::invalid("delay", format!("{delay:?}"), remedy));
        }
        let delay = start.wait.or(start.delay);
        for (what, duration) in [("delay", delay), ("timeout", start.timeout)] {
            check_duration(what, duration.unwrap_or_default())?;
        }
        if let (Some(delay), Some(at)) = (delay, start.at) {
            let remedy = format!("none beside a delay of {delay:?}: both say when the run begins");
            return Err(Error::invalid("time to start at", at, remedy));
        }
        if start.is_unique_twice {
            let remedy = "one of `unique`, `debounce` and `throttle`: each says which run is the only one";
            return Err(Error::invalid("uniqueness", "given twice", remedy));
        }
        if start.timeout == Some(Duration::ZERO) {
            return Err(Error::invalid("timeout", "0", "longer than nothing: the run could not even begin"));
        }
        for (what, text) in [("tenant", &start.tenant), ("owner", &start.owner.clone().unwrap_or_default())] {
            if !text.is_empty() {
                check_name(what, text)?;
            }
        }
        check_count("roles", start.roles.len(), Limits::ROLES)?;
        start.roles.iter().try_for_each(|role| check_name("role", role).map(|_| ()))?;
        check_count("tags", start.tags.len(), Limits::TAGS)?;
        for (name, value) in &start.tags {
            check_name("tag", name)?;
            check_name("tag value", value)?;
        }
        if let Some(trace) = &start.trace {
            check_trace(trace)?;
        }
        run.due = match (delay, start.at) {
            (Some(delay), _) if !delay.is_zero() => Due::After(delay),
            (_, Some(at)) => Due::At(at),
            _ => run.due,
        };
        run.timeout = start.timeout.or(run.timeout);
        if let (Due::After(delay), Some(timeout)) = (run.due, run.timeout)
            && delay >= timeout
        {
            let remedy = format!("shorter than the timeout, {timeout:?}: time is over before the run begins");
            return Err(Error::invalid("delay", format!("{delay:?}"), remedy));
        }
        run.tenant = start.tenant;
        run.owner = start.owner;
        run.roles = start.roles;
        run.tags = start.tags;
        run.trace = start.trace;
        run.parent = start.parent;
        run.stops_with_parent = start.stops_with_parent;
        let unique = start.unique.map(|unique| unique.of(&run.input)).transpose()?;
        // What is said of this run counts for more than what its definition says; and a child is started once.
        let is_child = run.parent.as_ref().is_some_and(|parent| parent.op.is_some());
        run.unique = unique.or(run.unique.take().filter(|_| start.key.is_none() && !is_child));
        run.id = match (&start.key, &run.unique) {
            (Some(key), None) => {
                check_key(key)?;
                self.new_id(Some(shard_of_key(&run.tenant, &run.definition, key, self.shards())))
            }
            (Some(key), Some(_)) => {
                return Err(Error::invalid(
                    "key",
                    key,
                    "none beside `unique`: both say which run is the only one",
                ));
            }
            (None, Some(unique)) => {
                self.new_id(Some(shard_of_key(&run.tenant, &run.definition, &unique.key, self.shards())))
            }
            (None, None) => {
                // Where order may matter, one shard has it.
                let of = |group: &String| shard_of_key("", &run.queue, group, self.shards());
                let shard = own_group.as_ref().map(of).or(start.shard);
                // Whoever repeats a start finds the run where it is.
                let seeded = start.seed.map(|(_, random)| (random % u64::from(self.shards())) as u16);
                self.new_id(shard.or(seeded))
            }
        };
        if let Some((time, random)) = start.seed {
            run.id = RunId::new(run.id.shard(), time, random);
        }
        run.key = start.key;
        Ok(())
    }

    /// Starts one run; gives its id and whether this call made it.
    pub(crate) async fn start_run(&self, run: NewRun) -> Result<(RunId, bool), Error> {
        // With a free slot in this process nothing waits for a claim.
        let code = outlast_store::code(&run.definition, run.version);
        let engine = self.engine().filter(|_| run.due == Due::Now);
        let held = engine.as_ref().and_then(|engine| engine.try_hold(&code, &run.queue));
        let (slot, open): (Option<Slot>, Option<OpenClaim>) = held.unzip();
        let hold = open.as_ref().map(|open| open.hold);
        // The id is made: repeating the start is the same run.
        let answer = repeated(|| self.store().start(std::slice::from_ref(&run), hold)).await;
        match answer.map(|mut all| all.pop()) {
            Ok(Some(Started::Created { id, held })) => {
                if held && let (Some(engine), Some(slot)) = (&engine, slot) {
                    crate::engine::begin_started(engine, run, slot);
                }
                Ok((id, true))
            }
            Ok(answer) => started(&run, answer),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts many runs: all of them, or none when a key belongs to a run with another input.
    pub(crate) async fn start_runs(&self, runs: &[NewRun]) -> Result<Vec<Started>, Error> {
        // The ids are made: repeating the start is the same runs.
        Ok(match runs.iter().any(|run| run.key.is_some() || run.unique.is_some()) {
            true => repeated(|| self.start_unless_conflict(runs)).await?,
            false => repeated(|| self.store().start(runs, None)).await?,
        })
    }

    /// The store answers keys one by one: a transaction around it can still be rolled back.
    async fn start_unless_conflict(&self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError> {
        let mut tx = self.store().begin().await?;
        let answers = tx.start(runs).await?;
        match answers.iter().any(|answer| matches!(answer, Started::Conflict { .. } | Started::Taken { .. }))
        {
            true => tx.rollback().await?,
            false => tx.commit().await?,
        }
        Ok(answers)
    }

    /// Finds the active version of a definition, for callers that know only its name.
    pub(crate) fn resolve(
        &self,
        run: &mut NewRun,
        start: &StartOptions,
        cards: Vec<DefinitionCard>,
    ) -> Result<(), Error> {
        let card = match start.version {
            None => active(cards, &run.definition)?,
            Some(version) => of_version(cards, &run.definition, version)?,
        };
        run.version = card.version;
        run.kind = card.kind;
        if start.queue.is_none() {
            run.queue = card.queue.clone();
        }
        if start.priority.is_none() {
            run.priority = card.priority;
        }
        // The timeout of a job is that of one attempt, and known to the code.
        if start.timeout.is_none() && card.kind == outlast_store::RunKind::Workflow {
            run.timeout = timeout_of(&card);
        }
        run.unique = unique_of(&card).map(|unique| unique.of(&run.input)).transpose()?;
        // Where this process has the code, it can say now what a node would find out later.
        self.check_input(&card, &run.input)
    }
}

/// What a start answered, as whoever asked wants to know it.
pub(crate) fn started(run: &NewRun, answer: Option<Started>) -> Result<(RunId, bool), Error> {
    match answer {
        Some(Started::Created { id, .. }) => Ok((id, true)),
        Some(Started::Existing { id }) => Ok((id, false)),
        Some(Started::Conflict { id }) => {
            Err(Error::KeyConflict { key: run.key.clone().unwrap_or_default(), run: id })
        }
        Some(Started::Taken { id }) => {
            Err(Error::AlreadyExists { definition: run.definition.clone(), run: id })
        }
        None => Err(Error::misconfigured("the store gave no answer to a start")),
    }
}

/// How long a run of a definition may take, as the node that registered it said.
fn timeout_of(card: &DefinitionCard) -> Option<Duration> {
    let options: serde_json::Value = serde_json::from_str(&card.options).ok()?;
    Some(Duration::from_millis(options.get("timeout_ms")?.as_u64()?))
}

fn by_args(unique: UniqueArgs) -> Unique {
    match unique {
        UniqueArgs::Unfinished => Unique::by_args(),
        UniqueArgs::For(period) => Unique::by_args().within(period),
    }
}

/// Whether its runs are the only ones with their arguments.
fn unique_of(card: &DefinitionCard) -> Option<Unique> {
    let options: serde_json::Value = serde_json::from_str(&card.options).ok()?;
    Some(match options.get("unique_ms")?.as_u64()? {
        0 => Unique::by_args(),
        period => Unique::by_args().within(Duration::from_millis(period)),
    })
}

/// One version of a definition, or those that there are.
fn of_version(cards: Vec<DefinitionCard>, name: &str, version: u32) -> Result<DefinitionCard, Error> {
    if let Some(card) = cards.iter().find(|card| card.name == name && card.version == version) {
        return Ok(card.clone());
    }
    let known: Vec<String> =
        cards.iter().filter(|card| card.name == name).map(|card| card.version.to_string()).collect();
    match known.is_empty() {
        true => active(cards, name),
        false => Err(Error::UnknownDefinition {
            name: format!("{name}@{version}"),
            nearest: known.into_iter().map(|known| format!("{name}@{known}")).collect(),
        }),
    }
}

/// The active version of a definition, or names that look like the one asked for.
pub(crate) fn active(cards: Vec<DefinitionCard>, name: &str) -> Result<DefinitionCard, Error> {
    if let Some(card) = cards.iter().find(|card| card.name == name && card.active) {
        return Ok(card.clone());
    }
    let mut nearest: Vec<String> = cards.into_iter().map(|card| card.name).collect();
    nearest.dedup();
    nearest.sort_by_key(|known| distance(known, name));
    nearest.retain(|known| distance(known, name) <= name.len().max(known.len()) / 2);
    nearest.truncate(3);
    Err(Error::UnknownDefinition { name: name.to_owned(), nearest })
}
