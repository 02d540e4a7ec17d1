//! Delivers messages to runs and wakes those that wait.
//!
//! Keys first, then runs, are locked in order; whoever else delivers to the same run waits. So what is
//! looked at behind the locks (which deliveries arrived before, which promises are settled) stays true
//! until the commit, and a repeated delivery finds its id.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{RunId, ShardCount, Status, name_in_any_life, name_in_life, split_life};
use uuid::Uuid;

use super::agenda::{self, AgendaRow};
use super::claim;
use super::flight::{Answers, Flight, Place};
use super::keys;
use super::post::{self, Post, Receiver};
use super::results;
use crate::rows::cells;
use crate::sql::look_each;
use crate::{Cell, Claimed, Delivered, Delivery, Hold, Sql, StoreError, Tx, Type, reads};

/// Delivers `messages`, to one run in the order given. A message to a key that no run has yet is kept
/// for the run that is started with it.
pub(crate) async fn deliver(
    tx: &mut dyn Tx,
    messages: &[Delivery],
    shards: ShardCount,
) -> Result<Vec<Delivered>, StoreError> {
    Ok(deliver_to(tx, messages, shards, None).await?.0)
}

/// Delivers a message, and if it wakes its run, which was suspended with `epoch`, lets `hold`'s node have it. A
/// repeat finds what the claim's number took.
pub(crate) async fn wake(
    tx: &mut dyn Tx,
    message: &Delivery,
    hold: Hold,
    epoch: i64,
    shards: ShardCount,
) -> Result<(Delivered, Option<Claimed>), StoreError> {
    let messages = std::slice::from_ref(message);
    let (mut delivered, claimed) = deliver_to(tx, messages, shards, Some((hold, epoch))).await?;
    Ok((delivered.remove(0), claimed))
}

async fn deliver_to(
    tx: &mut dyn Tx,
    messages: &[Delivery],
    shards: ShardCount,
    taker: Option<(Hold, i64)>,
) -> Result<(Vec<Delivered>, Option<Claimed>), StoreError> {
    let names = post::keys_of(tx.machine_now(), messages.iter().map(|message| &message.to), shards);
    let mut keys = HashMap::new();
    if !names.is_empty() {
        let mut flight = Flight::default();
        let locks = keys::add_reserve(&mut flight, &names, false, true);
        keys = keys::found(&mut flight.send(tx).await?, &locks)?;
    }
    let receivers = messages.iter().map(|message| post::receiver(&message.to, &keys, shards));
    let receivers = receivers.collect::<Result<Vec<Receiver>, _>>()?;
    let (messages, settles) = in_lives(tx, messages, &receivers).await?;

    let runs = receivers.iter().filter(|to| matches!(to, Receiver::Run(_))).map(Receiver::run);
    let runs = agenda::by_shard(runs);
    // The first receiver is whom a taker would have.
    let taker = taker.zip(receivers.first().map(Receiver::run));
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, true);
    // Behind the runs: nobody waits for one with a node's row in hand.
    let fenced = taker.map(|((hold, _), run)| flight.add(agenda::fence(run.shard(), hold.node)));
    let results = results::add_looks(&mut flight, &runs);
    let noted = add_noted(&mut flight, &messages, &receivers);
    let addressed = settles.iter().zip(receivers.iter().map(Receiver::run));
    let settled = post::add_settled(&mut flight, addressed);
    let mut answers = flight.send(tx).await?;

    let rows = agenda::found(&mut answers, &locks)?;
    let fenced = !answers.take_any(fenced).is_empty();
    let waits = |row: &AgendaRow, epoch| row.status == Status::Waiting && row.epoch == epoch;
    let takes = taker.filter(|((_, epoch), run)| {
        fenced && rows.get(run).is_some_and(|row| waits(row, *epoch) && row.node.is_none())
    });
    let mut post = Post::to(rows);
    post.reserve(&keys);
    post.settled = post::settled(&mut answers, &settled)?;
    let results = results::found(&mut answers, &results)?;
    let mut noted = ids_of(&mut answers, &noted)?;
    post.unread = post::count_unread(tx, &post.doubtful(&receivers.iter().collect::<Vec<_>>())).await?;

    let mut delivered = Vec::with_capacity(messages.len());
    let mut new: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for ((message, settles), to) in messages.iter().zip(&settles).zip(&receivers) {
        let run = to.run();
        let answer = match to {
            _ if noted.contains(&message.id) => Delivered::Done { run },
            Receiver::Run(_) if !post.runs.contains_key(&run) => match results.get(&run) {
                Some(end) => Delivered::Closed { run, status: end.status },
                None => Delivered::Unknown,
            },
            _ => post.take(message, &settles.name, to),
        };
        if matches!(answer, Delivered::Done { .. }) && noted.insert(message.id) {
            new.entry(run.shard()).or_default().push(cells![message.id]);
        }
        delivered.push(answer);
    }

    let mut flight = Flight::default();
    let is_new = !new.is_empty();
    for (shard, rows) in new {
        flight.each(&DELIVERIES_NOTE, rows, cells![shard]);
    }
    let takes = takes.filter(|_| is_new);
    if let Some((_, run)) = takes {
        post.hand_over(run);
    }
    post.add(&mut flight, tx);
    if let Some(((hold, _), run)) = takes {
        flight.add(TAKE_WOKEN.with(cells![run.shard(), run, hold.node, hold.claim, Status::Running]));
    }
    let claimed = taker.map(|((hold, _), run)| claim::add_claimed(&mut flight, run, hold));
    let mut answers = flight.send_last(tx).await?;
    let claimed = claimed.map(|places| claim::found_claimed(&mut answers, places)).transpose()?.flatten();
    Ok((delivered, claimed))
}

