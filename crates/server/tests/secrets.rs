//! Secrets reach no screen and no log: passwords of databases, tokens, payloads.

mod support;

use support::Shop;

const PASSWORD: &str = "hunter2-password";
const PAYLOAD: &str = "hunter2-payload";

#[test]
fn a_password_of_a_database_is_in_nothing_that_is_said() {
    let shop = Shop::new();
    let url = format!("postgres://ann:{PASSWORD}@127.0.0.1:1/db?connect_timeout=1");
    for args in [
        &["list"][..],
        &["list", "-vv"],
        &["doctor", "-vv"],
        &["migrate", "status", "-vv"],
        &["serve", "-vv", "--listen", "127.0.0.1:0"],
        &["config", "show", "--origin"],
        &["config", "show", "-o", "json"],
        &["backup", "copy.db"],
        &["start", "order", "-vv"],
    ] {
        for url in
            [&url, &format!("postgres://127.0.0.1:1/db?user=ann&password={PASSWORD}&connect_timeout=1")]
        {
            let output = shop.command(args).env("OUTLAST_DATABASE_URL", url).output().unwrap();
            let said = format!("{output:?}");
            assert!(!said.contains(PASSWORD), "outlast {}: {said}", args.join(" "));
        }
    }
    // An address that cannot be read is refused without being repeated.
    for url in
        [format!("postgres://ann:{PASSWORD}@host:nonsense/db"), format!("mysql://ann:{PASSWORD}@host/db")]
    {
        let said = shop.run(&["list", "--database-url", &url]);
        assert!(said.code == 2 && !said.err.contains(PASSWORD), "{said:?}");
    }
}

#[test]
fn tokens_and_payloads_are_in_no_line_of_a_server_or_a_command() {
    let shop = Shop::new();
    let dev = shop.dev_with(&["--port", "0"]);
    shop.until_asking("order/order-1");
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    let made = shop.ok(&["token", "create", "ann", "--role", "admin", "-o", "json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let (token, id) = (made["secret"].as_str().unwrap(), made["id"].as_str().unwrap());
    // Shown once.
    let listed = shop.run(&["token", "list", "-o", "json"]);
    assert!(listed.out.contains(id) && !listed.out.contains(token), "{listed:?}");

    let server = shop.spawned(&["serve", "-vv", "--listen", "127.0.0.1:0"]);
    server.until_told("/api/v1");
    let told = server.told();
    let url = told.split_whitespace().last().unwrap().trim_end_matches("/api/v1").to_owned();
    let with = ["-vv", "--url", &url, "--token", token];
    let input = format!(r#"{{"item":"{PAYLOAD}","cents":-1}}"#);
    let data = format!(r#"{{"by":"{PAYLOAD}","ok":true}}"#);
    for args in [
        &["start", "order", "--input", &input, "--key", "k"][..],
        &["send", "order/order-1", "approval", "--data", &data],
        &["list", "-o", "name"],
        &["token", "list"],
    ] {
        let said = shop.run(&[args, &with].concat());
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.err.contains(token) && !said.out.contains(token), "{said:?}");
        assert!(!said.err.contains(PAYLOAD), "{said:?}");
    }
    let refused = shop.run(&["list", "--url", &url, "--token", &format!("{token}x"), "-vv"]);
    assert!(refused.code == 5 && !refused.err.contains(token), "{refused:?}");
    server.signal("TERM");
    let (_, told, noted) = server.end();
    let said = told + &noted;
    assert!(noted.contains("stopped"), "{noted}");
    assert!(!said.contains(token) && !said.contains(PAYLOAD), "{said}");
}
