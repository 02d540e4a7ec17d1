//! Puts messages into inboxes: what deliver, commit (sends) and control (cancel) share.
//!
//! `news` in a run's row is the number of its last message. It is counted up under the row's lock and is
//! the message's place in the inbox, so that a suspension which says what it has seen compares two
//! numbers and never misses a message: it either sees the number or the message sees it waiting.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{Limits, Payload, RunId, ShardCount, Status, Timestamp};

use super::agenda::AgendaRow;
use super::flight::{Answers, Flight, Place};
use super::keys::{self, KeyName, KeyRow};
use crate::rows::{ReadRow, cells, ids, payload_cells};
use crate::{Address, Cell, Delivered, Delivery, NewsKind, Signal, Sql, StoreError, Tx, Type};

/// Whom an address names.
#[derive(Debug, Clone)]
pub(crate) enum Receiver {
    /// A run, by its id or by a key that it was started with.
    Run(RunId),
    /// A key that nobody has started yet: messages lie under the id reserved for it.
    Reserved(KeyName, RunId),
}

impl Receiver {
    /// The receiver's id.
    pub(crate) fn run(&self) -> RunId {
        match self {
            Receiver::Run(run) | Receiver::Reserved(_, run) => *run,
        }
    }
}

/// The keys among `addresses`, each with an id of about `now` to reserve if it has none.
pub(crate) fn keys_of<'a>(
    now: Timestamp,
    addresses: impl IntoIterator<Item = &'a Address>,
    shards: ShardCount,
) -> BTreeMap<KeyName, RunId> {
    let names = addresses.into_iter().filter_map(|address| key_of(address, shards));
    let reserved = names.map(|name| (RunId::new(name.shard, now, fastrand::u64(..)), name));
    reserved.map(|(run, name)| (name, run)).collect()
}

/// The key that an address is, if it is one.
pub(crate) fn key_of(address: &Address, shards: ShardCount) -> Option<KeyName> {
    match address {
        Address::Run(_) => None,
        Address::Key { tenant, definition, key } => Some(KeyName::new(tenant, definition, key, shards)),
    }
}

/// Whom an address names, given the keys' rows.
pub(crate) fn receiver(
    address: &Address,
    keys: &HashMap<KeyName, KeyRow>,
    shards: ShardCount,
) -> Result<Receiver, StoreError> {
    let name = match address {
        Address::Run(run) => return Ok(Receiver::Run(*run)),
        Address::Key { tenant, definition, key } => KeyName::new(tenant, definition, key, shards),
    };
    let row = keys::held(keys, &name)?;
    Ok(if row.started { Receiver::Run(row.run) } else { Receiver::Reserved(name, row.run) })
}

/// Messages on their way into the inboxes of runs (and keys) that this transaction has locked.
#[derive(Default)]
pub(crate) struct Post {
    /// The locked rows, as they will be after this.
    pub(crate) runs: HashMap<RunId, AgendaRow>,
    /// How many messages lie under locked keys that nobody has started, as it will be after this.
    reserved: HashMap<KeyName, i64>,
    /// Promises that are settled.
    pub(crate) settled: HashSet<(RunId, String)>,
    /// How many messages a run has not read, where that may be too many.
    pub(crate) unread: HashMap<RunId, i64>,
    inbox: BTreeMap<u16, Vec<Vec<Cell>>>,
    promises: BTreeMap<u16, Vec<Vec<Cell>>>,
    /// Runs whose row changes: whether they become due.
    touched: BTreeMap<RunId, bool>,
    touched_keys: BTreeMap<KeyName, i64>,
}

impl Post {
    /// To these runs, which are locked.
    pub(crate) fn to(runs: HashMap<RunId, AgendaRow>) -> Post {
        Post { runs, ..Post::default() }
    }

    /// And to those of `keys`, which are locked, that nobody has started.
    pub(crate) fn reserve(&mut self, keys: &HashMap<KeyName, KeyRow>) {
        let open = keys.iter().filter(|(_, row)| !row.started);
        self.reserved.extend(open.map(|(name, row)| (name.clone(), row.news)));
    }

