//! A play: runs and nodes as a story leaves them, and the way from any of a run's reasons to its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Entry, NodeId, Op, Phase, RunId, Status, Timestamp, Wait, WaitOn, Why};
use outlast_store::{
    Address, Batch, Claim, Claimed, Control, Delivery, Due, Ended, NewsKind, Next, NodeCard, QueueClaim,
    Renew, RunCommit,
};
use outlast_testkit::{LEASE, QUEUE, TABLES, World, card, event, payload, settlement};

use crate::stage::{failed_attempt, open, open_until, why};

pub(crate) const QUEUES: [&str; 3] = [QUEUE, "line", "aside"];
pub(crate) const NODES: usize = 3;
/// The last one is known to one node only.
const CODES: [&str; 4] = ["order", "mail", "ship", "rare"];
const GROUPS: [Option<&str>; 3] = [None, Some("a"), Some("b")];
/// How many wakes in a row a run needs at most before it has ended.
const WAKES: usize = 60;
const DEPTH: usize = 20;
const SHORT: Duration = Duration::from_secs(7);

/// How a turn ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Complete,
    Suspend { event: bool, promise: bool, child: bool, sleep: bool },
    StepFails,
    Retry,
    Release,
    Block,
}

/// A turn in a node's hands.
#[derive(Debug, Clone)]
struct Turn {
    node: NodeId,
    claimed: Claimed,
}

pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) runs: Vec<RunId>,
    pub(crate) seen: BTreeSet<&'static str>,
    /// Nodes by their place; those that died stay until another takes it.
    nodes: BTreeMap<usize, (NodeCard, bool)>,
    turns: HashMap<RunId, Turn>,
    /// The waits that each run has opened and not ended: by operation, name in the journal, and until when.
    opened: HashMap<RunId, Vec<(Op, String, Option<Timestamp>)>>,
    written: HashMap<RunId, u32>,
    /// Who started whom, by which operation.
    parents: HashMap<RunId, (RunId, String)>,
    has_died: bool,
    waited: BTreeSet<RunId>,
    renewed_at: Timestamp,
    /// Until when a node that died may be taken for alive.
    haunted_until: Timestamp,
}

