//! Jobs that are done many at a time.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::Ledger;

fn index(most: usize) -> Job<String, (), AnyError> {
    Job::batch("index", most, 5.seconds(), |batch: BatchCtx, mut docs: Vec<String>| async move {
        assert_eq!(batch.run_ids().len(), docs.len());
        docs.sort();
        batch.state::<Ledger>().note(docs.join(" "));
        match docs.iter().any(|doc| doc == "bad") {
            true => Err(AnyError::new("one is bad")),
            false => Ok(()),
        }
    })
    .retry(Retry::fixed(2, 1.hour()))
}

fn docs(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

engine_test! {
    async fn as_many_as_fit_are_handed_over_at_once(lab: Lab) {
        lab.start(|app| app.job(index(3))).await;
        let runs = lab.app().start_many(index(3), docs(&["a", "b", "c"])).await.unwrap();
        for run in &runs {
            run.result().await.unwrap();
        }
        assert_eq!(lab.ledger.notes(), ["a b c"]);
    }

    async fn those_that_came_are_handed_over_when_the_first_has_waited(lab: Lab) {
        lab.start(|app| app.job(index(100))).await;
        let runs = lab.app().start_many(index(100), docs(&["a", "b"])).await.unwrap();
        lab.until("both are in hand", || async {
            let mut running = 0;
            for run in &runs {
                running += usize::from(run.status().await.unwrap().status == Status::Running);
            }
            running == 2
        }).await;
        assert!(lab.ledger.notes().is_empty());
        // Both have to have joined before their time is over.
        lab.until("handed over", || async {
            lab.world.store().clock().advance(1.second());
            !lab.ledger.notes().is_empty()
        }).await;
        for run in &runs {
            run.result().await.unwrap();
        }
        assert_eq!(lab.ledger.notes().join(" "), "a b");
    }

    async fn they_fail_together_and_each_is_tried_again_by_itself(lab: Lab) {
        lab.start(|app| app.job(index(2))).await;
        let runs = lab.app().start_many(index(2), docs(&["good", "bad"])).await.unwrap();
        lab.until("tried", || async { lab.ledger.notes().len() == 1 }).await;
        lab.until("put back", || async { runs[0].status().await.unwrap().attempt == 2 }).await;
        lab.advance(2.hours()).await;
        for run in &runs {
            assert_eq!(run.result().await.unwrap_err().to_string(), "one is bad");
        }
        assert_eq!(lab.ledger.notes(), ["bad good", "bad good"]);
    }

    async fn an_input_that_nobody_can_read_fails_alone(lab: Lab) {
        lab.start(|app| app.job(index(2))).await;
        let wrong = lab.app().store().clone();
        let mut run = outlast_testkit_run(&lab, "7");
        run.kind = outlast_store::RunKind::Job;
        wrong.start(&[run.clone()], None).await.unwrap();
        let runs = lab.app().start_many(index(2), docs(&["a", "b"])).await.unwrap();
        for run in &runs {
            run.result().await.unwrap();
        }
        lab.until("it failed", || async {
            lab.app().status(run.id).await.unwrap().status == Status::Failed
        }).await;
        assert_eq!(lab.ledger.notes(), ["a b"]);
    }
}

/// A run of `index` with this input.
fn outlast_testkit_run(lab: &crate::harness::Lab, input: &str) -> outlast_store::NewRun {
    let input: serde_json::Value = serde_json::from_str(input).unwrap();
    lab.world.start("index").queue("default").input(input).asked()
}

#[tokio::test]
async fn a_batch_of_nothing_is_refused() {
    let refused = Outlast::open("sqlite::memory:").await.unwrap().job(index(0)).run().await.map(|_| ());
    assert!(refused.unwrap_err().to_string().contains("jobs of a batch"));
}
