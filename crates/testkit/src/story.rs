//! The things a story is about: a run to start, a run, a turn, and what a turn writes.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use outlast_core::{Entry, NodeId, Op, Payload, Phase, RunId, Status, Timestamp, shard_of_key};
use outlast_store::{
    Address, Claimed, Clash, Delivery, Doing, Due, Ended, Hold, LogLine, NewRun, NewsKind, Next, Parent,
    RunCommit, RunKind, Scope, Started, Unique, code,
};
use serde::Serialize;
use uuid::Uuid;

use crate::{QUEUE, World};

/// A run that is about to start: awaited, it does.
#[derive(Debug, Clone)]
#[must_use = "a run starts when this is awaited"]
pub struct Starting {
    world: World,
    run: NewRun,
}

impl Starting {
    pub(crate) fn new(world: &World, definition: &str) -> Starting {
        let shard = world.any_shard();
        let run = NewRun {
            id: RunId::new(shard, world.clock().local_now(), fastrand::u64(..)),
            kind: RunKind::Workflow,
            tenant: String::new(),
            definition: definition.into(),
            version: 1,
            key: None,
            queue: QUEUE.into(),
            priority: 5,
            due: Due::Now,
            timeout: None,
            input: payload("input"),
            owner: None,
            roles: Vec::new(),
            tags: Vec::new(),
            trace: None,
            group: None,
            unique: None,
            parent: None,
            stops_with_parent: false,
        };
        Starting { world: world.clone(), run }
    }

    /// In this shard.
    pub fn shard(mut self, shard: u16) -> Starting {
        self.run.id =
            RunId::new(shard % self.world.shards(), self.world.clock().local_now(), fastrand::u64(..));
        self
    }

    /// With this key, in the key's shard.
    pub fn key(mut self, key: &str) -> Starting {
        self.run.key = Some(key.into());
        self.in_shard_of_key()
    }

    /// Of this tenant.
    pub fn tenant(mut self, tenant: &str) -> Starting {
        self.run.tenant = tenant.into();
        self.in_shard_of_key()
    }

    /// Called with this.
    pub fn input(mut self, input: impl Serialize) -> Starting {
        self.run.input = payload(input);
        self
    }

    /// In this queue.
    pub fn queue(mut self, queue: &str) -> Starting {
        self.run.queue = queue.into();
        self
    }

    /// In this group of its queue.
    pub fn group(mut self, group: &str) -> Starting {
        self.run.group = Some(group.into());
        self
    }

    /// The only one of its kind, in the kind's shard.
    pub fn unique(mut self, key: &str, scope: Scope, clash: Clash) -> Starting {
        let shard = shard_of_key(&self.run.tenant, &self.run.definition, key, self.world.shards());
        self.run.unique = Some(Unique { key: key.into(), scope, clash });
        self.shard(shard)
    }

    /// As a job.
    pub fn job(mut self) -> Starting {
        self.run.kind = RunKind::Job;
        self
    }

    /// With this priority.
    pub fn priority(mut self, priority: u8) -> Starting {
        self.run.priority = priority;
        self
    }

    /// Pinned to this version.
    pub fn version(mut self, version: u32) -> Starting {
        self.run.version = version;
        self
    }

    /// Due then.
    pub fn due(mut self, due: Due) -> Starting {
        self.run.due = due;
        self
    }

    /// Due this long from now.
    pub fn delayed(self, delay: Duration) -> Starting {
        self.due(Due::After(delay))
    }

    /// With this attribute.
    pub fn tag(mut self, name: &str, value: &str) -> Starting {
        self.run.tags.push((name.into(), value.into()));
        self
    }

    /// As a child of this run, whose operation `op` waits for its end.
    pub fn child_of(mut self, parent: RunId, op: &str) -> Starting {
        self.run.parent = Some(Parent { run: parent, op: Some(op.into()) });
        self
    }

    /// Asked to stop when its parent does not end well.
    pub fn stops_with_parent(mut self) -> Starting {
        self.run.stops_with_parent = true;
        self
    }

    /// Changed in some other way.
    pub fn with(mut self, change: impl FnOnce(&mut NewRun)) -> Starting {
        change(&mut self.run);
        self
    }

    /// What the store would be asked for.
    pub fn asked(self) -> NewRun {
        self.run
    }

    /// Starts it and gives whatever the store answers.
    pub async fn answer(self) -> Started {
        self.answer_held(None).await
    }

