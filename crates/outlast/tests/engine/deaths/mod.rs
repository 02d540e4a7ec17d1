//! Deaths between any two commits of a saga: what was done and undone is what was promised, wherever a process died.
//!
//! Every process has its own way to the database, and dies at one of its writes: before the database hears of it, or before
//! it hears that it happened. So the story is told once for each write, until one comes to its end without a death. The ledger holds
//! what bodies did while their process lived; the journal, as each death left it, says which of that counts.

mod processes;
mod told;
mod trip;

use std::time::Duration;

use outlast::prelude::*;
use outlast::testing::{self, Test};
use outlast_core::{Entry, Op};
use outlast_testkit::{Death, Watched};

use self::told::Told;
use self::trip::{DONE, End, Process, UNDONE, guide, trip};
use crate::engine_test;
use crate::harness::Lab;

/// Between two attempts: long enough that the run is suspended meanwhile, and short beside a lease.
const PAUSE: Duration = Duration::from_secs(1);

/// One trip whose processes are engines of this one.
struct Trip {
    told: Told,
    warm: usize,
    end: End,
}

/// What ended the life of a process in the story.
enum Left {
    Died,
    Over(Status),
}

impl Trip {
    fn new(lab: &Lab, how: &str, end: End) -> Trip {
        Trip { told: Told::new(&lab.world, how), warm: lab.warm(), end }
    }

    /// A process that works on the trip until that has ended or it dies.
    async fn process(&mut self, death: Option<Death>) -> Left {
        let store = Watched::over(self.told.world.store().clone());
        if let Some(death) = death {
            store.dies(death);
        }
        let state = Process { book: self.told.book.clone(), store: store.clone(), pause: PAUSE };
        let warm = self.warm;
        let start = testing::start_on(store.clone(), |app| {
            let app = app.workflow(trip()).workflow(guide()).state(state);
            app.settings(|settings| settings.warm = warm)
        });
        let started = tokio::select! {
            test = start => Some(test.unwrap()),
            () = store.died() => None,
        };
        let Some(test) = started else {
            return self.dies(None, &store).await;
        };
        let ended = tokio::select! {
            status = self.follow(&test) => Some(status),
            () = store.died() => None,
        };
        match ended {
            None => self.dies(Some(test), &store).await,
            Some(status) => {
                store.bury();
                test.kill().await;
                Left::Over(status)
            }
        }
    }

    async fn dies(&mut self, test: Option<Test>, store: &Watched) -> Left {
        let kill = async {
            if let Some(test) = test {
                test.kill().await;
            }
        };
        // Its calls end when nothing of it acts on their answers any more.
        tokio::join!(kill, async { store.bury() });
        self.told.dig().await;
        self.told.world.clock().advance(1.minute());
        Left::Died
    }

