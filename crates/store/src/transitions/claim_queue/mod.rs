//! Leases due runs of a queue with rules to a node: no more than the rules allow, however many nodes ask.
//!
//! Whoever claims locks the queue's row first, so that nodes come one after another and each sees what the one
//! before it took. Who runs is counted among the runs themselves: a limit has no counter that could be wrong, and
//! a run that is taken from a dead node, or ends, has given its slot back by that alone. What may go is
//! decided by [`outlast_core::Admission`]; here it is only asked what it has to know.
//!
//! The cost does not depend on how many stand in line: a line is one range of an index, and groups are found by
//! going from one to the next, beginning behind the one that was served last.

mod floors;
mod lines;
mod look;
mod memory;
mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outlast_core::{
    Admission, Admitted, Candidate, QueueRules, QueueState, RunId, ShardCount, Status, Timestamp, Window,
};

use self::floors::Floors;
pub(crate) use self::lines::{LineMemory, lines};
use self::look::{Heads, Looked, candidate, codes, priorities};
pub(crate) use self::memory::Memory;
use self::memory::{Held, LATE, Recalled, Running, Seen, is_stale};
use super::agenda::{by_shard, fence};
use super::claim::{self, CLAIMED_BEFORE, NOW, TAKE, UNREAD, UNREAD_BY_CLAIM};
use super::flight::{Flight, Place};
use super::queue;
use crate::rows::{self, ReadRow, cells, ids};
use crate::whole_look::{AGAIN, ahead};
use crate::{Claimed, Claims, Dialect, Mark, QueueCard, QueueClaim, Row, Sql, StoreError, Tx, Type};

/// How often a claim goes on to further groups where those that it came by could not go.
const WALKS: u32 = 4;

/// Leases due runs of one queue, most urgent first, groups in turn.
pub(crate) async fn claim_queue(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    shards: ShardCount,
    memory: &Memory,
) -> Result<Claims, StoreError> {
    let shards = shards.max(1);
    let Some(mut line) = open(tx, ask, shards, memory).await? else {
        Flight::default().send_last(tx).await?;
        return Ok(Claims::default());
    };
    let mut claims = Claims { now: line.admission.now, ..Claims::default() };
    if !line.before.is_empty() {
        let runs = line.before.iter().map(claim::claimed_now).collect::<Result<Vec<_>, _>>()?;
        claims.runs = runs.into_iter().map(|run| Claimed { due_at: claims.now, ..run }).collect();
        let mut flight = Flight::default();
        let told = claims.runs.iter().filter(|run| run.news > 0).map(|run| run.id);
        let unread = add_unread(&mut flight, told);
        let mut answers = flight.send_last(tx).await?;
        let unread = unread.into_iter().flat_map(|place| answers.take(place));
        tell(&mut claims.runs, unread)?;
        return Ok(claims);
    }
    if line.is_empty || line.is_doubtful || is_stale(ask, claims.now) {
        claims.is_full = !line.is_empty;
        Flight::default().send_last(tx).await?;
        return Ok(claims);
    }
    let room = line.admission.room();
    if line.card.state == QueueState::Paused || room == 0 {
        claims.is_full = ask.limit > 0 && line.card.state != QueueState::Paused;
        Flight::default().send_last(tx).await?;
        return Ok(claims);
    }
    let loose = line.loose;
    let mut picked = pick(tx, ask, &mut line, room, shards).await?;
    // What stays as it was is not written again.
    picked.loose = picked.loose.filter(|next| *next != loose);
    let is_short = line.recalled.whole_in.is_some();
    take(tx, ask, &mut picked, &mut claims, shards, ahead(is_short)).await?;
    // Somebody may be due before all that was looked at, or behind it: nothing else tells of them.
    let room_left = claims.runs.len() < ask.limit as usize;
    claims.look_again = line.recalled.whole_in.filter(|_| room_left).map(|left| left.min(AGAIN));
    Ok(claims)
}

/// The queue, locked, who of it runs, and who stands first in line.
struct Line {
    card: QueueCard,
    served: String,
    /// From where the claim before did not look for runs without a group.
    loose: Mark,
    admission: Admission,
    /// What an earlier try of this claim took: then nothing more is taken.
    before: Vec<Row>,
    /// Nobody stands in it, as far as somebody looked.
    is_empty: bool,
    /// What was remembered of it cannot be true: it has to be asked again.
    is_doubtful: bool,
    heads: Looked,
    /// What was known of it before.
    recalled: Recalled,
}

