//! What must never be, whatever happened: rows that contradict each other, counted run by run.
//!
//! Each of these is false after every transaction of ours, so one snapshot that shows it proves that something went
//! wrong: a fault that got past us, or somebody's hand. Tests look after every story, the simulator after every
//! schedule, the chaos command after every fault, and `outlast verify` whenever a person asks.

use outlast_core::Status;
use uuid::Uuid;

use crate::rows::cells;
use crate::transitions::Flight;
use crate::{Cell, Contradiction, Sql, StoreError, Tx, Type};

/// Counts the contradictions about runs behind `after`, up to `upto`, and of what belongs to no run once for each shard.
pub(super) async fn contradictions(
    tx: &mut dyn Tx,
    shard: u16,
    after: Uuid,
    upto: Uuid,
) -> Result<Vec<Contradiction>, StoreError> {
    let is_first = i64::from(after.is_nil());
    let mut flight = Flight::default();
    let found = flight.add(CONTRADICTIONS.with([cells![shard, after, upto, is_first], statuses()].concat()));
    let rows = flight.send(tx).await?.take(found);
    let mut contradictions = Vec::new();
    for row in &rows {
        for (place, what) in NEVER.iter().enumerate() {
            let times = row.int(place)?.unsigned_abs();
            if times > 0 {
                contradictions.push(Contradiction { what, times });
            }
        }
    }
    Ok(contradictions)
}

/// The statuses that the text names, in the order of its parameters.
fn statuses() -> Vec<Cell> {
    cells![
        Status::Ready,
        Status::Running,
        Status::Waiting,
        Status::Blocked,
        Status::Paused,
        Status::UndoFailed,
        Status::Completed
    ]
}

pub(super) static STATEMENTS: &[&Sql] = &[&CONTRADICTIONS];

static CONTRADICTIONS: Sql = Sql::new("contradictions", COUNTS).takes(&[
    Type::Int,
    Type::Id,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Int,
]);

/// Sentences, and how often each is true: the names of all, and one statement with a column for each.
macro_rules! never {
    ($first:literal => $count:literal, $($what:literal => $counts:literal,)+) => {
        const NEVER: &[&str] = &[$first, $($what),+];
        const COUNTS: &str = concat!("select (", $count, ")", $(", (", $counts, ")"),+);
    };
}

