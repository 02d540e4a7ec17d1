//! A disk that keeps what was synced, and of the rest whatever chance leaves of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use fastrand::Rng;

use super::trace::Event;

/// What a disk writes whole, or not at all.
const SECTOR: usize = 512;

/// The files of a database, by the ends of their names.
#[derive(Default)]
pub(super) struct Disk(BTreeMap<String, Image>);

/// One file.
#[derive(Default)]
struct Image {
    synced: Vec<u8>,
    /// What has been done since, in order.
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { at, bytes } => {
                image.resize(image.len().max(at + bytes.len()), 0);
                image[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Resize(length) => image.resize(*length, 0),
        }
    }
}

impl Disk {
    /// Something happens to a file.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Write { file, at, bytes } => {
                let change = Change::Write { at: *at, bytes: bytes.clone() };
                self.0.entry(file.clone()).or_default().pending.push(change);
            }
            Event::Resize { file, length } => {
                self.0.entry(file.clone()).or_default().pending.push(Change::Resize(*length));
            }
            Event::Sync { file } => {
                let image = self.0.entry(file.clone()).or_default();
                std::mem::take(&mut image.pending).iter().for_each(|change| change.apply(&mut image.synced));
            }
            Event::SyncFailed { file } => self.0.entry(file.clone()).or_default().pending.clear(),
            Event::Remove { file } => drop(self.0.remove(file)),
            Event::Said(_) => {}
        }
    }

    /// The power goes: writes into `folder` what may be left, and tells how many changes were lost or torn.
    pub(super) fn lose_power(&self, folder: &Path, rng: &mut Rng) -> Result<usize> {
        let mut lost = 0;
        for (name, Image { synced, pending }) in &self.0 {
            let mut image = synced.clone();
            // Sometimes nothing was written behind our back, sometimes all but one was.
            let odds = rng.u8(..=4);
            for change in pending {
                if rng.u8(..4) >= odds {
                    lost += 1;
                    continue;
                }
                match change {
                    Change::Write { at, bytes } if bytes.len() > SECTOR && rng.u8(..4) == 0 => {
                        lost += 1;
                        let kept = rng.usize(..bytes.len() / SECTOR) * SECTOR;
                        Change::Write { at: *at, bytes: bytes[..kept].to_vec() }.apply(&mut image);
                    }
                    change => change.apply(&mut image),
                }
            }
            let path = folder.join(name);
            fs::write(&path, image).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_sync_was_about_is_lost_whatever_is_synced_later() {
        let file = || "runs.db".to_owned();
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::default();
        disk.take(&Event::Write { file: file(), at: 0, bytes: vec![1; 8] });
        disk.take(&Event::SyncFailed { file: file() });
        disk.take(&Event::Sync { file: file() });
        disk.lose_power(folder.path(), &mut Rng::with_seed(1)).unwrap();
        assert!(fs::read(folder.path().join("runs.db")).unwrap().is_empty());
    }

    #[test]
    fn what_was_synced_stays_and_what_was_not_may_go() {
        let file = || "runs.db".to_owned();
        let write = |at: usize, byte: u8| Event::Write { file: file(), at, bytes: vec![byte; 1024] };
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..64 {
            let mut disk = Disk::default();
            disk.take(&write(0, 1));
            disk.take(&Event::Sync { file: file() });
            disk.take(&write(1024, 2));
            disk.lose_power(folder.path(), &mut Rng::with_seed(seed)).unwrap();
            let left = fs::read(folder.path().join("runs.db")).unwrap();
            assert!(left[..1024].iter().all(|byte| *byte == 1));
            match left.len() {
                2048 => kept += 1,
                _ => lost += 1,
            }
        }
        assert!(kept > 5 && lost > 5, "kept {kept}, lost {lost}");
    }
}