impl Line {
    /// Before these times nobody is due, as far as is known.
    fn floors(&self) -> &Floors {
        &self.recalled.floors
    }
}

/// Locks the queue's row, counts who runs and looks who is first. Nothing when the node has lost its lease.
async fn open(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    shards: ShardCount,
    memory: &Memory,
) -> Result<Option<Line>, StoreError> {
    let mut flight = Flight::default();
    let recalled = match tx.dialect() {
        Dialect::Postgres => memory.recall(ask),
        Dialect::Sqlite => Recalled::default(),
    };
    let fences: Vec<Place> = (0..shards).map(|shard| flight.add(fence(shard, ask.node))).collect();
    let locked = flight.add(QUEUE_LOCK.with(cells![queue::home(&ask.queue, shards), &*ask.queue]));
    let now = flight.add(NOW.with([]));
    let before: Vec<Place> = (0..shards)
        .map(|shard| flight.add(CLAIMED_BEFORE.with(cells![shard, ask.node, ask.number])))
        .collect();
    // Where it does not, most claims end with a look whether anybody is due at all, now or later.
    let anybody = |shard| flight.add(QUEUE_ANYBODY.with(cells![shard, &*ask.queue]));
    let anybody: Vec<Place> = match tx.dialect() {
        Dialect::Postgres => Vec::new(),
        Dialect::Sqlite => (0..shards).map(anybody).collect(),
    };
    // Where a flight costs a round trip, all is asked before it is known what the rules need.
    let asked =
        (tx.dialect() == Dialect::Postgres).then(|| add_state(&mut flight, ask, None, shards, &recalled));
    // Behind the lock and before it was looked at anything, and afterwards: nobody else's time is in between.
    let looked_at = asked.is_some().then(|| flight.add(NOW.with([])));
    let mut answers = flight.send(tx).await?;
    if fences.into_iter().any(|place| answers.take(place).is_empty()) {
        return Ok(None);
    }
    let mut admission = Admission { want: ask.limit, ..Admission::default() };
    admission.now = answers.take(now).first().map(|row| row.time(0)).transpose()?.unwrap_or_default();
    let (mut card, mut served, mut loose) = (QueueCard::default(), String::new(), Mark::default());
    if let Some(row) = answers.take(locked).first() {
        card = queue::read(row)?;
        served = row.text(5)?;
        admission.window = Window::parse(&row.text(6)?);
        loose = Mark::parse(&row.text(7)?);
    }
    admission.rules = card.rules.clone();
    let before: Vec<Row> = before.into_iter().flat_map(|place| answers.take(place)).collect();
    let (is_doubtful, heads) = (false, Looked::default());
    let is_empty = asked.is_none() && anybody.into_iter().all(|place| answers.take(place).is_empty());
    let mut line = Line { card, served, loose, admission, before, is_empty, is_doubtful, heads, recalled };
    if is_empty {
        return Ok(Some(line));
    }
    let (held, heads) = match asked {
        Some(asked) => asked,
        None => {
            let mut flight = Flight::default();
            let asked = add_state(&mut flight, ask, Some(&line.card.rules), shards, &line.recalled);
            answers = flight.send(tx).await?;
            asked
        }
    };
    let running = held.map_or(Ok(Running::default()), |held| held.read(&mut answers))?;
    for (group, count) in running.counts {
        line.admission.held += count;
        if let Some(group) = group {
            *line.admission.held_by_group.entry(group).or_default() += count;
        }
    }
    line.heads = look::found_heads(&mut answers, heads)?;
    if let Some(looked_at) = looked_at {
        let now = line.admission.now;
        let over = answers.take(looked_at).first().map(|row| row.time(0)).transpose()?.unwrap_or(now);
        let rules = &line.card.rules;
        let (ordered, counts) = (rules.ordered, counts_who_runs(rules));
        let seen = Seen { now, took: over.since(now), ordered, counts };
        line.is_doubtful = !memory.keep(ask, &line.recalled, seen, running.names, &line.heads.firsts);
    }
    Ok(Some(line))
}

/// Adds looks at who runs and at who is first: only those that the rules need, where they are known.
fn add_state(
    flight: &mut Flight,
    ask: &QueueClaim,
    rules: Option<&QueueRules>,
    shards: ShardCount,
    recalled: &Recalled,
) -> (Option<Held>, Heads) {
    let held = rules.is_none_or(counts_who_runs).then(|| recalled.add(flight, &ask.queue, shards));
    (held, look::add_heads(flight, ask, rules, shards, &recalled.floors))
}

