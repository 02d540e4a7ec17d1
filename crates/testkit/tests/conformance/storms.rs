//! Storms: families of runs that are killed, cancelled, told, woken, claimed, ended and swept all at once. Nobody waits
//! in a circle, and each run has one end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use outlast_core::{NodeId, RunId};
use outlast_store::{
    Address, Batch, Claim, Committed, Control, Delivery, DynStore, Hold, NewsKind, Next, RunCommit,
    StoreError, Sweep, TurnEnd,
};
use outlast_testkit::{StoreKind, Turn, World, event, store_test, sweep_of};

use tokio::task::JoinSet;

const FAMILIES: usize = 6;
const CHILDREN: usize = 3;
const ROUNDS: usize = 4;
/// A circle is an error within a few seconds, and a story that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(90);

/// Parents in hand, one undoing, each with children in hand, waiting and due.
async fn families(world: &World) -> (Vec<Turn>, Vec<RunId>, Vec<RunId>) {
    let (mut turns, mut runs, mut children) = (Vec::new(), Vec::new(), Vec::new());
    for family in 0..FAMILIES {
        let parent = world.start("order").shard(family as u16).held_by("node").await;
        for child in 0..CHILDREN {
            let start =
                world.start("ship").child_of(parent.run, &format!("ship {child}")).stops_with_parent();
            children.push(start.clone().asked().id);
            let turn = start.held_by("node").await;
            match child {
                0 => turn.suspended().await,
                1 => assert_eq!(world.commit(turn.release()).await, Committed::Done),
                _ => turns.push(turn),
            }
        }
        if family % 2 == 0 {
            let undoes = parent.writes().next(Next::Undo);
            assert_eq!(world.commit(undoes).await, Committed::Done);
        } else {
            turns.push(parent.clone());
        }
        runs.push(parent.run);
    }
    runs.extend(&children);
    (turns, runs, children)
}

fn shuffled(runs: &[RunId]) -> Vec<RunId> {
    let mut runs = runs.to_vec();
    fastrand::shuffle(&mut runs);
    runs
}

/// Calls until there is an answer: on a busy machine a lock may take its time.
async fn done<T, F: Future<Output = Result<T, StoreError>>>(call: impl Fn() -> F) -> T {
    loop {
        match call().await {
            Err(error) if error.is_retryable() => tokio::task::yield_now().await,
            answer => return answer.unwrap(),
        }
    }
}

async fn controls(store: DynStore, runs: Vec<RunId>, ask: fn(RunId) -> Control) {
    let calls = runs.into_iter().map(|run| {
        let (store, control) = (Arc::clone(&store), ask(run));
        async move { done(|| store.control(&control)).await }
    });
    join_all(calls).await;
}

async fn delivers(store: DynStore, node: NodeId, runs: Vec<RunId>, world: World) {
    for pair in runs.chunks(2) {
        let messages: Vec<_> = pair.iter().map(|run| event(Address::Run(*run), "news", "yes")).collect();
        done(|| store.deliver(&messages)).await;
        // Not an event, so that it goes the long way.
        let message = Delivery { kind: NewsKind::Settled, ..event(Address::Run(pair[0]), "p", "1") };
        let hold = Hold { node, claim: world.number() };
        done(|| store.wake(&message, hold, 1)).await;
    }
}

async fn ends(store: DynStore, turns: Vec<Turn>) {
    for turn in turns {
        let next = Next::Suspend { wake_at: None, seen: 99 };
        let commit = RunCommit { next: Some(next), ..RunCommit::new(turn.run, turn.epoch) };
        // Half of them in a transaction of a user's, who waits for the run.
        if fastrand::bool() {
            let mut tx = store.begin().await.unwrap();
            let _ = tx.deliver(&[event(Address::Run(turn.run), "own", "yes")]).await;
            if let Ok(Committed::Done) = tx.end(&TurnEnd { node: turn.node, commit }).await {
                tx.commit().await.unwrap();
            }
        } else {
            let batch = Arc::new(Batch { node: turn.node, shard: turn.run.shard(), runs: vec![commit] });
            while done(|| store.commit(Arc::clone(&batch))).await[0] == Committed::Busy {
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn claims_and_sweeps(store: DynStore, world: World) {
    for shard in 0..world.shards() {
        let ask = Claim { limit: 5, ..world.ask("other", shard).await };
        done(|| store.claim(&ask)).await;
        let by = NodeId::new(0);
        let ask = Sweep { by, ..sweep_of(shard) };
        done(|| store.sweep(&ask)).await;
    }
}

fn kill(run: RunId) -> Control {
    Control::Kill { run: Address::Run(run), reason: "for good".into() }
}

fn cancel(run: RunId) -> Control {
    Control::Cancel { run: Address::Run(run), reason: "enough".into() }
}

fn pause(run: RunId) -> Control {
    Control::Pause { run: Address::Run(run), reason: "for a look".into() }
}

fn retry(run: RunId) -> Control {
    Control::Retry { run: Address::Run(run), epoch: None, input: None, repair: None }
}

#[store_test]
async fn nobody_waits_in_a_circle_and_each_run_has_one_end(world: World) {
    let is_postgres = world.kind() == StoreKind::Postgres;
    if is_postgres {
        // Circles are found before they solve themselves.
        let soon = "alter database %I set deadlock_timeout = ''10ms''";
        world.raw(&format!("do $$ begin execute format('{soon}', current_database()); end $$")).await;
    }
    let told = async {
        let stores = join_all((0..7).map(|_| world.second_store())).await;
        let node = world.node("node").await;
        for _ in 0..ROUNDS {
            let (turns, runs, children) = families(&world).await;
            let [a, b, c, d, e, f, g] = std::array::from_fn(|n| Arc::clone(&stores[n]));
            let mut all = JoinSet::new();
            all.spawn(controls(a, shuffled(&runs), kill));
            all.spawn(controls(b, shuffled(&runs), cancel));
            all.spawn(controls(c, shuffled(&runs), pause));
            all.spawn(delivers(d, node, shuffled(&runs), world.clone()));
            all.spawn(ends(e, turns));
            all.spawn(claims_and_sweeps(f, world.clone()));
            // Whose parent comes back meanwhile locks it late: that is seldom, and left to the database.
            all.spawn(controls(g, shuffled(&children), retry));
            all.join_all().await;
            world.sweep().await;
            for run in &runs {
                // One that was tried again in the middle goes on.
                world.control(&kill(*run)).await;
                assert!(world.status(*run).await.is_final());
            }
        }
    };
    tokio::time::timeout(LIMIT, told).await.expect("somebody waits for ever");
    if is_postgres {
        assert_eq!(circles(&world).await, 0);
    }
}

/// How many circles PostgreSQL had to break. Connections tell that when they end, those of the storm a moment after it.
async fn circles(world: &World) -> i64 {
    let others = "select count(*) from pg_stat_activity
                   where datname = current_database() and application_name = 'outlast' and state = 'idle'";
    let quiet = async {
        while world.count(others).await > 2 {
            tokio::task::yield_now().await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(10), quiet).await;
    world.count("select deadlocks from pg_stat_database where datname = current_database()").await
}
