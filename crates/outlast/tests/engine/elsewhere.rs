//! Controls from another process, while this one works on the run: they reach it at once, by hints, and not with the next
//! renewal, which is minutes away in all of these stories.

use std::time::Duration;

use outlast::prelude::*;
use outlast::testing::{self, Test};
use outlast_testkit::StoreKind;

use crate::engine_test;
use crate::harness::{Lab, Ledger, once};

/// Step after step, without ever waiting for anything else, until there is a note that it shall end.
fn busy() -> Workflow<(), u32, AnyError> {
    Workflow::new("busy", |ctx: Ctx, (): ()| async move {
        for n in 1.. {
            let ledger = ctx.state::<Ledger>();
            let ends = ctx.step("tick", |_| async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                ledger.note("tick");
                Ok::<bool, AnyError>(ledger.count("end") > 0)
            });
            if ends.await? {
                return Ok(n);
            }
        }
        Ok(0)
    })
}

/// Works until it is dropped.
fn endless() -> Job<(), (), AnyError> {
    Job::new("endless", |job: JobCtx, (): ()| async move {
        let ledger = Ledger::clone(&job.state::<Ledger>());
        ledger.note("work");
        let _dropped = Dropped(ledger);
        std::future::pending::<()>().await;
        Ok::<(), AnyError>(())
    })
}

/// Notes that a body was dropped.
struct Dropped(Ledger);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

fn seldom(app: Outlast) -> Outlast {
    once(app).workflow(busy()).job(endless()).settings(|settings| {
        settings.lease = 10.minutes();
        settings.renew_every = 5.minutes();
        settings.poll_every = 5.minutes();
    })
}

/// Another process: an engine that takes no runs, where the database allows more than one; else a client.
struct Other(Client, Option<Test>);

impl Other {
    async fn of(lab: &Lab) -> Other {
        let store = lab.world.second_store().await;
        if lab.world.kind() == StoreKind::Sqlite {
            return Other(Outlast::on(store).client(), None);
        }
        let none = |app| seldom(app).settings(|settings| settings.queues = vec!["none".into()]);
        let test = testing::start_on(store, |app| none(app).state(Ledger::default())).await.unwrap();
        Other(test.app().client().clone(), Some(test))
    }

    async fn leaves(self) {
        if let Some(test) = self.1 {
            test.app().clone().shutdown(1.second()).await.unwrap();
        }
    }
}

async fn until_noted(lab: &Lab, what: &'static str) {
    lab.until(what, async || lab.ledger.count(what) > 0).await;
}

engine_test! {
    async fn a_pause_reaches_a_run_that_never_waits_and_a_resume_lets_it_go_on(lab: Lab) {
        lab.start(seldom).await;
        let other = Other::of(&lab).await;
        let run = lab.app().start(busy(), ()).await.unwrap();
        until_noted(&lab, "tick").await;
        assert!(other.0.pause(run.id(), "for a look").await.unwrap());
        lab.until("it is paused", async || other.0.status(run.id()).await.unwrap().status == Status::Paused).await;
        lab.settle().await;
        let ticks = lab.ledger.count("tick");
        assert_eq!(other.0.status(run.id()).await.unwrap().pause_reason, None);

        assert!(other.0.resume(run.id()).await.unwrap());
        lab.until("it goes on", async || lab.ledger.count("tick") > ticks).await;
        lab.ledger.note("end");
        assert_eq!(run.result().await.unwrap() as usize, lab.ledger.count("tick"), "nothing ran twice");
        other.leaves().await;
    }

    async fn a_kill_ends_the_run_at_once_and_drops_its_turn(lab: Lab) {
        lab.start(seldom).await;
        let other = Other::of(&lab).await;
        let job = lab.app().start(endless(), ()).await.unwrap();
        let flow = lab.app().start(busy(), ()).await.unwrap();
        until_noted(&lab, "work").await;
        until_noted(&lab, "tick").await;
        for run in [job.id(), flow.id()] {
            assert!(other.0.kill(run, "enough").await.unwrap());
            assert_eq!(other.0.status(run).await.unwrap().status, Status::Cancelled, "at once");
        }
        until_noted(&lab, "dropped").await;
        lab.settle().await;
        let ticks = lab.ledger.count("tick");
        assert!(job.result().await.unwrap_err().is_cancelled());
        assert!(flow.result().await.unwrap_err().is_cancelled());
        let steps = lab.test().steps(flow.id()).await.unwrap().len();
        assert!((ticks - 1..=ticks).contains(&steps), "{steps} of {ticks} are recorded");
        assert_eq!(other.0.verify().await.unwrap().lacking, 0);
        other.leaves().await;
    }

    async fn a_cancel_reaches_a_run_that_never_waits(lab: Lab) {
        lab.start(seldom).await;
        let other = Other::of(&lab).await;
        let run = lab.app().start(busy(), ()).await.unwrap();
        until_noted(&lab, "tick").await;
        assert!(other.0.cancel(run.id(), "enough").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
        other.leaves().await;
    }
}
