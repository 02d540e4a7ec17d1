//! Watching one run: to its end, its logs, parts of it, and as a file; and readers that leave early.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use support::{Dev, Shop, until};

const TENT: &str = r#"{"item":"tent","cents":900}"#;

#[test]
fn a_run_is_followed_to_its_end_step_by_step() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    let told = shop.ok(&["start", "order", "--input", TENT, "--key", "t", "--follow"]);
    let places: Vec<usize> =
        ["✓ reserve took", "✓ charge took", "… sleeping until", "✓ slept", "✓ ship ended", "■ completed in"]
            .iter()
            .map(|part| told.find(part).unwrap_or_else(|| panic!("{part} is missing:\n{told}")))
            .collect();
    assert!(places.is_sorted(), "{told}");
    assert!(told.contains("reserved item=\"tent\"") && !told.contains('\x1b'), "{told}");
    // What has ended is told as it was.
    assert!(shop.ok(&["follow", "order/t"]).contains("■ completed in"));
    let lines = shop.ok(&["follow", "order/t", "-o", "jsonl"]);
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");

    let failed = shop.run(&["start", "pay_invoice", "--input", "\"invoice 3\"", "--follow"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.out.contains("■ failed after") && failed.err.ends_with("is failed (failed)\n"),
        "{failed:?}"
    );
    let told = shop.run(&["follow", "heartbeat/shop", "--timeout", "300ms"]);
    assert_eq!(told.code, 7, "{told:?}");
    assert!(told.err.contains("has not ended after 300 ms: it goes on"), "{told:?}");
    assert!(shop.refused(&["follow", "order/t", "-o", "json"], 2).contains("jsonl"));
}

#[test]
fn logs_go_on_until_the_run_ends_and_can_be_narrowed() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    let logs = shop.spawned(&["logs", "order/order-1", "--follow"]);
    logs.until_told("charged cents=");
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    let (code, told, _) = logs.end();
    assert_eq!(code, Some(0));
    assert!(told.contains("ann approved it"), "{told}");
    assert_eq!(shop.ok(&["logs", "order/order-1"]), told);
    assert_eq!(shop.ok(&["logs", "order/order-1", "--level", "error"]), "");
    assert_eq!(shop.ok(&["logs", "order/order-1", "--since", "2027-01-01T00:00:00Z", "-o", "jsonl"]), "");
    assert!(shop.ok(&["logs", "order/order-1", "--since", "1h"]).contains("approved"));
    // Those of one step, by its name or its number.
    let of_charge = shop.ok(&["logs", "order/order-1", "--step", "charge"]);
    assert!(of_charge.contains("charged cents=") && of_charge.lines().count() == 1, "{of_charge}");
    assert_eq!(shop.ok(&["logs", "order/order-1", "--step", "2", "--follow"]), of_charge);
    let told = shop.refused(&["logs", "order/order-1", "--step", "chrage"], 3);
    assert!(told.contains("has no step \"chrage\": it has reserve, charge"), "{told}");
    assert!(
        shop.refused(&["logs", "order/order-1", "--since", "soon"], 2)
            .contains("--since: a duration looks like")
    );
}

#[test]
fn whoever_waits_for_a_run_outlasts_the_server() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let url = api_of(&dev);
    shop.until_asking("order/order-1");
    let waits = [
        shop.spawned(&["follow", "order/order-1", "--url", &url]),
        shop.spawned(&["logs", "--follow", "order/order-1", "--url", &url]),
    ];
    waits[0].until_told("charge took");
    waits[1].until_told("charged cents=");
    dev.kill();
    for wait in &waits {
        until("it says that nobody answers", || {
            wait.noted().contains("asking again for a minute").then_some(())
        });
    }
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    let _dev = shop.dev_with(&["--port", port]);
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    for wait in waits {
        let (code, told, err) = wait.end();
        assert_eq!(code, Some(0), "{told}{err}");
    }
}

