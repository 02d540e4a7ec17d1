//! Live updates: one stream of server-sent events for each tab, with what changed, as it changes.
//!
//! One task looks for all streams of this server, while there are any: when a hint says that something happened, at most
//! four times a second, and at a slow pace without one. What it finds goes into a ring, so that a stream that was cut off
//! goes on where it was; when the ring has forgotten that place, the client is told to look anew (`reset`).

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::stream;
use outlast::{Client, RunId};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::access::{Caller, is_shut};
use super::code::Code;
use super::eye::Eye;
use super::news::News;
use super::problem::Problem;
use super::query::{Param, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::runs::visible;

/// How long hints gather: no topic has more than four messages a second.
const GATHER: Duration = Duration::from_millis(250);
/// How often to look without any hint. Steps inside of a turn give none.
const LOOK_EVERY: Duration = Duration::from_millis(1000);
/// How long a stream waits for its first look.
const LONGEST: Duration = Duration::from_secs(5);
/// How many messages the ring has.
const RING: usize = 1000;
/// How often a silent stream says that it is there; and how often it is looked whether the token still opens it.
const PING: Duration = Duration::from_secs(15);
/// The most topics of one stream.
const TOPICS: usize = 20;

pub(crate) const QUERY: &[Param] =
    &[text("topics", "What to hear of: runs, queues, run:ID, logs:ID, with commas between")];

/// What can be heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Topic {
    Runs,
    Queues,
    Run(RunId),
    Logs(RunId),
}

impl Topic {
    fn read(word: &str) -> Option<Topic> {
        match word.split_once(':') {
            None if word == "runs" => Some(Topic::Runs),
            None if word == "queues" => Some(Topic::Queues),
            Some(("run", id)) => id.parse().ok().map(Topic::Run),
            Some(("logs", id)) => id.parse().ok().map(Topic::Logs),
            _ => None,
        }
    }

    /// What an event about it is called.
    fn event(self) -> &'static str {
        match self {
            Topic::Runs => "runs",
            Topic::Queues => "queues",
            Topic::Run(_) => "run",
            Topic::Logs(_) => "logs",
        }
    }
}

/// Something that changed.
#[derive(Debug)]
struct Message {
    number: u64,
    topic: Topic,
    news: News,
}

/// Looks for all streams.
pub(crate) struct Live(Arc<Hub>);

pub(super) struct Hub {
    pub(super) client: Client,
    stopping: CancellationToken,
    /// Tells this server's numbers from another's.
    epoch: String,
    state: Mutex<State>,
    news: broadcast::Sender<Arc<Message>>,
    /// How many looks are over.
    looked: watch::Sender<u64>,
    hurry: Notify,
}

#[derive(Default)]
struct State {
    ring: VecDeque<Arc<Message>>,
    number: u64,
    /// How many streams want each.
    topics: HashMap<Topic, usize>,
    is_looking: bool,
    /// How many looks have begun.
    begun: u64,
}

/// A stream's share of the looking: ends with it.
struct Wants {
    hub: Arc<Hub>,
    topics: Vec<Topic>,
}

impl Drop for Wants {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        for topic in &self.topics {
            if let Some(count) = state.topics.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    state.topics.remove(topic);
                }
            }
        }
    }
}

impl Live {
    pub(crate) fn new(client: Client, stopping: CancellationToken) -> Live {
        let epoch = format!("{:08x}", fastrand::u32(..));
        let (news, _) = broadcast::channel(RING);
        let looked = watch::Sender::new(0);
        let state = Mutex::default();
        Live(Arc::new(Hub { client, stopping, epoch, state, news, looked, hurry: Notify::new() }))
    }

