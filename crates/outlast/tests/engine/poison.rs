//! Poison with something to undo: nobody loses an undo silently because the run took processes down.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

/// Lets processes die with what `body` notes, until the run has left their hands; gives its status.
async fn dies_with(lab: &mut Lab, run: RunId, body: &str, with: impl Fn(Outlast) -> Outlast) -> Status {
    let with = |app: Outlast| with(app).settings(|settings| settings.crashes = 1);
    for _ in 0..10 {
        lab.kill().await;
        // Counted now, when nothing of the dead adds to it.
        let began = lab.ledger.count(body);
        lab.start(with).await;
        // The pause of a suspect.
        lab.world.clock().advance(1.minute());
        let settled = async || {
            let status = lab.app().status(run).await.unwrap().status;
            status.is_final() || status == Status::UndoFailed
        };
        lab.until("its body began, or it is over", || async {
            lab.ledger.count(body) > began || settled().await
        })
        .await;
        if settled().await {
            return lab.app().status(run).await.unwrap().status;
        }
    }
    panic!("ten processes died with it: {:?}", lab.app().status(run).await.unwrap())
}

async fn reason(lab: &Lab, run: RunId) -> String {
    lab.app().status(run).await.unwrap().reason.unwrap_or_default()
}

/// Never ends while its process lives: whoever runs it is killed. Once `harmless` is noted it is.
async fn deadly(ledger: Ledger, body: &'static str, harmless: &'static str) -> Result<(), AnyError> {
    ledger.note(body);
    if ledger.count(harmless) > 0 {
        return Ok(());
    }
    std::future::pending().await
}

async fn book(ctx: &Ctx, name: &'static str) -> Result<(), Failure<AnyError>> {
    let (does, undoes) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
    ctx.step(name, move |_| {
        does.note(name);
        async { Ok::<(), AnyError>(()) }
    })
    .undo(move |_, ()| {
        undoes.note(format!("undo {name}"));
        async { Ok::<(), AnyError>(()) }
    })
    .await
}

const MESSAGE: &str = "poison: 5 processes died while they ran it";

engine_test! {
    async fn a_poison_run_with_something_to_undo_waits_for_a_person_and_undoes_when_it_is_tried_again(lab: Lab) {
        let flow = || Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, "hotel").await?;
            book(&ctx, "flight").await?;
            let ledger = ctx.state::<Ledger>();
            ctx.step("kill", move |_| deadly((*ledger).clone(), "kill", "never")).await?;
            Ok::<(), AnyError>(())
        });
        let with = |app: Outlast| app.workflow(flow());
        lab.start(with).await;
        let run = lab.app().start(flow(), ()).timeout(1.hour()).await.unwrap().id();
        lab.until("it kills", || async { lab.ledger.count("kill") == 1 }).await;
        assert_eq!(dies_with(&mut lab, run, "kill", with).await, Status::UndoFailed);
        let says = format!("{MESSAGE}; left to undo: flight, hotel: try it again to undo that");
        assert_eq!(reason(&lab, run).await, says);

        // Its time is over, and it waits all the same.
        lab.restart(with).await;
        lab.advance(2.hours()).await;
        lab.test().sweep().await;
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::UndoFailed);
        let kills = lab.ledger.count("kill");
        assert!(lab.app().retry(run).await.unwrap());
        assert_eq!(lab.app().handle(&flow(), run).result().await.unwrap_err().to_string(), MESSAGE);
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Failed);
        assert_eq!(lab.ledger.count("kill"), kills, "nobody came by it again");
        let notes: Vec<String> = lab.ledger.notes().into_iter().filter(|note| note != "kill").collect();
        assert_eq!(notes, ["hotel", "flight", "undo flight", "undo hotel"]);
    }

    async fn an_undo_that_kills_its_process_again_and_again_waits_for_a_person_too(lab: Lab) {
        let flow = || Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, "hotel").await?;
            let ledger = ctx.state::<Ledger>();
            ctx.step("flight", |_| async { Ok::<(), AnyError>(()) })
                .undo(move |_, ()| deadly((*ledger).clone(), "undo flight", "mended"))
                .await?;
            Err::<(), _>(AnyError::new("no"))
        });
        let with = |app: Outlast| app.workflow(flow());
        lab.start(with).await;
        let run = lab.app().start(flow(), ()).await.unwrap().id();
        lab.until("it kills", || async { lab.ledger.count("undo flight") == 1 }).await;
        assert_eq!(dies_with(&mut lab, run, "undo flight", with).await, Status::UndoFailed);
        assert!(reason(&lab, run).await.ends_with("; left to undo: flight, hotel: try it again to undo that"));
        lab.ledger.note("mended");
        lab.restart(with).await;
        assert!(lab.app().retry(run).await.unwrap());
        // It had failed before: with its own error, not as poison.
        assert_eq!(lab.app().handle(&flow(), run).result().await.unwrap_err().to_string(), "no");
        assert_eq!(lab.ledger.notes().last().unwrap(), "undo hotel");
    }

    async fn a_cancelled_job_whose_undo_kills_its_process_again_and_again_waits_for_a_person(lab: Lab) {
        let job = || Job::new("job", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("run");
            job.cancelled().await;
            Err::<(), _>(AnyError::new("stopped"))
        }).undo(|job: JobCtx, (): ()| async move { deadly((*job.state::<Ledger>()).clone(), "undo", "mended").await });
        let with = |app: Outlast| app.job(job());
        lab.start(with).await;
        let run = lab.app().start(job(), ()).await.unwrap().id();
        lab.until("it runs", || async { lab.ledger.count("run") == 1 }).await;
        lab.app().cancel(run, "enough").await.unwrap();
        lab.until("it kills", || async { lab.ledger.count("undo") == 1 }).await;
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Undoing, "also while it runs");
        assert_eq!(dies_with(&mut lab, run, "undo", with).await, Status::UndoFailed);
        assert!(reason(&lab, run).await.ends_with("; it was not undone: try it again to undo that"));
        lab.ledger.note("mended");
        lab.restart(with).await;
        assert!(lab.app().retry(run).await.unwrap());
        assert!(lab.app().handle(&job(), run).result().await.unwrap_err().is_cancelled());
        assert_eq!((lab.ledger.count("run"), lab.ledger.notes().last().unwrap().as_str()), (1, "undo"));
    }

    async fn a_poison_job_that_nobody_cancelled_has_failed(lab: Lab) {
        let job = || Job::new("job", |job: JobCtx, (): ()| async move {
            deadly((*job.state::<Ledger>()).clone(), "kill", "never").await
        }).undo(|_: JobCtx, (): ()| async { Ok::<(), AnyError>(()) });
        let with = |app: Outlast| app.job(job());
        lab.start(with).await;
        let run = lab.app().start(job(), ()).await.unwrap().id();
        lab.until("it kills", || async { lab.ledger.count("kill") == 1 }).await;
        assert_eq!(dies_with(&mut lab, run, "kill", with).await, Status::Failed);
    }
}
