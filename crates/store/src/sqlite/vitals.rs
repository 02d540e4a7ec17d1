//! How a file of SQLite is doing, and copies of it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Sqlite;
use super::connection::{reader, wait_for};
use super::error::meaning;
use crate::{SqliteVitals, StoreError, TableSize, Vitals, VitalsKind};

impl Sqlite {
    /// Runs whose node's lease was over then are orphans.
    pub(crate) async fn vitals(&self, since: i64) -> Result<Vitals, StoreError> {
        let version = rusqlite::version().to_owned();
        let Some(file) = self.file.clone() else {
            let vitals = SqliteVitals { journal_mode: "memory".to_owned(), ..SqliteVitals::default() };
            return Ok(Vitals { version, orphans: 0, kind: VitalsKind::Sqlite(vitals) });
        };
        let look = tokio::task::spawn_blocking(move || look(&file, since));
        let (orphans, vitals) = look.await.map_err(|error| StoreError::Unavailable(error.into()))??;
        Ok(Vitals { version, orphans, kind: VitalsKind::Sqlite(vitals) })
    }
}

impl Sqlite {
    /// Every page is looked at: nothing in the file knows the sum.
    pub(crate) async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        let Some(file) = self.file.clone() else { return Ok(Vec::new()) };
        let look = tokio::task::spawn_blocking(move || sizes(&file));
        look.await.map_err(|error| StoreError::Unavailable(error.into()))?
    }
}

fn sizes(file: &Path) -> Result<Vec<TableSize>, StoreError> {
    let connection = reader(file, false)?;
    let sql = "select m.tbl_name, sum(s.pgsize) from dbstat as s join sqlite_master as m on m.name = s.name
                where s.aggregate = true and m.tbl_name like 'outlast\\_%' escape '\\'
                group by m.tbl_name order by 2 desc, 1";
    wait_for(|| {
        let mut look = connection.prepare(sql)?;
        let rows = look.query_map([], |row| {
            let (name, bytes): (String, i64) = (row.get(0)?, row.get(1)?);
            let name = name.trim_start_matches("outlast_").to_owned();
            Ok(TableSize { name, bytes: u64::try_from(bytes).unwrap_or_default() })
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    })
}

fn look(file: &Path, since: i64) -> Result<(u64, SqliteVitals), StoreError> {
    let connection = reader(file, false)?;
    let damage = wait_for(|| {
        let mut check = connection.prepare("pragma quick_check(10)")?;
        let lines = check.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect::<Result<Vec<_>, _>>()
    })?;
    let (pages, page) = (number(&connection, "page_count")?, number(&connection, "page_size")?);
    let unused = number(&connection, "freelist_count")? * page;
    let journal_mode = wait_for(|| connection.query_row("pragma journal_mode", [], |row| row.get(0)))?;
    let orphans = "select count(*) from outlast_agenda a
                    where a.node is not null and not exists (
                        select 1 from outlast_members n
                         where n.shard = a.shard and n.id = a.node and n.lease_until > ?1)";
    let orphans: i64 = wait_for(|| connection.query_row(orphans, [since], |row| row.get(0)))?;
    let mut log = file.to_owned().into_os_string();
    log.push("-wal");
    let vitals = SqliteVitals {
        file: Some(file.to_owned()),
        damage: damage.into_iter().filter(|line| line != "ok").collect(),
        journal_mode,
        bytes: pages * page,
        unused,
        log_bytes: std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len()),
    };
    Ok((u64::try_from(orphans).unwrap_or_default(), vitals))
}

fn number(connection: &Connection, pragma: &str) -> Result<u64, StoreError> {
    let value: i64 = wait_for(|| connection.query_row(&format!("pragma {pragma}"), [], |row| row.get(0)))?;
    Ok(u64::try_from(value).unwrap_or_default())
}

/// Copies a database into a file that does not exist yet, while others go on with it: what the copy has is what there was
/// at one moment, without the room that nothing uses. It is durable, and looked at, when this returns.
pub(crate) fn copy(file: &Path, to: &Path) -> Result<u64, StoreError> {
    let unavailable = |error: std::io::Error| {
        StoreError::Unavailable(format!("cannot write {}: {error}", to.display()).into())
    };
    // Under another name until all of it is there.
    let mut partial = to.to_owned().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let copied = (|| {
        let connection = reader(file, false)?;
        // What is written is another file: this one stays as it is.
        wait_for(|| connection.pragma_update(None, "query_only", false))?;
        let name =
            partial.to_str().ok_or_else(|| StoreError::Address("the copy's name is not UTF-8".into()))?;
        wait_for(|| connection.execute("vacuum into ?1", [name]))?;
        let copy = Connection::open(&partial).map_err(meaning)?;
        let found: String = wait_for(|| copy.query_row("pragma quick_check(1)", [], |row| row.get(0)))?;
        drop(copy);
        if found != "ok" {
            return Err(StoreError::Refused(format!("the copy is damaged: {found}").into()));
        }
        let copy = std::fs::File::open(&partial).map_err(unavailable)?;
        copy.sync_all().map_err(unavailable)?;
        std::fs::rename(&partial, to).map_err(unavailable)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Where folders cannot be synced, their names are the file system's to keep.
        let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        copy.metadata().map(|copy| copy.len()).map_err(unavailable)
    })();
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied
}