    /// Takes one message to a receiver that is locked (a run that has ended is none). `settles` names the
    /// promise that it settles, if it is such a message.
    pub(crate) fn take(&mut self, message: &Delivery, settles: &str, to: &Receiver) -> Delivered {
        let run = to.run();
        if is_settlement(message.kind) && self.settled.contains(&(run, settles.to_owned())) {
            return Delivered::AlreadySettled { run };
        }
        let limit = Limits::INBOX;
        // A child's end and a cancellation are bounded by themselves and must not get lost.
        let bounded = matches!(message.kind, NewsKind::Event | NewsKind::Settled | NewsKind::Rejected);
        if bounded && self.unread(to) >= i64::from(limit) {
            return Delivered::Full { run, limit };
        }
        if is_settlement(message.kind) {
            self.settled.insert((run, settles.to_owned()));
            self.promises.entry(run.shard()).or_default().push(cells![run, settles]);
        }
        self.put(to, message.kind, &message.name, message.body.as_ref());
        Delivered::Done { run }
    }

    /// Puts a message into an inbox and wakes a run that waits.
    pub(crate) fn put(&mut self, to: &Receiver, kind: NewsKind, name: &str, body: Option<&Payload>) {
        let run = to.run();
        let seq = match to {
            Receiver::Run(_) => {
                let Some(row) = self.runs.get_mut(&run) else { return };
                row.news += 1;
                let wakes = row.status == Status::Waiting;
                if wakes {
                    row.status = Status::Ready;
                }
                *self.touched.entry(run).or_default() |= wakes;
                row.news
            }
            Receiver::Reserved(key, _) => {
                let news = self.reserved.entry(key.clone()).or_default();
                *news += 1;
                self.touched_keys.insert(key.clone(), *news);
                *news
            }
        };
        *self.unread.entry(run).or_insert(seq - 1) += 1;
        let (codec, bytes) = payload_cells(body);
        self.inbox.entry(run.shard()).or_default().push(cells![run, seq, kind, name, codec, bytes]);
    }

    /// Makes a run due now.
    pub(crate) fn wake(&mut self, run: RunId) {
        self.touched.insert(run, true);
    }

    /// Leaves it to the caller to hand a run that was woken to somebody: it is not due, and nobody is told.
    pub(crate) fn hand_over(&mut self, run: RunId) {
        self.touched.insert(run, false);
    }

    /// Receivers whose unread messages have to be counted: with all of these there may be too many.
    pub(crate) fn doubtful(&self, to: &[&Receiver]) -> Vec<RunId> {
        let room = i64::from(Limits::INBOX) - to.len() as i64;
        to.iter().filter(|to| self.unread(to) >= room).map(|to| to.run()).collect()
    }

    /// How many messages it has not read; without a count, no more than were ever sent.
    fn unread(&self, to: &Receiver) -> i64 {
        let sent = || match to {
            Receiver::Run(run) => self.runs.get(run).map_or(0, |row| row.news),
            Receiver::Reserved(key, _) => self.reserved.get(key).copied().unwrap_or_default(),
        };
        self.unread.get(&to.run()).copied().unwrap_or_else(sent)
    }

    /// Adds the statements that make it so, and notes whom to tell.
    pub(crate) fn add(self, flight: &mut Flight, tx: &mut dyn Tx) {
        for (shard, rows) in self.inbox {
            flight.each(&INBOX_PUT, rows, cells![shard]);
        }
        for (shard, rows) in self.promises {
            flight.each(&PROMISES_SETTLE, rows, cells![shard]);
        }
        keys::add_news(flight, &self.touched_keys);
        let mut touched: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
        for (run, wakes) in self.touched {
            let Some(row) = self.runs.get(&run) else { continue };
            let cells = cells![run, row.news, row.status, i64::from(wakes)];
            touched.entry(run.shard()).or_default().push(cells);
            match row.status {
                Status::Running => tx.signal(Signal::News(run)),
                _ if wakes => tx.signal(Signal::Due),
                _ => {}
            }
        }
        for (shard, rows) in touched {
            flight.each(&AGENDA_TELL, rows, cells![shard]);
        }
    }
}

/// Whether a message settles a promise.
pub(super) fn is_settlement(kind: NewsKind) -> bool {
    matches!(kind, NewsKind::Settled | NewsKind::Rejected)
}

/// Adds looks at which of the promises that `messages` settle are settled already.
pub(crate) fn add_settled<'a>(
    flight: &mut Flight,
    messages: impl IntoIterator<Item = (&'a Delivery, RunId)>,
) -> Vec<Place> {
    let mut shards: BTreeMap<u16, Vec<Vec<Cell>>> = BTreeMap::new();
    for (message, run) in messages.into_iter().filter(|(message, _)| is_settlement(message.kind)) {
        shards.entry(run.shard()).or_default().push(cells![run, &*message.name]);
    }
    shards.into_iter().filter_map(|(shard, rows)| flight.each(&PROMISES_LOOK, rows, cells![shard])).collect()
}

