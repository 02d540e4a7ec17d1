//! Jobs that are done many at a time.

use outlast::prelude::*;
use outlast::testing;

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

/// Gathers for an hour.
fn patient() -> Job<String, (), AnyError> {
    Job::batch("patient", 4, 1.hour(), |batch: BatchCtx, docs: Vec<String>| async move {
        batch.state::<Ledger>().note(docs.join(" "));
        Ok(())
    })
}

async fn is_running(run: &outlast::RunHandle<Job<String, (), AnyError>>) -> bool {
    run.status().await.unwrap().status == Status::Running
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
        // Both, since the hour of whichever is put back later counts from then.
        for run in &runs {
            lab.until("put back", || async { run.status().await.unwrap().attempt == 2 }).await;
        }
        lab.advance(2.hours()).await;
        for run in &runs {
            assert_eq!(run.result().await.unwrap_err().to_string(), "one is bad");
        }
        assert_eq!(lab.ledger.notes(), ["bad good", "bad good"]);
    }

    async fn a_job_that_is_cancelled_while_it_gathers_leaves_the_others(lab: Lab) {
        lab.start(|app| app.job(patient())).await;
        let runs = lab.app().start_many(patient(), docs(&["a", "b"])).await.unwrap();
        lab.until("in hand", || async { is_running(&runs[0]).await && is_running(&runs[1]).await }).await;
        runs[0].cancel("not needed").await.unwrap();
        lab.until("it has ended", || async { runs[0].status().await.unwrap().status == Status::Cancelled }).await;
        lab.until("the other is done", || async {
            lab.world.store().clock().advance(10.minutes());
            runs[1].status().await.unwrap().status == Status::Completed
        }).await;
        assert_eq!(lab.ledger.notes(), ["b"]);
    }

    async fn a_job_whose_time_is_over_while_it_gathers_leaves_the_others(lab: Lab) {
        lab.start(|app| app.job(patient())).await;
        let run = lab.app().start(patient(), "a".into()).timeout(10.minutes()).await.unwrap();
        lab.until("in hand", || async { is_running(&run).await }).await;
        lab.world.store().clock().advance(11.minutes());
        assert!(run.result().await.unwrap_err().to_string().contains("timed out"));
        assert_eq!((run.status().await.unwrap().status, lab.ledger.notes()), (Status::Failed, vec![]));
    }

    async fn a_batch_is_of_one_tenant(lab: Lab) {
        let index = || Job::batch("index", 2, 1.hour(), |batch: BatchCtx, mut docs: Vec<String>| async move {
            docs.sort();
            batch.state::<Ledger>().note(format!("{}: {}", batch.tenant(), docs.join(" ")));
            Ok::<_, AnyError>(())
        });
        lab.start(|app| app.job(index())).await;
        for doc in ["a", "b"] {
            for tenant in ["acme", "evil"] {
                lab.app().start(index(), doc.into()).tenant(tenant).await.unwrap();
            }
        }
        lab.until("all are done", || async { lab.ledger.notes().len() == 2 }).await;
        assert_eq!((lab.ledger.count("acme: a b"), lab.ledger.count("evil: a b")), (1, 1));
    }

    async fn an_error_of_a_batch_says_whether_and_when_its_runs_are_tried_again(lab: Lab) {
        let index = || Job::batch("index", 2, 1.hour(), |batch: BatchCtx, docs: Vec<String>| async move {
            batch.state::<Ledger>().note("tried");
            Err(AnyError::new(docs[0].clone()))
        })
        .retry(Retry::fixed(3, 1.minute()))
        .retry_if(|error| error.to_string() != "hopeless")
        .retry_after(|error| (error.to_string() == "busy").then(|| 1.day()));
        lab.start(|app| app.job(index())).await;
        for run in lab.app().start_many(index(), docs(&["hopeless", "hopeless"])).await.unwrap() {
            assert_eq!(run.result().await.unwrap_err().to_string(), "hopeless");
        }
        assert_eq!(lab.ledger.take(), ["tried"], "no other attempt");
        let runs = lab.app().start_many(index(), docs(&["busy", "busy"])).await.unwrap();
        for run in &runs {
            lab.until("put back", || async { run.status().await.unwrap().attempt == 2 }).await;
        }
        lab.advance(23.hours()).await;
        assert_eq!(lab.ledger.notes(), ["tried"], "a day is not over");
        lab.advance(2.hours()).await;
        for run in &runs {
            lab.until("tried again", || async { run.status().await.unwrap().attempt == 3 }).await;
        }
    }

    async fn a_handler_of_many_gives_up_hears_of_cancels_and_starts_for_whoever_all_act_for(lab: Lab) {
        let note = || Job::new("note", |job: JobCtx, (): ()| async move {
            Ok::<_, AnyError>((job.tenant().to_owned(), job.owner().map(str::to_owned), job.roles().to_vec()))
        });
        let index = || Job::batch("index", 2, 1.hour(), move |batch: BatchCtx, _: Vec<()>| async move {
            let many = batch.start_many(note(), [()]).await?.remove(0).id();
            batch.kv().set("runs", &vec![batch.start(note(), ()).await?.id(), many]).await?;
            batch.last_attempt();
            batch.cancelled().await;
            assert_eq!(batch.cancel_requested(), batch.run_ids());
            Err(AnyError::new("stopped"))
        });
        lab.start(|app| app.job(index()).job(note())).await;
        let start = |owner: &str| lab.app().start(index(), ()).tenant("acme").owner(owner).role("reader");
        let runs = [start("ada").await.unwrap(), start("eve").role("admin").await.unwrap()];
        let told = lab.app().client().kv_of("acme");
        lab.until("it runs", || async { told.get::<Vec<RunId>>("runs").await.unwrap().is_some() }).await;
        for run in told.get::<Vec<RunId>>("runs").await.unwrap().unwrap() {
            let acted = lab.app().handle(&note(), run).result().await.unwrap();
            assert_eq!(acted, ("acme".to_owned(), None, vec!["reader".to_owned()]), "what holds for both");
        }
        for run in &runs {
            run.cancel("enough").await.unwrap();
        }
        for run in &runs {
            assert!(run.result().await.unwrap_err().is_cancelled());
        }
    }

    async fn what_gathers_gives_way_when_no_slot_is_free(lab: Lab) {
        let note = || Job::new("note", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("urgent");
            Ok::<_, AnyError>(())
        });
        lab.start(|app| app.job(patient()).job(note()).concurrency(4)).await;
        for tenant in ["one", "two", "three", "four"] {
            lab.app().start(patient(), tenant.into()).tenant(tenant).await.unwrap();
        }
        lab.app().start(note(), ()).await.unwrap();
        lab.until("it has run", || async { lab.ledger.count("urgent") == 1 }).await;
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

#[tokio::test]
async fn a_batch_that_no_node_could_have_in_hand_is_refused() {
    let app = Outlast::open("sqlite::memory:").await.unwrap().job(index(300)).concurrency(200);
    let refused = app.run().await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("300") && refused.contains("at most 200"), "{refused}");
}

#[tokio::test]
async fn in_a_test_time_hands_over_what_gathers() {
    let test = testing::start(|app| app.job(index(3)).state(Ledger::default())).await.unwrap();
    let short = test.app().start(index(3), "a".into()).timeout(1.second()).await.unwrap();
    let run = test.app().start(index(3), "b".into()).await.unwrap();
    test.settle().await.unwrap();
    assert_eq!(run.status().await.unwrap().status, Status::Running);
    test.advance(1.hour()).await.unwrap();
    assert!(short.result().await.unwrap_err().to_string().contains("timed out"));
    run.result().await.unwrap();
}
