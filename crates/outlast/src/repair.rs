//! Repair: runs that failed or were cancelled go on from where they went wrong, with another result where that helps;
//! and forks, which go on from any step as another run.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt};
use outlast_core::repair::{CutAt, Message, Plan, Replaced, children, operation, plan, revise};
use outlast_core::{
    Entry, Error, FailureDoc, Limits, Op, Operated, Payload, Phase, Revision, RunId, Status, Timestamp,
    check_name, shorten,
};
use outlast_store::{
    Address, Control, Controlled, Ended, Hears, NewsKind, PURGING, Repair, RunKind, RunView,
};
use serde::{Deserialize, Serialize};

use crate::client::repeated;
use crate::engine::turn::note_payload;
use crate::{Client, Target};

/// How many entries are read at once.
const PAGE: u32 = 1000;
/// How many children are looked at at once.
const AT_ONCE: usize = 16;
/// The name of the entry that says that a run was repaired.
const ENTRY: &str = "repair";

/// A run about to be tried again, perhaps from another step or with another result: see [`Client::repair`].
#[must_use = "nothing is repaired unless awaited"]
pub struct RepairRun {
    client: Client,
    run: Target,
    from: Option<String>,
    replace: Option<(String, Result<Payload, Error>)>,
    input: Option<Result<Payload, Error>>,
    /// Only if it is still in this epoch.
    only_in: Option<i64>,
    who: Who,
}

/// What repairs and forks say of who wants them.
macro_rules! who_options {
    () => {
        /// Why, for people who look at the run later.
        pub fn reason(mut self, reason: impl Into<String>) -> Self {
            self.who.reason = Some(reason.into());
            self
        }

        /// Who asks for it, for people who look at the run later.
        pub fn by(mut self, who: impl Into<String>) -> Self {
            self.who.by = Some(who.into());
            self
        }
    };
}
pub(crate) use who_options;

/// Who repairs something, and why.
#[derive(Clone, Default)]
pub(crate) struct Who {
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Who {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.by.as_deref().map(|by| check_name("by", by)).transpose()?;
        self.reason.as_deref().map(|reason| check_name("reason", reason)).transpose()?;
        Ok(())
    }

    pub(crate) fn revision(&self) -> Revision {
        let reason = self.reason.as_deref().map(|reason| shorten(reason, Limits::MESSAGE));
        Revision { by: self.by.clone(), reason, ..Revision::default() }
    }
}

/// What a repair or a fork would do: nothing is changed by asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepairPlan {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: Status,
    /// How many recorded results stay and are not made again.
    pub kept: usize,
    /// What ran before, wholly or in part, and would run again, in the order of the journal. Whatever the run has not come to
    /// yet comes after these.
    pub again: Vec<String>,
    /// How many messages that it had consumed would arrive again.
    pub messages: usize,
    /// How many children that go on, or have ended, it would wait for again.
    pub children: usize,
}

impl RepairPlan {
    pub(crate) fn new(view: &RunView, plan: &Plan) -> RepairPlan {
        RepairPlan {
            run: view.record.id,
            status: view.status,
            kept: plan.kept,
            again: plan.again.iter().map(Operated::to_string).collect(),
            messages: plan.messages.len(),
            children: plan.children.len(),
        }
    }

    /// Of a run without a journal that changes: what has ended runs again, and the rest goes on, or stays as it is.
    fn of_all(view: &RunView) -> RepairPlan {
        let again = match view.status.is_final() {
            true => vec![view.record.definition.clone()],
            false => Vec::new(),
        };
        let (run, status) = (view.record.id, view.status);
        RepairPlan { run, status, kept: 0, again, messages: 0, children: 0 }
    }
}