    /// Starts the trip, which is the same one every time, and lets time pass until it has ended.
    async fn follow(&self, test: &Test) -> Status {
        let run = test.app().start(trip(), self.end).key(&self.told.key).await.unwrap().id();
        loop {
            let view = self.told.client.status(run).await.unwrap();
            if view.status.is_final() {
                return view.status;
            }
            let says = |entry: &Entry| entry.op == Op::Event;
            if view.status == Status::Waiting
                && self.told.client.journal(run, 0, 1000).await.unwrap().iter().any(says)
            {
                self.told.client.cancel(run, "enough").await.unwrap();
            }
            let now = self.told.world.now().await;
            if let Some(due) = self.told.world.store().next_due().await.unwrap().filter(|due| *due > now) {
                self.told.world.clock().advance(due.since(now));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// More writes than any trip makes.
const WRITES: u32 = 100;

/// Every place to die at, until a story says that nobody died.
fn places(moment: fn(u32) -> Death) -> impl Iterator<Item = (u32, Death)> {
    (1..=WRITES).map(move |n| (n, moment(n)))
}

const MOMENTS: [fn(u32) -> Death; 2] = [Death::Before, Death::After];

async fn table(lab: &Lab) {
    lab.world.raw("create table debits (run text, call bigint)").await;
}

fn all(end: End) -> Vec<&'static str> {
    let done = DONE.iter().copied().filter(|call| end == End::Fails || *call != "pay");
    done.chain(UNDONE.iter().map(|(undo, ..)| *undo)).collect()
}

/// A trip with these deaths, and one more process. Gives how many of them came.
async fn dies_and_goes_on(lab: &Lab, end: End, deaths: &[Death]) -> usize {
    let how = format!("{end:?} {deaths:?}");
    let mut trip = Trip::new(lab, &how, end);
    let mut next = deaths.iter().copied();
    let status = loop {
        match trip.process(next.next()).await {
            Left::Died => {}
            Left::Over(status) => break status,
        }
    };
    assert_eq!(status, if end == End::Fails { Status::Failed } else { Status::Cancelled }, "{how}");
    trip.told.check(&all(end), &how).await;
    assert_eq!(trip.told.calls(true), ["guide"], "{how}");
    trip.told.graves.len()
}

async fn dies_everywhere(lab: &Lab, end: End) {
    table(lab).await;
    for moment in MOMENTS {
        let mut deaths = 0;
        for (_, death) in places(moment) {
            match dies_and_goes_on(lab, end, &[death]).await {
                0 => break,
                died => deaths += died,
            }
        }
        assert!((15..60).contains(&deaths), "{deaths} deaths");
    }
    lab.world.invariants().await;
}

engine_test! {
    async fn a_process_that_dies_between_any_two_commits_of_a_saga_that_fails_keeps_every_promise(lab: Lab) {
        dies_everywhere(&lab, End::Fails).await;
    }

    async fn a_process_that_dies_between_any_two_commits_of_a_saga_that_is_cancelled_keeps_every_promise(lab: Lab) {
        dies_everywhere(&lab, End::Waits).await;
    }

    async fn whoever_takes_a_saga_over_may_die_too(lab: Lab) {
        table(&lab).await;
        let mut rounds = 0;
        for (n, first) in places(Death::After) {
            // Joining, taking over and claiming come first.
            let second = MOMENTS[n as usize % 2](2 + n % 5);
            if dies_and_goes_on(&lab, End::Fails, &[first, second]).await == 0 {
                break;
            }
            rounds += 1;
        }
        assert!(rounds >= 15, "{rounds}");
        lab.world.invariants().await;
    }

    async fn a_saga_that_is_cancelled_while_its_process_is_dead_undoes_what_was_recorded_and_no_more(lab: Lab) {
        table(&lab).await;
        for moment in MOMENTS {
            for (_, death) in places(moment) {
                let how = format!("cancelled {death:?}");
                let mut trip = Trip::new(&lab, &how, End::Fails);
                if let Left::Over(_) = trip.process(Some(death)).await {
                    break;
                }
                let asked = trip.told.client.cancel(trip.told.target(), "enough").await;
                let Ok(true) = asked else {
                    // Nobody heard of it yet, or it was over.
                    assert!(trip.told.graves[0].journal.is_empty() || trip.told.graves[0].has_failed(), "{how}: {asked:?}");
                    continue;
                };
                let Left::Over(status) = trip.process(None).await else { panic!("{how}: nobody shall die") };
                let grave = &trip.told.graves[0];
                let ended = if grave.has_failed() { Status::Failed } else { Status::Cancelled };
                assert_eq!(status, ended, "{how}");
                let before = trip.told.book.notes()[..grave.notes].to_vec();
                let did = |call: &str| before.iter().any(|note| note.split('=').next() == Some(call));
                // What began is in doubt, whatever the journal says.
                let undo = |op, name| grave.can_undo(op, name) || name == "hotel" && did(name);
                let undo = UNDONE.iter().filter(|(_, op, name)| undo(*op, name)).map(|(undo, ..)| *undo);
                let wanted: Vec<&str> = DONE.iter().copied().filter(|call| did(call)).chain(undo).collect();
                trip.told.check(&wanted, &how).await;
            }
        }
        lab.world.invariants().await;
    }
}
