//! What becomes of a schedule of which somebody changes a part.

use std::time::Duration;

use outlast::{CatchUp, Overlap, Schedule};
use outlast_testkit::{StoreKind, skipped};
use serde_json::{Value, json};

use crate::lab::{Lab, Told, told, with_json};

const WEEKLY: &str = "/api/v1/schedules/weekly";

async fn put(lab: &Lab, secret: &str, body: &str) -> Told {
    told(with_json(lab.request("PUT", WEEKLY), body).bearer_auth(secret)).await
}

/// A schedule that has everything that one can have.
async fn whole(lab: &Lab) {
    let schedule = Schedule::cron("weekly", "0 8 * * MON")
        .zone("Europe/Berlin")
        .overlap(Overlap::Queue)
        .catch_up(CatchUp::All)
        .jitter(Duration::from_micros(30_000_500))
        .queue("mail")
        .group("ann")
        .priority(3)
        .tenant("acme")
        .owner("bob")
        .role("clerk")
        .tag("team", "sales")
        .tag("city", "Bonn");
    lab.app.schedule_by_name(schedule, "greet", r#""you""#).await.unwrap();
}

async fn options(lab: &Lab) -> Value {
    let card = lab.app.schedule_named("weekly").await.unwrap().card;
    serde_json::from_str(&card.options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_sent_stays_when_a_schedule_is_set_again() {
    for kind in [StoreKind::Sqlite, StoreKind::Postgres] {
        if kind == StoreKind::Postgres && skipped() {
            continue;
        }
        let lab = Lab::with(kind, |api| api).await;
        let (operator, acme) = (lab.token("operator", None).await, lab.token("operator", Some("acme")).await);
        whole(&lab).await;
        let before = lab.app.schedule_named("weekly").await.unwrap().card;
        let set = put(&lab, &operator, r#"{"expression":"0 9 * * MON"}"#).await;
        assert_eq!(set.status, 200, "{set:?}");
        let after = lab.app.schedule_named("weekly").await.unwrap().card;
        assert_eq!((after.timetable.as_str(), after.zone.as_str()), ("0 9 * * MON", "Europe/Berlin"));
        assert_eq!(after.options, before.options);
        assert_eq!((after.definition, after.input), (before.definition, before.input));
        let shown = &set.json()["schedule"];
        assert_eq!(shown["tags"], json!({ "city": "Bonn", "team": "sales" }));
        assert_eq!(
            [&shown["group"], &shown["priority"], &shown["tenant"], &shown["queue"]],
            [&json!("ann"), &json!(3), &json!("acme"), &json!("mail")]
        );
        // With nothing at all it is as it was, and keeps its place in time.
        let same = put(&lab, &operator, "{}").await;
        assert_eq!((same.status.as_u16(), same.header("etag")), (200, set.header("etag")));

        // Whoever is bound to its tenant may delete it, and not set it: its name is everybody's.
        assert_eq!(put(&lab, &acme, r#"{"expression":"@daily"}"#).await.code(), "forbidden");
        assert_eq!(put(&lab, &acme, r#"{"tenant":"globex"}"#).await.code(), "forbidden");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_null_is_taken_away_and_a_replaced_schedule_begins_anew() {
    let lab = Lab::guarded().await;
    let operator = lab.token("operator", None).await;
    whole(&lab).await;
    let less = r#"{"queue":null,"group":null,"jitter_ms":null,"priority":5,"tags":{"team":"support"}}"#;
    assert_eq!(put(&lab, &operator, less).await.status, 200);
    let found = options(&lab).await;
    assert_eq!(
        (&found["queue"], &found["group"], &found["jitter_us"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!((&found["priority"], &found["tags"]), (&json!(5), &json!([["team", "support"]])));
    assert_eq!((&found["owner"], &found["roles"]), (&json!("bob"), &json!(["clerk"])));

    // Roles go with what they were given to, with what and for whom.
    for other in [r#"{"definition":"approve"}"#, r#"{"input":"somebody else"}"#, r#"{"tenant":"globex"}"#] {
        whole(&lab).await;
        assert_eq!(options(&lab).await["roles"], json!(["clerk"]));
        assert_eq!(put(&lab, &operator, other).await.status, 200);
        let found = options(&lab).await;
        assert_eq!((&found["roles"], &found["owner"]), (&json!(null), &json!("operator")), "{other}");
    }

    let anew = r#"{"replace":true,"definition":"greet","expression":"@daily","input":"you"}"#;
    assert_eq!(put(&lab, &operator, anew).await.json()["schedule"]["zone"], "UTC");
    assert_eq!(options(&lab).await, json!({ "overlap": "skip", "catch_up": "last", "owner": "operator" }));
    for (wrong, said) in [
        (r#"{"replace":true,"expression":"@daily"}"#, "definition is missing"),
        (r#"{"replace":true,"definition":"greet"}"#, "expression is missing"),
        (r#"{"definition":null}"#, "null"),
        (r#"{"priority":10}"#, "0 (most urgent) to 9"),
    ] {
        let refused = put(&lab, &operator, wrong).await;
        assert_eq!(refused.code(), "invalid_argument", "{wrong}");
        assert!(refused.text.contains(said), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_see_an_input_can_change_the_time_of_its_schedule() {
    let lab = Lab::with(StoreKind::Sqlite, |api| api.redact(["iban"])).await;
    let (operator, admin) = (lab.token("operator", None).await, lab.token("admin", None).await);
    let whole = r#"{"definition":"approve","expression":"@daily","input":{"iban":"hunter2"}}"#;
    assert_eq!(put(&lab, &operator, whole).await.status, 200);
    let set = put(&lab, &operator, r#"{"expression":"@hourly"}"#).await;
    assert_eq!(set.json()["schedule"]["input"]["iban"], "[redacted]", "{set:?}");
    let seen = told(lab.request("GET", WEEKLY).bearer_auth(&admin)).await.json();
    assert_eq!((&seen["expression"], &seen["input"]["iban"]), (&json!("@hourly"), &json!("hunter2")));
}
