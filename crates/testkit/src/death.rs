//! The death of a process at one of its writes: the database never hears of it, or the process hears no answer.
//!
//! A process that died asks nothing more and hears nothing: its calls hang until it is buried, which is when nobody is
//! left who could act on an answer.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::{Entry, NodeId, RunId};
use outlast_store::{
    Committed, Control, Controlled, Delivered, Delivery, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten,
    NewRun, Started, StoreError, TurnEnd, UserTx, Value, ValueRow,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Where a process dies, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// This write never reaches the database.
    Before(u32),
    /// This write happens, and the process does not hear so. Claims that found something and sweeps that freed
    /// something are writes here too: what comes before them is what comes after the write before.
    After(u32),
}

/// The life of one process, as its way to the database sees it.
#[derive(Debug, Default)]
pub(crate) struct Life {
    counts: Mutex<Counts>,
    stage: watch::Sender<Stage>,
    /// How many calls have gone to the database and are not answered.
    under_way: watch::Sender<u32>,
}

/// A call that has gone to the database, until it is answered.
pub(crate) struct Sent<'l>(&'l Life);

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|calls| *calls -= 1);
    }
}

#[derive(Debug, Default)]
struct Counts {
    death: Option<Death>,
    begun: u32,
    done: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    #[default]
    Alive,
    Dead,
    Buried,
}

impl Life {
    pub(crate) fn end_at(&self, death: Death) {
        self.counts.lock().death = Some(death);
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.stage.borrow() != Stage::Alive
    }

    /// Waits for the death.
    pub(crate) async fn over(&self) {
        let _ = self.stage.subscribe().wait_for(|stage| *stage >= Stage::Dead).await;
    }

    /// Waits for the death, and until what was sent before it has arrived.
    pub(crate) async fn settled(&self) {
        self.over().await;
        let _ = self.under_way.subscribe().wait_for(|calls| *calls == 0).await;
    }

    /// Lets the calls of the dead go: nobody hears what they say.
    pub(crate) fn bury(&self) {
        self.stage.send_replace(Stage::Buried);
    }

    /// Sends a call to the database if the process lives.
    pub(crate) async fn sends(&self) -> Result<Sent<'_>, StoreError> {
        loop {
            self.goes_on().await?;
            // Deaths are counted here: nothing is sent after one that is not known to be under way.
            let _counts = self.counts.lock();
            if !self.is_over() {
                self.under_way.send_modify(|calls| *calls += 1);
                return Ok(Sent(self));
            }
        }
    }

    /// Goes on if the process lives.
    async fn goes_on(&self) -> Result<(), StoreError> {
        if !self.is_over() {
            return Ok(());
        }
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Buried).await;
        Err(StoreError::Unavailable("this process is dead".into()))
    }

    /// A write is about to begin.
    pub(crate) async fn begins_write(&self) -> Result<(), StoreError> {
        self.count(|counts| {
            counts.begun += 1;
            Death::Before(counts.begun)
        });
        self.goes_on().await
    }

    /// A call is through; `wrote` when it changed something.
    pub(crate) async fn ends(&self, wrote: bool) -> Result<(), StoreError> {
        if wrote {
            self.count(|counts| {
                counts.done += 1;
                Death::After(counts.done)
            });
        }
        self.goes_on().await
    }

    /// Counts, and dies where that was told.
    fn count(&self, one_more: impl FnOnce(&mut Counts) -> Death) {
        let mut counts = self.counts.lock();
        let here = one_more(&mut counts);
        if counts.death == Some(here) && !self.is_over() {
            self.stage.send_replace(Stage::Dead);
        }
    }
}

/// A transaction of the user's that ends with its process.
pub(crate) struct MortalTx {
    pub(crate) tx: Box<dyn UserTx>,
    pub(crate) life: Arc<Life>,
}

#[async_trait]
impl UserTx for MortalTx {
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.execute(sql, params).await
    }

    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<ValueRow>, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.query(sql, params).await
    }

    async fn start(&mut self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.start(runs).await
    }

    async fn deliver(&mut self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.deliver(messages).await
    }

    async fn control(&mut self, control: &Control) -> Result<Controlled, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.control(control).await
    }

    async fn kv_write(&mut self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.kv_write(writes).await
    }

    async fn kv_get(&mut self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.kv_get(name).await
    }

    async fn kv_list(&mut self, ask: &KvList) -> Result<KvPage, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.kv_list(ask).await
    }

    async fn record(
        &mut self,
        node: NodeId,
        run: RunId,
        epoch: i64,
        entry: &Entry,
    ) -> Result<Committed, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.record(node, run, epoch, entry).await
    }

    async fn end(&mut self, turn: &TurnEnd) -> Result<Committed, StoreError> {
        let _sent = self.life.sends().await?;
        self.tx.end(turn).await
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let MortalTx { tx, life } = *self;
        life.begins_write().await?;
        let sent = life.sends().await?;
        let answer = tx.commit().await;
        drop(sent);
        life.ends(answer.is_ok()).await?;
        answer
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        let MortalTx { tx, life } = *self;
        let _sent = life.sends().await?;
        tx.rollback().await
    }
}
