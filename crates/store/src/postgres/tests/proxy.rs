//! A proxy before PostgreSQL that is slow, or loses replies, when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

#[derive(Default)]
struct Behaviour {
    delay_ms: AtomicU64,
    loses: AtomicBool,
    /// The last bytes that passed were a reply.
    answered: AtomicBool,
    /// How often a request followed a reply.
    trips: AtomicU64,
}

/// Listens on a port of its own as long as the test runs.
pub(super) struct Proxy {
    port: u16,
    behaviour: Arc<Behaviour>,
}

impl Proxy {
    pub(super) async fn before(config: &Config) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behaviour = Arc::<Behaviour>::default();
        let (config, ours) = (config.clone(), Arc::clone(&behaviour));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = config.get_ports().first().copied().unwrap_or(5432);
                let behaviour = Arc::clone(&ours);
                match &config.get_hosts()[0] {
                    Host::Unix(folder) => {
                        let server =
                            UnixStream::connect(folder.join(format!(".s.PGSQL.{number}"))).await.unwrap();
                        tokio::spawn(carry(client, server.into_split(), behaviour));
                    }
                    Host::Tcp(name) => {
                        let server = TcpStream::connect((name.as_str(), number)).await.unwrap();
                        tokio::spawn(carry(client, server.into_split(), behaviour));
                    }
                }
            }
        });
        Proxy { port, behaviour }
    }

    /// The same database, through here.
    pub(super) fn url(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        format!("{user}@127.0.0.1:{}/{database}?pool=2", self.port)
    }

    /// Every reply takes this long from now on.
    pub(super) fn delay(&self, delay: Duration) {
        self.behaviour.delay_ms.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// How many round trips there were so far: requests that waited for the reply before them.
    pub(super) fn trips(&self) -> u64 {
        self.behaviour.trips.load(Ordering::SeqCst)
    }

    /// From now on requests arrive and their connection breaks before the reply does.
    pub(super) fn lose_replies(&self, loses: bool) {
        self.behaviour.loses.store(loses, Ordering::SeqCst);
    }
}

async fn carry(
    client: TcpStream,
    server: (impl AsyncRead + Unpin + Send + 'static, impl AsyncWrite + Unpin + Send + 'static),
    behaviour: Arc<Behaviour>,
) {
    client.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server;
    let ours = Arc::clone(&behaviour);
    let asking = tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if ours.answered.swap(false, Ordering::SeqCst) {
                ours.trips.fetch_add(1, Ordering::SeqCst);
            }
            if to_server.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
    });
    let ours = Arc::clone(&behaviour);
    // A line of replies, each with its time: a delay must not add up over many small ones.
    let (line, mut replies) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = replies.recv().await {
            sleep_until(at).await;
            ours.answered.store(true, Ordering::SeqCst);
            if to_client.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 65536];
    while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
        if behaviour.loses.load(Ordering::SeqCst) {
            // Time for the server to finish what it was asked.
            sleep(Duration::from_millis(100)).await;
            break;
        }
        let delay = Duration::from_millis(behaviour.delay_ms.load(Ordering::SeqCst));
        let _ = line.send((Instant::now() + delay, buffer[..length].to_vec()));
    }
    asking.abort();
}
