//! The server: a listener, connections with limits, and an end that waits for those that are being answered.
//!
//! Limits of time and size are set here, on the connection, because whoever is slow or large on purpose never gets as far
//! as a handler.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::prompt::Prompt;
use super::tls::Tls;

/// The most bytes of a request's head.
const HEAD: usize = 16 << 10;
/// How long a head may take, and a connection may say nothing.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
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
    answer_all(listener, router, None, stopping).await;
}

/// The same, encrypted.
pub async fn serve_tls(listener: TcpListener, router: Router, tls: Tls, stopping: CancellationToken) {
    answer_all(listener, router, Some(tls), stopping).await;
}

/// The same at a Unix socket, which only those reach whom its file lets in.
#[cfg(unix)]
pub async fn serve_unix(listener: tokio::net::UnixListener, router: Router, stopping: CancellationToken) {
    answer_all(listener, router, None, stopping).await;
}

/// Where connections come from.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept_one(&self) -> io::Result<Self::Stream> {
        let (socket, _) = self.accept().await?;
        let _ = socket.set_nodelay(true);
        Ok(socket)
    }
}

#[cfg(unix)]
impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept_one(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

async fn answer_all(listener: impl Accept, router: Router, tls: Option<Tls>, stopping: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let builder = Arc::new(builder());
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept_one() => accepted,
            () = stopping.cancelled() => break,
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                // Out of file descriptors, mostly: others have to end first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let (builder, watcher, tls) = (builder.clone(), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            let ended = match tls {
                None => {
                    let connection = builder.serve_connection(begun(socket), service);
                    watcher.watch(connection.into_owned()).await.map_err(|error| error.to_string())
                }
                // Whoever takes long for it holds nobody else up.
                Some(tls) => match tls.accept(socket).await {
                    Ok(stream) => {
                        let connection = builder.serve_connection(begun(stream), service);
                        watcher.watch(connection.into_owned()).await.map_err(|error| error.to_string())
                    }
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
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not answered before the server stopped");
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