impl Play {
    /// A world with two nodes, and a few runs in line.
    pub(crate) async fn begin(world: &World) -> Play {
        let mut tx = world.begin().await;
        for (table, _) in TABLES.iter().filter(|(table, _)| !["meta", "migrations"].contains(table)) {
            tx.execute(&world.named(&format!("delete from outlast.{table}")), &[]).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut play = Play {
            world: world.clone(),
            runs: Vec::new(),
            seen: BTreeSet::new(),
            nodes: BTreeMap::new(),
            turns: HashMap::new(),
            opened: HashMap::new(),
            written: HashMap::new(),
            parents: HashMap::new(),
            has_died: false,
            waited: BTreeSet::new(),
            renewed_at: world.now().await,
            haunted_until: Timestamp::default(),
        };
        play.join(0).await;
        play.join(2).await;
        for (code, group) in [(0, 1), (1, 1), (0, 2)] {
            play.start(code, "line", group, false, false).await;
        }
        play
    }

    // ---- nodes

    /// The first node serves all queues but one, the second only the usual, the third all and knows all.
    pub(crate) async fn join(&mut self, place: usize) {
        if self.nodes.get(&place).is_some_and(|(_, alive)| *alive) {
            return;
        }
        let (codes, queues): (&[&str], &[&str]) = match place {
            0 => (&["order@1", "mail@1", "ship@1"], &[QUEUE, "line"]),
            1 => (&["order@1", "mail@1", "ship@1"], &[QUEUE]),
            _ => (&["order@1", "mail@1", "ship@1", "rare@1"], &QUEUES),
        };
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let card = NodeCard { queues, ..card(&format!("node-{place}"), codes) };
        self.world.store().join(&card).await.unwrap();
        self.nodes.insert(place, (card, true));
    }

    /// It renews no more; whatever it has stays with it until somebody looks.
    pub(crate) async fn die(&mut self, place: usize) {
        if let Some((_, alive)) = self.nodes.get_mut(&place) {
            *alive = false;
            self.haunted_until = self.world.now().await + LEASE;
        }
    }

    pub(crate) async fn leave(&mut self, place: usize) {
        if let Some((card, true)) = self.nodes.remove(&place) {
            self.world.store().leave(card.id).await.unwrap();
        }
    }

    /// Who lives renews its lease, and joins anew where it was found dead.
    pub(crate) async fn renew(&mut self) {
        let now = self.world.now().await;
        if now.since(self.renewed_at) < LEASE / 4 {
            return;
        }
        self.renewed_at = now;
        for place in 0..NODES {
            let Some((card, true)) = self.nodes.get(&place).cloned() else { continue };
            let ask = Renew { node: card.id, lease: LEASE, settled: 0, known: Vec::new() };
            if !self.world.store().renew(&ask).await.unwrap().alive {
                self.nodes.remove(&place);
                self.join(place).await;
            }
        }
    }

    pub(crate) async fn sweep(&mut self, blocks: bool) {
        let unknown_after = if blocks { Duration::from_secs(10) } else { Duration::from_secs(1 << 30) };
        self.world.sweep_unknown_after(unknown_after).await;
    }

    pub(crate) async fn pass(&mut self, time: Duration) {
        self.world.pass(time).await;
    }

    async fn pass_until(&mut self, time: Timestamp) {
        let left = time.since(self.world.now().await);
        if !left.is_zero() {
            self.world.pass(left).await;
        }
        self.renew().await;
    }

    // ---- runs

    pub(crate) async fn start(&mut self, code: usize, queue: &str, group: usize, later: bool, bounded: bool) {
        let due = if later { Due::After(SHORT) } else { Due::Now };
        let mut starting = self.world.start(CODES[code]).queue(queue).due(due);
        if CODES[code] == "mail" {
            starting = starting.job();
        }
        if let Some(group) = GROUPS[group] {
            starting = starting.group(group);
        }
        let timeout = bounded.then_some(SHORT * 4);
        self.runs.push(starting.with(|run| run.timeout = timeout).await.id);
    }

    pub(crate) async fn unfinished(&self) -> u64 {
        self.world.count("select count(*) from outlast.agenda").await as u64
    }

    fn nth(&self, n: usize) -> Option<RunId> {
        (!self.runs.is_empty()).then(|| self.runs[n % self.runs.len()])
    }

    pub(crate) fn nth_turn(&self, n: usize) -> Option<RunId> {
        let mut held: Vec<RunId> = self.turns.keys().copied().collect();
        held.sort();
        (!held.is_empty()).then(|| held[n % held.len()])
    }

    pub(crate) async fn send_to(&mut self, run: usize) {
        if let Some(run) = self.nth(run) {
            self.world.deliver(&event(Address::Run(run), "go", "now")).await;
        }
    }

    pub(crate) async fn settle_of(&mut self, run: usize) {
        if let Some(run) = self.nth(run) {
            self.world.deliver(&settlement(Address::Run(run), "paid", "now")).await;
        }
    }

    pub(crate) async fn cancel(&mut self, run: usize) {
        if let Some(run) = self.nth(run) {
            self.world.cancel(run, "a story").await;
        }
    }

    /// Asks something of a run.
    pub(crate) async fn ask(&mut self, run: usize, what: impl FnOnce(Address) -> Control) {
        if let Some(run) = self.nth(run) {
            self.world.control(&what(Address::Run(run))).await;
        }
    }

    /// Claims as an engine does: from queues with rules by themselves, and no more of those than a node may have.
    pub(crate) async fn claim(&mut self, place: usize, limit: u32) {
        let Some((card, true)) = self.nodes.get(&place).cloned() else { return };
        let codes: Vec<String> = card.definitions.iter().map(|known| format!("{}@1", known.name)).collect();
        let rules = self.world.store().queues().await.unwrap();
        let managed = |queue: &str| rules.iter().find(|card| card.name == queue && card.is_managed());
        let mut claimed = Vec::new();
        for queue in &card.queues {
            if let Some(rules) = managed(queue) {
                let mut limit = limit;
                if let Some(most) = rules.rules.per_node {
                    let held = self.held_by(card.id, queue).await;
                    limit = limit.min(most.saturating_sub(held));
                }
                let (number, codes) = (self.world.number(), codes.clone());
                let ask = QueueClaim { node: card.id, number, queue: queue.clone(), codes, limit };
                claimed.extend(self.world.store().claim_queue(&ask).await.unwrap().runs);
                continue;
            }
            for shard in 0..self.world.shards() {
                let ask = Claim {
                    node: card.id,
                    number: self.world.number(),
                    shard,
                    queues: vec![queue.clone()],
                    codes: codes.clone(),
                    limit,
                    early: Duration::ZERO,
                    from: None,
                };
                claimed.extend(self.world.claim(&ask).await.runs);
            }
        }
        for claimed in claimed {
            self.turns.insert(claimed.id, Turn { node: card.id, claimed });
        }
    }

    async fn held_by(&self, node: NodeId, queue: &str) -> u32 {
        let id = self.world.sql_id(RunId::from_uuid(node.uuid()));
        let sql = format!("select count(*) from outlast.agenda where node = {id} and queue = '{queue}'");
        self.world.count(&sql).await as u32
    }

    /// Ends a turn, after everything that came was handed over as an engine does. Says whether the node still had it.
    pub(crate) async fn end(&mut self, run: RunId, end: End) -> bool {
        let Some(Turn { node, claimed }) = self.turns.remove(&run) else { return false };
        let now = self.world.now().await;
        let mut commit = RunCommit::new(run, claimed.epoch);
        let is_job = claimed.code.starts_with("mail");
        let mut pos = self.written.get(&run).copied().unwrap_or(0);
        let mut next_pos = || {
            pos += 1;
            pos
        };
        let mut open_waits = self.opened.get(&run).cloned().unwrap_or_default();
        let mut stops = false;
        for news in &claimed.inbox {
            stops |= news.kind == NewsKind::Cancel;
            let Some(op) = op_of(news.kind) else { continue };
            let awaits = |(open, name, _): &(Op, String, _)| *open == op && first(name) == news.name;
            if let Some(place) = open_waits.iter().position(awaits) {
                commit.entries.push(done(next_pos(), op, &open_waits.remove(place).1));
                commit.consumed.push(news.seq);
            }
        }
        open_waits.retain(|(op, name, until)| {
            let over = until.is_some_and(|until| until <= now);
            if over {
                commit.entries.push(done(next_pos(), *op, name));
            }
            !over
        });

        let opened_before = self.written.get(&run).copied().unwrap_or(0);
        let numbered =
            |name: &str| if opened_before == 0 { name.to_owned() } else { format!("{name}#{opened_before}") };
        let mut child = None;
        let next = match end {
            _ if stops => finish(Status::Cancelled),
            End::Complete => finish(Status::Completed),
            End::Release => Next::Release,
            End::Block => Next::Block { reason: "the journal does not fit".into() },
            _ if is_job => Next::Retry { after: SHORT, attempt: claimed.attempt + 1 },
            End::Retry => Next::Release,
            End::StepFails => {
                let until = now + SHORT;
                let name = numbered("charge");
                commit.entries.push(failed_attempt(next_pos(), &name, 1, until));
                open_waits.push((Op::Step, name, Some(until)));
                suspend(&open_waits, &claimed)
            }
            End::Suspend { event, promise, child: starts, sleep } => {
                let until = now + SHORT * 2;
                let mut wait = |on, op, name: String, until| {
                    commit.entries.push(open_until(next_pos(), on, &name, until));
                    open_waits.push((op, name, until));
                };
                // Somebody always has to come.
                if event || !(promise || starts || sleep) {
                    wait(WaitOn::Event, Op::Event, numbered("go"), None);
                }
                if promise && opened_before == 0 {
                    wait(WaitOn::Promise, Op::Promise, "paid".into(), None);
                }
                if sleep || (promise && opened_before > 0) {
                    wait(WaitOn::Sleep, Op::Sleep, numbered("sleep"), Some(until));
                }
                if starts {
                    let op = numbered("ship");
                    let starting = self
                        .world
                        .start("ship")
                        .shard(run.shard())
                        .child_of(run, &op)
                        .stops_with_parent()
                        .asked();
                    commit.entries.push(open(next_pos(), WaitOn::Child, &op));
                    open_waits.push((Op::Child, op.clone(), None));
                    child = Some(starting.id);
                    self.parents.insert(starting.id, (run, op));
                    commit.starts.push(starting);
                }
                // What had come before it was waited for is handed over at once.
                for news in &claimed.inbox {
                    let is_taken = commit.consumed.contains(&news.seq);
                    let awaits = |(open, name, _): &(Op, String, _)| {
                        Some(*open) == op_of(news.kind) && first(name) == news.name
                    };
                    if let Some(place) = open_waits.iter().position(awaits).filter(|_| !is_taken) {
                        let (op, name, _) = open_waits.remove(place);
                        commit.entries.push(done(next_pos(), op, &name));
                        commit.consumed.push(news.seq);
                    }
                }
                if open_waits.is_empty() { Next::Release } else { suspend(&open_waits, &claimed) }
            }
        };
        // Who ends tells whoever started it.
        if let (Next::Finish(_), Some((parent, op))) = (&next, self.parents.get(&run)) {
            let (to, kind) = (Address::Run(*parent), NewsKind::Child);
            commit.sends.push(Delivery { kind, ..event(to, op, "done") });
        }
        let last = commit.entries.last().map_or(opened_before, |entry| entry.pos);
        commit.next = Some(next);
        let batch = Batch { node, shard: run.shard(), runs: vec![commit] };
        let answer = self.world.store().commit(batch.into()).await.unwrap()[0];
        let is_ours = answer == outlast_store::Committed::Done;
        if is_ours {
            self.written.insert(run, last);
            self.opened.insert(run, open_waits);
            self.runs.extend(child);
        }
        is_ours
    }

    // ---- from a reason to the end

    /// Brings about what each reason of a run names, until it has ended.
    pub(crate) fn follow(&mut self, run: RunId, depth: usize) -> BoxFuture<'_, ()> {
        async move {
            assert!(depth < DEPTH, "{run} waits for itself");
            let mut told = Vec::new();
            for _ in 0..WAKES {
                self.renew().await;
                let reason = why(&self.world, run).await;
                self.seen.insert(reason.kind());
                if let Why::Ended { .. } = reason {
                    return;
                }
                if let Why::NoWake { detail } = &reason {
                    let journal = self.world.journal(run).await;
                    panic!(
                        "{detail}; after {told:#?} with the journal {journal:?} and {:?}",
                        self.opened.get(&run)
                    );
                }
                self.wake(run, &reason, depth).await;
                self.renew().await;
                let then = why(&self.world, run).await;
                assert_ne!(then, reason, "what it names was brought about, and changed nothing");
                told.push(reason);
            }
            panic!("{run} has not ended after {WAKES} wakes: {told:#?}");
        }
        .boxed()
    }

