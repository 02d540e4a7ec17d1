//! What clients and people look at: one run, its end, nodes and definitions.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{Entry, NodeId, Op, Phase, RunId, ShardCount, Status, Timestamp};

use super::turns::DOING;
use crate::rows::{self, RUN_COLUMNS, ReadRow, cells, ids, micros, run_columns};
use crate::sql::look_each;
use crate::transitions::{
    Flight, KeyName, LOST_FOR, NOW, Place, add_definitions, add_look, found_definitions, found_keys,
};
use crate::{
    Address, DefinitionCard, Doing, Ended, LostNode, NodeView, Row, RunKind, RunView, Sql, StoreError, Tx,
    Type, code,
};

/// One run.
pub(crate) async fn run(tx: &mut dyn Tx, run: RunId) -> Result<Option<RunView>, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(VIEW.with(cells![run.shard(), run]));
    let rows = flight.send(tx).await?.take(place);
    Ok(with_details(tx, rows.iter().filter_map(|row| view(row).transpose())).await?.pop())
}

/// Where an unfinished run stands, as people see it.
macro_rules! shown_status {
    () => {
        "case when a.undoing = 1 and a.status <= 3 then 6 else a.status end"
    };
}
pub(super) use shown_status;

/// The columns of [`view`] behind those of the record.
macro_rules! view_columns {
    () => {
        concat!(
            ", ",
            shown_status!(),
            ", a.due_at, a.node, a.epoch, a.attempt, a.reason, a.cancel_reason, a.expires_at,
             z.status, z.codec, z.output, z.error, z.finished_at, z.epoch, a.group_key, a.pause_asked,
             coalesce(z.began_at, a.began_at), r.wanted_at "
        )
    };
}
pub(super) use view_columns;

/// A run from `run_columns!` and `view_columns!`, without tags and steps in progress; `None` for one
/// that is neither in line nor ended, which no transaction leaves behind.
pub(super) fn view(row: &Row) -> Result<Option<RunView>, StoreError> {
    const AGENDA: usize = RUN_COLUMNS;
    const RESULT: usize = RUN_COLUMNS + 8;
    let ended = match row.opt_int(RESULT)? {
        Some(_) => Some(rows::ended(row, RESULT)?),
        None => None,
    };
    let status = match (&ended, row.opt_int(AGENDA)?) {
        (Some(ended), _) => ended.status,
        (None, Some(_)) => row.status(AGENDA)?,
        (None, None) => return Ok(None),
    };
    let attempt = row.opt_int(AGENDA + 4)?.unwrap_or(1);
    Ok(Some(RunView {
        record: rows::record(row)?,
        status,
        due_at: row.opt_time(AGENDA + 1)?,
        node: row.opt_node(AGENDA + 2)?,
        epoch: row.opt_int(AGENDA + 3)?.or(row.opt_int(RESULT + 5)?).unwrap_or_default(),
        attempt: u32::try_from(attempt).unwrap_or(1),
        reason: row.opt_text(AGENDA + 5)?,
        cancel_reason: row.opt_text(AGENDA + 6)?,
        pause_reason: row.opt_text(RESULT + 7)?,
        expires_at: row.opt_time(AGENDA + 7)?,
        began_at: row.opt_time(RESULT + 8)?,
        wanted_at: row.opt_time(RESULT + 9)?,
        finished_at: row.opt_time(RESULT + 4)?,
        group: row.opt_text(RESULT + 6)?,
        ended,
        tags: Vec::new(),
        doing: Vec::new(),
    }))
}

/// Adds tags, steps in progress and how many attempts jobs took that ended. Ends the transaction.
pub(super) async fn with_details(
    tx: &mut dyn Tx,
    views: impl Iterator<Item = Result<RunView, StoreError>>,
) -> Result<Vec<RunView>, StoreError> {
    let mut views = views.collect::<Result<Vec<_>, _>>()?;
    let mut shards: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for view in &views {
        shards.entry(view.record.id.shard()).or_default().push(view.record.id);
    }
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in shards {
        let runs = ids(&runs);
        let tags = flight.add(TAGS.with(cells![shard, runs.clone()]));
        places.push((tags, flight.add(DOING.with(cells![shard, runs]))));
    }
    let mut tried: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for RunView { record, .. } in views.iter().filter(|view| is_ended_job(view)) {
        tried.entry(record.id.shard()).or_default().push(record.id);
    }
    let attempt = Entry::kind_code(Op::Job, Phase::Attempt);
    let tried: Vec<Place> = tried
        .into_iter()
        .map(|(shard, runs)| flight.add(TRIED.with(cells![shard, ids(&runs), attempt])))
        .collect();
    let mut answers = flight.send_last(tx).await?;

    let mut tags: HashMap<RunId, Vec<(String, String)>> = HashMap::new();
    let mut doing: HashMap<RunId, Vec<Doing>> = HashMap::new();
    for (tags_at, doing_at) in places {
        for row in answers.take(tags_at) {
            tags.entry(row.run(0)?).or_default().push((row.text(1)?, row.text(2)?));
        }
        for row in answers.take(doing_at) {
            let (run, step) = rows::doing(&row)?;
            doing.entry(run).or_default().push(step);
        }
    }
    let mut failed: HashMap<RunId, u32> = HashMap::new();
    for row in tried.into_iter().flat_map(|place| answers.take(place)) {
        failed.insert(row.run(0)?, row.number(1)?);
    }
    for view in &mut views {
        if is_ended_job(view) {
            let failed = failed.get(&view.record.id).copied().unwrap_or_default();
            // The last one of a job that failed is among those that were recorded.
            view.attempt = if view.status == Status::Failed { failed.max(1) } else { failed + 1 };
        }
        view.tags = tags.remove(&view.record.id).unwrap_or_default();
        view.tags.sort();
        view.doing = doing.remove(&view.record.id).unwrap_or_default();
    }
    Ok(views)
}

