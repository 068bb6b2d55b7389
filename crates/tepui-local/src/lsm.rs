//! A log-structured merge tree: memtables, and sorted tables in levels that are compacted.
//!
//! | | |
//! | --- | --- |
//! | `memtable.rs` | recent writes, in memory |
//! | `sorted_table.rs` `block.rs` `block_index.rs` `bloom_filter.rs` | files of rows in key order |
//! | `table_cache.rs` | which of these files are open |
//! | `levels.rs` | which tables there are |
//! | `manifest.rs` | the same on disk |
//! | `verify.rs` | offline checks |
//! | `checkpoint.rs` | the tables of a snapshot, for backups |
//! | `format_3.rs` | the list of tables of format 3, for upgrades |
//! | `compaction.rs` | which tables to merge next, and the merge |
//! | `merge_iterator.rs` | rows of several inputs in one order |
//! | `read_view.rs` | reads |
//!
//! A reader holds a [`ReadView`], which never changes but for newer batches in the active memtable. So a table has each
//! key once, and is removed as soon as no reader holds it.
//!
//! When a system call fails, everything stays as it was: the state in memory is what the manifest on disk says, or would
//! say after the next write of it. So failed work is simply retried.

mod block;
mod block_index;
mod bloom_filter;
mod checkpoint;
mod compaction;
pub(crate) mod format_3;
mod levels;
mod manifest;
mod memtable;
mod merge_iterator;
mod read_view;
mod sorted_table;
mod table_cache;
#[cfg(test)]
mod tests;
mod verify;

use crate::io_error::io_error;
use crate::stats::EngineCounters;
pub(crate) use checkpoint::TablesCheckpoint;
pub(crate) use compaction::WriteLoad;
use compaction::{Avoided, shadows_much};
use levels::{Levels, LostRange};
use manifest::Manifest;
pub(crate) use manifest::{ManifestError, WalPosition};
pub(crate) use memtable::Memtable;
use memtable::MemtableCursor;
use merge_iterator::{MergeInput, MergeIterator};
use parking_lot::Mutex;
pub(crate) use read_view::ReadView;
use sorted_table::{SortedTable, TableWriter};
use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use table_cache::TableCache;
pub(crate) use table_cache::TableCacheLimits;
use tepui_files::FileSystem;
use tepui_storage::{ScanBounds, StorageError, Value};
pub(crate) use verify::{ReadableTables, TableDamage, total_bytes as file_bytes};

/// The sequence number of a batch: all its writes have it. The first batch has 1.
pub(crate) type SeqNo = u64;

/// The value of a key. `None`: a tombstone.
type StoredValue = Option<Value>;

/// Why a read failed.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Not in memory: repeat the read on a thread that may block.
    WouldBlock,
    Storage(StorageError),
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ReadError> for StorageError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => error,
            ReadError::WouldBlock => Self::failed("a bug: a blocking read ended with WouldBlock"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => write!(f, "not in memory"),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

/// Target sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// A memtable is sealed at this size. Tables have the same.
    pub(crate) memtable_bytes: u64,
    pub(crate) block_bytes: usize,
    /// Compactions leave so much of the disk free.
    pub(crate) free_bytes: u64,
    pub(crate) cache: TableCacheLimits,
}

pub(crate) struct LsmTree {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    sizes: Sizes,
    cache: Arc<TableCache>,
    /// Locked only to read or replace the pointer.
    current: Mutex<Arc<ReadView>>,
    /// Held while the manifest is written.
    recorded: Mutex<ManifestState>,
    /// What is not to be compacted now.
    avoided: Mutex<Avoided>,
    next_id: AtomicU64,
    /// No longer part of the tree, but readers may still hold it.
    obsolete: Mutex<Obsolete>,
    /// Compactions end early.
    stop: AtomicBool,
    /// Of the whole engine.
    counters: Arc<EngineCounters>,
}