    /// Brings about what a reason names, and looks whether it is what it says.
    async fn wake(&mut self, run: RunId, reason: &Why, depth: usize) {
        match reason {
            Why::Held { node, .. } => self.free(run, *node).await,
            Why::NodeLost { looked_after, .. } => {
                if !looked_after {
                    self.join(0).await;
                }
                self.sweep(false).await;
                let then = why(&self.world, run).await;
                assert!(!matches!(then, Why::NodeLost { .. } | Why::Held { .. }), "it was freed: {then:?}");
            }
            Why::Blocked { .. } => {
                self.leave(2).await;
                self.join(2).await;
                assert_ne!(self.world.status(run).await, Status::Blocked, "a node with its code joined");
            }
            Why::Paused { .. } => {
                self.world.control(&Control::Resume { run: Address::Run(run) }).await;
                assert_ne!(self.world.status(run).await, Status::Paused, "somebody resumed it");
            }
            Why::Waiting { waits, until } => {
                assert!(!waits.is_empty());
                // Each of them in its turn, so that over many stories every kind is tried.
                let wait = waits[self.written.get(&run).copied().unwrap_or(0) as usize % waits.len()].clone();
                self.answer(run, &wait, depth).await;
                let then = why(&self.world, run).await;
                let is_later = until.is_some_and(|until| wait.until.is_some_and(|own| own > until));
                let waits = matches!(then, Why::Waiting { .. });
                assert!(!waits || is_later, "{wait:?} woke nobody: {then:?}");
            }
            Why::Sleeping { until: at }
            | Why::Retry { at, .. }
            | Why::AfterCrash { at, .. }
            | Why::Later { at }
            | Why::RateSpent { freer_at: at, .. } => {
                let just_before = Timestamp::from_micros(at.micros() - 200_000);
                if just_before > self.world.now().await {
                    self.pass_until(just_before).await;
                    let then = why(&self.world, run).await;
                    assert!(then == *reason || self.world.now().await >= *at, "too early: {then:?}");
                }
                self.pass_until(*at).await;
            }
            Why::NoNode { .. } | Why::NoCode { .. } | Why::NotServed { .. } => {
                self.leave(2).await;
                self.join(2).await;
                let then = why(&self.world, run).await;
                let lacks = matches!(then, Why::NoNode { .. } | Why::NoCode { .. } | Why::NotServed { .. });
                assert!(!lacks, "a node joined that knows and serves all: {then:?}");
            }
            Why::QueuePaused { queue, .. } | Why::QueueDraining { queue, .. } => {
                self.world.change_queue(queue, outlast_store::QueueChange::Resume).await;
            }
            Why::BehindInOrder { head, .. } => {
                self.follow(*head, depth + 1).await;
                let then = why(&self.world, run).await;
                assert!(!matches!(then, Why::BehindInOrder { head: now, .. } if now == *head), "{then:?}");
            }
            Why::QueueFull { by, .. } | Why::GroupFull { by, .. } | Why::NodesFull { by, .. } => {
                assert!(!by.is_empty() && !by.contains(&run), "{reason:?}");
                self.follow(by[0], depth + 1).await;
            }
            Why::Due { .. } => self.take(run).await,
            other => panic!("no story comes to {other:?}"),
        }
    }

