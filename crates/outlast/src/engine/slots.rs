//! Slots: how many runs a node works on at once, and who may have the next. A run whose turn is over has none, and is in hand until
//! that is durable.
//!
//! A claim sets aside as many slots as it may bring runs, and most claims bring few: those that start on this node
//! meanwhile, and would have to be claimed for want of a slot, are lent what is set aside. A claim that is then short of
//! slots hands back what it has no slot for. Where the last one brought all that it could nothing is lent, nor from a queue with rules.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a node.
pub(super) struct Slots {
    free: Arc<Semaphore>,
    /// Set aside for a claim that is on its way, and lent.
    aside: Mutex<Vec<OwnedSemaphorePermit>>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots { free: Arc::new(Semaphore::new(count)), aside: Mutex::default() }
    }

    /// How many are free.
    pub(super) fn count(&self) -> usize {
        self.free.available_permits()
    }

    /// Waits until one is free.
    pub(super) async fn some(&self) {
        // Never closed.
        let _ = self.free.acquire().await;
    }

    /// Waits until so many are free.
    pub(super) async fn several(&self, count: usize) {
        // Never closed.
        let _ = self.free.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
    }

    /// A free one, or one that a claim may do without.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok().or_else(|| self.aside.lock().pop())
    }

    /// Sets aside at most so many for a claim. One claim at a time may lend them.
    pub(super) fn set_aside(&self, most: usize, lends: bool) -> Aside<'_> {
        let free = || self.free.clone().try_acquire_owned().ok();
        let taken: Vec<_> = std::iter::from_fn(free).take(most).collect();
        let count = taken.len();
        let kept = if lends {
            self.aside.lock().extend(taken);
            Vec::new()
        } else {
            taken
        };
        Aside { slots: self, count, kept }
    }
}

/// What is set aside for a claim; free again when dropped.
pub(super) struct Aside<'s> {
    slots: &'s Slots,
    /// How many runs the claim may bring.
    pub(super) count: usize,
    kept: Vec<OwnedSemaphorePermit>,
}

impl Aside<'_> {
    /// Slots for so many runs that the claim brought, or for as many of them as there are.
    pub(super) fn take(mut self, wanted: usize) -> Vec<OwnedSemaphorePermit> {
        let mut taken = self.end();
        taken.truncate(wanted);
        let missing = wanted - taken.len();
        taken.extend(std::iter::from_fn(|| self.slots.free.clone().try_acquire_owned().ok()).take(missing));
        taken
    }

    /// Nobody is lent anything any more.
    fn end(&mut self) -> Vec<OwnedSemaphorePermit> {
        let mut taken = std::mem::take(&mut self.kept);
        taken.append(&mut self.slots.aside.lock());
        taken
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_starts_is_lent_what_a_claim_has_set_aside() {
        let slots = Slots::new(3);
        let first = slots.take().unwrap();
        let aside = slots.set_aside(10, true);
        assert_eq!((aside.count, slots.count()), (2, 0));
        let lent = slots.take().unwrap();
        assert_eq!(aside.take(2).len(), 1, "the claim is one short");
        assert_eq!(slots.count(), 1, "what it took was dropped");

        // What has come free meanwhile serves as well.
        let aside = slots.set_aside(1, true);
        let again = slots.take().unwrap();
        drop(first);
        assert_eq!(aside.take(1).len(), 1);
        drop((lent, again));
        assert_eq!(slots.count(), 3);
    }

    #[test]
    fn a_claim_that_lends_nothing_keeps_its_slots() {
        let slots = Slots::new(2);
        let aside = slots.set_aside(2, false);
        assert!(slots.take().is_none());
        assert_eq!(aside.take(1).len(), 1);
        drop(slots.set_aside(2, true));
        assert_eq!(slots.count(), 2, "nothing stays aside");
    }
}
