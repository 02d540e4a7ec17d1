//! `outlast config`: what counts, where it comes from, and whether the files can be read.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::ConfigCommand;
use crate::config::{File, Found, Setting, Settings};
use crate::fault::Fault;
use crate::output::{BOLD, Column, Format, Row, note, print, print_list, table};
use crate::words::count;

#[derive(Serialize)]
struct SettingJson {
    key: &'static str,
    value: String,
    origin: String,
}

/// Does what was asked about settings that could be settled.
pub(crate) fn config(command: &ConfigCommand, settings: &Settings, format: Format) -> Result<(), Fault> {
    match command {
        ConfigCommand::Show(args) => show(settings, args.origin, format),
        // It was looked at before anything else could be.
        ConfigCommand::Check => Ok(()),
    }
}

fn show(settings: &Settings, origin: bool, format: Format) -> Result<(), Fault> {
    let all = settings.all();
    if !format.is_text() {
        let shape = |setting: &Setting| SettingJson {
            key: setting.key,
            value: setting.shown(),
            origin: setting.origin.to_string(),
        };
        return print_list(format, all.iter().map(shape).collect(), false, |setting| setting.key.to_owned());
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
