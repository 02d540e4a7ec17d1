//! Ended runs go when their time is over, and nothing else does.

use outlast::prelude::*;
use outlast_testkit::Watched;

use crate::engine_test;
use crate::harness::Lab;

/// Completes, fails or sleeps, as its input says.
fn greet(name: &'static str) -> Workflow<String, (), AnyError> {
    Workflow::new(name, |ctx: Ctx, what: String| async move {
        match &*what {
            "fail" => Err(AnyError::new("as asked")),
            "sleep" => Ok(ctx.sleep(1000.days()).await?),
            _ => Ok(()),
        }
    })
}

/// A run of `of` that ended, or sleeps, as `what` says.
async fn ended(lab: &Lab, of: &'static str, what: &str) -> RunId {
    let run = lab.app().start(greet(of), what.to_owned()).await.unwrap().id();
    if what == "cancel" {
        let sleeping = lab.app().start(greet(of), "sleep".to_owned()).delay(1.day()).await.unwrap();
        lab.app().cancel(sleeping.id(), "as asked").await.unwrap();
        return sleeping.id();
    }
    lab.settle().await;
    run
}

/// Which of these are still there.
async fn kept(lab: &Lab, runs: &[RunId]) -> Vec<bool> {
    let mut kept = Vec::new();
    for run in runs {
        kept.push(lab.app().status(*run).await.is_ok());
    }
    kept
}

async fn pass(lab: &Lab, days: u64) {
    lab.advance(days.days()).await;
    lab.test().sweep().await;
}

engine_test! {
    async fn runs_are_kept_for_as_long_as_was_said_for_their_end(lab: Lab) {
        let retention = Retention::forever().completed(1.day()).failed(5.days());
        lab.start(|app| app.workflow(greet("greet")).retention(retention)).await;
        let mut runs = Vec::new();
        for what in ["complete", "fail", "cancel", "sleep"] {
            runs.push(ended(&lab, "greet", what).await);
        }
        lab.test().sweep().await;
        assert_eq!(kept(&lab, &runs).await, [true, true, true, true]);
        pass(&lab, 2).await;
        assert_eq!(kept(&lab, &runs).await, [false, true, true, true]);
        pass(&lab, 4).await;
        assert_eq!(kept(&lab, &runs).await, [false, false, true, true]);
        pass(&lab, 900).await;
        assert_eq!(kept(&lab, &runs).await, [false, false, true, true], "kept for ever, and unfinished");
        assert_eq!(lab.app().status(runs[3]).await.unwrap().status, Status::Waiting);
    }

    async fn what_a_definition_says_holds_for_its_runs_alone(lab: Lab) {
        lab.start(|app| {
            app.workflow(greet("usual"))
                .workflow(greet("short").retention(Retention::all(1.day())))
                .workflow(greet("long").retention(Retention::all(30.days())))
                .workflow(greet("ever").retention(Retention::forever()))
                .retention(Retention::all(7.days()))
        }).await;
        // The oldest are kept longest: whoever comes for the others has to pass them.
        let mut runs = Vec::new();
        for of in ["ever", "long", "usual", "short"] {
            runs.push(ended(&lab, of, "complete").await);
        }
        pass(&lab, 2).await;
        assert_eq!(kept(&lab, &runs).await, [true, true, true, false]);
        let young = ended(&lab, "usual", "fail").await;
        pass(&lab, 6).await;
        assert_eq!(kept(&lab, &runs).await, [true, true, false, false]);
        assert_eq!(kept(&lab, &[young]).await, [true]);
        pass(&lab, 23).await;
        assert_eq!(kept(&lab, &runs).await, [true, false, false, false]);
        assert_eq!(kept(&lab, &[young]).await, [false]);
    }

    async fn a_node_without_the_code_keeps_what_the_code_says(lab: Lab) {
        lab.start(|app| app.workflow(greet("long").retention(Retention::all(30.days())))).await;
        let run = ended(&lab, "long", "complete").await;
        // Another knows nothing of it, and says something shorter for all others.
        lab.restart(|app| app.workflow(greet("usual")).retention(Retention::all(1.day()))).await;
        pass(&lab, 10).await;
        assert_eq!(kept(&lab, &[run]).await, [true]);
        pass(&lab, 21).await;
        assert_eq!(kept(&lab, &[run]).await, [false]);
    }

    async fn a_setting_that_is_changed_holds_for_runs_that_ended_before(lab: Lab) {
        lab.start(|app| app.workflow(greet("greet"))).await;
        let run = ended(&lab, "greet", "complete").await;
        pass(&lab, 10).await;
        assert_eq!(kept(&lab, &[run]).await, [true], "for ever, unless something else is said");
        lab.restart(|app| app.workflow(greet("greet")).retention(Retention::all(7.days()))).await;
        lab.test().sweep().await;
        assert_eq!(kept(&lab, &[run]).await, [false]);
    }

    async fn many_go_in_bounded_batches(lab: Lab) {
        lab.start(|app| app.workflow(greet("greet")).retention(Retention::all(1.day()))).await;
        let many = lab.app().start_many(greet("greet"), (0..1100).map(|n| n.to_string())).await.unwrap();
        lab.settle().await;
        let runs: Vec<RunId> = many.iter().map(|run| run.id()).collect();
        pass(&lab, 2).await;
        assert!(kept(&lab, &runs).await.iter().all(|kept| !kept));
    }
}

#[tokio::test]
async fn a_retention_that_can_only_be_a_mistake_is_refused_with_the_range() {
    let wrong = [Retention::all(0.seconds()), Retention::forever().failed(40_000.days())];
    for retention in wrong {
        let own = outlast::testing::start(|app| app.workflow(greet("greet").retention(retention))).await;
        let all = outlast::testing::start(|app| app.workflow(greet("greet")).retention(retention)).await;
        for refused in [own, all] {
            let error = refused.map(|_| ()).unwrap_err();
            assert_eq!(error.code(), "invalid_argument");
            assert!(error.to_string().contains("1 ms to 100 years"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_finds_nothing_to_delete_rests_and_one_without_a_retention_never_looks() {
    for (retention, looks) in [(Retention::forever(), 0), (Retention::all(1.day()).failed(2.days()), 3)] {
        let store = outlast_store::open("sqlite::memory:", stopped()).await.unwrap();
        let store = Watched::over(store);
        let test = outlast::testing::start_on(store.clone(), |app| {
            app.workflow(greet("greet")).retention(retention)
        });
        let test = test.await.unwrap();
        for _ in 0..5 {
            test.sweep().await;
        }
        assert_eq!(store.count("control"), looks, "once for each time and end, and then not for a minute");
        test.advance(61.seconds()).await.unwrap();
        test.sweep().await;
        assert_eq!(store.count("control"), looks * 2);
    }
}

fn stopped() -> outlast_store::OpenOptions {
    let clock = outlast_store::Clock::stopped_at(outlast::Timestamp::from_micros(1_893_456_000_000_000));
    outlast_store::OpenOptions { clock, ..outlast_store::OpenOptions::default() }
}
