//! Schedules: each of their times starts one run.

use std::sync::Arc;

use outlast::prelude::*;
use outlast::{CatchUp, Overlap, Timestamp};
use outlast_store::Reads;
use tokio::sync::Semaphore;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

fn report() -> Job<String, (), AnyError> {
    Job::new("report", |job: JobCtx, about: String| async move {
        job.state::<Ledger>().note(about);
        Ok(())
    })
}

#[derive(Clone)]
struct Gate(Arc<Semaphore>);

/// Stays until the gate lets it go, or it is asked to stop.
fn slow() -> Job<(), (), AnyError> {
    Job::new("slow", |job: JobCtx, (): ()| async move {
        job.state::<Ledger>().note("begin");
        let gate = job.state::<Gate>();
        tokio::select! {
            permit = gate.0.acquire() => permit?.forget(),
            _ = job.cancelled() => {
                job.state::<Ledger>().note("stop");
                return Err(AnyError::new("stopped"));
            }
        }
        job.state::<Ledger>().note("end");
        Ok(())
    })
}

/// Lets the clock show the full hour.
async fn full_hour(lab: &Lab) {
    const HOUR: i64 = 3_600_000_000;
    let left = HOUR - lab.world.now().await.micros() % HOUR;
    lab.world.store().clock().advance(std::time::Duration::from_micros(left as u64));
}