impl Client {
    /// Tries a run again that failed or was cancelled. A workflow goes on from where it went wrong: at the step, child or
    /// wait whose failure it ended with, or where it was asked to stop. What was recorded before that stays. What was undone since
    /// runs again too, and so does what came after it; events that were consumed there arrive again. A job begins with its first
    /// attempt. `true` when it goes on by this call.
    ///
    /// [`RepairRun::plan`] says beforehand what would run again.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let pay = Workflow::new("pay", |ctx: Ctx, cents: u64| async move {
    ///     let id: u64 = ctx.step("reserve", |_| async { Ok::<_, AnyError>(7) }).await?;
    ///     let fee: u64 = ctx.step("fee", |_| async { Err(AnyError::new("no such table")) }).await?;
    ///     Ok::<_, AnyError>((id, cents + fee))
    /// });
    /// let app = Outlast::open("sqlite::memory:").await?.workflow(pay.clone()).run().await?;
    /// let run = app.start(pay, 100).await?;
    /// assert!(run.result().await.is_err());
    ///
    /// let repair = app.repair(run.id()).replace("fee", &3).reason("the table was missing");
    /// assert!(repair.await?);
    /// assert_eq!(run.result().await?, (7, 103));
    /// # Ok::<_, AnyError>(()) }).unwrap();
    /// ```
    pub fn repair(&self, run: impl Into<Target>) -> RepairRun {
        RepairRun {
            client: self.clone(),
            run: run.into(),
            from: None,
            replace: None,
            input: None,
            only_in: None,
            who: Who::default(),
        }
    }

    /// The whole journal of a run.
    pub(crate) async fn whole_journal(&self, run: RunId) -> Result<Vec<Entry>, Error> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry| entry.pos);
            let page = self.journal(run, after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            entries.extend(page);
            if is_last {
                return Ok(entries);
            }
        }
    }

    /// The whole journal of a run that may be tried again or forked: one that is being deleted is refused.
    pub(crate) async fn repairable_journal(&self, run: RunId) -> Result<Vec<Entry>, Error> {
        let entries = self.whole_journal(run).await?;
        // Behind the last page: whoever deletes a part says so with the first.
        let view = self.status(run).await?;
        match view.tags.iter().any(|(name, _)| name == PURGING) {
            true => Err(purging(run)),
            false => Ok(entries),
        }
    }

    /// Those of the children that ended without a result, are about to, or are not there any more.
    pub(crate) async fn gone_children(&self, entries: &[Entry]) -> Result<HashSet<RunId>, Error> {
        let looks = children(entries).into_iter().map(|child| async move {
            let is_gone = match self.status(child).await {
                Ok(view) if view.status == Status::Completed => false,
                Ok(view) => view.status.is_final() || view.cancel_reason.is_some(),
                Err(Error::UnknownRun { .. }) => true,
                Err(error) => return Err(error),
            };
            Ok(is_gone.then_some(child))
        });
        let looks = futures_util::stream::iter(looks).buffer_unordered(AT_ONCE);
        looks.try_filter_map(|gone| std::future::ready(Ok(gone))).try_collect().await
    }
}

impl RepairRun {
    /// From this step on, instead of where the run went wrong: `charge`, `charge#2`, or with its kind, `child:ship`.
    pub fn from(mut self, step: impl Into<String>) -> Self {
        self.from = Some(step.into());
        self
    }

    /// Takes `value` for the result of a step, instead of what was recorded or before anything is. What followed that result
    /// in a run that has ended counts no more; in one that goes on the rest stays, and has to fit. The old result
    /// is kept for people to see. For an undo that gave up: `undo:charge`, with `&()`.
    pub fn replace<T: Serialize + ?Sized>(mut self, step: impl Into<String>, value: &T) -> Self {
        let value = Payload::encode("the result", value, self.client.limits());
        self.replace = Some((step.into(), value));
        self
    }

