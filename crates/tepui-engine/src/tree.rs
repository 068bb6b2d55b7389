//! Rows on disk: memtables, and tables that are merged in levels.
//!
//! | | |
//! | --- | --- |
//! | `memtable.rs` | what was written lately, in memory |
//! | `table.rs` `block.rs` `index.rs` `filter.rs` | files of rows in the order of their keys |
//! | `cache.rs` | which of these files are open |
//! | `levels.rs` | which tables there are, and which to merge next |
//! | `manifest.rs` | the same on disk |
//! | `rows.rs` | rows of several sources in one order |
//!
//! A reader holds [`Sources`], which never change but for newer batches in the newest memtable. So a table has
//! each key once, and goes as soon as nobody reads from it.
//!
//! When a call of the system fails, everything stays as it was: what is in memory says what the manifest on disk says,
//! or would say after the next one is written. So work that failed is simply done again.

mod block;
mod cache;
mod filter;
mod index;
mod levels;
mod manifest;
mod memtable;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use crate::limits::Bounds;
use crate::{EngineError, Key, ScanLimit, ScanPage, Value};
pub(crate) use cache::CacheLimits;
use cache::TableCache;
use levels::{Levels, LostRange, Merge, hides_much};
use manifest::Manifest;
pub(crate) use manifest::{JournalEnd, ManifestError};
pub(crate) use memtable::Memtable;
use memtable::MemtableCursor;
use rows::{Rows, Source, TablesCursor};
use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use table::{Lost, Table, TableWriter};
use tepui_files::FileSystem;

/// What a key was last given. `None`: it was deleted.
type Entry = Option<Value>;

/// Whether a reader may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Only what is in memory is read. Whatever is not ends with [`ReadError::WouldBlock`].
    Cached,
    Blocking,
}

/// Why something was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is not in memory: read again, on a thread that may wait.
    WouldBlock,
    Engine(EngineError),
}

impl From<EngineError> for ReadError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => error,
            ReadError::WouldBlock => {
                Self::Failed("a bug: a reader that may wait was told that it would".into())
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => write!(f, "not in memory"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

/// How large things are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// When a memtable is full. Tables are as large.
    pub(crate) memtable_bytes: u64,
    pub(crate) block_bytes: usize,
    /// Merges leave so much of the disk free.
    pub(crate) free_bytes: u64,
    pub(crate) cache: CacheLimits,
}

/// How many rows a scan looks at before it returns what it has: there may be any number of deletions between two rows.
const MAX_VISITED_ROWS: usize = 4096;

/// One state of the tree.
pub(crate) struct Sources {
    active: Arc<Memtable>,
    /// Full memtables that are not in tables yet, the newest first.
    sealed: Vec<Arc<Memtable>>,
    levels: Arc<Levels>,
}

pub(crate) struct Tree {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    sizes: Sizes,
    cache: Arc<TableCache>,
    /// Locked for moments only.
    sources: Mutex<Arc<Sources>>,
    /// Locked by whoever changes the manifest, while it is written.
    recorded: Mutex<Recorded>,
    /// Tables that are being merged or dropped.
    busy: Mutex<HashSet<u64>>,
    next_id: AtomicU64,
    /// What is no longer part of the tree, and may still be read from.
    retired: Mutex<Retired>,
    /// Merges end early.
    stop: AtomicBool,
}

/// What the manifest says, but for the tables, which are in [`Sources`].
struct Recorded {
    /// The number of the last batch that is in tables.
    flushed: u64,
    journal: JournalEnd,
    /// Tables that a manifest lists which may be on disk, though writing it has failed. They go once a later one is there.
    doomed: Vec<Arc<Table>>,
    /// Files that no manifest lists. They go once the first one of this run is there.
    unlisted: Vec<u64>,
}

#[derive(Default)]
struct Retired {
    tables: Vec<Arc<Table>>,
    memtables: Vec<Arc<Memtable>>,
}

/// How much there is to do besides merging tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Many rows are written: as few of those below as possible are written again.
    Haste,
    /// Nothing was written for a moment: readers come first.
    Leisure,
    /// Nothing was written for a while: the disk should hold little more than what is there.
    Rest,
}