/// Whether who may go hangs on who runs.
fn counts_who_runs(rules: &QueueRules) -> bool {
    rules.limit.is_some() || rules.slots_per_group() < u32::MAX
}

/// Who was let go.
struct Picked {
    admission: Admission,
    admitted: Admitted,
    /// In the order in which they came into question.
    candidates: Vec<Candidate>,
    found: HashMap<RunId, Row>,
    /// The group that got the last turn, where groups were asked in turn.
    served: Option<String>,
    /// Whether others may be due who did not come into question.
    is_cut: bool,
    /// From where the next claim looks for runs without a group, where this one did.
    loose: Option<Mark>,
}

/// Lets go whom the rules allow: of those at the head of the line where they are nearly enough, which costs little;
/// else of every group.
async fn pick(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    line: &mut Line,
    room: u32,
    shards: ShardCount,
) -> Result<Picked, StoreError> {
    if let Some(since) = line.card.since.filter(|_| line.card.state == QueueState::Draining) {
        let mut flight = Flight::default();
        let heads = look::add_drain(&mut flight, ask, since, shards);
        let heads = look::found_heads(&mut flight.send(tx).await?, heads)?;
        return admit(tx, ask, line, heads, line.admission.rules.fair, shards).await;
    }
    let heads = std::mem::take(&mut line.heads);
    let (is_all, rules) = (!heads.is_cut, &line.admission.rules);
    if is_all || !rules.fair {
        let is_enough = |picked: &Picked| picked.admitted.runs.len() as u32 >= room.div_ceil(2);
        let picked = admit(tx, ask, line, heads, rules.fair, shards).await?;
        if is_all || !rules.is_grouped() || is_enough(&picked) {
            return Ok(picked);
        }
    }
    let mut walks = 0;
    loop {
        walks += 1;
        let looked = look::by_turns(tx, ask, line, room, shards).await?;
        let picked = admit(tx, ask, line, looked, true, shards).await?;
        match &picked.served {
            // Nobody could go of those that it came by.
            Some(served) if picked.admitted.runs.is_empty() && walks < WALKS => {
                line.served = served.clone();
                line.loose = picked.loose.unwrap_or_default();
            }
            _ => return Ok(picked),
        }
    }
}

async fn admit(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    line: &Line,
    looked: Looked,
    in_turn: bool,
    shards: ShardCount,
) -> Result<Picked, StoreError> {
    let mut found: HashMap<RunId, Row> = HashMap::with_capacity(looked.rows.len());
    let mut candidates = Vec::with_capacity(looked.rows.len());
    for row in looked.rows {
        let candidate = candidate(&row)?;
        // Two looks may have come by the same run.
        if found.insert(candidate.run, row).is_none() {
            candidates.push(candidate);
        }
    }
    let mut admission = line.admission.clone();
    order::remember(tx, ask, &mut admission, &mut candidates, &mut found, shards).await?;
    let place = |candidate: &Candidate| {
        let group = candidate.group.clone().unwrap_or_default();
        (group <= line.served, group)
    };
    if in_turn {
        candidates.sort_by_cached_key(place);
    } else {
        candidates.sort_by_key(|candidate| (candidate.priority, candidate.due_at, candidate.run));
    }
    let mut admitted = admission.admit(&candidates);
    admitted.is_full |= looked.is_full;
    let mut served = None;
    if in_turn {
        let gone: BTreeSet<RunId> = admitted.runs.iter().copied().collect();
        let last = candidates.iter().rfind(|run| run.group.is_some() && gone.contains(&run.run));
        // Where nobody could go of those that a walk came by, the next one goes on from there.
        served = last.map_or(looked.upto, |run| run.group.clone());
    }
    let (is_cut, loose) = (looked.is_cut, looked.loose);
    Ok(Picked { admission, admitted, candidates, found, served, is_cut, loose })
}

