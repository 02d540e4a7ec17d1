//! The same commands against a database and against a server that has it: what they say, and how they end.

mod support;

use std::cell::Cell;
use std::path::Path;

use support::{Dev, Shop, until};

/// A shop with runs of every kind that nobody works on any more: whoever looks sees the same.
fn still_shop() -> Shop {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    shop.until_status("stocktaking/stock-1", "completed");
    let large = format!(r#"{{"item":"{}","cents":1}}"#, "x".repeat(5000));
    shop.ok(&["start", "order", "--input", &large, "--key", "large", "--tag", "city=Bern", "--tag", "a=b"]);
    shop.until_status("order/large", "completed");
    let answer = shop.run(&["start", "pay_invoice", "--input", "\"invoice 9\"", "--key", "nine", "--wait"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    for key in ["one", "two", "three", "four", "five"] {
        shop.ok(&["start", "heartbeat", "--input", "0", "--key", key, "--delay", "2h"]);
    }
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    // No timer goes off between two looks.
    let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    file.execute("update outlast_agenda set due_at = due_at + 86400000000", ()).unwrap();
    shop
}

/// The same shop again, as far as commands can tell.
fn twin(shop: &Shop) -> Shop {
    let twin = Shop::new();
    for file in std::fs::read_dir(shop.folder()).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), twin.folder().join(file.file_name())).unwrap();
        }
    }
    twin
}

/// A server over a shop that does nothing but answer.
fn served(shop: &Shop, more: &[&str]) -> (Dev, String) {
    let args: Vec<&str> =
        ["serve", "--listen", "127.0.0.1:0", "--role", "api", "--insecure-no-auth-i-understand"]
            .iter()
            .chain(more)
            .copied()
            .collect();
    let server = shop.spawned(&args);
    server.until_told("/api/v1");
    let told = server.told();
    let url = told.split_whitespace().last().unwrap().trim_end_matches("/api/v1").to_owned();
    (server, url)
}

/// What was said, without what differs between two databases: new ids, secrets, and where it was asked.
fn plain(text: &str, shop: &Path, url: &str) -> String {
    let text = text.replace(&format!(" --url {url}"), "").replace(&*shop.to_string_lossy(), "");
    let mut words = Vec::new();
    for word in text.split_inclusive([' ', '\n', '"', '`', ',']) {
        let (body, end) = word.split_at(word.len() - word.chars().last().map_or(0, char::len_utf8));
        let is_made = ["ol_live_", "tok_", "evt_"].iter().any(|prefix| body.starts_with(prefix));
        words.push(if is_made { format!("NEW{end}") } else { word.to_owned() });
    }
    words.concat()
}

/// What was said, with every time in it left away.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        word.starts_with("20") && word.contains('T') && word.trim_end_matches([')', ';']).ends_with('Z')
    };
    let words = text.split_inclusive([' ', '\n', '"', ',']);
    words
        .filter(|word| !is_time(word.trim_end_matches([' ', '\n', '"', ',']).trim_start_matches('(')))
        .collect()
}

/// Runs a command on both; asserts that both say the same and end alike.
struct Pair {
    direct: Shop,
    server: Shop,
    url: String,
    /// Whether something was changed, on each side at a time of its own.
    acts: Cell<bool>,
    _up: Dev,
}

impl Pair {
    fn new() -> Pair {
        let direct = still_shop();
        let server = twin(&direct);
        let (up, url) = served(&server, &[]);
        Pair { direct, server, url, acts: Cell::new(false), _up: up }
    }