/// What was found on disk.
pub(crate) struct Found {
    /// The number of the last batch that is in tables.
    pub(crate) flushed: u64,
    pub(crate) journal: JournalEnd,
}

/// What to make of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing has ever been kept there: parts may be missing.
    Nothing,
    /// Whatever is missing is damage.
    Everything,
}

impl Tree {
    /// Opens what is in the folder. Nothing is written before [`Tree::record_journal`].
    pub(crate) fn open(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        sizes: Sizes,
        expect: Expect,
    ) -> Result<(Self, Found), EngineError> {
        let manifest = Manifest::read(&**files, folder)?;
        let found = table_files(&**files, folder)?;
        let is_used = !found.is_empty() || manifest.as_ref().is_some_and(|manifest| manifest.flushed > 0);
        let manifest = match (manifest, expect) {
            (_, Expect::Nothing) if is_used => {
                let message =
                    format!("there are tables, but the file FORMAT is missing: {}", folder.display());
                return Err(EngineError::Corrupt(message));
            }
            (Some(manifest), _) => manifest,
            (None, Expect::Nothing) => Manifest::default(),
            (None, Expect::Everything) => {
                return Err(EngineError::Corrupt(format!("the manifest is missing: {}", folder.display())));
            }
        };
        let cache = Arc::new(TableCache::new(sizes.cache));
        let Manifest { flushed, journal, lost, tables } = manifest;
        let listed: HashSet<u64> = tables.iter().map(|(_, table)| table.id).collect();
        let open =
            |(level, meta)| Ok((usize::from(level), Arc::new(Table::listed(files, &cache, folder, meta)?)));
        let tables = tables.into_iter().map(open).collect::<Result<Vec<_>, EngineError>>()?;
        let levels = Levels::new(tables.into_iter(), lost).ok_or_else(|| {
            EngineError::Corrupt(format!("tables of one level overlap: {}", folder.display()))
        })?;
        for range in levels.lost() {
            tracing::error!(start = ?range.start, end = ?range.end, "rows in this range were lost to damage");
        }
        let highest = found.iter().chain(&listed).max().copied().unwrap_or(0);
        let unlisted = found.into_iter().filter(|id| !listed.contains(id)).collect();
        let sources = Sources {
            active: Arc::new(Memtable::new(sizes.memtable_bytes)),
            sealed: vec![],
            levels: Arc::new(levels),
        };
        let tree = Self {
            files: Arc::clone(files),
            folder: folder.to_owned(),
            sizes,
            cache,
            sources: Mutex::new(Arc::new(sources)),
            recorded: Mutex::new(Recorded { flushed, journal, doomed: Vec::new(), unlisted }),
            busy: Mutex::default(),
            next_id: AtomicU64::new(highest + 1),
            retired: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        Ok((tree, Found { flushed, journal }))
    }

    pub(crate) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    pub(crate) fn sources(&self) -> Arc<Sources> {
        Arc::clone(&lock(&self.sources))
    }

    /// What is written to.
    pub(crate) fn memtable(&self) -> Arc<Memtable> {
        Arc::clone(&lock(&self.sources).active)
    }

    /// How many tables overlap each other and wait to be merged.
    pub(crate) fn waiting_tables(&self) -> usize {
        lock(&self.sources).levels.overlapping().len()
    }

    /// Whether the memtable has so many rows that those of the tables which it hides may be many, and is the only one.
    pub(crate) fn memtable_hides_much(&self) -> bool {
        let sources = self.sources();
        let rows = sources.levels.rows();
        rows > 0 && sources.sealed.is_empty() && hides_much(sources.active.rows(), rows)
    }

    /// Begins a new memtable, and returns it. The other one waits for [`Tree::flush`].
    pub(crate) fn seal(&self) -> Arc<Memtable> {
        let active = Arc::new(Memtable::new(self.sizes.memtable_bytes));
        let mut sources = lock(&self.sources);
        let mut sealed = vec![Arc::clone(&sources.active)];
        sealed.extend_from_slice(&sources.sealed);
        let levels = Arc::clone(&sources.levels);
        *sources = Arc::new(Sources { active: Arc::clone(&active), sealed, levels });
        active
    }

    /// Says which journal there must be from here on. It is on disk when this returns.
    pub(crate) fn record_journal(&self, journal: JournalEnd) -> Result<(), ManifestError> {
        let mut recorded = lock(&self.recorded);
        let (flushed, levels) = (recorded.flushed, Arc::clone(&self.sources().levels));
        self.record(&mut recorded, flushed, journal, &levels)
    }

    /// Writes the manifest. Whatever it does not list goes afterwards.
    fn record(
        &self,
        recorded: &mut Recorded,
        flushed: u64,
        journal: JournalEnd,
        levels: &Levels,
    ) -> Result<(), ManifestError> {
        if !levels.is_ordered() {
            let bug = EngineError::Failed("a bug: tables of one level would overlap".into());
            return Err(ManifestError::Nothing(bug));
        }
        Manifest::new(flushed, journal, levels).write(&*self.files, &self.folder)?;
        // Only now: until here a crash would leave what the older one says.
        recorded.flushed = flushed;
        recorded.journal = journal;
        lock(&self.retired).tables.append(&mut recorded.doomed);
        recorded.unlisted.retain(|id| {
            let removed = self.files.remove_file(&Table::path(&self.folder, *id));
            let is_left = removed.is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound);
            if is_left {
                tracing::warn!(table = id, "cannot remove a file that is not part of the tree");
            }
            is_left
        });
        Ok(())
    }

