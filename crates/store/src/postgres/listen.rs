//! Hints between processes: `NOTIFY` and `LISTEN`, of which nothing depends.
//!
//! Within this process hints arrive at once. To the others they go on a connection of their own,
//! gathered for a moment: inside the transactions that cause them, `NOTIFY` would take a lock that all
//! of PostgreSQL's committers share. Whoever may have missed some is told that anything may have
//! happened. A process that is gone right after what it did tells them before it goes on.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use outlast_core::RunId;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::{ToSql, Type as PgType};
use uuid::Uuid;

use super::error::meaning;
use super::pool::{Pool, answered};
use super::server::Server;
use crate::{Shape, Signal, StoreError};

/// How long hints are gathered.
const GATHER: Duration = Duration::from_millis(2);
/// How soon after others were told of something they are told of ends alone, which never stop on a busy node: each time costs
/// the database, the node and everybody who listens more than the end of a run.
const ENDS_APART: Duration = Duration::from_millis(10);
/// With more hints than this at once, one says it all.
const MANY: usize = 20;
/// How often the listening connection is asked whether it lives.
const PULSE: Duration = Duration::from_secs(15);
/// How long a listener that lost its connection waits before it tries again, at first and at most: without it everything is
/// heard of later, so a database that is back has to be heard soon. One that listened for longer than that begins anew.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Hints on their way out.
pub(super) struct Hints {
    pub(super) local: broadcast::Sender<Signal>,
    /// Marks what we sent, so that we do not hear it twice.
    sender: String,
    gathered: Mutex<Gathered>,
    wake: Notify,
    /// Whether something was heard since the last connection began to listen.
    hears: AtomicBool,
}

/// What others have not been told yet. Ends are many, and whoever hears of them has nothing to do but to look for those that
/// it waits for: so they are no reason to say that anything may have happened.
#[derive(Default)]
struct Gathered {
    ended: Vec<RunId>,
    /// More ended than are worth naming.
    many_ended: bool,
    others: HashSet<String>,
}

impl Gathered {
    fn take(&mut self, signal: &Signal) {
        match signal {
            Signal::Ended(runs) => {
                self.many_ended |= runs.is_empty() || self.ended.len() + runs.len() > MANY;
                match self.many_ended {
                    true => self.ended.clear(),
                    false => self.ended.extend_from_slice(runs),
                }
            }
            // Once there are too many, it does not matter which.
            other if self.others.len() <= MANY => drop(self.others.insert(written(other))),
            _ => {}
        }
    }

    /// What to tell.
    fn hints(self) -> Vec<String> {
        if self.others.len() > MANY {
            return vec![ANYTHING.to_owned()];
        }
        let mut hints: Vec<String> = self.others.into_iter().collect();
        if self.many_ended || !self.ended.is_empty() {
            hints.push(written(&Signal::Ended(self.ended.into())));
        }
        hints
    }
}

impl Hints {
    pub(super) fn new(local: broadcast::Sender<Signal>) -> Hints {
        let sender = format!("@{:016x}", fastrand::u64(..));
        Hints { local, sender, gathered: Mutex::default(), wake: Notify::new(), hears: false.into() }
    }

    /// Whether hints of other processes arrive.
    pub(super) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// Tells this process now and the others soon.
    pub(super) fn send(&self, signals: Vec<Signal>) {
        if signals.is_empty() {
            return;
        }
        let mut gathered = self.gathered.lock();
        for signal in signals {
            gathered.take(&signal);
            let _ = self.local.send(signal);
        }
        drop(gathered);
        self.wake.notify_one();
    }

    /// Carries hints to other processes, for ever.
    pub(super) async fn carry(self: Arc<Self>, pool: Arc<Pool>) {
        let mut told = Instant::now();
        loop {
            self.gather(told).await;
            self.tell(&pool).await;
            told = Instant::now();
        }
    }

    /// Waits until there is something to tell others, who were told something before.
    async fn gather(&self, told: Instant) {
        self.wake.notified().await;
        sleep(GATHER).await;
        while self.gathered.lock().others.is_empty() && told.elapsed() < ENDS_APART {
            let _ = timeout_at(told + ENDS_APART, self.wake.notified()).await;
        }
    }

    /// Tells other processes what has gathered.
    pub(super) async fn tell(&self, pool: &Arc<Pool>) {
        let hints = std::mem::take(&mut *self.gathered.lock()).hints();
        if hints.is_empty() {
            return;
        }
        let payloads: Vec<String> = hints.into_iter().map(|hint| format!("{hint} {}", self.sender)).collect();
        if let Err(error) = notify(pool, &payloads).await {
            // Others find out by themselves, later.
            tracing::debug!(%error, "hints were not sent");
        }
    }

