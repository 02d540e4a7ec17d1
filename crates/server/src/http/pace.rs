//! How many requests an account may send: a burst, and then so many a second.
//!
//! Only the time is kept at which an account will have used nothing again (the generic cell rate algorithm), so an account
//! costs one number, and those that have been silent are forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When there are more accounts than this, the silent ones are forgotten.
const ACCOUNTS: usize = 10_000;

/// The pace of all accounts.
pub(crate) struct Pace {
    /// How long one request takes.
    each: Duration,
    burst: Duration,
    free_at: Mutex<HashMap<String, Instant>>,
}

impl Pace {
    pub(crate) fn new(per_second: u32, burst: u32) -> Pace {
        let each = Duration::from_secs(1) / per_second.max(1);
        Pace { each, burst: each * burst.max(1), free_at: Mutex::default() }
    }

    /// Takes one request; else says how long to wait.
    pub(crate) fn take(&self, account: &str) -> Result<(), Duration> {
        self.take_at(account, Instant::now())
    }

    fn take_at(&self, account: &str, now: Instant) -> Result<(), Duration> {
        let mut accounts = self.free_at.lock();
        if accounts.len() > ACCOUNTS {
            accounts.retain(|_, free_at| *free_at > now);
        }
        let free_at = accounts.get(account).copied().unwrap_or(now).max(now);
        let used = free_at.duration_since(now) + self.each;
        if used > self.burst {
            return Err(used - self.burst);
        }
        accounts.insert(account.to_owned(), free_at + self.each);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_only_so_many_a_second_go() {
        let (pace, now) = (Pace::new(10, 3), Instant::now());
        let at = |millis: u64| now + Duration::from_millis(millis);
        let taken = (0..5).filter(|_| pace.take_at("ann", at(0)).is_ok()).count();
        assert_eq!(taken, 3);
        assert_eq!(pace.take_at("ann", at(0)).unwrap_err(), Duration::from_millis(100));
        assert!(pace.take_at("bob", at(0)).is_ok(), "others have a pace of their own");
        assert!(pace.take_at("ann", at(100)).is_ok());
        assert!(pace.take_at("ann", at(100)).is_err());
    }
}
