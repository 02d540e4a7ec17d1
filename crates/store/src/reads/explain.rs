//! Why a run is not progressing: gathers what [`Facts::why`] has to know.
//!
//! First the run's own rows and the nodes, which is all for most. What a suspended run waits for, and what its queue
//! says, is only asked where that decides. All of it is one snapshot, so that the reason held at one moment.

use std::collections::BTreeMap;

use outlast_core::{
    Admission, Candidate, Explained, Facts, Holder, Line, LiveNode, NodeId, QueueState, RunId, ShardCount,
    Stand, Status, Timestamp, Window,
};

use super::views::shown_status;
use super::waits::{Suspended, waits};
use crate::rows::{ReadRow, cells, ids};
use crate::transitions::{Flight, NOW, Place, home_of_queue, read_queue};
use crate::{Cell, Row, RunKind, Sql, StoreError, Tx, Type};

/// How many of the runs that hold slots are named.
const SAMPLE: u32 = 5;
/// The least urgent priority.
const LEAST_URGENT: u8 = 9;

/// Why a run is not progressing, if it exists.
pub(crate) async fn explain(
    tx: &mut dyn Tx,
    run: RunId,
    shards: ShardCount,
) -> Result<Option<Explained>, StoreError> {
    let mut flight = Flight::default();
    let now = flight.add(NOW.with([]));
    let found = flight.add(EXPLAIN_RUN.with(cells![run.shard(), run]));
    let nodes = flight.add(EXPLAIN_NODES.with(cells![run.shard()]));
    let mut answers = flight.send(tx).await?;
    let now = answers.take(now).first().map(|row| row.time(0)).transpose()?.unwrap_or_default();
    let explained = match answers.take(found).first() {
        Some(row) => Some(of_row(tx, row, &answers.take(nodes), now, shards).await?),
        None => None,
    };
    Flight::default().send_last(tx).await?;
    Ok(explained)
}

async fn of_row(
    tx: &mut dyn Tx,
    row: &Row,
    nodes: &[Row],
    now: Timestamp,
    shards: ShardCount,
) -> Result<Explained, StoreError> {
    let mut facts = facts(row, nodes, now)?;
    let asked_to_stop = row.opt_text(COLUMNS)?;
    let is_due = facts.stand.due_at.is_some_and(|due| due <= now);
    let is_free = facts.stand.holder.is_none() && facts.ended_at.is_none();
    if is_free && !is_due && facts.stand.status == Status::Waiting {
        let (run, due_at) = (facts.candidate.run, facts.stand.due_at);
        let suspended = Suspended { run, due_at, asked_to_stop: asked_to_stop.is_some() };
        facts.stand.waits = waits(tx, &[suspended], shards).await?.remove(&run).unwrap_or_default();
    }
    if is_free && is_due {
        facts.line = line(tx, &mut facts, nodes, shards).await?;
    }
    let (run, status) = (facts.candidate.run, facts.stand.status);
    Ok(Explained { run, status, why: facts.why(), asked_to_stop, now })
}

/// What the run's own rows say.
fn facts(row: &Row, nodes: &[Row], now: Timestamp) -> Result<Facts, StoreError> {
    let ended_at = row.opt_time(3)?;
    let status = match row.opt_int(2)? {
        Some(_) => row.status(2)?,
        // In neither table: nothing but its record is left.
        None if row.opt_int(1)?.is_none() => Status::Ready,
        None => row.status(1)?,
    };
    let due_at = row.opt_time(4)?;
    let holder = row.opt_node(5)?.map(|node| {
        Ok::<_, StoreError>(Holder {
            node,
            name: row.opt_text(6)?.unwrap_or_else(|| node.to_string()),
            lease_until: row.opt_time(7)?,
        })
    });
    let (code, queue) = (row.text(8)?, row.text(9)?);
    let candidate = Candidate {
        run: row.run(0)?,
        priority: row.number(10)?,
        due_at: due_at.unwrap_or_default(),
        group: row.opt_text(11)?,
        begins: row.kind(12)? == RunKind::Job || row.opt_int(13)?.unwrap_or_default() == 0,
    };
    let live = nodes.iter().map(|node| live(node, &code, &queue)).collect::<Result<Vec<_>, _>>()?;
    Ok(Facts {
        now,
        ended_at,
        stand: Stand {
            status,
            due_at,
            holder: holder.transpose()?,
            reason: row.opt_text(16)?,
            waits: Vec::new(),
        },
        code,
        candidate,
        created_at: row.time(17)?,
        attempt: row.opt_int(14)?.and_then(|n| n.try_into().ok()).unwrap_or(1),
        crashes: row.opt_int(15)?.and_then(|n| n.try_into().ok()).unwrap_or(0),
        nodes: live,
        queue,
        line: None,
    })
}