/// How large the tree is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeSize {
    pub(crate) table_bytes: u64,
    pub(crate) memtable_bytes: u64,
    /// Of tables that were replaced and that readers may still hold.
    pub(crate) obsolete_bytes: u64,
    pub(crate) lost_ranges: usize,
}

/// What the manifest says, except for the tables, which are in the [`ReadView`].
struct ManifestState {
    /// The last batch that was flushed.
    flushed: SeqNo,
    wal: WalPosition,
    /// Tables listed by a manifest whose write has failed but may still reach the disk. Removed once a later manifest is
    /// written.
    pending_removal: Vec<Arc<SortedTable>>,
    /// Files of earlier runs that no manifest lists. Removed once the first manifest of this run is written.
    orphans: Vec<PathBuf>,
}

#[derive(Default)]
struct Obsolete {
    tables: Vec<Arc<SortedTable>>,
    memtables: Vec<Arc<Memtable>>,
}

/// What [`LsmTree::open`] found on disk.
pub(crate) struct RecoveredState {
    /// The last batch that was flushed.
    pub(crate) flushed: SeqNo,
    pub(crate) wal: WalPosition,
}

/// Whether a data directory was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryState {
    /// Its creation was not completed: parts may be missing.
    New,
    /// Anything missing is damage.
    Existing,
}

impl LsmTree {
    /// Opens the folder. Nothing is written before [`LsmTree::record_wal`].
    pub(crate) fn open(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        sizes: Sizes,
        expect: DirectoryState,
    ) -> Result<(Self, RecoveredState), StorageError> {
        let manifest = Manifest::read(&**files, folder)?;
        let TableFiles { ids: found, staged } = table_files(&**files, folder)?;
        let is_initialized =
            !found.is_empty() || manifest.as_ref().is_some_and(|manifest| manifest.flushed > 0);
        let manifest = match (manifest, expect) {
            (_, DirectoryState::New) if is_initialized => {
                let message =
                    format!("there are tables, but the file FORMAT is missing: {}", folder.display());
                return Err(StorageError::corrupt(message));
            }
            (Some(manifest), _) => manifest,
            (None, DirectoryState::New) => Manifest::default(),
            (None, DirectoryState::Existing) => {
                return Err(StorageError::corrupt(format!("the manifest is missing: {}", folder.display())));
            }
        };
        let cache = Arc::new(TableCache::new(sizes.cache));
        let Manifest { flushed, wal, lost, tables } = manifest;
        let listed: HashSet<u64> = tables.iter().map(|(_, table)| table.id).collect();
        let open = |(level, meta)| {
            Ok((usize::from(level), Arc::new(SortedTable::listed(files, &cache, folder, meta)?)))
        };
        let tables = tables.into_iter().map(open).collect::<Result<Vec<_>, StorageError>>()?;
        let levels = Levels::new(tables.into_iter(), lost).ok_or_else(|| {
            StorageError::corrupt(format!("tables of one level overlap: {}", folder.display()))
        })?;
        for range in levels.lost() {
            tracing::error!(start = ?range.start, end = ?range.end, "rows in this range were lost to damage");
        }
        let highest = found.iter().chain(&listed).max().copied().unwrap_or(0);
        let orphans = found.into_iter().filter(|id| !listed.contains(id));
        let orphans = orphans.map(|id| SortedTable::path(folder, id)).chain(staged).collect();
        let view = ReadView {
            active: Arc::new(Memtable::new(sizes.memtable_bytes)),
            sealed: vec![],
            levels: Arc::new(levels),
        };
        let tree = Self {
            files: Arc::clone(files),
            folder: folder.to_owned(),
            sizes,
            cache,
            current: Mutex::new(Arc::new(view)),
            recorded: Mutex::new(ManifestState { flushed, wal, pending_removal: Vec::new(), orphans }),
            avoided: Mutex::default(),
            next_id: AtomicU64::new(highest + 1),
            obsolete: Mutex::default(),
            stop: AtomicBool::new(false),
            counters: Arc::default(),
        };
        Ok((tree, RecoveredState { flushed, wal }))
    }

