//! A proxy before PostgreSQL that is slow, deaf, or loses what it was given, when a test says so.
//!
//! It stands where a network would: between one process and its database, so that each process can have a
//! network of its own. Whatever it does is counted, because a fault that hit nobody proves nothing.

mod carry;
mod replies;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How the network is just now. As it is by default, nobody notices it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Manner {
    /// Nothing gets through and nobody is told. What was on its way arrives when this is over.
    pub cut: bool,
    /// Requests arrive and their connection breaks before the reply does.
    pub loses_replies: bool,
    /// The same for this share of the replies that tell of a commit, and for no others.
    pub lost_commits: f64,
    /// This share of requests gets half through, and then the connection is reset.
    pub resets: f64,
    /// How late every request is.
    pub request_delay: Duration,
    /// How late every reply is.
    pub delay: Duration,
    /// How much later or earlier than that it may be.
    pub jitter: Duration,
    /// This share of packets, both ways, has to be sent again, as TCP does when one was lost.
    pub loss: f64,
    /// How many bytes get through in a second, each way.
    pub bytes_per_second: Option<u32>,
}

/// What a proxy did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Round trips: requests that waited for the reply before them.
    pub trips: u64,
    /// Replies that were lost, of whatever.
    pub lost_replies: u64,
    /// Replies that told of a commit and were lost.
    pub lost_commits: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Of these, those with a transaction open.
    pub resets_in_transactions: u64,
    /// Requests that were late.
    pub delayed_requests: u64,
    /// Replies that were late.
    pub delayed: u64,
    /// Packets that had to be sent again.
    pub sent_again: u64,
    /// Requests and replies that stood before a cut.
    pub held: u64,
    /// Packets that waited because there was no room for more in a second.
    pub narrowed: u64,
}

#[derive(Default)]
struct Counters {
    /// The last bytes that passed were a reply.
    answered: AtomicBool,
    trips: AtomicU64,
    lost_replies: AtomicU64,
    lost_commits: AtomicU64,
    resets: AtomicU64,
    resets_in_transactions: AtomicU64,
    delayed_requests: AtomicU64,
    delayed: AtomicU64,
    sent_again: AtomicU64,
    held: AtomicU64,
    narrowed: AtomicU64,
}

/// A proxy with a port of its own. Dropping it closes the port; connections that are there stay.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    manner: watch::Sender<Manner>,
    counters: Arc<Counters>,
    accepts: JoinHandle<()>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

/// Where the server is.
#[derive(Debug, Clone)]
enum Place {
    Socket(PathBuf),
    Port(String, u16),
}

impl Proxy {
    /// Stands before the server of `postgres://user@host:port/name`. None where the address names no such server.
    pub async fn before(url: &str) -> io::Result<Option<Proxy>> {
        let Some(place) = Place::read(url) else { return Ok(None) };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let manner = watch::Sender::new(Manner::default());
        let counters = Arc::<Counters>::default();
        let (told, counts) = (manner.subscribe(), Arc::clone(&counters));
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (place, told, counts) = (place.clone(), told.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    // Who finds nobody there is told so by the end of the connection.
                    match place {
                        Place::Socket(file) => {
                            if let Ok(server) = UnixStream::connect(file).await {
                                carry::carry(client, server.into_split(), told, counts).await;
                            }
                        }
                        Place::Port(host, port) => {
                            if let Ok(server) = TcpStream::connect((host.as_str(), port)).await {
                                let _ = server.set_nodelay(true);
                                carry::carry(client, server.into_split(), told, counts).await;
                            }
                        }
                    }
                });
            }
        });
        Ok(Some(Proxy { port, manner, counters, accepts }))
    }

    /// The same database, through here.
    pub fn url(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap_or((url, ""));
        let (_, database) = rest.split_once('/').unwrap_or(("", ""));
        format!("{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// From now on the network is like this.
    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let counters = &self.counters;
        Counts {
            trips: read(&counters.trips),
            lost_replies: read(&counters.lost_replies),
            lost_commits: read(&counters.lost_commits),
            resets: read(&counters.resets),
            resets_in_transactions: read(&counters.resets_in_transactions),
            delayed_requests: read(&counters.delayed_requests),
            delayed: read(&counters.delayed),
            sent_again: read(&counters.sent_again),
            held: read(&counters.held),
            narrowed: read(&counters.narrowed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            trips: self.trips + other.trips,
            lost_replies: self.lost_replies + other.lost_replies,
            lost_commits: self.lost_commits + other.lost_commits,
            resets: self.resets + other.resets,
            resets_in_transactions: self.resets_in_transactions + other.resets_in_transactions,
            delayed_requests: self.delayed_requests + other.delayed_requests,
            delayed: self.delayed + other.delayed,
            sent_again: self.sent_again + other.sent_again,
            held: self.held + other.held,
            narrowed: self.narrowed + other.narrowed,
        }
    }
}

impl Place {
    fn read(url: &str) -> Option<Place> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let host = rest.split_once('@').map_or(rest, |(_, rest)| rest).split('/').next()?;
        let (host, port) = host.rsplit_once(':').unwrap_or((host, "5432"));
        let port = port.parse().ok()?;
        match host.starts_with("%2F") {
            true => {
                Some(Place::Socket(PathBuf::from(host.replace("%2F", "/")).join(format!(".s.PGSQL.{port}"))))
            }
            false => Some(Place::Port(host.to_owned(), port)),
        }
    }
}

#[cfg(test)]
mod tests;
