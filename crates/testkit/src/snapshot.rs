//! Everything that a database holds, to compare before and after.

use std::collections::BTreeMap;

use outlast_store::{Value, ValueRow};

use crate::{StoreKind, World};

/// Our tables, each with the columns that a snapshot compares. Two are left out, because a repeated call
/// may move them: until when a lease holds, and when a definition was recorded.
pub const TABLES: [(&str, &str); 38] = [
    ("agenda", "*"),
    ("audit", "*"),
    ("audit_chain", "*"),
    ("definitions", "shard, name, version, kind, active, signature, queue, priority, options"),
    ("deliveries", "*"),
    ("depths", "*"),
    ("doing", "*"),
    ("failure_minutes", "*"),
    ("failure_versions", "*"),
    ("failures", "*"),
    ("groups", "*"),
    ("inbox", "*"),
    ("journal", "*"),
    ("keys", "*"),
    ("kv", "*"),
    ("kv_writes", "*"),
    ("leases", "shard, node"),
    ("listeners", "*"),
    ("logs", "*"),
    ("lost", "*"),
    ("meta", "*"),
    ("migrations", "*"),
    ("nodes", "shard, id, name, host, pid, codes, joined_at, queues"),
    ("orphans", "*"),
    ("promises", "*"),
    ("queues", "*"),
    ("replies", "*"),
    ("results", "*"),
    ("rolled", "*"),
    ("rollup_times", "*"),
    ("rollup_waits", "*"),
    ("rollups", "*"),
    ("runs", "*"),
    ("schedules", "*"),
    ("sessions", "*"),
    ("tags", "*"),
    ("tokens", "*"),
    ("uniques", "*"),
];

/// All rows of all tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot(BTreeMap<String, Vec<String>>);

impl Snapshot {
    /// The rows of one table.
    pub fn rows(&self, table: &str) -> &[String] {
        &self.0[table]
    }

    /// Without some of the tables.
    pub fn without(mut self, tables: &[&str]) -> Snapshot {
        self.0.retain(|table, _| !tables.contains(&table.as_str()));
        self
    }
}

impl World {
    /// What the database holds.
    pub async fn snapshot(&self) -> Snapshot {
        let mut tables = BTreeMap::new();
        for (table, columns) in TABLES {
            let rows = self.raw(&format!("select {columns} from outlast.{table}")).await;
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            tables.insert(table.to_owned(), rows);
        }
        Snapshot(tables)
    }

    /// The names of the tables that the database has.
    pub async fn tables(&self) -> Vec<String> {
        let sql = match self.kind() {
            StoreKind::Sqlite => {
                "select substr(name, 9) from sqlite_master where type = 'table' and name like 'outlast%' order by 1"
            }
            StoreKind::Postgres => {
                "select tablename::text from pg_tables where schemaname = 'outlast' order by 1"
            }
        };
        let name = |row: &ValueRow| match &row[0] {
            Value::Text(name) => name.clone(),
            other => panic!("a table is called {other:?}"),
        };
        self.raw(sql).await.iter().map(name).collect()
    }
}