    /// Calls a job with another input from now on: see [`Client::retry_with`]. A workflow gets one when it is forked.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Some(Payload::encode("the input", input, self.client.limits()));
        self
    }

    who_options!();

    /// Leaves a run alone that somebody else has tried again since.
    pub(crate) fn only_in(mut self, epoch: i64) -> Self {
        self.only_in = Some(epoch);
        self
    }

    /// Says what would run again, and changes nothing.
    pub async fn plan(&self) -> Result<RepairPlan, Error> {
        let (view, repair) = self.look().await?;
        Ok(repair.map_or_else(|| RepairPlan::of_all(&view), |(_, plan)| plan))
    }

    /// The same, and refuses whatever a repair would refuse, which is made and taken back for that.
    #[doc(hidden)]
    pub async fn rehearse(&self) -> Result<RepairPlan, Error> {
        let (view, control, plan) = self.prepare().await?;
        if let Some(control) = &control {
            retried(control, self.client.undone(control).await?)?;
        }
        Ok(plan.unwrap_or_else(|| RepairPlan::of_all(&view)))
    }

    /// What the store is asked for; `None` when there is nothing to do.
    pub(crate) async fn control(self) -> Result<Option<Control>, Error> {
        Ok(self.prepare().await?.1)
    }

    /// The run as it stands, and what becomes of its journal if it has one that changes.
    async fn look(&self) -> Result<(RunView, Option<(Repair, RepairPlan)>), Error> {
        self.who.check()?;
        let client = &self.client;
        let view = client.status(client.find(self.run.clone()).await?).await?;
        let run = view.record.id;
        let asks = self.from.is_some() || self.replace.is_some();
        if view.record.kind == RunKind::Job {
            return match asks {
                true => Err(Error::NotRetryable { run, reason: "it is a job, which has no steps".into() }),
                false => Ok((view, None)),
            };
        }
        if view.status == Status::Completed {
            let reason = "it has completed; fork it instead".into();
            return Err(Error::NotRetryable { run, reason });
        }
        if self.input.is_some() {
            let remedy = "none: a workflow gets another one when it is forked";
            return Err(Error::invalid("input", "a new one", remedy));
        }
        // What it records meanwhile would be missed.
        if view.node.is_some() && asks {
            let reason = "a node works on it: pause it first".into();
            return Err(Error::NotRetryable { run, reason });
        }
        if !view.status.is_final() && self.from.is_some() {
            let reason = "it has not ended: cancel it first, or fork it".into();
            return Err(Error::NotRetryable { run, reason });
        }
        if !view.status.is_final() && self.replace.is_none() {
            return Ok((view, None));
        }
        let repair = self.of_workflow(&view).await?;
        Ok((view, Some(repair)))
    }

    async fn of_workflow(&self, view: &RunView) -> Result<(Repair, RepairPlan), Error> {
        let (client, run) = (&self.client, view.record.id);
        let mut entries = client.repairable_journal(run).await?;
        let before = entries.iter().filter(|entry| entry.op == Op::Revise).count();
        let last = entries.last().map_or(0, |entry| entry.pos);
        let anew = revise(&mut entries)?;
        let gone = client.gone_children(&entries).await?;
        let replaced = self.replace.as_ref().map(|(step, _)| operation(&entries, step)).transpose()?;
        let cut = match (&self.from, &replaced) {
            (Some(step), _) => CutAt::Operation(operation(&entries, step)?),
            (None, Some(_)) if !view.status.is_final() => CutAt::Nowhere,
            (None, Some(operated)) => CutAt::Behind(operated.clone()),
            (None, None) => CutAt::Failure,
        };
        let planned = plan(&entries, &cut, failure(view).as_ref(), &gone, &anew);
        let mut revision = Revision { anew: planned.anew.clone(), ..self.who.revision() };
        let mut void = planned.void.clone();
        if let (Some(operated), Some((_, value))) = (&replaced, &self.replace) {
            let replaced = replacement(&entries, operated, &void, value.clone()?)?;
            // What waited for the result, or tried to have it, is over; that something can be undone is not.
            if replaced.pos.is_none() && operated.op.0 != Op::Undo {
                let of_it = entries.iter().filter(|e| e.phase != Phase::Void && Operated::of(e) == *operated);
                void.extend(of_it.map(|entry| entry.pos));
                void.sort_unstable();
                void.dedup();
            }
            revision.result = Some(replaced);
        }
        let mut shown = RepairPlan::new(view, &planned);
        // What has its result does not run again.
        shown.again.retain(|again| replaced.as_ref().is_none_or(|operated| operated.to_string() != *again));
        let entry = Entry {
            pos: last + 1,
            op: Op::Revise,
            phase: Phase::Done,
            name: if before == 0 { ENTRY.into() } else { format!("{ENTRY}#{}", before + 1).into() },
            at: Timestamp::default(),
            took: None,
            body: Some(note_payload(&revision)),
        };
        let hears = hears(planned.messages, planned.children);
        Ok((Repair { entry, void, hears }, shown))
    }

    /// The run as it stands, what the store is asked for (`None` when there is nothing to do), and what of it runs again.
    async fn prepare(&self) -> Result<(RunView, Option<Control>, Option<RepairPlan>), Error> {
        let (view, repair) = self.look().await?;
        let input = self.input.clone().transpose()?;
        if let Some(input) = &input {
            self.client.check_input_of(&view, view.record.version, input).await?;
        }
        if view.status == Status::UndoFailed && input.is_some() {
            let remedy = "none: what is undone is what the run did with its own";
            return Err(Error::invalid("input", "a new one", remedy));
        }
        if view.status == Status::Blocked && input.is_some() {
            let remedy = "none: it has not ended; cancel it first";
            return Err(Error::invalid("input", "a new one", remedy));
        }
        let moved_on = self.only_in.is_some_and(|epoch| epoch != view.epoch);
        let stands = matches!(view.status, Status::UndoFailed | Status::Blocked);
        let stays = !view.status.is_final() && !stands && repair.is_none();
        let (repair, plan) = repair.unzip();
        let control =
            Control::Retry { run: Address::Run(view.record.id), epoch: Some(view.epoch), input, repair };
        Ok((view, (!stays && !moved_on).then_some(control), plan))
    }

    async fn perform(self) -> Result<bool, Error> {
        let client = self.client.clone();
        let Some(control) = self.control().await? else { return Ok(false) };
        // Naming the epoch makes the call one that can be repeated: whatever happens to the run between two of them, it
        // is tried again once.
        let tries = AtomicU32::new(0);
        let ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            client.store().control(&control)
        };
        let answer = repeated(ask).await?;
        // The try whose reply got lost may be what made it ready.
        Ok(retried(&control, answer)? || tries.into_inner() > 1)
    }
}