#[test]
fn parts_of_a_run_are_shown_as_they_are() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    let input = r#"{"item":"tent","cents":900,"more":12345678901234567890123}"#;
    shop.ok(&["start", "order", "--input", input, "--key", "t", "--wait"]);
    assert_eq!(shop.ok(&["show", "order/t", "--input"]), format!("{input}\n"));
    assert!(shop.ok(&["show", "order/t", "--result"]).starts_with("\"tent is on its way"));
    let step = shop.ok(&["show", "order/t", "--step", "charge"]);
    assert!(step.contains("charge  step") && step.contains("result") && step.contains("receipt"), "{step}");
    assert_eq!(shop.ok(&["show", "order/t", "--step", "2"]), step);
    assert!(
        shop.ok(&["show", "order/t", "--step", "charge", "-o", "json"]).contains("\"state\": \"completed\"")
    );
    let told = shop.refused(&["show", "order/t", "--step", "chrage"], 3);
    assert!(told.contains("has no step \"chrage\": it has reserve, charge"), "{told}");
    assert!(shop.refused(&["show", "heartbeat/shop", "--result"], 3).contains("has no output"));

    // As a file, where no database is.
    std::fs::write(shop.folder().join("run.json"), shop.ok(&["export", "order/t"])).unwrap();
    let elsewhere = Shop::new();
    let file = shop.folder().join("run.json");
    let file = file.to_str().unwrap();
    let shown = elsewhere.ok(&["show", "--file", file]);
    assert!(
        shown.contains("order/t") && shown.contains("✓ charge") && shown.contains("✓ child ship"),
        "{shown}"
    );
    assert_eq!(elsewhere.ok(&["show", "--file", file, "--input"]), format!("{input}\n"));
    let result = elsewhere.ok(&["show", "--file", file, "--result"]);
    assert_eq!(result, shop.ok(&["show", "order/t", "--result"]));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/order.json");
    assert!(
        elsewhere.refused(&["show", "--file", golden, "--result"], 3).contains("does not have its output")
    );
    assert!(elsewhere.refused(&["show", "--file", "none.json"], 2).contains("cannot read none.json"));
    std::fs::write(elsewhere.folder().join("junk.json"), "{}").unwrap();
    elsewhere.refused(&["show", "--file", "junk.json"], 2);
    assert!(elsewhere.refused(&["show"], 2).contains("ID"));
}

#[test]
fn a_reader_that_leaves_early_breaks_nothing() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_status("stocktaking/stock-1", "completed");
    for args in [
        &["list", "-o", "jsonl"][..],
        &["list"],
        &["show", "stocktaking/stock-1"],
        &["export", "stocktaking/stock-1"],
        &["follow", "stocktaking/stock-1"],
        &["completions", "bash"],
        &["migrate", "print"],
        &["doctor"],
        &["openapi"],
    ] {
        let mut child = shop.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is gone before anything was written.
        drop(child.stdout.take());
        let mut err = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        while lines.read_line(&mut err).unwrap() > 0 {}
        let status = until("it ends", || child.try_wait().unwrap());
        assert!(status.code() == Some(0) && !err.contains("panicked"), "{args:?}: {status} {err}");
    }
}

#[test]
fn times_and_quiet_and_formats_are_as_asked() {
    let shop = Shop::new();
    let _dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    let started = |time: &str| {
        let page = shop.ok(&["show", "order/order-1", "--time", time]);
        page.lines().find(|line| line.contains("started")).unwrap().to_owned()
    };
    assert!(started("relative").contains("ago") || started("relative").contains("just now"));
    assert!(started("rfc3339").contains('T') && started("rfc3339").contains("Z ("), "{}", started("rfc3339"));
    assert!(started("utc").contains("20") && !started("utc").contains("ago"));
    let quiet = shop.run(&["start", "order", "--input", TENT, "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    let loud = shop.run(&["start", "order", "--input", TENT]);
    assert!(loud.err.contains("look at it with"), "{loud:?}");
    let refused = shop.run(&["show", "order/none", "-q"]);
    assert!(refused.code == 3 && refused.err.starts_with("error: "), "{refused:?}");
    let yaml = shop.ok(&["show", "order/order-1", "-o", "yaml"]);
    assert!(yaml.contains("definition: order\n") && yaml.contains("journal:\n  - pos: 1\n"), "{yaml}");
}

/// What becomes of streams on the way.
#[derive(Clone, Copy, PartialEq)]
enum Streams {
    Through,
    Refused,
    /// The first ends at once.
    CutOnce,
}

/// Something on the way to a server that notes what is asked for, and may let no streams through.
struct Between {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Between {
    fn new(dev: &Dev, streams: Streams) -> Between {
        let server = api_of(dev).trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, noted) = (TcpStream::connect(&server).unwrap(), noted.clone());
                thread::spawn(move || carry(client, server, streams, &noted));
            }
        });
        Between { url, asked }
    }

    fn count(&self, what: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }
}

/// Where the API of a server is.
fn api_of(dev: &Dev) -> String {
    let told = dev.told();
    let (_, rest) = told.split_once("The HTTP API is at ").unwrap();
    rest.split("/api/v1").next().unwrap().to_owned()
}