/// Takes those who were let go, and ends the transaction; one that somebody else has locked is left out.
async fn take(
    tx: &mut dyn Tx,
    ask: &QueueClaim,
    picked: &mut Picked,
    claims: &mut Claims,
    shards: ShardCount,
    ahead: i64,
) -> Result<(), StoreError> {
    let admitted = &picked.admitted;
    let mut flight = Flight::default();
    let (mut taken, mut unread) = (Vec::new(), Vec::new());
    for (shard, runs) in by_shard(admitted.runs.iter().copied()) {
        match tx.dialect() {
            Dialect::Postgres => {
                let asked = cells![shard, ids(&runs), ask.node, ask.number, Status::Running];
                taken.push(flight.add(QUEUE_TAKE.with(asked)));
                unread.push(flight.add(UNREAD_BY_CLAIM.with(cells![shard, ask.node, ask.number])));
            }
            // Nobody else writes meanwhile: all who were found are there.
            Dialect::Sqlite => {
                let rows = runs.iter().map(|run| cells![*run]).collect();
                flight.each(&TAKE, rows, cells![shard, ask.node, ask.number, Status::Running]);
            }
        }
    }
    if tx.dialect() == Dialect::Sqlite {
        let told = |run: &&RunId| picked.found.get(*run).is_some_and(|row| row.int(8).unwrap_or(0) > 0);
        unread = add_unread(&mut flight, admitted.runs.iter().filter(told).copied());
    }
    note(&mut flight, ask, picked, shards);
    // Whoever gets all that it wants asks again.
    let is_filled = admitted.runs.len() >= ask.limit as usize;
    let next = if is_filled { Vec::new() } else { add_next(&mut flight, ask, shards, ahead) };
    // Last, since renewals wait for whoever has the row.
    if tx.dialect() == Dialect::Postgres && memory::is_late(ask, claims.now) {
        for shard in by_shard(admitted.runs.iter().copied()).into_keys() {
            flight.add(LATE.with(cells![shard, ask.node]));
        }
    }
    let mut answers = flight.send_last(tx).await?;

    let mut news = HashMap::new();
    for row in taken.into_iter().flat_map(|place| answers.take(place)) {
        news.insert(row.run(0)?, row.int(1)?);
    }
    for run in &admitted.runs {
        let Some(row) = picked.found.get(run) else { continue };
        let claimed = claim::claimed_first(row)?;
        match (tx.dialect(), news.get(run)) {
            (Dialect::Sqlite, _) => claims.runs.push(claimed),
            (Dialect::Postgres, Some(news)) => claims.runs.push(Claimed { news: *news, ..claimed }),
            (Dialect::Postgres, None) => {}
        }
    }
    tell(&mut claims.runs, unread.into_iter().flat_map(|place| answers.take(place)))?;
    let is_left = admitted.is_full || claims.runs.len() < admitted.runs.len();
    // Others may go at once who did not come into question.
    claims.is_full = is_left && (!picked.is_cut || claims.runs.is_empty());
    let next = earliest(next.into_iter().flat_map(|place| answers.take(place)))?;
    claims.next_due = admitted.freer_at.into_iter().chain(next).min();
    Ok(())
}

/// Notes who was served last, what rates have used, and who has to end first: also of one that is not taken after
/// all, who uses up a little of the rate and is the first of its group all the same.
fn note(flight: &mut Flight, ask: &QueueClaim, picked: &Picked, shards: ShardCount) {
    let Picked { admission, admitted, served, .. } = picked;
    let (rules, home) = (&admission.rules, queue::home(&ask.queue, shards));
    let used = rules.rate.filter(|_| !admitted.runs.is_empty()).map(|_| admission.window.to_text());
    let loose = picked.loose.map(Mark::to_text);
    if served.is_some() || used.is_some() || loose.is_some() {
        flight.add(QUEUE_NOTE.with(cells![home, &*ask.queue, served.as_deref(), used, loose]));
    }
    if !(rules.ordered || rules.rate_per_group.is_some()) {
        return;
    }
    let gone: BTreeSet<RunId> = admitted.runs.iter().copied().collect();
    let mut rows = BTreeMap::new();
    for run in picked.candidates.iter().filter(|run| gone.contains(&run.run)) {
        let Some(group) = &run.group else { continue };
        let window = admission.windows.get(group);
        let used = window.map(Window::to_text).unwrap_or_default();
        let until = rules.rate_per_group.and_then(|rate| window?.unused_from(rate)).unwrap_or(admission.now);
        let head = rules.ordered.then(|| run.run.uuid());
        rows.insert(group, cells![&**group, head, used, until]);
    }
    flight.each(&GROUPS_NOTE, rows.into_values().collect(), cells![home, &*ask.queue]);
}

/// Adds looks at what runs have not read.
fn add_unread(flight: &mut Flight, runs: impl Iterator<Item = RunId>) -> Vec<Place> {
    let mut places = Vec::new();
    for (shard, runs) in by_shard(runs) {
        places.push(flight.add(UNREAD.with(cells![shard, ids(&runs)])));
    }
    places
}

