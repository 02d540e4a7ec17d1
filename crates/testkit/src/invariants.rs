//! What is true of every database after every transaction.

use outlast_core::RunId;
use outlast_store::{Value, VerifyMark};
use uuid::Uuid;

use crate::World;

/// How many runs are looked at, one by one or at once.
const SAMPLE: u32 = 2_000;

impl World {
    /// Looks whether the database contradicts itself.
    ///
    /// # Panics
    ///
    /// When it does, with everything that is wrong.
    pub async fn invariants(&self) {
        let mut wrong = Vec::new();
        let mut from = Some(VerifyMark::default());
        while let Some(mark) = from {
            let page = self.store().verify(mark, SAMPLE).await.expect("a database can be looked at");
            wrong.extend(
                page.contradictions.iter().map(|found| format!("{} ({} times)", found.what, found.times)),
            );
            from = page.next;
        }
        for row in self.raw(&format!("select shard, id from outlast.runs limit {SAMPLE}")).await {
            let run = match &row[1] {
                Value::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
                Value::Text(text) => text.parse().ok(),
                _ => None,
            };
            let shard = run.map(|run| i64::from(RunId::from_uuid(run).shard()));
            if shard.map(Value::Int).as_ref() != Some(&row[0]) {
                wrong.push(format!("a run is not in the shard that its id says: {row:?}"));
            }
        }
        assert!(wrong.is_empty(), "the database contradicts itself:\n  {}", wrong.join("\n  "));
    }
}
