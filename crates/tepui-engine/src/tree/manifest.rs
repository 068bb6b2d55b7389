//! The manifest: which tables count, which part of the journal is in them, and which journal there must be.
//!
//! ```text
//! MAGIC
//! number of the last batch that is in tables: u64
//! segment of the journal that is written to: u64, its groups if it was closed in good order, otherwise 0: u32
//! count: u32, then for each range that was lost to damage: its start and its end (length: u32, bytes)
//! count: u32, then for each table
//!   level: u8, id: u64, size of the file: u64, rows: u64, deletions among them: u64,
//!   first key, last key (length: u16, bytes)
//! checksum of all before it: u64
//! ```
//!
//! Of level 0 the newest come first. The manifest is written anew for every change, beside the old one, and takes its
//! place when it is on disk.

use super::levels::{Levels, LostRange};
use super::table::{Table, TableMeta};
use crate::reader::Reader;
use crate::{EngineError, Key};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tepui_files::{FileSystem, ReplaceError, read_file, replace_file};
use twox_hash::XxHash3_64;

const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";
const MAGIC: [u8; 8] = *b"tepuiman";
const CHECKSUM_BYTES: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The number of the last batch that is in tables.
    pub(super) flushed: u64,
    pub(super) journal: JournalEnd,
    pub(super) lost: Vec<LostRange>,
    /// With their levels.
    pub(super) tables: Vec<(u8, TableMeta)>,
}

/// Which journal there must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    /// The segment that is written to. 0: there is none yet.
    pub(crate) segment: u64,
    /// How many groups it has. Known only if it was closed in good order.
    pub(crate) groups: Option<u32>,
}

/// Why a manifest was not written.
#[derive(Debug)]
pub(crate) enum ManifestError {
    /// The old one counts.
    Nothing(EngineError),
    /// Either may count after a crash.
    Maybe(EngineError),
}

impl From<ManifestError> for EngineError {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::Nothing(error) | ManifestError::Maybe(error) => error,
        }
    }
}

impl Manifest {
    pub(super) fn new(flushed: u64, journal: JournalEnd, levels: &Levels) -> Self {
        let table = |(level, table): (usize, &Arc<Table>)| (level as u8, table.meta.clone());
        Self { flushed, journal, lost: levels.lost().to_vec(), tables: levels.tables().map(table).collect() }
    }

    /// `None`: there is none.
    pub(super) fn read(files: &dyn FileSystem, folder: &Path) -> Result<Option<Self>, EngineError> {
        let path = folder.join(NAME);
        let bytes = match read_file(files, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let damaged = || EngineError::Corrupt(format!("the manifest is damaged: {}", path.display()));
        Self::parse(&bytes).map(Some).ok_or_else(damaged)
    }

    /// It is on disk when this returns, and so are the names of the tables that it lists.
    pub(super) fn write(&self, files: &dyn FileSystem, folder: &Path) -> Result<(), ManifestError> {
        let path = folder.join(NAME);
        replace_file(files, &path, &self.bytes()).map_err(|error| match error {
            ReplaceError::Nothing(error) => ManifestError::Nothing(failed("write", &path, &error)),
            ReplaceError::Maybe(error) => ManifestError::Maybe(failed("write", &path, &error)),
        })
    }

    /// Whether a file in the folder is a manifest.
    pub(super) fn is_manifest(name: &str) -> bool {
        name == NAME || name == NEW_NAME
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.flushed.to_le_bytes());
        bytes.extend_from_slice(&self.journal.segment.to_le_bytes());
        bytes.extend_from_slice(&self.journal.groups.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&(self.lost.len() as u32).to_le_bytes());
        for bound in self.lost.iter().flat_map(|LostRange { start, end }| [start, end]) {
            bytes.extend_from_slice(&(bound.len() as u32).to_le_bytes());
            bytes.extend_from_slice(bound);
        }
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for (level, table) in &self.tables {
            bytes.push(*level);
            for number in [table.id, table.bytes, table.rows, table.deletions] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_key(&mut bytes, &table.first);
            put_key(&mut bytes, &table.last);
        }
        bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
        if XxHash3_64::oneshot(content).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader(content.strip_prefix(&MAGIC)?);
        let (flushed, segment, groups) = (reader.u64()?, reader.u64()?, reader.u32()?);
        let journal = JournalEnd { segment, groups: (groups > 0).then_some(groups) };
        let mut manifest = Self { flushed, journal, lost: Vec::new(), tables: Vec::new() };
        for _ in 0..reader.u32()? {
            let mut bound = || {
                let length = reader.u32()? as usize;
                reader.take(length).map(Key::copy_from_slice)
            };
            manifest.lost.push(LostRange { start: bound()?, end: bound()? });
        }
        for _ in 0..reader.u32()? {
            let [level] = reader.array()?;
            let (id, bytes, rows, deletions) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
            let (first, last) = (key(&mut reader)?, key(&mut reader)?);
            manifest.tables.push((level, TableMeta { id, bytes, rows, deletions, first, last }));
        }
        reader.0.is_empty().then_some(manifest)
    }
}

/// A key with its length before it.
pub(super) fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    // Keys are limited in size: the length fits.
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

/// Reads what [`put_key`] wrote.
pub(super) fn key(bytes: &mut Reader<'_>) -> Option<Key> {
    let length = bytes.u16()?;
    bytes.take(usize::from(length)).map(Key::copy_from_slice)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    crate::store::io_error(error, &format!("cannot {what} the manifest: {error}: {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_files::SystemFiles;

    #[test]
    fn manifests_are_read_back_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let read = || Manifest::read(&SystemFiles, folder.path());
        assert_eq!(read(), Ok(None));
        let table = |id: u64| TableMeta {
            id,
            bytes: id << 20,
            rows: id,
            deletions: id / 2,
            first: format!("first {id}").into(),
            last: format!("last {id}").into(),
        };
        let manifest = Manifest {
            flushed: 4711,
            journal: JournalEnd { segment: 17, groups: Some(4) },
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
            assert!(matches!(read(), Err(EngineError::Corrupt(_))), "byte {at}");
            std::fs::write(&path, &written[..at]).expect("the file can be cut");
            assert!(matches!(read(), Err(EngineError::Corrupt(_))), "{at} bytes");
        }
    }
}