    /// Has these looked for. Whatever changes once this is over is told: what it was before has been seen.
    async fn want(&self, topics: Vec<Topic>) -> Wants {
        let (wants, look) = self.note(topics);
        let hub = &self.0;
        hub.hurry.notify_one();
        let mut looked = hub.looked.subscribe();
        tokio::select! {
            // Without a database there is nothing to miss.
            _ = tokio::time::timeout(LONGEST, looked.wait_for(|looked| *looked >= look)) => {}
            () = hub.stopping.cancelled() => {}
        }
        wants
    }

    fn note(&self, topics: Vec<Topic>) -> (Wants, u64) {
        let hub = self.0.clone();
        let mut state = hub.state.lock();
        for topic in &topics {
            *state.topics.entry(*topic).or_default() += 1;
        }
        if !std::mem::replace(&mut state.is_looking, true) {
            tokio::spawn(look_while_wanted(hub.clone()));
        }
        let look = state.begun + 1;
        drop(state);
        (Wants { hub, topics }, look)
    }
}

/// Looks until nobody wants it any more, or the server stops.
async fn look_while_wanted(hub: Arc<Hub>) {
    let mut eye = Eye::default();
    let mut signals = hub.client.store().signals();
    loop {
        let (look, topics): (u64, Vec<Topic>) = {
            let mut state = hub.state.lock();
            if state.topics.is_empty() {
                state.is_looking = false;
                return;
            }
            state.begun += 1;
            (state.begun, state.topics.keys().copied().collect())
        };
        match eye.look(&hub, &topics).await {
            Ok(()) => {
                hub.looked.send_replace(look);
            }
            // What was not seen before a change cannot be told of: whoever waits for that look has the next.
            Err(error) => tracing::debug!(%error, "a look for live updates failed"),
        }
        tokio::select! {
            _ = tokio::time::timeout(LOOK_EVERY, signals.recv()) => {}
            () = hub.hurry.notified() => continue,
            () = hub.stopping.cancelled() => {
                hub.state.lock().is_looking = false;
                return;
            }
        }
        tokio::time::sleep(GATHER).await;
        while !matches!(
            signals.try_recv(),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed)
        ) {}
    }
}

impl Hub {
    pub(super) fn tell(&self, topic: Topic, news: News) {
        let mut state = self.state.lock();
        state.number += 1;
        let message = Arc::new(Message { number: state.number, topic, news });
        state.ring.push_back(message.clone());
        if state.ring.len() > RING {
            state.ring.pop_front();
        }
        // Nobody may be listening right now.
        let _ = self.news.send(message);
    }
}

/// Opens a stream.
pub(crate) async fn stream(call: Call) -> Answer {
    let topics = topics(&call).await?;
    let live = &call.api.live;
    // Listening before looking into the ring, so that nothing falls between.
    let news = live.0.news.subscribe();
    let wants = live.want(topics).await;
    let (last, mut first) = begin(&live.0, &wants.topics, &call.caller, &call.headers);
    first.insert_str(0, "retry: 2000\n\n");
    let reader = Reader {
        api: call.api.clone(),
        caller: call.caller,
        headers: call.headers,
        wants,
        news,
        last,
        first: Some(first),
        ping: Box::pin(tokio::time::sleep(PING)),
    };
    let body = stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        Some((Ok::<Bytes, Infallible>(chunk.into()), reader))
    });
    Ok(Reply::events(Body::from_stream(body)))
}

/// What is asked for, as far as the caller may hear of it. What they may not hear of, and what is gone, is left out: the
/// rest is still worth hearing. Only when nothing is left they are told why.
async fn topics(call: &Call) -> Result<Vec<Topic>, Problem> {
    let wrong = |detail: String| Problem::new(Code::INVALID_ARGUMENT, detail);
    let words: Vec<&str> = call.query.one("topics").unwrap_or("runs").split(',').collect();
    if words.len() > TOPICS {
        return Err(wrong(format!("{} topics are too many: at most {TOPICS}", words.len())));
    }
    let (mut topics, mut refused) = (Vec::new(), None);
    for word in words {
        let topic = Topic::read(word.trim()).ok_or_else(|| {
            wrong(format!(
                "there is no topic {:?}: say runs, queues, run:ID or logs:ID",
                outlast_core::shorten(word, 60)
            ))
        })?;
        match may_hear(call, topic).await {
            Ok(()) if !topics.contains(&topic) => topics.push(topic),
            Ok(()) => {}
            Err(problem) if matches!(problem.code, Code::NOT_FOUND | Code::FORBIDDEN) => {
                refused.get_or_insert(problem);
            }
            Err(problem) => return Err(problem),
        }
    }
    match refused {
        Some(problem) if topics.is_empty() => Err(problem),
        _ => Ok(topics),
    }
}

