//! `outlast serve`, `outlast token` and the API of `outlast dev`, on the real binary.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use support::{Dev, Shop, until};

/// The address that a server says it has.
fn address(told: &str) -> Option<String> {
    let (_, rest) = told.split_once("http://")?;
    Some(rest.split('/').next()?.trim_end_matches("\u{1b}[0m").to_owned())
}

/// Asks; gives the status and the body.
fn ask(address: &str, method: &str, path: &str, headers: &str) -> (u16, String) {
    let answer = whole(address, &format!("{method} {path}"), headers, "");
    let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// The whole answer to a request with this body.
fn whole(address: &str, what: &str, headers: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(socket, "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n{body}").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// A server that lets everybody in until there is a token.
fn serve(shop: &Shop, args: &[&str]) -> (Dev, String) {
    serve_guarded(shop, &[args, &["--insecure-no-auth-i-understand"]].concat())
}

/// A server as it starts unless it is told otherwise.
fn serve_guarded(shop: &Shop, args: &[&str]) -> (Dev, String) {
    let args: Vec<&str> = ["serve"].iter().chain(args).copied().collect();
    let server = shop.spawned(&args);
    server.until_told("/api/v1");
    let address = address(&server.told()).unwrap();
    (server, address)
}

/// A shop whose database is there, and nobody in it.
fn shop() -> Shop {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--no-samples", "--port", "0"]);
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    shop
}

#[test]
fn dev_says_where_its_api_is_and_answers_there() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let address = address(&dev.told()).unwrap();
    let (status, body) = ask(&address, "GET", "/api/v1/runs?def=order", "");
    assert_eq!(status, 200);
    assert!(body.contains("order-1"), "{body}");
    let metrics = ask(&address, "GET", "/metrics", "").1;
    assert!(metrics.contains("# HELP outlast_requests_total requests to the HTTP API"), "{metrics}");
    for kind in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = kind.split(' ').next().unwrap();
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name}: {metrics}");
    }
    // Two of them: the second takes another port.
    let other = Shop::new();
    let second = other.dev_with(&["--no-samples"]);
    let third = Shop::new();
    let third_dev = third.dev_with(&["--no-samples"]);
    assert_ne!(support_address(&second), support_address(&third_dev));
    let taken = Shop::new().refused(&["dev", "--port", address.split(':').nth(1).unwrap()], 4);
    assert!(taken.contains("cannot listen on"), "{taken}");
}

fn support_address(dev: &Dev) -> String {
    address(&dev.told()).unwrap()
}

#[test]
fn serve_wants_a_database_of_its_version() {
    let empty = Shop::new();
    let refused = empty.refused(&["serve", "--listen", "127.0.0.1:0"], 3);
    assert!(refused.contains("there is no database"), "{refused}");
    let (server, address) = serve(&empty, &["--listen", "127.0.0.1:0", "--migrate"]);
    assert_eq!(ask(&address, "GET", "/readyz", "").0, 200);
    server.kill();

    let shop = shop();
    let file = shop.folder().join("outlast.db");
    let database = rusqlite::Connection::open(file).unwrap();
    let last: i64 =
        database.query_row("select max(number) from outlast_migrations", [], |row| row.get(0)).unwrap();
    database.execute("delete from outlast_migrations where number = ?1", [last]).unwrap();
    drop(database);
    let refused = shop.refused(&["serve", "--listen", "127.0.0.1:0"], 4);
    assert!(refused.contains(&format!("has schema version {}", last - 1)), "{refused}");
    assert!(refused.contains(&format!("needs version {last}")), "{refused}");
}

