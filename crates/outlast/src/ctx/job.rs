//! The context of a job.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outlast_core::RunId;

use super::missing_state;
use crate::Client;
use crate::engine::job::JobTurn;

/// What a job is given. Cheap to clone.
#[derive(Clone)]
pub struct JobCtx {
    job: Arc<JobTurn>,
    attempt: u32,
}

impl JobCtx {
    pub(crate) fn new(job: Arc<JobTurn>, attempt: u32) -> JobCtx {
        JobCtx { job, attempt }
    }

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.job.record.id
    }

    /// The same for every attempt of this job and for no other: pass it on to whatever must not happen
    /// twice.
    #[doc(alias = "idempotency")]
    pub fn key(&self) -> String {
        self.job.record.id.to_string()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whose run it is; empty for nobody's in particular.
    pub fn tenant(&self) -> &str {
        &self.job.record.tenant
    }

    /// Who started it.
    pub fn owner(&self) -> Option<&str> {
        self.job.record.owner.as_deref()
    }

    /// The roles with which it acts.
    pub fn roles(&self) -> &[String] {
        &self.job.record.roles
    }

    /// The W3C trace context (`traceparent`) with which the run was started: its own, or its parent's.
    pub fn trace(&self) -> Option<&str> {
        self.job.record.trace.as_deref()
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Without one the run is
    /// blocked until a node that has it appears.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.job.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => {
                let reason = missing_state::<T>();
                self.job.misfits(&reason);
                std::panic::resume_unwind(Box::new(reason))
            }
        }
    }

    /// Says that another attempt makes no sense: if this one fails, the run has failed.
    pub fn last_attempt(&self) {
        self.job.terminal.store(true, Ordering::Relaxed);
    }

    /// Why someone asked this job to stop, if they did.
    pub fn cancel_requested(&self) -> Option<String> {
        self.job.cancel.borrow().clone()
    }

    /// Waits until someone asks this job to stop; gives the reason.
    pub async fn cancelled(&self) -> String {
        super::stop_asked(&self.job.cancel).await
    }

    /// To start, send, settle and cancel other runs.
    pub fn client(&self) -> &Client {
        &self.job.engine.client
    }
}
