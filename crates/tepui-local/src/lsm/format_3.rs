//! The list of tables of format 3, in place of a manifest.
//!
//! ```text
//! MAGIC, sequence number of the last batch that was flushed: u64, count: u32, then for each table
//! level: u8, id: u64, size of the file: u64
//! checksum of all before it: u64
//! ```
//!
//! Of level 0 the newest come first. The tables themselves are as they are today.

use super::levels::Levels;
use super::manifest::{Manifest, WalPosition, checked};
use super::sorted_table::SortedTable;
use super::table_cache::{TableCache, TableCacheLimits};
use crate::byte_reader::ByteReader;
use crate::io_error::io_error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tepui_files::{FileSystem, read_file};
use tepui_storage::StorageError;

pub(crate) const LIST: &str = "TABLES";
const MAGIC: [u8; 8] = *b"tepuilst";

/// Writes a manifest of what the list names. Returns the sequence number of the last batch that was flushed.
pub(crate) fn write_manifest(
    files: &Arc<dyn FileSystem>,
    folder: &Path,
    limits: TableCacheLimits,
) -> Result<u64, StorageError> {
    let path = folder.join(LIST);
    let List { flushed, tables } = match read_file(&**files, &path) {
        Ok(bytes) => parse(&bytes).ok_or_else(|| {
            StorageError::corrupt(format!("the list of tables is damaged: {}", path.display()))
        })?,
        // It was written with the first table.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                && super::table_files(&**files, folder)?.ids.is_empty() =>
        {
            List::default()
        }
        Err(error) => {
            return Err(io_error(&error, format!("cannot read the list of tables: {}", path.display())));
        }
    };
    let cache = Arc::new(TableCache::new(limits));
    let tables = tables.into_iter().map(|Listed { level, id, bytes }| {
        Ok((usize::from(level), Arc::new(SortedTable::found(files, &cache, folder, id, bytes)?)))
    });
    let tables = tables.collect::<Result<Vec<_>, StorageError>>()?;
    let levels = Levels::new(tables.into_iter(), Vec::new())
        .ok_or_else(|| StorageError::corrupt(format!("tables of one level overlap: {}", folder.display())))?;
    Manifest::new(flushed, WalPosition::default(), &levels).write(&**files, folder)?;
    Ok(flushed)
}

#[derive(Default)]
struct List {
    flushed: u64,
    tables: Vec<Listed>,
}

struct Listed {
    level: u8,
    id: u64,
    bytes: u64,
}

fn parse(bytes: &[u8]) -> Option<List> {
    let mut reader = ByteReader(checked(bytes)?.strip_prefix(&MAGIC)?);
    let mut list = List { flushed: reader.u64()?, tables: Vec::new() };
    for _ in 0..reader.u32()? {
        let [level] = reader.array()?;
        list.tables.push(Listed { level, id: reader.u64()?, bytes: reader.u64()? });
    }
    reader.0.is_empty().then_some(list)
}
