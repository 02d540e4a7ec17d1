//! What is only looked at: each a read of whichever database the URL named.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::{Entry, Explained, RunId, Status, Timestamp, Wait};

use super::{Database, SqlStore, boxed};
use crate::transitions;
use crate::{
    Address, AuditList, AuditView, ChainList, ChainPage, Cursor, DefinitionCard, Definitions, DepthAsk,
    DepthPoint, Ended, FailureAsk, FailureGroup, Filter, GroupView, KvEntry, KvList, KvName, KvPage, Lines,
    Loaded, LogLine, LogPlace, LostNode, News, NodeView, Page, QueueCard, QueueView, Reads, RunView,
    ScheduleView, SeriesAsk, SeriesPoint, SessionView, Store, StoreError, TableSize, TokenView, TxKind,
    Upkeep, VerifyMark, VerifyPage, Vitals, reads,
};

#[async_trait]
impl Reads for SqlStore {
    async fn load(&self, runs: &[RunId]) -> Result<Vec<Loaded>, StoreError> {
        let runs = Arc::<[RunId]>::from(runs);
        self.transact(TxKind::Read, work!(|tx, runs| reads::load(tx, &runs))).await
    }

    async fn journal(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::journal(tx, run, after, limit))).await
    }

    async fn inbox(&self, runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError> {
        let runs = Arc::<[(RunId, i64)]>::from(runs);
        self.transact(TxKind::Read, work!(|tx, runs| reads::inbox(tx, &runs))).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::run(tx, run))).await
    }

    async fn find(&self, address: &Address) -> Result<Option<RunId>, StoreError> {
        let (address, shards) = (Arc::new(address.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, address| reads::find(tx, &address, shards))).await
    }

    async fn list(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        let (filter, shards) = (Arc::new(filter.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, filter| reads::list(tx, &filter, after, limit, shards))).await
    }

    async fn count(&self, filter: &Filter, cap: u32) -> Result<u64, StoreError> {
        let (filter, shards) = (Arc::new(filter.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, filter| reads::count(tx, &filter, cap, shards))).await
    }

    async fn ended(&self, runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError> {
        let runs = Arc::<[RunId]>::from(runs);
        self.transact(TxKind::Read, work!(|tx, runs| reads::ended(tx, &runs))).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::next_due(tx, shards))).await
    }

    async fn lines(&self, queues: &[String]) -> Result<Lines, StoreError> {
        let (queues, shards, memory) = (Arc::<[String]>::from(queues), self.shards(), self.lines.clone());
        self.transact(
            TxKind::Read,
            work!(|tx, queues, memory| transitions::lines(tx, &queues, shards, &memory)),
        )
        .await
    }

    async fn logs(&self, run: RunId, after: LogPlace, limit: u32) -> Result<Vec<LogLine>, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::logs(tx, run, after, limit))).await
    }

    async fn log_end(&self, run: RunId) -> Result<LogPlace, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::log_end(tx, run))).await
    }

    async fn kv_get(&self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        let (name, shards) = (Arc::new(name.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, name| reads::kv_get(tx, &name, shards))).await
    }

    async fn kv_list(&self, ask: &KvList) -> Result<KvPage, StoreError> {
        let (ask, shards) = (Arc::new(ask.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, ask| reads::kv_list(tx, &ask, shards))).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::nodes(tx, shards))).await
    }

    async fn lost_nodes(&self) -> Result<Vec<LostNode>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::lost(tx, shards))).await
    }

    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::definitions(tx))).await
    }

    async fn queues(&self) -> Result<Vec<QueueCard>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::queues(tx, shards))).await
    }

    async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::queue_views(tx, shards))).await
    }

    async fn queue_groups(&self, queue: &str, limit: u32) -> Result<Vec<GroupView>, StoreError> {
        let (queue, shards) = (Arc::<str>::from(queue), self.shards());
        self.transact(TxKind::Read, work!(|tx, queue| reads::queue_groups(tx, &queue, limit, shards))).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleView>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::schedules(tx, shards))).await
    }

    async fn schedules_due(
        &self,
        skip: u32,
        limit: u32,
    ) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::schedules_due(tx, skip, limit, shards))).await
    }

    async fn explain(&self, run: RunId) -> Result<Option<Explained>, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::explain(tx, run, shards))).await
    }

    async fn verify(&self, from: VerifyMark, limit: u32) -> Result<VerifyPage, StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Read, work!(|tx| reads::verify(tx, from, limit, shards))).await
    }

    async fn series(&self, ask: &SeriesAsk) -> Result<Vec<SeriesPoint>, StoreError> {
        let (ask, shards) = (Arc::new(ask.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, ask| reads::series(tx, &ask, shards))).await
    }

    async fn failures(&self, ask: &FailureAsk) -> Result<Vec<FailureGroup>, StoreError> {
        let (ask, shards) = (Arc::new(ask.clone()), self.shards());
        self.transact(TxKind::Read, work!(|tx, ask| reads::failures(tx, &ask, shards))).await
    }

    async fn depths(&self, ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError> {
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Read, work!(|tx, ask| reads::depths(tx, &ask))).await
    }

    async fn session(&self, hash: &[u8]) -> Result<Option<SessionView>, StoreError> {
        let hash = Arc::<[u8]>::from(hash);
        self.transact(TxKind::Read, work!(|tx, hash| reads::session(tx, &hash))).await
    }

    async fn token(&self, hash: &[u8]) -> Result<Option<TokenView>, StoreError> {
        let hash = Arc::<[u8]>::from(hash);
        self.transact(TxKind::Read, work!(|tx, hash| reads::token(tx, &hash))).await
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::tokens(tx))).await
    }

    async fn audit(&self, ask: &AuditList) -> Result<Vec<AuditView>, StoreError> {
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Read, work!(|tx, ask| reads::audit(tx, &ask))).await
    }

    async fn audit_chain(&self, ask: ChainList) -> Result<ChainPage, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::audit_chain(tx, ask))).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        // Somebody may be about to take over what a lease that is just over leaves.
        let since = self.now().await?.micros() - 60_000_000;
        match &self.database {
            Database::Sqlite(database) => database.vitals(since).await,
            Database::Postgres(database) => database.vitals(since).await,
        }
    }

    async fn waited_for(&self, runs: &[RunView]) -> Result<HashMap<RunId, Wait>, StoreError> {
        if runs.iter().all(|view| view.status != Status::Waiting) {
            return Ok(HashMap::new());
        }
        let (runs, shards) = (Arc::<[RunView]>::from(runs), self.shards());
        self.transact(TxKind::Read, work!(|tx, runs| reads::waited_for(tx, &runs, shards))).await
    }

    async fn upkeep(&self) -> Result<Upkeep, StoreError> {
        let shards = self.shards();
        let upkeep = self.transact(TxKind::Read, work!(|tx| reads::upkeep(tx, shards))).await?;
        let refused = match &self.database {
            Database::Sqlite(database) => database.refused_writes.are_recent(),
            Database::Postgres(database) => database.refused_writes.are_recent(),
        };
        Ok(Upkeep { takes_writes: !refused, ..upkeep })
    }

    async fn oldest_ended(&self, status: Status, of: &Definitions) -> Result<Option<Timestamp>, StoreError> {
        let (of, shards) = (of.clone(), self.shards());
        self.transact(TxKind::Read, work!(|tx, of| reads::oldest_ended(tx, status, &of, shards))).await
    }

    async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        match &self.database {
            Database::Sqlite(database) => database.table_sizes().await,
            Database::Postgres(database) => database.table_sizes().await,
        }
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.transact(TxKind::Read, work!(|tx| reads::now(tx))).await
    }
}