    /// Writes the oldest full memtable to a table, if there is one. Called by one thread at a time.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        let sources = self.sources();
        let Some(memtable) = sources.sealed.last() else { return Ok(()) };
        let table = self.write_memtable(memtable, &sources.levels)?;
        if let Some(table) = &table {
            table.open_early();
        }
        let mut recorded = lock(&self.recorded);
        let before = Arc::clone(&self.sources().levels);
        let levels = match &table {
            Some(table) => before.with_newest(Arc::clone(table)),
            None => Levels::clone(&before),
        };
        let (flushed, journal) = (memtable.newest().max(recorded.flushed), recorded.journal);
        if let Err(error) = self.record(&mut recorded, flushed, journal, &levels) {
            recorded.doomed.extend(table);
            return Err(error.into());
        }
        let mut current = lock(&self.sources);
        let mut sealed = current.sealed.clone();
        let memtable = sealed.pop();
        *current =
            Arc::new(Sources { active: Arc::clone(&current.active), sealed, levels: Arc::new(levels) });
        drop(current);
        lock(&self.retired).memtables.extend(memtable);
        Ok(())
    }

    fn write_memtable(
        &self,
        memtable: &Memtable,
        levels: &Levels,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        let cursor = MemtableCursor::new(memtable, b"", u64::MAX);
        let mut rows = Rows::new(vec![Source::Memtable(cursor)])?;
        let mut writer = None;
        while let Some(key) = rows.key() {
            let value = rows.value();
            // Everything older is in tables already.
            if value.is_some() || levels.spans(key) {
                self.writer(&mut writer)?.push(key, value)?;
            }
            rows.advance()?;
        }
        writer.map(TableWriter::finish).transpose()
    }

    /// Merges some tables that want it, if there are any: as soon as so many came from memory. With less pressure,
    /// less urgent ones too. Says whether it has changed anything.
    pub(crate) fn merge(&self, from_memory: usize, pressure: Pressure) -> Result<bool, EngineError> {
        // Asked for before, for a merge that ends half way has used the space in vain.
        let free = self.files.free_space(&self.folder).unwrap_or(u64::MAX);
        let space = free.saturating_sub(self.sizes.free_bytes);
        let Some((merge, claim)) = self.claim(|levels, busy| {
            let merge = levels.pick(self.sizes, busy, from_memory, space);
            let merge = merge.or_else(|| match pressure {
                Pressure::Haste => None,
                Pressure::Leisure => levels.pick_deletions(busy, space),
                Pressure::Rest => {
                    levels.pick_deletions(busy, space).or_else(|| levels.pick_at_rest(busy, space))
                }
            })?;
            let ids = merge.tables().map(|table| table.meta.id).collect();
            Some((merge, ids))
        }) else {
            return Ok(false);
        };
        let began = Instant::now();
        let (mut merged, lost) = (Vec::new(), Lost::default());
        let is_done = match merge.is_move {
            true => Ok(true),
            false => self.merge_rows(&merge, &lost, &mut merged),
        };
        if !matches!(is_done, Ok(true)) {
            self.discard(merged);
            return is_done;
        }
        tracing::debug!(
            level = merge.target,
            is_move = merge.is_move,
            tables = claim.ids.len(),
            bytes = merge.tables().map(|table| table.meta.bytes).sum::<u64>(),
            merged_tables = merged.len(),
            merged_bytes = merged.iter().map(|table| table.meta.bytes).sum::<u64>(),
            milliseconds = began.elapsed().as_millis() as u64,
            "merged tables"
        );
        let gone = claim.ids.iter().copied().collect();
        let tables = if merge.is_move { merge.upper.clone() } else { merged.clone() };
        let lost = std::mem::take(&mut *lock(&lost));
        let changed = self.change(|levels| levels.without(&gone).with(merge.target, tables).with_lost(lost));
        match changed {
            Ok(true) if !merge.is_move => lock(&self.retired).tables.extend(merge.tables().cloned()),
            Ok(true) => {}
            Ok(false) => self.discard(merged),
            // A manifest that lists them may be on disk.
            Err(_) => lock(&self.recorded).doomed.extend(merged),
        }
        changed
    }

    /// Says whether it is done: not once it was told to stop.
    fn merge_rows(
        &self,
        merge: &Merge,
        lost: &Lost,
        merged: &mut Vec<Arc<Table>>,
    ) -> Result<bool, EngineError> {
        let through = |tables| TablesCursor::through(tables, lost).map(Source::Tables);
        let upper = merge.upper.iter().map(|table| through(vec![Arc::clone(table)]));
        let lower = std::iter::once_with(|| through(merge.lower.clone()));
        let mut rows = Rows::new(upper.chain(lower).collect::<Result<_, _>>()?)?;
        // Tables below are merged and dropped meanwhile, which makes no key appear there.
        let levels = Arc::clone(&self.sources().levels);
        let table_bytes = self.sizes.table_bytes(merge.target);
        let mut writer = None;
        while let Some(key) = rows.key() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let value = rows.value();
            if value.is_some() || levels.spans_below(merge.target, key) {
                let table = self.writer(&mut writer)?;
                table.push(key, value)?;
                if table.len() >= table_bytes {
                    merged.extend(writer.take().map(TableWriter::finish).transpose()?);
                }
            }
            rows.advance()?;
        }
        merged.extend(writer.map(TableWriter::finish).transpose()?);
        merged.iter().for_each(Table::open_early);
        Ok(true)
    }

    /// Removes tables that no manifest lists.
    fn discard(&self, tables: Vec<Arc<Table>>) {
        lock(&self.retired).tables.extend(tables);
        self.tidy();
    }

    fn writer<'a>(&self, writer: &'a mut Option<TableWriter>) -> Result<&'a mut TableWriter, EngineError> {
        Ok(match writer {
            Some(writer) => writer,
            None => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let block_bytes = self.sizes.block_bytes;
                writer.insert(TableWriter::new(&self.files, &self.cache, &self.folder, id, block_bytes)?)
            }
        })
    }

    /// Drops the tables that lie wholly in the range. Those that are being merged stay, and so does what is in
    /// memory. Deletions go as well, so older rows of the range may show again.
    pub(crate) fn drop_range(&self, bounds: Bounds<'_>) -> Result<Dropped, EngineError> {
        let is_inside = |table: &Table| {
            let begins = match bounds.0 {
                Bound::Included(start) => table.meta.first >= start,
                Bound::Excluded(start) => table.meta.first > start,
                Bound::Unbounded => true,
            };
            begins && !is_after(&table.meta.last, bounds.1)
        };
        let mut left = 0;
        let claimed = self.claim(|levels, busy| {
            let inside = levels.tables().map(|(_, table)| table).filter(|table| is_inside(table));
            let (kept, tables): (Vec<_>, Vec<_>) =
                inside.cloned().partition(|table| busy.contains(&table.meta.id));
            left = kept.len();
            let ids = tables.iter().map(|table| table.meta.id).collect::<Vec<_>>();
            let is_some = !ids.is_empty() || !levels.lost().is_empty();
            is_some.then_some((tables, ids))
        });
        let Some((tables, claim)) = claimed else { return Ok(Dropped { tables: 0, left }) };
        let gone = claim.ids.iter().copied().collect();
        // What nobody can reach any more is not missed.
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
        if !self.change(|levels| levels.without(&gone).without_lost(is_gone))? {
            return Err(EngineError::Unavailable("the tables are being closed".into()));
        }
        let dropped = Dropped { tables: tables.len(), left };
        lock(&self.retired).tables.extend(tables);
        Ok(dropped)
    }

    /// Makes the tables that are chosen busy.
    fn claim<T>(
        &self,
        choose: impl FnOnce(&Levels, &HashSet<u64>) -> Option<(T, Vec<u64>)>,
    ) -> Option<(T, Claim<'_>)> {
        let mut busy = lock(&self.busy);
        // Read while `busy` is locked: whoever changes the levels frees its tables only afterwards.
        let levels = Arc::clone(&self.sources().levels);
        let (chosen, ids) = choose(&levels, &busy)?;
        busy.extend(&ids);
        Some((chosen, Claim { tree: self, ids }))
    }

    /// Changes which tables there are, on disk first. Says whether it has: not once it was told to stop.
    fn change(&self, change: impl FnOnce(&Levels) -> Levels) -> Result<bool, EngineError> {
        let mut recorded = lock(&self.recorded);
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let levels = change(&self.sources().levels);
        let (flushed, journal) = (recorded.flushed, recorded.journal);
        self.record(&mut recorded, flushed, journal, &levels)?;
        let mut current = lock(&self.sources);
        let (active, sealed) = (Arc::clone(&current.active), current.sealed.clone());
        *current = Arc::new(Sources { active, sealed, levels: Arc::new(levels) });
        Ok(true)
    }

    /// Whether there is something to let go of, as soon as nobody reads from it.
    pub(crate) fn is_untidy(&self) -> bool {
        let retired = lock(&self.retired);
        !retired.tables.is_empty() || !retired.memtables.is_empty()
    }

    /// Lets go of what nobody reads from any more.
    pub(crate) fn tidy(&self) {
        let mut retired = lock(&self.retired);
        let (tables, read): (Vec<_>, Vec<_>) =
            retired.tables.drain(..).partition(|table| Arc::strong_count(table) == 1);
        retired.tables = read;
        let (memtables, read): (Vec<_>, Vec<_>) =
            retired.memtables.drain(..).partition(|memtable| Arc::strong_count(memtable) == 1);
        retired.memtables = read;
        // Both take their time.
        drop(retired);
        drop(memtables);
        for table in tables {
            if let Err(error) = table.remove() {
                tracing::warn!(%error, table = table.meta.id, "cannot remove a table that is not needed any more");
            }
        }
    }

    /// Merges end early, and from here on only a flush under way changes the list of tables: the folder may be
    /// opened again as soon as that is over, whoever still holds this tree.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Waits for whoever is changing the list; who comes later sees the flag.
        drop(lock(&self.recorded));
    }
}