fn live(row: &Row, code: &str, queue: &str) -> Result<LiveNode, StoreError> {
    let [codes, queues] = [texts(row, 1)?, texts(row, 2)?];
    Ok(LiveNode {
        id: NodeId::from_uuid(row.id(0)?),
        knows: codes.iter().any(|known| known == code),
        // One that names no queue is of an older version, and may take from all.
        serves: queues.is_empty() || queues.iter().any(|served| served == queue),
        held: 0,
    })
}

fn texts(row: &Row, at: usize) -> Result<Vec<String>, StoreError> {
    Ok(serde_json::from_str(&row.text(at)?).unwrap_or_default())
}

/// What its queue says, if anybody said anything about it.
async fn line(
    tx: &mut dyn Tx,
    facts: &mut Facts,
    nodes: &[Row],
    shards: ShardCount,
) -> Result<Option<Line>, StoreError> {
    let (queue, group) = (facts.queue.clone(), facts.candidate.group.clone());
    let home = home_of_queue(&queue, shards);
    let mut flight = Flight::default();
    let found = flight.add(EXPLAIN_QUEUE.with(cells![home, &*queue]));
    let remembered = flight.add(EXPLAIN_GROUP.with(cells![home, &*queue, group.as_deref()]));
    let all = || 0..shards.max(1);
    let held: Vec<Place> =
        all().map(|shard| flight.add(EXPLAIN_HELD.with(cells![shard, &*queue, group.as_deref()]))).collect();
    let by: Vec<(Place, Place)> = all()
        .map(|shard| {
            let any = flight.add(EXPLAIN_HOLDERS.with(cells![shard, &*queue, Cell::Null, SAMPLE]));
            let same = cells![shard, &*queue, group.as_deref(), SAMPLE];
            (any, flight.add(EXPLAIN_HOLDERS.with(same)))
        })
        .collect();
    let mut answers = flight.send(tx).await?;

    let Some(row) = answers.take(found).pop() else { return Ok(None) };
    let card = read_queue(&row)?;
    let mut line = Line { state: card.state, since: card.since, ..Line::default() };
    line.admission = Admission { rules: card.rules, now: facts.now, want: 1, ..Admission::default() };
    line.admission.window = Window::parse(&row.text(5)?);
    for row in held.into_iter().flat_map(|place| answers.take(place)) {
        let (node, is_same, count): (_, _, u32) = (row.opt_node(0)?, row.int(1)? == 1, row.number(2)?);
        line.admission.held += count;
        if let (true, Some(group)) = (is_same, &group) {
            *line.admission.held_by_group.entry(group.clone()).or_default() += count;
        }
        for live in facts.nodes.iter_mut().filter(|live| Some(live.id) == node) {
            live.held += count;
        }
    }
    for (any, same) in by {
        for (rows, to) in [(answers.take(any), &mut line.by), (answers.take(same), &mut line.by_group)] {
            let runs = rows.iter().map(|row| row.run(0)).collect::<Result<Vec<_>, _>>()?;
            to.extend(runs);
            to.truncate(SAMPLE as usize);
        }
    }
    if let (Some(row), Some(group)) = (answers.take(remembered).pop(), &group) {
        line.admission.windows.insert(group.clone(), Window::parse(&row.text(1)?));
        if let Some(head) = row.opt_id(0)?.map(RunId::from_uuid) {
            line.admission.heads.insert(group.clone(), head);
        }
    }
    if line.admission.rules.ordered {
        order(tx, facts, &mut line, nodes, shards).await?;
    }
    Ok(Some(line))
}

/// Who of its group comes first: the one that has begun, unless it has ended; else the first in line that a node
/// would take.
async fn order(
    tx: &mut dyn Tx,
    facts: &Facts,
    line: &mut Line,
    nodes: &[Row],
    shards: ShardCount,
) -> Result<(), StoreError> {
    let Some(group) = facts.candidate.group.as_deref() else { return Ok(()) };
    let mut known = Vec::new();
    for node in nodes {
        let queues = texts(node, 2)?;
        if queues.is_empty() || queues.contains(&facts.queue) {
            known.extend(texts(node, 1)?);
        }
    }
    let since = line.since.filter(|_| line.state == QueueState::Draining);
    let started_by = since.map_or(i64::MAX, Timestamp::micros);
    let heads: BTreeMap<u16, RunId> =
        line.admission.heads.values().map(|head| (head.shard(), *head)).collect();

    let mut flight = Flight::default();
    let there: Vec<Place> = heads
        .iter()
        .map(|(shard, head)| flight.add(EXPLAIN_UNFINISHED.with(cells![*shard, ids([head])])))
        .collect();
    let mut firsts = Vec::new();
    for shard in 0..shards.max(1) {
        let priorities = (0..=LEAST_URGENT).map(|priority| cells![priority]).collect();
        let codes = Cell::Texts(known.clone());
        let asked = cells![shard, &*facts.queue, group, codes, started_by];
        firsts.extend(flight.each(&EXPLAIN_FIRST, priorities, asked));
    }
    let mut answers = flight.send(tx).await?;
    let unfinished: usize = there.into_iter().map(|place| answers.take(place).len()).sum();
    if unfinished == 0 {
        line.admission.heads.clear();
    }
    let mut first: Option<(u8, Timestamp, RunId)> = None;
    for row in firsts.into_iter().flat_map(|place| answers.take(place)) {
        let found = (row.number(1)?, row.time(2)?, row.run(0)?);
        first = Some(first.map_or(found, |first| first.min(found)));
    }
    line.first = first.map(|(.., run)| run);
    Ok(())
}

