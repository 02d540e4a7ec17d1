//! Where a database is: the URL, read once and for all.
//!
//! A wrong address is a person's mistake, so each refusal names the thing and the remedy. Passwords
//! appear in none of them.

use std::path::{Path, PathBuf};

use crate::StoreError;

/// A database's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// SQLite without a file: gone with the store.
    Memory,
    /// SQLite's file.
    File(PathBuf),
    /// PostgreSQL: the URL as it was given. It may hold a password.
    Postgres(Secret),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Reads a URL.
pub(crate) fn place(url: &str) -> Result<Place, StoreError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        let hint = match url {
            "" => "the address of the database is empty".to_owned(),
            // A URL without its scheme can still hold a password.
            _ if url.contains('@') => "the address of the database has no scheme".to_owned(),
            _ => format!("`{url}` is not the address of a database"),
        };
        return refused(format!("{hint}: {KNOWN}"));
    };
    match scheme {
        "postgres" | "postgresql" => Ok(Place::Postgres(Secret(url.to_owned()))),
        "sqlite" => sqlite(rest),
        _ => refused(format!("there is no store for `{}:`: {KNOWN}", shown(scheme))),
    }
}

const KNOWN: &str = "use sqlite://file.db, sqlite::memory: or postgres://user@host/database";

fn sqlite(rest: &str) -> Result<Place, StoreError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match path {
        ":memory:" => return Ok(Place::Memory),
        "" => {
            return refused("the address names no file: write sqlite://orders.db, or sqlite::memory:".into());
        }
        _ => {}
    }
    if let Some((_, options)) = path.split_once('?')
        && options.contains('=')
    {
        return refused(format!("an SQLite address takes no options: leave `?{options}` away"));
    }
    Ok(Place::File(path.into()))
}

/// Looks whether a file can be opened or made there, for a better answer than SQLite's own.
pub(crate) fn check_file(file: &Path, may_create: bool) -> Result<(), StoreError> {
    let shown = file.display();
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => {
            return refused(format!("{shown} is a folder: name a file in it, such as {shown}/outlast.db"));
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return refused(format!("cannot look at {shown}: {error}")),
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return refused(format!("the folder {} of {shown} does not exist: make it first", folder.display()));
    }
    if !may_create {
        return refused(format!("{shown} does not exist: name an existing file, or allow migrations"));
    }
    Ok(())
}

fn shown(scheme: &str) -> String {
    scheme.chars().filter(|c| !c.is_control()).take(20).collect()
}

pub(crate) fn refused<T>(why: String) -> Result<T, StoreError> {
    Err(StoreError::Address(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        place(url).unwrap_err().to_string()
    }

    #[test]
    fn files_are_named_in_every_usual_way() {
        let file = |path: &str| Place::File(path.into());
        assert_eq!(place("sqlite://orders.db").unwrap(), file("orders.db"));
        assert_eq!(place("sqlite:orders.db").unwrap(), file("orders.db"));
        assert_eq!(place("sqlite://data/orders.db").unwrap(), file("data/orders.db"));
        assert_eq!(place("sqlite:///data/orders.db").unwrap(), file("/data/orders.db"));
        assert_eq!(place("sqlite:/data/orders.db").unwrap(), file("/data/orders.db"));
        assert_eq!(place("sqlite://my orders ä#1?.db").unwrap(), file("my orders ä#1?.db"));
    }

    #[test]
    fn memory_is_named_in_two_ways() {
        assert_eq!(place("sqlite::memory:").unwrap(), Place::Memory);
        assert_eq!(place("sqlite://:memory:").unwrap(), Place::Memory);
    }

    #[test]
    fn an_unknown_scheme_is_told_the_known_ones() {
        assert_eq!(
            refusal("mysql://root:secret@host/db"),
            "there is no store for `mysql:`: use sqlite://file.db, sqlite::memory: or \
             postgres://user@host/database"
        );
        assert!(
            refusal("orders.db").starts_with("`orders.db` is not the address of a database: use sqlite://")
        );
        assert!(refusal("").starts_with("the address of the database is empty: use sqlite://"));
    }

    #[test]
    fn a_missing_file_name_and_foreign_options_are_refused() {
        assert!(refusal("sqlite://").contains("names no file"));
        assert!(refusal("sqlite:").contains("names no file"));
        assert!(refusal("sqlite://orders.db?mode=rwc").contains("leave `?mode=rwc` away"));
    }

    #[test]
    fn a_password_is_never_shown() {
        let place = place("postgres://ann:hunter2@host/db").unwrap();
        assert!(!format!("{place:?}").contains("hunter2"));
        assert!(!refusal("ann-hunter2@host").contains("hunter2"));
    }
}
