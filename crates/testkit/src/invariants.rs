//! What is true of every database after every transaction, looked at behind the seam.

use outlast_core::{RunId, Status};
use outlast_store::Value;
use uuid::Uuid;

use crate::World;

/// What must never be, and the SQL that counts how often it is.
const NEVER: &[(&str, &str)] = &[
    (
        "a run is not in exactly one of agenda and results",
        "select count(*) from outlast.runs as r
          where (select count(*) from outlast.agenda as a where a.shard = r.shard and a.id = r.id)
              + (select count(*) from outlast.results as z where z.shard = r.shard and z.run = r.id) <> 1",
    ),
    (
        "a run in the agenda has no record",
        "select count(*) from outlast.agenda as a
          where not exists (select 1 from outlast.runs as r where r.shard = a.shard and r.id = a.id)",
    ),
    (
        "a result has no record",
        "select count(*) from outlast.results as z
          where not exists (select 1 from outlast.runs as r where r.shard = z.shard and r.id = z.run)",
    ),
    (
        "a final status stands in the agenda, or another in the results",
        "select (select count(*) from outlast.agenda where status >= {completed})
              + (select count(*) from outlast.results where status < {completed})",
    ),
    (
        "a ready run is not due at any time, or is held",
        "select count(*) from outlast.agenda
          where status = {ready} and (due_at is null or node is not null or claim is not null)",
    ),
    (
        "a running run is held by nobody, or is due",
        "select count(*) from outlast.agenda
          where status = {running} and (node is null or claim is null or due_at is not null or epoch < 1)",
    ),
    (
        "a run is held that does not run",
        "select count(*) from outlast.agenda where node is not null and status <> {running}",
    ),
    (
        "a blocked run does not say why, or is due",
        "select count(*) from outlast.agenda where status = {blocked} and (reason is null or due_at is not null)",
    ),
    (
        "a paused run does not say why, or is due",
        "select count(*) from outlast.agenda where status = {paused} and (reason is null or due_at is not null)",
    ),
    (
        "a run has a reason and does not stand still",
        "select count(*) from outlast.agenda
          where status not in ({blocked}, {paused}, {undo_failed}) and reason is not null",
    ),
    (
        "a run is to pause that nobody holds",
        "select count(*) from outlast.agenda where pause_asked is not null and node is null",
    ),
    (
        "a run that is not paused knows when it would be resumed",
        "select count(*) from outlast.agenda where resume_at is not null and status <> {paused}",
    ),
    (
        "a run that was asked to stop never got the request, and still waits",
        "select count(*) from outlast.agenda where status = {waiting} and cancel_reason is not null and news = 0",
    ),
    (
        "a held run's node has no row",
        "select count(*) from outlast.agenda as a where a.node is not null
            and not exists (select 1 from outlast.nodes as n where n.shard = a.shard and n.id = a.node)",
    ),
    (
        "an ended run has unread news that nobody could want",
        "select count(*) from outlast.inbox as i join outlast.results as z on z.shard = i.shard and z.run = i.run
          where z.status = {completed} or i.kind > 3",
    ),
    (
        "news lie in nobody's inbox",
        "select count(*) from outlast.inbox as i
          where not exists (select 1 from outlast.agenda as a where a.shard = i.shard and a.id = i.run)
            and not exists (select 1 from outlast.results as z where z.shard = i.shard and z.run = i.run)
            and not exists (select 1 from outlast.keys as k
                             where k.shard = i.shard and k.run = i.run and k.started = 0)",
    ),
    (
        "news have a greater number than the run's last",
        "select count(*) from outlast.inbox as i join outlast.agenda as a on a.shard = i.shard and a.id = i.run
          where i.seq > a.news",
    ),
    (
        "somebody listens to a run that is not in the agenda",
        "select count(*) from outlast.listeners as l
          where not exists (select 1 from outlast.agenda as a where a.shard = l.shard and a.id = l.run)",
    ),
    (
        "somebody listens to a run whose row does not say so",
        "select count(*) from outlast.listeners as l
              join outlast.agenda as a on a.shard = l.shard and a.id = l.run where a.heard = 0",
    ),
    (
        "a step is being done of a run that is not in the agenda",
        "select count(*) from outlast.doing as d
          where not exists (select 1 from outlast.agenda as a where a.shard = d.shard and a.id = d.run)",
    ),
    (
        "an entry was written with an older epoch than the one before it",
        "select count(*) from (
             select j.epoch, lag(j.epoch) over (partition by j.shard, j.run order by j.pos) as before
               from outlast.journal as j) as e
          where e.before > e.epoch",
    ),
    (
        "an entry has a greater epoch than its run",
        "select count(*) from outlast.journal as j
          where j.epoch > coalesce(
                (select a.epoch from outlast.agenda as a where a.shard = j.shard and a.id = j.run),
                (select z.epoch from outlast.results as z where z.shard = j.shard and z.run = j.run), 0)",
    ),
    (
        "a started key names no run of that key",
        "select count(*) from outlast.keys as k where k.started = 1
            and not exists (select 1 from outlast.runs as r where r.shard = k.shard and r.id = k.run
                               and r.tenant = k.tenant and r.definition = k.definition and r.key = k.key)",
    ),
    (
        "a run's key does not name it",
        "select count(*) from outlast.runs as r where r.key is not null
            and not exists (select 1 from outlast.keys as k where k.shard = r.shard and k.run = r.id
                               and k.tenant = r.tenant and k.definition = r.definition and k.key = r.key
                               and k.started = 1)",
    ),
    (
        "logs or tags belong to no run",
        "select (select count(*) from outlast.logs as l
                  where not exists (select 1 from outlast.runs as r where r.shard = l.shard and r.id = l.run))
              + (select count(*) from outlast.tags as t
                  where not exists (select 1 from outlast.runs as r where r.shard = t.shard and r.id = t.run))",
    ),
    (
        "a promise was settled of no run and no key",
        "select count(*) from outlast.promises as p
          where not exists (select 1 from outlast.runs as r where r.shard = p.shard and r.id = p.run)
            and not exists (select 1 from outlast.keys as k where k.shard = p.shard and k.run = p.run)",
    ),
    (
        "a value has no bytes or no version",
        "select count(*) from outlast.kv
          where version < 1 or updated_at > version or (value is null and coalesce(expires_at, 1) <> 0)",
    ),
];

/// What must never be, and the SQL that counts how often it is. Tables are called `outlast.name`.
pub fn never() -> impl Iterator<Item = (&'static str, String)> {
    NEVER.iter().map(|(never, sql)| {
        let mut sql = (*sql).to_owned();
        for status in Status::ALL {
            sql = sql.replace(&format!("{{{status}}}"), &status.code().to_string());
        }
        (*never, sql)
    })
}

/// How many runs are looked at one by one.
const SAMPLE: u32 = 2_000;

impl World {
    /// Looks whether the database contradicts itself.
    ///
    /// # Panics
    ///
    /// When it does, with everything that is wrong.
    pub async fn invariants(&self) {
        let mut wrong = Vec::new();
        for (never, sql) in never() {
            let found = self.count(&sql).await;
            if found > 0 {
                wrong.push(format!("{never} ({found} times)"));
            }
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