async fn may_hear(call: &Call, topic: Topic) -> Result<(), Problem> {
    match topic {
        Topic::Run(run) | Topic::Logs(run) => visible(&call.api.client, &call.caller, run).await.map(|_| ()),
        Topic::Queues if call.caller.tenant.is_some() => {
            let detail = "queues are shared by all tenants: a token of one tenant may not hear of them";
            Err(Problem::new(Code::FORBIDDEN, detail))
        }
        Topic::Queues | Topic::Runs => Ok(()),
    }
}

/// Where a stream goes on: what it missed, or that it missed too much.
fn begin(hub: &Hub, topics: &[Topic], caller: &Caller, headers: &HeaderMap) -> (u64, String) {
    let state = hub.state.lock();
    let Some(last) = headers.get("last-event-id").and_then(|last| last.to_str().ok()) else {
        return (state.number, String::new());
    };
    let number = last.split_once(':').filter(|(epoch, _)| *epoch == hub.epoch);
    let number =
        number.and_then(|(_, number)| number.parse::<u64>().ok()).filter(|number| *number <= state.number);
    let oldest = state.ring.front().map_or(state.number + 1, |message| message.number);
    match number.filter(|number| number + 1 >= oldest) {
        None => (state.number, reset(hub, state.number)),
        Some(number) => {
            let missed = state.ring.iter().filter(|message| message.number > number);
            (state.number, missed.filter_map(|message| written(hub, message, topics, caller)).collect())
        }
    }
}

/// A message as a stream has it; `None` where it is not for this one.
fn written(hub: &Hub, message: &Message, topics: &[Topic], caller: &Caller) -> Option<String> {
    let data = message.news.told_to(caller).filter(|_| topics.contains(&message.topic))?;
    let (number, event) = (message.number, message.topic.event());
    // JSON has no line breaks of its own.
    Some(format!("id: {}:{number}\nevent: {event}\ndata: {data}\n\n", hub.epoch))
}

fn reset(hub: &Hub, number: u64) -> String {
    format!("id: {}:{number}\nevent: reset\ndata: {{}}\n\n", hub.epoch)
}

/// One stream.
struct Reader {
    api: Arc<Inner>,
    caller: Caller,
    headers: HeaderMap,
    wants: Wants,
    news: broadcast::Receiver<Arc<Message>>,
    /// What was told by its beginning.
    last: u64,
    first: Option<String>,
    ping: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Reader {
    /// The next piece; `None` when the stream ends.
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let hub = self.wants.hub.clone();
        loop {
            tokio::select! {
                () = hub.stopping.cancelled() => return None,
                () = &mut self.ping => {
                    self.ping.as_mut().reset(tokio::time::Instant::now() + PING);
                    if is_shut(&self.api, &self.headers).await {
                        return None;
                    }
                    return Some(": here\n\n".to_owned());
                }
                news = self.news.recv() => match news {
                    Ok(message) if message.number <= self.last => {}
                    Ok(message) => {
                        if let Some(told) = written(&hub, &message, &self.wants.topics, &self.caller) {
                            return Some(told);
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let number = hub.state.lock().number;
                        self.last = number;
                        return Some(reset(&hub, number));
                    }
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            }
        }
    }
}
