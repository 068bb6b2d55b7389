//! Upgrades a data directory of an earlier format.
//!
//! Format 3 had a list of tables, `rows/TABLES`, instead of a manifest, and segment headers of the write-ahead log without
//! a link to the previous segment. The upgrade flushes the log to tables, and writes a manifest of these and of the listed
//! tables. FORMAT is replaced last. Until then nothing that format 3 needs is changed: an interrupted upgrade starts over.

use crate::directory::DataDirectory;
use crate::lsm::{DirectoryState, LsmTree, Sizes, format_3};
use crate::wal;
use std::sync::Arc;
use tepui_files::FileSystem;
use tepui_storage::StorageError;

/// Upgrades a directory of format 3. The caller replaces FORMAT.
pub(crate) fn from_format_3(
    files: &Arc<dyn FileSystem>,
    directory: &DataDirectory,
    sizes: Sizes,
) -> Result<(), StorageError> {
    tracing::info!(directory = %directory.path().display(), "upgrading the data directory from format 3");
    let flushed = format_3::write_manifest(files, &directory.rows(), sizes.cache)?;
    let (tree, _) = LsmTree::open(files, &directory.rows(), sizes, DirectoryState::Existing)?;
    let mut memtable = tree.memtable();
    wal::format_3::read(&**files, &directory.wal(), |batch| {
        if batch.seq_no <= flushed {
            return Ok(());
        }
        memtable.insert(batch.seq_no, batch.writes);
        if memtable.bytes() >= sizes.memtable_bytes {
            memtable = tree.seal();
            tree.flush()?;
        }
        Ok(())
    })?;
    tree.seal();
    tree.flush()
}

/// Removes the files that only format 3 needs, after FORMAT was replaced.
pub(crate) fn remove_format_3(files: &dyn FileSystem, directory: &DataDirectory) {
    let list = directory.rows().join(format_3::LIST);
    if let Err(error) = files.remove_file(&list) {
        tracing::warn!(%error, path = %list.display(), "cannot remove a file of the earlier format");
    }
}
