//! Where a workload runs: a fresh database for each, so that none pays for what another left behind.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use outlast_store::DynStore;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A kind of database to measure on.
pub enum Place {
    /// The URL of any database of a server on which we may create others.
    Postgres(String),
    /// A folder on the disk that is to be measured.
    Sqlite(TempDir),
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    pub fn name(&self) -> &'static str {
        match self {
            Place::Postgres(_) => "postgres",
            Place::Sqlite(_) => "sqlite",
        }
    }

    /// A new database with our schema and nothing in it.
    pub async fn fresh(&self) -> Result<Fresh> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let fresh = match self {
            Place::Postgres(url) => {
                let name = format!("bench_{}_{number}", std::process::id());
                let admin = connect(url).await?;
                admin.batch_execute(&format!("create database {name}")).await?;
                let (server, _) = url.rsplit_once('/').context("the URL names no database")?;
                Fresh { url: format!("{server}/{name}"), file: None, drop: Some((url.clone(), name)) }
            }
            Place::Sqlite(folder) => {
                let file = folder.path().join(format!("bench-{number}.db"));
                Fresh { url: format!("sqlite://{}", file.display()), file: Some(file), drop: None }
            }
        };
        drop(fresh.open().await?);
        Ok(fresh)
    }
}

/// A database for one workload.
pub struct Fresh {
    pub url: String,
    /// The file, on SQLite.
    pub file: Option<PathBuf>,
    drop: Option<(String, String)>,
}

impl Fresh {
    pub async fn open(&self) -> Result<DynStore> {
        Ok(outlast_store::open(&self.url, Default::default()).await?)
    }

    /// Our schema is PostgreSQL's or SQLite's.
    pub fn is_postgres(&self) -> bool {
        self.file.is_none()
    }

    /// How much log its server has written, where there is a server, and how much room our tables take; in bytes.
    pub async fn sizes(&self) -> Result<(Option<f64>, f64)> {
        if let Some(file) = &self.file {
            return Ok((None, std::fs::metadata(file)?.len() as f64));
        }
        let room = "select (pg_current_wal_insert_lsn() - '0/0')::float8,
                           (select sum(pg_total_relation_size(c.oid))::float8 from pg_class as c
                             where c.relkind = 'r' and c.relnamespace = 'outlast'::regnamespace)";
        let row = connect(&self.url).await?.query_one(room, &[]).await?;
        Ok((Some(row.get(0)), row.get(1)))
    }

    /// Removes it again: a million rows of one workload would fill the disk of the next.
    pub async fn remove(self) -> Result<()> {
        if let Some((url, name)) = &self.drop {
            connect(url).await?.batch_execute(&format!("drop database {name} with (force)")).await?;
        }
        for behind in ["", "-wal", "-shm", "-owner"] {
            if let Some(file) = &self.file {
                let _ = std::fs::remove_file(format!("{}{behind}", file.display()));
            }
        }
        Ok(())
    }
}

/// A bare connection to PostgreSQL.
pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("cannot connect")?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("the connection broke: {error}");
        }
    });
    Ok(client)
}