impl IntoFuture for RepairRun {
    type Output = Result<bool, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.perform())
    }
}

/// What a [`Control::Retry`] answered.
pub(crate) fn retried(control: &Control, answer: Controlled) -> Result<bool, Error> {
    match (answer, control) {
        (Controlled::Retried { by_this, .. }, _) => Ok(by_this),
        (Controlled::Final { run, status, .. }, _) => {
            Err(Error::NotRetryable { run, reason: format!("it has {status}") })
        }
        (Controlled::Taken { definition, by }, _) => Err(Error::AlreadyExists { definition, run: by }),
        (Controlled::Purging { run }, _) => Err(purging(run)),
        (Controlled::Held { run }, _) => {
            Err(Error::NotRetryable { run, reason: "a node works on it: pause it first".into() })
        }
        (_, Control::Retry { run, .. }) => Err(Error::UnknownRun { run: Target::shown(run) }),
        _ => Ok(false),
    }
}

/// Why nobody goes on with what is left of a journal.
fn purging(run: RunId) -> Error {
    let reason = "it ended so long ago that its journal is being deleted, and a part of it is gone";
    Error::NotRetryable { run, reason: reason.into() }
}

/// What a run ended with.
pub(crate) fn failure(view: &RunView) -> Option<FailureDoc> {
    serde_json::from_str(view.ended.as_ref()?.error.as_ref()?).ok()
}

/// A result that stands where the old one stood, if that counts no more only because it is replaced.
fn replacement(
    entries: &[Entry],
    operated: &Operated,
    void: &[u32],
    value: Payload,
) -> Result<Replaced, Error> {
    let can = matches!(
        operated.op.0,
        Op::Step | Op::Transaction | Op::Event | Op::Promise | Op::Child | Op::Undo | Op::Sleep
    );
    if !can {
        let remedy = "a step, transaction, event, promise, child, sleep or undo: nothing else has a result";
        return Err(Error::invalid("step", operated, remedy));
    }
    let is_result = |entry: &&Entry| {
        matches!(entry.phase, Phase::Done | Phase::Failed) && Operated::of(entry) == *operated
    };
    let pos = entries.iter().find(is_result).map(|entry| entry.pos).filter(|pos| !void.contains(pos));
    let json = value.json().unwrap_or("null").to_owned();
    let body = serde_json::value::RawValue::from_string(json)
        .map_err(|error| Error::invalid("result", operated, error.to_string()))?;
    Ok(Replaced { of: operated.clone(), pos, body })
}

/// What is heard again, as the store takes it.
pub(crate) fn hears(messages: Vec<Message>, ends: Vec<(RunId, String)>) -> Hears {
    let news = messages.into_iter().map(|message| match message {
        Message::Event(name, body) => (NewsKind::Event, name, body),
        Message::Settled(name, body) => (NewsKind::Settled, name, body),
        Message::Rejected(name, body) => (NewsKind::Rejected, name, body),
        Message::Ended(name, output) => {
            let end = Ended { status: Status::Completed, output, error: None };
            (NewsKind::Child, name, Some(end.to_payload()))
        }
    });
    Hears { news: news.collect(), ends }
}
