//! Verifies the files of tables, for offline checks: every checksum, the order of keys, the index, the Bloom filter, the counts.
//! And reads what can be read, though tables are damaged.

use super::block::DataBlock;
use super::bloom_filter;
use super::levels::{Levels, LostRange};
use super::manifest::{Manifest, WalPosition};
use super::memtable::MemtableCursor;
use super::merge_iterator::{LevelCursor, MergeInput, MergeIterator};
use super::sorted_table::{DAMAGED, SortedTable, TableMeta, TableTail};
use super::table_cache::TableCache;
use super::{Memtable, SeqNo, Sizes, table_files};
use crate::io_error::io_error;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{File, FileSystem, OpenOptions};
use tepui_storage::{Key, StorageError, StorageErrorKind, Value};

/// How much of a table is read with one call.
const READ_BYTES: u64 = 1 << 20;

/// Something that is not as it was written.
pub(crate) struct TableDamage {
    pub(crate) path: PathBuf,
    pub(crate) offset: Option<u64>,
    pub(crate) what: String,
    /// The keys that may be affected: the first, and the one after the last.
    pub(crate) keys: Option<(Key, Key)>,
}

/// The tables of a directory that is not in use, as far as they can be read.
pub(crate) struct ReadableTables {
    pub(crate) flushed: SeqNo,
    pub(crate) wal: WalPosition,
    /// Rows of the log are inserted here.
    pub(crate) memtable: Memtable,
    levels: Levels,
    pub(crate) orphans: Vec<PathBuf>,
    pub(crate) quarantined: Vec<PathBuf>,
}

impl ReadableTables {
    /// Reads the manifest. `None`: it cannot be read, and `found` was called with the reason.
    pub(crate) fn open(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        sizes: Sizes,
        found: &mut dyn FnMut(TableDamage),
    ) -> Result<Option<Self>, StorageError> {
        let manifest_path = folder.join(super::manifest::NAME);
        let damage =
            |path: &Path, what: String, keys| TableDamage { path: path.to_owned(), offset: None, what, keys };
        let manifest = match Manifest::read(&**files, folder) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => {
                found(damage(&manifest_path, "the manifest is missing: no row can be read".into(), None));
                return Ok(None);
            }
            Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                found(damage(&manifest_path, "the manifest is damaged: no row can be read".into(), None));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Manifest { flushed, wal, lost, tables } = manifest;
        for LostRange { start, end } in &lost {
            let what = "rows were lost to damage that was found earlier".to_owned();
            found(damage(&manifest_path, what, Some((start.clone(), end.clone()))));
        }
        let listed: HashSet<u64> = tables.iter().map(|(_, table)| table.id).collect();
        let cache = Arc::new(TableCache::new(sizes.cache));
        let mut readable = Vec::with_capacity(tables.len());
        for (level, meta) in tables {
            let keys = keys_of(&meta);
            let path = SortedTable::path(folder, meta.id);
            match SortedTable::listed(files, &cache, folder, meta) {
                Ok(table) => readable.push((usize::from(level), Arc::new(table))),
                Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                    let what = match files.exists(&path) {
                        Ok(false) => "the table is missing",
                        _ => "the table does not have its size",
                    };
                    found(damage(&path, what.into(), Some(keys)));
                }
                Err(error) => return Err(error),
            }
        }
        let levels = Levels::new(readable.iter().cloned(), Vec::new()).unwrap_or_else(|| {
            found(damage(&manifest_path, "tables of one level overlap".into(), None));
            // All in level 0, which may overlap.
            let all = readable.into_iter().map(|(_, table)| (0, table));
            Levels::new(all, Vec::new()).unwrap_or_default()
        });
        let ids = table_files(&**files, folder)?;
        let orphans = ids.ids.into_iter().filter(|id| !listed.contains(id));
        let orphans = orphans.map(|id| SortedTable::path(folder, id)).chain(ids.staged).collect();
        let names = files.names(folder).map_err(|error| io_error(&error, error.to_string()))?;
        let paths = names.into_iter().map(|name| folder.join(name));
        let quarantined =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == DAMAGED)).collect();
        let memtable = Memtable::new(sizes.memtable_bytes);
        Ok(Some(Self { flushed, wal, memtable, levels, orphans, quarantined }))
    }

    /// How many bytes the tables have.
    pub(crate) fn bytes(&self) -> u64 {
        self.levels.tables().map(|(_, table)| table.meta.bytes).sum()
    }

    /// The tables, their rows, and the tombstones among them.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        self.levels.tables().fold((0, 0, 0), |(tables, rows, tombstones), (_, table)| {
            (tables + 1, rows + table.meta.rows, tombstones + table.meta.tombstones)
        })
    }

    /// Verifies all tables.
    pub(crate) fn verify(
        &self,
        progress: &mut dyn FnMut(u64),
        found: &mut dyn FnMut(TableDamage),
    ) -> Result<(), StorageError> {
        for (_, table) in self.levels.tables() {
            verify_table(table, progress, found)?;
        }
        Ok(())
    }

    /// The newest value of every key that can be read, in key order.
    pub(crate) fn rows(
        &self,
        each: &mut dyn FnMut(Key, Value) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let lost = Arc::default();
        let mut inputs = vec![MergeInput::Memtable(MemtableCursor::new(&self.memtable, b"", SeqNo::MAX))];
        let level0 = self.levels.level0().iter().map(std::slice::from_ref);
        for tables in level0.chain(self.levels.sorted_levels()).filter(|tables| !tables.is_empty()) {
            inputs.push(MergeInput::Level(LevelCursor::for_compaction(tables.to_vec(), &lost)?));
        }
        let mut rows = MergeIterator::new(inputs)?;
        while rows.key().is_some() {
            if let Some((key, Some(value))) = rows.row() {
                each(key, value)?;
            }
            rows.advance()?;
        }
        Ok(())
    }
}

