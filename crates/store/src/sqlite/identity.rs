//! Whether the file that we have open is still the one that its name means.
//!
//! A file that was removed or replaced can be written to as long as somebody has it open, and all of that is gone when they
//! close it. So nothing is begun once its name means another file, or none: whoever is told that something is durable
//! finds it again.

use std::path::{Path, PathBuf};

use crate::StoreError;

/// A file, as it was when it was opened.
#[derive(Debug)]
pub(super) struct Identity {
    file: PathBuf,
    opened: Option<Number>,
}

/// What the system calls a file, whatever its name.
type Number = (u64, u64);

impl Identity {
    pub(super) fn of(file: &Path) -> Identity {
        Identity { file: file.to_owned(), opened: number(file) }
    }

    /// Refuses if the name means something else by now. It may mean the same again later: whoever moved the file away can
    /// move it back.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.opened.is_none() || number(&self.file) == self.opened {
            return Ok(());
        }
        let file = self.file.display();
        let why = format!(
            "{file} was removed or replaced while it was in use, so nothing more is written: move it back, or start this \
             program again on what is there now"
        );
        Err(StoreError::Unavailable(why.into()))
    }
}

#[cfg(unix)]
fn number(file: &Path) -> Option<Number> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino()))
}

/// Nobody can remove a file there that is open.
#[cfg(not(unix))]
fn number(_: &Path) -> Option<Number> {
    None
}
