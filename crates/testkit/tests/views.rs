//! The views for people: what psql and sqlite3 show.

#![allow(missing_docs, reason = "tests")]

use outlast_store::Value;
use outlast_testkit::{World, store_test};

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    }
}

#[store_test]
async fn views_show_words_and_json_to_people(world: World) {
    let run = world.start("greet").await;
    let rows = world.raw("select definition, status, cast(input as text) from outlast.show_runs").await;
    assert_eq!(rows.len(), 1);
    assert_eq!((text(&rows[0][0]), text(&rows[0][1])), ("greet".to_owned(), "ready".to_owned()));
    assert!(serde_json::from_str::<serde_json::Value>(&text(&rows[0][2])).is_ok());

    let turn = run.claimed_by("node").await;
    world.commit(turn.complete("done")).await;
    let rows =
        world.raw("select status, cast(output as text), cast(began_at as text) from outlast.show_runs").await;
    assert_eq!(text(&rows[0][0]), "completed");
    assert!(text(&rows[0][2]).starts_with("20"), "{:?}", rows[0][2]);
    assert!(text(&rows[0][1]).contains("done"));
    assert!(world.raw("select op, phase, name, at from outlast.show_journal").await.is_empty());
}