    /// Somebody works on it: it ends, or its node dies and it is taken from that.
    async fn free(&mut self, run: RunId, node: NodeId) {
        let is_alive = self.nodes.values().any(|(card, alive)| card.id == node && *alive);
        // Once in every story it is the node's death that frees it.
        let dies = !std::mem::replace(&mut self.has_died, true);
        if is_alive && !dies {
            // Once more from a wait, so that what came before does not count for what comes then.
            let is_job = self.turns.get(&run).is_some_and(|turn| turn.claimed.code.starts_with("mail"));
            let waits = !is_job && self.waited.insert(run);
            let suspend = End::Suspend { event: true, promise: false, child: false, sleep: false };
            if self.end(run, if waits { suspend } else { End::Complete }).await {
                assert!(waits || self.world.status(run).await.is_final());
                return;
            }
        }
        let dead = self.nodes.iter().find(|(_, (card, _))| card.id == node).map(|(place, _)| *place);
        if let Some(place) = dead {
            self.die(place).await;
        }
        self.pass(LEASE + Duration::from_secs(1)).await;
        self.renew().await;
        let then = why(&self.world, run).await;
        assert!(matches!(then, Why::NodeLost { .. }), "its lease is over: {then:?}");
    }

    /// Does what a wait names.
    async fn answer(&mut self, run: RunId, wait: &Wait, depth: usize) {
        match wait.on {
            WaitOn::Event => {
                self.world.deliver(&event(Address::Run(run), &wait.name, "now")).await;
            }
            WaitOn::Promise => {
                self.world.deliver(&settlement(Address::Run(run), &wait.name, "now")).await;
            }
            WaitOn::Child => self.follow(wait.run.expect("a child is named"), depth + 1).await,
            WaitOn::Sleep | WaitOn::Retry => self.pass_until(wait.until.expect("a time is named")).await,
            WaitOn::Stop => drop(self.world.cancel(run, "a story").await),
            other => panic!("{other:?}"),
        }
    }

