//! The check before a deploy: what runs recorded, replayed against code that changed, with nothing behind it.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast::{RunExport, Timestamp, Verdict, testing};
use outlast_store::{Clock, OpenOptions};
use parking_lot::Mutex;

use crate::engine_test;
use crate::harness::Ledger;

type Flow = Workflow<u32, u32, AnyError>;

/// A workflow of two steps that waits for an approval. `steps` are the steps, by name.
fn order(steps: &'static [&'static str]) -> Flow {
    Workflow::new("order", move |ctx: Ctx, n: u32| async move {
        for step in steps {
            let ledger = ctx.state::<Ledger>();
            ctx.step(step, |_| {
                ledger.note(*step);
                async move { Ok::<u32, AnyError>(n) }
            })
            .await?;
        }
        Ok(ctx.event::<u32>("approval").await? + n)
    })
}

/// What an order has recorded when it waits.
async fn recorded() -> RunExport {
    let old = order(&["reserve", "charge"]);
    let test = testing::start(|app| app.workflow(old.clone()).state(Ledger::default())).await.unwrap();
    let run = test.app().start(old, 7).await.unwrap();
    test.settle().await.unwrap();
    test.app().export(run.id()).await.unwrap()
}

/// What the check of an order says about this code. Nothing may happen meanwhile.
async fn check(with: impl FnOnce(Outlast) -> Outlast) -> Verdict {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, recorded().await.to_json()).unwrap();
    let ledger = Ledger::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let each = {
        let seen = seen.clone();
        move |checked: &outlast::Checked| seen.lock().push(checked.verdict.clone())
    };
    let app = with(Outlast::open("sqlite::memory:").await.unwrap().state(ledger.clone()));
    let report = app.check_files([&file]).each(each).await.unwrap();
    assert_eq!((report.runs, report.fits()), (1, report.misfits().is_empty()));
    assert_eq!(ledger.notes(), [""; 0], "no body started");
    seen.lock().remove(0)
}

/// What becomes of a run that waits when a node with this code takes it.
async fn goes_on(with: impl FnOnce(Outlast) -> Outlast) -> String {
    let clock = Clock::stopped_at(Timestamp::from_micros(1_893_456_000_000_000));
    let options = OpenOptions { clock: clock.clone(), ..OpenOptions::default() };
    let store = outlast_store::open("sqlite::memory:", options).await.unwrap();
    let old = order(&["reserve", "charge"]);
    let start = testing::start_on(store.clone(), |app| app.workflow(old.clone()).state(Ledger::default()));
    let test = start.await.unwrap();
    let run = test.app().start(old, 7).await.unwrap().id();
    test.settle().await.unwrap();
    test.kill().await;
    clock.advance(1.minute());
    let test = testing::start_on(store, |app| {
        with(app.state(Ledger::default())).settings(|settings| {
            settings.verify = 0;
            settings.unknown_after = Duration::ZERO;
        })
    });
    let test = test.await.unwrap();
    test.app().send(run, "approval", &1).await.unwrap();
    // Nobody who knows its code came for a while.
    clock.advance(1.second());
    test.sweep().await;
    test.settle().await.unwrap();
    let view = test.app().status(run).await.unwrap();
    let why = view.reason.or_else(|| view.ended?.error).unwrap_or_default();
    format!("{} {why}", view.status).trim().to_owned()
}

/// Lines of the source change with every edit of this file.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(".rs:");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += ".rs:LINE";
        plain += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain
}

macro_rules! stories {
    ($($title:literal => $with:expr;)*) => {{
        let mut text = String::new();
        $(
            let (checked, became) = (check($with).await, goes_on($with).await);
            text += &format!("{}\n  check: {checked}\n  run:   {became}\n\n", $title);
        )*
        text
    }};
}

