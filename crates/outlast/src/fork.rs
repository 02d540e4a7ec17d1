//! Forks: another run that goes on from any step of one that is there, with its journal up to there.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use outlast_core::repair::{CutAt, Plan, operation, plan, revise};
use outlast_core::{Entry, Error, Limits, Op, Payload, Phase, Revision, RunId, Timestamp};
use outlast_store::{Control, Controlled, Fork, NewRun, PURGING, RunKind, RunView};
use serde::Serialize;

use crate::client::repeated;
use crate::draft::{StartOptions, active};
use crate::engine::turn::note_payload;
use crate::repair::{RepairPlan, Who, failure, hears, who_options};
use crate::{Client, Target};

/// The tag by which forks of a run are found.
const TAG: &str = "outlast.fork-of";

/// A fork about to be started: see [`Client::fork`].
#[must_use = "nothing is forked unless awaited"]
pub struct ForkRun {
    client: Client,
    run: Target,
    from: ForkFrom,
    input: Option<Result<Payload, Error>>,
    version: ForkVersion,
    once_for: Option<RunId>,
    who: Who,
}

enum ForkFrom {
    Failure,
    Step(String),
    Start,
}

enum ForkVersion {
    Same,
    Active,
    This(u32),
}

/// What the new run is, and what the store is asked for.
struct Forking {
    view: RunView,
    plan: Plan,
    entries: Vec<Entry>,
}

impl Client {
    /// Starts another run that goes on from a step of this one: with what it recorded before, the same or another input, the
    /// same or another version of the code. The run itself stays as it is, whatever its status. Gives the new run's id.
    ///
    /// Without [`ForkRun::from`] the fork goes on from where the run went wrong, as [`Client::repair`] does. The fork has
    /// the run's definition, queue, group, owner, tenant, roles and tags, but neither its key nor its parent, and the tag
    /// `outlast.fork-of` with the run's id. Steps that it runs have keys of their own. Events that the run consumed behind
    /// the step arrive at the fork too, and children that the run had started before are waited for by both.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let sum = Workflow::new("sum", |ctx: Ctx, more: u64| async move {
    ///     let base: u64 = ctx.step("base", |_| async { Ok::<_, AnyError>(40) }).await?;
    ///     ctx.step("add", async |_| Ok::<_, AnyError>(base + more)).await
    /// });
    /// let app = Outlast::open("sqlite::memory:").await?.workflow(sum.clone()).run().await?;
    /// let run = app.start(sum.clone(), 1).await?;
    /// assert_eq!(run.result().await?, 41);
    ///
    /// let fork = app.fork(run.id()).from("add").input(&2);
    /// assert_eq!(fork.plan().await?.again, ["add"]);
    /// assert_eq!(app.handle(&sum, fork.await?).result().await?, 42); // "base" did not run again
    /// # Ok::<_, AnyError>(()) }).unwrap();
    /// ```
    pub fn fork(&self, run: impl Into<Target>) -> ForkRun {
        ForkRun {
            client: self.clone(),
            run: run.into(),
            from: ForkFrom::Failure,
            input: None,
            version: ForkVersion::Same,
            once_for: None,
            who: Who::default(),
        }
    }
}

impl ForkRun {
    /// From this step on: `charge`, `charge#2`, or with its kind, `child:ship`.
    pub fn from(mut self, step: impl Into<String>) -> Self {
        self.from = ForkFrom::Step(step.into());
        self
    }

    /// From the beginning: nothing that was recorded counts. After `continue_as_new`, from the beginning of the last life.
    pub fn from_start(mut self) -> Self {
        self.from = ForkFrom::Start;
        self
    }