    pub(crate) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    pub(crate) fn counters(&self) -> &Arc<EngineCounters> {
        &self.counters
    }

    pub(crate) fn size(&self) -> TreeSize {
        let view = self.read_view();
        let tables = |tables: &mut dyn Iterator<Item = &Arc<SortedTable>>| -> u64 {
            tables.map(|table| table.meta.bytes).sum()
        };
        TreeSize {
            table_bytes: tables(&mut view.levels.tables().map(|(_, table)| table)),
            memtable_bytes: view.active.bytes() + view.sealed.iter().map(|table| table.bytes()).sum::<u64>(),
            obsolete_bytes: tables(&mut self.obsolete.lock().tables.iter()),
            lost_ranges: view.levels.lost().len(),
        }
    }

    pub(crate) fn read_view(&self) -> Arc<ReadView> {
        Arc::clone(&self.current.lock())
    }

    /// The active memtable.
    pub(crate) fn memtable(&self) -> Arc<Memtable> {
        Arc::clone(&self.current.lock().active)
    }

    /// How many tables level 0 has.
    pub(crate) fn l0_tables(&self) -> usize {
        self.current.lock().levels.level0().len()
    }

    /// Whether the active memtable may shadow many rows of the tables, and no other memtable waits for its flush.
    pub(crate) fn memtable_shadows_much(&self) -> bool {
        let view = self.read_view();
        let rows = view.levels.rows();
        rows > 0 && view.sealed.is_empty() && shadows_much(view.active.rows(), rows)
    }

    /// Replaces the active memtable by a new one, which is returned. The sealed one waits for [`LsmTree::flush`].
    pub(crate) fn seal(&self) -> Arc<Memtable> {
        let active = Arc::new(Memtable::new(self.sizes.memtable_bytes));
        let mut current = self.current.lock();
        let mut sealed = vec![Arc::clone(&current.active)];
        sealed.extend_from_slice(&current.sealed);
        let levels = Arc::clone(&current.levels);
        *current = Arc::new(ReadView { active: Arc::clone(&active), sealed, levels });
        active
    }

    /// Records in the manifest which log there must be from here on. Durable when this returns.
    pub(crate) fn record_wal(&self, wal: WalPosition) -> Result<(), ManifestError> {
        let mut recorded = self.recorded.lock();
        let (flushed, levels) = (recorded.flushed, Arc::clone(&self.read_view().levels));
        self.write_manifest(&mut recorded, flushed, wal, &levels)
    }

