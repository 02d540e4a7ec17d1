//! Where the database is, and how the commands open it.
//!
//! `dev` makes the database and owns it. Every other command is a guest: it never makes a file, never
//! touches a schema, and says who has to come first.

use std::path::{Path, PathBuf};

use outlast::{Client, Outlast};
use outlast_store::{DynStore, OpenOptions};

use crate::Program;
use crate::fault::{Exit, Fault};
use crate::output::{call, quoted};

/// The database when nobody says otherwise.
pub(crate) const DEFAULT_URL: &str = "sqlite://outlast.db";

/// A database that was named on the command line.
pub(crate) struct Place {
    url: String,
}

impl Place {
    pub(crate) fn new(url: String) -> Place {
        Place { url }
    }

    /// The URL as it was given. It may hold a password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens it for `dev`: makes it and brings its schema up to date.
    pub(crate) async fn open(&self) -> Result<DynStore, Fault> {
        Ok(outlast_store::open(&self.url, OpenOptions::default()).await?)
    }

    /// Opens it for `serve`: there has to be one, of our version unless it may be brought up to date.
    pub(crate) async fn open_to_serve(&self, migrate: bool) -> Result<DynStore, Fault> {
        let options = OpenOptions { no_migrate: !migrate, ..OpenOptions::default() };
        let url = if migrate { &self.url } else { self.guest()? };
        Ok(outlast_store::open(url, options).await?)
    }

    /// Opens it as a guest.
    pub(crate) async fn client(&self) -> Result<Client, Fault> {
        Ok(self.outlast().await?.client())
    }

    /// The same with the code that the program has, for whoever sends an input that it may not take.
    pub(crate) async fn client_with(&self, program: &Program) -> Result<Client, Fault> {
        Ok(program.code(self.outlast().await?).client())
    }

    async fn outlast(&self) -> Result<Outlast, Fault> {
        let options = OpenOptions { no_migrate: true, tells_first: true, ..OpenOptions::default() };
        Ok(Outlast::on(outlast_store::open(self.guest()?, options).await?))
    }

    /// The URL for a guest: there has to be a database.
    pub(crate) fn guest(&self) -> Result<&str, Fault> {
        if self.is_memory() {
            let why =
                "a database in memory is gone with its process: name the file that the other process has";
            return Err(Fault::usage(why));
        }
        if let Some(file) = self.file().filter(|file| !file.exists()) {
            let message = format!(
                "there is no database {}: run `{}` first (`{}` makes one without samples), or name another with --database-url",
                file.display(),
                call("dev"),
                call("migrate up")
            );
            return Err(Fault::new(Exit::NotFound, "not_found", message));
        }
        Ok(&self.url)
    }

    fn file(&self) -> Option<PathBuf> {
        let path = self.url.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path);
        Some(Path::new(path).to_owned()).filter(|_| !path.is_empty() && path != ":memory:")
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.url.as_str(), "sqlite::memory:" | "sqlite://:memory:")
    }

    /// For people: a file with its whole path, a URL without its password.
    pub(crate) fn shown(&self) -> String {
        match self.file() {
            Some(file) => std::path::absolute(&file).unwrap_or(file).display().to_string(),
            None if self.is_memory() => "memory".to_owned(),
            None => without_password(&self.url),
        }
    }

    /// What a command in another terminal must be given to find this database; nothing for the usual one.
    pub(crate) fn argument(&self) -> String {
        match self.url.as_str() {
            DEFAULT_URL => String::new(),
            // A password does not belong on a screen.
            url if without_password(url) != url => " --database-url \"$OUTLAST_DATABASE_URL\"".to_owned(),
            url => format!(" --database-url {}", quoted(url)),
        }
    }
}

/// The URL with stars where its password is.
pub(crate) fn without_password(url: &str) -> String {
    let hidden = || {
        let (scheme, rest) = url.split_once("://")?;
        let (who, rest) = rest.rsplit_once('@')?;
        let (user, _) = who.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{rest}"))
    };
    let url = hidden().unwrap_or_else(|| url.to_owned());
    match url.split_once("password=") {
        Some((before, _)) => format!("{before}password=***"),
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        Place::new(url.to_owned())
    }

    #[test]
    fn a_password_reaches_no_screen() {
        for url in ["postgres://ann:hunter2@host/db", "postgres://host/db?user=ann&password=hunter2"] {
            let place = place(url);
            assert!(!place.shown().contains("hunter2") && !place.argument().contains("hunter2"), "{url}");
        }
        assert_eq!(place("postgres://ann@host/db").shown(), "postgres://ann@host/db");
    }

    #[test]
    fn commands_for_another_terminal_name_only_an_unusual_database() {
        assert_eq!(place(DEFAULT_URL).argument(), "");
        assert_eq!(place("sqlite://shop.db").argument(), " --database-url sqlite://shop.db");
        assert_eq!(place("sqlite://my shop.db").argument(), " --database-url 'sqlite://my shop.db'");
    }
}