    /// With another input. The code repeats what is recorded with it: where that does not fit, the fork is blocked with the
    /// difference.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Some(Payload::encode("the input", input, self.client.limits()));
        self
    }

    /// With this version of the code.
    pub fn version(mut self, version: u32) -> Self {
        self.version = ForkVersion::This(version);
        self
    }

    /// With the version that new runs take.
    pub fn active_version(mut self) -> Self {
        self.version = ForkVersion::Active;
        self
    }

    who_options!();

    /// Whoever asks for it twice, for the same `who`, gets the same fork.
    #[doc(hidden)]
    pub fn once_for(mut self, who: RunId) -> Self {
        self.once_for = Some(who);
        self
    }

    /// Says what would run again, and changes nothing.
    pub async fn plan(&self) -> Result<RepairPlan, Error> {
        let Forking { view, plan, .. } = self.look().await?;
        Ok(RepairPlan::new(&view, &plan))
    }

    /// The same, and refuses whatever a fork would refuse.
    #[doc(hidden)]
    pub async fn rehearse(&self) -> Result<RepairPlan, Error> {
        let (Forking { view, plan, .. }, ..) = self.prepare().await?;
        Ok(RepairPlan::new(&view, &plan))
    }

    async fn look(&self) -> Result<Forking, Error> {
        self.who.check()?;
        let client = &self.client;
        let view = client.status(client.find(self.run.clone()).await?).await?;
        let run = view.record.id;
        if view.record.kind == RunKind::Job {
            return match self.from {
                ForkFrom::Step(_) => {
                    Err(Error::NotRetryable { run, reason: "it is a job, which has no steps".into() })
                }
                _ => Ok(Forking { view, plan: Plan::default(), entries: Vec::new() }),
            };
        }
        let mut entries = client.repairable_journal(run).await?;
        revise(&mut entries)?;
        let failure = failure(&view);
        let cut = match &self.from {
            ForkFrom::Step(step) => CutAt::Operation(operation(&entries, step)?),
            ForkFrom::Start => CutAt::Start,
            ForkFrom::Failure if failure.is_some() => CutAt::Failure,
            ForkFrom::Failure => {
                return Err(Error::invalid("from", "nothing", "a step: the run has not gone wrong anywhere"));
            }
        };
        let gone = client.gone_children(&entries).await?;
        // In the fork nothing was begun anew.
        let plan = plan(&entries, &cut, failure.as_ref(), &gone, &BTreeMap::new());
        Ok(Forking { view, plan, entries })
    }

    /// The version of the code that the fork takes.
    async fn version_of(&self, view: &RunView) -> Result<u32, Error> {
        let name = &view.record.definition;
        match self.version {
            ForkVersion::Same => Ok(view.record.version),
            ForkVersion::Active => Ok(active(self.client.definitions().await?, name)?.version),
            ForkVersion::This(version) => {
                let known = self.client.definitions().await?;
                let mut known = known.into_iter().filter(|card| card.name == *name).map(|card| card.version);
                match known.any(|known| known == version) || version == view.record.version {
                    true => Ok(version),
                    false => {
                        let remedy = format!("one that a node has registered for {name}");
                        Err(Error::invalid("version", version, remedy))
                    }
                }
            }
        }
    }

    /// What is forked, and the run that it becomes; refuses what cannot be.
    async fn prepare(&self) -> Result<(Forking, NewRun, Option<Payload>), Error> {
        let forking = self.look().await?;
        let view = &forking.view;
        let version = self.version_of(view).await?;
        let input = self.input.clone().transpose()?;
        let called_with = input.as_ref().unwrap_or(&view.record.input);
        self.client.check_input_of(view, version, called_with).await?;
        let run = self.new_run(view, version, called_with)?;
        Ok((forking, run, input))
    }

    async fn perform(self) -> Result<RunId, Error> {
        let (Forking { view, plan, entries }, run, input) = self.prepare().await?;
        let version = run.version;
        let mut revision = self.who.revision();
        revision.fork_of = Some(view.record.id);
        let entries = forked(entries, &plan, revision, version != view.record.version, input);
        let control =
            Control::Fork(Box::new(Fork { run, entries, hears: hears(plan.messages, plan.children) }));
        match repeated(|| self.client.store().control(&control)).await? {
            Controlled::Forked { run } => Ok(run),
            _ => Err(Error::misconfigured("the store gave no answer to a fork")),
        }
    }

    fn new_run(&self, view: &RunView, version: u32, input: &Payload) -> Result<NewRun, Error> {
        let (client, record) = (&self.client, &view.record);
        let name = &record.definition;
        let mut run = client.draft(name, version, record.kind, &record.queue, record.priority, input.clone());
        let mut tags: Vec<(String, String)> = view
            .tags
            .iter()
            .filter(|(name, _)| name != TAG && name != PURGING)
            .take(Limits::TAGS - 1)
            .cloned()
            .collect();
        tags.push((TAG.to_owned(), record.id.to_string()));
        let options = StartOptions {
            tags,
            group: view.group.clone(),
            owner: record.owner.clone(),
            tenant: record.tenant.clone(),
            roles: record.roles.clone(),
            trace: record.trace.clone(),
            shard: Some(record.id.shard()),
            ..StartOptions::default()
        };
        client.apply(&mut run, options)?;
        if let Some(who) = self.once_for {
            let (a, b) = (who.uuid().as_u64_pair(), record.id.uuid().as_u64_pair());
            run.id = RunId::new(
                run.id.shard(),
                record.created_at,
                a.0 ^ a.1.rotate_left(7) ^ b.0.rotate_left(13) ^ b.1,
            );
        }
        Ok(run)
    }
}

impl IntoFuture for ForkRun {
    type Output = Result<RunId, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.perform())
    }
}

/// The journal of a fork: what counts of the other's, and where it comes from. Positions stay, so that what names them
/// (the life that a child belongs to) still fits.
fn forked(
    entries: Vec<Entry>,
    plan: &Plan,
    revision: Revision,
    other_code: bool,
    input: Option<Payload>,
) -> Vec<Entry> {
    let counts = |entry: &Entry| {
        entry.phase != Phase::Void
            && entry.op != Op::Revise
            && plan.void.binary_search(&entry.pos).is_err()
            // Which code a run began with is about that code.
            && !(other_code && entry.op == Op::Value && entry.name.starts_with('='))
    };
    let mut kept: Vec<Entry> = entries.into_iter().filter(counts).collect();
    let pos = kept.last().map_or(0, |entry| entry.pos) + 1;
    // An input that a life began with stands in the journal.
    if let (Some(input), Some(began)) = (input, kept.iter_mut().find(|entry| entry.op == Op::Continue)) {
        began.body = Some(input);
    }
    kept.push(Entry {
        pos,
        op: Op::Revise,
        phase: Phase::Done,
        name: "fork".into(),
        at: Timestamp::default(),
        took: None,
        body: Some(note_payload(&revision)),
    });
    kept
}
