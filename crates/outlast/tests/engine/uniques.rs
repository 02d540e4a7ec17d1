//! Unique, debounced and throttled runs, as an application meets them.

use std::time::Duration;

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::Ledger;

fn index() -> Job<String, (), AnyError> {
    Job::new("index", |job: JobCtx, text: String| async move {
        job.state::<Ledger>().note(text);
        Ok(())
    })
}

engine_test! {
    async fn with_the_same_arguments_there_is_one_until_it_has_ended(lab: Lab) {
        lab.start(|app| app.job(index().unique())).await;
        let start = |text: &str| lab.app().start(index().unique(), text.to_owned()).delay(1.minute());
        let first = start("a").await.unwrap();
        let again = start("a").await.unwrap();
        assert_eq!((again.id(), again.created()), (first.id(), false));
        assert!(start("b").await.unwrap().created());
        lab.advance(2.minutes()).await;
        assert!(start("a").await.unwrap().created(), "it has ended");
        let refused = start("a").unique(Unique::by_args().refuse()).await.map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), "already_exists");
        assert_eq!(lab.ledger.count("a"), 1);
    }

    async fn what_a_definition_says_holds_for_callers_without_the_code(lab: Lab) {
        lab.start(|app| app.job(index().unique_for(1.hour()))).await;
        let first = lab.app().start_by_name("index", "\"a\"").await.unwrap();
        first.result_json().await.unwrap();
        let again = lab.app().start_by_name("index", "\"a\"").await.unwrap();
        assert_eq!((again.id(), again.created()), (first.id(), false));
        let many = lab.app().start_many(index().unique_for(1.hour()), ["a", "b", "b"].map(String::from)).await.unwrap();
        assert_eq!(many.iter().map(|run| run.created()).collect::<Vec<_>>(), [false, true, false]);
        lab.advance(2.hours()).await;
        assert!(lab.app().start_by_name("index", "\"a\"").await.unwrap().created());
    }

    async fn of_many_in_quick_succession_the_last_one_runs_once(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        for text in ["one", "two", "three"] {
            lab.app().start(index(), text.into()).debounce("doc-7", 5.seconds()).await.unwrap();
            lab.advance(3.seconds()).await;
        }
        assert!(lab.ledger.notes().is_empty(), "it waits anew each time");
        lab.advance(3.seconds()).await;
        assert_eq!(lab.ledger.notes(), ["three"]);
        lab.app().start(index(), "four".into()).debounce("doc-7", 5.seconds()).await.unwrap();
        lab.advance(10.seconds()).await;
        assert_eq!(lab.ledger.notes(), ["three", "four"]);
    }

    async fn the_input_of_a_stranger_does_not_run_with_the_roles_of_an_admin(lab: Lab) {
        let act = || Job::new("act", |job: JobCtx, what: String| async move {
            job.state::<Ledger>().note(what);
            Ok::<_, AnyError>(())
        }).role("admin");
        lab.start(|app| app.job(act())).await;
        let start = |what: &str, by: &str| lab.app().start(act(), what.into()).owner(by).debounce("doc-7", 5.seconds());
        start("harmless", "ada").role("admin").await.unwrap();
        let run = start("evil", "mallory").await.unwrap();
        lab.advance(1.minute()).await;
        run.result().await.unwrap_err();
        assert!(lab.ledger.notes().is_empty(), "mallory has no role");
    }

    async fn what_is_put_off_has_the_time_to_run(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = |text: &str| {
            lab.app().start(index(), text.into()).debounce("doc-7", 5.seconds()).timeout(10.seconds())
        };
        let run = start("one").await.unwrap();
        for text in ["two", "three", "four"] {
            lab.advance(4.seconds()).await;
            assert_eq!(start(text).await.unwrap().id(), run.id());
        }
        lab.advance(6.seconds()).await;
        run.result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["four"]);
    }

    async fn one_that_is_replaced_runs_the_code_that_its_input_was_meant_for(lab: Lab) {
        let second = || Job::new("index", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note(format!("second: {n}"));
            Ok::<_, AnyError>(())
        }).version(2);
        lab.start(|app| app.job(index()).job(second())).await;
        lab.app().start(index(), "one".into()).debounce("doc-7", 5.seconds()).await.unwrap();
        let run = lab.app().start(second(), 7).debounce("doc-7", 5.seconds()).await.unwrap();
        assert!(!run.created());
        lab.advance(6.seconds()).await;
        run.result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["second: 7"]);
    }

    async fn one_that_is_replaced_has_its_new_priority_wherever_that_is_looked_at(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = |priority| {
            let unique = Unique::by_key("k").replace();
            lab.app().start(index(), "a".into()).priority(priority).delay(1.minute()).unique(unique)
        };
        start(7).await.unwrap();
        let run = start(1).await.unwrap();
        // The run's own is what people see, and what counts when it is tried again by hand.
        assert_eq!(run.status().await.unwrap().record.priority, 1);
        let in_line = format!("select priority from outlast.agenda where id = {}", lab.world.sql_id(run.id()));
        assert_eq!(lab.world.count(&in_line).await, 1);
    }

    async fn one_that_is_replaced_does_not_begin_because_its_period_ends(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = |text: &str| {
            lab.app().start(index(), text.into()).delay(2.hours()).unique(Unique::by_key("k").within(1.hour()).replace())
        };
        start("one").await.unwrap();
        lab.advance(30.minutes()).await;
        assert!(!start("two").await.unwrap().created());
        lab.advance(110.minutes()).await;
        assert!(lab.ledger.notes().is_empty(), "two hours from when it was replaced");
        lab.advance(20.minutes()).await;
        assert_eq!(lab.ledger.notes(), ["two"]);
    }

    async fn within_a_period_one_is_started(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        for text in ["one", "two"] {
            lab.app().start(index(), text.into()).throttle("user-7", 1.minute()).await.unwrap().result().await.unwrap();
        }
        assert_eq!(lab.ledger.notes(), ["one"]);
        lab.advance(61.seconds()).await;
        lab.app().start(index(), "three".into()).throttle("user-7", 1.minute()).await.unwrap().result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["one", "three"]);
    }

    async fn a_run_stands_for_its_kind_whatever_the_next_one_asks_for(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = |unique| lab.app().start(index(), "a".into()).unique(unique);
        let first = start(Unique::by_key("k")).delay(1.hour()).await.unwrap();
        let other = start(Unique::by_key("k").within(1.minute())).await.unwrap();
        assert_eq!((other.id(), other.created()), (first.id(), false), "the first has not ended");
        let first = start(Unique::by_key("l").within(24.hours())).await.unwrap();
        first.result().await.unwrap();
        let other = start(Unique::by_key("l")).await.unwrap();
        assert_eq!((other.id(), other.created()), (first.id(), false), "24 hours are not over");
    }

    async fn whoever_gets_the_one_that_is_there_can_ask_for_its_result(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = || lab.app().start(index(), "a".into()).throttle("k", 24.hours());
        start().await.unwrap().result().await.unwrap();
        lab.advance(1.hour()).await;
        assert_eq!(lab.app().purge(1.minute()).await.unwrap(), 0, "it stands for its kind");
        start().await.unwrap().result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["a"]);
        lab.advance(24.hours()).await;
        assert_eq!(lab.app().purge(1.minute()).await.unwrap(), 1);
        assert!(start().await.unwrap().created());
    }

    async fn a_key_and_unique_are_not_said_of_one_run(lab: Lab) {
        lab.start(|app| app.job(index().unique())).await;
        let both = lab.app().start(index(), "a".into()).key("k").unique(Unique::by_args()).await.map(|_| ());
        assert_eq!(both.unwrap_err().code(), "invalid_id");
        // A key counts for more than what the definition says.
        lab.app().start(index().unique(), "a".into()).key("k").await.unwrap();
        let none = lab.app().start(index(), "a".into()).throttle("x", 0.seconds()).await.map(|_| ());
        assert_eq!(none.unwrap_err().code(), "invalid_argument");
    }

    async fn what_is_said_twice_of_one_run_is_refused(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let start = || lab.app().start(index(), "a".into());
        let soon = lab.test().now().await.unwrap();
        for (twice, names) in [
            (start().delay(1.minute()).at(soon), "both say when the run begins"),
            (start().debounce("k", 1.minute()).at(soon), "both say when the run begins"),
            (start().debounce("k", 1.minute()).delay(1.hour()), "both say when the run begins"),
            (start().delay(1.hour()).debounce("k", 1.minute()), "both say when the run begins"),
            (start().debounce("k", 1.minute()).throttle("k", 1.hour()), "which run is the only one"),
            (start().unique(Unique::by_args()).unique(Unique::by_key("k")), "which run is the only one"),
        ] {
            let error = twice.await.map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{error}");
            assert!(error.to_string().contains(names), "{error}");
        }
        lab.advance(2.hours()).await;
        assert!(lab.ledger.notes().is_empty(), "nothing was stored");
    }

    async fn in_a_transaction_it_is_the_only_one_when_that_commits(lab: Lab) {
        lab.start(|app| app.job(index())).await;
        let client = lab.app().client().clone();
        let start = async |commit: bool| {
            let client = client.clone();
            lab.app().transaction(async move |tx: Tx| {
                let start = client.start(index(), "a".into()).delay(1.minute()).unique(Unique::by_key("k"));
                let run = start.in_tx(&tx).await?;
                if commit { Ok((run.id(), run.created())) } else { Err(AnyError::new("no")) }
            }).await
        };
        assert!(start(false).await.is_err());
        let (first, created) = start(true).await.unwrap();
        assert!(created);
        assert_eq!(start(true).await.unwrap(), (first, false));
    }
}

#[tokio::test]
async fn a_period_that_is_too_short_to_be_told_to_others_is_refused() {
    for period in [Duration::ZERO, Duration::from_micros(999)] {
        let app = Outlast::open("sqlite::memory:").await.unwrap().job(index().unique_for(period));
        let refused = app.run().await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("1 ms to 100 years"), "{refused}");
    }
}
