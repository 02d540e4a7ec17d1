//! What is remembered of groups: how much of their rate they have used, and who of an ordered one has to go first.
//!
//! Of an ordered group the one that began and has not ended is the only one that may go; where none did, the first that
//! is due. A node that does not know the code of that one leaves the group to those that do: in the middle of a deploy
//! nodes know different code, and no order may hang on which of them looks first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outlast_core::{Admission, Candidate, RunId, ShardCount, Window};

use super::look::{COLUMNS, candidate, codes, columns};
use crate::rows::{ReadRow, cells, ids};
use crate::transitions::flight::{Flight, Place};
use crate::transitions::queue;
use crate::{Cell, QueueClaim, Row, Sql, StoreError, Tx, Type};

/// Asks what is remembered of the groups that could go.
pub(super) async fn remember(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    admission: &mut Admission,
    candidates: &mut Vec<Candidate>,
    found: &mut HashMap<RunId, Row>,
    shards: ShardCount,
) -> Result<(), StoreError> {
    let (ordered, has_rates) = (admission.rules.ordered, admission.rules.rate_per_group.is_some());
    let groups: BTreeSet<String> = candidates.iter().filter_map(|run| run.group.clone()).collect();
    if groups.is_empty() || !(ordered || has_rates) {
        return Ok(());
    }
    let groups = Cell::Texts(groups.into_iter().collect());
    let mut flight = Flight::default();
    let known = flight.add(GROUPS_LOOK.with(cells![queue::home(&ask.queue, shards), &*ask.queue, groups]));
    let firsts = if ordered { add_firsts(&mut flight, ask, candidates, shards) } else { Vec::new() };
    let mut answers = flight.send(tx).await?;
    let mut heads: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for row in answers.take(known) {
        let group = row.text(0)?;
        admission.windows.insert(group.clone(), Window::parse(&row.text(2)?));
        if let Some(head) = row.opt_id(1)?.map(RunId::from_uuid).filter(|_| ordered) {
            admission.heads.insert(group, head);
            heads.entry(head.shard()).or_default().push(head);
        }
    }
    let firsts: Vec<Row> = firsts.into_iter().flat_map(|place| answers.take(place)).collect();
    begun(tx, ask, admission, candidates, found, heads).await?;
    for (group, first) in earliest(&firsts)? {
        if first.int(2)? == 0 {
            admission.heads.entry(group).or_insert(first.run(1)?);
        }
    }
    Ok(())
}

/// The first of each group, whichever shard it is in.
fn earliest(firsts: &[Row]) -> Result<BTreeMap<String, &Row>, StoreError> {
    let place = |row: &Row| Ok::<_, StoreError>((row.int(3)?, row.time(4)?, row.run(1)?));
    let mut earliest: BTreeMap<String, &Row> = BTreeMap::new();
    for row in firsts {
        let first = earliest.entry(row.text(0)?).or_insert(row);
        if place(row)? < place(first)? {
            *first = row;
        }
    }
    Ok(earliest)
}

/// Of groups in which somebody has begun and not ended, that one comes into question alone.
async fn begun(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    admission: &mut Admission,
    candidates: &mut Vec<Candidate>,
    found: &mut HashMap<RunId, Row>,
    heads: BTreeMap<u16, Vec<RunId>>,
) -> Result<(), StoreError> {
    if heads.is_empty() {
        return Ok(());
    }
    let mut flight = Flight::default();
    let places: Vec<Place> = heads
        .iter()
        .map(|(shard, heads)| flight.add(QUEUE_HEADS.with(cells![*shard, ids(heads), codes(ask)])))
        .collect();
    let mut answers = flight.send(tx).await?;
    let mut unfinished = BTreeSet::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let head = candidate(&row)?;
        unfinished.insert(head.run);
        // Due, and of code that this node knows.
        if row.int(COLUMNS)? == 1 {
            candidates.retain(|other| other.group != head.group);
            found.insert(head.run, row);
            candidates.push(head);
        }
    }
    admission.heads.retain(|_, head| unfinished.contains(head));
    Ok(())
}

/// Adds looks at who is the first of each group, and whether its code is known here.
fn add_firsts(
    flight: &mut Flight,
    ask: &QueueClaim,
    candidates: &[Candidate],
    shards: ShardCount,
) -> Vec<Place> {
    let named = |run: &Candidate| Some((run.priority, run.group.clone()?));
    let groups: BTreeSet<(u8, String)> = candidates.iter().filter_map(named).collect();
    let groups: Vec<Vec<Cell>> = groups.iter().map(|(priority, name)| cells![*priority, &**name]).collect();
    let first =
        |shard: u16| flight.each(&QUEUE_FIRST, groups.clone(), cells![shard, &*ask.queue, codes(ask)]);
    (0..shards).filter_map(first).collect()
}

pub(super) static STATEMENTS: &[&Sql] = &[&GROUPS_LOOK, &QUEUE_HEADS, &QUEUE_FIRST];

static GROUPS_LOOK: Sql = Sql::new(
    "groups_look",
    "select g.name, g.head, g.used from outlast.groups as g
      where g.shard = {p1} and g.queue = {p2} and g.name {in:p3}",
)
.takes(&[Type::Int, Type::Text, Type::Texts]);

macro_rules! heads {
    () => {
        concat!(
            "select ",
            columns!(),
            ", case when a.due_at <= {now} and a.code {in:p3} then 1 else 0 end
               from outlast.agenda as a where a.shard = {p1} and a.id "
        )
    };
}

static QUEUE_HEADS: Sql = Sql::new(
    "queue_heads",
    concat!("select a.* from unnest({p2}) as k(id) cross join lateral (", heads!(), "= k.id offset 0) as a"),
)
.on_sqlite(concat!(heads!(), "{in:p2}"))
.takes(&[Type::Int, Type::Ids, Type::Texts]);

static QUEUE_FIRST: Sql = Sql::new(
    "queue_first",
    "select b.name, c.id, case when c.code {in:p3} then 1 else 0 end, b.priority, c.due_at
       from {batch} cross join lateral (
            select a.id, a.code, a.due_at from outlast.agenda as a
             where a.shard = {p1} and a.queue = {p2} and a.priority = b.priority and a.due_at <= {now}
               and a.group_key = b.name order by a.due_at, a.id limit 1) as c",
)
.on_sqlite(
    "select {b:name}, a.id, case when a.code {in:p3} then 1 else 0 end, {b:priority}, a.due_at
       from outlast.agenda as a indexed by outlast_agenda_groups
      where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority} and a.due_at <= {now}
        and a.group_key = {b:name} order by a.due_at, a.id limit 1",
)
.rows(&[("priority", Type::Int), ("name", Type::Text)])
.takes(&[Type::Int, Type::Text, Type::Texts])
.by("agenda_groups");
