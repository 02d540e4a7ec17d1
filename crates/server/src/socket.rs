//! The Unix socket at which `serve` answers beside its address.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use axum::Router;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::fault::{Exit, Fault};
use crate::http;

/// A Unix socket that this user alone reaches.
pub(crate) struct Socket {
    file: PathBuf,
    listener: UnixListener,
}

impl Socket {
    /// Takes a file that is not there, or that a server left behind which is gone.
    pub(crate) fn take(file: PathBuf) -> Result<Socket, Fault> {
        let refused = |why: String| {
            let message = format!("cannot listen at {}: {why}", file.display());
            Fault::new(Exit::Conflict, "conflict", message)
        };
        if let Ok(found) = fs::symlink_metadata(&file) {
            if !found.file_type().is_socket() {
                return Err(refused("there is another file: name one that is not there".to_owned()));
            }
            if std::os::unix::net::UnixStream::connect(&file).is_ok() {
                return Err(refused("another server answers there".to_owned()));
            }
            fs::remove_file(&file).map_err(|error| refused(error.to_string()))?;
        }
        let listener = bind(&file).map_err(|error| refused(error.to_string()))?;
        Ok(Socket { file, listener })
    }

    /// Answers until it is told to stop; then the file goes.
    pub(crate) async fn serve(self, router: Router, stopping: CancellationToken) {
        http::serve_unix(self.listener, router, stopping).await;
        let _ = fs::remove_file(&self.file);
    }
}

/// Binds in a folder that nobody else can enter, so that there is no moment at which others could connect.
fn bind(file: &Path) -> io::Result<UnixListener> {
    let mut folder = file.to_owned().into_os_string();
    folder.push(format!(".{}", std::process::id()));
    let folder = PathBuf::from(folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let bound = || {
        let inner = folder.join("s");
        let listener = UnixListener::bind(&inner)?;
        fs::set_permissions(&inner, Permissions::from_mode(0o600))?;
        fs::rename(&inner, file)?;
        Ok(listener)
    };
    let bound = bound();
    fs::remove_dir_all(&folder)?;
    bound
}