fn keys_of(meta: &TableMeta) -> (Key, Key) {
    let LostRange { start, end } = LostRange::up_to(meta.first.clone(), &meta.last);
    (start, end)
}

fn verify_table(
    table: &SortedTable,
    progress: &mut dyn FnMut(u64),
    found: &mut dyn FnMut(TableDamage),
) -> Result<(), StorageError> {
    let mut report = |offset, what: &str, keys| {
        found(TableDamage { path: table.path.clone(), offset, what: what.to_owned(), keys });
    };
    let (file, tail, _) = match table.open() {
        Ok(opened) => opened,
        Err(error) if error.kind() == StorageErrorKind::Corrupt => {
            report(
                None,
                "the index, the filter or the footer of the table is damaged",
                Some(keys_of(&table.meta)),
            );
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut counted = Counted::default();
    let mut first_block = 0;
    while first_block < tail.index.len() {
        let count = tail.index.blocks_in(first_block, READ_BYTES);
        let (begin, _) = tail.index.block_range(first_block);
        let (_, end) = tail.index.block_range(first_block + count - 1);
        let chunk = file.read_vec(begin, (end - begin) as usize);
        let chunk = chunk
            .map_err(|error| io_error(&error, format!("cannot read a table: {}", table.path.display())))?;
        for number in first_block..first_block + count {
            let (start, end) = tail.index.block_range(number);
            let part = (start - begin) as usize..(end - begin) as usize;
            let block = DataBlock::check(&chunk, part, table.address(start));
            let verified = block.and_then(|block| counted.add(&block, &chunk, &tail, number));
            if verified.is_none() {
                let LostRange { start: from, end: to } = tail.index.range(number, &table.meta);
                report(Some(start), "a block is damaged", Some((from, to)));
                counted.is_whole = false;
            }
        }
        progress(end - begin);
        first_block += count;
    }
    let TableMeta { rows, tombstones, first, last, .. } = &table.meta;
    let is_as_listed =
        (tail.rows, tail.tombstones, &tail.first, &tail.last) == (*rows, *tombstones, first, last);
    let is_as_counted = (counted.rows, counted.tombstones) == (*rows, *tombstones)
        && (counted.first.as_deref(), &counted.last[..]) == (Some(&first[..]), &last[..]);
    if !is_as_listed || counted.is_whole && !is_as_counted {
        report(None, "the table is not the one that the manifest lists", Some(keys_of(&table.meta)));
    }
    Ok(())
}

/// What was found in a table.
struct Counted {
    rows: u64,
    tombstones: u64,
    first: Option<Vec<u8>>,
    last: Vec<u8>,
    /// Every block could be read.
    is_whole: bool,
}

impl Default for Counted {
    fn default() -> Self {
        Self { rows: 0, tombstones: 0, first: None, last: Vec::new(), is_whole: true }
    }
}

impl Counted {
    /// `None`: a row is not where it belongs.
    fn add(&mut self, block: &DataBlock, chunk: &[u8], tail: &TableTail, number: usize) -> Option<()> {
        for index in 0..block.count() {
            let row = block.row(chunk, index)?;
            let key = chunk.get(row.key)?;
            let is_ordered = self.first.is_none() || key > &self.last[..];
            let is_found =
                tail.index.block_of(key) == number && tail.filter.may_contain(bloom_filter::hash(key));
            if !is_ordered || !is_found {
                return None;
            }
            self.rows += 1;
            self.tombstones += u64::from(row.value.is_none());
            self.first.get_or_insert_with(|| key.to_vec());
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        Some(())
    }
}

/// The sizes of files.
pub(crate) fn total_bytes(files: &dyn FileSystem, paths: &[PathBuf]) -> u64 {
    let length = |path: &PathBuf| files.open(path, OpenOptions::read()).and_then(|file| File::length(&*file));
    paths.iter().filter_map(|path| length(path).ok()).sum()
}