pub(super) static STATEMENTS: &[&Sql] = &[
    &EXPLAIN_RUN,
    &EXPLAIN_NODES,
    &EXPLAIN_QUEUE,
    &EXPLAIN_GROUP,
    &EXPLAIN_HELD,
    &EXPLAIN_HOLDERS,
    &EXPLAIN_UNFINISHED,
    &EXPLAIN_FIRST,
];

/// The columns of [`facts`]; behind them why somebody asked the run to stop.
const COLUMNS: usize = 18;

static EXPLAIN_RUN: Sql = Sql::new(
    "explain_run",
    concat!(
        "select r.id, ",
        shown_status!(),
        ", z.status, z.finished_at, a.due_at, a.node, n.name, n.lease_until,
            coalesce(a.code, r.definition || '@' || r.version), r.queue, r.priority, a.group_key, r.kind, a.epoch,
            a.attempt, a.crashes, a.reason, r.created_at, a.cancel_reason
       from outlast.runs as r
            left join outlast.agenda as a on a.shard = r.shard and a.id = r.id
            left join outlast.results as z on z.shard = r.shard and z.run = r.id
            left join outlast.members as n on n.shard = a.shard and n.id = a.node
      where r.shard = {p1} and r.id = {p2}"
    ),
)
.takes(&[Type::Int, Type::Id]);

static EXPLAIN_NODES: Sql = Sql::new(
    "explain_nodes",
    "select n.id, n.codes, n.queues from outlast.members as n where n.shard = {p1} and n.lease_until >= {now}",
)
.takes(&[Type::Int]);

static EXPLAIN_QUEUE: Sql = Sql::new(
    "explain_queue",
    "select q.name, q.rules, q.own_rules, q.state, q.since, q.used from outlast.queues as q
      where q.shard = {p1} and q.name = {p2}",
)
.takes(&[Type::Int, Type::Text]);

static EXPLAIN_GROUP: Sql = Sql::new(
    "explain_group",
    "select g.head, g.used from outlast.groups as g
      where g.shard = {p1} and g.queue = {p2} and g.name = {p3}",
)
.takes(&[Type::Int, Type::Text, Type::Text]);

static EXPLAIN_HELD: Sql = Sql::new(
    "explain_held",
    "select h.node, h.same, count(*)
       from (select a.node, case when a.group_key = {p3} then 1 else 0 end as same from outlast.agenda as a
              where a.shard = {p1} and a.node is not null and a.queue = {p2}) as h
      group by h.node, h.same",
)
.takes(&[Type::Int, Type::Text, Type::Text])
.by("agenda_node");

static EXPLAIN_HOLDERS: Sql = Sql::new(
    "explain_holders",
    "select a.id from outlast.agenda as a
      where a.shard = {p1} and a.node is not null and a.queue = {p2} and ({p3} is null or a.group_key = {p3})
      limit {p4}",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Int])
.by("agenda_node");

static EXPLAIN_UNFINISHED: Sql = Sql::new(
    "explain_unfinished",
    "select a.id from outlast.agenda as a where a.shard = {p1} and a.id {in:p2}",
)
.takes(&[Type::Int, Type::Ids]);

static EXPLAIN_FIRST: Sql = Sql::new(
    "explain_first",
    "select c.* from {batch} cross join lateral (
         select a.id, a.priority, a.due_at from outlast.agenda as a
          where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority and a.group_key = {p3}
            and a.due_at <= {now} and a.code {in:p4} and ({p5} = 9223372036854775807
               or (select r.created_at from outlast.runs as r where r.shard = {p1} and r.id = a.id) <= {p5})
          order by a.due_at, a.id limit 1) as c",
)
.on_sqlite(
    "select a.id, a.priority, a.due_at from outlast.agenda as a indexed by outlast_agenda_groups
      where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority} and a.group_key = {p3}
        and a.due_at <= {now} and a.code {in:p4} and ({p5} = 9223372036854775807
           or (select r.created_at from outlast.runs as r where r.shard = {p1} and r.id = a.id) <= {p5})
      order by a.due_at, a.id limit 1",
)
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Text, Type::Texts, Type::Int])
.by("agenda_groups");