    /// What both said on stdout.
    fn same(&self, args: &[&str]) -> (i32, String, String) {
        let here = self.direct.command(args).env("USER", "local").output().unwrap();
        let mut there = self.server.command(args);
        let there = there.env("USER", "local").env("OUTLAST_URL", &self.url).output().unwrap();
        let read = |output: &std::process::Output, shop: &Shop| {
            let text = |bytes: &[u8]| {
                let text = plain(std::str::from_utf8(bytes).unwrap(), shop.folder(), &self.url);
                if self.acts.get() { without_times(&text) } else { text }
            };
            (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
        };
        let (here, there) = (read(&here, &self.direct), read(&there, &self.server));
        assert_eq!(here, there, "outlast {}", args.join(" "));
        here
    }

    /// The same for what is new on each side: only how many lines and how it ends is alike.
    fn alike(&self, args: &[&str]) {
        let here = self.direct.run(args);
        let mut with_url: Vec<&str> = args.to_vec();
        with_url.extend(["--url", &self.url]);
        let there = self.server.run(&with_url);
        assert_eq!(
            (here.code, here.out.lines().count(), here.err.lines().count()),
            (there.code, there.out.lines().count(), there.err.lines().count()),
            "outlast {}: {here:?} {there:?}",
            args.join(" ")
        );
    }
}

#[test]
fn every_command_says_the_same_of_a_database_and_of_its_server() {
    let pair = Pair::new();
    let time = ["--time", "rfc3339"];
    // To look.
    for words in [
        "list",
        "list -n 2",
        "list -o json",
        "list -o yaml",
        "list -o jsonl def:heartbeat",
        "list -o wide",
        "list -o name status:completed,failed",
        "list tag:city=Bern",
        "list version:1 def:order",
        "list owner:nobody",
        "list stuck:1d",
        "list node:node_00000000000000000000000000000000",
        "list key:order-1 def:order queue:default since:1h",
        "list queues",
        "list queues -o json",
        "list schedules",
        "list schedules -o json",
        "list nodes",
        "list definitions",
        "list bulk",
        "list definitions -o json",
        "show order/order-1 -o json",
        "show order/large",
        "show pay_invoice/nine",
        "show pay_invoice/nine -o yaml",
        "show stocktaking/stock-1",
        "logs order/order-1",
        "logs order/order-1 -o jsonl",
        "logs heartbeat/one",
        "explain heartbeat/one",
        "explain order/large -o name",
        "export order/order-1",
        "export pay_invoice/nine",
        "wait order/large",
        "wait order/large -o json",
        "wait pay_invoice/nine",
        "wait order/order-1 --until waiting,completed",
        "wait order/large --until completed -o json",
        "token list",
        "retry pay_invoice/nine --dry-run",
        "retry pay_invoice/nine --dry-run -o json",
        "fork order/large --from-start --dry-run",
        "cancel --filter def:heartbeat --dry-run -o json",
        "cancel --filter def:heartbeat --dry-run",
        "cancel heartbeat/one --dry-run -o json",
        "pause heartbeat/one heartbeat/two --dry-run",
        "due heartbeat/one --dry-run",
        "delete order/large --dry-run",
        "start heartbeat --key one --input 0 --dry-run",
        "start heartbeat --key six --input 0 --dry-run -o json",
        "send order/order-1 approval --dry-run",
        "queue pause default --dry-run -o json",
        "queue limit default --limit 3 --dry-run",
        "schedule pause stock-check --dry-run",
        "token create ann --dry-run",
        "token create ann --queue mail --queue reports --dry-run",
    ] {
        let words: Vec<&str> = words.split(' ').chain(time).collect();
        let (code, out, _) = pair.same(&words);
        let fails = words[..2] == ["wait", "pay_invoice/nine"];
        assert_eq!(code, i32::from(fails), "{words:?}: {out}");
    }
    pair.acts.set(true);
    // To act; later lines see what earlier ones did.
    for words in [
        "send order/order-1 approvall --data 1",
        "send order/nobody approval --data 1 --idempotency-key k",
        "settle heartbeat/one stopped --data 1",
        "pause heartbeat/one --reason later",
        "show heartbeat/one",
        "explain heartbeat/one",
        "resume heartbeat/one",
        "resume heartbeat/one",
        "due heartbeat/one --at 2099-01-01T00:00:00Z",
        "due heartbeat/one --reason now -o json",
        "cancel heartbeat/one --reason enough",
        "show heartbeat/one",
        "kill heartbeat/two heartbeat/three",
        "show heartbeat/two",
        "delete heartbeat/two",
        "retry pay_invoice/nine",
        "list -o json def:pay_invoice",
        "queue pause default -o name",
        "queue limit default --limit 3 --rate 500/1m --fair",
        "queue limit default --rate none",
        "queue limit default --reset",
        "queue resume default",
        "queue drain default -o name",
        "queue resume default",
        "schedule add nightly @daily heartbeat --input 0 --tz Europe/Berlin --jitter 30s --overlap queue",
        "schedule add nightly @daily heartbeat --input 0 --tz Europe/Berlin --jitter 30s --overlap queue",
        "schedule add nightly @hourly heartbeat --input 0",
        "schedule list -o json",
        "schedule pause nightly",
        "schedule resume nightly",
        "schedule delete nightly",
    ] {
        let words: Vec<&str> = words.split(' ').chain(time).collect();
        let (code, out, err) = pair.same(&words);
        assert_eq!(code, 0, "{words:?}: {out}{err}");
    }
    // What is made has an id of its own.
    for words in [
        "start heartbeat --input 1 --key new --tag x=y --priority 3 --delay 1h",
        "start heartbeat --input 1 --at 2127-01-01T00:00:00Z -o json",
        "fork order/large --from-start",
        "cancel --filter def:heartbeat --yes --no-wait",
        // The last: from then on the server asks for one.
        "token create ann --role operator --expires 1h",
    ] {
        pair.alike(&words.split(' ').collect::<Vec<_>>());
    }
    assert!(pair.server.refused(&["list", "--url", &pair.url], 5).ends_with("(unauthenticated)"));
}

#[test]
fn an_event_has_an_id_which_is_the_same_with_the_same_key_directly_and_through_a_server() {
    let pair = Pair::new();
    let key = ["--idempotency-key", "once"];
    let send = ["send", "order/order-1", "approvall", "--data", "1", "-o", "name"];
    for (shop, place) in [(&pair.direct, &[][..]), (&pair.server, &["--url", &pair.url][..])] {
        let sent = |more: &[&str]| shop.ok(&[&send, more, place].concat());
        let (first, again, other) = (sent(&key), sent(&key), sent(&[]));
        assert!(first.starts_with("evt_") && other.starts_with("evt_"), "{first} {other}");
        assert_eq!((&first, first == other), (&again, false));
        let file = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
        let count = "select count(*) from outlast_inbox where name = 'approvall'";
        assert_eq!(file.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    }
}

#[test]
fn what_a_database_refuses_its_server_refuses_with_the_same_code() {
    let pair = Pair::new();
    for (words, code, word) in [
        ("show order/none", 3, "(not_found)"),
        ("show run_01hzzzzzzzzzzzzzzzzzzzzzzz", 3, "(not_found)"),
        ("show nonsense", 2, "(invalid_id)"),
        ("explain order/none", 3, "(not_found)"),
        ("export order/none", 3, "(not_found)"),
        ("delete order/order-1", 4, "(conflict)"),
        ("delete order/none", 3, "(not_found)"),
        ("send order/large approval", 4, "(run_closed)"),
        ("queue pause mial", 3, "(not_found)"),
        ("schedule pause nigthly", 3, "(not_found)"),
        ("token revoke tok_1", 3, "(not_found)"),
        ("cancel --filter  --yes", 2, "(invalid_argument)"),
        ("cancel --filter colour:red --yes", 2, "(invalid_argument)"),
        ("cancel --filter def:heartbeat", 2, "(invalid_argument)"),
        ("wait heartbeat/one --timeout 50ms", 7, "(timeout)"),
        ("wait heartbeat/one --until running --timeout 50ms", 7, "(timeout)"),
        ("wait heartbeat/one --until done", 2, "(invalid_argument)"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (said, out, err) = pair.same(&words);
        assert_eq!((said, out.as_str()), (code, ""), "{words:?}: {err}");
        assert!(err.trim_end().ends_with(word), "{words:?}: {err}");
    }
    // Worded by the server, which knows more or less of it.
    for (words, code, word) in [
        ("start nope", 3, "(unknown_definition)"),
        (r#"start order --key large --input {"item":"a","cents":2}"#, 4, "(idempotency_conflict)"),
        (r#"start order --key a/b --input {"item":"a","cents":2}"#, 2, "(invalid_id)"),
        ("send nope/x approval", 3, "(unknown_definition)"),
        ("schedule add x 61 heartbeat", 2, "(invalid_cron)"),
        ("schedule add x @daily heartbeat --tz Mars/Base", 2, "(unknown_timezone)"),
    ] {
        let mut words: Vec<&str> = words.split(' ').collect();
        let told = pair.direct.refused(&words, code);
        words.extend(["--url", &pair.url]);
        let remote = pair.server.refused(&words, code);
        assert!(told.ends_with(word) && remote.ends_with(word), "{words:?}:\n{told}\n{remote}");
    }
}

#[test]
fn a_server_asks_who_it_is_and_what_they_may() {
    let shop = still_shop();
    let token =
        |role: &str| shop.ok(&["token", "create", role, "--role", role, "-o", "name"]).trim().to_owned();
    let (viewer, operator) = (token("viewer"), token("operator"));
    let (_up, url) = served(&shop, &[]);
    let told = shop.refused(&["list", "--url", &url], 5);
    assert!(
        told.contains("give a token with --token or OUTLAST_TOKEN") && told.ends_with("(unauthenticated)"),
        "{told}"
    );
    let told = shop.refused(&["list", "--url", &url, "--token", "ol_live_nonsense"], 5);
    assert!(told.ends_with("(unauthenticated)") && !told.contains("nonsense"), "{told}");
    assert!(shop.ok(&["list", "--url", &url, "--token", &viewer]).contains("order"));
    let told = shop.refused(&["kill", "heartbeat/one", "--url", &url, "--token", &viewer], 5);
    assert!(told.ends_with("(forbidden)"), "{told}");
    shop.ok(&["kill", "heartbeat/one", "--url", &url, "--token", &operator]);
    let told = shop.refused(&["token", "list", "--url", &url, "--token", &operator], 5);
    assert!(told.ends_with("(forbidden)"), "{told}");
    // A token of one tenant sees nothing of others, and is not told of nodes.
    let made = shop.ok(&["token", "create", "bob", "--role", "operator", "--tenant", "acme", "-o", "name"]);
    let with = ["--url", &url, "--token", made.trim()];
    let run = |words: &[&str]| shop.run(&words.iter().chain(&with).copied().collect::<Vec<_>>());
    assert_eq!(run(&["list", "-o", "name"]).out, "");
    assert_eq!(run(&["show", "order/order-1"]).code, 3);
    let started = run(&["start", "heartbeat", "--input", "0", "--key", "one", "--delay", "1h"]);
    assert_eq!(started.code, 0, "{started:?}");
    assert!(run(&["show", "heartbeat/one"]).out.contains("scheduled for"));
}

#[test]
fn a_server_that_is_not_there_or_is_something_else_has_its_own_code() {
    let shop = Shop::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let told = shop.refused(&["list", "--url", &format!("http://127.0.0.1:{port}")], 6);
    assert!(told.contains("cannot be reached") && told.contains("see whether it is up"), "{told}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ =
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    });
    let told = shop.refused(&["list", "--url", &url], 1);
    assert!(told.contains("is that an outlast server?"), "{told}");
    server.join().unwrap();
    // Nobody answers: the command gives up when it was told to.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let told = shop.refused(&["list", "--url", &url, "--timeout", "200ms"], 7);
    assert!(told.ends_with("it took longer than 200 ms (--timeout) (timeout)"), "{told}");
}

#[test]
fn what_needs_the_database_itself_says_so() {
    let shop = Shop::new();
    let url = "http://127.0.0.1:1";
    for words in ["dev", "serve", "check", "verify", "purge --older-than 1d"] {
        let mut args: Vec<&str> = words.split(' ').collect();
        args.extend(["--url", url]);
        let told = shop.refused(&args, 2);
        assert!(told.contains("works on the database itself") && told.contains("--database-url"), "{told}");
    }
    let told = shop.refused(&["list", "--url", url, "--database-url", "sqlite://a.db"], 2);
    assert!(told.contains("cannot be used with"), "{told}");
    for (bad, why) in
        [("localhost:7777", "http or https"), ("http://a:b@host", "--token"), ("http://", "not an address")]
    {
        let told = shop.refused(&["list", "--url", bad], 2);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_bulk_over_a_server_is_followed_to_its_report() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let url = until("dev says where it is", || {
        let told = dev.told();
        let line = told.lines().find(|line| line.contains("The HTTP API is at"))?;
        Some(line.split_whitespace().last()?.to_owned())
    });
    for key in ["a", "b", "c"] {
        let input = [
            "start",
            "heartbeat",
            "--input",
            "0",
            "--tag",
            "kind=bulk",
            "--delay",
            "1h",
            "--key",
            key,
            "--url",
            &url,
        ];
        shop.ok(&input);
    }
    let told = shop.ok(&["cancel", "--filter", "tag:kind=bulk", "--yes", "--url", &url]);
    assert_eq!(told, "3 runs asked to stop\n");
    let bulks = |url: &[&str]| shop.ok(&[&["list", "bulk", "-o", "json"], url].concat());
    assert_eq!(bulks(&["--url", &url]), bulks(&[]));
    // Failures are summed up a while after they happened.
    let errors = until("failures are summed up", || {
        let errors = shop.ok(&["list", "errors", "--time", "rfc3339", "--url", &url]);
        errors.contains("the bank declined").then_some(errors)
    });
    assert_eq!(shop.ok(&["list", "errors", "--time", "rfc3339"]), errors);
    let waited =
        shop.ok(&["start", "order", "--input", r#"{"item":"pen","cents":2}"#, "--wait", "--url", &url]);
    assert!(waited.starts_with("\"pen is on its way"), "{waited}");
}
