//! The context of jobs that are done many at a time.

use std::any::{Any, TypeId};
use std::sync::Arc;

use outlast_core::RunId;

use super::missing_state;
use crate::Client;
use crate::engine::Engine;

/// What a handler of many jobs is given: see [`Job::batch`](crate::Job::batch). Cheap to clone.
#[derive(Clone)]
pub struct BatchCtx {
    engine: Arc<Engine>,
    tenant: Arc<str>,
    runs: Arc<[RunId]>,
}

impl BatchCtx {
    pub(crate) fn new(engine: Arc<Engine>, tenant: String, runs: Vec<RunId>) -> BatchCtx {
        BatchCtx { engine, tenant: tenant.into(), runs: runs.into() }
    }

    /// Whose the runs are: all of one batch are the same tenant's. Empty when they are nobody's.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The ids of the runs, in the order of their inputs.
    pub fn run_ids(&self) -> &[RunId] {
        &self.runs
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Panics without one: these attempts
    /// fail.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => std::panic::resume_unwind(Box::new(missing_state::<T>())),
        }
    }

    /// To start, send, settle and cancel other runs.
    pub fn client(&self) -> &Client {
        &self.engine.client
    }
}
