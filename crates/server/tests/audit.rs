//! What commands change in a database themselves is in the audit log, as what a server is asked for is.

mod support;

use support::Shop;

#[test]
fn changes_that_commands_make_have_their_lines_with_who_and_why() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    dev.signal("TERM");
    dev.end();
    let file = || rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    file().execute("delete from outlast_audit", []).unwrap();
    let as_ann =
        |args: &[&str]| shop.command(args).env("USER", "ann").output().unwrap().status.code().unwrap();
    let key = "ship/later";
    for (args, code) in [
        (&["start", "ship", "--key", "later", "--delay", "1h", "--input", "\"tea\""][..], 0),
        (&["pause", key, "--reason", "not now"], 0),
        (&["resume", key, "--reason", "now"], 0),
        (&["due", key, "--at", "2099-01-01T00:00:00Z", "--reason", "no hurry"], 0),
        (&["cancel", key, "--reason", "too late"], 0),
        (&["send", key, "hello"], 4),
        (&["retry", key, "--reason", "after all"], 0),
        (&["kill", key, "--reason", "enough"], 0),
        (&["delete", key, "--reason", "wrong one"], 0),
        (&["queue", "pause", "default", "--reason", "no room"], 0),
        (&["queue", "resume", "default"], 0),
        (&["schedule", "add", "early", "0 3 * * *", "ship", "--input", "\"tea\""], 0),
        (&["schedule", "pause", "early", "--reason", "too early"], 0),
        (
            &[
                "retry",
                "--filter",
                "def:ship status:cancelled",
                "--reason",
                "all of them",
                "--yes",
                "--no-wait",
            ],
            0,
        ),
        (&["cancel", "--filter", "def:ship", "--reason", "none of them", "--yes", "--no-wait"], 0),
        (&["token", "create", "bob"], 0),
        (&["token", "revoke", "tok_00000000000000000000000000000000"], 3),
        (&["purge", "--older-than", "30d"], 0),
        // Whoever looks changes nothing.
        (&["list"], 0),
        (&["cancel", "--all", "--dry-run"], 0),
    ] {
        assert_eq!(as_ann(args), code, "{args:?}");
    }
    let file = file();
    let mut lines = file
        .prepare(
            "select actor, action, coalesce(reason, ''), status, target from outlast_audit order by at, id",
        )
        .unwrap();
    let lines = lines.query_map([], |row| {
        let (actor, action, reason): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((format!("{actor} {action} {reason} {}", row.get::<_, u16>(3)?), row.get::<_, String>(4)?))
    });
    let lines: Vec<(String, String)> = lines.unwrap().map(Result::unwrap).collect();
    let told: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(
        told,
        [
            "ann run.start  200",
            "ann run.pause not now 200",
            "ann run.resume now 200",
            "ann run.due no hurry 200",
            "ann run.cancel too late 200",
            "ann run.send  409",
            "ann run.retry after all 200",
            "ann run.kill enough 200",
            "ann run.delete wrong one 200",
            "ann queue.pause no room 200",
            "ann queue.resume  200",
            "ann schedule.set  200",
            "ann schedule.pause too early 200",
            "ann bulk.create all of them 200",
            "ann bulk.create none of them 200",
            "ann token.create  200",
            "ann token.revoke  404",
            "ann run.purge  200",
        ]
    );
    let runs: Vec<&str> = lines[..8].iter().map(|(_, target)| target.as_str()).collect();
    assert!(runs[0].starts_with("run_") && runs.iter().all(|run| *run == runs[0]), "{runs:?}");
}

/// Whether `audit verify` finds something in a database that `change` can be done to, on it and through a server.
fn lines_that_were_changed_by_hand_are_named(shop: &Shop, change: impl Fn(&str)) {
    let dev = shop.dev_with(&["--port", "0"]);
    let url = support::until("dev says where it is", || {
        let told = dev.told();
        told.split_whitespace()
            .find(|word| word.starts_with("http://"))
            .map(|url| url.trim_end_matches('/').to_owned())
    });
    let url = url.trim_end_matches("/ui").to_owned();
    for name in ["one", "two", "three"] {
        shop.ok(&["schedule", "add", name, "0 3 * * *", "ship", "--input", "\"tea\""]);
    }
    let ways: [&[&str]; 2] = [&[], &["--url", &url]];
    let with = |way: &[&str], args: &[&str]| shop.run(&[args, way].concat());
    for (name, way) in ["one", "two", "three"].into_iter().zip([ways[0], ways[1], ways[0]]) {
        shop.ok(&[&["schedule", "pause", name, "--reason", "for now"], way].concat());
    }
    let end = shop.ok(&["audit", "verify", "-o", "name"]).trim().to_owned();
    for way in ways {
        let listed = with(way, &["audit", "list", "two", "-o", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        let actions: Vec<&str> =
            listed["items"].as_array().unwrap().iter().map(|line| line["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["schedule.pause", "schedule.set"], "{way:?}");
        assert_eq!(listed["items"][0]["after"]["paused"], true);
        assert_eq!(listed["items"][0]["reason"], "for now", "{way:?}");
        let text = with(way, &["audit", "list"]);
        assert!(text.out.contains("ACTION") && text.out.contains("schedule.pause"), "{text:?}");
        let fine = with(way, &["audit", "verify", "--known", &end]);
        assert!(fine.code == 0 && fine.out.contains("follow from each other"), "{way:?}: {fine:?}");
        assert_eq!(with(way, &["audit", "verify", "--known", "7"]).code, 2);
    }
    change("update {audit} set target = 'four' where target = 'two' and action = 'schedule.pause'");
    for way in ways {
        let found = with(way, &["audit", "verify"]);
        assert_eq!(found.code, 4, "{found:?}");
        assert!(found.out.contains("(schedule.pause of \"four\" by "), "{found:?}");
    }
    change("delete from {audit} where target = 'four'");
    let found = shop.run(&["audit", "verify", "-o", "json"]);
    let told: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!((found.code, &told["broken"]), (4, &1.into()), "{told}");
    assert!(told["breaks"][0]["what"].as_str().unwrap().contains("is missing"), "{told}");
    drop(dev);
}

#[test]
fn whoever_changes_a_line_by_hand_is_found_out() {
    let shop = Shop::new();
    lines_that_were_changed_by_hand_are_named(&shop, |sql| {
        let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
        file.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert!(file.execute(&sql.replace("{audit}", "outlast_audit"), []).unwrap() > 0);
    });
}

#[test]
fn on_postgres_too_whoever_changes_a_line_by_hand_is_found_out() {
    if outlast_testkit::skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(outlast_testkit::World::open(outlast_testkit::StoreKind::Postgres, 1));
    let shop = Shop::at(world.url());
    lines_that_were_changed_by_hand_are_named(&shop, |sql| {
        runtime.block_on(world.raw(&sql.replace("{audit}", "outlast.audit")));
    });
}
