//! Copies of a database that is in use.

use std::path::Path;

use crate::address::{Place, place};
use crate::{StoreError, sqlite};

/// Copies an SQLite database into a new file while others go on with it; gives the copy's bytes.
///
/// The copy is what there was at one moment, checked and durable. PostgreSQL has programs of its own for that, and is
/// refused with their names.
pub async fn backup(url: &str, to: &Path) -> Result<u64, StoreError> {
    let file = match place(url)? {
        Place::File(file) => file,
        Place::Memory => {
            return Err(StoreError::Address(
                "a database in memory is gone with its process: there is nothing to copy".into(),
            ));
        }
        Place::Postgres(_) => {
            return Err(StoreError::Address(
                "PostgreSQL has its own programs for backups: `pg_dump --format=custom --schema=outlast` for one database \
                 that can be restored anywhere, `pg_basebackup` for the whole server"
                    .into(),
            ));
        }
    };
    if to.exists() {
        return Err(StoreError::Address(format!("{} exists already: name a new file", to.display())));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let why =
            format!("the folder {} of {} does not exist: make it first", folder.display(), to.display());
        return Err(StoreError::Address(why));
    }
    let to = to.to_owned();
    let copy = tokio::task::spawn_blocking(move || sqlite::copy(&file, &to));
    copy.await.map_err(|error| StoreError::Unavailable(error.into()))?
}
