//! The wire between a node and its database, which can go dead: nothing gets through, and nobody is told.
//!
//! What was on its way arrives when the wire is mended, long after whoever sent it has lost its lease.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Wire {
    is_live: watch::Sender<bool>,
    carries: JoinHandle<()>,
}

impl Wire {
    /// Lays a wire to a server that is reached through a socket; gives the address of this end. None where the
    /// database is no such server.
    pub(crate) fn lay(url: &str, folder: &Path) -> Result<Option<(Wire, String)>> {
        let Some((server, file)) = socket(url) else { return Ok(None) };
        std::fs::create_dir_all(folder)?;
        let listener = UnixListener::bind(folder.join(&file)).context("cannot listen")?;
        let is_live = watch::Sender::new(true);
        let carries = tokio::spawn(carry(listener, server.join(file), is_live.subscribe()));
        let url = url.replace(&encoded(&server), &encoded(folder));
        Ok(Some((Wire { is_live, carries }, url)))
    }

    pub(crate) fn cut(&self) {
        self.is_live.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.is_live.send_replace(true);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.carries.abort();
    }
}

/// The folder of a server's socket and the name of the file there, from `postgres://user@%2Ffolder:port/name`.
fn socket(url: &str) -> Option<(PathBuf, String)> {
    let (host, port) =
        url.strip_prefix("postgres://")?.split_once('@')?.1.split_once('/')?.0.split_once(':')?;
    let folder = host.starts_with("%2F").then(|| PathBuf::from(host.replace("%2F", "/")))?;
    Some((folder, format!(".s.PGSQL.{port}")))
}

fn encoded(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}

async fn carry(listener: UnixListener, server: PathBuf, is_live: watch::Receiver<bool>) {
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = UnixStream::connect(&server).await else { continue };
        let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
        tokio::spawn(pump(from_near, to_far, is_live.clone()));
        tokio::spawn(pump(from_far, to_near, is_live.clone()));
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_live: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let is_gone = is_live.wait_for(|live| *live).await.is_err();
        if is_gone || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
