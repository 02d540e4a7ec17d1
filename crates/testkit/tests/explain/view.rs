//! What SQL shows of it.

use outlast_core::{WaitOn, Why};
use outlast_store::{QueueChange, Value};
use outlast_testkit::{QUEUE, World, store_test};

use crate::stage::{open, why};

async fn shown(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let rows = world.raw("select kind, text from outlast.explained order by kind").await;
    rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect()
}

#[store_test]
async fn the_view_gives_the_same_kind_of_reason(world: World) {
    let run = world.start("greet").await;
    let same = async || {
        let shown = shown(&world).await;
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].0, why(&world, run.id).await.kind());
        shown[0].1.clone()
    };
    assert_eq!(same().await, "no node is up");
    world.join("other", &["greet@2"]).await;
    assert_eq!(same().await, "no node that is up knows greet@1");
    world.node("here").await;
    assert!(same().await.starts_with("due"));
    world.change_queue(QUEUE, QueueChange::Pause).await;
    assert_eq!(same().await, "queue main is paused");
    world.change_queue(QUEUE, QueueChange::Resume).await;

    let turn = run.claimed_by("here").await;
    assert_eq!(same().await, "node here works on it");
    let entries = vec![open(1, WaitOn::Event, "go"), open(2, WaitOn::Promise, "paid")];
    world.commit(turn.suspend().with(|commit| commit.entries = entries)).await;
    let told = same().await;
    assert!(told.contains("event go") && told.contains("promise paid"), "{told}");
    let until = world.now().await + std::time::Duration::from_secs(60);
    world.send(turn.run, "go", "now").await;
    let turn = run.claimed_by("here").await;
    world.commit(turn.retry(std::time::Duration::from_secs(60), 2)).await;
    assert_eq!(same().await, "its last attempt failed: the next is attempt 2");
    assert!(matches!(why(&world, run.id).await, Why::Retry { at, .. } if at >= until));
    world.start("greet").shard(run.id.shard()).await.claimed_by("here").await;
    let kinds: Vec<String> = shown(&world).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["held", "retry"]);
}