#[tokio::test]
async fn every_way_in_which_code_can_change_is_told_in_its_own_words() {
    fn charged<T: outlast::Stored>(value: fn() -> T) -> Workflow<u32, u32, AnyError> {
        Workflow::new("order", move |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            ctx.step("charge", |_| async move { Ok::<T, AnyError>(value()) }).await?;
            Ok(ctx.event::<u32>("approval").await? + n)
        })
    }
    let text = stories! {
        "nothing changed" => |app| app.workflow(order(&["reserve", "charge"]));
        "a step was renamed" => |app| app.workflow(order(&["reserve", "bill"]));
        "a step was removed" => |app| app.workflow(order(&["reserve"]));
        "a step was added in between" => |app| app.workflow(order(&["reserve", "audit", "charge"]));
        "a step was added at the end" => |app| app.workflow(order(&["reserve", "charge", "pack"]));
        "the recorded steps were reordered" => |app| app.workflow(order(&["charge", "reserve"]));
        "a step was put before those that are recorded" => |app| app.workflow(order(&["pack", "reserve", "charge"]));
        "the result of a step has another type" => |app| app.workflow(charged(|| vec!["seven".to_owned()]));
        "a step became a transaction" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            ctx.transaction("charge", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            Ok::<u32, AnyError>(ctx.event::<u32>("approval").await? + n)
        }));
        "it waits for another event" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            ctx.step("charge", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            Ok::<u32, AnyError>(ctx.event::<u32>("consent").await?)
        }));
        "it ends early" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            Ok::<u32, AnyError>(n)
        }));
        "it starts over early" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            ctx.continue_as_new::<u32, u32, AnyError>(n).await
        }));
        "it panics" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            let n = ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            assert_eq!(n, 8, "no seven here");
            Ok::<u32, AnyError>(n)
        }));
        "it awaits something that is not durable" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, n: u32| async move {
            ctx.step("reserve", |_| async move { Ok::<u32, AnyError>(n) }).await?;
            std::future::pending::<()>().await;
            Ok::<u32, AnyError>(n)
        }));
        "its input has another type" => |app| app.workflow(Workflow::new("order", |_: Ctx, _: Vec<u32>| async move {
            Ok::<u32, AnyError>(1)
        }));
        "it asks for a state that nobody has" => |app| app.workflow(Workflow::new("order", |ctx: Ctx, _: u32| async move {
            Ok::<u32, AnyError>(*ctx.state::<u32>())
        }));
        "the workflow is gone" => |app| app.workflow(Workflow::new("parcel", |_: Ctx, _: u32| async move {
            Ok::<u32, AnyError>(1)
        }));
        "the version is gone" => |app| app.workflow(order(&[]).version(3)).workflow(order(&["reserve"]).version(2));
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/checks.txt");
    let text = without_lines(&text);
    if std::env::var_os("OUTLAST_BLESS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let known = std::fs::read_to_string(file).unwrap();
    assert!(text == known, "OUTLAST_BLESS=1 writes what is said now:\n{text}");
}

#[tokio::test]
async fn the_line_of_the_code_is_the_users_own_whatever_the_operation_is() {
    /// What is said about code that does `first` before what is recorded.
    async fn line(
        first: impl Fn(Ctx) -> futures_util::future::BoxFuture<'static, Result<(), AnyError>>
        + Send
        + Sync
        + 'static,
    ) -> (String, u32) {
        let first = Arc::new(first);
        let flow = Workflow::new("order", move |ctx: Ctx, n: u32| {
            let first = first.clone();
            async move {
                first(ctx).await?;
                Ok::<u32, AnyError>(n)
            }
        });
        let verdict = check(|app| app.workflow(flow)).await;
        let Verdict::Diverges(difference) = verdict else { panic!("{verdict}") };
        let source = difference.source.unwrap();
        (source.file().to_owned(), source.line())
    }
    let here = |line: u32| (file!().to_owned(), line);
    let child = || Workflow::new("child", |_: Ctx, (): ()| async move { Ok::<(), AnyError>(()) });
    #[rustfmt::skip] // A case is one line.
    let cases = [
        (line(|ctx| Box::pin(async move { Ok(ctx.step("a", |_| async { Ok::<(), AnyError>(()) }).await?) })).await, line!()),
        (line(|ctx| Box::pin(async move { Ok(ctx.transaction("a", |_| async { Ok::<(), AnyError>(()) }).await?) })).await, line!()),
        (line(|ctx| Box::pin(async move { Ok(ctx.sleep(1.hour()).await?) })).await, line!()),
        (line(|ctx| Box::pin(async move { Ok(ctx.event("a").await?) })).await, line!()),
        (line(|ctx| Box::pin(async move { Ok(ctx.scope("b").promise("a").await?) })).await, line!()),
        (line(|ctx| Box::pin(async move { Ok(ctx.kv().set("a", &1).await.map(drop)?) })).await, line!()),
        (line(move |ctx| Box::pin(async move { Ok(ctx.start(child(), ()).await?.result().await?) })).await, line!()),
        (line(move |ctx| Box::pin(async move { Ok(ctx.start(child(), ()).key("a").await.map(drop)?) })).await, line!()),
    ];
    for (told, line) in cases {
        assert_eq!(told, here(line));
    }
}

#[tokio::test]
async fn a_job_fits_if_its_input_does() {
    let mail = |input: fn(u32)| {
        Job::new("mail", move |_: JobCtx, n: u32| async move {
            input(n);
            Ok::<(), AnyError>(())
        })
    };
    let test = testing::start(|app| app.job(mail(|_| {}))).await.unwrap();
    let run = test.app().start(mail(|_| {}), 7).delay(1.hour()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, test.app().export(run.id()).await.unwrap().to_json()).unwrap();

    let memory = async || Outlast::open("sqlite::memory:").await.unwrap();
    let report =
        memory().await.job(mail(|_| panic!("no code is called"))).check_files([&file]).await.unwrap();
    assert!(report.fits());
    assert_eq!(report.to_string(), "1 of 1 unfinished runs fit\n");
    let other = Job::new("mail", |_: JobCtx, _: Vec<u32>| async move { Ok::<(), AnyError>(()) });
    let report = memory().await.job(other).check_files([&file]).await.unwrap();
    let told = report.to_string();
    assert!(
        told.contains("mail (version 1): the input of mail cannot be decoded as alloc::vec::Vec<u32>"),
        "{told}"
    );
    assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", std::process::ExitCode::from(4)));
}

