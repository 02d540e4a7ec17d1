//! Settings of the command line: files, environment, flags, and what is wrong with them.

mod support;

use support::Shop;

fn write(shop: &Shop, name: &str, text: impl AsRef<[u8]>) {
    let path = shop.folder().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
}

const USER: &str = ".config/outlast/config.toml";

#[test]
fn settings_are_shown_with_where_they_come_from_and_secrets_are_not() {
    let shop = Shop::new();
    write(
        &shop,
        USER,
        "output = \"json\"\ntime = \"utc\"\n[profile.prod]\nurl = \"https://ops.example\"\ntoken = \"hunter2\"\n",
    );
    write(&shop, "outlast.toml", "output = \"text\"\ndatabase_url = \"postgres://ann:hunter2@host/db\"\n");
    let shown = shop.run(&["config", "show", "--origin", "--color", "never"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(!shown.out.contains("hunter2") && !shown.err.contains("hunter2"), "{shown:?}");
    for part in [
        "database_url  postgres://ann:***@host/db  outlast.toml:2",
        "output        text                        outlast.toml:1",
        "color         never                       flag --color",
        ".config/outlast/config.toml:2",
    ] {
        assert!(shown.out.contains(part), "{part}:\n{}", shown.out);
    }
    let shown = shop.ok(&["config", "show", "--profile", "prod", "-o", "json"]);
    assert!(shown.contains("\"https://ops.example\"") && shown.contains("(profile prod)"), "{shown}");
    assert!(shown.contains("\"***\"") && !shown.contains("hunter2"), "{shown}");
    let mut env = shop.command(&["config", "show", "--origin"]);
    let env = env.env("OUTLAST_TIME", "rfc3339").output().unwrap();
    assert!(String::from_utf8(env.stdout).unwrap().contains("environment OUTLAST_TIME"));
}

#[test]
fn a_file_that_cannot_be_read_stops_every_command_with_its_line() {
    let shop = Shop::new();
    for (text, told) in [
        (
            "databse_url = \"x\"\n",
            "outlast.toml:1: there is no setting \"databse_url\": did you mean database_url?",
        ),
        ("\n\noutput = 3\n", "outlast.toml:3: output has to be a text in quotes, not integer"),
        (
            "output = \"xml\"\n",
            "outlast.toml:1: output: one of text, json, jsonl, yaml, wide, name, not \"xml\"",
        ),
        ("timeout = \"-1s\"\n", "outlast.toml:1: timeout: a duration looks like"),
        ("url = \"ftp://a\"\n", "outlast.toml:1: url: a server is reached by http or https"),
        ("url = \"http://a\"\ndatabase_url = \"sqlite://b\"\n", "name a server or a database"),
        ("default_profile = \"prod\"\n", "there is no profile \"prod\""),
        ("url = [\n", "outlast.toml:"),
    ] {
        write(&shop, "outlast.toml", text);
        for command in [&["list"][..], &["config", "check"], &["config", "show"]] {
            let refused = shop.refused(command, 2);
            assert!(refused.contains(told), "{text:?}: {refused}");
        }
    }
    write(&shop, "outlast.toml", b"output = \"\xff\"\n");
    assert!(shop.refused(&["config", "check"], 2).contains("outlast.toml is not UTF-8, at byte 10"));
    std::fs::remove_file(shop.folder().join("outlast.toml")).unwrap();
    std::fs::create_dir(shop.folder().join("outlast.toml")).unwrap();
    assert!(shop.refused(&["list"], 2).contains("outlast.toml cannot be read"));
}

#[test]
fn files_that_are_fine_are_called_so_and_all_that_are_not_are_named() {
    let shop = Shop::new();
    let checked = shop.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.err.contains("no file of settings"), "{checked:?}");
    write(&shop, "outlast.toml", "a = \"b\"\n");
    write(&shop, USER, "c = \"d\"\n");
    let checked = shop.run(&["config", "check"]);
    assert_eq!((checked.code, checked.err.lines().count()), (2, 2), "{checked:?}");
    write(&shop, "outlast.toml", "time = \"utc\"\n");
    write(&shop, USER, "[profile.a]\nurl = \"http://localhost\"\ntoken = \"s\"\n");
    let checked = shop.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.err.contains("2 files fine: outlast.toml, "), "{checked:?}");
    #[cfg(unix)]
    assert!(
        checked.err.contains("has a secret, and others on this machine can read it: chmod 600"),
        "{checked:?}"
    );
}