/// What [`Tree::drop_range`] has done.
#[derive(Default)]
pub(crate) struct Dropped {
    pub(crate) tables: usize,
    /// Tables that lie in the range and are being merged.
    pub(crate) left: usize,
}

/// Tables that nobody else may merge or drop until this is dropped.
struct Claim<'a> {
    tree: &'a Tree,
    ids: Vec<u64>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut busy = lock(&self.tree.busy);
        self.ids.iter().for_each(|id| {
            busy.remove(id);
        });
    }
}

impl Sources {
    /// The value of a key, as of the batch with this number.
    pub(crate) fn get(&self, key: &[u8], number: u64, mode: ReadMode) -> Result<Option<Value>, ReadError> {
        if let Some(range) = self.levels.lost_from(key).filter(|range| range.start <= key) {
            return Err(is_lost(range).into());
        }
        let hash = filter::hash(key);
        for memtable in self.memtables() {
            if let Some(entry) = memtable.get(key, hash, number) {
                return Ok(entry);
            }
        }
        let from_memory = self.levels.overlapping().iter().filter(|table| table.spans(key));
        let ordered = self.levels.ordered().filter_map(|tables| levels::table_for(tables, key));
        for table in from_memory.chain(ordered) {
            if let Some(entry) = table.get(key, hash, mode)? {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    /// The first rows in these bounds, as of the batch with this number.
    pub(crate) fn scan(
        &self,
        bounds: Bounds<'_>,
        limit: ScanLimit,
        number: u64,
        mode: ReadMode,
    ) -> Result<ScanPage, ReadError> {
        let mut page = ScanPage::default();
        let mut bytes = 0;
        let lost = self.levels.lost_from(start(bounds)).filter(|range| !is_after(&range.start, bounds.1));
        let mut rows = self.rows(bounds, number, mode)?;
        for visited in 0.. {
            let key = rows.key().filter(|key| !is_after(key, bounds.1));
            if let Some(range) = lost.filter(|range| key.is_none_or(|key| key >= &range.start[..])) {
                // What lies before it is told first.
                if page.rows.is_empty() {
                    return Err(is_lost(range).into());
                }
                page.next = Some(range.start.clone());
                break;
            }
            if key.is_none() {
                break;
            }
            if visited == MAX_VISITED_ROWS.max(limit.max_rows) {
                page.next = key.map(Key::copy_from_slice);
                break;
            }
            if let Some((key, Some(value))) = rows.row() {
                bytes += key.len() + value.len();
                let full = page.rows.len() >= limit.max_rows || bytes > limit.max_bytes;
                if full && !page.rows.is_empty() {
                    page.next = Some(key);
                    break;
                }
                page.rows.push((key, value));
            }
            rows.advance()?;
        }
        Ok(page)
    }

    fn rows(&self, bounds: Bounds<'_>, number: u64, mode: ReadMode) -> Result<Rows<'_>, ReadError> {
        let from = start(bounds);
        let to = match bounds.1 {
            Bound::Included(to) | Bound::Excluded(to) => Some(to),
            Bound::Unbounded => None,
        };
        let cursor = |memtable| Source::Memtable(MemtableCursor::new(memtable, from, number));
        let mut sources: Vec<Source<'_>> = self.memtables().map(cursor).collect();
        let from_memory = self.levels.overlapping().iter().map(std::slice::from_ref);
        for tables in from_memory.chain(self.levels.ordered()) {
            let tables = levels::between(tables, from, to);
            if !tables.is_empty() {
                sources.push(Source::Tables(TablesCursor::new(tables.to_vec(), from, to, mode)?));
            }
        }
        let mut rows = Rows::new(sources)?;
        if matches!(bounds.0, Bound::Excluded(from) if rows.key() == Some(from)) {
            rows.advance()?;
        }
        Ok(rows)
    }

    /// The newest first.
    fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&*self.active).chain(self.sealed.iter().map(|memtable| &**memtable))
    }
}

fn start(bounds: Bounds<'_>) -> &[u8] {
    match bounds.0 {
        Bound::Included(from) | Bound::Excluded(from) => from,
        Bound::Unbounded => b"",
    }
}

fn is_lost(range: &LostRange) -> EngineError {
    EngineError::Corrupt(format!("rows were lost to damage: {:?} to {:?}", range.start, range.end))
}

fn is_after(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// The ids of the tables in the folder, listed or not.
fn table_files(files: &dyn FileSystem, folder: &Path) -> Result<Vec<u64>, EngineError> {
    let failed = |error| {
        let message = format!("cannot list the tables: {error}: {}", folder.display());
        crate::store::io_error(&error, &message)
    };
    let mut ids = Vec::new();
    for name in files.names(folder).map_err(failed)? {
        let name = name.to_str().unwrap_or_default();
        match name.parse() {
            Ok(id) => ids.push(id),
            Err(_) if Manifest::is_manifest(name) => {}
            Err(_) => tracing::warn!(name, folder = %folder.display(), "not a file of a table: left alone"),
        }
    }
    Ok(ids)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
