//! The manifest: which tables are live, which part of the write-ahead log was flushed to them, and which log segment there
//! must be.
//!
//! ```text
//! MAGIC
//! sequence number of the last batch that was flushed: u64
//! active segment of the log: u64, its groups after a clean shutdown, otherwise 0: u32
//! count: u32, then for each range that was lost to damage: its start and its end (length: u32, bytes)
//! count: u32, then for each table
//!   level: u8, id: u64, size of the file: u64, rows: u64, tombstones among them: u64,
//!   first key, last key (length: u16, bytes)
//! checksum of all before it: u64
//! ```
//!
//! Level 0 comes newest first. Every change writes a new manifest beside the old one, and renames it when it is on disk.

use super::SeqNo;
use super::levels::{Levels, LostRange};
use super::sorted_table::{SortedTable, TableMeta};
use crate::byte_reader::ByteReader;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tepui_files::{FileSystem, ReplaceError, read_file, replace_file};
use tepui_storage::{Key, StorageError};
use twox_hash::XxHash3_64;

pub(super) const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";
const MAGIC: [u8; 8] = *b"tepuiman";
const CHECKSUM_BYTES: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The last batch that was flushed.
    pub(super) flushed: SeqNo,
    pub(super) wal: WalPosition,
    pub(super) lost: Vec<LostRange>,
    /// With their levels.
    pub(super) tables: Vec<(u8, TableMeta)>,
}

/// Which log there must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalPosition {
    /// The active segment. 0: there is none yet.
    pub(crate) segment: u64,
    /// How many groups it has. Known only after a clean shutdown.
    pub(crate) groups: Option<u32>,
}

/// Why a manifest was not written.
#[derive(Debug)]
pub(crate) enum ManifestError {
    /// The old one is still in place.
    NotWritten(StorageError),
    /// After a crash it may be either one.
    Unknown(StorageError),
}

impl From<ManifestError> for StorageError {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::NotWritten(error) | ManifestError::Unknown(error) => error,
        }
    }
}

impl Manifest {
    pub(super) fn new(flushed: SeqNo, wal: WalPosition, levels: &Levels) -> Self {
        let table = |(level, table): (usize, &Arc<SortedTable>)| (level as u8, table.meta.clone());
        Self { flushed, wal, lost: levels.lost().to_vec(), tables: levels.tables().map(table).collect() }
    }

    /// `None`: there is none.
    pub(super) fn read(files: &dyn FileSystem, folder: &Path) -> Result<Option<Self>, StorageError> {
        let path = folder.join(NAME);
        let bytes = match read_file(files, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let damaged = || StorageError::corrupt(format!("the manifest is damaged: {}", path.display()));
        Self::parse(&bytes).map(Some).ok_or_else(damaged)
    }

    /// Durable when this returns, and so are the names of the tables that it lists.
    pub(super) fn write(&self, files: &dyn FileSystem, folder: &Path) -> Result<(), ManifestError> {
        let path = folder.join(NAME);
        replace_file(files, &path, &self.bytes()).map_err(|error| match error {
            ReplaceError::Nothing(error) => ManifestError::NotWritten(failed("write", &path, &error)),
            ReplaceError::Maybe(error) => ManifestError::Unknown(failed("write", &path, &error)),
        })
    }

    /// Whether a file in the folder is a manifest.
    pub(super) fn is_manifest(name: &str) -> bool {
        name == NAME || name == NEW_NAME
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.flushed.to_le_bytes());
        bytes.extend_from_slice(&self.wal.segment.to_le_bytes());
        bytes.extend_from_slice(&self.wal.groups.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&(self.lost.len() as u32).to_le_bytes());
        for bound in self.lost.iter().flat_map(|LostRange { start, end }| [start, end]) {
            bytes.extend_from_slice(&(bound.len() as u32).to_le_bytes());
            bytes.extend_from_slice(bound);
        }
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for (level, table) in &self.tables {
            bytes.push(*level);
            for number in [table.id, table.bytes, table.rows, table.tombstones] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_key(&mut bytes, &table.first);
            put_key(&mut bytes, &table.last);
        }
        bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(checked(bytes)?.strip_prefix(&MAGIC)?);
        let (flushed, segment, groups) = (reader.u64()?, reader.u64()?, reader.u32()?);
        let wal = WalPosition { segment, groups: (groups > 0).then_some(groups) };
        let mut manifest = Self { flushed, wal, lost: Vec::new(), tables: Vec::new() };
        for _ in 0..reader.u32()? {
            let mut bound = || {
                let length = reader.u32()? as usize;
                reader.take(length).map(Key::copy_from_slice)
            };
            manifest.lost.push(LostRange { start: bound()?, end: bound()? });
        }
        for _ in 0..reader.u32()? {
            let [level] = reader.array()?;
            let (id, bytes, rows, tombstones) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
            let (first, last) = (read_key(&mut reader)?, read_key(&mut reader)?);
            manifest.tables.push((level, TableMeta { id, bytes, rows, tombstones, first, last }));
        }
        reader.0.is_empty().then_some(manifest)
    }
}

/// What precedes the checksum, if that matches.
pub(super) fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    (XxHash3_64::oneshot(content).to_le_bytes() == checksum).then_some(content)
}

/// Writes a key with its length before it.
pub(super) fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    // Keys are limited in size: the length fits.
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

/// Reads what [`put_key`] wrote.
pub(super) fn read_key(bytes: &mut ByteReader<'_>) -> Option<Key> {
    let length = bytes.u16()?;
    bytes.take(usize::from(length)).map(Key::copy_from_slice)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StorageError {
    crate::io_error::io_error(error, format!("cannot {what} the manifest: {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_files::SystemFiles;
    use tepui_storage::StorageErrorKind;

    #[test]
    fn manifests_are_read_back_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let read = || Manifest::read(&SystemFiles, folder.path());
        assert_eq!(read(), Ok(None));
        let table = |id: u64| TableMeta {
            id,
            bytes: id << 20,
            rows: id,
            tombstones: id / 2,
            first: format!("first {id}").into(),
            last: format!("last {id}").into(),
        };
        let manifest = Manifest {
            flushed: 4711,
            wal: WalPosition { segment: 17, groups: Some(4) },
            lost: vec![LostRange { start: "a".into(), end: "b".into() }],
            tables: (1..5).map(|id| ((id % 3) as u8, table(id))).collect(),
        };
        manifest.write(&SystemFiles, folder.path()).expect("a manifest can be written");
        assert_eq!(read().expect("a manifest can be read"), Some(manifest));
        let path = folder.path().join(NAME);
        let written = std::fs::read(&path).expect("the file can be read");
        for at in 0..written.len() {
            let mut bytes = written.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).expect("the file can be damaged");
            assert!(matches!(&read(), Err(error) if error.kind() == StorageErrorKind::Corrupt), "byte {at}");
            std::fs::write(&path, &written[..at]).expect("the file can be cut");
            assert!(matches!(&read(), Err(error) if error.kind() == StorageErrorKind::Corrupt), "{at} bytes");
        }
    }
}
