//! Lists are walked forwards and backwards, and no run is missed or met twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lab::{Lab, Told};

fn keys(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|run| run["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_walked_to_its_end_and_back_to_its_beginning() {
    let lab = Lab::open().await;
    for n in 0..7 {
        lab.start(&format!(r#"{{"definition":"approve","key":"k-{n}"}}"#)).await;
    }
    for sort in ["newest", "oldest"] {
        let path = format!("/api/v1/runs?limit=3&sort={sort}");
        let turn = async |cursor: &Value| -> Value {
            let cursor = cursor.as_str().expect("there is a page");
            let told: Told = lab.get(&format!("{path}&cursor={cursor}")).await;
            assert_eq!(told.status, 200, "{told:?}");
            told.json()
        };
        let first = lab.get(&path).await.json();
        assert_eq!(first["prev_cursor"], Value::Null);
        let second = turn(&first["next_cursor"]).await;
        let third = turn(&second["next_cursor"]).await;
        assert_eq!((third["next_cursor"].clone(), keys(&third).len()), (Value::Null, 1));
        let all: BTreeSet<String> = [&first, &second, &third].into_iter().flat_map(keys).collect();
        assert_eq!(all.len(), 7, "{all:?}");

        let back = turn(&third["prev_cursor"]).await;
        assert_eq!(keys(&back), keys(&second), "the same page, in the same order");
        let beginning = turn(&back["prev_cursor"]).await;
        assert_eq!((keys(&beginning), &beginning["prev_cursor"]), (keys(&first), &Value::Null));
        assert_eq!(keys(&turn(&beginning["next_cursor"]).await), keys(&second));
        // A place is one in this list, and in this order.
        let other = if sort == "newest" { "oldest" } else { "newest" };
        let cursor = third["prev_cursor"].as_str().unwrap();
        let told = lab.get(&format!("/api/v1/runs?limit=3&sort={other}&cursor={cursor}")).await;
        assert_eq!(told.code(), "invalid_cursor");
    }
}
