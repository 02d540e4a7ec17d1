//! Connections that have to begin: whoever connects and says nothing is sent away.
//!
//! Which version of HTTP a connection speaks is known by its first bytes, and only then do the limits of that version hold.
//! Until then this one does. Otherwise as many as may connect at once could keep everybody else out, without a word.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// As many bytes as the longest beginning has that says the version: HTTP/2's.
const BEGINNING: usize = 24;

/// A connection that fails when its first bytes do not come in time.
pub(super) struct Prompt<S> {
    inner: S,
    /// How many of the first bytes have not come yet.
    left: usize,
    late: Pin<Box<Sleep>>,
}

impl<S> Prompt<S> {
    pub(super) fn new(inner: S, within: Duration) -> Prompt<S> {
        Prompt { inner, left: BEGINNING, late: Box::pin(tokio::time::sleep(within)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Pending if self.left > 0 => {
                self.late.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            polled => {
                self.left = self.left.saturating_sub(buf.filled().len() - before);
                polled
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Somebody who connects, and the server's end of it, for which nothing is in time that is not there yet.
    async fn connected() -> (TcpStream, Prompt<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, Prompt::new(listener.accept().await.unwrap().0, Duration::ZERO))
    }

    #[tokio::test]
    async fn whoever_says_nothing_or_stops_at_the_first_bytes_is_sent_away() {
        for beginning in ["", "P", "PRI * HTTP/2.0\r\n"] {
            let (mut client, mut server) = connected().await;
            client.write_all(beginning.as_bytes()).await.unwrap();
            if !beginning.is_empty() {
                server.inner.readable().await.unwrap();
                server.read_exact(&mut vec![0; beginning.len()]).await.unwrap();
            }
            let ended = server.read_u8().await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{beginning:?}");
        }
    }

    #[tokio::test]
    async fn whoever_has_begun_may_take_the_time_that_their_version_gives() {
        let (mut client, mut server) = connected().await;
        client.write_all(&[b'x'; BEGINNING]).await.unwrap();
        server.inner.readable().await.unwrap();
        let mut said = [0; BEGINNING];
        server.read_exact(&mut said).await.unwrap();
        let answer = tokio::spawn(async move { server.read_u8().await });
        client.write_all(b"y").await.unwrap();
        assert_eq!(answer.await.unwrap().unwrap(), b'y');
    }
}
