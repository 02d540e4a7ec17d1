//! A service on this machine that does what a test tells it, also what no library would.

use std::sync::Arc;

use outlast::http::Egress;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The host that was asked, without its port.
    pub(crate) fn host(&self) -> &str {
        self.header("host").unwrap_or_default().split(':').next().unwrap_or_default()
    }
}

/// What is done about a request.
pub(crate) enum Reply {
    /// Status, headers (lines with their ends) and body.
    Says(u16, String, &'static str),
    /// The beginning of an answer, and no end.
    Begins(&'static str),
    /// Nothing, for ever.
    Hangs,
    /// A body without an end, as fast as it is taken.
    Floods,
    /// The connection is closed without a word.
    Drops,
}

pub(crate) fn ok(body: &'static str) -> Reply {
    Reply::Says(200, String::new(), body)
}

pub(crate) fn status(status: u16) -> Reply {
    Reply::Says(status, String::new(), "")
}

pub(crate) fn redirect(status: u16, location: impl std::fmt::Display) -> Reply {
    Reply::Says(status, format!("location: {location}\r\n"), "")
}

pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) async fn start(reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, reply) = (Arc::new(Mutex::new(Vec::new())), Arc::new(reply));
        let server = Server { port, seen: seen.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, reply) = (seen.clone(), reply.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, &seen, &*reply).await;
                });
            }
        });
        server
    }

    /// Where it is, under a name that looks public.
    pub(crate) fn at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().len()
    }
}

async fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<Seen>>,
    reply: &(dyn Fn(&Seen) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = Seen::default();
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split_whitespace().map(str::to_owned);
    (request.method, request.path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        request.headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    seen.lock().push(request.clone());

    match reply(&request) {
        Reply::Says(status, headers, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await
        }
        Reply::Begins(text) => {
            stream.write_all(text.as_bytes()).await?;
            stream.flush().await?;
            std::future::pending().await
        }
        Reply::Hangs => std::future::pending().await,
        Reply::Floods => {
            stream.write_all(b"HTTP/1.1 200 Said\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                stream.write_all(format!("1000\r\n{}\r\n", "x".repeat(0x1000)).as_bytes()).await?;
            }
        }
        Reply::Drops => Ok(()),
    }
}

/// Lets this machine's IPv4 be called. Every name leads there, but for those that say where they lead:
/// `10.0.0.1.leads.example`.
pub(crate) fn nearby() -> Egress {
    Egress::new().allow_network("127.0.0.0/8").resolver(async |name: String| {
        let told = name.strip_suffix(".leads.example").unwrap_or("127.0.0.1");
        told.split('+').map(|one| one.parse().map_err(std::io::Error::other)).collect()
    })
}
