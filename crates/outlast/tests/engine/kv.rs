//! Values that outlive runs: kept through restarts, recorded by workflows, part of transactions, apart by tenant.

use std::time::Duration;

use outlast::prelude::*;
use outlast::testing;
use outlast::{CompareAndSet, Expect, KvEntry, Limits, Value};
use outlast_store::Store;
use outlast_testkit::Watched;

use crate::engine_test;
use crate::pace::{comes, pass, watched};

/// Counts one up, however many others do.
async fn count(kv: &Kv) -> Result<(), AnyError> {
    let mut seen = kv.get_versioned::<u64>("count").await?;
    loop {
        let (version, number) = seen.map_or((None, 0), |entry| (Some(entry.version), entry.value));
        match kv.compare_and_set("count", version, &(number + 1)).await? {
            CompareAndSet::Done { .. } => return Ok(()),
            CompareAndSet::Conflict { .. } => seen = kv.get_versioned("count").await?,
        }
    }
}

/// Reads `key` before it sleeps for an hour, and after.
fn twice() -> Workflow<String, (Option<String>, Option<String>), AnyError> {
    Workflow::new("twice", |ctx: Ctx, key: String| async move {
        let before = ctx.kv().get(&key).await?;
        ctx.sleep(1.hour()).await?;
        Ok::<_, AnyError>((before, ctx.kv().get(&key).await?))
    })
}

/// Sets `key` and then sleeps for an hour.
fn keep() -> Workflow<(String, String), i64, AnyError> {
    Workflow::new("keep", |ctx: Ctx, (key, value): (String, String)| async move {
        let version = ctx.kv().set(&key, &value).await?;
        ctx.sleep(1.hour()).await?;
        Ok::<i64, AnyError>(version)
    })
}