/// Carries requests without bodies one way, and everything the other way.
fn carry(client: TcpStream, mut server: TcpStream, streams: Streams, noted: &Mutex<Vec<String>>) {
    let (mut back, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Both);
    });
    let mut lines = BufReader::new(client.try_clone().unwrap());
    let (mut head, mut client) = (String::new(), client);
    while lines.read_line(&mut head).is_ok_and(|read| read > 0) {
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        let first = head.lines().next().unwrap().to_owned();
        let is_first = {
            let mut noted = noted.lock().unwrap();
            noted.push(first.clone());
            noted.iter().filter(|line| line.contains("/live")).count() == 1
        };
        let sent = match streams {
            Streams::Refused if first.contains("/live") => {
                client.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            }
            Streams::CutOnce if first.contains("/live") && is_first => {
                let _ = client
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 2000\n\n");
                break;
            }
            _ => server.write_all(head.as_bytes()),
        };
        head.clear();
        if sent.is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_server_is_listened_to_and_not_asked_again_and_again() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let between = Between::new(&dev, Streams::Through);
    shop.ok(&["start", "heartbeat", "--input", "0", "--key", "later", "--delay", "1h"]);
    // Nothing happens to it: whoever looks by the clock looks eight times.
    let told = shop.run(&["follow", "heartbeat/later", "--url", &between.url, "--timeout", "3500ms"]);
    assert_eq!(told.code, 7, "{told:?}");
    assert_eq!(between.count("/api/v1/live?topics=run"), 1);
    assert!(between.count("/history") <= 2, "{:?}", between.asked.lock().unwrap());
    // What happens is told, and so is the end.
    let told =
        shop.ok(&["start", "order", "--input", TENT, "--key", "t", "--follow", "--url", &api_of(&dev)]);
    assert!(told.contains("✓ charge took") && told.contains("■ completed in"), "{told}");
    assert!(shop.ok(&["follow", "order/t", "--url", &between.url]).contains("■ completed in"));
    let logs = shop.spawned(&["logs", "order/order-1", "--follow", "--url", &between.url]);
    logs.until_told("charged cents=");
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    let (code, told, _) = logs.end();
    assert!(code == Some(0) && told.contains("ann approved it"), "{told}");
}

#[test]
fn where_no_stream_comes_through_the_clock_says_when_to_look() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let between = Between::new(&dev, Streams::Refused);
    shop.until_asking("order/order-1");
    let follow = shop.spawned(&["follow", "order/order-1", "--url", &between.url]);
    let waits = shop.spawned(&["wait", "order/order-1", "--url", &between.url]);
    follow.until_told("✓ charge took");
    until("it is looked at by the clock", || (between.count("/history") > 3).then_some(()));
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    let (code, told, _) = follow.end();
    assert!(code == Some(0) && told.contains("■ completed in"), "{told}");
    assert_eq!(waits.end().0, Some(0));
    assert_eq!(between.count("/live"), 2, "each asks once for a stream");
}

#[test]
fn a_stream_that_is_cut_off_is_opened_anew() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let between = Between::new(&dev, Streams::CutOnce);
    shop.until_asking("order/order-1");
    let follow = shop.spawned(&["follow", "order/order-1", "--url", &between.url]);
    follow.until_told("✓ charge took");
    until("it asks for another stream", || (between.count("/live") == 2).then_some(()));
    shop.ok(&["send", "order/order-1", "approval", "--data", r#"{"by":"ann","ok":true}"#]);
    let (code, told, _) = follow.end();
    assert!(code == Some(0) && told.contains("■ completed in"), "{told}");
    assert_eq!(between.count("/live"), 2);
}

#[test]
fn a_run_that_logged_for_long_is_told_to_its_last_line() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    shop.ok(&["start", "order", "--input", TENT, "--key", "t", "--wait"]);
    dev.signal("TERM");
    dev.end();
    // Two thousand lines more, and one that would rather be a screen of its own.
    let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    let lines = "with recursive more(n) as (select 1 union all select n + 1 from more where n < 2001)
        insert into outlast_logs (shard, run, epoch, n, at, level, message, step)
        select l.shard, l.run, l.epoch + 1, more.n, l.at + 1, case more.n when 2001 then 'error' else 'info' end,
               case more.n when 2001 then char(27) || '[2Jlast' || char(13) || char(7) else 'line ' || more.n end, null
          from more, (select * from outlast_logs
                       where run = (select run from outlast_keys where key = 't') limit 1) as l";
    assert_eq!(file.execute(lines, []).unwrap(), 2001);
    drop(file);

    let server = shop.spawned(&["serve", "--listen", "127.0.0.1:0", "--insecure-no-auth-i-understand"]);
    server.until_told("/api/v1");
    let told = server.told();
    let url = told.split(" at ").nth(1).unwrap().split("/api/").next().unwrap().to_owned();
    for place in [&[][..], &["--url", &url]] {
        let logs = |more: &[&str]| {
            let args: Vec<&str> = ["logs", "order/t"].iter().chain(more).chain(place).copied().collect();
            shop.ok(&args)
        };
        for told in [logs(&[]), logs(&["--follow"])] {
            assert!(told.lines().count() > 2001 && told.contains("line 2000\n"), "{}", told.lines().count());
        }
        let told = logs(&["--level", "error"]);
        assert!(told.ends_with("error  last\n"), "{told:?}");
        assert!(!told.contains(|c: char| c.is_control() && c != '\n'), "{told:?}");
        let followed: Vec<&str> = ["follow", "order/t"].iter().chain(place).copied().collect();
        assert!(shop.ok(&followed).contains("error  last\n"));
    }
    assert!(!shop.ok(&["show", "order/t"]).contains('\u{1b}'));
}
