//! A binary with workflows of its own has every command, and its workflows in them.

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::Shop;

/// The example, which was built together with this test.
fn own(shop: &Shop, args: &[&str]) -> Command {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let like = shop.command(args);
    let mut command = Command::new(path.join("examples/own_binary"));
    command.args(args).current_dir(shop.folder()).env_clear().stdin(std::process::Stdio::null());
    for (name, value) in like.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command
}

#[test]
fn its_workflows_run_are_checked_and_shown_by_its_own_commands() {
    let shop = Shop::new();
    let mut dev = own(&shop, &["dev", "--port", "0"]);
    let dev = shop.spawned_as(&mut dev);
    dev.until_told("Ctrl-C stops it gently");
    assert!(!dev.told().contains("The samples are running"), "{}", dev.told());
    let run = |args: &[&str]| {
        let output = own(&shop, args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) =
        run(&["start", "greet", "--input", "\"world\"", "--key", "w", "--wait", "--timeout", "60s"]);
    assert_eq!((code, out.as_str()), (0, "\"Hello, world!\"\n"), "{err}");
    // What its code cannot decode is refused before anything is written.
    for args in [
        &["start", "greet", "--input", "7"][..],
        &["fork", "greet/w", "--from-start", "--input", "7"],
        &["schedule", "add", "daily", "@daily", "greet", "--input", "7"],
    ] {
        let (code, _, err) = run(args);
        assert!(code == 2 && err.contains("the input of greet cannot be decoded"), "{args:?}: {code} {err}");
        assert!(err.ends_with("(undecodable)\n"), "{err}");
    }
    assert_eq!(run(&["list", "-o", "name"]).1.lines().count(), 1);
    let (_, out, _) = run(&["list", "definitions", "-o", "name"]);
    assert_eq!(out, "greet\n");
    assert!(run(&["show", "greet/w"]).1.contains("✓ greet"));
    run(&["start", "greet", "--input", "\"later\"", "--delay", "1h"]);
    let (code, _, err) = run(&["check"]);
    assert_eq!((code, err.as_str()), (0, "the run fits this binary\n"));
    // It is called by its own name.
    let (code, out, _) = run(&["list", "--help"]);
    assert!(code == 0 && out.contains("Usage: own_binary list"), "{out}");
    // Our own binary does not know its code, and says so.
    let told = shop.run(&["check"]);
    assert_eq!(told.code, 4, "{told:?}");
    dev.signal("TERM");
    assert_eq!(dev.end().0, Some(0));
    // `serve` is a node for it as well.
    let mut serve = own(&shop, &["serve", "--listen", "127.0.0.1:0", "--insecure-no-auth-i-understand"]);
    let serve = shop.spawned_as(&mut serve);
    serve.until_told("/api/v1");
    let (code, out, err) = run(&["start", "greet", "--input", "\"server\"", "--wait", "--timeout", "60s"]);
    assert_eq!((code, out.as_str()), (0, "\"Hello, server!\"\n"), "{err}");
}
