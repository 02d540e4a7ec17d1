//! `outlast config`: what counts, where it comes from, whether the files can be read, and an editor for them.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;

use crate::cli::{ConfigCommand, ConfigEditArgs};
use crate::config::{self, File, Found, KEYS, Setting, Settings, ShownSetting};
use crate::fault::{Exit, Fault};
use crate::output::{BOLD, Column, Format, Row, call, note, print, print_list, table};
use crate::words::count;

/// What edits where nobody says otherwise.
const EDITOR: &str = "vi";

/// Does what was asked about settings that could be settled.
pub(crate) fn config(command: &ConfigCommand, settings: &Settings, format: Format) -> Result<(), Fault> {
    match command {
        ConfigCommand::Show(args) => show(settings, args.origin, format),
        // They were done before anything else could be.
        ConfigCommand::Check | ConfigCommand::Edit(_) => Ok(()),
    }
}

fn show(settings: &Settings, origin: bool, format: Format) -> Result<(), Fault> {
    let all = settings.all();
    if !format.is_text() {
        let items: Vec<ShownSetting> = all.iter().map(ShownSetting::from).collect();
        return print_list(format, items, false, |setting| setting.key.clone());
    }
    if let Some(profile) = &settings.profile {
        note(&format!("profile {profile}"));
    }
    let mut columns = vec![Column { head: "SETTING", spare: 0 }, Column { head: "VALUE", spare: 0 }];
    if origin {
        columns.push(Column { head: "FROM", spare: 0 });
    }
    let row = |setting: &Setting| {
        let mut cells = vec![setting.key.to_owned(), setting.shown()];
        if origin {
            cells.push(setting.origin.to_string());
        }
        Row { style: BOLD, cells }
    };
    print(&table(&columns, &all.iter().map(row).collect::<Vec<_>>()))
}

/// Looks at every file, whatever one of them says; the files that can be read, in their order.
pub(crate) fn check(
    paths: &[PathBuf],
    settle: impl FnOnce(Vec<File>) -> Result<Settings, Fault>,
) -> Result<(), Fault> {
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for path in paths {
        match File::look(path) {
            Ok(Found::Nothing) => {}
            Ok(Found::File(file)) => {
                if file.shows_secret() {
                    note(&open_secret(&file));
                }
                files.push(file);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if let Some(last) = faults.pop() {
        faults.iter().for_each(crate::output::print_error);
        return Err(last);
    }
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    settle(files)?;
    match names.as_slice() {
        [] => note("no file of settings: defaults, flags and OUTLAST_… count"),
        names => note(&format!("{} fine: {}", count(names.len(), "file"), names.join(", "))),
    }
    Ok(())
}

/// A secret that others on this machine can read.
pub(crate) fn open_secret(file: &File) -> String {
    let path = file.path.display();
    format!("warning: {path} has a secret, and others on this machine can read it: chmod 600 {path}")
}

/// Opens a file of settings in an editor, and looks at it afterwards.
pub(crate) fn edit(args: &ConfigEditArgs) -> Result<(), Fault> {
    let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut paths = config::paths(&env).into_iter();
    let project = paths.next();
    let file = if args.project { project } else { paths.next() };
    let file = file.ok_or_else(|| Fault::usage("nobody says where your settings are: set HOME"))?;
    if !file.exists() {
        begin(&file).map_err(|error| {
            Fault::new(Exit::Failed, "io", format!("{} cannot be made: {error}", file.display()))
        })?;
    }
    let editor = env("VISUAL").or_else(|| env("EDITOR")).unwrap_or_else(|| OsString::from(EDITOR));
    open(&editor, &file)?;
    let path = file.display().to_string();
    let again = |fault: Fault| {
        let edit = if args.project { "config edit --project" } else { "config edit" };
        Fault::usage(format!("{}: `{}` opens it again", fault.message(), call(edit)))
    };
    match File::look(&file).map_err(again)? {
        Found::Nothing => note(&format!("{path} is gone")),
        Found::File(read) => {
            if read.shows_secret() {
                note(&open_secret(&read));
            }
            note(&format!("{path} is fine"));
        }
    }
    Ok(())
}

/// Runs an editor, which may have arguments of its own, until it ends.
fn open(editor: &OsString, file: &Path) -> Result<(), Fault> {
    let remedy = "name another in VISUAL or EDITOR";
    let Some(words) = editor.to_str() else {
        return Err(Fault::usage(format!("the name of the editor is not UTF-8: {remedy}")));
    };
    let mut words = words.split_whitespace();
    let program = words.next().unwrap_or(EDITOR);
    let failed =
        |why: String| Fault::new(Exit::Failed, "io", format!("the editor {program} {why}: {remedy}"));
    let ended = process::Command::new(program).args(words).arg(file).status();
    match ended.map_err(|error| failed(format!("cannot be run ({error})")))? {
        status if status.success() => Ok(()),
        status => Err(failed(format!("ended badly ({status}), and {} is not looked at", file.display()))),
    }
}

/// Makes a file that others cannot read, with everything that could stand in it.
fn begin(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut text = String::from("# Settings of outlast. `outlast config show --origin` says which count.\n");
    for (key, about) in KEYS {
        text += &format!("# {key} = \"…\"  # {about}\n");
    }
    text += "\n# The same under a name, for --profile NAME:\n# [profile.NAME]\n# url = \"https://…\"\n# token = \"ol_live_…\"\n";
    options.open(file)?.write_all(text.as_bytes())
}