fn tell(runs: &mut [Claimed], unread: impl Iterator<Item = Row>) -> Result<(), StoreError> {
    for row in unread {
        let (id, news) = rows::news(&row)?;
        if let Some(run) = runs.iter_mut().find(|run| run.id == id) {
            run.inbox.push(news);
        }
    }
    Ok(())
}

/// Adds looks at when the next one is due.
fn add_next(flight: &mut Flight, ask: &QueueClaim, shards: ShardCount, ahead: i64) -> Vec<Place> {
    let next = |shard| flight.each(&QUEUE_NEXT, priorities(), cells![shard, &*ask.queue, codes(ask), ahead]);
    (0..shards).filter_map(next).collect()
}

fn earliest(rows: impl Iterator<Item = Row>) -> Result<Option<Timestamp>, StoreError> {
    let times = rows.map(|row| row.opt_time(0)).collect::<Result<Vec<_>, _>>()?;
    Ok(times.into_iter().flatten().min())
}

pub(crate) fn statements() -> Vec<&'static Sql> {
    let own: &[&Sql] = &[&QUEUE_LOCK, &QUEUE_ANYBODY, &QUEUE_TAKE, &QUEUE_NOTE, &GROUPS_NOTE, &QUEUE_NEXT];
    [own, lines::STATEMENTS, look::STATEMENTS, memory::STATEMENTS, order::STATEMENTS].concat()
}

static QUEUE_LOCK: Sql = Sql::new(
    "queue_lock",
    "select q.name, q.rules, q.own_rules, q.state, q.since, q.served, q.used, q.loose from outlast.queues as q
      where q.shard = {p1} and q.name = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Text]);

static QUEUE_ANYBODY: Sql = Sql::new("queue_anybody", "")
    .on_sqlite(
        "select 1 from outlast.agenda as a
          where a.shard = {p1} and a.queue = {p2} and a.due_at is not null limit 1",
    )
    .takes(&[Type::Int, Type::Text])
    .by("agenda_due");

static QUEUE_TAKE: Sql = Sql::new(
    "queue_take",
    "with picked as materialized (
         select a.shard, a.id from unnest({p2}) as k(id) cross join lateral (
             select a.shard, a.id from outlast.agenda as a
              where a.shard = {p1} and a.id = k.id and a.node is null and a.due_at <= {now} {skip_locked}) as a
     )
     update outlast.agenda as a
        set node = {p3}, claim = {p4}, epoch = a.epoch + 1, status = {p5}, due_at = null,
            began_at = coalesce(a.began_at, {now})
       from picked as p where a.shard = p.shard and a.id = p.id returning a.id, a.news",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Ids, Type::Id, Type::Int, Type::Int]);

static QUEUE_NOTE: Sql = Sql::new(
    "queue_note",
    "update outlast.queues set served = coalesce({p3}, served), used = coalesce({p4}, used), loose = coalesce({p5}, loose)
      where shard = {p1} and name = {p2}",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Text, Type::Text]);

static GROUPS_NOTE: Sql = Sql::new(
    "groups_note",
    "insert into outlast.groups (shard, queue, name, head, used, used_until)
     select {p1}, {p2}, b.name, b.head, b.used, b.used_until from {batch} where true
     on conflict (shard, queue, name) do update
        set head = excluded.head, used = excluded.used, used_until = excluded.used_until",
)
.rows(&[("name", Type::Text), ("head", Type::Id), ("used", Type::Text), ("used_until", Type::Int)])
.takes(&[Type::Int, Type::Text]);

static QUEUE_NEXT: Sql = Sql::new(
    "queue_next",
    "select (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and (a.queue, a.priority, a.due_at) > ({p2}, b.priority, {now})
                and (a.queue, a.priority, a.due_at) <= ({p2}, b.priority, {now} + {p4})
                and a.due_at is not null and a.code {in:p3}
              order by a.queue, a.priority, a.due_at limit 1)
       from {batch}",
)
.on_sqlite(
    "select (select a.due_at from outlast.agenda as a
              where a.shard = {p1} and a.queue = {p2} and a.priority = {b:priority}
                and a.due_at > {now} and a.due_at <= {now} + {p4} and a.code {in:p3} order by a.due_at limit 1)",
)
.rows(&[("priority", Type::Int)])
.takes(&[Type::Int, Type::Text, Type::Texts, Type::Int])
.by("agenda_due");
