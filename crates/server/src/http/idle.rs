//! Connections on which nobody asks anything any more.
//!
//! HTTP/1 bounds how long the next request may take. An HTTP/2 connection whose client answers pings would stay for ever, and
//! as many of them as may be there at once would keep everybody else out. So requests are counted until the last byte of
//! their answer is gone, streams of events too, and a connection without any for a while is asked to end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::watch;

/// Counts the requests of one connection.
#[derive(Clone)]
pub(super) struct Requests(Arc<watch::Sender<usize>>);

/// A request that is being answered.
pub(super) struct Answering(Requests);

impl Requests {
    pub(super) fn new() -> Requests {
        Requests(Arc::new(watch::Sender::new(0)))
    }

    /// Another one.
    pub(super) fn begin(&self) -> Answering {
        self.0.send_modify(|count| *count += 1);
        Answering(self.clone())
    }

    /// Comes when there was none for so long.
    pub(super) fn none_for(&self, most: Duration) -> impl Future<Output = ()> + Send + use<> {
        let mut count = self.0.subscribe();
        async move {
            loop {
                let is_busy = *count.borrow_and_update() > 0;
                let changed = count.changed();
                let ended = match is_busy {
                    true => changed.await.is_err(),
                    // One that came and went meanwhile is a change too.
                    false => match tokio::time::timeout(most, changed).await {
                        Ok(changed) => changed.is_err(),
                        Err(_) => return,
                    },
                };
                if ended {
                    return;
                }
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl Answering {
    /// The answer, which counts until it is gone.
    pub(super) fn with(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(Counted { body, _answering: self }))
    }
}

/// A body that counts as long as it is there.
struct Counted {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