    /// Writes the manifest, then removes what it does not list.
    fn write_manifest(
        &self,
        recorded: &mut ManifestState,
        flushed: u64,
        wal: WalPosition,
        levels: &Levels,
    ) -> Result<(), ManifestError> {
        if !levels.is_ordered() {
            let bug = StorageError::failed("a bug: tables of one level would overlap");
            return Err(ManifestError::NotWritten(bug));
        }
        Manifest::new(flushed, wal, levels).write(&*self.files, &self.folder)?;
        // Only now: until here a crash would leave the older manifest.
        recorded.flushed = flushed;
        recorded.wal = wal;
        self.obsolete.lock().tables.append(&mut recorded.pending_removal);
        recorded.orphans.retain(|path| {
            let removed = self.files.remove_file(path);
            let is_left = removed.is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound);
            if is_left {
                tracing::warn!(path = %path.display(), "cannot remove an orphaned table");
            }
            is_left
        });
        Ok(())
    }

    /// Flushes the oldest sealed memtable to level 0, if there is one. Called by one thread at a time.
    pub(crate) fn flush(&self) -> Result<(), StorageError> {
        let view = self.read_view();
        let Some(memtable) = view.sealed.last() else { return Ok(()) };
        let table = self.write_memtable(memtable, &view.levels)?;
        if let Some(table) = &table {
            table.preload();
        }
        let mut recorded = self.recorded.lock();
        let before = Arc::clone(&self.read_view().levels);
        let levels = match &table {
            Some(table) => before.with_flushed(Arc::clone(table)),
            None => Levels::clone(&before),
        };
        let (flushed, wal) = (memtable.newest().max(recorded.flushed), recorded.wal);
        if let Err(error) = self.write_manifest(&mut recorded, flushed, wal, &levels) {
            recorded.pending_removal.extend(table);
            return Err(error.into());
        }
        let mut current = self.current.lock();
        let mut sealed = current.sealed.clone();
        let memtable = sealed.pop();
        *current =
            Arc::new(ReadView { active: Arc::clone(&current.active), sealed, levels: Arc::new(levels) });
        drop(current);
        self.obsolete.lock().memtables.extend(memtable);
        Ok(())
    }

    fn write_memtable(
        &self,
        memtable: &Memtable,
        levels: &Levels,
    ) -> Result<Option<Arc<SortedTable>>, StorageError> {
        let cursor = MemtableCursor::new(memtable, b"", SeqNo::MAX);
        let mut rows = MergeIterator::new(vec![MergeInput::Memtable(cursor)])?;
        let mut writer = None;
        while let Some(key) = rows.key() {
            let value = rows.value();
            // Everything older was flushed before: a tombstone is needed only if a table may hold the key.
            if value.is_some() || levels.spans(key) {
                self.table_writer(&mut writer)?.push(key, value)?;
            }
            rows.advance()?;
        }
        writer.map(TableWriter::finish).transpose()
    }

    fn table_writer<'a>(
        &self,
        writer: &'a mut Option<TableWriter>,
    ) -> Result<&'a mut TableWriter, StorageError> {
        Ok(match writer {
            Some(writer) => writer,
            None => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let block_bytes = self.sizes.block_bytes;
                writer.insert(TableWriter::new(&self.files, &self.cache, &self.folder, id, block_bytes)?)
            }
        })
    }

    /// Drops the tables that lie wholly in the range. Those that are being compacted stay, and so do memtables.
    /// Tombstones go as well, so older rows of the range may become visible again.
    pub(crate) fn drop_range(&self, bounds: ScanBounds<'_>) -> Result<DroppedTables, StorageError> {
        let is_inside = |table: &SortedTable| {
            let begins = match bounds.0 {
                Bound::Included(start) => table.meta.first >= start,
                Bound::Excluded(start) => table.meta.first > start,
                Bound::Unbounded => true,
            };
            begins && !is_after(&table.meta.last, bounds.1)
        };
        let mut left = 0;
        let claimed = self.claim(|levels, avoided| {
            let inside = levels.tables().map(|(_, table)| table).filter(|table| is_inside(table));
            let (kept, tables): (Vec<_>, Vec<_>) =
                inside.cloned().partition(|table| avoided.busy.contains(&table.meta.id));
            left = kept.len();
            let ids = tables.iter().map(|table| table.meta.id).collect::<Vec<_>>();
            let is_some = !ids.is_empty() || !levels.lost().is_empty();
            is_some.then_some((tables, ids))
        });
        let Some((tables, claim)) = claimed else { return Ok(DroppedTables { tables: 0, left }) };
        let gone = claim.ids.iter().copied().collect();
        // Lost rows of a range that is dropped are not missed.
        let is_gone = |range: &LostRange| {
            let begins = match bounds.0 {
                Bound::Included(start) | Bound::Excluded(start) => range.start >= start,
                Bound::Unbounded => true,
            };
            let ends = match bounds.1 {
                Bound::Included(end) | Bound::Excluded(end) => range.end <= end,
                Bound::Unbounded => true,
            };
            begins && ends
        };
        if !self.edit_levels(|levels| levels.without(&gone).without_lost(is_gone))? {
            return Err(StorageError::unavailable("the tables are being closed"));
        }
        let dropped = DroppedTables { tables: tables.len(), left };
        self.obsolete.lock().tables.extend(tables);
        Ok(dropped)
    }

    /// Marks the chosen tables as busy.
    fn claim<T>(
        &self,
        choose: impl FnOnce(&Levels, &Avoided) -> Option<(T, Vec<u64>)>,
    ) -> Option<(T, Claim<'_>)> {
        let mut avoided = self.avoided.lock();
        // Read while it is locked: a claim is released only after its change of the levels.
        let levels = Arc::clone(&self.read_view().levels);
        let (chosen, ids) = choose(&levels, &avoided)?;
        avoided.busy.extend(&ids);
        Some((chosen, Claim { tree: self, ids, began: Instant::now() }))
    }

    /// Changes which tables there are, in the manifest first. Returns whether it has: not once the tree was stopped.
    fn edit_levels(&self, change: impl FnOnce(&Levels) -> Levels) -> Result<bool, StorageError> {
        let mut recorded = self.recorded.lock();
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let levels = change(&self.read_view().levels);
        let (flushed, wal) = (recorded.flushed, recorded.wal);
        self.write_manifest(&mut recorded, flushed, wal, &levels)?;
        let mut current = self.current.lock();
        let (active, sealed) = (Arc::clone(&current.active), current.sealed.clone());
        *current = Arc::new(ReadView { active, sealed, levels: Arc::new(levels) });
        Ok(true)
    }

    /// Whether something waits for its last reader to be removed.
    pub(crate) fn has_obsolete(&self) -> bool {
        let obsolete = self.obsolete.lock();
        !obsolete.tables.is_empty() || !obsolete.memtables.is_empty()
    }

    /// Removes the obsolete tables and memtables that no reader holds any more.
    pub(crate) fn remove_obsolete(&self) {
        let mut obsolete = self.obsolete.lock();
        let (tables, read): (Vec<_>, Vec<_>) =
            obsolete.tables.drain(..).partition(|table| Arc::strong_count(table) == 1);
        obsolete.tables = read;
        let (memtables, read): (Vec<_>, Vec<_>) =
            obsolete.memtables.drain(..).partition(|memtable| Arc::strong_count(memtable) == 1);
        obsolete.memtables = read;
        // Without the lock: both may take long.
        drop(obsolete);
        drop(memtables);
        for table in tables {
            if let Err(error) = table.remove() {
                tracing::warn!(%error, table = table.meta.id, "cannot remove an obsolete table");
            }
        }
    }

    /// Compactions end early, and from here on only a flush under way changes the manifest: once that is over, the
    /// folder may be opened again even if this tree is still held.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Waits for a change under way; later ones see the flag.
        drop(self.recorded.lock());
    }
}

