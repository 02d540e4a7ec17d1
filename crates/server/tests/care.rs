//! Looking after a database: its schema, the doctor, backups, the bench; and what shells and containers ask for.

mod support;

use outlast_testkit::{TestDatabase, skipped};
use serde_json::{Value, json};
use support::{Shop, until};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_schema_is_brought_up_step_by_step_and_says_where_it_stands() {
    let shop = Shop::new();
    let told = shop.run(&["migrate", "status", "-o", "json"]);
    assert_eq!(told.code, 4, "{told:?}");
    let (at, newest) = (json(&told.out)["at"].clone(), json(&told.out)["newest"].as_i64().unwrap());
    assert_eq!(at, 0);
    assert!(told.err.contains("migrate up` brings it up to date"), "{told:?}");
    assert!(!shop.folder().join("outlast.db").exists(), "looking makes nothing");

    let told = json(&shop.ok(&["migrate", "up", "--dry-run", "-o", "json"]));
    assert_eq!((&told["dry_run"], &told["changes"]), (&json!(true), &json!(true)), "{told}");
    assert!(told["sql"].as_str().unwrap().contains("create table"), "{told}");
    let dry = shop.run(&["migrate", "up", "--dry-run"]);
    assert!(
        dry.out.contains("create table outlast_runs") && dry.err.contains("nothing was changed"),
        "{}",
        dry.err
    );
    assert!(!shop.folder().join("outlast.db").exists());
    assert!(shop.ok(&["migrate", "up", "--to", "5"]).contains("went from version 0 to 5"));
    assert_eq!(shop.run(&["migrate", "status", "-o", "name"]).out, "5\n");
    let told = shop.refused(&["list"], 4);
    assert!(told.contains("has schema version 5") && told.contains("migrate up"), "{told}");
    let told = shop.refused(&["serve", "--listen", "127.0.0.1:0"], 4);
    assert!(told.contains("has schema version 5"), "{told}");
    shop.ok(&["migrate", "up"]);
    assert_eq!(shop.run(&["migrate", "up", "-o", "name"]).out, format!("{newest}\n"));
    let status = shop.run(&["migrate", "status"]);
    assert!(status.code == 0 && status.err.contains("is up to date"), "{status:?}");
    assert_eq!(shop.ok(&["list", "-o", "name"]), "");

    assert!(shop.refused(&["migrate", "up", "--to", "900"], 2).contains("there is no file 900"));
    assert!(
        shop.refused(&["migrate", "print", "--from", "5", "--to", "5"], 2).contains("--to and --from differ")
    );
    for file in ["--from", "--to"] {
        let told = shop.refused(&["migrate", "print", file, "9000"], 2);
        assert!(told.contains("there is no file 9000: the last is "), "{told}");
    }
    assert!(shop.refused(&["migrate", "up", "--to", "0"], 2).contains("from 1 to"));
}

#[test]
fn statements_that_are_run_by_hand_leave_a_schema_that_is_ours() {
    let shop = Shop::new();
    let first = shop.ok(&["migrate", "print", "--to", "7"]);
    let rest = shop.ok(&["migrate", "print", "--from", "7"]);
    let connection = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    connection.execute_batch(&first).unwrap();
    connection.execute_batch(&rest).unwrap();
    drop(connection);
    assert_eq!(shop.run(&["migrate", "status"]).code, 0);
    assert_eq!(shop.ok(&["list", "-o", "name"]), "");
}

#[test]
fn a_schema_goes_back_as_long_as_nothing_is_lost() {
    goes_back(&Shop::new(), "outlast_");
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::create("empty", async |_| Ok(()))).unwrap();
    goes_back(&Shop::at(database.url()), "outlast.");
}

fn goes_back(shop: &Shop, prefix: &str) {
    let down = |to: &str, more: &[&str]| shop.run(&[&["migrate", "down", "--to", to], more].concat());
    shop.ok(&["migrate", "up", "--to", "25"]);
    let dry = down("20", &["--dry-run"]);
    assert!(dry.code == 0 && dry.err.contains("5 files to take away; nothing was changed"), "{dry:?}");
    assert!(dry.out.contains(&format!("alter table {prefix}queues drop column loose;")), "{}", dry.out);
    assert_eq!(dry.out, shop.ok(&["migrate", "print", "--from", "25", "--to", "20"]));
    assert!(dry.out.contains(&format!("by: select 1 from {prefix}lost limit 1;")), "{}", dry.out);

    assert!(down("17", &[]).out.contains("went from version 25 to 17"));
    assert_eq!(shop.run(&["migrate", "status", "-o", "name"]).out, "17\n");
    assert!(down("17", &[]).out.contains("was at version 17 already"));
    let told = shop.refused(&["migrate", "down", "--to", "16"], 4);
    assert!(told.contains("cannot go back behind file 17 (paused_and_orphans)"), "{told}");
    let told = shop.refused(&["migrate", "down", "--to", "18"], 2);
    assert!(told.contains("is at version 17: `migrate up` leads to 18"), "{told}");

    shop.ok(&["migrate", "up", "--to", "22"]);
    assert!(shop.refused(&["list"], 4).contains("has schema version 22"));
    // A token is a row that no older schema has a place for, and so is what was noted about it.
    shop.ok(&["migrate", "up"]);
    shop.ok(&["token", "create", "ann"]);
    let told = shop.refused(&["migrate", "down", "--to", "17"], 4);
    assert!(
        told.contains("without file 25 (audit_chain) the chain of the audit log would be lost"),
        "{told}"
    );
    assert_eq!(shop.run(&["migrate", "status"]).code, 0, "nothing was changed");

    let dev = shop.dev();
    let told = shop.refused(&["migrate", "down", "--to", "22"], 4);
    assert!(told.contains("a node is up: stop all programs that use it first"), "{told}");
    dev.signal("TERM");
    dev.end();
    let told = shop.refused(&["migrate", "down", "--to", "22"], 4);
    assert!(told.contains("the chain of the audit log would be lost"), "{told}");
    assert!(shop.ok(&["token", "list"]).contains("ann"));
    // Without its queues nobody could say what a token opens.
    shop.ok(&["token", "create", "bob", "--queue", "mail"]);
    let told = shop.refused(&["migrate", "down", "--to", "26"], 4);
    assert!(
        told.contains("without file 27 (queues_of_tokens) to which queues tokens are bound would be lost"),
        "{told}"
    );
}