#[test]
fn beyond_this_machine_nothing_is_served_without_a_token() {
    let shop = shop();
    let refused = shop.refused(&["serve", "--listen", "0.0.0.0:0"], 4);
    assert!(refused.contains("there is no token") && refused.contains("token create"), "{refused}");

    let made: Value =
        serde_json::from_str(&shop.ok(&["token", "create", "ann", "--role", "admin", "-o", "json"])).unwrap();
    let (secret, id) = (made["secret"].as_str().unwrap(), made["id"].as_str().unwrap());
    let (server, address) = serve(&shop, &["--listen", "0.0.0.0:0"]);
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(ask(&address, "GET", "/healthz", "").0, 200);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 401);
    let bearer = format!("authorization: Bearer {secret}\r\n");
    assert_eq!(ask(&address, "GET", "/api/v1/runs", &bearer).0, 200);

    let listed = shop.ok(&["token", "list"]);
    assert!(listed.contains("ann") && listed.contains(id) && !listed.contains(secret), "{listed}");
    assert!(shop.ok(&["token", "revoke", id]).contains("opens nothing any more"));
    assert_eq!(ask(&address, "GET", "/api/v1/runs", &bearer).0, 401, "at once");
    assert!(shop.refused(&["token", "revoke", "tok_x"], 3).contains("token list"));
    drop(server);
    // Whoever has revoked the last one is not open to everybody.
    assert!(shop.refused(&["serve", "--listen", "0.0.0.0:0"], 4).contains("there is no token that is valid"));
}

#[test]
fn metrics_are_not_shown_to_other_machines_without_a_token() {
    let shop = shop();
    for role in ["all", "scheduler"] {
        let args = ["serve", "--role", role, "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"];
        let refused = shop.refused(&args, 4);
        assert!(refused.contains("0.0.0.0:0 can be reached from other machines"), "{refused}");
    }
}

#[test]
fn whoever_had_tokens_is_not_open_to_everybody_once_they_are_over() {
    let shop = shop();
    shop.ok(&["token", "create", "ann", "--role", "admin"]);
    let database = rusqlite::Connection::open(shop.folder().join("outlast.db")).unwrap();
    assert_eq!(database.execute("update outlast_tokens set expires_at = 1", []).unwrap(), 1);
    drop(database);
    let (server, address) = serve(&shop, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 401);
    until("it says why", || server.noted().contains("every token is revoked or over").then_some(()));
    // A new one counts at once.
    let made = shop.ok(&["token", "create", "bob", "--role", "viewer", "-o", "name"]);
    let bearer = format!("authorization: Bearer {}\r\n", made.trim());
    assert_eq!(ask(&address, "GET", "/api/v1/runs", &bearer).0, 200);
}

#[test]
fn the_first_token_shuts_the_door_of_a_server_that_is_up() {
    let shop = shop();
    let (_server, address) = serve(&shop, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 200);
    let made = shop.ok(&["token", "create", "ann", "--role", "admin", "-o", "name"]);
    until("a token is asked for", || (ask(&address, "GET", "/api/v1/runs", "").0 == 401).then_some(()));
    let bearer = format!("authorization: Bearer {}\r\n", made.trim());
    assert_eq!(ask(&address, "GET", "/api/v1/runs", &bearer).0, 200);
}

#[test]
fn the_first_start_lets_in_one_browser_once_and_nobody_else() {
    let shop = shop();
    // One that lets nobody in before it stops is as if it had not been.
    let (unseen, _) = serve_guarded(&shop, &["--listen", "127.0.0.1:0"]);
    until("it says how", || unseen.told().contains("#ticket=").then_some(()));
    drop(unseen);
    assert!(shop.refused(&["serve", "--listen", "0.0.0.0:0"], 4).contains("there is no token"));
    let (server, address) = serve_guarded(&shop, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 401, "nobody is let in without a token");
    until("it says how", || server.told().contains("#ticket=").then_some(()));
    let told = server.told();
    let ticket = told.split("#ticket=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();

    // As a cookie it opens nothing: it has to be given away for one.
    let cookie = |value: &str| format!("cookie: outlast_session={value}\r\n");
    assert_eq!(ask(&address, "GET", "/api/v1/me", &cookie(&ticket)).0, 401);
    let body = format!("{{\"ticket\":\"{ticket}\"}}");
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let redeem = || whole(&address, "POST /api/v1/session", &headers, &body);
    let answer = redeem();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let session = answer.split("outlast_session=").nth(1).unwrap().split(';').next().unwrap();
    let (status, me) = ask(&address, "GET", "/api/v1/me", &cookie(session));
    assert_eq!(status, 200);
    assert!(me.contains("\"actor\":\"first\"") && me.contains("\"role\":\"admin\""), "{me}");
    assert!(redeem().starts_with("HTTP/1.1 401"), "a ticket opens once");

    // Another start finds that somebody has a token.
    drop(server);
    let (again, address) = serve_guarded(&shop, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ask(&address, "GET", "/api/v1/me", &cookie(session)).0, 200, "what was opened stays open");
    assert!(!again.told().contains("#ticket="));
    let listed = shop.ok(&["token", "list"]);
    assert_eq!(listed.matches("first").count(), 1, "{listed}");
    assert!(listed.contains("admin") && !listed.contains("never"), "it was used: {listed}");
}

#[test]
fn whoever_names_a_host_needs_a_token_first() {
    let shop = shop();
    let named = ["--listen", "127.0.0.1:0", "--host", "ops.example"];
    let args: Vec<&str> = ["serve"].iter().chain(&named).copied().collect();
    let refused = shop.refused(&args, 4);
    assert!(refused.contains("ops.example") && refused.contains("there is no token"), "{refused}");
    let (server, address) = serve(&shop, &named);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 200);
    drop(server);
    shop.ok(&["token", "create", "ann"]);
    let (_server, address) = serve_guarded(&shop, &named);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 401);
}