engine_test! {
    async fn every_time_starts_one_run_with_the_time_in_its_key(lab: Lab) {
        full_hour(&lab).await;
        let with = |app: Outlast| {
            app.job(report()).schedule(Schedule::cron("tick", "*/10 * * * *").tag("kind", "tick"), &report(), "a".into())
        };
        lab.start(with).await;
        lab.advance(30.minutes()).await;
        assert_eq!(lab.ledger.notes().len(), 3);
        let view = lab.app().schedule_named("tick").await.unwrap();
        assert_eq!((view.started, view.skipped), (3, 0));
        let run = lab.app().status(view.last_run.unwrap()).await.unwrap();
        assert_eq!(run.record.key.unwrap(), format!("tick:{}", view.last_at.unwrap()));
        assert!(run.tags.contains(&("schedule".into(), "tick".into())));
        assert!(run.tags.contains(&("kind".into(), "tick".into())));
        // The same code again changes nothing of when it comes.
        let next = view.card.next_at;
        lab.restart(with).await;
        lab.settle().await;
        assert!(lab.app().schedule_named("tick").await.unwrap().card.next_at >= next);
        assert_eq!(lab.app().next_fire_times("tick", 3).await.unwrap().len(), 3);
    }

    async fn what_passed_while_nobody_was_up_is_caught_up_as_told(lab: Lab) {
        full_hour(&lab).await;
        let every = |name: &str| Schedule::every(name, 10.minutes()).overlap(Overlap::Allow);
        let with = |app: Outlast| {
            app.job(report())
                .schedule(every("last"), &report(), "last".into())
                .schedule(every("skip").catch_up(CatchUp::Skip), &report(), "skip".into())
                .schedule(every("all").catch_up(CatchUp::All), &report(), "all".into())
        };
        lab.start(with).await;
        lab.kill().await;
        lab.world.store().clock().advance(44.minutes());
        lab.start(with).await;
        lab.settle().await;
        lab.until("caught up", || async { lab.ledger.count("all") == 4 }).await;
        lab.settle().await;
        assert_eq!((lab.ledger.count("last"), lab.ledger.count("skip")), (1, 0));
        assert_eq!(lab.app().schedule_named("last").await.unwrap().skipped, 3);
    }

    async fn of_very_many_times_that_passed_while_nobody_was_up_one_is_caught_up(lab: Lab) {
        full_hour(&lab).await;
        let with = |app: Outlast| {
            let every = Schedule::every("beat", 1.second()).overlap(Overlap::Allow);
            app.job(report()).schedule(every, &report(), "beat".into())
        };
        lab.start(with).await;
        lab.kill().await;
        let before = lab.world.store().schedules().await.unwrap().remove(0).started;
        // The lease of the one that died took a minute.
        lab.world.store().clock().advance(169.seconds());
        lab.start(with).await;
        lab.settle().await;
        let view = lab.app().schedule_named("beat").await.unwrap();
        assert_eq!(view.started, before + 1, "{} were skipped", view.skipped);
    }

    async fn a_deploy_that_changes_what_a_schedule_starts_loses_no_time(lab: Lab) {
        full_hour(&lab).await;
        let with = |about: &'static str, tag: &'static str| move |app: Outlast| {
            let every = Schedule::every("tick", 10.minutes()).catch_up(CatchUp::All).overlap(Overlap::Allow);
            app.job(report()).schedule(every.tag("kind", tag), &report(), about.into())
        };
        lab.start(with("old", "a")).await;
        lab.kill().await;
        lab.world.store().clock().advance(34.minutes());
        lab.start(with("new", "b")).await;
        lab.settle().await;
        // A time that is fired before the code has said what is new is one all the same.
        lab.until("caught up", || async { lab.ledger.notes().len() == 3 }).await;
        // Other times begin anew.
        lab.kill().await;
        lab.world.store().clock().advance(34.minutes());
        let hourly = |app: Outlast| {
            let hourly = Schedule::every("tick", 1.hour()).catch_up(CatchUp::All);
            app.job(report()).schedule(hourly, &report(), "hourly".into())
        };
        lab.start(hourly).await;
        lab.settle().await;
        assert_eq!(lab.ledger.count("hourly"), 0);
    }

    async fn a_backfill_leaves_times_that_ran_with_another_input(lab: Lab) {
        full_hour(&lab).await;
        lab.start(|app| app.job(report())).await;
        let from = lab.world.now().await;
        let set = async |about: &str| {
            lab.app().schedule(Schedule::every("tick", 10.minutes()), &report(), &about.to_owned()).await.unwrap();
        };
        set("old").await;
        lab.advance(11.minutes()).await;
        lab.app().pause_schedule("tick").await.unwrap();
        set("new").await;
        lab.world.store().clock().advance(20.minutes());
        let runs = lab.app().backfill("tick", from + 1.minute(), from + 35.minutes()).await.unwrap();
        assert_eq!(runs.len(), 2, "of three times one had its run");
        lab.settle().await;
        lab.until("they run", || async { lab.ledger.notes() == ["old", "new", "new"] }).await;
    }

    async fn a_time_that_comes_while_the_run_before_runs_is_skipped_or_waits_or_stops_it(lab: Lab) {
        full_hour(&lab).await;
        let gate = Gate(Arc::new(Semaphore::new(0)));
        let with = |app: Outlast| app.job(slow()).state(gate.clone());
        lab.start(with).await;
        let set = async |overlap| {
            let schedule = Schedule::every("slow", 1.minute()).overlap(overlap).catch_up(CatchUp::All);
            lab.app().schedule(schedule, &slow(), &()).await.unwrap();
        };
        let clock = lab.world.store().clock().clone();
        set(Overlap::Skip).await;
        clock.advance(60.seconds());
        lab.until("it runs", || async { lab.ledger.count("begin") == 1 }).await;
        clock.advance(60.seconds());
        lab.until("one is skipped", || async { lab.app().schedule_named("slow").await.unwrap().skipped == 1 }).await;
        assert_eq!(lab.ledger.count("begin"), 1);

        set(Overlap::Queue).await;
        clock.advance(60.seconds());
        gate.0.add_permits(1);
        lab.until("the next begins when it has ended", || async {
            clock.advance(100.millis());
            lab.ledger.notes() == ["begin", "end", "begin"]
        }).await;

        set(Overlap::CancelPrevious).await;
        clock.advance(60.seconds());
        lab.until("the one before stops", || async { lab.ledger.count("stop") == 1 }).await;
        lab.until("the next begins", || async { lab.ledger.count("begin") == 3 }).await;
        lab.app().pause_schedule("slow").await.unwrap();
        gate.0.add_permits(1);
        lab.until("it ends", || async { lab.ledger.count("end") == 2 }).await;
    }

    async fn very_many_schedules_that_wait_keep_no_other_from_firing(lab: Lab) {
        full_hour(&lab).await;
        let gate = Gate(Arc::new(Semaphore::new(0)));
        lab.start(|app| app.job(slow()).job(report()).concurrency(2000).state(gate.clone())).await;
        for n in 0..450 {
            let every = Schedule::every(format!("s{n}"), 10.minutes()).overlap(Overlap::Queue);
            lab.app().schedule(every, &slow(), &()).await.unwrap();
        }
        let clock = lab.world.store().clock().clone();
        clock.advance(11.minutes());
        lab.until("all run", || async { lab.ledger.count("begin") == 450 }).await;
        clock.advance(10.minutes());
        // The next time may come before the end of the run before is recorded.
        let tick = Schedule::every("tick", 1.minute()).overlap(Overlap::Allow);
        lab.app().schedule(tick, &report(), &"tick".to_owned()).await.unwrap();
        for tick in 1..=3 {
            clock.advance(1.minute());
            lab.until("it fires", || async { lab.ledger.count("tick") == tick }).await;
        }
        gate.0.add_permits(1000);
    }

    async fn with_queue_no_time_is_left_out_although_nodes_come_and_go(lab: Lab) {
        full_hour(&lab).await;
        let gate = Gate(Arc::new(Semaphore::new(0)));
        let with = |app: Outlast| {
            let every = Schedule::every("tick", 10.minutes()).overlap(Overlap::Queue);
            app.job(slow()).state(gate.clone()).schedule(every, &slow(), ())
        };
        lab.start(with).await;
        let clock = lab.world.store().clock().clone();
        let start = lab.world.now().await;
        clock.advance(10.minutes());
        lab.until("the first runs", || async { lab.ledger.count("begin") == 1 }).await;
        for n in 2..=5 {
            clock.advance(10.minutes());
            let last = start + 10.minutes() * n;
            lab.until("it is seen", || async {
                let line = lab.app().schedule_named("tick").await.unwrap().waiting;
                line.last().is_some_and(|(_, end)| *end + 1.minute() >= last)
            }).await;
        }
        lab.restart(with).await;
        gate.0.add_permits(100);
        lab.until("each has run", || async {
            clock.advance(100.millis());
            lab.app().schedule_named("tick").await.unwrap().started == 5
        }).await;
        let view = lab.app().schedule_named("tick").await.unwrap();
        assert_eq!((view.skipped, view.waiting), (0, vec![]));
    }

    async fn with_cancel_previous_the_run_before_is_stopped_by_whoever_starts_the_next(lab: Lab) {
        full_hour(&lab).await;
        let gate = Gate(Arc::new(Semaphore::new(0)));
        lab.start(|app| app.job(slow()).state(gate.clone())).await;
        let schedule = Schedule::every("slow", 10.minutes()).overlap(Overlap::CancelPrevious).catch_up(CatchUp::All);
        lab.app().schedule(schedule, &slow(), &()).await.unwrap();
        let clock = lab.world.store().clock().clone();
        clock.advance(10.minutes());
        lab.until("it runs", || async { lab.ledger.count("begin") == 1 }).await;
        let first = lab.app().schedule_named("slow").await.unwrap().last_run.unwrap();
        clock.advance(30.minutes());
        lab.until("it is stopped", || async {
            lab.app().status(first).await.unwrap().status == Status::Cancelled
        }).await;
        lab.until("the next begins", || async { lab.ledger.count("begin") == 2 }).await;
        let view = lab.app().schedule_named("slow").await.unwrap();
        assert_eq!((view.started, view.skipped), (2, 2), "of three the last starts");
        gate.0.add_permits(9);
    }

    async fn a_backfill_does_not_start_what_is_still_to_come(lab: Lab) {
        full_hour(&lab).await;
        lab.start(|app| app.job(report()).schedule(Schedule::every("hourly", 1.hour()), &report(), "x".into())).await;
        let now = lab.world.now().await;
        let from = Timestamp::from_micros(now.micros() - 150 * 60_000_000);
        assert!(lab.app().backfill("hourly", now + 1.second(), now + 3.hours()).await.unwrap().is_empty());
        assert_eq!(lab.app().backfill("hourly", from, now + 3.hours()).await.unwrap().len(), 3);
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 3);
    }

    async fn a_program_that_declares_a_time_of_the_past_starts(lab: Lab) {
        let past = lab.world.now().await;
        lab.world.store().clock().advance(1.hour());
        lab.start(|app| app.job(report()).schedule(Schedule::once("launch", past), &report(), "go".into())).await;
        lab.advance(1.hour()).await;
        assert!(lab.ledger.notes().is_empty());
        assert_eq!(lab.app().schedule_named("launch").await.unwrap().card.next_at, None);
    }

    async fn a_schedule_is_paused_triggered_backfilled_and_deleted(lab: Lab) {
        full_hour(&lab).await;
        lab.start(|app| app.job(report())).await;
        let hourly = Schedule::cron("hourly", "0 * * * *");
        lab.app().schedule_by_name(hourly, "report", "\"h\"").await.unwrap();
        assert!(lab.app().pause_schedule("hourly").await.unwrap().is_paused);
        let from = lab.world.now().await;
        lab.advance(3.hours()).await;
        assert!(lab.ledger.notes().is_empty());
        lab.app().trigger_schedule("hourly").await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 1);
        lab.app().resume_schedule("hourly").await.unwrap();
        lab.advance(1.hour()).await;
        assert_eq!(lab.ledger.notes().len(), 2, "those that passed start nothing");
        let to = lab.world.now().await;
        let filled = lab.app().backfill("hourly", from, to).await.unwrap();
        assert_eq!(filled.len(), 3, "one of the four has run");
        assert!(lab.app().backfill("hourly", from, to).await.unwrap().is_empty(), "all have run");
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 5);
        lab.app().delete_schedule("hourly").await.unwrap();
        assert!(lab.app().delete_schedule("hourly").await.is_err());
        lab.advance(5.hours()).await;
        assert_eq!(lab.ledger.notes().len(), 5);
    }

    async fn whoever_triggers_a_schedule_again_with_the_same_seed_starts_nothing_new(lab: Lab) {
        full_hour(&lab).await;
        lab.start(|app| app.job(report())).await;
        let hourly = Schedule::cron("hourly", "0 * * * *");
        lab.app().schedule_by_name(hourly, "report", "\"h\"").await.unwrap();
        let now = lab.world.now().await;
        // Several, so that they lie in several shards.
        for random in 0..8 {
            let first = lab.app().trigger_schedule_as("hourly", now, random).await.unwrap();
            assert_eq!(lab.app().trigger_schedule_as("hourly", now, random).await.unwrap(), first);
        }
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 8);
    }

    async fn a_one_off_time_comes_once(lab: Lab) {
        let time = lab.world.now().await + 5.minutes();
        let with = |app: Outlast| app.job(report()).schedule(Schedule::once("launch", time), &report(), "go".into());
        lab.start(with).await;
        lab.advance(4.minutes()).await;
        assert!(lab.ledger.notes().is_empty());
        lab.advance(2.minutes()).await;
        assert_eq!(lab.ledger.notes(), ["go"]);
        lab.restart(with).await;
        lab.advance(1.hour()).await;
        assert_eq!(lab.ledger.notes(), ["go"], "although the code still says it");
    }

    async fn what_makes_no_sense_is_refused_before_anything_is_stored(lab: Lab) {
        lab.start(|app| app.job(report())).await;
        let set = async |schedule: Schedule| {
            let refused = lab.app().schedule_by_name(schedule, "report", "\"x\"").await.map(|_| ()).unwrap_err();
            (refused.code(), refused.to_string())
        };
        for cron in ["* * * *", "60 * * * *", "*/0 * * * *", "0 0 30 2 *", ""] {
            assert_eq!(set(Schedule::cron("x", cron)).await.0, "invalid_cron", "{cron}");
        }
        let (code, text) = set(Schedule::cron("x", "0 0 * * *").zone("Europe/Berln")).await;
        assert!(code == "unknown_timezone" && text.contains("Europe/Berlin"), "{text}");
        let zone = set(Schedule::every("x", 1.hour()).zone("Nowhere/Land")).await;
        assert_eq!(zone.0, "unknown_timezone");
        for (schedule, shortest) in [
            (Schedule::every("x", 5.minutes()), "5m"),
            (Schedule::cron("x", "0,20 9 * * *"), "20m"),
        ] {
            let (code, text) = set(schedule.jitter(1.hour())).await;
            let told = format!("less than {shortest}");
            assert!(code.starts_with("invalid") && text.contains("jitter") && text.contains(&told), "{text}");
        }
        let once = Schedule::once("launch", lab.world.now().await + 1.hour()).jitter(1.hour());
        lab.app().schedule_by_name(once, "report", "\"x\"").await.unwrap();
        lab.app().delete_schedule("launch").await.unwrap();
        for schedule in [
            Schedule::every("x", 1.millis()),
            Schedule::once("x", Timestamp::from_micros(0)),
            Schedule::cron("a b", "0 0 * * *"),
            Schedule::cron("x", "0 0 * * *").priority(10),
        ] {
            let refused = set(schedule).await;
            assert!(refused.0.starts_with("invalid"), "{refused:?}");
        }
        let unknown = lab.app().schedule_by_name(Schedule::cron("x", "@daily"), "reprot", "1").await.map(|_| ());
        assert_eq!(unknown.unwrap_err().code(), "unknown_definition");
        assert!(lab.app().schedules().await.unwrap().is_empty());
        assert!(lab.app().backfill("x", Timestamp::from_micros(5), Timestamp::from_micros(1)).await.is_err());
        let unknown = lab.app().pause_schedule("nope").await.map(|_| ()).unwrap_err().to_string();
        assert!(unknown.contains("Client::schedules"), "{unknown}");
    }

    async fn a_schedule_is_not_replaced_by_one_whose_times_are_past(lab: Lab) {
        lab.start(|app| app.job(report())).await;
        let set = async |schedule| lab.app().schedule(schedule, &report(), &"x".to_owned()).await;
        let launch = || Schedule::once("launch", Timestamp::from_micros(0));
        set(Schedule::cron("launch", "@daily")).await.unwrap();
        let refused = set(launch()).await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("all of this one are past"), "{refused}");
        assert_eq!(lab.app().schedule_named("launch").await.unwrap().card.timetable, "@daily");
    }
}

