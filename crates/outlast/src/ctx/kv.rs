//! Values from handlers: the calls of a workflow are steps with names of our own, all others are done at once.

use outlast_core::{Error, Failure, Op};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::place::Place;
use super::step::Step;
use super::{BatchCtx, Ctx, JobCtx, StepCtx};
use crate::definition::Stored;
use crate::verdict::Source;
use crate::{Client, Kv};

impl Ctx {
    /// Values that outlive this run, shared by all runs of its tenant.
    ///
    /// Every call is recorded like a step: a replay gives what it gave, although the value may have changed since. A
    /// write happens once whatever crashes, as long as the run goes on within a day.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// let seen: u64 = ctx.kv().get("seen").await?.unwrap_or(0);
    /// ctx.kv().set("seen", &(seen + 1)).ttl(30.days()).await?;
    /// # Ok(()) });
    /// ```
    pub fn kv(&self) -> Kv {
        Kv::of_run(self, self.turn.limits)
    }
}

impl StepCtx {
    /// Values that outlive the run, shared by all runs of its tenant. Calls are done at once and not recorded: a body
    /// that runs again does them again.
    pub fn kv(&self) -> Kv {
        let turn = self.turn();
        Kv::of_client(&turn.engine.client, &turn.record.tenant)
    }
}

impl JobCtx {
    /// Values that outlive the job, shared by all runs of its tenant. Calls are done at once: an attempt that is made
    /// again does them again.
    pub fn kv(&self) -> Kv {
        Kv::of_client(self.client(), self.tenant())
    }
}

impl BatchCtx {
    /// Values that outlive the jobs, shared by all runs of their tenant. Calls are done at once: an attempt that is made
    /// again does them again.
    pub fn kv(&self) -> Kv {
        Kv::of_client(self.client(), self.tenant())
    }
}

/// The place of a call in the journal: made with the call, and not when that is first polled.
pub(crate) struct Recording(Place);

impl Recording {
    pub(crate) fn new(ctx: &Ctx, name: &str, source: Source) -> Recording {
        Recording(Place::new(ctx, Op::Step, name).made_at(source))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.turn.engine.client
    }

    /// Runs `work` as a step. It gets an id that is the same however often the step is tried, and no other's.
    pub(crate) async fn step<T, Fut>(self, mut work: impl FnMut(Uuid) -> Fut + Send) -> Result<T, Error>
    where
        T: Stored,
        Fut: Future<Output = Result<T, Error>> + Send,
    {
        let step = Step::in_place(self.0, move |step: StepCtx| work(id_of(&step.key())));
        step.await.map_err(|failure| match failure {
            Failure::Own(error) | Failure::Outlast(error) => error,
        })
    }
}

/// An id for what is done under this key.
pub(super) fn id_of(key: &str) -> Uuid {
    let digest = Sha256::digest(key);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes)
}