#[test]
fn a_profile_that_names_a_server_is_not_taken_for_the_database_here() {
    let shop = Shop::new();
    write(&shop, USER, "[profile.prod]\nurl = \"https://ops.example\"\n");
    for command in [&["migrate", "up"][..], &["dev"], &["serve"], &["bench"], &["backup", "copy.db"]] {
        let args: Vec<&str> = command.iter().chain(&["--profile", "prod"]).copied().collect();
        let refused = shop.refused(&args, 2);
        assert!(refused.contains("works on the database itself"), "{command:?}: {refused}");
    }
    assert!(!shop.folder().join("outlast.db").exists());
    // Said closer by, a database counts.
    shop.ok(&["migrate", "up", "--profile", "prod", "--database-url", "sqlite://outlast.db"]);
    assert!(shop.folder().join("outlast.db").exists());
}

#[test]
fn ports_and_addresses_that_cannot_be_are_refused() {
    let shop = Shop::new();
    for args in [
        &["dev", "--port", "70000"][..],
        &["dev", "--port=-1"],
        &["serve", "--listen", "127.0.0.1:70000"],
        &["serve", "--listen", "here"],
    ] {
        let refused = shop.run(args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.err.contains("70000") || refused.err.contains("-1") || refused.err.contains("here"));
    }
}

#[cfg(unix)]
#[test]
fn settings_are_edited_in_the_editor_of_ones_choice_and_looked_at_afterwards() {
    use std::os::unix::fs::PermissionsExt;
    let shop = Shop::new();
    let editor = shop.folder().join("editor");
    write(&shop, "editor", "#!/bin/sh\nprintf '%s' \"$1\" >> \"$2\"\n");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let edit = |what: &str, more: &[&str]| {
        let editor = format!("{} {what}", editor.display());
        let args: Vec<&str> = ["config", "edit"].iter().chain(more).copied().collect();
        let output = shop.command(&args).env_remove("VISUAL").env("EDITOR", editor).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    // A file that is new is one's own, and has all that could be set in it.
    let (code, told) = edit("time=\"utc\"", &[]);
    assert!(code == 0 && told.contains("config.toml is fine"), "{told}");
    let made = shop.folder().join(USER);
    let text = std::fs::read_to_string(&made).unwrap();
    assert!(text.contains("# database_url = ") && text.ends_with("time=\"utc\""), "{text}");
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(shop.ok(&["config", "show", "--origin"]).contains("utc"));

    // What cannot be read is told, and can be opened again.
    let (code, told) = edit("nonsense", &[]);
    assert!(code == 2 && told.contains("config.toml:") && told.contains("opens it again"), "{told}");
    assert_eq!(shop.run(&["list"]).code, 2);
    let (code, told) = edit("-", &["--project"]);
    assert!(code == 2 && told.contains("outlast.toml:"), "{told}");

    let mut command = shop.command(&["config", "edit"]);
    let none = command.env("VISUAL", "no-such-editor").output().unwrap();
    let told = String::from_utf8(none.stderr).unwrap();
    assert!(none.status.code() == Some(1) && told.contains("name another in VISUAL or EDITOR"), "{told}");
}

#[cfg(unix)]
#[test]
fn words_that_are_not_utf_8_are_refused_and_nothing_panics() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let shop = Shop::new();
    let bad = OsStr::from_bytes(b"\xff\xfe");
    for command in ["show", "start", "list"] {
        let output = shop.command(&[command]).arg(bad).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.starts_with("error: ") && err.contains("UTF-8") && !err.contains("panicked"), "{err}");
    }
    let output = shop.command(&["list"]).env("OUTLAST_OUTPUT", bad).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && err.contains("OUTLAST_OUTPUT is not UTF-8"), "{err}");
}
