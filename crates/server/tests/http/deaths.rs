//! A server that dies at any of its writes while it answers a request with an idempotency key: whoever sends it again, to
//! another server, has it done once, and is told the same as if nothing had happened.

use std::time::Duration;

use outlast::prelude::*;
use outlast_server::http::Api;
use outlast_testkit::{Death, StoreKind, Watched, skipped};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, Told, listen, told, with_json};

/// More writes than a request makes: what a server writes beside it comes in between.
const WRITES: u32 = 20;
/// How long a right lasts that nobody gives back.
const HELD: Duration = Duration::from_secs(6);

/// Something to ask for, of which there is to be one.
struct Deed {
    path: String,
    body: String,
}

fn deed(path: impl Into<String>, body: impl Into<String>) -> Deed {
    Deed { path: path.into(), body: body.into() }
}

impl Deed {
    async fn ask(&self, http: &reqwest::Client, url: &str, key: &str) -> Told {
        let ask = http.post(format!("{url}{}", self.path)).header("idempotency-key", key);
        told(with_json(ask, &self.body)).await
    }

    /// Has a server die there; gives what it answered if it lived long enough to.
    async fn dies(&self, lab: &Lab, death: Death, key: &str) -> Option<Told> {
        let store = Watched::over(lab.world.store().clone());
        store.dies(death);
        let stopping = CancellationToken::new();
        let work = async {
            let api = Api::new(Outlast::on(store.clone()).client()).without_tokens();
            let url = listen(api.stopping(stopping.clone()), &stopping).await;
            self.ask(&reqwest::Client::new(), &url, key).await
        };
        let answered = tokio::select! {
            answer = work => Some(answer),
            // A server does more than one thing: what else it had sent has to be through, not come later.
            () = store.settled() => None,
        };
        stopping.cancel();
        answered
    }
}

/// Has servers die at every write of a request that `prepare` makes, and sends it again to one that lives, after what others
/// did `meanwhile`. `check` is told both requests' answers in the end.
async fn at_every_write(
    lab: &Lab,
    prepare: impl AsyncFn(u32) -> Deed,
    meanwhile: impl AsyncFn(&Deed),
    check: impl AsyncFn(u32, &Deed, Value),
) {
    let http = reqwest::Client::new();
    let mut answered = 0;
    for number in 1..2 * WRITES {
        let death =
            if number % 2 == 0 { Death::After(number / 2) } else { Death::Before(number.div_ceil(2)) };
        let deed = prepare(number).await;
        let key = format!("{number}{}", deed.path);
        let first = deed.dies(lab, death, &key).await;
        meanwhile(&deed).await;
        lab.world.pass(HELD).await;
        let again = deed.ask(&http, &lab.url, &key).await;
        assert!(again.status.is_success(), "{death:?}: {again:?}");
        check(number, &deed, again.json()).await;
        if let Some(first) = first {
            assert_eq!((first.status, &first.text), (again.status, &again.text), "{death:?}");
            // Once more, so that the last write is passed for certain.
            answered += 1;
            if answered == 2 {
                return;
            }
        }
    }
    panic!("it has not answered before its write number {WRITES}");
}

async fn lab(kind: StoreKind) -> Lab {
    let lab = Lab::with(kind, |api| api.without_tokens()).await;
    for name in ["nightly-acme", "nightly-globex"] {
        assert_eq!(lab.post(&format!("/api/v1/schedules/{name}/pause"), "").await.status, 200);
    }
    lab
}

async fn count(lab: &Lab, query: &str) -> u64 {
    lab.get(&format!("/api/v1/runs/count?{query}")).await.json()["count"].as_u64().unwrap()
}

async fn nobody() {}

