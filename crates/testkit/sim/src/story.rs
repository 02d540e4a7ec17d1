//! What people do with one run: they start it, feed it what it waits for, and perhaps hold it, or ask it to stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outlast::{Client, Error, RunId};

use crate::plan::{Stop, Story};
use crate::play::{Input, definition};
use crate::program::{Act, What};
use crate::world::{Facts, World};

/// How long people wait before they ask again.
const AGAIN: Duration = Duration::from_millis(100);

/// Plays one story to its end.
pub(crate) async fn tell(world: Arc<World>, story: Story, mut rng: Rng) {
    tokio::time::sleep(story.at).await;
    world.cast.give(&story.label, &story.program);
    let run = start(&world, &story.label, &mut rng).await;
    if story.twice {
        start(&world, &story.label, &mut rng).await;
    }
    if let Some(writer) = &story.mails {
        let label = format!("{}w", story.label);
        world.cast.is(&story.label, run);
        world.cast.give(&label, writer);
        start(&world, &label, &mut rng).await;
        return;
    }
    let mut others = rng.fork();
    let stopping = async {
        if let Some((after, what)) = story.stop {
            tokio::time::sleep(after).await;
            stop(&world, &story.label, run, what, &mut others).await;
        }
    };
    let feeding = feed(&world, &story, run, rng.fork());
    tokio::join!(feeding, stopping);
}

/// Starts a run until the answer is sure: its key makes it one.
async fn start(world: &Arc<World>, label: &str, rng: &mut Rng) -> RunId {
    loop {
        let input = Input::new(label.to_owned());
        let key = label.to_owned();
        let answer = world
            .ask(rng, |client| async move {
                let run = client.start(definition(), input).key(key).await?;
                Ok::<RunId, Error>(run.id())
            })
            .await;
        match answer {
            Some(Ok(run)) => {
                world.facts.lock().started.entry(label.to_owned()).or_default().insert(run);
                return run;
            }
            Some(Err(Error::Store { retryable: true, .. })) | None => tokio::time::sleep(AGAIN).await,
            Some(Err(error)) => {
                world.facts.lock().wrong.push(format!("{label} could not be started: {error}"));
                tokio::time::sleep(AGAIN * 10).await;
            }
        }
    }
}

/// Sends and settles all that the run may wait for.
async fn feed(world: &Arc<World>, story: &Story, run: RunId, mut rng: Rng) {
    let mut feeds: Vec<(&Act, u32)> = Vec::new();
    story.program.each(&mut |act| match act.what {
        What::Events { count } => feeds.push((act, count)),
        What::Promise => feeds.push((act, 1)),
        _ => {}
    });
    rng.shuffle(&mut feeds);
    for (act, count) in feeds {
        let (mut taken, mut number) = (0, 0);
        while taken < count {
            tokio::time::sleep(Duration::from_millis(rng.u64(..900))).await;
            let is_event = matches!(act.what, What::Events { .. });
            let place = (story.label.clone(), act.name());
            match give(world, is_event, run, place, number, &mut rng).await {
                Given::Taken => taken += 1,
                Given::Doubtful => {}
                Given::Closed => return,
            }
            // What is in doubt is not given again under its number.
            number += 1;
        }
    }
}

enum Given {
    Taken,
    Doubtful,
    Closed,
}

async fn give(
    world: &Arc<World>,
    is_event: bool,
    run: RunId,
    place: (String, String),
    number: u32,
    rng: &mut Rng,
) -> Given {
    let name = place.1.clone();
    {
        let mut facts = world.facts.lock();
        let given = if is_event { &mut facts.sent } else { &mut facts.settled };
        given.entry(place.clone()).or_default().push((number, false));
    }
    let answer = world
        .ask(rng, |client| async move {
            match is_event {
                true => client.send(run, &name, &number).await,
                false => client.settle(run, &name, &number).await,
            }
        })
        .await;
    match answer {
        Some(Ok(())) => {
            let mut facts = world.facts.lock();
            let given = if is_event { &mut facts.sent } else { &mut facts.settled };
            if let Some(last) = given.get_mut(&place).and_then(|given| given.last_mut()) {
                last.1 = true;
            }
            Given::Taken
        }
        Some(Err(Error::AlreadySettled { .. })) => Given::Taken,
        Some(Err(Error::Closed { .. })) => Given::Closed,
        Some(Err(Error::Store { retryable: true, .. })) | None => Given::Doubtful,
        Some(Err(error)) => {
            world.facts.lock().wrong.push(format!("{place:?} could not be given {number}: {error}"));
            Given::Closed
        }
    }
}

/// Asks a run to stop, or to stand still for a while, until the answer is sure.
async fn stop(world: &Arc<World>, label: &str, run: RunId, what: Stop, rng: &mut Rng) {
    match what {
        Stop::Cancel => {
            end(
                world,
                label,
                rng,
                |facts| &mut facts.cancelled,
                move |client| async move { client.cancel(run, "stop").await },
            )
            .await;
        }
        Stop::Kill => {
            end(
                world,
                label,
                rng,
                |facts| &mut facts.killed,
                move |client| async move { client.kill(run, "stop").await },
            )
            .await;
        }
        Stop::Pause(time) => {
            surely(world, label, rng, move |client| async move { client.pause(run, "wait").await }).await;
            tokio::time::sleep(time).await;
            surely(world, label, rng, move |client| async move { client.resume(run).await }).await;
        }
    }
}

/// Wants a run to end, and notes what the answer was.
async fn end<F>(
    world: &Arc<World>,
    label: &str,
    rng: &mut Rng,
    noted: impl Fn(&mut Facts) -> &mut BTreeMap<String, Option<bool>>,
    call: impl Fn(Client) -> F,
) where
    F: Future<Output = Result<bool, Error>> + Send + 'static,
{
    noted(&mut world.facts.lock()).entry(label.to_owned()).or_insert(None);
    if let Some((taken, tries)) = surely(world, label, rng, call).await {
        // One whose answer got lost may be what ended it.
        let sure = (taken || tries == 1).then_some(taken);
        noted(&mut world.facts.lock()).insert(label.to_owned(), sure);
    }
}

/// Asks until the answer is sure; gives it, and how often was asked.
async fn surely<F>(
    world: &Arc<World>,
    label: &str,
    rng: &mut Rng,
    call: impl Fn(Client) -> F,
) -> Option<(bool, u32)>
where
    F: Future<Output = Result<bool, Error>> + Send + 'static,
{
    for tries in 1.. {
        match world.ask(rng, &call).await {
            Some(Ok(taken)) => return Some((taken, tries)),
            Some(Err(Error::Store { retryable: true, .. })) | None => tokio::time::sleep(AGAIN).await,
            Some(Err(error)) => {
                world.facts.lock().wrong.push(format!("{label} could not be asked to stop: {error}"));
                return None;
            }
        }
    }
    None
}