#[tokio::test]
async fn a_file_that_is_no_run_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.json");
    std::fs::write(&file, "{}").unwrap();
    let refused =
        Outlast::open("sqlite::memory:").await.unwrap().check_files([&file]).await.unwrap_err().to_string();
    assert!(refused.contains("other.json") && refused.contains("outlast_run"), "{refused}");
}

engine_test! {
    async fn a_live_database_is_checked_without_a_trace(lab: Lab) {
        let (old, kid) = (order(&["reserve", "charge"]), order(&["reserve"]).version(2));
        lab.start(|app| app.workflow(old.clone()).workflow(kid.clone())).await;
        for n in 0..30 {
            lab.app().start(old.clone(), n).await.unwrap();
        }
        let ended = lab.app().start(old.clone(), 30).await.unwrap();
        lab.settle().await;
        lab.app().send(ended.id(), "approval", &1).await.unwrap();
        ended.result().await.unwrap();
        for n in 0..3 {
            lab.app().start(kid.clone(), n).await.unwrap();
        }
        lab.settle().await;
        let before = lab.ledger.notes().len();
        let look = async || {
            let tables = lab.world.snapshot().await;
            format!("{tables:?}")
        };
        let (url, tables) = (lab.world.url().to_owned(), look().await);
        let memory = async || Outlast::open("sqlite::memory:").await.unwrap().state(lab.ledger.clone());

        let report = memory().await.workflow(old.clone()).workflow(kid.clone()).check(&url).await.unwrap();
        assert_eq!((report.runs, report.fitting), (33, 33), "{report}");
        let new = order(&["reserve", "bill"]);
        let report = memory().await.workflow(new.clone()).check(&url).await.unwrap();
        assert_eq!((report.runs, report.fitting, report.misfits().len()), (33, 0, 33), "{report}");
        let told = report.to_string();
        assert_eq!(told.matches("but the code begins step \"bill\", which is not recorded (at ").count(), 30, "{told}");
        assert_eq!(told.matches("\"order\" has no version 2 here; registered: 1").count(), 3, "{told}");
        let report = memory().await.workflow(new.clone()).check(&url).sample(5).await.unwrap();
        assert_eq!(report.runs, 8, "five of one version, and all three of the other");
        let report = memory().await.workflow(new).check(&url).definition("parcel").await.unwrap();
        assert_eq!((report.runs, report.fits()), (0, true));

        assert_eq!(look().await, tables, "nothing was written");
        assert_eq!(lab.ledger.notes().len(), before, "no body started");
        assert_eq!(lab.app().nodes().await.unwrap().len(), 1, "no node joined");
    }

    async fn a_database_that_was_opened_to_be_read_refuses_every_change(lab: Lab) {
        let flow = order(&["reserve"]);
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), 1).await.unwrap().id();
        lab.settle().await;
        let tables = format!("{:?}", lab.world.snapshot().await);

        let options = || OpenOptions { read_only: true, ..OpenOptions::default() };
        let store = outlast_store::open(lab.world.url(), options()).await.unwrap();
        let client = Outlast::on(store.clone()).client();
        assert_eq!(client.status(run).await.unwrap().status, Status::Waiting);
        let refused = |told: String| assert!(told.contains("opened to be read only"), "{told}");
        refused(client.start(flow.clone(), 2).await.map(drop).unwrap_err().to_string());
        refused(client.start(flow.clone(), 2).key("k").await.map(drop).unwrap_err().to_string());
        refused(client.send(run, "approval", &1).await.unwrap_err().to_string());
        refused(client.cancel(run, "no").await.unwrap_err().to_string());
        refused(client.kv().set("k", &1).await.unwrap_err().to_string());
        refused(store.begin().await.map(drop).unwrap_err().to_string());
        let node = Outlast::on(store.clone()).workflow(flow.clone()).run().await;
        refused(node.map(drop).unwrap_err().to_string());

        assert_eq!(format!("{:?}", lab.world.snapshot().await), tables);
        let nothing = outlast_store::open("sqlite://there/is/none.db", options()).await;
        assert!(nothing.is_err(), "nothing is made");
    }

    async fn a_long_journal_is_checked_to_its_end(lab: Lab) {
        fn counting(steps: u32) -> Workflow<(), (), AnyError> {
            Workflow::new("counting", move |ctx: Ctx, (): ()| async move {
                for _ in 0..steps { ctx.step("s", |_| async { Ok::<(), AnyError>(()) }).await?; }
                Ok(ctx.event("go").await?)
            })
        }
        lab.start(|app| app.workflow(counting(1_005))).await;
        lab.app().start(counting(1_005), ()).await.unwrap();
        lab.settle().await;
        let check = async |steps| {
            let app = Outlast::open("sqlite::memory:").await.unwrap().workflow(counting(steps));
            app.check(lab.world.url()).await.unwrap()
        };
        assert!(check(1_005).await.fits());
        let told = check(1_004).await.to_string();
        assert!(told.contains("the journal goes on with step \"s#1005\" (entry 1005), but the code waits for event \"go\""), "{told}");
    }
}