/// Whose place in line, which says its attempt, is gone; what it recorded is not.
fn is_ended_job(view: &RunView) -> bool {
    view.ended.is_some() && view.record.kind == RunKind::Job
}

/// The run that an address names, if it exists. A key that only has messages names none.
pub(crate) async fn find(
    tx: &mut dyn Tx,
    address: &Address,
    shards: ShardCount,
) -> Result<Option<RunId>, StoreError> {
    let mut flight = Flight::default();
    match address {
        Address::Run(run) => {
            let place = flight.add(EXISTS.with(cells![run.shard(), *run]));
            let rows = flight.send_last(tx).await?.take(place);
            Ok((!rows.is_empty()).then_some(*run))
        }
        Address::Key { tenant, definition, key } => {
            let name = KeyName::new(tenant, definition, key, shards);
            let look: Vec<(u16, Place)> = add_look(&mut flight, &name).into_iter().collect();
            let found = found_keys(&mut flight.send_last(tx).await?, &look)?;
            Ok(found.get(&name).filter(|row| row.started).map(|row| row.run))
        }
    }
}

/// How those of `runs` that have ended ended.
pub(crate) async fn ended(tx: &mut dyn Tx, runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError> {
    let mut shards: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for run in runs {
        shards.entry(run.shard()).or_default().push(*run);
    }
    let mut flight = Flight::default();
    let places: Vec<Place> =
        shards.into_iter().map(|(shard, runs)| flight.add(ENDED.with(cells![shard, ids(&runs)]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let rows = places.into_iter().flat_map(|place| answers.take(place));
    rows.map(|row| Ok((row.run(0)?, rows::ended(&row, 1)?))).collect()
}

/// When the next run of any queue is due, over all shards.
pub(crate) async fn next_due(tx: &mut dyn Tx, shards: ShardCount) -> Result<Option<Timestamp>, StoreError> {
    let mut flight = Flight::default();
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(NEXT.with(cells![shard]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let rows = places.into_iter().flat_map(|place| answers.take(place));
    Ok(rows.map(|row| row.opt_time(0)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().min())
}

/// The nodes that have a lease. One holds runs in many shards.
pub(crate) async fn nodes(tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<NodeView>, StoreError> {
    let mut flight = Flight::default();
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(NODES.with(cells![shard]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let mut nodes: BTreeMap<NodeId, NodeView> = BTreeMap::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let id = NodeId::from_uuid(row.id(0)?);
        let holds: u64 = row.number(6)?;
        if let Some(known) = nodes.get_mut(&id) {
            known.holds += holds;
            continue;
        }
        let node = NodeView {
            id,
            name: row.text(1)?,
            host: row.text(2)?,
            pid: row.number(3)?,
            joined_at: row.time(4)?,
            lease_until: row.time(5)?,
            holds,
            queues: serde_json::from_str(&row.text(7)?).unwrap_or_default(),
            codes: serde_json::from_str(&row.text(8)?).unwrap_or_default(),
            slots: row.number(9)?,
            about: row.text(10)?,
        };
        nodes.insert(id, node);
    }
    let mut nodes: Vec<NodeView> = nodes.into_values().collect();
    nodes.sort_by_key(|node| (node.joined_at, node.id));
    Ok(nodes)
}

/// The nodes that were lost in the last day, the last first. One had runs in many shards.
pub(crate) async fn lost(tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<LostNode>, StoreError> {
    let mut flight = Flight::default();
    let ask = |shard: u16| LOST.with(cells![shard, micros(LOST_FOR)]);
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(ask(shard))).collect();
    let mut answers = flight.send_last(tx).await?;
    let mut nodes: BTreeMap<NodeId, LostNode> = BTreeMap::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let id = NodeId::from_uuid(row.id(0)?);
        let node = nodes.entry(id).or_insert(LostNode {
            id,
            name: row.text(1)?,
            host: row.text(2)?,
            pid: row.number(3)?,
            joined_at: row.time(4)?,
            lost_at: row.time(5)?,
            freed: 0,
        });
        node.lost_at = node.lost_at.min(row.time(5)?);
        node.freed += row.number::<u64>(6)?;
    }
    let mut nodes: Vec<LostNode> = nodes.into_values().collect();
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.lost_at), node.id));
    Ok(nodes)
}

/// The definitions that nodes have registered. Where no live node knows the active version of a name, the
/// newest that one does is active: a deploy was taken back.
pub(crate) async fn definitions(tx: &mut dyn Tx) -> Result<Vec<DefinitionCard>, StoreError> {
    let mut flight = Flight::default();
    let places = add_definitions(&mut flight);
    let (mut cards, live) = found_definitions(&mut flight.send_last(tx).await?, places)?;

    let is_live = |card: &DefinitionCard| live.contains(&code(&card.name, card.version));
    let served: HashSet<String> =
        cards.iter().filter(|card| card.active && is_live(card)).map(|card| card.name.clone()).collect();
    let mut newest: HashMap<String, u32> = HashMap::new();
    for card in cards.iter().filter(|card| !served.contains(&card.name) && is_live(card)) {
        let version = newest.entry(card.name.clone()).or_default();
        *version = card.version.max(*version);
    }
    for card in &mut cards {
        card.active = newest.get(&card.name).map_or(card.active, |version| *version == card.version);
    }
    Ok(cards)
}

/// The time by which the store judges.
pub(crate) async fn now(tx: &mut dyn Tx) -> Result<Timestamp, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(NOW.with([]));
    let rows = flight.send_last(tx).await?.take(place);
    rows.first().map_or(Ok(Timestamp::default()), |row| row.time(0))
}

pub(super) static STATEMENTS: &[&Sql] = &[&VIEW, &TAGS, &TRIED, &EXISTS, &ENDED, &NEXT, &NODES, &LOST];

static VIEW: Sql = Sql::new(
    "view",
    concat!(
        "select ",
        run_columns!(),
        view_columns!(),
        " from outlast.runs as r
          left join outlast.agenda as a on a.shard = r.shard and a.id = r.id
          left join outlast.results as z on z.shard = r.shard and z.run = r.id
         where r.shard = {p1} and r.id = {p2}"
    ),
)
.takes(&[Type::Int, Type::Id]);

static TRIED: Sql = Sql::new(
    "tried",
    "select c.run, count(*) from unnest({p2}) as k(run) cross join lateral (
         select j.run from outlast.journal as j where j.shard = {p1} and j.run = k.run and j.kind = {p3} offset 0) as c
      group by c.run",
)
.on_sqlite(
    "select j.run, count(*) from outlast.journal as j
      where j.shard = {p1} and j.run {in:p2} and j.kind = {p3} group by j.run",
)
.takes(&[Type::Int, Type::Ids, Type::Int]);

static TAGS: Sql =
    look_each!("tags", "select t.run, t.name, t.value from outlast.tags as t where t.shard = {p1} and t.run")
        .on_sqlite(
            "select t.run, t.name, t.value from outlast.tags as t indexed by outlast.tags_by_run
      where t.shard = {p1} and t.run {in:p2}",
        )
        .takes(&[Type::Int, Type::Ids])
        .by("tags_by_run");

static EXISTS: Sql =
    Sql::new("run_exists", "select r.id from outlast.runs as r where r.shard = {p1} and r.id = {p2}")
        .takes(&[Type::Int, Type::Id]);

static ENDED: Sql = look_each!(
    "ended",
    "select z.run, z.status, z.codec, z.output, z.error from outlast.results as z where z.shard = {p1} and z.run"
)
.takes(&[Type::Int, Type::Ids]);

static NEXT: Sql = Sql::new(
    "next_due",
    "select min(t.due_at) from (
         select (select a.due_at from outlast.agenda as a where a.shard = {p1} and a.due_at is not null and a.attempt > 0
                  order by a.due_at limit 1) as due_at
         union all
         select (select min(s.due_at) from outlast.schedules as s where s.shard = {p1} and s.due_at is not null)
         union all
         select (select {now} from outlast.orphans as o where o.shard = {p1} limit 1)
     ) as t",
)
.takes(&[Type::Int])
.by("agenda_next");

static NODES: Sql = Sql::new(
    "nodes",
    "select n.id, n.name, n.host, n.pid, n.joined_at, n.lease_until,
            (select count(*) from outlast.agenda as a where a.shard = {p1} and a.node = n.id), n.queues,
            n.codes, n.slots, n.about
       from outlast.members as n where n.shard = {p1} and n.lease_until >= {now}",
)
.takes(&[Type::Int]);

static LOST: Sql = Sql::new(
    "lost",
    "select l.id, l.name, l.host, l.pid, l.joined_at, l.lost_at, l.freed
       from outlast.lost as l where l.shard = {p1} and l.lost_at >= {now} - {p2}",
)
.takes(&[Type::Int, Type::Int]);