#[test]
fn a_postgres_is_migrated_and_looked_at() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Copied from one with nothing in it.
    let database = runtime.block_on(TestDatabase::create("empty", async |_| Ok(()))).unwrap();
    let execute = |sql: &str| {
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        });
    };
    let shop = Shop::at(database.url());
    assert_eq!(shop.run(&["migrate", "status"]).code, 4);
    let printed = shop.ok(&["migrate", "print"]);
    assert!(
        printed.contains("create schema if not exists outlast;") && printed.contains("bigint"),
        "{printed}"
    );
    execute(&printed);
    assert_eq!(shop.run(&["migrate", "status"]).code, 0);
    let told = shop.run(&["doctor", "-o", "json"]);
    assert_eq!(told.code, 0, "{told:?}");
    let checks = json(&told.out);
    let light = |name: &str| {
        let found = checks["items"].as_array().unwrap().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {checks}"))["status"].clone()
    };
    for name in [
        "database",
        "schema",
        "privileges",
        "notifications",
        "pooler",
        "connections",
        "clock",
        "leases",
        "queues",
        "time_zones",
        "schedules",
    ] {
        assert_eq!(light(name), "ok", "{name}: {checks}");
    }
    assert_eq!(light("nodes"), "warn");
    // A table that is not cleaned up, and a role that may not.
    execute("alter table outlast.agenda set (autovacuum_enabled = false)");
    let told = shop.run(&["doctor", "--only", "vacuum,nodes"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.contains("✗ vacuum         outlast.agenda is not cleaned up"), "{told:?}");
    assert!(told.out.contains("→ alter table outlast.agenda reset (autovacuum_enabled)"), "{told:?}");
    assert!(told.err.contains("1 check failed, and 1 could go wrong (unhealthy)"), "{told:?}");
    let told = shop.refused(&["backup", "copy.db"], 2);
    assert!(told.contains("pg_dump"), "{told}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let shop = Shop::new();
    let told = shop.run(&["doctor"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.contains("✗ schema") && told.out.contains("migrate up"), "{told:?}");
    let dev = shop.dev_with(&["--port", "0"]);
    let told = shop.run(&["doctor", "-o", "json"]);
    assert_eq!(told.code, 0, "{told:?}");
    for check in json(&told.out)["items"].as_array().unwrap() {
        assert_eq!(check["status"], "ok", "{check}");
    }
    // A server says the same of its database.
    let url = until("dev says where it is", || {
        let told = dev.told();
        let line = told.lines().find(|line| line.contains("The HTTP API is at"))?;
        Some(line.split_whitespace().last()?.to_owned())
    });
    let remote = shop.ok(&["doctor", "--url", &url, "-o", "name"]);
    assert_eq!(remote, shop.ok(&["doctor", "-o", "name"]));
    shop.ok(&["healthcheck", "--url", &url]);
    shop.ok(&["healthcheck", "--ready", "--url", &url]);
    dev.kill();
    let told = shop.refused(&["healthcheck", "--url", &url], 6);
    assert!(told.contains("cannot be reached"), "{told}");
    let told = shop.refused(&["doctor", "--only", "hart"], 2);
    assert!(told.contains("there is no check \"hart\": there are database, schema"), "{told}");
    // Not ours at all.
    std::fs::write(
        shop.folder().join("junk.db"),
        "this is no database, and it is long enough to be looked at",
    )
    .unwrap();
    let told = shop.run(&["doctor", "--database-url", "sqlite://junk.db"]);
    assert!(told.code == 1 && told.out.contains("✗ database"), "{told:?}");
    let told = shop.run(&["doctor", "--database-url", "postgres://nobody@127.0.0.1:1/none"]);
    assert!(told.code == 1 && told.out.contains("✗ database"), "{told:?}");
}

#[test]
fn a_backup_is_made_while_the_database_is_in_use_and_can_be_opened() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    let told = shop.ok(&["backup", "copy.db"]);
    assert!(told.starts_with("copy.db is a copy of ") && told.contains("outlast.db ("), "{told}");
    let of_copy = ["--database-url", "sqlite://copy.db"];
    let shown = shop.ok(&[&["show", "order/order-1"], &of_copy[..]].concat());
    assert!(shown.contains("waiting for event approval"), "{shown}");
    assert_eq!(shop.run(&[&["doctor", "--only", "integrity,schema"], &of_copy[..]].concat()).code, 0);
    let told = shop.refused(&["backup", "copy.db"], 2);
    assert!(told.contains("exists already"), "{told}");
    let told = shop.refused(&["backup", "no/such/folder.db"], 2);
    assert!(told.contains("the folder no/such of no/such/folder.db does not exist"), "{told}");
    let told = shop.refused(&["backup", "x.db", "--database-url", "sqlite://none.db"], 3);
    assert!(told.contains("there is no database"), "{told}");
}

#[test]
fn the_bench_measures_and_leaves_a_database_in_use_alone() {
    let shop = Shop::new();
    let told = shop.ok(&["bench", "--jobs", "50", "--concurrency", "8", "--payload", "1k", "-o", "json"]);
    let told = json(&told);
    assert_eq!(
        (&told["runs"], &told["concurrency"], &told["payload_bytes"]),
        (&50.into(), &8.into(), &1024.into())
    );
    for kind in ["enqueue", "pickup", "end_to_end"] {
        let spans = &told[kind];
        let at = |name: &str| spans[name].as_f64().unwrap();
        assert!(
            at("p50_ms") > 0.0 && at("p50_ms") <= at("p99_ms") && at("p99_ms") <= at("max_ms") * 1.01,
            "{told}"
        );
    }
    let refused = shop.refused(&["bench", "--jobs", "1"], 4);
    assert!(refused.contains("has runs") && refused.contains("--force"), "{refused}");
    let text = shop.ok(&["bench", "--duration", "300ms", "--workflow", "steps=2", "--force"]);
    assert!(text.contains("runs/s") && text.contains("end to end"), "{text}");
}

#[test]
fn shells_and_manuals_get_what_they_need() {
    let shop = Shop::new();
    for (shell, part) in
        [("bash", "complete -F"), ("zsh", "#compdef outlast"), ("fish", "complete -c outlast")]
    {
        let script = shop.ok(&["completions", shell]);
        assert!(script.contains(part), "{shell}: {script}");
    }
    assert!(shop.refused(&["completions", "cmd.exe"], 2).contains("possible values"));
    assert!(shop.ok(&["man"]).contains(".TH outlast"));
    shop.ok(&["man", "--out", "pages"]);
    for page in ["outlast.1", "outlast-start.1", "outlast-queue-pause.1"] {
        assert!(shop.folder().join("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn the_bench_of_the_store_measures_it_without_an_engine() {
    of_store(&Shop::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = TestDatabase::create("empty", async |_| Ok(()));
    if !skipped() {
        let database = runtime.block_on(database).unwrap();
        of_store(&Shop::at(database.url()));
    }
}

fn of_store(shop: &Shop) {
    let bench = ["bench", "--store", "--jobs", "230", "--concurrency", "4", "--payload", "1k"];
    let told = json(&shop.ok(&[&bench[..], &["-o", "json"]].concat()));
    assert_eq!((&told["runs"], &told["store"], &told["batch"]), (&json!(230), &json!(true), &json!(50)));
    assert!(told["runs_per_second"].as_f64().unwrap() > 0.0, "{told}");
    for span in ["enqueue", "claim", "finish"] {
        let of = |name: &str| told[span][name].as_f64().unwrap();
        assert!(0.0 < of("p50_ms") && of("p50_ms") <= of("p95_ms"), "{told}");
        assert!(of("p95_ms") <= of("p99_ms") && of("p99_ms") <= of("max_ms"), "{told}");
    }
    assert!(told["pickup"].is_null() && told["steps"].is_null(), "{told}");
    // All of them went through the store, and nobody holds anything afterwards.
    let ended = shop.ok(&["list", "def:outlast_bench_store", "status:completed", "-n", "500", "-o", "name"]);
    assert_eq!(ended.lines().count(), 230);
    assert!(shop.ok(&["list", "nodes", "-o", "name"]).is_empty());
    let refused = shop.refused(&["bench", "--store", "--jobs", "1"], 4);
    assert!(refused.contains("has runs, which this would hold up"), "{refused}");
    let text = shop.run(&["bench", "--store", "--duration", "200ms", "--force"]);
    assert!(
        text.out.contains("runs/s") && text.out.contains("claim") && text.out.contains("finish"),
        "{text:?}"
    );
    assert!(text.err.contains("a call of the store for up to 50 runs"), "{text:?}");
    let refused = shop.refused(&["bench", "--store", "--workflow", "steps=2"], 2);
    assert!(refused.contains("cannot be used with"), "{refused}");
}