    /// Starts it with a hold and gives whatever the store answers.
    pub async fn answer_held(self, hold: Option<Hold>) -> Started {
        let started = self.world.store().start(&[self.run], hold).await;
        started.expect("a run starts").pop().expect("an answer for a run")
    }

    /// Starts it and has the node hold it at once.
    pub async fn held_by(self, node: &str) -> Turn {
        let node = self.world.node(node).await;
        let hold = Hold { node, claim: self.world.number() };
        let (world, run) = (self.world.clone(), self.run.clone());
        let answer = self.answer_held(Some(hold)).await;
        assert_eq!(answer, Started::Created { id: run.id, held: true });
        let claimed = Claimed {
            id: run.id,
            epoch: 1,
            priority: run.priority,
            due_at: world.now().await,
            code: code(&run.definition, run.version),
            attempt: 1,
            crashes: 0,
            expires_at: None,
            news: 0,
            inbox: Vec::new(),
        };
        Turn::new(&world, node, claimed)
    }

    fn in_shard_of_key(self) -> Starting {
        let NewRun { tenant, definition, key, .. } = &self.run;
        let Some(key) = key else { return self };
        let shard = shard_of_key(tenant, definition, key, self.world.shards());
        self.shard(shard)
    }
}

impl IntoFuture for Starting {
    type Output = Run;
    type IntoFuture = Pin<Box<dyn Future<Output = Run> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let world = self.world.clone();
            match self.answer().await {
                Started::Created { id, .. } => Run { id, world },
                other => panic!("a run starts, not {other:?}"),
            }
        })
    }
}

/// A run that was started.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    world: World,
}

impl Run {
    /// The node claims it; it is the most urgent run of its shard.
    pub async fn claimed_by(&self, node: &str) -> Turn {
        let ask = self.world.ask(node, self.id.shard()).await;
        let claimed = self.world.claim(&ask).await.runs.pop().expect("the run is due");
        assert_eq!(claimed.id, self.id, "another run was more urgent");
        Turn::new(&self.world, ask.node, claimed)
    }
}

/// A run in the hands of a node.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub run: RunId,
    /// Its fence.
    pub epoch: i64,
    /// Who holds it.
    pub node: NodeId,
    /// Everything that the claim told.
    pub claimed: Claimed,
    world: World,
}

impl Turn {
    /// What a claim gave to a node.
    pub fn new(world: &World, node: NodeId, claimed: Claimed) -> Turn {
        Turn { run: claimed.id, epoch: claimed.epoch, node, claimed, world: world.clone() }
    }

    /// The same turn in the hands of another node.
    pub fn of_node(self, node: NodeId) -> Turn {
        Turn { node, ..self }
    }

    /// The same turn with another fence.
    pub fn of_epoch(self, epoch: i64) -> Turn {
        Turn { epoch, ..self }
    }

    /// Nothing yet: add what it writes.
    pub fn writes(&self) -> Writing {
        Writing { node: self.node, commit: RunCommit::new(self.run, self.epoch) }
    }

    /// One step that was done.
    pub fn records(&self, pos: u32, name: &str) -> Writing {
        self.writes().entry(pos, name)
    }

    /// The end, with this output.
    pub fn complete(&self, output: &str) -> Writing {
        self.writes().complete(output)
    }

    /// The wait for news beyond what it was given.
    pub fn suspend(&self) -> Writing {
        self.writes().suspend(self.claimed.news)
    }

    /// The wait for news or a time.
    pub fn suspend_until(&self, wake_at: Timestamp) -> Writing {
        self.writes().next(Next::Suspend { wake_at: Some(wake_at), seen: self.claimed.news })
    }

    /// Another attempt after a pause.
    pub fn retry(&self, after: Duration, attempt: u32) -> Writing {
        self.writes().next(Next::Retry { after, attempt })
    }

    /// The run handed back.
    pub fn release(&self) -> Writing {
        self.writes().next(Next::Release)
    }

    /// The code that does not fit.
    pub fn block(&self, reason: &str) -> Writing {
        self.writes().next(Next::Block { reason: reason.into() })
    }

    /// Suspends it for good: the store has to wake it.
    pub async fn suspended(&self) {
        let committed = self.world.commit(self.suspend()).await;
        assert_eq!(committed, outlast_store::Committed::Done);
    }

