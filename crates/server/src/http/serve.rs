//! The server: a listener, connections with limits, and an end that waits for those that are being answered.
//!
//! Limits of time and size are set here, on the connection, because whoever is slow or large on purpose never gets as far
//! as a handler.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use outlast::trouble::Seldom;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::idle::Requests;
use super::prompt::Prompt;
use super::tls::Tls;

/// The most bytes of a request's head.
const HEAD: usize = 16 << 10;
/// How long a head may take, and a connection may say nothing.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may be there on which nobody asks anything; HTTP/1 has less.
const IDLE: Duration = Duration::from_secs(60);
/// How long somebody who asks nothing has to say that they heard of the end.
const MOMENT: Duration = Duration::from_secs(2);
/// The most connections at once: others wait to be taken.
const CONNECTIONS: usize = 2048;
/// How long requests that are being answered may take when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Names of this machine, as browsers on it write them.
pub(crate) const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Answers requests until it is told to stop, and then those that have begun, for at most ten seconds.
///
/// What axum's own `serve` does, with limits: of a request's head, of the time that it takes, of connections.
pub async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    answer_all(listener, router, None, stopping, IDLE).await;
}

/// The same, encrypted.
pub async fn serve_tls(listener: TcpListener, router: Router, tls: Tls, stopping: CancellationToken) {
    answer_all(listener, router, Some(tls), stopping, IDLE).await;
}

/// The same at a Unix socket, which only those reach whom its file lets in.
#[cfg(unix)]
pub async fn serve_unix(listener: tokio::net::UnixListener, router: Router, stopping: CancellationToken) {
    answer_all(listener, router, None, stopping, IDLE).await;
}

/// Where connections come from.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next, and from which address it comes.
    fn accept_one(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Accept for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept_one(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        let (socket, from) = self.accept().await?;
        let _ = socket.set_nodelay(true);
        Ok((socket, Some(from.ip().to_canonical())))
    }
}

#[cfg(unix)]
impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept_one(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        Ok((self.accept().await?.0, None))
    }
}

async fn answer_all(
    listener: impl Accept,
    router: Router,
    tls: Option<Tls>,
    stopping: CancellationToken,
    idle: Duration,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let builder = Arc::new(builder());
    let trouble = Seldom::default();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept_one() => accepted,
            () = stopping.cancelled() => break,
        };
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, mostly: others have to end first.
                if let Some(unsaid) = trouble.say() {
                    tracing::warn!(%error, unsaid, "a connection could not be accepted");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let bounds = Bounds { from, stopping: stopping.clone(), idle };
        let (router, builder, tls) = (router.clone(), builder.clone(), tls.clone());
        tokio::spawn(async move {
            let ended = match tls {
                None => attend(&builder, begun(socket), router, bounds).await,
                // Whoever takes long for it holds nobody else up.
                Some(tls) => match tls.accept(socket).await {
                    Ok(stream) => attend(&builder, begun(stream), router, bounds).await,
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    // Whoever has all places is alone.
    if tokio::time::timeout(DRAIN, room.acquire_many(CONNECTIONS as u32)).await.is_err() {
        tracing::warn!("some requests were not answered before the server stopped");
    }
}

/// Where a connection comes from, and how long it may be there.
struct Bounds {
    from: Option<IpAddr>,
    stopping: CancellationToken,
    idle: Duration,
}

/// The address from which a request came.
#[derive(Clone, Copy)]
pub(super) struct Origin(pub(super) Option<IpAddr>);

/// Answers the requests of one connection until it ends; asks it to when the server stops, or when nobody asks anything.
async fn attend<S>(
    builder: &Builder<TokioExecutor>,
    stream: TokioIo<Prompt<S>>,
    router: Router,
    Bounds { from, stopping, idle }: Bounds,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = Requests::new();
    let (counted, inner) = (requests.clone(), TowerToHyperService::new(router));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Origin(from));
        let (answering, answer) = (counted.begin(), inner.call(request));
        async move { answer.await.map(|response| answering.with(response)) }
    });
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut unused = pin!(requests.none_for(idle));
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
        () = stopping.cancelled() => {}
        () = unused.as_mut() => {}
    }
    // What is being answered is answered. Who asks nothing any more has a moment to say that they heard, and holds up no
    // server that stops.
    connection.as_mut().graceful_shutdown();
    let mut unused = pin!(requests.none_for(MOMENT));
    tokio::select! {
        ended = connection => ended.map_err(|error| error.to_string()),
        () = unused.as_mut() => Err("nobody asked anything".to_owned()),
    }
}

/// A connection that has to begin, as long as a head may take.
fn begun<S>(stream: S) -> TokioIo<Prompt<S>> {
    TokioIo::new(Prompt::new(stream, HEAD_TIMEOUT))
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD as u32)
        .max_concurrent_streams(128)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(HEAD_TIMEOUT);
    builder
}

/// Takes an address; the second one where the first is taken.
pub(crate) async fn bind(first: SocketAddr, second: Option<SocketAddr>) -> io::Result<TcpListener> {
    match (TcpListener::bind(first).await, second) {
        (Err(error), Some(second)) if error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind(second).await
        }
        (bound, _) => bound,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http2;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::mpsc;

    use super::*;

    type Ask = http2::SendRequest<Empty<Bytes>>;

    /// A client that answers pings, and whether its connection was ended.
    async fn connect(address: SocketAddr) -> (Ask, tokio::task::JoinHandle<bool>) {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (ask, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        (ask, tokio::spawn(async move { connection.await.is_ok() }))
    }

    fn to(path: &str) -> Request<Empty<Bytes>> {
        Request::get(format!("http://x{path}")).body(Empty::new()).unwrap()
    }

    #[tokio::test]
    async fn connections_end_on_which_nobody_asks_anything_and_streams_go_on() {
        let (say, heard) = mpsc::channel::<Result<Bytes, io::Error>>(1);
        let heard = Arc::new(std::sync::Mutex::new(Some(heard)));
        let stream = move || {
            let mut heard = heard.lock().unwrap().take().unwrap();
            async move { Body::from_stream(futures_util::stream::poll_fn(move |cx| heard.poll_recv(cx))) }
        };
        let router = Router::new().route("/", get(|| async { "hello" })).route("/stream", get(stream));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stopping = CancellationToken::new();
        let server =
            tokio::spawn(answer_all(listener, router, None, stopping.clone(), Duration::from_millis(50)));

        // Whoever listens to a stream was there before whoever asks nothing more.
        let (mut listens, listening) = connect(address).await;
        let mut events = listens.send_request(to("/stream")).await.unwrap().into_body();
        let (mut asks, asked) = connect(address).await;
        let answer = asks.send_request(to("/")).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
        assert!(asked.await.unwrap(), "it is told that it is over");
        let (_silent, ended) = connect(address).await;
        ended.await.unwrap();

        say.send(Ok(Bytes::from_static(b"news"))).await.unwrap();
        let frame = events.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "news");
        assert!(!listening.is_finished());
        // A server that stops waits for it, and not for one that never says that it heard.
        let mut deaf = TcpStream::connect(address).await.unwrap();
        deaf.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        deaf.read_u8().await.unwrap();
        stopping.cancel();
        say.send(Ok(Bytes::from_static(b"last"))).await.unwrap();
        drop(say);
        assert_eq!(events.collect().await.unwrap().to_bytes(), "last");
        tokio::time::timeout(DRAIN - MOMENT, server).await.expect("it waits for nobody").unwrap();
    }
}
