//! Why runs are not progressing, and the proof that something wakes each and that the tables agree.

use std::collections::BTreeMap;

use outlast_core::{Error, Explained, WakeSource};
use outlast_store::{Contradiction, Unwakeable, VerifyMark};
use serde::Serialize;

use crate::client::repeated;
use crate::{Client, Target};

/// How many runs are looked at in one transaction.
const PAGE: u32 = 500;

/// What a look at all unfinished runs found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many unfinished runs were looked at.
    pub runs: u64,
    /// How many of them are woken by what.
    pub wakes: BTreeMap<WakeSource, u64>,
    /// How many nothing wakes.
    pub lacking: u64,
    /// Those, at most [`Verified::MOST`].
    pub without: Vec<Unwakeable>,
    /// What must never be, and is: how often, over all runs.
    pub contradictions: Vec<Contradiction>,
}

impl Verified {
    /// How many of the runs that nothing wakes are named.
    pub const MOST: usize = 1000;

    /// Whether everything is as it has to be.
    pub fn is_fine(&self) -> bool {
        self.lacking == 0 && self.contradictions.is_empty()
    }

    fn add(&mut self, found: Contradiction) {
        match self.contradictions.iter_mut().find(|known| known.what == found.what) {
            Some(known) => known.times += found.times,
            None => self.contradictions.push(found),
        }
    }
}

impl Client {
    /// Why a run is not progressing: one reason, with what wakes the run. A run that has ended says so.
    ///
    /// The answer is of one moment, and reads only. [`Why`](crate::Why) says which reason counts where several hold.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use outlast::{Why, testing};
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<bool, Error> { ctx.event("approval").await }
    /// # let approve = Workflow::new("approve", approve);
    /// # let app = Outlast::open("sqlite::memory:").await?.workflow(approve.clone()).run().await?;
    /// let run = app.start(approve, ()).await?;
    /// # while app.status(run.id()).await?.status != Status::Waiting { tokio::task::yield_now().await; }
    /// let told = app.explain(run.id()).await?;
    /// assert!(matches!(told.why, Why::Waiting { .. }));
    /// assert!(told.why.to_string().starts_with("waiting for event approval"));
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub async fn explain(&self, run: impl Into<Target>) -> Result<Explained, Error> {
        let run = self.find(run).await?;
        let told = repeated(|| self.store().explain(run)).await?;
        told.ok_or_else(|| Error::UnknownRun { run: run.to_string() })
    }

    /// Looks at every unfinished run whether something wakes it: a time, a node's lease, an event, a promise, another run's
    /// end, or a person who is told why it stands still. Then looks at all runs whether the tables agree about them: each in
    /// line or ended and never both, entries in the order of their epochs, keys that name their runs, and so on. Reads only,
    /// in pages of one transaction each; runs that start or move meanwhile may be missed, but none is named that had something.
    pub async fn verify(&self) -> Result<Verified, Error> {
        let mut verified = Verified::default();
        let mut from = Some(VerifyMark::default());
        while let Some(mark) = from {
            let page = repeated(|| self.store().verify(mark, PAGE)).await?;
            for (source, count) in page.wakes {
                *verified.wakes.entry(source).or_default() += count;
                verified.runs += count;
            }
            let lacking = page.without.len() as u64;
            (verified.lacking, verified.runs) = (verified.lacking + lacking, verified.runs + lacking);
            let room = Verified::MOST.saturating_sub(verified.without.len());
            verified.without.extend(page.without.into_iter().take(room));
            page.contradictions.into_iter().for_each(|found| verified.add(found));
            from = page.next;
        }
        Ok(verified)
    }
}