    /// Completes it for good.
    pub async fn completed(&self, output: &str) {
        let committed = self.world.commit(self.complete(output)).await;
        assert_eq!(committed, outlast_store::Committed::Done);
    }
}

/// What a turn hands to the committer.
#[derive(Debug, Clone)]
#[must_use = "nothing is written before it is committed"]
pub struct Writing {
    /// Who writes.
    pub node: NodeId,
    /// What.
    pub commit: RunCommit,
}

impl Writing {
    /// And a step that was done.
    pub fn entry(self, pos: u32, name: &str) -> Writing {
        self.with(|commit| commit.entries.push(step(pos, name)))
    }

    /// And the news with these numbers leave the inbox.
    pub fn consumes(self, news: &[i64]) -> Writing {
        self.with(|commit| commit.consumed.extend(news))
    }

    /// And a child starts.
    pub fn starts(self, child: Starting) -> Writing {
        self.with(|commit| commit.starts.push(child.asked()))
    }

    /// And a message goes out.
    pub fn sends(self, message: Delivery) -> Writing {
        self.with(|commit| commit.sends.push(message))
    }

    /// And entries below leave the journal.
    pub fn prunes_below(self, pos: u32) -> Writing {
        self.with(|commit| commit.prunes = Some(0..pos))
    }

    /// And a step has been running for a while.
    pub fn doing(self, name: &str, attempt: u32, saved: Option<&str>) -> Writing {
        let saved = saved.map(payload);
        self.with(|commit| commit.doing.push(Doing { name: name.into(), attempt, saved, ..Doing::default() }))
    }

    /// And a line was logged.
    pub fn logs(self, n: u32, message: &str) -> Writing {
        self.logs_in(None, n, message)
    }

    /// And a step logged a line.
    pub fn logs_in(self, step: Option<&str>, n: u32, message: &str) -> Writing {
        let step = step.map(str::to_owned);
        let (at, level) = (Timestamp::default(), "info".to_owned());
        let line = LogLine { epoch: 0, n, at, level, message: message.into(), step };
        self.with(|commit| commit.logs.push(line))
    }

    /// And an attribute is set.
    pub fn tag(self, name: &str, value: &str) -> Writing {
        self.with(|commit| commit.tags.push((name.into(), value.into())))
    }

    /// And then the end, with this output.
    pub fn complete(self, output: &str) -> Writing {
        let output = Some(payload(output));
        self.next(Next::Finish(Ended { status: Status::Completed, output, error: None }))
    }

    /// And then the wait for news beyond `seen`.
    pub fn suspend(self, seen: i64) -> Writing {
        self.next(Next::Suspend { wake_at: None, seen })
    }

    /// And then this.
    pub fn next(self, next: Next) -> Writing {
        self.with(|commit| commit.next = Some(next))
    }

    /// Changed in some other way.
    pub fn with(mut self, change: impl FnOnce(&mut RunCommit)) -> Writing {
        change(&mut self.commit);
        self
    }
}

/// A value as JSON.
pub fn payload(value: impl Serialize) -> Payload {
    let json = serde_json::to_vec(&value).expect("a value that is JSON");
    Payload { codec: None, bytes: json.into() }
}

/// A step that was done, with its name as its result.
pub fn step(pos: u32, name: &str) -> Entry {
    let body = Some(payload(name));
    Entry {
        pos,
        op: Op::Step,
        phase: Phase::Done,
        name: name.into(),
        at: Timestamp::default(),
        took: None,
        body,
    }
}

/// A run named by its key, of no tenant.
pub fn key(definition: &str, key: &str) -> Address {
    Address::Key { tenant: String::new(), definition: definition.into(), key: key.into() }
}

/// An event.
pub fn event(to: Address, name: &str, body: &str) -> Delivery {
    message(to, NewsKind::Event, name, body)
}

/// The value of a promise.
pub fn settlement(to: Address, name: &str, body: &str) -> Delivery {
    message(to, NewsKind::Settled, name, body)
}

/// The failure of a promise.
pub fn rejection(to: Address, name: &str, body: &str) -> Delivery {
    message(to, NewsKind::Rejected, name, body)
}

fn message(to: Address, kind: NewsKind, name: &str, body: &str) -> Delivery {
    let id = Uuid::from_u128(fastrand::u128(..));
    Delivery { id, to, kind, name: name.into(), body: Some(payload(body)) }
}