#[cfg(unix)]
#[test]
fn a_reload_ends_no_server_and_the_unit_makes_its_tables_first() {
    // As packaging/outlast.service has it, on a machine that has nothing yet.
    let unit = include_str!("../../../packaging/outlast.service");
    let commands = |name: &str| unit.lines().filter_map(|line| line.strip_prefix(name)).collect::<Vec<_>>();
    let shop = Shop::new();
    for command in commands("ExecStartPre=/usr/local/bin/outlast ") {
        shop.ok(&command.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(commands("ExecStart=/usr/local/bin/outlast "), ["serve --listen 127.0.0.1:7777"]);
    assert_eq!(commands("ExecReload="), ["/bin/kill -HUP $MAINPID"]);
    let (server, address) = serve(&shop, &["--listen", "127.0.0.1:0"]);
    server.signal("HUP");
    assert_eq!(ask(&address, "GET", "/readyz", "").0, 200);
    server.signal("TERM");
    let (code, _, noted) = server.end();
    assert_eq!(code, Some(0), "{noted}");
}

#[test]
fn a_server_that_is_told_to_stop_ends_its_streams_and_waits_and_exits_well() {
    let shop = shop();
    let (server, address) = serve(&shop, &["--listen", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut first = [0; 1024];
    let read = stream.read(&mut first).unwrap();
    assert!(String::from_utf8_lossy(&first[..read]).starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    let (code, _, noted) = server.end();
    assert_eq!(code, Some(0), "{noted}");
    assert!(noted.contains("stopped") && !noted.contains("not answered"), "{noted}");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

#[test]
fn a_second_server_that_would_work_on_a_file_is_refused_with_the_pid_of_the_first() {
    let shop = shop();
    let (first, _) = serve(&shop, &["--listen", "127.0.0.1:0"]);
    for role in ["all", "scheduler"] {
        let told = shop.refused(&["serve", "--listen", "127.0.0.1:0", "--role", role], 4);
        assert!(told.contains(&format!("is in use by process {}", first.id())), "{told}");
        assert!(told.contains("--role api") && told.ends_with("(conflict)"), "{told}");
    }
    drop(first);
    serve(&shop, &["--listen", "127.0.0.1:0"]);
}

#[test]
fn serve_beside_a_process_that_owns_the_file_serves_the_api_alone() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    let (_server, address) = serve(&shop, &["--listen", "127.0.0.1:0", "--role", "api"]);
    let runs = until("orders are there", || {
        let (_, body) = ask(&address, "GET", "/api/v1/runs?def=order", "");
        let page: Value = serde_json::from_str(&body).ok()?;
        page["items"][0]["id"].as_str().map(str::to_owned)
    });
    let (status, body) =
        ask(&address, "POST", &format!("/api/v1/runs/{runs}/cancel"), "content-length: 0\r\n");
    assert_eq!(status, 200, "{body}");
    shop.until_status(&runs, "cancelled");
    drop(dev);
}

#[test]
fn the_document_is_printed_without_a_database() {
    let printed = Shop::new().ok(&["openapi"]);
    assert_eq!(printed, include_str!("../../../api/openapi.json"));
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_served_for_its_user_alone() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    let shop = shop();
    let file = shop.folder().join("api.sock");
    let name = file.to_str().unwrap();
    // One that a server left behind is taken; anything else is not.
    drop(UnixListener::bind(&file).unwrap());
    let args = ["serve", "--listen", "127.0.0.1:0", "--socket", name, "--insecure-no-auth-i-understand"];
    let server = shop.spawned(&args);
    server.until_told("and at the socket");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |host: &str| {
        let mut stream = UnixStream::connect(&file).unwrap();
        write!(stream, "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("localhost").starts_with("HTTP/1.1 200"), "{}", ask("localhost"));
    assert!(ask("evil.example").starts_with("HTTP/1.1 421"), "it is guarded like any other address");
    let told = shop.refused(&args, 4);
    assert!(told.contains("another server answers there"), "{told}");
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert!(!file.exists(), "it goes with its server");
    std::fs::write(&file, "mine").unwrap();
    assert!(shop.refused(&args, 4).contains("there is another file"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_server_that_only_works_does_bulks_and_answers_nobody() {
    let shop = shop();
    let server = shop.spawned(&["serve", "--role", "scheduler", "--listen", "127.0.0.1:1"]);
    server.until_told("answers nobody (--role scheduler)");
    assert!(!server.told().contains("http://"), "{}", server.told());
    assert_eq!(shop.ok(&["list", "nodes", "-o", "name"]).lines().count(), 1);
    // Bulks are its work, and whoever asks for one follows it.
    assert_eq!(shop.ok(&["cancel", "--all", "--yes"]), "0 runs asked to stop\n");
    // A file has one who works on it.
    let told = shop.refused(&["serve", "--role", "maintenance"], 4);
    assert!(told.ends_with("(conflict)"), "{told}");
    server.signal("TERM");
    let (code, _, noted) = server.end();
    assert!(code == Some(0) && noted.contains("stopped"), "{noted}");
}

#[test]
fn a_server_tells_what_it_is_called_and_what_it_goes_by_without_secrets() {
    let shop = shop();
    let toml = "environment = \"staging <2>\"\ntoken = \"ol_live_secret\"\nurl = \"http://127.0.0.1:1\"\n";
    std::fs::write(shop.folder().join("outlast.toml"), toml).unwrap();
    let (server, address) = serve(&shop, &["--listen", "127.0.0.1:0", "--pace", "70"]);
    let page = ask(&address, "GET", "/", "").1;
    assert!(page.contains(r#""environment":"staging \u003c2>""#), "{page}");
    let told = ask(&address, "GET", "/api/v1/system/config", "").1;
    assert!(!told.contains("secret"), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let of = |key: &str| {
        let found = told["items"].as_array().unwrap().iter().find(|one| one["key"] == key);
        found.map(|one| {
            (one["value"].as_str().unwrap().to_owned(), one["origin"].as_str().unwrap().to_owned())
        })
    };
    let pair = |value: &str, origin: &str| Some((value.to_owned(), origin.to_owned()));
    assert_eq!(of("environment"), pair("staging <2>", "outlast.toml:1"));
    assert_eq!(of("pace"), pair("70", "flag --pace"));
    assert_eq!(of("role"), pair("all", "default"));
    assert_eq!(of("token"), None);
    assert!(of("database_url").unwrap().0.starts_with("sqlite://"), "{told}");
    server.kill();
    let (server, address) =
        serve(&shop, &["--listen", "127.0.0.1:0", "--environment", "production", "--role", "api"]);
    assert!(ask(&address, "GET", "/runs", "").1.contains(r#""environment":"production""#));
    server.kill();
    let long = "x".repeat(41);
    let refused = shop.refused(&["serve", "--environment", &long], 2);
    assert!(refused.contains("--environment: a name of at most 40 characters"), "{refused}");
}

#[test]
fn a_server_without_a_dashboard_still_has_its_api() {
    let shop = shop();
    let (server, address) = serve(&shop, &["--listen", "127.0.0.1:0", "--no-dashboard"]);
    let people = "accept: text/html\r\n";
    for path in ["/", "/runs", "/assets/app.js"] {
        let (status, told) = ask(&address, "GET", path, people);
        assert!(status == 404 && told.contains("not_found"), "{path}: {status} {told}");
    }
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 200);
    let told = ask(&address, "GET", "/api/v1/system/config", "").1;
    assert!(told.contains(r#""key":"dashboard","value":"off","origin":"flag --no-dashboard""#), "{told}");
    server.kill();

    std::fs::write(shop.folder().join("outlast.toml"), "dashboard = \"off\"\n").unwrap();
    // Whoever starts it for the first time is not sent to a page that is not there.
    let (server, address) = serve_guarded(&shop, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ask(&address, "GET", "/", people).0, 404);
    assert_eq!(ask(&address, "GET", "/api/v1/runs", "").0, 401);
    server.signal("TERM");
    let (code, said, noted) = server.end();
    assert!(
        code == Some(0) && !said.contains("ticket") && noted.contains("nobody has a token yet"),
        "{noted}"
    );
}

#[test]
fn a_proxy_that_is_named_on_the_command_line_says_who_asks() {
    let shop = shop();
    let proxy = ["--proxy", "127.0.0.1", "--proxy-user-header", "X-User", "--proxy-role", "operator"];
    let (server, address) = serve(&shop, &[&["--listen", "127.0.0.1:0"], &proxy[..]].concat());
    let told = server.noted();
    assert!(!told.contains("whoever reaches it may do everything"), "{told}");
    assert_eq!(
        ask(&address, "GET", "/api/v1/me", "").0,
        401,
        "nobody is let in who is not known, token or not"
    );
    let (status, me) = ask(&address, "GET", "/api/v1/me", "x-user: ann\r\n");
    let me: Value = serde_json::from_str(&me).unwrap();
    assert_eq!((status, me["actor"].as_str(), me["role"].as_str()), (200, Some("ann"), Some("operator")));
    assert_eq!(ask(&address, "GET", "/metrics", "x-user: ann\r\n").0, 200);
    drop(server);
    // Beyond this machine it needs no token, since a proxy says who asks; and another is not believed here.
    let (_server, address) = serve(&shop, &["--listen", "0.0.0.0:0", "--proxy", "10.1.0.0/16,unix"]);
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(ask(&address, "GET", "/api/v1/me", "x-forwarded-user: ann\r\n").0, 401);
}

#[test]
fn a_proxy_that_cannot_be_meant_is_refused() {
    let shop = shop();
    for (args, told) in [
        (&["--proxy", "0.0.0.0/0"][..], "fewer addresses than all there are"),
        (&["--proxy", "proxy.example"], "an address, such as 10.1.0.4"),
        (
            &["--proxy", "10.1.0.4", "--proxy-role-header", "X-Forwarded-User"],
            "one that nothing else is read from",
        ),
        (
            &["--proxy", "10.1.0.4", "--proxy-tenant-header", "Sec-Fetch-Site"],
            "one that nothing else is read from",
        ),
        (
            &["--proxy", "10.1.0.4", "--proxy-user-header", "Authorization"],
            "one that nothing else is read from",
        ),
        (&["--proxy", "10.1.0.4", "--proxy-role", "worker"], "viewer, operator, admin"),
        (
            &["--proxy", "10.1.0.4", "--proxy-role", "admin", "--proxy-role-header", "X-Role"],
            "cannot be used with",
        ),
        (&["--proxy-user-header", "X-User"], "--proxy <ADDRESS>"),
    ] {
        let refused = shop.refused(&[&["serve"], args].concat(), 2);
        assert!(refused.contains(told), "{args:?}: {refused}");
    }
}

#[cfg(unix)]
#[test]
fn a_proxy_at_the_socket_is_believed_there_and_not_at_the_address() {
    use std::os::unix::net::UnixStream;
    let shop = shop();
    let file = shop.folder().join("api.sock");
    let file = file.to_str().unwrap();
    let (_server, address) = serve(&shop, &["--listen", "127.0.0.1:0", "--socket", file, "--proxy", "unix"]);
    let mut socket = until("the socket is there", || UnixStream::connect(file).ok());
    let head = "GET /api/v1/me HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    write!(socket, "{head}x-forwarded-user: ann\r\nx-forwarded-for: 192.0.2.7\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""actor":"ann""#), "{answer}");
    assert_eq!(ask(&address, "GET", "/api/v1/me", "x-forwarded-user: ann\r\n").0, 401);
}
