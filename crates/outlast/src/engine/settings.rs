//! How an engine works: every bound that users can set.

use std::time::Duration;

use outlast_core::{Error, check_name};

use super::Process;
use crate::Retention;

/// How an engine works. Every bound has a name here.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// How many runs this node runs at once: 256.
    pub concurrency: usize,
    /// How long a node that says nothing keeps its runs: 10 s.
    pub lease: Duration,
    /// How often the lease is renewed: every 3 s.
    pub renew_every: Duration,
    /// How often due work is looked for when no hint comes: every 5 s. Where none of other processes can come (a
    /// pooler in between, no `LISTEN`), every 100 ms at first after something was done, and then less and less often,
    /// down to this.
    pub poll_every: Duration,
    /// How many waiting runs are kept warm: 1,000.
    pub warm: usize,
    /// How long a waiting run is kept warm: a minute.
    pub warm_for: Duration,
    /// How many processes may die with a run as their only suspect before it fails: 5. The four before, and
    /// those that another suspect may have taken down, do not count.
    pub crashes: u32,
    /// After how long a due run is blocked whose code no node knows, or whose queue none of those serves: 10 s.
    pub unknown_after: Duration,
    /// Of how many turns of workflows that were suspended or have ended one is replayed from its beginning, to see that
    /// its code repeats itself: 1,000; 0 for none. What does not is logged as an error, and counted by
    /// `outlast_verified_turns_total`. Tests ([`testing`](crate::testing)) replay all.
    pub verify: u32,
    /// A name of this node for people.
    pub name: String,
    /// The queues to take from; empty for those of the registered definitions. Bulk operations
    /// ([`Client::bulk`](crate::Client::bulk)) are taken by every node.
    pub queues: Vec<String>,
    /// How long ended runs are kept: for ever. See [`Outlast::retention`](crate::Outlast::retention).
    pub retention: Retention,
    /// Whether this node is there for bulk operations alone: no.
    pub(crate) only_bulks: bool,
    /// The process that this node lives in, where a test stops or kills it.
    pub(crate) process: Option<Process>,
    /// What handlers may call: see [`Outlast::egress`](crate::Outlast::egress).
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub egress: crate::http::Egress,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            concurrency: 256,
            lease: Duration::from_secs(10),
            renew_every: Duration::from_secs(3),
            poll_every: Duration::from_secs(5),
            warm: 1000,
            warm_for: Duration::from_secs(60),
            crashes: 5,
            unknown_after: Duration::from_secs(10),
            verify: 1000,
            name: format!("pid-{}", std::process::id()),
            queues: Vec::new(),
            retention: Retention::forever(),
            only_bulks: false,
            process: None,
            #[cfg(feature = "http")]
            egress: crate::http::Egress::new(),
        }
    }
}

impl Settings {
    /// Whether a node can work like this; says what is wrong if not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let spans = [
            ("lease", self.lease, Duration::from_millis(100), Duration::from_secs(3600)),
            ("renew_every", self.renew_every, Duration::from_millis(10), self.lease / 2),
            ("poll_every", self.poll_every, Duration::from_millis(1), Duration::from_secs(3600)),
        ];
        for (what, span, least, most) in spans {
            if span < least || span > most {
                return Err(Error::invalid(what, format!("{span:?}"), format!("{least:?} to {most:?}")));
            }
        }
        if self.concurrency == 0 || self.concurrency > 1_000_000 {
            return Err(Error::invalid("concurrency", self.concurrency, "1 to 1,000,000"));
        }
        if self.crashes == 0 {
            return Err(Error::invalid(
                "crashes",
                self.crashes,
                "1 or more: with 0 every run would be poison",
            ));
        }
        self.retention.check()?;
        #[cfg(feature = "http")]
        self.egress.check()?;
        check_name("name of the node", &self.name)?;
        self.queues.iter().try_for_each(|queue| check_name("queue", queue).map(|_| ()))
    }
}
