//! Volumes: the files in which extents lie one after the other.
//!
//! A volume's name says its number, and whether it may still hold bytes that nobody keeps: `17.open` while it is
//! written to, `17` once it is sealed.

use crate::aligned::Aligned;
use crate::frame::SECTOR;
use crate::holes::Holes;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tepui_files::{Create, File, FileSystem, OpenOptions};

/// What the name of a volume ends with before it is sealed.
const OPEN: &str = "open";

pub(crate) fn sealed_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(number.to_string())
}

pub(crate) fn open_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.{OPEN}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Sealed(u64),
    /// An earlier run was writing to it when it ended.
    LeftOver(u64),
}

impl Found {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Sealed(number) | Self::LeftOver(number) => number,
        }
    }
}

/// The volumes in a folder, in no order.
pub(crate) fn find(files: &dyn FileSystem, folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for name in files.names(folder)? {
        match name.to_str().and_then(parse) {
            Some(volume) => found.push(volume),
            None => tracing::warn!(?name, folder = %folder.display(), "not a volume: left alone"),
        }
    }
    Ok(found)
}

fn parse(name: &str) -> Option<Found> {
    let (number, kind): (&str, fn(u64) -> Found) = match name.split_once('.') {
        Some((number, OPEN)) => (number, Found::LeftOver),
        Some(_) => return None,
        None => (name, Found::Sealed),
    };
    // Only as we write it: there is one name for each number.
    number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number).map(kind)
}

/// A volume that this run writes to. One writer has it at a time.
pub(crate) struct Volume {
    pub(crate) number: u64,
    file: Box<dyn File>,
    way: Way,
    /// How many writes, cuts and syncs have failed. After the first one nothing more is written: what the kernel says about
    /// these bytes from then on is worth nothing.
    failures: AtomicU64,
    /// One sync at a time, for a failure may be told to only one of those who wait for it.
    syncing: Mutex<()>,
}

/// The way to the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Past the page cache: twice as fast, and the memory is left to those who read.
    Direct,
    /// Where the file system knows no other.
    Cached,
}

impl Volume {
    /// Makes the file. It is there for good once the folder is synced.
    pub(crate) fn create(
        files: &dyn FileSystem,
        folder: &Path,
        number: u64,
        direct: bool,
    ) -> io::Result<Self> {
        let path = open_path(folder, number);
        let cached = files.open(&path, OpenOptions::create(Create::New))?;
        let (file, way) = match direct.then(|| open_direct(files, &path)).flatten() {
            Some(file) => (file, Way::Direct),
            None => (cached, Way::Cached),
        };
        Ok(Self { number, file, way, failures: AtomicU64::new(0), syncing: Mutex::new(()) })
    }

    /// Whether what was written is on its way to the disk before it is synced.
    pub(crate) fn is_direct(&self) -> bool {
        self.way == Way::Direct
    }

    /// Writes whole sectors, which begin at one in memory too.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.count_failure(self.file.write_all_at(bytes, offset))
    }

    /// Brings everything that was written to the disk, if nothing has failed before.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let _one = self.syncing();
        if !self.is_good() {
            return Err(io::Error::other("an earlier write or sync failed"));
        }
        self.count_failure(self.file.sync_data())
    }

    /// Waits for a sync that is under way.
    pub(crate) fn wait_for_sync(&self) {
        drop(self.syncing());
    }

    pub(crate) fn is_good(&self) -> bool {
        self.failures() == 0
    }

    /// Takes back what was written after `end`.
    pub(crate) fn cut(&self, end: u64) -> io::Result<()> {
        self.count_failure(self.file.set_length(end))
    }

    /// Gives back parts of the file, for good.
    ///
    /// Through the same handle as all others: a sync that fails may drop what someone else has written, who must not be told
    /// afterwards that it is on the disk.
    pub(crate) fn free(&self, holes: &Holes, places: &[Range<u64>]) -> io::Result<()> {
        let before = self.failures();
        for place in places {
            holes.make(self.number, &*self.file, place.clone())?;
        }
        let _one = self.syncing();
        if self.failures() != before {
            return Err(io::Error::other("a write or sync failed meanwhile"));
        }
        self.count_failure(self.file.sync_data())
    }

    /// Makes sure that there is nothing after `end`, also after a crash, and gives the file the name of a sealed
    /// one. That is for good once the folder is synced.
    pub(crate) fn seal(&self, files: &dyn FileSystem, folder: &Path, end: u64) -> io::Result<()> {
        {
            let _one = self.syncing();
            self.count_failure(self.file.set_length(end).and_then(|()| self.file.sync_data()))?;
        }
        files.rename(&open_path(folder, self.number), &sealed_path(folder, self.number))
    }

    fn count_failure(&self, outcome: io::Result<()>) -> io::Result<()> {
        if outcome.is_err() {
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
        outcome
    }

    fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    fn syncing(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file, to be written past the page cache, if that is possible here. Some file systems refuse it only when they are written
/// to, so that is tried.
fn open_direct(files: &dyn FileSystem, path: &Path) -> Option<Box<dyn File>> {
    let file = files.open(path, OpenOptions::write().direct()).ok()?;
    let mut sector = Aligned::new(SECTOR);
    sector.pad(SECTOR);
    file.write_all_at(&sector, 0).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_volume_is() {
        for (name, expected) in [
            ("17", Some(Found::Sealed(17))),
            ("17.open", Some(Found::LeftOver(17))),
            ("0", Some(Found::Sealed(0))),
            ("17.closed", None),
            ("017", None),
            ("+17", None),
            ("", None),
            (".open", None),
            ("17.open.open", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse(name), expected, "{name}");
        }
    }
}