// {p1} is the shard; {p2} and {p3} are the runs between which it looks; {p4} is 1 at the first of them; then come
// ready {p5}, running {p6}, waiting {p7}, blocked {p8}, paused {p9}, undo failed {p10} and completed {p11}.
never! {
    "a run is not in exactly one of agenda and results" =>
        "select count(*) from outlast.runs as r where r.shard = {p1} and r.id > {p2} and r.id <= {p3}
            and (select count(*) from outlast.agenda as a where a.shard = {p1} and a.id = r.id)
              + (select count(*) from outlast.results as z where z.shard = {p1} and z.run = r.id) <> 1",
    "a run in the agenda has no record" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = a.id)",
    "a result has no record" =>
        "select count(*) from outlast.results as z where z.shard = {p1} and z.run > {p2} and z.run <= {p3}
            and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = z.run)",
    "a final status stands in the agenda, or another in the results" =>
        "select (select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3} and a.status >= {p11})
               + (select count(*) from outlast.results as z where z.shard = {p1} and z.run > {p2} and z.run <= {p3} and z.status < {p11})",
    "a ready run is not due at any time, or is held" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status = {p5} and (a.due_at is null or a.node is not null or a.claim is not null)",
    "a running run is held by nobody, or is due" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status = {p6} and (a.node is null or a.claim is null or a.due_at is not null or a.epoch < 1)",
    "a run is held that does not run" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.node is not null and a.status <> {p6}",
    "a blocked run does not say why, or is due" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status = {p8} and (a.reason is null or a.due_at is not null)",
    "a paused run does not say why, or is due" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status = {p9} and (a.reason is null or a.due_at is not null)",
    "a run has a reason and does not stand still" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status not in ({p8}, {p9}, {p10}) and a.reason is not null",
    "a run is to pause that nobody holds" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.pause_asked is not null and a.node is null",
    "a run that is not paused knows when it would be resumed" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.resume_at is not null and a.status <> {p9}",
    "a run that was asked to stop never got the request, and still waits" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.status = {p7} and a.cancel_reason is not null and a.news = 0",
    "a held run's node has no row" =>
        "select count(*) from outlast.agenda as a where a.shard = {p1} and a.id > {p2} and a.id <= {p3}
            and a.node is not null and not exists (select 1 from outlast.nodes as n where n.shard = {p1} and n.id = a.node)",
    "an ended run has unread news that nobody could want" =>
        "select count(*) from outlast.inbox as i join outlast.results as z on z.shard = i.shard and z.run = i.run
          where i.shard = {p1} and i.run > {p2} and i.run <= {p3} and (z.status = {p11} or i.kind > 3)",
    "news lie in nobody's inbox" =>
        "select count(*) from outlast.inbox as i where i.shard = {p1} and i.run > {p2} and i.run <= {p3}
            and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = i.run)
            and not exists (select 1 from outlast.results as z where z.shard = {p1} and z.run = i.run)
            and not exists (select 1 from outlast.keys as k where k.shard = {p1} and k.run = i.run and k.started = 0)",
    "news have a greater number than the run's last" =>
        "select count(*) from outlast.inbox as i join outlast.agenda as a on a.shard = i.shard and a.id = i.run
          where i.shard = {p1} and i.run > {p2} and i.run <= {p3} and i.seq > a.news",
    "somebody listens to a run that is not in the agenda" =>
        "select count(*) from outlast.listeners as l where l.shard = {p1} and l.run > {p2} and l.run <= {p3}
            and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = l.run)",
    "somebody listens to a run whose row does not say so" =>
        "select count(*) from outlast.listeners as l join outlast.agenda as a on a.shard = l.shard and a.id = l.run
          where l.shard = {p1} and l.run > {p2} and l.run <= {p3} and a.heard = 0",
    "a step is being done of a run that is not in the agenda" =>
        "select count(*) from outlast.doing as d where d.shard = {p1} and d.run > {p2} and d.run <= {p3}
            and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.id = d.run)",
    "an entry was written with an older epoch than the one before it" =>
        "select count(*) from outlast.journal as j where j.shard = {p1} and j.run > {p2} and j.run <= {p3}
            and j.epoch < (select b.epoch from outlast.journal as b
                            where b.shard = {p1} and b.run = j.run and b.pos < j.pos order by b.pos desc limit 1)",
    "an entry has a greater epoch than its run" =>
        "select count(*) from outlast.journal as j where j.shard = {p1} and j.run > {p2} and j.run <= {p3}
            and j.epoch > coalesce(
                (select a.epoch from outlast.agenda as a where a.shard = {p1} and a.id = j.run),
                (select z.epoch from outlast.results as z where z.shard = {p1} and z.run = j.run), 0)",
    "a started key names no run of that key" =>
        "select count(*) from outlast.keys as k where k.shard = {p1} and k.run > {p2} and k.run <= {p3} and k.started = 1
            and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = k.run
                               and r.tenant = k.tenant and r.definition = k.definition and r.key = k.key)",
    "a run's key does not name it" =>
        "select count(*) from outlast.runs as r where r.shard = {p1} and r.id > {p2} and r.id <= {p3} and r.key is not null
            and not exists (select 1 from outlast.keys as k where k.shard = {p1} and k.run = r.id and k.started = 1
                               and k.tenant = r.tenant and k.definition = r.definition and k.key = r.key)",
    "logs or tags belong to no run" =>
        "select (select count(*) from outlast.logs as l where l.shard = {p1} and l.run > {p2} and l.run <= {p3}
                    and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = l.run))
               + (select count(*) from outlast.tags as t where t.shard = {p1} and t.run > {p2} and t.run <= {p3}
                    and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = t.run))",
    "a promise was settled of no run and no key" =>
        "select count(*) from outlast.promises as p where p.shard = {p1} and p.run > {p2} and p.run <= {p3}
            and not exists (select 1 from outlast.runs as r where r.shard = {p1} and r.id = p.run)
            and not exists (select 1 from outlast.keys as k where k.shard = {p1} and k.run = p.run)",
    "a value has no bytes or no version" =>
        "select count(*) from outlast.kv as v where v.shard = {p1} and {p4} = 1
            and (v.version < 1 or v.updated_at > v.version or (v.value is null and coalesce(v.expires_at, 1) <> 0))",
}
