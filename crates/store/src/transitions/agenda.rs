//! Locks and looks at the agenda, and the fence: what every transition that moves a run begins with.
//!
//! Locks come first, in id order, in a statement of their own that names one shard. Whoever waits for a
//! lock looks with the snapshot from before the wait, so what is looked at beside the locked row is
//! read by a later statement. Clients and users' transactions wait for each other; the engine's batches
//! pass over what others have locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outlast_core::{NodeId, RunId, Status, Timestamp};

use super::flight::{Answers, Flight, Place};
use crate::rows::{ReadRow, cells, ids};
use crate::{Call, Row, Sql, StoreError, Type};

/// What a transition has to know about an unfinished run.
#[derive(Debug, Clone)]
pub(crate) struct AgendaRow {
    pub(crate) id: RunId,
    pub(crate) status: Status,
    pub(crate) node: Option<NodeId>,
    pub(crate) epoch: i64,
    /// The number of its last news.
    pub(crate) news: i64,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) cancel_reason: Option<String>,
    /// Why it is to pause when its turn ends.
    pub(crate) pause_asked: Option<String>,
    /// Whether it reverts what it did.
    pub(crate) is_undoing: bool,
    /// When a node first took it; whoever ends it carries it on.
    pub(crate) began_at: Option<Timestamp>,
}

impl AgendaRow {
    /// The row of a run that this very transaction starts.
    pub(crate) fn started(id: RunId, news: i64) -> AgendaRow {
        AgendaRow {
            id,
            status: Status::Ready,
            node: None,
            epoch: 0,
            news,
            expires_at: None,
            cancel_reason: None,
            pause_asked: None,
            is_undoing: false,
            began_at: None,
        }
    }

    fn read(row: &Row) -> Result<AgendaRow, StoreError> {
        Ok(AgendaRow {
            id: row.run(0)?,
            status: row.status(1)?,
            node: row.opt_node(2)?,
            epoch: row.int(3)?,
            news: row.int(4)?,
            expires_at: row.opt_time(5)?,
            cancel_reason: row.opt_text(6)?,
            pause_asked: row.opt_text(7)?,
            is_undoing: row.int(8)? == 1,
            began_at: row.opt_time(9)?,
        })
    }
}

/// Runs by shard, in the order in which they are locked.
pub(crate) type ByShard = BTreeMap<u16, BTreeSet<RunId>>;

/// Sorts runs for locking.
pub(crate) fn by_shard(runs: impl IntoIterator<Item = RunId>) -> ByShard {
    let mut shards = ByShard::new();
    for run in runs {
        shards.entry(run.shard()).or_default().insert(run);
    }
    shards
}

/// Adds the locks of `runs`, shard by shard, in id order.
pub(crate) fn add_locks(flight: &mut Flight, runs: &ByShard, wait: bool) -> Vec<Place> {
    let sql = if wait { &LOCK } else { &LOCK_FREE };
    let locks = runs.iter().map(|(shard, runs)| flight.add(sql.with(cells![*shard, ids(runs)])));
    locks.collect()
}

/// Adds looks at `runs` that lock nothing.
pub(crate) fn add_looks(flight: &mut Flight, runs: &ByShard) -> Vec<Place> {
    let looks = runs.iter().map(|(shard, runs)| flight.add(LOOK.with(cells![*shard, ids(runs)])));
    looks.collect()
}

/// What the locks or looks at `places` found.
pub(crate) fn found(
    answers: &mut Answers,
    places: &[Place],
) -> Result<HashMap<RunId, AgendaRow>, StoreError> {
    let mut found = HashMap::new();
    for place in places {
        for row in answers.take(*place) {
            let row = AgendaRow::read(&row)?;
            found.insert(row.id, row);
        }
    }
    Ok(found)
}

/// The fence: the node's own row in a shard, held against takeover until the transaction ends. It gives
/// no row when the node has lost its lease.
pub(crate) fn fence(shard: u16, node: NodeId) -> Call {
    FENCE.with(cells![shard, node])
}

pub(crate) static STATEMENTS: &[&Sql] = &[&FENCE, &LOCK, &LOCK_FREE, &LOOK];

static FENCE: Sql =
    Sql::new("fence", "select n.id from outlast.nodes as n where n.shard = {p1} and n.id = {p2} {key_share}")
        .takes(&[Type::Int, Type::Id]);

macro_rules! columns {
    () => {
        "select a.id, a.status, a.node, a.epoch, a.news, a.expires_at, a.cancel_reason, a.pause_asked,
                a.undoing, a.began_at
           from outlast.agenda as a where a.shard = {p1} and a.id "
    };
}

/// Each run by its own id, in their order. A list would do, but that PostgreSQL takes it for ten values: where it has seen no
/// more runs than that it goes along all ids instead, which beside a held snapshot are those of all that ever ran.
macro_rules! one_by_one {
    ($behind:literal) => {
        concat!(
            "select a.* from (select k.id from unnest({p2}) as k(id) order by k.id) as k cross join lateral (",
            columns!(),
            "= k.id ",
            $behind,
            ") as a"
        )
    };
}

static LOCK: Sql = Sql::new("agenda_lock", one_by_one!("{for_update}"))
    .on_sqlite(concat!(columns!(), "{in:p2} order by a.id"))
    .takes(&[Type::Int, Type::Ids])
    .value_by_value();

static LOCK_FREE: Sql = Sql::new("agenda_lock_free", one_by_one!("{skip_locked}"))
    .on_sqlite(concat!(columns!(), "{in:p2} order by a.id"))
    .takes(&[Type::Int, Type::Ids])
    .value_by_value();

static LOOK: Sql = Sql::new("agenda_look", one_by_one!("offset 0"))
    .on_sqlite(concat!(columns!(), "{in:p2}"))
    .takes(&[Type::Int, Type::Ids])
    .value_by_value();
