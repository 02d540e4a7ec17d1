//! Jobs that failed for good are kept, found and tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlast::prelude::*;
use outlast::{Filter, Phase};

use crate::engine_test;
use crate::harness::Ledger;

/// Takes addresses only.
fn mail() -> Job<String, String, AnyError> {
    let mail = |job: JobCtx, to: String| async move {
        job.state::<Ledger>().note(&to);
        if to.contains('@') {
            Ok(format!("sent to {to}"))
        } else {
            Err(AnyError::new(format!("{to} is nobody")))
        }
    };
    Job::new("mail", mail).retry(Retry::times(2).first(1.second()))
}

/// Works once somebody has put right what was wrong.
fn fragile() -> Job<u32, u32, AnyError> {
    let call = |job: JobCtx, n: u32| async move {
        let ledger = job.state::<Ledger>();
        ledger.note(format!("{n}"));
        if ledger.count("mended") > 0 { Ok(n) } else { Err(AnyError::new("broken")) }
    };
    Job::new("fragile", call).queue("fragile").retry(Retry::times(1))
}

/// How many were at it at once.
#[derive(Clone, Default)]
struct Most(Arc<(AtomicUsize, AtomicUsize)>);

impl Most {
    fn begin(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn at_once(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

fn failed() -> Filter {
    Filter { statuses: vec![Status::Failed], ..Filter::default() }
}

engine_test! {
    async fn a_failed_job_is_tried_again_with_another_input_and_completes(lab: Lab) {
        lab.start(|app| app.job(mail())).await;
        let run = lab.app().start(mail(), "ada".to_owned()).key("m-1").await.unwrap();
        lab.advance(1.minute()).await;
        assert!(run.result().await.is_err());
        assert_eq!(lab.app().list(&failed(), None, 10).await.unwrap().runs[0].record.id, run.id());

        assert!(lab.app().retry_with(Target::key("mail", "m-1"), "ada@example.com").await.unwrap());
        assert_eq!(run.result().await.unwrap(), "sent to ada@example.com");
        assert_eq!(lab.ledger.notes(), ["ada", "ada", "ada@example.com"]);
        let attempts = lab.test().journal(run.id()).await.unwrap();
        assert_eq!(attempts.iter().map(|entry| entry.phase).collect::<Vec<_>>(), [Phase::Attempt; 2]);
    }

    async fn those_that_are_tried_again_keep_to_the_limit_of_their_group(lab: Lab) {
        let most = Most::default();
        let visit = || Job::new("visit", |job: JobCtx, (): ()| async move {
            if job.state::<Ledger>().count("mended") == 0 {
                job.last_attempt();
                return Err(AnyError::new("down"));
            }
            let most = job.state::<Most>();
            most.begin();
            tokio::time::sleep(50.millis()).await;
            most.end();
            Ok(())
        }).queue("mail");
        lab.start(|app| app.job(visit()).state(most.clone()).queue(Queue::new("mail").per_group(1))).await;
        let runs = lab.app().start_many(visit(), (0..4).map(|_| ())).group("customer-7").await.unwrap();
        for run in &runs {
            run.result().await.unwrap_err();
        }
        lab.ledger.note("mended");
        assert_eq!(lab.app().retry_all(&failed()).await.unwrap(), 4);
        for run in &runs {
            run.result().await.unwrap();
        }
        assert_eq!(most.at_once(), 1, "of one group one runs at once");
    }

    async fn one_that_is_tried_again_is_still_the_only_one_of_its_kind(lab: Lab) {
        lab.start(|app| app.job(fragile())).await;
        let start = || lab.app().start(fragile(), 7).unique(Unique::by_key("k"));
        let first = start().await.unwrap();
        first.result().await.unwrap_err();
        let second = start().delay(1.hour()).await.unwrap();
        assert_eq!(lab.app().retry(first.id()).await.unwrap_err().code(), "already_exists");
        assert_eq!(lab.app().retry_all(&failed()).await.unwrap(), 0);
        lab.ledger.note("mended");
        lab.advance(2.hours()).await;
        second.result().await.unwrap();
        assert!(lab.app().retry(first.id()).await.unwrap());
        first.result().await.unwrap();
    }

    async fn one_that_fails_again_has_all_its_attempts_anew_and_keeps_the_errors_of_all(lab: Lab) {
        lab.start(|app| app.job(mail())).await;
        let run = lab.app().start(mail(), "ada".to_owned()).await.unwrap();
        lab.advance(1.minute()).await;
        assert!(lab.app().retry(run.id()).await.unwrap());
        lab.settle().await;
        lab.restart(|app| app.job(mail())).await;
        lab.advance(1.minute()).await;
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Failed);
        assert_eq!(lab.ledger.notes(), ["ada"; 4]);
        let attempts = lab.test().journal(run.id()).await.unwrap();
        assert_eq!(attempts.iter().map(|entry| entry.pos).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    async fn those_that_fit_a_filter_are_tried_again_oldest_first(lab: Lab) {
        lab.start(|app| app.job(fragile()).job(mail()).concurrency(1)).await;
        for n in 0..5 {
            let _ = lab.app().start(fragile(), n).await.unwrap().result().await;
        }
        let other = lab.app().start(mail(), "ada".to_owned()).await.unwrap();
        lab.advance(1.minute()).await;
        lab.ledger.note("mended");
        let filter = Filter { definition: Some("fragile".into()), ..Filter::default() };
        assert_eq!(lab.app().retry_all(&filter).await.unwrap(), 5);
        lab.settle().await;
        assert_eq!(lab.app().retry_all(&filter).await.unwrap(), 0, "none is left");
        let notes = lab.ledger.notes();
        let again: Vec<&str> = notes.iter().skip_while(|note| *note != "mended").skip(1).map(|note| &**note).collect();
        let mut sorted = again.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["0", "1", "2", "3", "4"]);
        assert_eq!(lab.app().status(other.id()).await.unwrap().status, Status::Failed, "it does not fit");
        let completed = Filter { statuses: vec![Status::Completed], ..Filter::default() };
        assert_eq!(lab.app().retry_all(&completed).await.unwrap_err().code(), "invalid_argument");
    }

    async fn a_cancelled_job_is_tried_again(lab: Lab) {
        lab.start(|app| app.job(mail())).await;
        let run = lab.app().start(mail(), "ada@example.com".to_owned()).delay(1.day()).await.unwrap();
        lab.app().cancel(run.id(), "a mistake").await.unwrap();
        assert_eq!(lab.app().retry_all(&Filter::default()).await.unwrap(), 0, "only when asked for");
        assert!(lab.app().retry(run.id()).await.unwrap());
        assert_eq!(run.result().await.unwrap(), "sent to ada@example.com");
    }

    async fn what_cannot_be_tried_again_is_refused_and_stays(lab: Lab) {
        lab.start(|app| app.job(mail()).job(fragile())).await;
        let done = lab.app().start(mail(), "ada@example.com".to_owned()).await.unwrap();
        done.result().await.unwrap();
        let broken = lab.app().start(fragile(), 7).await.unwrap();
        let _ = broken.result().await;
        let waiting = lab.app().start(mail(), "ada".to_owned()).delay(1.day()).await.unwrap();

        assert_eq!(lab.app().retry(done.id()).await.unwrap_err().code(), "not_retryable");
        assert_eq!(lab.app().retry(Target::key("mail", "nobody")).await.unwrap_err().code(), "not_found");
        let wrong = lab.app().retry_with(broken.id(), "a text").await.unwrap_err();
        assert_eq!(wrong.code(), "undecodable", "the code is here, and takes numbers");
        assert_eq!(lab.app().status(broken.id()).await.unwrap().status, Status::Failed);
        assert!(!lab.app().retry(waiting.id()).await.unwrap(), "it has not ended");
    }

    async fn in_a_transaction_it_is_tried_again_when_that_commits(lab: Lab) {
        lab.start(|app| app.job(fragile())).await;
        let run = lab.app().start(fragile(), 7).await.unwrap();
        let _ = run.result().await;
        lab.ledger.note("mended");
        let client = lab.app().client().clone();
        let retry = async |commit: bool| {
            let (client, run) = (client.clone(), run.id());
            lab.app().transaction(async move |tx: Tx| {
                let retried = client.retry_in_tx(&tx, run).await?;
                if commit { Ok(retried) } else { Err(AnyError::new("no")) }
            }).await
        };
        assert!(retry(false).await.is_err());
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Failed);
        assert!(retry(true).await.unwrap());
        assert_eq!(run.result().await.unwrap(), 7);
    }
}
