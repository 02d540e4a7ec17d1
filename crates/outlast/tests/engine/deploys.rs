//! Deploys: nodes of several builds come and go, and runs meet code and journals that are not of their time.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::Ledger;

/// Waits for an approval: under another name, for runs that began after the patch.
fn approved(patched: bool) -> Workflow<(), String, AnyError> {
    Workflow::new("approved", move |ctx: Ctx, (): ()| async move {
        let event = if patched && ctx.patched("new-name") { "approve2" } else { "approve" };
        ctx.event::<u32>(event).await?;
        Ok(event.to_owned())
    })
}

/// The same workflow before and after a change that its journal does not notice.
mod before {
    use super::*;

    #[outlast::workflow]
    pub async fn transfer(ctx: Ctx, cents: u64) -> Result<u64, AnyError> {
        ctx.step("book", |_| async move { Ok::<u64, AnyError>(cents) }).await?;
        ctx.event::<u64>("go").await?;
        Ok(cents)
    }
}

mod after {
    use super::*;

    #[outlast::workflow]
    pub async fn transfer(ctx: Ctx, cents: u64) -> Result<u64, AnyError> {
        ctx.step("book", |_| async move { Ok::<u64, AnyError>(cents) }).await?;
        ctx.event::<u64>("go").await?;
        Ok(cents + 1)
    }
}

