//! The client: starts, looks and refuses what cannot be.

use std::time::Duration;

use outlast::Filter;
use outlast::prelude::*;
use outlast_testkit::Watched;

use crate::engine_test;

fn echo() -> Workflow<u32, u32, AnyError> {
    Workflow::new("echo", |_: Ctx, n: u32| async move { Ok(n) })
}

engine_test! {
    async fn the_same_key_never_starts_twice_and_another_input_is_a_conflict(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let first = lab.app().start(echo(), 1).key("order-42").await.unwrap();
        let again = lab.app().start(echo(), 1).key("order-42").await.unwrap();
        assert!(first.created() && !again.created());
        assert_eq!(first.id(), again.id());
        let other = lab.app().start(echo(), 2).key("order-42").await.err().unwrap();
        assert_eq!(other, Error::KeyConflict { key: "order-42".into(), run: first.id() });
        let tenant = lab.app().start(echo(), 2).key("order-42").tenant("acme").await.unwrap();
        assert!(tenant.created(), "keys are unique per tenant");
        assert_eq!(lab.app().find(Target::key("echo", "order-42")).await.unwrap(), first.id());
    }

    async fn many_runs_take_the_options_of_one_and_a_key_for_each(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let start = |inputs: Vec<u32>| {
            let many = lab.app().start_many(echo(), inputs).keys(|n| format!("n-{n}")).delay(1.hour()).timeout(1.day());
            many.queue("default").priority(2).tag("kind", "bulk").tenant("acme").owner("alice").role("admin")
        };
        let runs = start(vec![1, 2, 3]).await.unwrap();
        let again = start(vec![3, 4]).await.unwrap();
        assert_eq!(again.iter().map(|run| run.created()).collect::<Vec<_>>(), [false, true]);
        assert_eq!(again[0].id(), runs[2].id());
        let filter = Filter { tags: vec![("kind".into(), "bulk".into())], ..Default::default() };
        let found = lab.app().list(&filter, None, 10).await.unwrap().runs;
        assert_eq!(found.len(), 4);
        for run in &found {
            let record = &run.record;
            assert_eq!((record.tenant.as_str(), record.owner.as_deref(), record.priority), ("acme", Some("alice"), 2));
            assert_eq!((run.status, record.roles.as_slice()), (Status::Ready, &["admin".to_owned()][..]));
        }
        lab.advance(1.hour()).await;
        assert_eq!(again[1].result().await.unwrap(), 4);
        let bad = lab.app().start_many(echo(), [1]).keys(|_| "no key").await.err().unwrap();
        assert_eq!(bad.code(), "invalid_id");
    }

    async fn many_runs_start_all_or_none_when_a_key_belongs_to_another_input(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let first = lab.app().start(echo(), 3).key("n").await.unwrap();
        let key = |n: &u32| if *n < 4 { format!("k-{n}") } else { "n".to_owned() };
        let refused = lab.app().start_many(echo(), [1, 2, 4]).keys(key).await.err().unwrap();
        assert_eq!(refused, Error::KeyConflict { key: "n".into(), run: first.id() });
        let twice = lab.app().start_many(echo(), [1, 2]).keys(|_| "same").await.err().unwrap();
        assert_eq!(twice.to_string(), "invalid key \"same\": one for each input: two inputs of this call have it");
        assert_eq!(lab.app().list(&Filter::default(), None, 10).await.unwrap().runs.len(), 1);

        let runs = lab.app().start_many(echo(), [1, 2, 2]).keys(key).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.created()).collect::<Vec<_>>(), [true, true, false]);
        for (run, n) in runs.iter().zip([1, 2, 2]) {
            assert_eq!(run.result().await.unwrap(), n);
        }
    }

    async fn ten_thousand_are_started_in_one_call_and_no_more(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let most = outlast::StartMany::<Workflow<u32, u32, AnyError>>::MOST as u32;
        let refused = lab.app().start_many(echo(), 0..=most).delay(1.hour()).await.err().unwrap().to_string();
        assert!(refused.contains("10001") && refused.contains("10000"), "{refused}");
        assert_eq!(lab.app().count(&Filter::default(), 20_000).await.unwrap(), 0, "none of them");
        let runs = lab.app().start_many(echo(), 0..most).delay(1.hour()).await.unwrap();
        assert_eq!(runs.len(), 10_000);
        assert_eq!(lab.app().count(&Filter::default(), 20_000).await.unwrap(), 10_000);
        assert!(runs.iter().all(|run| run.created()));
    }

    async fn many_runs_start_when_the_transaction_commits_or_not_at_all(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        for commits in [false, true] {
            let app = lab.app();
            let done = app.transaction(async |tx: Tx| {
                let runs = app.start_many(echo(), [1, 2, 3]).keys(|n| format!("n-{n}")).in_tx(&tx).await?;
                if commits { Ok(runs) } else { Err(AnyError::new("rolled back")) }
            }).await;
            let count = app.count(&Filter::default(), 10).await.unwrap();
            assert_eq!((done.is_ok(), count), (commits, if commits { 3 } else { 0 }));
            for (run, n) in done.unwrap_or_default().iter().zip(1..) {
                assert_eq!(run.result().await.unwrap(), n);
            }
        }
    }

    async fn a_key_of_a_tenant_is_reached_by_its_tenant(lab: Lab) {
        let waits = Workflow::new("waits", |ctx: Ctx, (): ()| async move {
            Ok::<u32, AnyError>(ctx.event::<u32>("n").await? + ctx.promise::<u32>("m").await?)
        });
        lab.start(|app| app.workflow(waits.clone())).await;
        let app = lab.app();
        let ours = Target::key("waits", "k").of_tenant("acme");
        app.send(ours.clone(), "n", &1).await.unwrap();
        let plain = app.start(waits.clone(), ()).key("k").await.unwrap();
        let acme = app.start(waits.clone(), ()).key("k").tenant("acme").await.unwrap();
        assert_eq!(app.find(ours.clone()).await.unwrap(), acme.id());
        assert_eq!(app.find(Target::key("waits", "k")).await.unwrap(), plain.id());
        app.settle(ours.clone(), "m", &2).await.unwrap();
        assert_eq!(acme.result().await.unwrap(), 3);
        assert!(!app.cancel(ours, "it has ended").await.unwrap());
        assert!(app.cancel(Target::key("waits", "k"), "nobody sent").await.unwrap());
        let nobody = app.find(Target::key("waits", "k").of_tenant("other")).await.unwrap_err();
        assert_eq!(nobody.code(), "not_found");
    }

    async fn a_hundred_racing_starts_with_one_key_make_one_run(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let starts = (0..100).map(|_| {
            let client = lab.app().client().clone();
            tokio::spawn(async move { client.start(echo(), 7).key("one").await.unwrap() })
        });
        let mut ids = Vec::new();
        let mut created = 0;
        for start in starts.collect::<Vec<_>>() {
            let run = start.await.unwrap();
            created += u32::from(run.created());
            ids.push(run.id());
        }
        ids.dedup();
        assert_eq!((ids.len(), created), (1, 1));
    }

    async fn a_delayed_run_starts_at_its_time(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let late = lab.app().start(echo(), 1).delay(1.hour()).await.unwrap();
        let at = lab.test().now().await.unwrap() + 2.hours();
        let later = lab.app().start(echo(), 2).at(at).await.unwrap();
        lab.advance(59.minutes()).await;
        assert_eq!(late.status().await.unwrap().status, Status::Ready);
        lab.advance(1.minute()).await;
        assert_eq!(late.result().await.unwrap(), 1);
        assert_eq!(later.status().await.unwrap().status, Status::Ready);
        lab.advance(1.hour()).await;
        assert_eq!(later.result().await.unwrap(), 2);
    }

    async fn a_definition_can_be_started_by_name_with_json(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let run = lab.app().start_by_name("echo", "7").key("by-name").await.unwrap();
        assert_eq!(run.result_json().await.unwrap().get(), "7");
        let card = lab.app().definition("echo").await.unwrap();
        assert_eq!((card.version, card.queue.as_str()), (1, "default"));

        let unknown = lab.app().start_by_name("ecko", "7").await.err().unwrap();
        assert_eq!(unknown.to_string(), "no workflow or job is called \"ecko\"; did you mean echo?");
        let wrong = lab.app().start_by_name("echo", "{").await.err().unwrap();
        assert_eq!(wrong.code(), "invalid_argument");
        let undecodable = lab.app().start_by_name("echo", r#"{"a":1}"#).key("odd").await.err().unwrap();
        assert!(undecodable.to_string().starts_with("the input of echo cannot be decoded as u32"), "{undecodable}");
        let all = lab.app().list(&Filter::default(), None, 10).await.unwrap().runs;
        assert_eq!(all.len(), 1, "nothing is written: {all:?}");

        // Who has no code leaves it to a node.
        let client = Outlast::on(lab.world.store().clone()).client();
        let undecodable = client.start_by_name("echo", r#"{"a":1}"#).await.unwrap();
        let error = undecodable.result_json().await.unwrap_err().message();
        assert!(error.starts_with("the input of echo cannot be decoded as u32"), "{error}");

        // Who was made with the code says so at once. With other code of that name nothing is known.
        let made_with = |app: Outlast| app.client().start_by_name("echo", r#"{"a":1}"#);
        let store = lab.world.store();
        let same = made_with(Outlast::on(store.clone()).workflow(echo())).await;
        assert_eq!(same.err().unwrap().code(), "undecodable");
        let other = Workflow::new("echo", async |_ctx: Ctx, n: u64| Ok::<_, AnyError>(n));
        assert!(made_with(Outlast::on(store.clone()).workflow(other)).await.is_ok());
    }

    async fn bad_input_is_refused_with_the_thing_and_the_limit_and_writes_nothing(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        let app = lab.app();
        let long = "x".repeat(201);
        let refused = [
            (app.start(echo(), 1).key("").await.err(), "invalid_id"),
            (app.start(echo(), 1).key("a b").await.err(), "invalid_id"),
            (app.start(echo(), 1).key(long.clone()).await.err(), "invalid_id"),
            (app.start(echo(), 1).queue("").await.err(), "invalid_argument"),
            (app.start(echo(), 1).queue("..").await.err(), "invalid_argument"),
            (app.start(echo(), 1).queue("nul\0").await.err(), "invalid_character"),
            (app.start(echo(), 1).priority(10).await.err(), "invalid_argument"),
            (app.start(echo(), 1).delay(Duration::MAX).await.err(), "invalid_duration"),
            (app.start(echo(), 1).timeout(Duration::MAX).await.err(), "invalid_duration"),
            (app.start(echo(), 1).delay(1.hour()).timeout(1.hour()).await.err(), "invalid_duration"),
            (app.start(echo().timeout(1.minute()), 1).delay(1.hour()).await.err(), "invalid_duration"),
            (app.start(echo(), 1).tag("", "x").await.err(), "invalid_argument"),
            (app.start(echo(), 1).tenant(long.clone()).await.err(), "invalid_argument"),
            (app.start_by_name("", "1").await.err(), "invalid_argument"),
            (app.send(Target::key("echo", ""), "x", &1).await.err(), "invalid_id"),
            (app.send(Target::key("echo", "k"), "nul\0", &1).await.err(), "invalid_character"),
            (app.list(&Filter::default(), None, 0).await.err(), "invalid_argument"),
            (app.list(&Filter::default(), None, 501).await.err(), "invalid_argument"),
        ];
        for (n, (error, word)) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("case {n} was accepted"));
            assert_eq!(error.code(), word, "case {n}: {error}");
        }
        let tags = (0..65).fold(app.start(echo(), 1), |start, n| start.tag(n.to_string(), "x"));
        assert_eq!(tags.await.err().unwrap().to_string(), "the number of tags is too large: 65, the limit is 64");
        let roles = (0..65).fold(app.start(echo(), 1), |start, n| start.role(n.to_string()));
        assert_eq!(roles.await.err().unwrap().to_string(), "the number of roles is too large: 65, the limit is 64");
        let big = Workflow::new("big", |_: Ctx, _: String| async move { Ok::<(), AnyError>(()) });
        let error = app.start(big, "x".repeat(2 << 20)).await.err().unwrap();
        assert_eq!(error.to_string(), "the input of big is too large: 2097154, the limit is 1048576");
        let unknown = outlast::RunId::new(0, Default::default(), 1);
        assert_eq!(app.status(unknown).await.unwrap_err().code(), "not_found");
        assert_eq!(app.handle(&echo(), unknown).result().await.unwrap_err().outlast().unwrap().code(), "not_found");
        assert_eq!(app.send(unknown, "x", &1).await.unwrap_err().code(), "not_found");
        assert_eq!(app.cancel(unknown, "x").await.unwrap_err().code(), "not_found");
        assert!(app.list(&Filter::default(), None, 10).await.unwrap().runs.is_empty(), "nothing was written");
    }

    async fn two_registrations_of_one_name_and_version_are_refused(lab: Lab) {
        let store = lab.world.store().clone();
        let twice = Outlast::on(store.clone()).workflow(echo()).workflow(echo()).run().await.err().unwrap();
        assert_eq!(twice.to_string(), "\"echo\" version 1 is registered twice: give one of them another name or version");
        let nameless = Workflow::new("", |_: Ctx, n: u32| async move { Ok::<u32, AnyError>(n) });
        assert!(Outlast::on(store.clone()).workflow(nameless).run().await.is_err());
        assert!(Outlast::on(store).workflow(echo()).concurrency(0).run().await.is_err());
    }

    async fn new_runs_take_the_newest_version_and_old_ones_keep_theirs(lab: Lab) {
        fn flow(version: u32) -> Workflow<(), u32, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                ctx.event::<u32>("go").await?;
                Ok(version)
            }).version(version)
        }
        lab.start(|app| app.workflow(flow(1))).await;
        let old = lab.app().start(flow(1), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow(1)).workflow(flow(2))).await;
        let new = lab.app().start_by_name("flow", "null").await.unwrap();
        lab.app().send(old, "go", &1).await.unwrap();
        new.send("go", &1).await.unwrap();
        assert_eq!(lab.app().handle(&flow(1), old).result().await.unwrap(), 1);
        assert_eq!(new.result_json().await.unwrap().get(), "2");
    }

    async fn runs_are_listed_newest_first_by_what_they_are(lab: Lab) {
        lab.start(|app| app.workflow(echo())).await;
        for n in 0..25 {
            let run = lab.app().start(echo(), n).tag("n", n.to_string()).await.unwrap();
            run.result().await.unwrap();
        }
        let filter = Filter { definition: Some("echo".into()), statuses: vec![Status::Completed], ..Filter::default() };
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = lab.app().list(&filter, after, 10).await.unwrap();
            seen.extend(page.runs.iter().map(|run| run.record.id));
            after = page.next;
            if after.is_none() { break; }
        }
        assert_eq!(seen.len(), 25);
        let none = Filter { statuses: vec![Status::Failed], ..Filter::default() };
        assert!(lab.app().list(&none, None, 10).await.unwrap().runs.is_empty());
    }

    async fn purge_deletes_what_ended_long_ago_and_nothing_else(lab: Lab) {
        let waiting = Workflow::new("waiting", |ctx: Ctx, (): ()| async move { ctx.sleep(300.days()).await?; Ok::<(), AnyError>(()) });
        lab.start(|app| app.workflow(echo()).workflow(waiting.clone())).await;
        let old = lab.app().start(echo(), 1).key("k").await.unwrap();
        old.result().await.unwrap();
        let sleeping = lab.app().start(waiting, ()).await.unwrap();
        lab.advance(30.days()).await;
        let fresh = lab.app().start(echo(), 2).await.unwrap();
        fresh.result().await.unwrap();
        assert_eq!(lab.app().purge(7.days()).await.unwrap(), 1);
        assert_eq!(old.status().await.unwrap_err().code(), "not_found");
        assert_eq!(fresh.status().await.unwrap().status, Status::Completed);
        assert_eq!(sleeping.status().await.unwrap().status, Status::Waiting);
        assert!(lab.app().start(echo(), 5).key("k").await.unwrap().created(), "the key is free again");
    }

    async fn calls_whose_reply_got_lost_are_made_again_and_happen_once(lab: Lab) {
        let store = Watched::over(lab.world.store().clone());
        let app = Outlast::on(store.clone()).workflow(echo()).run().await.unwrap();
        let lose = |call| store.lose_replies(call, 3);

        lose("start");
        let runs = app.start_many(echo(), [1, 2, 3]).delay(1.hour()).await.unwrap();
        assert!(runs.iter().all(|run| run.created()));
        lose("begin");
        app.start_many(echo(), [4]).keys(|n| format!("n-{n}")).await.unwrap();
        lose("list");
        assert_eq!(app.list(&Filter::default(), None, 10).await.unwrap().runs.len(), 4, "no run was started twice");
        lose("run");
        assert_eq!(runs[0].status().await.unwrap().status, Status::Ready);
        lose("control");
        assert!(runs[0].cancel("the first try ends it").await.unwrap());
        lose("control");
        assert!(!lab.world.store().ended(&[runs[0].id()]).await.unwrap().is_empty());
        app.purge(Duration::ZERO).await.unwrap();
        assert_eq!(app.status(runs[0].id()).await.unwrap_err().code(), "not_found");
        lose("find");
        let unknown = app.find(Target::key("echo", "none")).await.unwrap_err();
        assert_eq!(unknown.code(), "not_found");
        lose("definitions");
        let named = app.start_by_name("echo", "7").await.unwrap();
        lose("begin");
        app.transaction(async |_| Ok::<(), Error>(())).await.unwrap();
        assert_eq!(named.result_json().await.unwrap().get(), "7");
    }

    async fn any_node_can_wait_for_any_runs_result(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move { Ok::<u32, AnyError>(ctx.event::<u32>("go").await?) });
        lab.start(|app| app.workflow(flow.clone())).await;
        let elsewhere = Outlast::on(lab.world.second_store().await).client();
        let run = elsewhere.start(flow.clone(), ()).await.unwrap();
        let waits = tokio::spawn(async move { run.result().await.map(|n| (n, run.id())) });
        let client = lab.app().client().clone();
        lab.until("it waits", || { let client = client.clone(); async move {
            let filter = Filter { statuses: vec![Status::Waiting], ..Filter::default() };
            !client.list(&filter, None, 1).await.unwrap().runs.is_empty()
        }}).await;
        let filter = Filter::default();
        let id = lab.app().list(&filter, None, 1).await.unwrap().runs[0].record.id;
        elsewhere.send(id, "go", &5).await.unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), (5, id));
    }
}
