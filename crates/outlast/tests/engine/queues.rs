//! Queues with rules, as an application meets them.

use std::collections::HashMap;
use std::sync::Arc;

use outlast::prelude::*;
use outlast::{QueueRules, QueueState, Rate, testing};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::engine_test;
use crate::harness::Ledger;

/// Who runs now, and how many ran at once at most, by group and in all.
#[derive(Clone, Default)]
struct Crowd(Arc<Mutex<HashMap<String, (usize, usize)>>>);

impl Crowd {
    fn enter(&self, group: &str) {
        let mut crowd = self.0.lock();
        for of in [group, "all"] {
            let (now, most) = crowd.entry(of.to_owned()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
    }

    fn leave(&self, group: &str) {
        let mut crowd = self.0.lock();
        for of in [group, "all"] {
            crowd.entry(of.to_owned()).or_default().0 -= 1;
        }
    }

    fn most(&self, of: &str) -> usize {
        self.0.lock().get(of).map_or(0, |(_, most)| *most)
    }
}

/// Where visitors wait.
#[derive(Clone)]
struct Gate(Arc<Semaphore>);

impl Gate {
    fn closed() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    fn open(&self, visitors: usize) {
        self.0.add_permits(visitors);
    }
}

/// A job that stays until the gate lets it go.
fn visit() -> Job<String, (), AnyError> {
    Job::new("visit", |job: JobCtx, group: String| async move {
        let (crowd, gate) = (job.state::<Crowd>(), job.state::<Gate>());
        crowd.enter(&group);
        gate.0.acquire().await?.forget();
        crowd.leave(&group);
        Ok(())
    })
    .queue("mail")
}

fn note() -> Job<String, (), AnyError> {
    Job::new("note", |job: JobCtx, what: String| async move {
        job.state::<Ledger>().note(what);
        Ok(())
    })
    .queue("mail")
}

engine_test! {
    async fn limits_are_used_and_never_exceeded(lab: Lab) {
        let (crowd, gate) = (Crowd::default(), Gate::closed());
        let with = |app: Outlast| app.job(visit()).state(crowd.clone()).state(gate.clone());
        lab.start(|app| with(app).queue(Queue::new("mail").limit(5).per_group(2))).await;
        let mut runs = Vec::new();
        for n in 0..20 {
            let group = format!("group {}", n % 4);
            runs.push(lab.app().start(visit(), group.clone()).group(group).await.unwrap());
        }
        lab.until("five run", || async { crowd.most("all") == 5 }).await;
        gate.open(20);
        for run in runs {
            run.result().await.unwrap();
        }
        assert_eq!(crowd.most("all"), 5);
        for n in 0..4 {
            assert!(crowd.most(&format!("group {n}")) <= 2);
        }
    }

    async fn a_flood_in_one_queue_keeps_no_other_from_its_turn(lab: Lab) {
        const FLOOD: usize = 300;
        let gate = Gate::closed();
        let through = |name: &'static str, queue: &'static str| {
            Job::new(name, |job: JobCtx, what: String| async move {
                job.state::<Gate>().0.acquire().await?.forget();
                job.state::<Ledger>().note(what);
                Ok::<(), AnyError>(())
            })
            .queue(queue)
        };
        let (first, last) = (through("a-job", "a"), through("z-job", "z"));
        let app = |app: Outlast| app.job(first.clone()).job(last.clone()).state(gate.clone()).concurrency(2);
        lab.start(app).await;
        lab.app().start_many(first.clone(), (0..FLOOD).map(|_| "flood".to_owned())).await.unwrap();
        lab.app().start_many(last.clone(), (0..4).map(|_| "drop".to_owned())).await.unwrap();
        gate.open(FLOOD + 4);
        lab.until("all are through", || async { lab.ledger.notes().len() == FLOOD + 4 }).await;
        let last = lab.ledger.notes().iter().rposition(|note| note == "drop").unwrap();
        assert!(last < FLOOD * 2 / 3, "the last of four had its turn as number {last}");
    }

    async fn a_tenant_that_floods_a_fair_queue_keeps_no_other_from_its_turn(lab: Lab) {
        const FLOOD: usize = 100;
        let gate = Gate::closed();
        let job = Job::new("through", |job: JobCtx, (): ()| async move {
            job.state::<Gate>().0.acquire().await?.forget();
            job.state::<Ledger>().note(job.tenant());
            Ok::<(), AnyError>(())
        })
        .queue("mail");
        let with = |app: Outlast| app.job(job.clone()).state(gate.clone()).concurrency(2);
        lab.start(|app| with(app).queue(Queue::new("mail").fair())).await;
        for (tenant, count) in [("flood", FLOOD), ("drop", 4)] {
            lab.app().start_many(job.clone(), (0..count).map(|_| ())).tenant(tenant).await.unwrap();
        }
        gate.open(FLOOD + 4);
        lab.until("all are through", || async { lab.ledger.notes().len() == FLOOD + 4 }).await;
        let last = lab.ledger.notes().iter().rposition(|note| note == "drop").unwrap();
        assert!(last < 20, "the last of four had its turn as number {last}");
    }

    async fn a_paused_queue_rests_and_a_resumed_one_goes_on_at_once(lab: Lab) {
        lab.start(|app| app.job(note())).await;
        let card = lab.app().pause_queue("mail").await.unwrap();
        assert_eq!(card.state, QueueState::Paused);
        let run = lab.app().start(note(), "now".into()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Ready);
        lab.app().resume_queue("mail").await.unwrap();
        run.result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["now"]);
    }

    async fn a_rate_whose_span_is_made_longer_lets_go_after_that(lab: Lab) {
        let queue = || Queue::new("mail").rate(2, 1.minute()).rate_per_group(2, 1.minute());
        lab.start(|app| app.job(note()).queue(queue())).await;
        lab.app().start_many(note(), (0..2).map(|n| n.to_string())).group("g").await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 2);
        let rate = Some(Rate::new(2, 1.hour()));
        let rules = QueueRules { rate, rate_per_group: rate, ..QueueRules::default() };
        lab.app().set_queue_rules("mail", Some(rules)).await.unwrap();
        lab.app().start(note(), "later".into()).group("g").await.unwrap();
        lab.advance(30.minutes()).await;
        assert_eq!(lab.ledger.count("later"), 0, "in this hour two began already");
        lab.advance(1.hour()).await;
        assert_eq!(lab.ledger.count("later"), 1);
    }

