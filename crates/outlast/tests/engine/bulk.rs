//! Bulk operations: one thing done to all runs that fit, once to each, whatever dies meanwhile.

use std::sync::Arc;

use outlast::prelude::*;
use outlast::testing::{self, Test};
use outlast::{Bulk, BulkReport, Filter, What};
use outlast_testkit::Watched;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

/// Does nothing.
fn idle(name: &'static str) -> Job<u32, (), AnyError> {
    Job::new(name, |_: JobCtx, _: u32| async { Ok::<(), AnyError>(()) })
}

/// Notes that it was called, and fails.
fn broken() -> Job<u32, (), AnyError> {
    let call = |job: JobCtx, n: u32| async move {
        job.state::<Ledger>().note(format!("call {n}"));
        Err::<(), _>(AnyError::new("broken"))
    };
    Job::new("broken", call).retry(Retry::never())
}

/// Books twice, then waits to be told.
fn trip() -> Workflow<(), (), AnyError> {
    Workflow::new("trip", |ctx: Ctx, (): ()| async move {
        for name in ["hotel", "flight"] {
            let ledger = ctx.state::<Ledger>();
            let undo = move |_: StepCtx, (): ()| {
                ledger.note(format!("undo {name}"));
                async { Ok::<(), AnyError>(()) }
            };
            ctx.step(name, |_| async { Ok::<(), AnyError>(()) }).undo(undo).await?;
        }
        ctx.event::<()>("go").await?;
        Ok(())
    })
}

/// Waits, with nothing to undo.
fn patient() -> Workflow<(), (), AnyError> {
    Workflow::new("patient", |ctx: Ctx, (): ()| async move { Ok(ctx.event::<()>("go").await?) })
}

/// Does one thing, and fails with the next.
fn stuck() -> Workflow<(), (), AnyError> {
    Workflow::new("stuck", |ctx: Ctx, (): ()| async move {
        for name in ["first", "bad"] {
            let ledger = ctx.state::<Ledger>();
            ctx.step(name, |_| async {
                ledger.note(name);
                if name == "bad" { Err(AnyError::new("broken")) } else { Ok(()) }
            })
            .await?;
        }
        Ok(())
    })
}

fn of(definition: &str) -> Filter {
    Filter { definition: Some(definition.to_owned()), ..Filter::default() }
}

fn done(done: u64) -> BulkReport {
    BulkReport { done, ..BulkReport::default() }
}

/// So many runs that wait for tomorrow.
async fn tomorrow(app: &Client, name: &'static str, runs: u32) {
    app.start_many(idle(name), 0..runs).delay(1.day()).await.unwrap();
}

async fn count(app: &Client, definition: &str, status: Status) -> usize {
    let filter = Filter { statuses: vec![status], ..of(definition) };
    app.list(&filter, None, 500).await.unwrap().runs.len()
}

/// An engine on a store that is watched.
async fn watched(lab: &Lab) -> (Arc<Watched>, Test) {
    let store = Watched::called(lab.world.store().name(), lab.world.store().clone());
    let ledger = lab.ledger.clone();
    let test = testing::start_on(store.clone(), |app| register(app).state(ledger)).await;
    (store, test.unwrap())
}

fn register(app: Outlast) -> Outlast {
    app.job(idle("later"))
        .job(idle("other"))
        .job(broken())
        .workflow(trip())
        .workflow(patient())
        .workflow(stuck())
}