engine_test! {
    async fn a_strict_run_goes_on_only_with_the_code_it_began_with(lab: Lab) {
        let (old, new) = (before::transfer().strict(), after::transfer().strict());
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old.clone(), 7).await.unwrap().id();
        lab.settle().await;

        lab.restart(|app| app.workflow(new.clone())).await;
        lab.app().send(run, "go", &1).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        let reason = view.reason.unwrap_or_default();
        assert_eq!(view.status, Status::Blocked);
        assert!(reason.starts_with("it is strict, and the run began with code (u64, u64, "), "{reason}");
        let memory = async || Outlast::open("sqlite::memory:").await.unwrap();
        let report = memory().await.workflow(new).check(lab.world.url()).await.unwrap();
        assert_eq!(report.misfits()[0].verdict.to_string(), reason, "a check says the same");
        assert!(memory().await.workflow(old.clone()).check(lab.world.url()).await.unwrap().fits());

        lab.restart(|app| app.workflow(old.clone())).await;
        assert_eq!(lab.app().handle(&old, run).result().await.unwrap(), 7);
    }

    async fn a_run_that_is_not_strict_goes_on_with_whatever_fits(lab: Lab) {
        // Also one that was strict when it began.
        lab.start(|app| app.workflow(before::transfer().strict())).await;
        let run = lab.app().start(before::transfer, 7).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(after::transfer)).await;
        lab.app().send(run, "go", &1).await.unwrap();
        assert_eq!(lab.app().handle(&after::transfer, run).result().await.unwrap(), 8);
    }

    async fn a_strict_run_that_starts_over_may_begin_with_new_code(lab: Lab) {
        fn flow(output: fn(u64) -> u64) -> Workflow<u64, u64, AnyError> {
            let flow = Workflow::new("flow", move |ctx: Ctx, n: u64| async move {
                ctx.event::<u64>("go").await?;
                if n == 0 { return ctx.continue_as_new(1).await; }
                Ok(output(n))
            });
            flow.strict()
        }
        fn signed(flow: Workflow<u64, u64, AnyError>, code: &'static str) -> Workflow<u64, u64, AnyError> {
            flow.signed(code)
        }
        let (old, new) = (signed(flow(|n| n), "old"), signed(flow(|n| n + 10), "new"));
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old, 0).await.unwrap().id();
        lab.settle().await;
        lab.app().send(run, "go", &1).await.unwrap();
        lab.settle().await;
        let life = lab.test().journal(run).await.unwrap();
        assert_eq!(life.iter().filter(|entry| *entry.name == *"=signature").count(), 1, "it began anew: {life:?}");
        lab.restart(|app| app.workflow(new.clone())).await;
        lab.settle().await;
        lab.app().send(run, "go", &1).await.unwrap();
        lab.settle().await;
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Blocked, "it had begun with the old code");
    }

    async fn a_run_that_waits_keeps_waiting_for_the_same_when_its_code_is_patched(lab: Lab) {
        lab.start(|app| app.workflow(approved(false))).await;
        let old = lab.app().start(approved(false), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(approved(true))).await;
        let new = lab.app().start(approved(true), ()).await.unwrap().id();
        lab.settle().await;

        lab.app().send(old, "approve", &1).await.unwrap();
        lab.app().send(new, "approve2", &1).await.unwrap();
        lab.settle().await;
        for (run, event) in [(old, "approve"), (new, "approve2")] {
            let status = lab.app().status(run).await.unwrap().status;
            assert_eq!(status, Status::Completed, "with {event}");
            assert_eq!(lab.app().handle(&approved(true), run).result().await.unwrap(), event);
        }
    }

    async fn code_that_forgets_a_child_blocks_the_run_with_that(lab: Lab) {
        let child = Workflow::new("child", |ctx: Ctx, (): ()| async move {
            ctx.event::<u32>("go").await?;
            Ok::<(), AnyError>(())
        });
        let own = child.clone();
        let old = Workflow::new("flow", move |ctx: Ctx, (): ()| {
            let child = own.clone();
            async move {
                ctx.start(child, ()).await?.result().await?;
                Ok::<(), AnyError>(())
            }
        });
        let new = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.event::<u32>("other").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(old.clone()).workflow(child.clone())).await;
        let run = lab.app().start(old, ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(new.clone()).workflow(child)).await;
        lab.app().send(run, "other", &1).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        assert!(view.reason.unwrap().contains("child \"child\" (entry 1)"));
    }

    async fn one_run_with_an_entry_of_another_version_waits_and_the_others_go_on(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, n: u32| async move {
            ctx.step("work", |_| async { Ok::<u32, AnyError>(1) }).await?;
            ctx.event::<u32>("go").await?;
            Ok::<u32, AnyError>(n)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let mut runs = Vec::new();
        for n in 0..4 {
            runs.push(lab.app().start(flow.clone(), n).await.unwrap().id());
        }
        lab.settle().await;
        lab.kill().await;
        let store = lab.world.store().clone();
        let mut tx = store.begin().await.unwrap();
        let journal = if store.name() == "sqlite" { "outlast_journal" } else { "outlast.journal" };
        let id = if store.name() == "sqlite" { "hex(run)" } else { "replace(run::text, '-', '')" };
        let change = format!("update {journal} set kind = 9999 where upper({id}) = $1 and pos = 1");
        let hex = runs[0].uuid().simple().to_string().to_uppercase();
        assert_eq!(tx.execute(&change, &[outlast_store::Value::Text(hex)]).await.unwrap(), 1);
        tx.commit().await.unwrap();

        lab.start(|app| app.workflow(flow.clone())).await;
        for run in &runs {
            lab.app().send(*run, "go", &0).await.unwrap();
        }
        for run in &runs[1..] {
            lab.app().handle(&flow, *run).result().await.unwrap();
        }
        lab.settle().await;
        let view = lab.app().status(runs[0]).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        assert!(view.reason.unwrap().contains("9999"), "the reason names what cannot be read");
    }

    async fn a_run_whose_record_the_database_refuses_is_blocked_and_the_others_go_on(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, name: String| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step(&name, |_| { ledger.note(&name); async { Ok::<(), AnyError>(()) } }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let sqlite = lab.world.store().name() == "sqlite";
        let (forbid, allow) = match sqlite {
            true => (
                "create trigger no_thirteen before insert on outlast_journal when new.name = 'thirteen'
                 begin select raise(abort, 'no thirteen'); end",
                "drop trigger no_thirteen",
            ),
            false => (
                "alter table outlast.journal add constraint no_thirteen check (name <> 'thirteen')",
                "alter table outlast.journal drop constraint no_thirteen",
            ),
        };
        let store = lab.world.store().clone();
        let change = async |sql: &str| {
            let mut tx = store.begin().await.unwrap();
            tx.execute(sql, &[]).await.unwrap();
            tx.commit().await.unwrap();
        };
        change(forbid).await;
        let names = ["twelve", "thirteen", "fourteen"].map(str::to_owned);
        let runs = lab.app().start_many(flow.clone(), names).await.unwrap();
        lab.settle().await;
        for run in [&runs[0], &runs[2]] {
            assert_eq!(run.status().await.unwrap().status, Status::Completed);
        }
        let view = runs[1].status().await.unwrap();
        assert_eq!((view.status, lab.ledger.count("thirteen")), (Status::Blocked, 1));
        let reason = view.reason.unwrap();
        assert!(reason.starts_with("the database refuses what the run recorded") && reason.contains("no_thirteen")
            || sqlite && reason.contains("no thirteen"), "{reason}");

        change(allow).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.app().handle(&flow, runs[1].id()).result().await.unwrap();
    }

    async fn an_older_build_that_joins_does_not_take_new_runs(lab: Lab) {
        let version = |number| {
            Workflow::new("flow", move |_: Ctx, (): ()| async move { Ok::<u32, AnyError>(number) }).version(number)
        };
        lab.start(|app| app.workflow(version(1)).workflow(version(2))).await;
        // SQLite has one owner: there the older build comes alone, and nobody else could run version 2.
        if lab.world.store().name() == "postgres" {
            let store = lab.world.store().clone();
            let old = outlast::testing::start_on(store, |app| app.workflow(version(1))).await.unwrap();
            assert_eq!(lab.app().definition("flow").await.unwrap().version, 2);
            let run = lab.app().start_by_name("flow", "null").await.unwrap();
            assert_eq!(run.result_json().await.unwrap().get(), "2");
            drop(old);
        } else {
            lab.restart(|app| app.workflow(version(1))).await;
            lab.world.sweep().await;
            assert_eq!(lab.app().definition("flow").await.unwrap().version, 1);
        }
    }
}
