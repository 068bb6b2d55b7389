//! The tables of a snapshot, for backups.
//!
//! Tables are immutable and stay as long as somebody holds them. Memtables are not on disk as tables yet, and the log has them
//! batch by batch: their rows are written to one more table, of which the tree knows nothing. So a checkpoint does not disturb
//! the tree, and a failed one leaves no trace in it.

use super::levels::Levels;
use super::manifest::{Manifest, NAME, WalPosition};
use super::memtable::MemtableCursor;
use super::merge_iterator::{MergeInput, MergeIterator};
use super::sorted_table::TableWriter;
use super::{LsmTree, Memtable, ReadView, SeqNo};
use crate::io_error::io_error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::FileSystem;
use tepui_storage::StorageError;

/// The file with the rows of memtables. Removed with the checkpoint, or when the directory is opened again.
pub(super) const STAGED: &str = "CHECKPOINT";

/// The tables of a snapshot. Their files stay as long as this does.
pub(crate) struct TablesCheckpoint {
    levels: Levels,
    manifest: Vec<u8>,
    /// Removed when dropped.
    _staged: Option<StagedTable>,
}

/// The table that belongs to the checkpoint alone.
struct StagedTable {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl Drop for StagedTable {
    fn drop(&mut self) {
        if let Err(error) = self.files.remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a table of a backup: the next start does");
        }
    }
}

impl TablesCheckpoint {
    /// The manifest: its name, and what it says.
    pub(crate) fn manifest(&self) -> (&'static str, &[u8]) {
        (NAME, &self.manifest)
    }

    /// The tables: the id, which is the name, the file, and its size.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (u64, &Path, u64)> {
        self.levels.tables().map(|(_, table)| (table.meta.id, &*table.path, table.meta.bytes))
    }
}

impl LsmTree {
    /// What a view shows up to a sequence number, without a log. One at a time.
    pub(crate) fn checkpoint(
        &self,
        view: &ReadView,
        seq_no: SeqNo,
    ) -> Result<TablesCheckpoint, StorageError> {
        let levels = &view.levels;
        self.check_staging_space(view)?;
        let id = levels.tables().map(|(_, table)| table.meta.id).max().unwrap_or(0) + 1;
        let cursor = |memtable| MergeInput::Memtable(MemtableCursor::new(memtable, b"", seq_no));
        let mut rows = MergeIterator::new(view.memtables().map(cursor).collect())?;
        let mut writer: Option<TableWriter> = None;
        while let Some(key) = rows.key() {
            let value = rows.value();
            if value.is_some() || levels.spans(key) {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => {
                        let (path, block_bytes) = (self.folder.join(STAGED), self.sizes.block_bytes);
                        none.insert(TableWriter::at(&self.files, &self.cache, path, id, block_bytes)?)
                    }
                };
                writer.push(key, value)?;
            }
            rows.advance()?;
        }
        let table = writer.map(TableWriter::finish).transpose()?;
        let staged = table
            .as_ref()
            .map(|table| StagedTable { files: Arc::clone(&self.files), path: table.path.clone() });
        let levels = match table {
            Some(table) => levels.with_flushed(table),
            None => Levels::clone(levels),
        };
        let manifest = Manifest::new(seq_no, WalPosition::default(), &levels).bytes();
        Ok(TablesCheckpoint { levels, manifest, _staged: staged })
    }

    /// Fails if the table would leave less of the disk free than a compaction has to.
    fn check_staging_space(&self, view: &ReadView) -> Result<(), StorageError> {
        let failed = |error| io_error(&error, "cannot ask for free disk space");
        let free = self.files.free_space(&self.folder).map_err(failed)?;
        let needed = self.sizes.free_bytes + view.memtables().map(Memtable::bytes).sum::<u64>();
        match free < needed {
            true => Err(StorageError::no_space(format!(
                "{free} bytes are free on the disk of the server, {needed} are needed for a backup: {}",
                self.folder.display()
            ))),
            false => Ok(()),
        }
    }
}