engine_test! {
    async fn a_bulk_acts_on_all_that_fit_and_reports(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 250).await;
        tomorrow(lab.app(), "other", 3).await;
        let bulk = lab.app().bulk(Bulk::cancel("a mistake")).filter(of("later")).by("ann").start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(250));
        assert_eq!(bulk.report().await.unwrap(), done(250));
        assert_eq!(count(lab.app(), "later", Status::Cancelled).await, 250);
        assert_eq!(count(lab.app(), "other", Status::Ready).await, 3, "they do not fit");
        let view = bulk.status().await.unwrap();
        assert_eq!((view.record.owner.as_deref(), &*view.record.definition), (Some("ann"), "outlast.bulk"));
        let one = lab.app().list(&of("later"), None, 1).await.unwrap().runs.remove(0);
        assert!(one.ended.unwrap().error.unwrap().contains("a mistake"));
    }

    async fn a_bulk_whose_process_dies_goes_on_and_cancels_each_run_once(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 250).await;
        let held = store.hold_controls(149);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap().id();
        held.until_waiting(16).await;
        let client = Outlast::on(lab.world.store().clone()).client();
        let shown = client.status(bulk).await.unwrap().doing.remove(0);
        assert_eq!((shown.percent, shown.message.as_deref()), (Some(40), Some("done 100 of ~250, 0 failed")));
        test.kill().await;
        lab.world.pass(1.minute()).await;
        assert_eq!(count(&client, "later", Status::Cancelled).await, 149, "some of the second page");

        lab.start(register).await;
        assert_eq!(lab.app().bulk_run(bulk).result().await.unwrap(), done(250), "nobody is counted twice, or not");
        assert_eq!(count(lab.app(), "later", Status::Cancelled).await, 250);
    }

    async fn a_bulk_whose_process_dies_tries_each_run_again_once_though_it_fails_anew(lab: Lab) {
        let (store, test) = watched(&lab).await;
        let runs = test.app().start_many(broken(), 0..120).await.unwrap();
        for run in &runs {
            run.result().await.unwrap_err();
        }
        let held = store.hold_controls(50);
        let bulk = test.app().bulk(Bulk::retry()).filter(of("broken")).start().await.unwrap().id();
        held.until_waiting(16).await;
        lab.until("they have failed anew", || async { lab.ledger.notes().len() == 170 }).await;
        lab.until("they have ended", || async {
            count(test.app(), "broken", Status::Failed).await == 120
        }).await;
        test.kill().await;
        lab.world.pass(1.minute()).await;

        lab.start(register).await;
        assert_eq!(lab.app().bulk_run(bulk).result().await.unwrap(), done(120));
        lab.settle().await;
        for n in 0..120 {
            assert_eq!(lab.ledger.count(&format!("call {n}")), 2, "once, and once again: {n}");
        }
    }

    async fn a_bulk_whose_process_dies_forks_each_run_once(lab: Lab) {
        let (store, test) = watched(&lab).await;
        let mut runs = Vec::new();
        for _ in 0..40 {
            runs.push(test.app().start(stuck(), ()).await.unwrap());
        }
        for run in &runs {
            run.result().await.unwrap_err();
        }
        let held = store.hold_controls(20);
        let bulk = test.app().bulk(Bulk::fork(None, false)).filter(of("stuck")).start().await.unwrap().id();
        held.until_waiting(16).await;
        test.kill().await;
        lab.world.pass(1.minute()).await;

        lab.start(register).await;
        assert_eq!(lab.app().bulk_run(bulk).result().await.unwrap(), done(40));
        let all = lab.app().list(&of("stuck"), None, 500).await.unwrap().runs;
        assert_eq!(all.len(), 80, "one fork of each");
        assert_eq!(lab.ledger.count("first"), 40, "what was recorded before does not run again");
    }

    async fn workflows_are_tried_again_and_repaired_in_bulk(lab: Lab) {
        lab.start(register).await;
        for _ in 0..5 {
            lab.app().start(stuck(), ()).await.unwrap().result().await.unwrap_err();
        }
        let preview = lab.app().bulk(Bulk::retry()).filter(of("stuck")).preview().await.unwrap();
        let again = What::WouldRunAgain(vec!["bad".to_owned()]);
        assert!(preview.acts == 5 && preview.runs.iter().all(|run| run.does == again), "{preview:?}");
        let bulk = lab.app().bulk(Bulk::retry()).filter(of("stuck")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(5));
        lab.settle().await;
        assert_eq!((lab.ledger.count("first"), lab.ledger.count("bad")), (5, 10));

        let replace = || Bulk::replace("bad", &(), "it is not needed").unwrap();
        let preview = lab.app().bulk(replace()).filter(of("stuck")).preview().await.unwrap();
        assert!(preview.runs.iter().all(|run| run.does == What::WouldRunAgain(Vec::new())), "{preview:?}");
        let nothing = Bulk::replace("worse", &(), "it is not there").unwrap();
        let preview = lab.app().bulk(nothing).filter(of("stuck")).preview().await.unwrap();
        assert!(preview.runs.iter().all(|run| !run.does.acts()), "{preview:?}");
        let bulk = lab.app().bulk(replace()).filter(of("stuck")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(5));
        lab.settle().await;
        assert_eq!(count(lab.app(), "stuck", Status::Completed).await, 5);
        assert_eq!((lab.ledger.count("first"), lab.ledger.count("bad")), (5, 10));
    }

    async fn a_bulk_that_is_cancelled_stops_after_the_runs_in_hand_and_says_how_far_it_came(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 250).await;
        let held = store.hold_controls(150);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        held.until_waiting(16).await;
        let looked = store.count("inbox");
        let client = Outlast::on(lab.world.store().clone()).client();
        client.cancel(bulk.id(), "not those").await.unwrap();
        lab.until("it has heard", || async { store.count("inbox") > looked }).await;
        held.let_go();
        assert_eq!(bulk.result().await.unwrap_err().to_string(), "cancelled: not those");

        let report = bulk.report().await.unwrap();
        assert!((150..250).contains(&report.done), "{report:?}");
        assert_eq!(count(&client, "later", Status::Cancelled).await as u64, report.done);
        assert_eq!(count(&client, "later", Status::Ready).await as u64, 250 - report.done);
        assert_eq!(bulk.status().await.unwrap().status, Status::Cancelled);

        // Whoever thinks better of it has the rest done too.
        assert!(client.retry(bulk.id()).await.unwrap());
        assert_eq!(bulk.result().await.unwrap(), done(250), "it goes on where it was stopped");
        assert_eq!(count(&client, "later", Status::Cancelled).await, 250);
    }

    async fn a_bulk_that_is_stopped_and_tried_again_goes_on_and_does_nothing_twice(lab: Lab) {
        for kills in [false, true] {
            let (store, test) = watched(&lab).await;
            let runs = test.app().start_many(broken(), 0..150).await.unwrap();
            for run in &runs {
                run.result().await.unwrap_err();
            }
            let held = store.hold_controls(120);
            let bulk = test.app().bulk(Bulk::retry()).filter(of("broken")).start().await.unwrap();
            held.until_waiting(16).await;
            let client = Outlast::on(lab.world.store().clone()).client();
            match kills {
                true => client.kill(bulk.id(), "not those").await.unwrap(),
                false => client.cancel(bulk.id(), "not those").await.unwrap(),
            };
            if !kills {
                // With every message its process looks what is new, and says how much it knows.
                lab.until("it has heard", || async {
                    client.send(bulk.id(), "look", &()).await.unwrap();
                    store.seen(bulk.id()) > 0
                })
                .await;
            }
            held.let_go();
            bulk.result().await.unwrap_err();
            test.settle().await.unwrap();
            assert!(client.retry(bulk.id()).await.unwrap());
            let report = bulk.result().await.unwrap();
            assert_eq!((report.done, report.failed), (150, 0), "{report:?}");
            test.settle().await.unwrap();
            for n in 0..150 {
                assert_eq!(lab.ledger.count(&format!("call {n}")), 2, "once, and once again: {n}");
            }
            lab.ledger.take();
            client.purge(0.seconds()).await.unwrap();
            test.kill().await;
            lab.world.pass(1.minute()).await;
        }
    }

    async fn what_has_ended_is_deleted_in_bulk_and_what_has_not_stays(lab: Lab) {
        let (store, test) = watched(&lab).await;
        let runs = test.app().start_many(broken(), 0..150).await.unwrap();
        for run in &runs {
            run.result().await.unwrap_err();
        }
        tomorrow(test.app(), "later", 3).await;
        let delete = |filter: Filter| test.app().bulk(Bulk::delete("moving house")).filter(filter);
        let preview = delete(of("broken")).preview().await.unwrap();
        assert_eq!((preview.acts, preview.stays, &preview.runs[0].does), (150, 0, &What::WouldGo));
        let open = delete(of("later")).start().await.unwrap();
        assert_eq!(open.result().await.unwrap(), BulkReport::default(), "none of them has ended");

        // It is killed while some are gone and some are not, and tried again.
        let held = store.hold_controls(120);
        let bulk = delete(of("broken")).start().await.unwrap();
        held.until_waiting(16).await;
        let client = Outlast::on(lab.world.store().clone()).client();
        client.kill(bulk.id(), "a pause").await.unwrap();
        held.let_go();
        bulk.result().await.unwrap_err();
        test.settle().await.unwrap();
        assert!(client.retry(bulk.id()).await.unwrap());
        let report = bulk.result().await.unwrap();
        assert_eq!((report.done, report.skipped, report.failed), (150, 0, 0), "{report:?}");
        assert_eq!(client.list(&of("broken"), None, 10).await.unwrap().runs.len(), 0);
        assert_eq!(count(&client, "later", Status::Ready).await, 3);
        test.kill().await;
    }

    async fn runs_are_tried_again_from_a_step_and_forked_with_another_input_in_bulk(lab: Lab) {
        let sum = || Workflow::new("sum", |ctx: Ctx, n: u32| async move {
            for name in ["one", "two"] {
                let ledger = ctx.state::<Ledger>();
                ctx.step(name, |_| async { ledger.note(name); Ok::<(), AnyError>(()) }).await?;
            }
            let ledger = ctx.state::<Ledger>();
            let ok = ctx.step("judge", |_| async { Ok::<bool, AnyError>(n == 7 || ledger.count("good") > 0) });
            if ok.await? { Ok(n) } else { Err(AnyError::new("too small")) }
        });
        lab.start(|app| crate::harness::once(app).workflow(sum())).await;
        for n in 0..3 {
            lab.app().start(sum(), n).await.unwrap().result().await.unwrap_err();
        }
        let preview = lab.app().bulk(Bulk::retry_from("two")).filter(of("sum")).preview().await.unwrap();
        let again = What::WouldRunAgain(vec!["two".to_owned(), "judge".to_owned()]);
        assert!(preview.acts == 3 && preview.runs.iter().all(|run| run.does == again), "{preview:?}");

        let fork = || Bulk::fork_with(Some("judge"), false, &7).unwrap();
        let bulk = lab.app().bulk(fork()).filter(of("sum")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(3));
        lab.settle().await;
        assert_eq!((count(lab.app(), "sum", Status::Completed).await, lab.ledger.count("two")), (3, 3));

        lab.ledger.note("good");
        let bulk = lab.app().bulk(Bulk::retry_from("two")).filter(of("sum")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(3));
        lab.settle().await;
        assert_eq!(count(lab.app(), "sum", Status::Completed).await, 6);
        assert_eq!((lab.ledger.count("one"), lab.ledger.count("two")), (3, 6));
    }

    async fn what_a_job_saved_is_there_when_it_is_tried_again_by_hand(lab: Lab) {
        let import = || Job::new("import", |job: JobCtx, fails: bool| async move {
            let saved: Option<u32> = job.saved()?;
            job.state::<Ledger>().note(format!("began with {saved:?}"));
            job.save_now(&(saved.unwrap_or(0) + 1)).await?;
            if fails && saved.is_none() { Err(AnyError::new("broken")) } else { Ok(()) }
        }).retry(Retry::never());
        lab.start(|app| app.job(import())).await;
        let run = lab.app().start(import(), true).await.unwrap();
        run.result().await.unwrap_err();
        assert!(lab.app().retry(run.id()).await.unwrap());
        run.result().await.unwrap();
        assert_eq!(lab.ledger.take(), ["began with None", "began with Some(1)"]);

        // What it saved was about the input that it had.
        let run = lab.app().start(import(), true).await.unwrap();
        run.result().await.unwrap_err();
        assert!(lab.app().retry_with(run.id(), &false).await.unwrap());
        run.result().await.unwrap();
        assert_eq!(lab.ledger.take(), ["began with None", "began with None"]);
    }

    async fn a_bulk_that_is_cancelled_after_its_process_died_says_how_far_it_came(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 250).await;
        let held = store.hold_controls(120);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap().id();
        held.until_waiting(16).await;
        test.kill().await;
        lab.world.pass(1.minute()).await;
        let client = Outlast::on(lab.world.store().clone()).client();
        client.cancel(bulk, "not those").await.unwrap();
        lab.start(register).await;
        let bulk = lab.app().bulk_run(bulk);
        bulk.result().await.unwrap_err();
        assert_eq!(bulk.report().await.unwrap(), done(100), "of the second page nobody told");
        assert_eq!(count(&client, "later", Status::Cancelled).await, 120);
    }

    async fn a_process_that_stops_hands_its_bulk_over(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 250).await;
        let held = store.hold_controls(150);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap().id();
        held.until_waiting(16).await;
        let stops = test.app().clone().shutdown(1.minute());
        let lets = async { held.let_go() };
        tokio::join!(stops, lets).0.unwrap();
        let client = Outlast::on(lab.world.store().clone()).client();
        assert!(count(&client, "later", Status::Ready).await > 0, "it did not wait for the end of it");
        lab.start(register).await;
        assert_eq!(lab.app().bulk_run(bulk).result().await.unwrap(), done(250));
    }

    async fn runs_that_end_before_a_bulk_comes_to_them_are_skipped(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 20).await;
        let held = store.hold_controls(0);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        held.until_waiting(16).await;
        let client = Outlast::on(lab.world.store().clone()).client();
        let filter = Filter { oldest_first: true, ..of("later") };
        let runs = client.list(&filter, None, 20).await.unwrap().runs;
        for view in [&runs[0], &runs[19]] {
            client.cancel(view.record.id, "by hand").await.unwrap();
        }
        held.let_go();
        assert_eq!(bulk.result().await.unwrap(), BulkReport { skipped: 2, ..done(18) });
    }

    async fn runs_that_are_started_later_are_left_alone(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 5).await;
        lab.app().pause_queue("outlast").await.unwrap();
        let bulk = lab.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        lab.advance(1.second()).await;
        tomorrow(lab.app(), "later", 2).await;
        lab.app().resume_queue("outlast").await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(5));
        assert_eq!(count(lab.app(), "later", Status::Ready).await, 2);
    }

    async fn what_cannot_be_done_to_a_run_is_reported_and_holds_nobody_up(lab: Lab) {
        lab.start(register).await;
        let start = || lab.app().start(broken(), 7).unique(Unique::by_key("k"));
        let taken = start().await.unwrap();
        taken.result().await.unwrap_err();
        start().delay(1.day()).await.unwrap();
        let free = lab.app().start(broken(), 8).await.unwrap();
        free.result().await.unwrap_err();

        let bulk = lab.app().bulk(Bulk::retry()).filter(of("broken")).start().await.unwrap();
        let report = bulk.result().await.unwrap();
        assert_eq!((report.done, report.skipped, report.failed), (1, 0, 1));
        assert_eq!(report.failures[0].run, taken.id());
        assert!(report.failures[0].reason.contains("only one of its kind"), "{:?}", report.failures);
        lab.settle().await;
        assert_eq!((lab.ledger.count("call 7"), lab.ledger.count("call 8")), (1, 2));
    }

    async fn a_bulk_goes_on_when_the_database_comes_back(lab: Lab) {
        let (store, test) = watched(&lab).await;
        tomorrow(test.app(), "later", 120).await;
        let held = store.hold_controls(30);
        let bulk = test.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        held.until_waiting(16).await;
        // Every try of every call in hand: the attempt fails, and none of the runs.
        store.lose_replies("control", 16 * 6);
        held.let_go();
        lab.until("the attempt has failed", || async {
            bulk.status().await.unwrap().status == Status::Ready
        }).await;
        test.advance(1.minute()).await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(120));
    }

    async fn a_preview_says_what_would_happen_to_each_run_and_changes_nothing(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 1).await;
        lab.app().start(patient(), ()).await.unwrap();
        lab.app().start(trip(), ()).await.unwrap();
        lab.app().start(broken(), 1).await.unwrap().result().await.unwrap_err();
        lab.settle().await;

        let before = lab.world.snapshot().await.without(&["nodes"]);
        let plans = async |op: Bulk, filter: Filter| {
            let preview = lab.app().bulk(op).filter(filter).all().preview().await.unwrap();
            assert!(preview.is_all);
            let plans = preview.runs.into_iter().map(|run| (run.definition, run.does));
            (preview.acts, preview.stays, plans.collect::<Vec<_>>())
        };
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cancel = plans(Bulk::cancel("why"), Filter::default()).await;
        assert_eq!(cancel, (3, 0, vec![
            ("later".to_owned(), What::WouldEnd),
            ("patient".to_owned(), What::WouldStop),
            ("trip".to_owned(), What::WouldUndo(strings(&["flight", "hotel"]))),
        ]));
        let retry = plans(Bulk::retry(), Filter::default()).await;
        assert_eq!(retry, (1, 0, vec![("broken".to_owned(), What::WouldRunAgain(strings(&["broken"])))]));
        assert_eq!(lab.world.snapshot().await.without(&["nodes"]), before);

        // What was said is what happens.
        let bulk = lab.app().bulk(Bulk::cancel("why")).all().start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(3));
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["call 1", "undo flight", "undo hotel"]);
    }

    async fn a_bulk_without_a_filter_is_refused_unless_all_are_meant(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 2).await;
        let call = || lab.app().bulk(Bulk::cancel("enough"));
        for refused in [call().start().await.err(), call().preview().await.err()] {
            let refused = refused.unwrap();
            assert_eq!(refused.code(), "invalid_argument");
            assert!(refused.to_string().contains("all()"), "{refused}");
        }
        let ended = Filter { statuses: vec![Status::Completed], ..of("later") };
        let refused = call().filter(ended).start().await.err().unwrap().to_string();
        assert!(refused.contains("ready, running, waiting, paused, blocked"), "{refused}");
        assert_eq!(lab.app().bulk(Bulk::cancel("")).all().start().await.err().unwrap().code(), "invalid_argument");
        assert_eq!(call().all().start().await.unwrap().result().await.unwrap(), done(2));
    }

    async fn bulks_leave_bulks_alone(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 2).await;
        lab.app().pause_queue("outlast").await.unwrap();
        let one = lab.app().bulk(Bulk::cancel("all")).all().start().await.unwrap();
        let other = lab.app().bulk(Bulk::cancel("all")).all().start().await.unwrap();
        let preview = lab.app().bulk(Bulk::cancel("all")).all().preview().await.unwrap();
        assert_eq!(preview.acts, 2, "no bulk is among them: {preview:?}");
        lab.app().resume_queue("outlast").await.unwrap();
        let (one, other) = (one.result().await.unwrap(), other.result().await.unwrap());
        assert_eq!(one.done + other.done, 2);
    }

    async fn the_same_key_starts_a_bulk_once(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 2).await;
        let start = async || {
            lab.app().bulk(Bulk::cancel("enough")).filter(of("later")).key("b-1").start().await.unwrap()
        };
        let first = start().await;
        assert_eq!(first.result().await.unwrap(), done(2));
        let second = start().await;
        assert_eq!((second.id(), second.created()), (first.id(), false));
    }

    async fn what_nodes_know_by_themselves_is_not_among_what_is_registered(lab: Lab) {
        lab.start(|app| app.job(idle("later"))).await;
        let names: Vec<String> = lab.app().definitions().await.unwrap().into_iter().map(|card| card.name).collect();
        assert_eq!(names, ["later"]);
        assert!(lab.app().queues().await.unwrap().is_empty());
        let refused = lab.app().start_by_name("outlast.bulk", "{}").await.err().unwrap();
        assert_eq!(refused.code(), "unknown_definition");
        let own = Job::new("outlast.mine", |_: JobCtx, (): ()| async { Ok::<(), AnyError>(()) });
        let refused = Outlast::on(lab.world.store().clone()).job(own).run().await.err().unwrap();
        assert!(refused.to_string().contains("those are Outlast's own"), "{refused}");
    }

    async fn a_node_that_serves_other_queues_serves_bulks_too(lab: Lab) {
        lab.start(|app| app.job(idle("later")).settings(|settings| settings.queues = vec!["mail".into()])).await;
        tomorrow(lab.app(), "later", 2).await;
        let bulk = lab.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(2));
    }

    async fn a_process_that_is_there_for_bulks_alone_fires_no_schedule_and_blocks_nobody(lab: Lab) {
        lab.start(register).await;
        tomorrow(lab.app(), "later", 3).await;
        lab.app().schedule(Schedule::every("often", 1.minute()), &idle("other"), &7).await.unwrap();
        let due = lab.app().start(idle("other"), 1).delay(1.second()).await.unwrap().id();
        lab.kill().await;
        lab.start(|app| app.only_bulks()).await;
        lab.world.pass(1.hour()).await;
        lab.test().sweep().await;
        let bulk = lab.app().bulk(Bulk::cancel("enough")).filter(of("later")).start().await.unwrap();
        assert_eq!(bulk.result().await.unwrap(), done(3));
        assert_eq!(lab.app().schedule_named("often").await.unwrap().started, 0);
        assert_eq!(lab.app().status(due).await.unwrap().status, Status::Ready, "others will come who know it");
    }

    async fn what_a_job_saved_is_kept_when_it_is_cancelled(lab: Lab) {
        let import = || Job::new("import", |job: JobCtx, (): ()| async move {
            job.save_now(&7).await?;
            job.state::<Ledger>().note("saved");
            job.cancelled().await;
            Err::<(), _>(AnyError::new("stopped"))
        });
        lab.start(|app| app.job(import())).await;
        let run = lab.app().start(import(), ()).await.unwrap();
        lab.until("it has saved", || async { lab.ledger.count("saved") == 1 }).await;
        let shown = run.status().await.unwrap().doing.remove(0).saved.unwrap();
        assert_eq!(shown.json(), Some("7"), "whoever waits for it to be saved finds it saved");
        run.cancel("enough").await.unwrap();
        run.result().await.unwrap_err();
        let ended = run.status().await.unwrap().ended.unwrap();
        assert_eq!(ended.output.unwrap().json(), Some("7"));
    }
}