    async fn a_rate_whose_span_is_made_shorter_does_not_forget_what_just_began(lab: Lab) {
        lab.start(|app| app.job(note()).queue(Queue::new("mail").rate(2, 1.hour()))).await;
        lab.app().start_many(note(), (0..4).map(|n| n.to_string())).await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 2);
        let rules = QueueRules { rate: Some(Rate::new(2, 30.minutes())), ..QueueRules::default() };
        lab.app().set_queue_rules("mail", Some(rules)).await.unwrap();
        lab.advance(1.second()).await;
        assert_eq!(lab.ledger.notes().len(), 2, "in this half hour two began already");
        lab.advance(31.minutes()).await;
        assert_eq!(lab.ledger.notes().len(), 4);
    }

    async fn a_queue_that_nothing_knows_is_not_changed(lab: Lab) {
        lab.start(|app| app.job(note())).await;
        assert_eq!(lab.app().pause_queue("mial").await.unwrap_err().code(), "invalid_argument");
        assert_eq!(lab.app().set_queue_rules("mial", None).await.unwrap_err().code(), "invalid_argument");
        assert!(lab.app().queues().await.unwrap().iter().all(|view| view.queue.name != "mial"));
        lab.app().start(note(), "here".into()).queue("parcels").delay(1.hour()).await.unwrap();
        lab.app().pause_queue("parcels").await.unwrap();
    }

    async fn a_rate_lets_go_as_time_passes(lab: Lab) {
        lab.start(|app| app.job(note()).queue(Queue::new("mail").rate(2, 1.minute()))).await;
        lab.app().start_many(note(), (0..5).map(|n| n.to_string())).await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 2);
        lab.advance(59.seconds()).await;
        assert_eq!(lab.ledger.notes().len(), 2);
        lab.advance(5.seconds()).await;
        assert_eq!(lab.ledger.notes().len(), 4);
        lab.advance(2.minutes()).await;
        assert_eq!(lab.ledger.notes().len(), 5);
    }

    async fn an_ordered_group_keeps_its_order_through_failures_and_restarts(lab: Lab) {
        let job = Job::new("move", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note(format!("{n}.{}", job.attempt()));
            match (n, job.attempt()) {
                (1, 1) => Err(AnyError::new("not yet")),
                _ => Ok(()),
            }
        }).queue("ledger").retry(Retry::fixed(3, 1.hour()));
        let with = |app: Outlast| app.job(job.clone()).queue(Queue::new("ledger").ordered());
        lab.start(with).await;
        lab.app().start_many(job.clone(), 0..4).group("account").await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["0.1", "1.1"]);
        lab.restart(with).await;
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["0.1", "1.1"], "nobody passes it");
        lab.advance(2.hours()).await;
        assert_eq!(lab.ledger.notes(), ["0.1", "1.1", "1.2", "2.1", "3.1"]);
    }

    async fn the_next_of_a_group_begins_when_the_one_before_has_ended(lab: Lab) {
        let slow = |queue: &'static str| {
            let slow = Job::new("slow", |_: JobCtx, _: u32| async {
                tokio::task::yield_now().await;
                Ok::<(), AnyError>(())
            });
            slow.queue(queue)
        };
        // Nobody looks by and by: whoever waits for a slot is told when it is free.
        lab.start(|app| {
            let app = app.job(slow("a")).queue(Queue::new("a").per_group(1)).queue(Queue::new("b").ordered());
            app.settings(|settings| {
                settings.queues = vec!["a".into(), "b".into()];
                settings.poll_every = std::time::Duration::from_secs(3600);
            })
        })
        .await;
        for queue in ["a", "b"] {
            for run in lab.app().start_many(slow(queue), 0..8).group("g").await.unwrap() {
                run.result().await.unwrap();
            }
        }
    }

    async fn a_limit_per_node_leaves_its_slots_to_others(lab: Lab) {
        let (crowd, gate) = (Crowd::default(), Gate::closed());
        let other = Job::new("other", |_: JobCtx, (): ()| async { Ok::<_, AnyError>(()) });
        let with = |app: Outlast| app.job(visit()).job(other.clone()).state(crowd.clone()).state(gate.clone());
        lab.start(|app| with(app).queue(Queue::new("mail").per_node(3))).await;
        let runs = lab.app().start_many(visit(), (0..10).map(|_| "g".to_owned())).await.unwrap();
        lab.until("three run", || async { crowd.most("all") == 3 }).await;
        lab.app().start(other.clone(), ()).await.unwrap().result().await.unwrap();
        gate.open(10);
        for run in runs {
            run.result().await.unwrap();
        }
        assert_eq!(crowd.most("all"), 3);
    }

    async fn rules_that_people_set_hold_until_they_take_them_back(lab: Lab) {
        lab.start(|app| app.job(note()).queue(Queue::new("mail").limit(4))).await;
        let rules = QueueRules { limit: Some(1), ..QueueRules::default() };
        lab.app().set_queue_rules("mail", Some(rules)).await.unwrap();
        lab.restart(|app| app.job(note()).queue(Queue::new("mail").limit(6))).await;
        let mail = lab.app().queues().await.unwrap().remove(0).queue;
        assert_eq!((mail.rules.limit, mail.is_own), (Some(1), true));
        let mail = lab.app().set_queue_rules("mail", None).await.unwrap();
        assert_eq!((mail.rules.limit, mail.is_own), (Some(6), false));
    }
}

