//! Why runs are not progressing, as the engine leaves them.

use outlast::prelude::*;
use outlast::{WaitOn, Why};

use crate::engine_test;
use crate::harness::Lab;

/// What the run waits for.
async fn waits(lab: &Lab, run: RunId) -> Vec<(WaitOn, String)> {
    match lab.app().explain(run).await.unwrap().why {
        Why::Waiting { waits, .. } => waits.into_iter().map(|wait| (wait.on, wait.name)).collect(),
        other => panic!("it waits, and says {other:?}"),
    }
}

async fn nothing_is_lacking(lab: &Lab) {
    let verified = lab.app().verify().await.unwrap();
    assert_eq!((verified.lacking, verified.without), (0, Vec::new()));
}

engine_test! {
    async fn what_a_run_waits_for_is_told_by_its_own_name(lab: Lab) {
        let flow = Workflow::new("asks", |ctx: Ctx, (): ()| async move {
            let (bill, legal) = (ctx.scope("bill"), ctx.scope("legal"));
            bill.event::<()>("order/paid").await?;
            let (_, _): ((), ()) = tokio::try_join!(bill.event("approval"), legal.event("approval"))?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        let event = |name: &str| (WaitOn::Event, name.to_owned());
        assert_eq!(waits(&lab, run.id()).await, [event("order/paid")]);
        run.send("order/paid", &()).await.unwrap();
        lab.settle().await;
        assert_eq!(waits(&lab, run.id()).await, [event("approval"), event("approval")]);
        lab.restart(|app| app.workflow(flow.clone())).await;
        run.send("approval", &()).await.unwrap();
        lab.settle().await;
        assert_eq!(waits(&lab, run.id()).await.len(), 1);
        nothing_is_lacking(&lab).await;
        run.send("approval", &()).await.unwrap();
        lab.settle().await;
        assert!(matches!(lab.app().explain(run.id()).await.unwrap().why, Why::Ended { .. }));
    }

    async fn a_run_that_waits_for_the_request_to_stop_says_so_once(lab: Lab) {
        let flow = Workflow::new("stays", |ctx: Ctx, (): ()| async move {
            let reason = ctx.cancelled().await;
            ctx.event::<()>("cleaned").await?;
            Ok::<String, AnyError>(reason)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        let stop = [(WaitOn::Stop, "stop".to_owned())];
        assert_eq!(waits(&lab, run.id()).await, stop);
        for _ in 0..3 {
            run.send("nobody waits for this", &1).await.unwrap();
            lab.settle().await;
            lab.restart(|app| app.workflow(flow.clone())).await;
            lab.settle().await;
        }
        assert_eq!(waits(&lab, run.id()).await, stop);
        assert_eq!(lab.app().journal(run.id(), 0, 100).await.unwrap().len(), 1, "it was recorded once");
        nothing_is_lacking(&lab).await;

        run.cancel("enough").await.unwrap();
        lab.settle().await;
        assert_eq!(waits(&lab, run.id()).await, [(WaitOn::Event, "cleaned".to_owned())]);
        run.send("cleaned", &()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
    }

    async fn runs_that_wait_for_children_name_them_with_and_without_a_key(lab: Lab) {
        let ship = Workflow::new("ship", |ctx: Ctx, (): ()| async move {
            ctx.event::<()>("go").await?;
            Ok::<(), AnyError>(())
        });
        let (child, shared) = (ship.clone(), ship.clone());
        let alone = Workflow::new("alone", move |ctx: Ctx, (): ()| {
            let child = child.clone();
            async move { ctx.start(child, ()).await?.result().await.map_err(AnyError::from) }
        });
        let shares = Workflow::new("shares", move |ctx: Ctx, (): ()| {
            let shared = shared.clone();
            async move { ctx.start(shared, ()).key("one").await?.result().await.map_err(AnyError::from) }
        });
        let (ship_too, alone_too, shares_too) = (ship.clone(), alone.clone(), shares.clone());
        lab.start(move |app| app.workflow(ship_too).workflow(alone_too).workflow(shares_too)).await;
        let parents = [
            lab.app().start(alone, ()).await.unwrap().id(),
            lab.app().start(shares.clone(), ()).await.unwrap().id(),
            lab.app().start(shares, ()).await.unwrap().id(),
        ];
        lab.settle().await;
        for parent in parents {
            let told = lab.app().explain(parent).await.unwrap().why;
            let Why::Waiting { waits, .. } = told else { panic!("it waits, and says {told:?}") };
            assert_eq!((waits.len(), waits[0].on), (1, WaitOn::Child), "{waits:?}");
            let child = waits[0].run.unwrap();
            assert!(matches!(lab.app().explain(child).await.unwrap().why, Why::Waiting { .. }));
        }
        nothing_is_lacking(&lab).await;
    }
}
