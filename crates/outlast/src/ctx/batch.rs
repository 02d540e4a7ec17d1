//! The context of jobs that are done many at a time.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use outlast_core::RunId;
use outlast_store::RunRecord;

use super::missing_state;
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::job::JobTurn;
use crate::{Client, Start, StartMany};

/// What a handler of many jobs is given: see [`Job::batch`](crate::Job::batch). Cheap to clone.
#[derive(Clone)]
pub struct BatchCtx {
    /// At least one.
    jobs: Arc<[Arc<JobTurn>]>,
    runs: Arc<[RunId]>,
    /// Whom this attempt has sent its key.
    #[cfg(feature = "http")]
    keyed: crate::http::Keyed,
}

impl BatchCtx {
    /// Of jobs of one definition and one tenant, of which there is at least one.
    pub(crate) fn new(jobs: Vec<Arc<JobTurn>>) -> BatchCtx {
        let runs = jobs.iter().map(|job| job.record.id).collect();
        BatchCtx {
            jobs: jobs.into(),
            runs,
            #[cfg(feature = "http")]
            keyed: crate::http::Keyed::default(),
        }
    }

    pub(crate) fn jobs(&self) -> &[Arc<JobTurn>] {
        &self.jobs
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.jobs[0].engine
    }

    /// Whose the runs are: all of one batch are the same tenant's. Empty when they are nobody's.
    pub fn tenant(&self) -> &str {
        &self.jobs[0].record.tenant
    }

    /// The ids of the runs, in the order of their inputs.
    pub fn run_ids(&self) -> &[RunId] {
        &self.runs
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Panics without one: these attempts
    /// fail.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.engine().states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => std::panic::resume_unwind(Box::new(missing_state::<T>())),
        }
    }

    /// Says that another attempt makes no sense: if this one fails, all of these runs have failed.
    pub fn last_attempt(&self) {
        self.jobs.iter().for_each(|job| job.give_up());
    }

    /// Says when another attempt makes sense: if this one fails, the next of each run comes after this long.
    pub fn retry_after(&self, pause: Duration) {
        self.jobs.iter().for_each(|job| job.ask_pause(pause));
    }

    /// Those of the runs that somebody asked to stop.
    pub fn cancel_requested(&self) -> Vec<RunId> {
        let asked = self.jobs.iter().filter(|job| job.cancel.borrow().is_some());
        asked.map(|job| job.record.id).collect()
    }

    /// Waits until all of the runs have been asked to stop: then nobody wants any of this.
    pub async fn cancelled(&self) {
        join_all(self.jobs.iter().map(|job| super::stop_asked(&job.cancel))).await;
    }

    /// Starts another run: see [`JobCtx::start`](crate::JobCtx::start). It acts for the tenant of these, and for whoever
    /// else all of them act for: with their owner and trace if those are the same, and with the roles that all of them have.
    pub fn start<D: Definition>(&self, definition: D, input: D::Input) -> Start<D> {
        self.client().start(definition, input).act_for(&self.common())
    }

    /// The same for many runs of one definition: see [`Client::start_many`].
    pub fn start_many<D: Definition>(
        &self,
        definition: D,
        inputs: impl IntoIterator<Item = D::Input>,
    ) -> StartMany<D> {
        self.client().start_many(definition, inputs).act_for(&self.common())
    }

    /// The first of the runs, with no more than what holds for all of them.
    fn common(&self) -> RunRecord {
        let mut common = self.jobs[0].record.clone();
        for job in self.jobs.iter().skip(1) {
            let other = &job.record;
            common.owner = common.owner.filter(|owner| other.owner.as_ref() == Some(owner));
            common.trace = common.trace.filter(|trace| other.trace.as_ref() == Some(trace));
            common.roles.retain(|role| other.roles.contains(role));
        }
        common
    }

    /// Calls other services: see [`http`](crate::http). The key that goes with a call is made of the ids of these runs: it
    /// is the same when the same ones are done together again.
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn http(&self) -> crate::http::Http {
        let mut runs: Vec<String> = self.runs.iter().map(RunId::to_string).collect();
        runs.sort_unstable();
        let key = match &runs[..] {
            [one] => one.clone(),
            many => super::kv::id_of(&many.join(" ")).to_string(),
        };
        crate::http::Http::direct(self.engine(), &self.common(), key, self.keyed.clone())
    }

    /// To send, settle and cancel, and to look at other runs. It acts as the program itself: see
    /// [`JobCtx::client`](crate::JobCtx::client).
    pub fn client(&self) -> &Client {
        &self.engine().client
    }
}