#[tokio::test]
async fn rules_that_make_no_sense_are_refused_before_anything_runs() {
    let open = async |queue: Queue| Outlast::open("sqlite::memory:").await.unwrap().queue(queue).run().await;
    for (queue, named) in [
        (Queue::new("mail").limit(0), "limit"),
        (Queue::new("mail").per_group(0), "limit per group"),
        (Queue::new("mail").rate(0, 1.minute()), "rate"),
        (Queue::new("mail").rate_per_group(5, 0.seconds()), "rate per group"),
        (Queue::new("").limit(1), "queue"),
    ] {
        let refused = open(queue).await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
}

#[tokio::test]
async fn a_test_waits_for_those_who_stood_behind_a_run_that_was_killed() {
    let book = || {
        Job::new("book", |_: JobCtx, fails: bool| async move {
            if fails { Err(AnyError::new("no")) } else { Ok(()) }
        })
    };
    let ordered = Queue::new("default").ordered();
    let test = testing::start(|app| app.job(book()).queue(ordered)).await.unwrap();
    let start = async |fails| test.app().start(book(), fails).group("account-7").await.unwrap();
    let (first, second) = (start(true).await, start(false).await);
    test.settle().await.unwrap();
    assert_eq!(second.status().await.unwrap().status, Status::Ready, "the one before is to be tried again");
    first.kill("a mistake").await.unwrap();
    test.settle().await.unwrap();
    assert_eq!(second.status().await.unwrap().status, Status::Completed);
}