/// What [`LsmTree::drop_range`] has done.
#[derive(Default)]
pub(crate) struct DroppedTables {
    pub(crate) tables: usize,
    /// Tables of the range that are being compacted.
    pub(crate) left: usize,
}

/// Exclusive use of tables, for a compaction or to drop them. Released when dropped.
struct Claim<'a> {
    tree: &'a LsmTree,
    ids: Vec<u64>,
    began: Instant,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut avoided = self.tree.avoided.lock();
        self.ids.iter().for_each(|id| {
            avoided.busy.remove(id);
        });
    }
}

fn is_after(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// The files in the folder of tables.
#[derive(Default)]
struct TableFiles {
    /// The ids of tables, whether the manifest lists them or not.
    ids: Vec<u64>,
    /// What an interrupted checkpoint has left.
    staged: Option<PathBuf>,
}

fn table_files(files: &dyn FileSystem, folder: &Path) -> Result<TableFiles, StorageError> {
    let failed = |error| io_error(&error, format!("cannot list the tables: {}", folder.display()));
    let mut found = TableFiles::default();
    for name in files.names(folder).map_err(failed)? {
        let name = name.to_str().unwrap_or_default();
        match name.parse() {
            Ok(id) => found.ids.push(id),
            Err(_) if name == checkpoint::STAGED => found.staged = Some(folder.join(name)),
            Err(_) if Manifest::is_manifest(name) => {}
            Err(_) => tracing::warn!(name, folder = %folder.display(), "not a table file: ignored"),
        }
    }
    Ok(found)
}
