//! A backup that was taken while the server worked, restored as docs/operate.md says: what was there is there, and goes on.

mod support;

use std::fs;
use std::process::Command;

use support::{Shop, until};

/// Starts something that waits, and something that has ended.
fn before(shop: &Shop) -> (String, String) {
    let dev = shop.dev_with(&["--port", "0"]);
    let start = |input: &str, key: &str| {
        shop.ok(&["start", "order", "--input", input, "--key", key, "-o", "name"]).trim().to_owned()
    };
    let done = start(r#"{"item":"pen","cents":100}"#, "small");
    let waits = start(r#"{"item":"kayak","cents":55000}"#, "large");
    shop.until_status(&done, "completed");
    shop.until_asking(&waits);
    drop(dev);
    (done, waits)
}

/// What was saved is whole, and what waited goes on.
fn after(shop: &Shop, done: &str, waits: &str) {
    // Every unfinished run has something that wakes it.
    shop.ok(&["verify"]);
    assert_eq!(shop.show(done)["status"], "completed");
    let dev = shop.dev_with(&["--port", "0", "--no-samples"]);
    drop(dev);
    let dev = shop.dev_with(&["--port", "0"]);
    shop.ok(&["send", waits, "approval", "--data", r#"{"by":"you","ok":true}"#]);
    until("the order goes on", || (shop.show(waits)["status"] == "completed").then_some(()));
    drop(dev);
}

#[test]
fn a_copy_of_a_file_in_use_is_a_whole_database() {
    let shop = Shop::new();
    let (done, waits) = before(&shop);
    let dev = shop.dev_with(&["--port", "0"]);
    let copy = shop.folder().join("copy.db");
    let file = shop.folder().join("outlast.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.execute("vacuum into ?1", [copy.to_str().unwrap()]).unwrap();
    drop(database);
    dev.kill();

    let other = Shop::new();
    fs::rename(copy, other.folder().join("outlast.db")).unwrap();
    after(&other, &done, &waits);
}

#[test]
fn a_dump_of_a_schema_in_use_is_a_whole_database() {
    if outlast_testkit::skipped() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let create = || outlast_testkit::TestDatabase::create("empty", async |_| Ok(()));
    let (from, to) = (runtime.block_on(create()).unwrap(), runtime.block_on(create()).unwrap());
    let shop = Shop::at(from.url());
    let (done, waits) = before(&shop);
    let dev = shop.dev_with(&["--port", "0"]);
    let dump = shop.folder().join("outlast.dump");
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("pg_dump", &["--format=custom", "--schema=outlast", "--file", dump.to_str().unwrap(), from.url()]);
    dev.kill();
    run("pg_restore", &["--dbname", to.url(), dump.to_str().unwrap()]);
    after(&Shop::at(to.url()), &done, &waits);
}