    /// Hears the hints of other processes, for ever.
    pub(super) async fn hear(self: Arc<Self>, server: Server) {
        let mut pause = None;
        loop {
            let began = tokio::time::Instant::now();
            let Err(error) = self.listen(&server).await;
            self.hears.store(false, Ordering::Relaxed);
            tracing::debug!(%error, "the listening connection ended");
            let next = pause_after(began.elapsed(), pause);
            pause = Some(next);
            sleep(next.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    /// Listens until the connection breaks.
    async fn listen(&self, server: &Server) -> Result<std::convert::Infallible, StoreError> {
        let (client, mut messages) = server.connect().await?;
        let hearing = async {
            while let Some(message) = messages.next().await {
                if let AsyncMessage::Notification(note) = message.map_err(|error| meaning(&error))? {
                    self.hears.store(true, Ordering::Relaxed);
                    if note.channel() == CHANNEL {
                        self.heard(note.payload());
                    }
                }
            }
            Err(StoreError::Unavailable("the connection was closed".into()))
        };
        let living = async {
            // To ourselves alone: not every database that takes a `LISTEN` tells anything.
            let alone = &self.sender;
            answered(client.batch_execute(&format!("listen \"{alone}\"; notify \"{alone}\""))).await?;
            answered(client.batch_execute("listen outlast")).await?;
            // Whatever happened while nobody listened, happened unheard.
            let _ = self.local.send(Signal::Anything);
            loop {
                sleep(PULSE).await;
                answered(client.batch_execute("")).await?;
            }
        };
        tokio::select! { ended = hearing => ended, ended = living => ended }
    }

    fn heard(&self, payload: &str) {
        let (hint, sender) = match payload.rsplit_once(' ') {
            Some((hint, sender)) if sender.starts_with('@') => (hint, sender),
            _ => (payload, ""),
        };
        if sender != self.sender {
            let _ = self.local.send(read(hint));
        }
    }
}

/// How long to wait after a connection that lasted so long, and before which this was waited.
fn pause_after(lasted: Duration, before: Option<Duration>) -> Duration {
    let (first, most) = BACKOFF;
    match before {
        Some(before) if lasted <= most => (before * 2).min(most),
        _ => first,
    }
}

/// Where hints are told.
const CHANNEL: &str = "outlast";
const ANYTHING: &str = "anything";

// A hint need not outlast a power failure, and does not wait for the disk.
const NOTIFY: &str = "select set_config('synchronous_commit', 'off', true),
                             (select count(pg_notify('outlast', payload)) from unnest($1::text[]) as payload)";
/// What the connection keeps it under.
const NOTIFY_NAME: (&str, Shape) = ("notify", Shape::Many);

pub(super) fn written(signal: &Signal) -> String {
    match signal {
        Signal::Due => "due".to_owned(),
        Signal::Queues => "queues".to_owned(),
        Signal::Schedules => "schedules".to_owned(),
        Signal::News(run) => format!("news {}", run.uuid()),
        Signal::Ended(runs) if runs.is_empty() => "ended".to_owned(),
        Signal::Ended(runs) => {
            let ids: Vec<String> = runs.iter().map(|run| run.uuid().to_string()).collect();
            format!("ended {}", ids.join(","))
        }
        Signal::Taken(run) => format!("taken {}", run.uuid()),
        Signal::Pause(run) => format!("pause {}", run.uuid()),
        Signal::Orphans => "orphans".to_owned(),
        Signal::Anything => ANYTHING.to_owned(),
    }
}

fn read(hint: &str) -> Signal {
    let run = |id: &str| id.parse::<Uuid>().ok().map(RunId::from_uuid);
    match hint.split_once(' ') {
        None if hint == "due" => Signal::Due,
        None if hint == "queues" => Signal::Queues,
        None if hint == "schedules" => Signal::Schedules,
        None if hint == "orphans" => Signal::Orphans,
        None if hint == "ended" => Signal::Ended([].into()),
        Some(("news", id)) => run(id).map_or(Signal::Anything, Signal::News),
        Some(("ended", ids)) => {
            let runs: Option<Vec<RunId>> = ids.split(',').map(run).collect();
            runs.map_or(Signal::Anything, |runs| Signal::Ended(runs.into()))
        }
        Some(("taken", id)) => run(id).map_or(Signal::Anything, Signal::Taken),
        Some(("pause", id)) => run(id).map_or(Signal::Anything, Signal::Pause),
        _ => Signal::Anything,
    }
}

pub(super) async fn notify(pool: &Arc<Pool>, payloads: &[String]) -> Result<(), StoreError> {
    let mut leased = pool.lease().await?;
    if leased.is_unnamed() {
        let payloads: (&(dyn ToSql + Sync), PgType) = (&payloads, PgType::TEXT_ARRAY);
        answered(leased.client().execute_typed(NOTIFY, &[payloads])).await?;
    } else {
        let connection = leased.connection();
        if !connection.statements.contains_key(&NOTIFY_NAME) {
            let prepared = connection.client.prepare_typed(NOTIFY, &[PgType::TEXT_ARRAY]);
            connection.statements.insert(NOTIFY_NAME, answered(prepared).await?);
        }
        answered(connection.client.execute(&connection.statements[&NOTIFY_NAME], &[&payloads])).await?;
    }
    leased.give_back();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_back_soon_after_a_server_that_was_away_for_long_or_restarted_again_and_again() {
        let refused =
            (0..50).fold(None, |pause, _| Some(pause_after(Duration::from_millis(1), pause))).unwrap();
        assert_eq!(refused, Duration::from_secs(2));
        let lasted = Duration::from_secs(3);
        assert_eq!(pause_after(lasted, Some(refused)), Duration::from_millis(100));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let run = RunId::new(3, outlast_core::Timestamp::from_micros(1), 7);
        for signal in [
            Signal::Due,
            Signal::News(run),
            Signal::ended(run),
            Signal::Ended([run, run].into()),
            Signal::Ended([].into()),
            Signal::Taken(run),
            Signal::Pause(run),
            Signal::Queues,
            Signal::Schedules,
            Signal::Orphans,
            Signal::Anything,
        ] {
            assert_eq!(read(&written(&signal)), signal);
        }
        for odd in ["", "due 5", "news x", "ended x", "hello world"] {
            assert_eq!(read(odd), Signal::Anything, "{odd}");
        }
    }

    #[test]
    fn many_ends_are_told_as_ends_and_many_others_as_anything() {
        let runs: Vec<RunId> = (0..=MANY as u64).map(|n| RunId::new(0, Default::default(), n)).collect();
        let mut few = Gathered::default();
        few.take(&Signal::ended(runs[0]));
        few.take(&Signal::Ended(runs[1..3].into()));
        few.take(&Signal::Due);
        few.take(&Signal::Due);
        let hints: HashSet<Signal> = few.hints().iter().map(|hint| read(hint)).collect();
        assert_eq!(hints, HashSet::from([Signal::Due, Signal::Ended(runs[..3].into())]));

        let mut many = Gathered::default();
        runs.iter().for_each(|run| many.take(&Signal::ended(*run)));
        many.take(&Signal::ended(runs[0]));
        assert_eq!(many.hints(), ["ended"]);

        let mut others = Gathered::default();
        runs.iter().for_each(|run| others.take(&Signal::News(*run)));
        others.take(&Signal::ended(runs[0]));
        assert_eq!(others.hints(), [ANYTHING]);
    }

    #[tokio::test(start_paused = true)]
    async fn ends_alone_are_told_at_times_and_all_else_soon() {
        let (hints, began) = (Hints::new(broadcast::Sender::new(8)), Instant::now());
        let run = RunId::new(0, Default::default(), 1);
        hints.send(vec![Signal::ended(run)]);
        hints.gather(began).await;
        assert_eq!(began.elapsed(), ENDS_APART);
        hints.send(vec![Signal::ended(run)]);
        hints.gather(began).await;
        assert_eq!(began.elapsed(), ENDS_APART + GATHER, "others have heard nothing for long enough");

        let told = Instant::now();
        hints.send(vec![Signal::ended(run)]);
        let news = async {
            sleep(GATHER * 2).await;
            hints.send(vec![Signal::News(run)]);
        };
        tokio::join!(hints.gather(told), news);
        assert_eq!(told.elapsed(), GATHER * 2, "nothing else waits for ends");
    }

    #[test]
    fn our_own_hints_are_not_heard_twice() {
        let hints = Hints::new(broadcast::Sender::new(8));
        let mut heard = hints.local.subscribe();
        hints.heard(&format!("due {}", hints.sender));
        assert!(heard.try_recv().is_err());
        hints.heard("due @0000000000000000");
        hints.heard("due");
        assert_eq!((heard.try_recv(), heard.try_recv()), (Ok(Signal::Due), Ok(Signal::Due)));
    }
}
