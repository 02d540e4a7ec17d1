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
        (&["queue", "pause", "default"], 0),
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
            "ann queue.pause  200",
            "ann bulk.create all of them 200",
            "ann bulk.create none of them 200",
            "ann token.create  200",
            "ann run.purge  200",
        ]
    );
    let runs: Vec<&str> = lines[..8].iter().map(|(_, target)| target.as_str()).collect();
    assert!(runs[0].starts_with("run_") && runs.iter().all(|run| *run == runs[0]), "{runs:?}");
}
