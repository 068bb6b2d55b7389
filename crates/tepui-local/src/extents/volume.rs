//! Volumes: append-only files of extents.
//!
//! The name of a volume says its number, and whether it may hold bytes that nothing refers to: `17.open` while it is written,
//! `17` once it is sealed.

use crate::extents::aligned_buffer::AlignedBuffer;
use crate::extents::frame::SECTOR_BYTES;
use crate::extents::holes::Holes;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_files::{Create, File, FileSystem, OpenOptions};

/// The extension of a volume before it is sealed.
const OPEN: &str = "open";

pub(crate) fn sealed_path(folder: &Path, number: u64) -> PathBuf {
    VolumeFile::Sealed(number).path(folder)
}

pub(crate) fn open_path(folder: &Path, number: u64) -> PathBuf {
    VolumeFile::Unsealed(number).path(folder)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeFile {
    Sealed(u64),
    /// An earlier run ended without sealing it.
    Unsealed(u64),
}

impl VolumeFile {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Sealed(number) | Self::Unsealed(number) => number,
        }
    }

    pub(crate) fn path(self, folder: &Path) -> PathBuf {
        folder.join(self.name())
    }

    /// The name of its file.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Sealed(number) => number.to_string(),
            Self::Unsealed(number) => format!("{number}.{OPEN}"),
        }
    }

    /// From the name of its file.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (number, kind): (&str, fn(u64) -> Self) = match name.split_once('.') {
            Some((number, OPEN)) => (number, Self::Unsealed),
            Some(_) => return None,
            None => (name, Self::Sealed),
        };
        // Only the canonical form: there is one name for each number.
        number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number).map(kind)
    }
}

/// Opens a volume under whichever name it has.
pub(crate) fn open_volume(
    files: &dyn FileSystem,
    folder: &Path,
    number: u64,
    options: OpenOptions,
) -> io::Result<Box<dyn File>> {
    let (sealed, open) = (sealed_path(folder, number), open_path(folder, number));
    let mut result = files.open(&sealed, options);
    // The first name once more: the volume may be sealed between two attempts.
    for path in [open, sealed] {
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => result = files.open(&path, options),
            _ => break,
        }
    }
    result
}

/// The volumes in a folder, in no order.
pub(crate) fn find(files: &dyn FileSystem, folder: &Path) -> io::Result<Vec<VolumeFile>> {
    let mut found = Vec::new();
    for name in files.names(folder)? {
        match name.to_str().and_then(VolumeFile::parse) {
            Some(volume) => found.push(volume),
            None => tracing::warn!(?name, folder = %folder.display(), "not a volume: ignored"),
        }
    }
    Ok(found)
}

/// A volume of this run. One writer has it at a time.
pub(crate) struct Volume {
    pub(crate) number: u64,
    file: Box<dyn File>,
    mode: WriteMode,
    /// How many writes, truncations and syncs have failed. After the first one nothing more is written: a later fsync proves
    /// nothing about these bytes.
    failures: AtomicU64,
    /// One sync at a time: the kernel may report a failure to only one of several.
    syncing: Mutex<()>,
}

/// How a volume is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    /// Direct I/O: twice as fast, and the page cache is left to readers.
    Direct,
    /// Through the page cache, where the file system has no direct I/O.
    Buffered,
}

impl Volume {
    /// Creates the file. Durable once the folder is synced.
    pub(crate) fn create(
        files: &dyn FileSystem,
        folder: &Path,
        number: u64,
        direct: bool,
    ) -> io::Result<Self> {
        let path = open_path(folder, number);
        let cached = files.open(&path, OpenOptions::create(Create::New))?;
        let (file, mode) = match direct.then(|| open_direct(files, &path)).flatten() {
            Some(file) => (file, WriteMode::Direct),
            None => (cached, WriteMode::Buffered),
        };
        Ok(Self { number, file, mode, failures: AtomicU64::new(0), syncing: Mutex::new(()) })
    }

    /// Whether writes go to the disk before they are synced.
    pub(crate) fn is_direct(&self) -> bool {
        self.mode == WriteMode::Direct
    }

    /// Writes whole sectors from an aligned buffer.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.count_failure(self.file.write_all_at(bytes, offset))
    }

    /// Makes everything that was written durable, if nothing has failed before.
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

    /// Discards what was written after `end`.
    pub(crate) fn truncate(&self, end: u64) -> io::Result<()> {
        self.count_failure(self.file.set_length(end))
    }

    /// Releases ranges of the file. Durable when this returns.
    ///
    /// Through the same handle as the writes: a failed sync may drop the writes of others, whose own sync must then fail as well.
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

    /// Truncates the file at `end` for good, and renames it. The name is durable once the folder is synced.
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
        self.syncing.lock()
    }
}

/// The file with direct I/O, if that is possible. Some file systems refuse it only when they are written to, so that is tried.
fn open_direct(files: &dyn FileSystem, path: &Path) -> Option<Box<dyn File>> {
    let file = files.open(path, OpenOptions::write().direct()).ok()?;
    let mut sector = AlignedBuffer::new(SECTOR_BYTES);
    sector.pad(SECTOR_BYTES);
    file.write_all_at(&sector, 0).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_volume_is() {
        for (name, expected) in [
            ("17", Some(VolumeFile::Sealed(17))),
            ("17.open", Some(VolumeFile::Unsealed(17))),
            ("0", Some(VolumeFile::Sealed(0))),
            ("17.closed", None),
            ("017", None),
            ("+17", None),
            ("", None),
            (".open", None),
            ("17.open.open", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(VolumeFile::parse(name), expected, "{name}");
        }
    }
}