/// The messages as they are put into inboxes and, for settlements, as they are noted as settled.
///
/// A token means its promise in one life of the run. A name alone settles the promise of the current life and
/// reaches whoever awaits it first: a value that came before anybody waited is kept when the run starts over.
async fn in_lives(
    tx: &mut dyn Tx,
    messages: &[Delivery],
    receivers: &[Receiver],
) -> Result<(Vec<Delivery>, Vec<Delivery>), StoreError> {
    let (mut put, mut noted) = (messages.to_vec(), messages.to_vec());
    let mut by_name = Vec::new();
    for (place, (message, to)) in messages.iter().zip(receivers).enumerate() {
        match split_life(&message.name) {
            _ if !post::is_settlement(message.kind) => {}
            (name, Some(life)) => {
                put[place].name = name_in_life(name, life);
                noted[place].name = name_in_life(name, life);
            }
            (name, None) => {
                put[place].name = name_in_any_life(name);
                // A run that does not exist yet begins with its first life.
                if let Receiver::Run(run) = to {
                    by_name.push((place, *run));
                }
            }
        }
    }
    if !by_name.is_empty() {
        let runs: Vec<RunId> = by_name.iter().map(|(_, run)| *run).collect();
        let lives = reads::lives(tx, &runs).await?;
        for (place, run) in by_name {
            let life = lives.get(&run).copied().unwrap_or_default();
            noted[place].name = name_in_life(&messages[place].name, life);
        }
    }
    Ok((put, noted))
}

/// Adds looks at which deliveries arrived before. A delivery's id lives in its receiver's shard.
fn add_noted(flight: &mut Flight, messages: &[Delivery], receivers: &[Receiver]) -> Vec<Place> {
    let mut shards: BTreeMap<u16, Vec<Uuid>> = BTreeMap::new();
    for (message, to) in messages.iter().zip(receivers) {
        shards.entry(to.run().shard()).or_default().push(message.id);
    }
    let looks = shards.into_iter().map(|(shard, ids)| DELIVERIES_LOOK.with(cells![shard, Cell::Ids(ids)]));
    looks.map(|look| flight.add(look)).collect()
}

fn ids_of(answers: &mut Answers, places: &[Place]) -> Result<HashSet<Uuid>, StoreError> {
    let mut ids = HashSet::new();
    for place in places {
        for row in answers.take(*place) {
            ids.insert(row.id(0)?);
        }
    }
    Ok(ids)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&DELIVERIES_LOOK, &DELIVERIES_NOTE, &TAKE_WOKEN];

// The row is locked, and was found waiting.
static TAKE_WOKEN: Sql = Sql::new(
    "take_woken",
    "update outlast.agenda set node = {p3}, claim = {p4}, epoch = epoch + 1, status = {p5}, due_at = null
      where shard = {p1} and id = {p2}",
)
.takes(&[Type::Int, Type::Id, Type::Id, Type::Int, Type::Int]);

static DELIVERIES_LOOK: Sql =
    look_each!("deliveries_look", "select d.id from outlast.deliveries as d where d.shard = {p1} and d.id")
        .takes(&[Type::Int, Type::Ids]);

static DELIVERIES_NOTE: Sql = Sql::new(
    "deliveries_note",
    "insert into outlast.deliveries (shard, id, at)
     select {p1}, b.id, {now} from {batch} where true on conflict do nothing",
)
.rows(&[("id", Type::Id)])
.takes(&[Type::Int]);
