//! What a server tells of one run, as it happens: its stream of live updates.
//!
//! A stream says only that something happened; what it was is looked at as ever. So one that was cut off is opened anew and
//! nothing has to be caught up with: whoever hears that it was cut off looks. Where a server, or something on the way to it,
//! gives no stream, the clock says when to look.

use std::time::Duration;

use outlast::RunId;
use reqwest::{Method, Response};
use tokio::time::{Instant, timeout};

use super::wire::{Remote, Request};

/// How long an open stream may be silent. Servers say every 15 s that they are there: what says nothing for longer is kept
/// back by something on the way.
const SILENCE: Duration = Duration::from_secs(40);

/// The news of one run.
pub(crate) struct Stream<'a> {
    server: &'a Remote,
    run: RunId,
    way: Way,
}

enum Way {
    /// A stream, and when it said something last.
    Open(Response, Instant),
    /// It was cut off.
    Cut,
    /// There is none.
    Clock,
}

impl Remote {
    /// Tells of a run from now on.
    pub(in crate::backend) async fn news(&self, run: RunId) -> Stream<'_> {
        self.be_patient();
        let mut stream = Stream { server: self, run, way: Way::Cut };
        stream.open().await;
        stream
    }
}

impl Stream<'_> {
    /// Waits for something new, at most so long; says whether to look again.
    pub(in crate::backend) async fn within(&mut self, most: Duration) -> bool {
        match &mut self.way {
            Way::Open(answer, heard) => match timeout(most, answer.chunk()).await {
                Ok(Ok(Some(_))) => {
                    *heard = Instant::now();
                    true
                }
                Ok(Ok(None) | Err(_)) => {
                    self.way = Way::Cut;
                    true
                }
                Err(_) if heard.elapsed() > SILENCE => {
                    self.way = Way::Clock;
                    true
                }
                Err(_) => false,
            },
            Way::Cut => {
                // Whoever closes every stream at once is not asked again and again without a pause.
                tokio::time::sleep(most).await;
                self.open().await;
                true
            }
            Way::Clock => {
                tokio::time::sleep(most).await;
                true
            }
        }
    }

    async fn open(&mut self) {
        let topics = format!("run:{0},logs:{0}", self.run);
        let request = Request::new(Method::GET, &["live"]).with("topics", topics);
        self.way = match self.server.stream(&request).await {
            Ok(Some(answer)) => Way::Open(answer, Instant::now()),
            Ok(None) => Way::Clock,
            // Whoever looks is told why, as of every other request.
            Err(_) => Way::Cut,
        };
    }
}