#[tokio::test]
async fn what_code_declares_and_cannot_be_is_refused_before_the_node_begins() {
    let file = outlast_testkit::World::open(outlast_testkit::StoreKind::Sqlite, 1).await;
    let daily = |name: &str| Schedule::cron(name, "@daily");
    let app = || Outlast::on(file.store().clone()).job(report());
    for (app, named) in [
        (
            app().schedule(daily("x"), &report(), "a".into()).schedule(daily("x"), &report(), "b".into()),
            "declared twice",
        ),
        (app().schedule(daily("x"), &slow(), ()), "not registered"),
        (
            app().schedule(daily("x"), &report(), "a".into()).schedule(
                Schedule::every("y", 1.minute()).jitter(1.hour()),
                &report(),
                "b".into(),
            ),
            "jitter",
        ),
        (app().job(slow().retry(Retry::times(3).first(1.hour()))), "first pause"),
    ] {
        let refused = app.run().await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
    assert!(file.store().schedules().await.unwrap().is_empty());
    assert!(file.store().nodes().await.unwrap().is_empty(), "no node has begun");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_schedule_could_not_be_stored_does_not_go_on_in_the_background() {
    let store = crate::pace::watched().await;
    let app = Outlast::on(store.clone()).job(report()).schedule(
        Schedule::cron("x", "@daily"),
        &report(),
        "a".into(),
    );
    // As often as it is tried.
    store.lose_replies("control", 6);
    let refused = app.run().await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), "unavailable");
    assert!(store.nodes().await.unwrap().is_empty(), "it has left");
    let renewals = store.count("renew");
    crate::pace::pass(1.minute()).await;
    assert_eq!(store.count("renew"), renewals);
}
