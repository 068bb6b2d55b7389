//! Volumes: the files in which extents lie one after the other.
//!
//! A volume's name says its number, and whether it may still hold bytes that nobody keeps: `17.open` while it is
//! written to, `17` once it is sealed.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// The volumes in a folder, in no order.
pub(crate) fn find(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
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
    file: File,
    way: Way,
    health: Mutex<Health>,
}

/// The way to the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Past the page cache: twice as fast, and the memory is left to those who read.
    Direct,
    /// Where the file system knows no other.
    Cached,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// A write or a sync failed. What the kernel says about these bytes from now on is worth nothing.
    Bad,
}

impl Volume {
    /// Makes the file. It is there for good once the folder is synced.
    pub(crate) fn create(folder: &Path, number: u64, direct: bool) -> io::Result<Self> {
        let path = open_path(folder, number);
        let (file, way) = match direct {
            true => create_direct(&path)?,
            false => create_cached(&path)?,
        };
        Ok(Self { number, file, way, health: Mutex::new(Health::Good) })
    }

    /// Whether what was written is on its way to the disk before it is synced.
    pub(crate) fn is_direct(&self) -> bool {
        self.way == Way::Direct
    }

    /// Writes whole sectors, which begin at one in memory too.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut file = &self.file;
        let written = file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes));
        if written.is_err() {
            *self.health() = Health::Bad;
        }
        written
    }

    /// Brings everything that was written to the disk, if nothing has failed before.
    ///
    /// One sync at a time, for a failure is told to only one of those who wait for it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut health = self.health();
        if *health == Health::Bad {
            return Err(io::Error::other("an earlier write or sync failed"));
        }
        let synced = self.file.sync_data();
        if synced.is_err() {
            *health = Health::Bad;
        }
        synced
    }

    /// Waits for a sync that is under way.
    pub(crate) fn wait_for_sync(&self) {
        drop(self.health());
    }

    pub(crate) fn is_good(&self) -> bool {
        *self.health() == Health::Good
    }

    /// Takes back what was written after `end`.
    pub(crate) fn cut(&self, end: u64) -> io::Result<()> {
        let cut = self.file.set_len(end);
        if cut.is_err() {
            *self.health() = Health::Bad;
        }
        cut
    }

    /// Makes sure that there is nothing after `end`, also after a crash, and gives the file the name of a sealed
    /// one. That is for good once the folder is synced.
    pub(crate) fn seal(&self, folder: &Path, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.file.sync_data()?;
        std::fs::rename(open_path(folder, self.number), sealed_path(folder, self.number))
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a file that can be written past the page cache, if that is possible here. Some file systems refuse it only when
/// they are written to, so that is tried.
fn create_direct(path: &Path) -> io::Result<(File, Way)> {
    #[cfg(target_os = "linux")]
    {
        use crate::{aligned::Aligned, frame::SECTOR};
        use std::os::unix::fs::OpenOptionsExt as _;
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let created = File::options().write(true).create_new(true).custom_flags(direct).open(path);
        if let Ok(mut file) = created {
            let mut sector = Aligned::new(SECTOR);
            sector.pad(SECTOR);
            if file.write_all(&sector).is_ok() {
                return Ok((file, Way::Direct));
            }
            std::fs::remove_file(path)?;
        }
    }
    create_cached(path)
}

fn create_cached(path: &Path) -> io::Result<(File, Way)> {
    Ok((File::options().write(true).create_new(true).open(path)?, Way::Cached))
}

/// Reads a part of a file that must be there.
#[cfg(unix)]
pub(crate) fn read(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read(file: &File, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => (bytes, offset) = (&mut bytes[count..], offset + count as u64),
        }
    }
    Ok(())
}

/// Reads a part of a file if that takes no longer than a copy: all of it is in memory. `false` where that cannot
/// be asked for.
#[cfg(target_os = "linux")]
pub(crate) fn read_cached(file: &File, offset: u64, bytes: &mut [u8]) -> bool {
    let length = bytes.len();
    let into = &mut [io::IoSliceMut::new(bytes)];
    rustix::io::preadv2(file, into, offset, rustix::io::ReadWriteFlags::NOWAIT) == Ok(length)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read_cached(_: &File, _: u64, _: &mut [u8]) -> bool {
    false
}

/// How many bytes are free for us on the disk that holds `path`.
#[cfg(unix)]
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Not asked for on this system: a full disk shows when it is written to.
#[cfg(not(unix))]
pub(crate) fn free_space(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Directories cannot be synced on this system, and need not be.
#[cfg(not(unix))]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
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
