//! Queues: named lines of runs, and what each allows.

use std::time::Duration;

use outlast_core::{Error, QueueRules, Rate, check_name, check_named};
use outlast_store::{Control, Controlled, QueueCard, QueueChange, QueueView};

use crate::client::repeated;
use crate::{Client, bulk};

/// What a queue allows: given to [`Outlast::queue`](crate::Outlast::queue).
///
/// Without any rule a queue is plain: whatever is due goes, the most urgent first. A limit holds over all nodes and
/// is never exceeded, also not when a node dies: who runs is counted, and a run that is somebody else's, waits or has
/// ended counts no more. Groups are what runs say they belong to ([`Start::group`](crate::Start::group)); without one
/// a run is in the group of its tenant.
///
/// ```
/// use outlast::prelude::*;
/// let mail = Queue::new("mail").limit(20).per_group(2).rate(500, 1.minute());
/// let ledger = Queue::new("ledger").ordered();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    name: String,
    rules: QueueRules,
}

impl Queue {
    /// The queue of this name.
    pub fn new(name: impl Into<String>) -> Queue {
        Queue { name: name.into(), rules: QueueRules::default() }
    }

    /// At most so many of its runs run at once, on all nodes together.
    pub fn limit(mut self, runs: u32) -> Queue {
        self.rules.limit = Some(runs);
        self
    }

    /// At most so many of its runs run at once on one node.
    pub fn per_node(mut self, runs: u32) -> Queue {
        self.rules.per_node = Some(runs);
        self
    }

    /// At most so many runs of one group run at once, on all nodes together. Groups take turns.
    pub fn per_group(mut self, runs: u32) -> Queue {
        self.rules.per_group = Some(runs);
        self
    }

    /// At most so many begin in any span of this length: attempts of jobs, starts of workflows. What only goes on is
    /// not counted, but stands in line like the rest.
    pub fn rate(mut self, runs: u32, per: Duration) -> Queue {
        self.rules.rate = Some(Rate::new(runs, per));
        self
    }

    /// The same for each group.
    pub fn rate_per_group(mut self, runs: u32, per: Duration) -> Queue {
        self.rules.rate_per_group = Some(Rate::new(runs, per));
        self
    }

    /// Groups take turns, however many runs each has in line.
    pub fn fair(mut self) -> Queue {
        self.rules.fair = true;
        self
    }

    /// The runs of a group run one after another, the most urgent first and otherwise in the order in which they became
    /// due: the next begins when the one before it has ended, however often that is tried again. With more than one shard the order is that of groups which
    /// are said ([`Start::group`](crate::Start::group)): a tenant's runs are spread, and those that become due together
    /// come in any order.
    pub fn ordered(mut self) -> Queue {
        self.rules.ordered = true;
        self
    }

    pub(crate) fn checked(self) -> Result<(String, QueueRules), Error> {
        check_named("queue", &self.name)?;
        self.rules.check()?;
        Ok((self.name, self.rules))
    }
}

impl Client {
    /// Every queue that has rules or unfinished runs, with what stands in it.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let views = repeated(|| self.store().queue_views()).await?;
        // Outlast's own only where somebody did something to it.
        let is_shown = |view: &QueueView| view.queue.name != bulk::QUEUE || view.queue.is_managed();
        Ok(views.into_iter().filter(is_shown).collect())
    }

    /// Nothing of the queue begins until it is resumed; what runs goes on. A name that nothing knows is refused, here and
    /// below: a typo would look like success.
    pub async fn pause_queue(&self, name: &str) -> Result<QueueCard, Error> {
        self.change_queue(name, QueueChange::Pause).await
    }

    /// The queue is worked off again.
    pub async fn resume_queue(&self, name: &str) -> Result<QueueCard, Error> {
        self.change_queue(name, QueueChange::Resume).await
    }

    /// What is in the queue now is worked off; what comes later stays in line until the queue is resumed.
    pub async fn drain_queue(&self, name: &str) -> Result<QueueCard, Error> {
        self.change_queue(name, QueueChange::Drain).await
    }

    /// These rules instead of those that code says, from now on and whatever is deployed; `None`: code's again.
    ///
    /// What code said last holds also when no node says it any more: `Some(QueueRules::default())` lifts it.
    ///
    /// Every node keeps to them within a moment, and at the latest with its next renewal
    /// ([`Settings::renew_every`](crate::Settings::renew_every)). What runs is not stopped.
    pub async fn set_queue_rules(&self, name: &str, rules: Option<QueueRules>) -> Result<QueueCard, Error> {
        rules.as_ref().map_or(Ok(()), QueueRules::check)?;
        self.change_queue(name, QueueChange::Rules(rules)).await
    }

    /// The same, if nobody changed the queue since it was looked at, when it had been changed so often
    /// ([`QueueCard::changes`]). `None`: somebody did, and nothing is changed.
    pub async fn set_queue_rules_at(
        &self,
        name: &str,
        changes: i64,
        rules: Option<QueueRules>,
    ) -> Result<Option<QueueCard>, Error> {
        rules.as_ref().map_or(Ok(()), QueueRules::check)?;
        let card = self.change_queue(name, QueueChange::RulesAt { changes, rules: rules.clone() }).await?;
        let holds = card.is_own == rules.is_some() && rules.is_none_or(|rules| rules == card.rules);
        Ok(holds.then_some(card))
    }

    async fn change_queue(&self, name: &str, change: QueueChange) -> Result<QueueCard, Error> {
        check_name("queue", name)?;
        if !self.knows_queue(name).await? {
            return Err(Error::invalid(
                "queue",
                name,
                "one with rules or runs, or one that a definition goes to",
            ));
        }
        let control = Control::Queue { name: name.to_owned(), change };
        let answer = repeated(|| self.store().control(&control)).await?;
        // Whoever said it finds it true, where this process runs the queue.
        if let Some(engine) = self.engine() {
            engine.learn_queues().await;
        }
        match answer {
            Controlled::Queue(card) => Ok(card),
            _ => Err(Error::misconfigured("the store gave no answer about a queue")),
        }
    }

    /// Whether there are rules or runs for a queue of this name, or a definition that goes there.
    async fn knows_queue(&self, name: &str) -> Result<bool, Error> {
        let cards = repeated(|| self.store().queues()).await?;
        Ok(name == bulk::QUEUE
            || cards.iter().any(|card| card.name == name)
            || self.engine().is_some_and(|engine| engine.served().iter().any(|queue| queue == name))
            || self.definitions().await?.iter().any(|card| card.queue == name)
            || self.queues().await?.iter().any(|view| view.queue.name == name))
    }
}