engine_test! {
    async fn a_value_outlives_its_run_and_its_process(lab: Lab) {
        let job = Job::new("job", |job: JobCtx, (): ()| async move {
            let found: Option<String> = job.kv().get("colour").await?;
            job.kv().set("from the job", &found).await?;
            Ok::<_, AnyError>(found)
        });
        let step = Workflow::new("step", |ctx: Ctx, (): ()| async move {
            Ok::<_, AnyError>(ctx.step("look", |s| async move {
                s.kv().set("from the step", &1).await?;
                Ok::<Option<String>, AnyError>(s.kv().get("colour").await?)
            }).await?)
        });
        lab.start(|app| app.workflow(keep())).await;
        let kept = lab.app().start(keep(), ("colour".into(), "red".into())).await.unwrap();
        lab.advance(1.hour()).await;
        let version = kept.result().await.unwrap();
        lab.restart(|app| app.job(job.clone()).workflow(step.clone())).await;
        lab.advance(1.hour()).await;
        let red = || Some("red".to_owned());
        assert_eq!(lab.app().purge(Duration::ZERO).await.unwrap(), 1);
        assert_eq!(lab.app().kv().get::<String>("colour").await.unwrap(), red());
        assert_eq!(lab.app().kv().get_versioned::<String>("colour").await.unwrap().unwrap().version, version);
        assert_eq!(lab.app().start(job, ()).await.unwrap().result().await.unwrap(), red());
        assert_eq!(lab.app().start(step, ()).await.unwrap().result().await.unwrap(), red());
        assert_eq!(lab.app().kv().get::<Option<String>>("from the job").await.unwrap(), Some(red()));
        assert_eq!(lab.app().kv().get::<u8>("from the step").await.unwrap(), Some(1));
    }

    async fn a_replay_gives_what_was_recorded_although_the_value_has_changed(lab: Lab) {
        lab.start(|app| app.workflow(twice())).await;
        let kv = lab.app().kv();
        kv.set("colour", "red").await.unwrap();
        let run = lab.app().start(twice(), "colour".into()).await.unwrap().id();
        let absent = lab.app().start(twice(), "shape".into()).await.unwrap().id();
        lab.settle().await;
        kv.set("colour", "blue").await.unwrap();
        kv.set("shape", "round").await.unwrap();
        lab.restart(|app| app.workflow(twice())).await;
        lab.advance(2.hours()).await;
        let result = async |run| lab.app().handle(&twice(), run).result().await.unwrap();
        assert_eq!(result(run).await, (Some("red".into()), Some("blue".into())));
        assert_eq!(result(absent).await, (None, Some("round".into())));
        assert_eq!(lab.test().steps(run).await.unwrap(), ["kv get colour", "kv get colour#2"]);
    }

    async fn every_answer_replays(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let kv = ctx.kv().space("flow");
            let first = kv.set("a", &1).ttl(1.day()).await?;
            let lost = kv.compare_and_set("a", Expect::Absent, &2).await?;
            let won = kv.compare_and_set("a", first, &3).ttl(1.day()).await?;
            let gone = (kv.delete("never").await?, kv.compare_and_delete("a", first).await?);
            let page = kv.list::<i32>("").await?;
            let entry = kv.get_versioned::<i32>("a").await?;
            let won_at = matches!(won, CompareAndSet::Done { version } if entry == page.entries.first().cloned()
                && entry.as_ref().is_some_and(|entry| entry.version == version && entry.expires_at.is_some()));
            let answers = (lost == CompareAndSet::Conflict { current: Some(first) }, won_at, gone);
            ctx.sleep(1.hour()).await?;
            Ok::<_, AnyError>((answers, kv.delete("a").await?))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(2.hours()).await;
        let result = lab.app().handle(&flow, run).result().await.unwrap();
        assert_eq!(result, ((true, true, (false, false)), true));
        let steps = ["set flow/a", "set flow/a#2", "set flow/a#3", "delete flow/never", "delete flow/a", "list flow/",
            "get flow/a", "delete flow/a#2"];
        assert_eq!(lab.test().steps(run).await.unwrap(), steps.map(|step| format!("kv {step}")));
    }

    async fn a_write_that_its_process_did_not_live_to_record_happened_once(lab: Lab) {
        let store = Watched::over(lab.world.store().clone());
        let flow = Workflow::new("flow", |ctx: Ctx, seen: i64| async move {
            Ok::<_, AnyError>(match ctx.kv().compare_and_set("count", seen, &2).await? {
                CompareAndSet::Done { version } => Some(version),
                CompareAndSet::Conflict { .. } => None,
            })
        });
        let client = Outlast::on(lab.world.store().clone()).client();
        let seen = client.kv().set("count", &1).await.unwrap();
        let held = store.hold_kv_write();
        let test = testing::start_on(store.clone(), |app| app.workflow(flow.clone())).await.unwrap();
        let run = test.app().start(flow.clone(), seen).await.unwrap().id();
        held.there.notified().await;
        let made = client.kv().get_versioned::<u32>("count").await.unwrap().unwrap();
        assert_eq!(made.value, 2, "it has happened, and nobody was told");
        test.kill().await;
        lab.world.pass(1.minute()).await;
        client.kv().set("count", &3).await.unwrap();

        lab.start(|app| app.workflow(flow.clone())).await;
        assert_eq!(lab.app().handle(&flow, run).result().await.unwrap(), Some(made.version));
        assert_eq!(client.kv().get::<u32>("count").await.unwrap(), Some(3), "what came later stays");
    }

    async fn counting_from_many_runs_and_tasks_is_exact_also_when_replies_get_lost(lab: Lab) {
        let store = Watched::over(lab.world.store().clone());
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            for _ in 0..3 {
                count(&ctx.kv()).await?;
            }
            Ok::<(), AnyError>(())
        });
        let job = Job::new("job", |job: JobCtx, (): ()| async move { count(&job.kv()).await });
        let app = Outlast::on(store.clone()).workflow(flow.clone()).job(job.clone()).run().await.unwrap();
        store.lose_replies("kv_write", 5);
        let runs = app.start_many(flow, [(); 4]).await.unwrap();
        let jobs = app.start_many(job, [(); 6]).await.unwrap();
        let tasks: Vec<_> = (0..4).map(|_| {
            let kv = app.kv();
            tokio::spawn(async move { count(&kv).await })
        }).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        for run in runs {
            run.result().await.unwrap();
        }
        for job in jobs {
            job.result().await.unwrap();
        }
        assert_eq!(app.kv().get::<u64>("count").await.unwrap(), Some(4 * 3 + 6 + 4));
        app.shutdown(1.second()).await.unwrap();
    }

    async fn a_value_is_gone_when_its_time_is_over_by_the_tests_clock(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.kv().set("offer", "half price").ttl(2.days()).await?;
            ctx.sleep(47.hours()).await?;
            let late: Option<String> = ctx.kv().get("offer").await?;
            ctx.sleep(1.hour()).await?;
            Ok::<_, AnyError>((late, ctx.kv().get::<String>("offer").await?))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let kv = lab.app().kv();
        kv.set("plain", &1).await.unwrap();
        let lock = kv.compare_and_set("lock", None, "me").ttl(1.hour()).await.unwrap();
        assert!(matches!(lock, CompareAndSet::Done { .. }));
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(59.minutes()).await;
        let taken = kv.compare_and_set("lock", None, "you").await.unwrap();
        assert!(matches!(taken, CompareAndSet::Conflict { current: Some(_) }));
        lab.advance(2.minutes()).await;
        let free = kv.compare_and_set("lock", None, "you").await.unwrap();
        assert!(matches!(free, CompareAndSet::Done { .. }));
        lab.advance(3.days()).await;
        assert_eq!(run.result().await.unwrap(), (Some("half price".into()), None));
        let left: Vec<String> = kv.list::<serde_json::Value>("").await.unwrap().entries.into_iter().map(|entry| entry.key).collect();
        assert_eq!(left, ["lock", "plain"]);
    }

    async fn values_are_listed_by_prefix_whatever_their_keys_look_like(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, prefix: String| async move {
            let (kv, mut keys, mut after) = (ctx.kv(), Vec::new(), None::<String>);
            loop {
                let page = kv.list::<usize>(&prefix).limit(2);
                let page = match &after { Some(after) => page.after(after), None => page }.await?;
                keys.extend(page.entries.into_iter().map(|entry| entry.key));
                match page.next {
                    Some(next) => after = Some(next),
                    None => return Ok::<_, AnyError>(keys),
                }
            }
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let keys = ["100%", "100% sure", "100x", "a#1", "a#2", "a*b", "a_b", "axb", "Äa", "ÄÄ", "📦"];
        for (n, key) in keys.iter().enumerate() {
            lab.app().kv().set(key, &n).await.unwrap();
        }
        for prefix in ["", "100%", "a_", "a#", "a*", "Ä", "📦", "nothing"] {
            let expected: Vec<&str> = keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
            let run = lab.app().start(flow.clone(), prefix.to_owned()).await.unwrap();
            assert_eq!(run.result().await.unwrap(), expected, "{prefix:?}");
        }
    }

    async fn a_write_in_a_transaction_commits_or_rolls_back_with_it(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, good: bool| async move {
            let sold = ctx.transaction("sell", |tx| async move {
                let left: i64 = tx.kv().get("left").await?.unwrap_or(10) - 1;
                tx.execute("insert into sold values ($1)", (left,)).await?;
                tx.kv().set("left", &left).await?;
                assert_eq!(tx.kv().list::<i64>("le").await?.entries[0].value, left, "it sees itself");
                match good {
                    true => Ok::<i64, AnyError>(left),
                    false => Err(AnyError::new("changed my mind")),
                }
            }).await;
            Ok::<Option<i64>, AnyError>(sold.ok())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let app = lab.app();
        app.transaction(async |tx: Tx| {
            tx.execute("create table sold (left_over bigint)", ()).await?;
            tx.kv().set("began", &true).await
        }).await.unwrap();
        let rows = async || lab.world.count("select count(*) from sold").await;
        let bad = app.start(flow.clone(), false).await.unwrap().result().await.unwrap();
        assert_eq!((bad, app.kv().get::<i64>("left").await.unwrap(), rows().await), (None, None, 0));
        let good = app.start(flow.clone(), true).await.unwrap().result().await.unwrap();
        assert_eq!((good, app.kv().get::<i64>("left").await.unwrap(), rows().await), (Some(9), Some(9), 1));

        // A tenant's own values, and those of nobody, in a transaction of the application.
        let client = app.client().clone();
        for good in [false, true] {
            let done = app.transaction(async |tx: Tx| {
                tx.kv().set("left", &0).await?;
                client.kv_of("acme").set("left", &7).in_tx(&tx).await?;
                assert_eq!(client.kv_of("acme").get::<i64>("left").in_tx(&tx).await?, Some(7));
                if good { Ok(()) } else { Err(AnyError::new("changed my mind")) }
            }).await;
            let left = (app.kv().get("left").await.unwrap(), app.kv_of("acme").get("left").await.unwrap());
            assert_eq!((done.is_ok(), left), if good { (true, (Some(0), Some(7))) } else { (false, (Some(9), None)) });
        }
        assert_eq!(app.kv().get::<bool>("began").await.unwrap(), Some(true));
    }

    async fn a_handle_says_when_it_is_used_with_a_transaction_that_is_not_its_own(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let kv = ctx.kv();
            Ok::<_, AnyError>(ctx.transaction("body", |tx| {
                let kv = kv.clone();
                async move { Ok::<_, AnyError>(kv.get::<u8>("key").in_tx(&tx).await?) }
            }).await?)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        assert!(view.reason.as_ref().unwrap().contains("the body of a step uses the workflow's context"), "{view:?}");
        let twice = lab.app().transaction(async |tx: Tx| tx.kv().set("key", &1).in_tx(&tx).await).await;
        assert_eq!(twice.unwrap_err().code(), "misconfigured");
        assert_eq!(lab.app().kv().get::<u8>("key").await.unwrap(), None);
    }

    async fn a_run_has_the_values_of_its_tenant_and_no_others(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, job: bool| async move {
            let mine = format!("of {:?}", ctx.tenant());
            let before: Option<String> = ctx.kv().get("secret").await?;
            ctx.kv().set("secret", &mine).await?;
            let in_step = ctx.step("look", |s| async move {
                Ok::<Option<String>, AnyError>(s.kv().get("secret").await?)
            }).await?;
            let in_tx = ctx.transaction("tx", |tx| async move {
                Ok::<Option<String>, AnyError>(tx.kv().get("secret").await?)
            }).await?;
            let listed = ctx.kv().list::<String>("").await?.entries.len();
            let same = [&in_step, &in_tx].iter().all(|found| found.as_ref() == Some(&mine));
            let in_job = match job {
                true => ctx.start(reads(), ()).await?.result().await?,
                false => Some(mine),
            };
            Ok::<_, AnyError>((before, listed, same, in_job))
        });
        fn reads() -> Job<(), Option<String>, AnyError> {
            Job::new("reads", |job: JobCtx, (): ()| async move { Ok(job.kv().get("secret").await?) })
        }
        lab.start(|app| app.workflow(flow.clone()).job(reads())).await;
        for tenant in ["", "acme", "other"] {
            let run = lab.app().start(flow.clone(), true).tenant(tenant).await.unwrap();
            let secret = format!("of {tenant:?}");
            assert_eq!(run.result().await.unwrap(), (None, 1, true, Some(secret.clone())), "{tenant}");
            assert_eq!(lab.app().kv_of(tenant).get::<String>("secret").await.unwrap(), Some(secret));
        }
        assert_eq!(lab.app().kv_of("stranger").get::<String>("secret").await.unwrap(), None);
    }

    async fn what_cannot_be_is_refused_with_its_range_before_anything_is_stored(lab: Lab) {
        async fn refusals(kv: &Kv) -> Result<Vec<(String, String)>, AnyError> {
            let (long, large) = ("k".repeat(201), "x".repeat(1 << 20));
            let deep = (1..125).fold(serde_json::json!([]), |inner, _| serde_json::json!([inner]));
            let errors = [
                kv.get::<u8>("").await.err(),
                kv.get_versioned::<u8>(&long).await.err(),
                kv.set("a\nb", &1).await.err(),
                kv.set("a\0b", &1).await.err(),
                kv.delete("").await.err(),
                kv.compare_and_delete("", 1).await.err(),
                kv.compare_and_set("", None, &1).await.err(),
                kv.space("").set("key", &1).await.err(),
                kv.space(&long).list::<u8>("").await.err(),
                kv.set("key", &large).await.err(),
                kv.set("key", &deep).await.err(),
                kv.set("key", &f64::NAN).await.err(),
                kv.set("key", &1).ttl(Duration::ZERO).await.err(),
                kv.set("key", &1).ttl(Limits::DURATION + 1.seconds()).await.err(),
                kv.compare_and_set("key", None, &1).ttl(Duration::from_nanos(999)).await.err(),
                kv.list::<u8>("a\u{7f}").await.err(),
                kv.list::<u8>("").limit(0).await.err(),
                kv.list::<u8>("").limit(1001).await.err(),
                kv.list::<u8>("").after("").await.err(),
            ];
            let told = |error: Option<Error>| error.map(|error| (error.code().to_owned(), error.to_string()));
            Ok(errors.into_iter().map(|error| told(error).unwrap_or_default()).collect())
        }
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move { refusals(&ctx.kv()).await });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let in_run = run.result().await.unwrap();
        let client = lab.app().client().clone();
        let in_tx = client.transaction(async |tx: Tx| refusals(&tx.kv()).await).await.unwrap();
        assert_eq!(refusals(&client.kv()).await.unwrap(), in_run);
        assert_eq!(in_tx, in_run);

        let name = "1 to 200 bytes without control characters";
        let remedies = [name, name, name, name, name, name, name, name, name, "the limit is 1048576",
            "at most 124 levels of nesting", "NaN and the infinities", "1 µs to 100 years", "1 µs to 100 years",
            "1 µs to 100 years", name, "1 to 1000", "1 to 1000", name];
        for (n, ((code, said), remedy)) in in_run.iter().zip(remedies).enumerate() {
            let wanted = if n == 9 { "payload_too_large" } else { "invalid_" };
            assert!(code.starts_with(wanted) && said.contains(remedy), "{n}: {code} {said}");
        }
        assert!(client.kv_of("a\nb").get::<u8>("key").await.is_err());
        for table in ["kv", "kv_writes", "journal"] {
            assert_eq!(lab.world.count(&format!("select count(*) from outlast.{table}")).await, 0, "{table}");
        }
    }

    async fn what_can_be_set_can_be_read_by_every_run_however_large_and_deep(lab: Lab) {
        type Deep = serde_json::Value;
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let kv = ctx.kv();
            let large: Option<String> = kv.get("large").await?;
            let (mut listed, mut after) = (0, None::<String>);
            loop {
                let page = kv.list::<Deep>("");
                let page = match &after { Some(after) => page.after(after), None => page }.await?;
                listed += page.entries.len();
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            let deep = kv.get_versioned::<Deep>(&"\"".repeat(200)).await?;
            Ok::<_, AnyError>((large.map_or(0, |text| text.len()), listed, deep.is_some()))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let kv = lab.app().kv();
        let mut most = 1 << 20;
        while kv.set("large", &"x".repeat(most)).await.is_err() {
            most -= 16;
        }
        assert!(most > (1 << 20) - 512, "{most}");
        for n in 0..5 {
            kv.set(&format!("half {n}"), &"x".repeat(1 << 19)).await.unwrap();
        }
        let deep = (1..124).fold(serde_json::json!([]), |inner, _| serde_json::json!([inner]));
        kv.set(&"\"".repeat(200), &deep).await.unwrap();
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), (most, 7, true));
    }

    async fn calls_of_one_run_are_told_apart_whatever_their_keys_and_whenever_they_are_awaited(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let (kv, long) = (ctx.kv(), "l".repeat(199));
            let keys = ["a", "a#2", "a_2", "a", &format!("{long}1"), &format!("{long}2"), "ä"];
            // Made in one order, and awaited in another.
            let (late, early) = (kv.set("twice", "late"), kv.set("twice", "early"));
            early.await?;
            for (n, key) in keys.iter().enumerate() {
                kv.set(key, &n).await?;
            }
            ctx.sleep(1.hour()).await?;
            late.await?;
            let (one, two, three) = tokio::join!(kv.get::<usize>(keys[0]), kv.get::<usize>(keys[1]), kv.get::<usize>(keys[2]));
            let first = tokio::select! {
                four = kv.get::<usize>(keys[4]) => four?,
                slept = ctx.sleep(1.day()) => { slept?; None }
            };
            let five = kv.get::<usize>(keys[5]).await?;
            Ok::<_, AnyError>([one?, two?, three?, first, five])
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        lab.settle().await;
        let twice = async || lab.app().kv().get::<String>("twice").await.unwrap().unwrap();
        assert_eq!((twice().await.as_str(), &*lab.test().steps(run).await.unwrap()[0]), ("early", "kv set twice#2"));
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(2.hours()).await;
        let result = lab.app().handle(&flow, run).result().await.unwrap();
        assert_eq!(result, [Some(3), Some(1), Some(2), Some(4), Some(5)]);
        assert_eq!(lab.app().kv().get::<String>("twice").await.unwrap().unwrap(), "late");
    }

    async fn what_is_no_longer_of_the_type_that_is_asked_for_is_an_error(lab: Lab) {
        lab.start(|app| app).await;
        let kv = lab.app().kv();
        kv.set("colour", "red").await.unwrap();
        assert_eq!(kv.get::<u8>("colour").await.unwrap_err().code(), "undecodable");
        assert_eq!(kv.list::<u8>("").await.unwrap_err().code(), "undecodable");
        let entry: KvEntry<String> = kv.get_versioned("colour").await.unwrap().unwrap();
        assert_eq!((&*entry.key, &*entry.value, entry.expires_at), ("colour", "red", None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_reach_its_values_waits_until_it_can() {
    let store = watched().await;
    let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
        ctx.kv().set("key", &1).await?;
        Ok::<Option<u8>, AnyError>(ctx.kv().get("key").await?)
    });
    let app = Outlast::on(store.clone()).workflow(flow.clone()).run().await.unwrap();
    // The reply is lost with the connection, and then nothing comes through for a while.
    store.lose_replies("kv_write", 1);
    let held = store.hold_kv_write();
    let run = app.start(flow, ()).await.unwrap();
    held.there.notified().await;
    store.goes_away();
    held.go.notify_one();
    pass(5.seconds()).await;
    store.comes_back();
    assert_eq!(comes(run.result()).await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn values_whose_time_is_over_are_deleted_however_many() {
    let store = watched().await;
    let app = Outlast::on(store.clone()).run().await.unwrap();
    let sets = (0..2_500).map(|n| app.kv().set(&format!("key {n}"), &n).ttl(1.hour()).into_future());
    futures_util::future::try_join_all(sets).await.unwrap();
    store.clock().advance(2.hours());
    // Long enough for two looks, each of which deletes at most a thousand at a time.
    pass(5.seconds()).await;
    let mut tx = store.begin().await.unwrap();
    let left = tx.query("select count(*) from outlast_kv", &[]).await.unwrap();
    assert_eq!(left, [[Value::Int(0)]]);
}
