//! Renews a node's lease and compares what it holds with what it knows.

use std::collections::{BTreeMap, HashMap};

use outlast_core::{RunId, ShardCount, Status};

use super::agenda;
use super::claim::NOW;
use super::flight::Flight;
use crate::rows::{ReadRow, cells, ids, micros};
use crate::{Known, Renew, Renewed, Signal, Sql, StoreError, Tx, Type};

/// Renews the lease in every shard.
///
/// A run that the node holds by a settled claim without knowing it was handed out in a reply that got
/// lost: it becomes due again. One that someone has locked at this moment waits for the next renewal,
/// because a renewal must not wait.
pub(crate) async fn renew(tx: &mut dyn Tx, ask: &Renew, shards: ShardCount) -> Result<Renewed, StoreError> {
    let mut flight = Flight::default();
    let now = flight.add(NOW.with([]));
    let mut places = Vec::new();
    for shard in 0..shards.max(1) {
        let renewed = flight.add(NODES_RENEW.with(cells![shard, ask.node, micros(ask.lease)]));
        let held = flight.add(HELD_BY.with(cells![shard, ask.node]));
        places.push((renewed, held));
    }
    let mut answers = flight.send(tx).await?;

    let now = answers.take(now).first().map(|row| row.time(0)).transpose()?.unwrap_or_default();
    let mut alive = true;
    let mut held: HashMap<RunId, Held> = HashMap::new();
    for (renewed, runs) in places {
        alive &= !answers.take(renewed).is_empty();
        for row in answers.take(runs) {
            held.insert(row.run(0)?, Held { epoch: row.int(1)?, news: row.int(2)?, claim: row.int(3)? });
        }
    }

    let ours = |known: &Known| held.get(&known.run).filter(|row| row.epoch == known.epoch);
    let lost = ask.known.iter().filter(|known| ours(known).is_none()).map(|known| known.run).collect();
    let told = ask.known.iter().filter(|known| ours(known).is_some_and(|row| row.news > known.seen));
    let news = told.map(|known| known.run).collect();
    for known in &ask.known {
        held.remove(&known.run);
    }
    let strangers = held.into_iter().filter(|(_, row)| row.claim <= ask.settled).map(|(run, _)| run);
    let freed = free(tx, ask, strangers.collect()).await?;
    Ok(Renewed { alive, lost, news, freed, now })
}

struct Held {
    epoch: i64,
    news: i64,
    claim: i64,
}

/// Makes runs due again that the node holds without knowing. Ends the transaction.
async fn free(tx: &mut dyn Tx, ask: &Renew, runs: Vec<RunId>) -> Result<u64, StoreError> {
    let mut last = Flight::default();
    let mut freed = 0;
    if !runs.is_empty() {
        let mut flight = Flight::default();
        let locks = agenda::add_locks(&mut flight, &agenda::by_shard(runs), false);
        let locked = agenda::found(&mut flight.send(tx).await?, &locks)?;
        let mut shards: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
        for row in locked.into_values().filter(|row| row.node == Some(ask.node)) {
            shards.entry(row.id.shard()).or_default().push(row.id);
            freed += 1;
        }
        for (shard, runs) in shards {
            last.add(STRANGERS.with(cells![shard, ids(&runs), ask.node, ask.settled, Status::Ready]));
        }
    }
    if freed > 0 {
        tx.signal(Signal::Due);
    }
    last.send_last(tx).await?;
    Ok(freed)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&NODES_RENEW, &HELD_BY, &STRANGERS];

static NODES_RENEW: Sql = Sql::new(
    "nodes_renew",
    "update outlast.nodes set lease_until = {now} + {p3} where shard = {p1} and id = {p2} returning id",
)
.takes(&[Type::Int, Type::Id, Type::Int]);

static HELD_BY: Sql = Sql::new(
    "held_by",
    "select a.id, a.epoch, a.news, a.claim from outlast.agenda as a where a.shard = {p1} and a.node = {p2}",
)
.takes(&[Type::Int, Type::Id])
.by("agenda_node");

static STRANGERS: Sql = Sql::new(
    "renew_strangers",
    "update outlast.agenda set node = null, claim = null, epoch = epoch + 1, status = {p5}, due_at = {now}
      where shard = {p1} and id {in:p2} and node = {p3} and claim <= {p4}",
)
.takes(&[Type::Int, Type::Ids, Type::Id, Type::Int, Type::Int]);