/// The promises that the looks at `places` found settled.
pub(crate) fn settled(
    answers: &mut Answers,
    places: &[Place],
) -> Result<HashSet<(RunId, String)>, StoreError> {
    let mut settled = HashSet::new();
    for place in places {
        for row in answers.take(*place) {
            settled.insert((row.run(0)?, row.text(1)?));
        }
    }
    Ok(settled)
}

/// Counts unread messages, in a flight of its own that is hardly ever needed.
pub(crate) async fn count_unread(tx: &mut dyn Tx, runs: &[RunId]) -> Result<HashMap<RunId, i64>, StoreError> {
    let mut counts: HashMap<RunId, i64> = runs.iter().map(|run| (*run, 0)).collect();
    if runs.is_empty() {
        return Ok(counts);
    }
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for (shard, runs) in super::agenda::by_shard(runs.iter().copied()) {
        places.push(flight.add(INBOX_COUNT.with(cells![shard, ids(&runs)])));
    }
    let mut answers = flight.send(tx).await?;
    for place in places {
        for row in answers.take(place) {
            counts.insert(row.run(0)?, row.int(1)?);
        }
    }
    Ok(counts)
}

pub(crate) static STATEMENTS: &[&Sql] =
    &[&INBOX_PUT, &PROMISES_SETTLE, &PROMISES_LOOK, &AGENDA_TELL, &INBOX_COUNT];

static INBOX_PUT: Sql = Sql::new(
    "inbox_put",
    "insert into outlast.inbox (shard, run, seq, kind, name, sent_at, codec, body)
     select {p1}, b.run, b.seq, b.kind, b.name, {now}, b.codec, b.body from {batch} where true",
)
.on_sqlite(
    "insert into outlast.inbox (shard, run, seq, kind, name, sent_at, codec, body)
     values ({p1}, {b:run}, {b:seq}, {b:kind}, {b:name}, {now}, {b:codec}, {b:body})",
)
.rows(&[
    ("run", Type::Id),
    ("seq", Type::Int),
    ("kind", Type::Int),
    ("name", Type::Text),
    ("codec", Type::Text),
    ("body", Type::Bytes),
])
.takes(&[Type::Int]);

static PROMISES_SETTLE: Sql = Sql::new(
    "promises_settle",
    "insert into outlast.promises (shard, run, name, settled_at)
     select {p1}, b.run, b.name, {now} from {batch} where true on conflict do nothing",
)
.rows(&[("run", Type::Id), ("name", Type::Text)])
.takes(&[Type::Int]);

static PROMISES_LOOK: Sql = Sql::new(
    "promises_look",
    "select p.run, p.name from {batch} cross join outlast.promises as p
      where p.shard = {p1} and p.run = b.run and p.name = b.name",
)
.rows(&[("run", Type::Id), ("name", Type::Text)])
.takes(&[Type::Int]);

// A run that is due already keeps its place in line.
static AGENDA_TELL: Sql = Sql::new(
    "agenda_tell",
    "update outlast.agenda as a set news = b.news, status = b.status,
            due_at = case when b.wakes = 1 and (a.due_at is null or a.due_at > {now}) then {now}
                          else a.due_at end
       from {batch} where a.shard = {p1} and a.id = b.id",
)
// An update from other rows has SQLite make a table of them first.
.on_sqlite(
    "update outlast.agenda set news = {b:news}, status = {b:status},
            due_at = case when {b:wakes} = 1 and (due_at is null or due_at > {now}) then {now} else due_at end
      where shard = {p1} and id = {b:id}",
)
.rows(&[("id", Type::Id), ("news", Type::Int), ("status", Type::Int), ("wakes", Type::Int)])
.takes(&[Type::Int]);

static INBOX_COUNT: Sql = Sql::new(
    "inbox_count",
    "select c.run, count(*) from unnest({p2}) as k(run) cross join lateral (
         select i.run from outlast.inbox as i where i.shard = {p1} and i.run = k.run offset 0) as c
      group by c.run",
)
.on_sqlite(
    "select i.run, count(*) from outlast.inbox as i where i.shard = {p1} and i.run {in:p2} group by i.run",
)
.takes(&[Type::Int, Type::Ids]);
