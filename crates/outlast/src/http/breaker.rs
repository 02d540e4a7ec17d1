//! A circuit breaker per host: one that is down is not asked again and again by every run.
//!
//! Hosts that answer are not kept at all; a host is remembered from its first failure until its next answer.
//! Time comes in from outside, so that nothing here sleeps, and neither do its tests. (The `recloser` crate
//! counts rates over a ring by a clock of its own, and cannot say when the next try is.)

use std::time::Duration;

use hashbrown::HashMap;
use outlast_core::Timestamp;
use parking_lot::Mutex;

/// The most hosts remembered: beyond that, the one that failed longest ago is forgotten.
const HOSTS: usize = 1000;

pub(super) struct Breakers {
    failures: u32,
    pause: Duration,
    failing: Mutex<HashMap<String, Failing>>,
}

struct Failing {
    /// In a row.
    failures: u32,
    last: Timestamp,
    /// When the next call is let through, once there were too many.
    again: Timestamp,
}

impl Breakers {
    /// Opens after so many failures in a row, for so long.
    pub(super) fn new(failures: u32, pause: Duration) -> Breakers {
        Breakers { failures, pause, failing: Mutex::default() }
    }

    /// Whether `host` may be called now; if not, when it is tried again.
    pub(super) fn ask(&self, host: &str, now: Timestamp) -> Result<(), Timestamp> {
        let mut failing = self.failing.lock();
        let Some(host) = failing.get_mut(host).filter(|host| host.failures >= self.failures) else {
            return Ok(());
        };
        if now < host.again {
            return Err(host.again);
        }
        // This one finds out. Whatever becomes of it, the next one comes a pause later.
        host.again = now + self.pause;
        Ok(())
    }

    /// The host has answered: all is well.
    pub(super) fn answered(&self, host: &str) {
        self.failing.lock().remove(host);
    }

    /// The host could not be reached, took too long or said that it is broken.
    pub(super) fn failed(&self, host: &str, now: Timestamp) {
        let mut failing = self.failing.lock();
        if failing.len() >= HOSTS && !failing.contains_key(host) {
            let oldest = failing.iter().min_by_key(|(_, host)| host.last).map(|(name, _)| name.clone());
            oldest.map(|name| failing.remove(&name));
        }
        let host = failing.entry_ref(host).or_insert(Failing { failures: 0, last: now, again: now });
        host.failures = host.failures.saturating_add(1);
        host.last = now;
        host.again = now + self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn after_failures_in_a_row_a_host_is_left_alone_until_one_call_finds_it_well() {
        let breakers = Breakers::new(3, PAUSE);
        for second in 0..3 {
            assert_eq!(breakers.ask("a", at(second)), Ok(()));
            breakers.failed("a", at(second));
        }
        assert_eq!(breakers.ask("a", at(3)), Err(at(32)), "open, and says until when");
        assert_eq!(breakers.ask("b", at(3)), Ok(()), "others have nothing to do with it");
        assert_eq!(breakers.ask("a", at(31)), Err(at(32)));

        assert_eq!(breakers.ask("a", at(32)), Ok(()), "half open: one finds out");
        assert_eq!(breakers.ask("a", at(32)), Err(at(62)), "and only one");
        breakers.failed("a", at(33));
        assert_eq!(breakers.ask("a", at(62)), Err(at(63)), "open again");

        assert_eq!(breakers.ask("a", at(63)), Ok(()));
        breakers.answered("a");
        assert_eq!(breakers.ask("a", at(63)), Ok(()), "closed");
        breakers.failed("a", at(64));
        assert_eq!(breakers.ask("a", at(64)), Ok(()), "and counts from the beginning");
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let breakers = Breakers::new(2, PAUSE);
        for second in 0..10 {
            breakers.failed("a", at(second));
            assert_eq!(breakers.ask("a", at(second)), Ok(()));
            breakers.answered("a");
        }
    }

    #[test]
    fn a_call_that_finds_out_and_is_never_heard_of_again_blocks_nobody_for_ever() {
        let breakers = Breakers::new(1, PAUSE);
        breakers.failed("a", at(0));
        assert_eq!(breakers.ask("a", at(30)), Ok(()));
        assert_eq!(breakers.ask("a", at(59)), Err(at(60)));
        assert_eq!(breakers.ask("a", at(60)), Ok(()));
    }

    #[test]
    fn however_many_hosts_fail_few_are_remembered_and_those_that_failed_last() {
        let breakers = Breakers::new(1, PAUSE);
        for host in 0..2 * HOSTS as u64 {
            breakers.failed(&host.to_string(), at(host));
        }
        assert_eq!(breakers.failing.lock().len(), HOSTS);
        let last = 2 * HOSTS as u64 - 1;
        assert_eq!(breakers.ask(&last.to_string(), at(last)), Err(at(last + 30)));
        assert_eq!(breakers.ask("0", at(last)), Ok(()), "forgotten");
    }
}