    /// It is due: whoever may take it does, or takes somebody who comes first.
    async fn take(&mut self, run: RunId) {
        for place in 0..NODES {
            self.claim(place, 100).await;
        }
        if !matches!(why(&self.world, run).await, Why::Due { .. }) {
            return;
        }
        // The only one who could has died, which nobody can know before its lease ends.
        let now = self.world.now().await;
        assert!(
            now <= self.haunted_until,
            "{run} was due, and neither it was taken nor somebody who comes first"
        );
        self.pass_until(self.haunted_until + Duration::from_secs(1)).await;
    }
}

/// What kind of wait a message answers.
fn op_of(kind: NewsKind) -> Option<Op> {
    match kind {
        NewsKind::Event => Some(Op::Event),
        NewsKind::Settled | NewsKind::Rejected => Some(Op::Promise),
        NewsKind::Child => Some(Op::Child),
        NewsKind::Cancel | NewsKind::Skip => None,
    }
}

fn suspend(waits: &[(Op, String, Option<Timestamp>)], claimed: &Claimed) -> Next {
    Next::Suspend { wake_at: waits.iter().filter_map(|(.., until)| *until).min(), seen: claimed.news }
}

fn finish(status: Status) -> Next {
    Next::Finish(Ended { status, output: Some(payload("done")), error: None })
}

fn done(pos: u32, op: Op, name: &str) -> Entry {
    Entry {
        pos,
        op,
        phase: Phase::Done,
        name: name.into(),
        at: Timestamp::default(),
        took: None,
        body: Some(payload("now")),
    }
}

/// The name without its occurrence; a child is told of by its whole name.
fn first(name: &str) -> &str {
    match name.split_once('#') {
        Some(("ship", _)) | None => name,
        Some((first, _)) => first,
    }
}