async fn what_is_made_is_made_once(kind: StoreKind) {
    let lab = lab(kind).await;
    let start = async |n| {
        deed("/api/v1/runs", format!(r#"{{"definition":"approve","tags":{{"n":"{n}"}},"delay_ms":9000000}}"#))
    };
    at_every_write(
        &lab,
        start,
        async |_| nobody().await,
        async |n, _, told| {
            assert_eq!(
                (count(&lab, &format!("attr.n={n}")).await, &told["created"]),
                (1, &Value::Bool(true))
            );
        },
    )
    .await;

    let run = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&run).await;
    for (path, query) in [
        (format!("/api/v1/runs/{run}/fork"), "def=greet"),
        (format!("/api/v1/runs/{run}/rerun"), "def=greet"),
        ("/api/v1/schedules/nightly-acme/trigger".to_owned(), "def=greet"),
        ("/api/v1/bulk".to_owned(), "def=outlast.bulk"),
    ] {
        let body = match query {
            "def=greet" if path.ends_with("fork") => r#"{"from_start":true}"#.to_owned(),
            "def=greet" => String::new(),
            _ => format!(r#"{{"op":"resume","ids":["{run}"],"reason":"so"}}"#),
        };
        let before = count(&lab, query).await;
        at_every_write(
            &lab,
            async |_| deed(&path, &body),
            async |_| nobody().await,
            async |n, _, _| {
                assert_eq!(count(&lab, query).await, before + u64::from(n), "{path}");
            },
        )
        .await;
    }
}

async fn what_is_filled_in_is_told_of_as_a_whole(kind: StoreKind) {
    let lab = lab(kind).await;
    let (name, days) = ("nightly-acme", std::cell::Cell::new(0));
    // Three times that nobody filled in before.
    let begin = async |_| {
        let from = days.replace(days.get() + 3);
        let day = |day: u32| {
            format!("20{:02}-{:02}-{:02}T12:00:00Z", 10 + day / 336, day / 28 % 12 + 1, day % 28 + 1)
        };
        let body = format!(r#"{{"from":"{}","to":"{}"}}"#, day(from), day(from + 3));
        deed(format!("/api/v1/schedules/{name}/backfill"), body)
    };
    let before = count(&lab, "attr.schedule=nightly-acme").await;
    at_every_write(
        &lab,
        begin,
        async |_| nobody().await,
        async |n, deed, told| {
            let (times, started) = (told["times"].as_u64().unwrap(), told["started"].as_array().unwrap());
            assert!(times >= 3 && started.len() as u64 == times, "{}: {told}", deed.body);
            assert!(count(&lab, "attr.schedule=nightly-acme").await >= before + 3 * u64::from(n));
        },
    )
    .await;
}

async fn what_is_sent_arrives_once(kind: StoreKind) {
    let lab = lab(kind).await;
    let runs = parking_lot::Mutex::new((String::new(), 0));
    let delivered = async || lab.world.count("select count(*) from outlast.deliveries").await;
    let prepare = async |_| {
        let run = lab.start(r#"{"definition":"approve"}"#).await;
        let before = delivered().await;
        *runs.lock() = (run.clone(), before);
        deed(format!("/api/v1/runs/{run}/events"), r#"{"name":"approval","data":7}"#)
    };
    // Where it arrived, the run ends before it is sent again.
    let meanwhile = async |_: &Deed| {
        let (run, before) = runs.lock().clone();
        if delivered().await > before {
            lab.result(&run).await;
        }
    };
    at_every_write(&lab, prepare, meanwhile, async |_, _, told| {
        let (run, before) = runs.lock().clone();
        assert!(told["event"].as_str().unwrap().starts_with("evt_") && told["changed"] == true, "{told}");
        assert_eq!((lab.result(&run).await["output"].clone(), delivered().await), (7.into(), before + 1));
    })
    .await;
}

async fn what_is_done_is_not_done_again(kind: StoreKind) {
    let lab = lab(kind).await;
    let view = async |deed: &Deed| {
        let run = deed.path.split('/').nth(4).unwrap().to_owned();
        (lab.get(&format!("/api/v1/runs/{run}")).await.json(), run)
    };
    // Somebody tries it again: it must not be cancelled a second time.
    let begin = async |_| {
        let run = lab.start(r#"{"definition":"approve","delay_ms":9000000}"#).await;
        deed(format!("/api/v1/runs/{run}/cancel"), r#"{"reason":"enough"}"#)
    };
    let was_done = std::sync::atomic::AtomicBool::new(false);
    let meanwhile = async |deed: &Deed| {
        let (found, run) = view(deed).await;
        let is_cancelled = found["status"] == "cancelled";
        was_done.store(is_cancelled, std::sync::atomic::Ordering::SeqCst);
        if is_cancelled {
            assert_eq!(lab.post(&format!("/api/v1/runs/{run}/retry"), "").await.json()["changed"], true);
        }
    };
    at_every_write(&lab, begin, meanwhile, async |_, deed, told| {
        let (found, run) = view(deed).await;
        let was_done = was_done.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(found["status"] == "cancelled", !was_done, "{found}");
        assert_eq!(told["changed"], true, "{told}");
        let lines = format!("select count(*) from outlast.audit where action = 'run.cancel' and target = '{run}' and status = 200");
        assert_eq!(lab.world.count(&lines).await, 1);
    })
    .await;

    // It failed, is tried again, fails again: it must not be tried a third time.
    let begin = async |_| {
        let run = lab.start(r#"{"definition":"fail","input":"no"}"#).await;
        lab.result(&run).await;
        deed(format!("/api/v1/runs/{run}/retry"), "")
    };
    let epoch = async |run: &str| lab.world.view(run.parse().unwrap()).await.epoch;
    let epochs = parking_lot::Mutex::new((0, 0));
    let begin = async |n| {
        let deed = begin(n).await;
        let before = epoch(&view(&deed).await.1).await;
        epochs.lock().0 = before;
        deed
    };
    let meanwhile = async |deed: &Deed| {
        let (_, run) = view(deed).await;
        lab.result(&run).await;
        let first = epoch(&run).await;
        epochs.lock().1 = first;
    };
    at_every_write(&lab, begin, meanwhile, async |_, deed, told| {
        let (_, run) = view(deed).await;
        lab.result(&run).await;
        let second = epoch(&run).await;
        let (before, first) = *epochs.lock();
        assert_eq!(second > first, first == before, "tried once: {before}, {first}, {second}");
        assert_eq!(told["changed"], true, "{told}");
    })
    .await;

    // Somebody resumes the queue: it must not be paused a second time.
    let meanwhile = async |_: &Deed| {
        let paused = lab.get("/api/v1/queues/mail").await.json()["state"] == "paused";
        was_done.store(paused, std::sync::atomic::Ordering::SeqCst);
        lab.post("/api/v1/queues/mail/resume", "").await;
    };
    at_every_write(
        &lab,
        async |_| deed("/api/v1/queues/mail/pause", ""),
        meanwhile,
        async |_, _, _| {
            let paused = lab.get("/api/v1/queues/mail").await.json()["state"] == "paused";
            assert_eq!(paused, !was_done.load(std::sync::atomic::Ordering::SeqCst));
            lab.post("/api/v1/queues/mail/resume", "").await;
        },
    )
    .await;
    let found = lab.get("/api/v1/audit/verify").await.json();
    assert_eq!(found["breaks"].as_array().map(Vec::len), Some(0), "{found}");
}

macro_rules! on_both {
    ($($name:ident, $postgres:ident: $story:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $story(StoreKind::Sqlite).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $postgres() {
            if skipped() {
                println!("skipped: OUTLAST_SKIP_POSTGRES=1");
                return;
            }
            $story(StoreKind::Postgres).await;
        }
    )*};
}

on_both! {
    a_server_that_dies_while_it_makes_something_leaves_one, on_postgres_too_a_server_that_dies_while_it_makes_something_leaves_one: what_is_made_is_made_once;
    a_backfill_in_which_a_server_died_is_told_of_as_a_whole, on_postgres_too_a_backfill_in_which_a_server_died_is_told_of_as_a_whole: what_is_filled_in_is_told_of_as_a_whole;
    an_event_that_a_dying_server_was_sent_arrives_once, on_postgres_too_an_event_that_a_dying_server_was_sent_arrives_once: what_is_sent_arrives_once;
    what_a_dying_server_has_done_is_not_done_again, on_postgres_too_what_a_dying_server_has_done_is_not_done_again: what_is_done_is_not_done_again;
}
