//! The list of tables: which files count, and which part of the journal is in them.
//!
//! ```text
//! MAGIC, number of the last batch that is in tables: u64, count: u32, then for each table
//! level: u8, id: u64, size of the file: u64
//! checksum of all before it: u64
//! ```
//!
//! Of level 0 the newest come first. The list is written anew for every change, beside the old one, and takes its
//! place when it is on disk.

use super::levels::Levels;
use crate::EngineError;
use crate::directory::sync_directory;
use crate::reader::Reader;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use twox_hash::XxHash3_64;

const NAME: &str = "TABLES";
const NEW_NAME: &str = "TABLES.new";
const MAGIC: [u8; 8] = *b"tepuilst";
const CHECKSUM_BYTES: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// The number of the last batch that is in tables.
    pub(super) flushed: u64,
    pub(super) tables: Vec<Listed>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) level: u8,
    pub(super) id: u64,
    pub(super) bytes: u64,
}

impl List {
    pub(super) fn new(flushed: u64, levels: &Levels) -> Self {
        let listed = |(level, table): (usize, &std::sync::Arc<super::table::Table>)| Listed {
            level: level as u8,
            id: table.id,
            bytes: table.bytes,
        };
        Self { flushed, tables: levels.tables().map(listed).collect() }
    }

    /// `None`: there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, EngineError> {
        let path = folder.join(NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let damaged = || EngineError::Corrupt(format!("the list of tables is damaged: {}", path.display()));
        Self::parse(&bytes).map(Some).ok_or_else(damaged)
    }

    /// The list is on disk when this returns, and the tables that it names are too.
    pub(super) fn write(&self, folder: &Path) -> Result<(), EngineError> {
        let (path, new) = (folder.join(NAME), folder.join(NEW_NAME));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&self.bytes())?;
            file.sync_all()?;
            // The names of new tables must not be missing when the list is there.
            sync_directory(folder)?;
            std::fs::rename(&new, &path)?;
            sync_directory(folder)
        };
        write().map_err(|error| failed("write", &path, &error))
    }

    /// Whether a file in the folder is one of the list.
    pub(super) fn is_list(name: &str) -> bool {
        name == NAME || name == NEW_NAME
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.flushed.to_le_bytes());
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for table in &self.tables {
            bytes.push(table.level);
            bytes.extend_from_slice(&table.id.to_le_bytes());
            bytes.extend_from_slice(&table.bytes.to_le_bytes());
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
        let mut list = Self { flushed: reader.u64()?, tables: Vec::new() };
        for _ in 0..reader.u32()? {
            let [level] = reader.array()?;
            list.tables.push(Listed { level, id: reader.u64()?, bytes: reader.u64()? });
        }
        reader.0.is_empty().then_some(list)
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    crate::store::io_error(error, &format!("cannot {what} the list of tables: {error}: {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_back_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        assert_eq!(List::read(folder.path()), Ok(None));
        let table = |id| Listed { level: (id % 3) as u8, id, bytes: id << 20 };
        let list = List { flushed: 4711, tables: (1..5).map(table).collect() };
        list.write(folder.path()).expect("a list can be written");
        assert_eq!(List::read(folder.path()).expect("a list can be read"), Some(list));
        let path = folder.path().join(NAME);
        let written = std::fs::read(&path).expect("the file can be read");
        for at in 0..written.len() {
            let mut bytes = written.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).expect("the file can be damaged");
            assert!(matches!(List::read(folder.path()), Err(EngineError::Corrupt(_))), "byte {at}");
            std::fs::write(&path, &written[..at]).expect("the file can be cut");
            assert!(matches!(List::read(folder.path()), Err(EngineError::Corrupt(_))), "{at} bytes");
        }
    }
}
