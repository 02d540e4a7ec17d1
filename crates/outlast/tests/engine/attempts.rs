//! Attempts of jobs: who says when there is another, and what it gets from the one before.

use std::time::Duration;

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

/// Fails until its third attempt.
fn third_time() -> Job<(), u32, AnyError> {
    Job::new("third", |job: JobCtx, (): ()| async move {
        job.state::<Ledger>().note(format!("attempt {}", job.attempt()));
        match job.attempt() {
            1 | 2 => Err(AnyError::new("not yet")),
            n => Ok(n),
        }
    })
}

/// How often it was tried within this time.
async fn tried_within(lab: &Lab, time: Duration) -> usize {
    lab.advance(time).await;
    lab.ledger.notes().len()
}

engine_test! {
    async fn an_error_says_itself_when_another_attempt_makes_sense(lab: Lab) {
        let job = third_time().retry(Retry::fixed(3, 1.second()));
        let job = job.retry_after(|error: &AnyError| (error.to_string() == "not yet").then(|| 1.hour()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(tried_within(&lab, 59.minutes()).await, 1);
        assert_eq!(tried_within(&lab, 2.minutes()).await, 2);
        assert_eq!(tried_within(&lab, 1.hour()).await, 3);
        assert_eq!(run.result().await.unwrap(), 3);
    }

    async fn a_handler_says_when_another_attempt_makes_sense(lab: Lab) {
        let job = Job::new("asks", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("try");
            job.retry_after(1.hour());
            match job.attempt() {
                1 => Err(AnyError::new("busy")),
                n => Ok(n),
            }
        });
        let job = job.retry(Retry::fixed(2, 1.second()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(tried_within(&lab, 59.minutes()).await, 1);
        lab.advance(2.minutes()).await;
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn asking_for_a_pause_gives_no_further_attempt(lab: Lab) {
        let job = third_time().retry(Retry::fixed(2, 1.second())).retry_after(|_: &AnyError| Some(2.seconds()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(tried_within(&lab, 1.day()).await, 2);
        assert_eq!(run.status().await.unwrap().status, Status::Failed);
    }

    async fn errors_that_another_attempt_does_not_cure_are_terminal(lab: Lab) {
        let job = third_time().retry(Retry::fixed(3, Duration::ZERO)).retry_if(|_: &AnyError| false);
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "not yet");
        assert_eq!(lab.ledger.notes(), ["attempt 1"]);
    }

    async fn an_output_that_cannot_be_kept_is_not_tried_again(lab: Lab) {
        let job = Job::new("big", |job: JobCtx, _: ()| async move {
            job.state::<Ledger>().note(format!("attempt {}", job.attempt()));
            Ok::<_, AnyError>("x".repeat(2 << 20))
        }).retry(Retry::fixed(3, Duration::ZERO));
        lab.start(|app| app.job(job.clone())).await;
        let error = lab.app().start(job, ()).await.unwrap().result().await.unwrap_err().to_string();
        assert_eq!(error, "the output of big is too large: 2097154, the limit is 1048576");
        assert_eq!(lab.ledger.notes(), ["attempt 1"]);
    }

    async fn pauses_come_from_a_function_of_the_users_own(lab: Lab) {
        let job = third_time().retry(Retry::times(3)).backoff(|attempt| 1.hour() * attempt);
        lab.start(|app| app.job(job.clone())).await;
        lab.app().start(job, ()).await.unwrap();
        assert_eq!(tried_within(&lab, 59.minutes()).await, 1);
        assert_eq!(tried_within(&lab, 2.minutes()).await, 2);
        assert_eq!(tried_within(&lab, 118.minutes()).await, 2);
        assert_eq!(tried_within(&lab, 3.minutes()).await, 3);
    }

    async fn where_that_function_panics_the_policy_counts(lab: Lab) {
        let job = third_time().retry(Retry::fixed(3, 1.minute())).backoff(|_| panic!("no idea"));
        lab.start(|app| app.job(job.clone())).await;
        lab.app().start(job, ()).await.unwrap();
        assert_eq!(tried_within(&lab, 59.seconds()).await, 1);
        assert_eq!(tried_within(&lab, 2.minutes()).await, 3);
    }

    async fn a_job_that_snoozes_spends_no_attempt(lab: Lab) {
        let job = Job::new("early", |job: JobCtx, (): ()| async move {
            let ledger = job.state::<Ledger>();
            ledger.note("look");
            if ledger.count("look") < 4 {
                return job.snooze(1.hour()).await;
            }
            Ok::<u32, AnyError>(job.attempt())
        });
        let job = job.retry(Retry::never());
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        assert_eq!(tried_within(&lab, 59.minutes()).await, 1);
        assert_eq!(run.status().await.unwrap().status, Status::Ready);
        lab.restart(|app| app.job(job.clone())).await;
        assert_eq!(tried_within(&lab, 61.minutes()).await, 3);
        lab.advance(1.hour()).await;
        assert_eq!(lab.app().handle(&job, run.id()).result().await.unwrap(), 1);
        assert!(lab.test().journal(run.id()).await.unwrap().is_empty(), "nothing has failed");
    }

    async fn a_job_that_snoozes_when_it_should_stop_is_cancelled_at_once(lab: Lab) {
        let job = Job::new("early", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("look");
            job.cancelled().await;
            job.snooze::<(), AnyError>(1.hour()).await
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        while lab.ledger.count("look") == 0 {
            tokio::task::yield_now().await;
        }
        run.cancel("enough").await.unwrap();
        lab.settle().await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::Cancelled);
        assert!(run.result().await.unwrap_err().to_string().contains("enough"));
    }

    async fn the_next_attempt_gets_what_the_last_one_saved(lab: Lab) {
        let job = Job::new("import", |job: JobCtx, lines: u32| async move {
            let done: u32 = job.saved()?.unwrap_or(0);
            for line in done..lines {
                job.state::<Ledger>().note(format!("line {line}"));
                job.save(&(line + 1))?;
                if line % 2 == 1 && job.attempt() < 4 {
                    return Err(AnyError::new("interrupted"));
                }
            }
            Ok::<u32, AnyError>(job.attempt())
        });
        let job = job.retry(Retry::fixed(5, 1.minute()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), 7).await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.job(job.clone())).await;
        lab.advance(1.hour()).await;
        assert_eq!(lab.app().handle(&job, run.id()).result().await.unwrap(), 4);
        assert_eq!(lab.ledger.notes(), (0..7).map(|line| format!("line {line}")).collect::<Vec<_>>());
        assert_eq!(lab.world.count("select count(*) from outlast.doing").await, 0, "nothing is left of it");
    }

    async fn what_was_saved_outlasts_a_process_that_dies_and_a_snooze(lab: Lab) {
        let job = Job::new("long", |job: JobCtx, (): ()| async move {
            let before: Option<String> = job.saved()?;
            job.state::<Ledger>().note(format!("{before:?}"));
            match before.as_deref() {
                None => {
                    job.save(&"begun")?;
                    std::future::pending().await
                }
                Some("begun") => {
                    job.save(&"slept")?;
                    job.snooze(1.hour()).await
                }
                Some(_) => Ok::<u32, AnyError>(job.attempt()),
            }
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        while lab.world.count("select count(*) from outlast.doing").await == 0 {
            tokio::task::yield_now().await;
        }
        lab.restart(|app| app.job(job.clone())).await;
        lab.advance(3.hours()).await;
        lab.app().handle(&job, run.id()).result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["None", r#"Some("begun")"#, r#"Some("slept")"#]);
    }

    async fn what_a_handler_left_behind_is_not_heard_any_more(lab: Lab) {
        type Left = std::sync::Arc<parking_lot::Mutex<Option<JobCtx>>>;
        let job = Job::new("leaves", |job: JobCtx, (): ()| async move {
            *job.state::<Left>().lock() = Some(job.clone());
            Ok::<(), AnyError>(())
        });
        let left = Left::default();
        lab.start(|app| app.job(job.clone()).state(left.clone())).await;
        lab.app().start(job, ()).await.unwrap().result().await.unwrap();
        let behind = left.lock().take().unwrap();
        behind.progress(50, "late").unwrap();
        behind.save(&1).unwrap();
        lab.settle().await;
        assert_eq!(lab.world.count("select count(*) from outlast.doing").await, 0);
    }

    async fn how_far_a_job_is_can_be_seen(lab: Lab) {
        let job = Job::new("copy", |job: JobCtx, (): ()| async move {
            for percent in 0..=80 {
                job.progress(percent, &format!("{percent} files"))?;
            }
            assert!(job.progress(101, "").unwrap_err().to_string().contains("0 to 100"));
            job.cancelled().await;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        let seen = loop {
            let view = run.status().await.unwrap();
            match view.doing.first() {
                Some(doing) if doing.percent == Some(80) => break doing.clone(),
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!((seen.name.as_str(), seen.attempt), ("copy", 1));
        assert_eq!(seen.message.as_deref(), Some("80 files"));
        run.cancel("seen").await.unwrap();
        run.result().await.unwrap();
        assert!(run.status().await.unwrap().doing.is_empty());
    }
}

#[tokio::test]
async fn a_timeout_in_which_no_attempt_could_begin_is_refused() {
    let job = || Job::new("note", |_: JobCtx, (): ()| async move { Ok::<_, AnyError>(()) });
    let nothing = Duration::ZERO;
    for (job, what) in [(job().timeout(nothing), "timeout"), (job().http_timeout(nothing), "http_timeout")] {
        let refused = Outlast::open("sqlite::memory:").await.unwrap().job(job).run().await.map(|_| ());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }) && refused.to_string().contains(what), "{refused}");
    }
}
