//! Rows on disk: memtables, and tables that are merged in levels.
//!
//! | | |
//! | --- | --- |
//! | `memtable.rs` | what was written lately, in memory |
//! | `table.rs` `block.rs` `index.rs` `filter.rs` | files of rows in the order of their keys |
//! | `levels.rs` | which tables there are, and which to merge next |
//! | `list.rs` | the same on disk |
//! | `rows.rs` | rows of several sources in one order |
//!
//! A reader holds [`Sources`], which never change but for newer batches in the newest memtable. So a table has
//! each key once, and goes as soon as nobody reads from it.

mod block;
mod filter;
mod index;
mod levels;
mod list;
mod memtable;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use crate::limits::Bounds;
use crate::{EngineError, ScanLimit, ScanPage, Value};
use levels::{Levels, Merge};
use list::List;
pub(crate) use memtable::Memtable;
use memtable::MemtableCursor;
use rows::{Rows, Source, TablesCursor};
use std::collections::HashSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use table::{Table, TableWriter};

/// What a key was last given. `None`: it was deleted.
type Entry = Option<Value>;

/// How large things are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// When a memtable is full. Tables are as large.
    pub(crate) memtable_bytes: u64,
    pub(crate) block_bytes: usize,
}

/// One state of the tree.
pub(crate) struct Sources {
    active: Arc<Memtable>,
    /// Full memtables that are not in tables yet, the newest first.
    sealed: Vec<Arc<Memtable>>,
    levels: Arc<Levels>,
}

pub(crate) struct Tree {
    folder: PathBuf,
    sizes: Sizes,
    /// Locked for moments only.
    sources: Mutex<Arc<Sources>>,
    /// Locked by whoever changes the list of tables, while it is written. The number of the last batch in tables.
    flushed: Mutex<u64>,
    /// Tables that are being merged or dropped.
    busy: Mutex<HashSet<u64>>,
    next_id: AtomicU64,
    /// What is no longer part of the tree, and may still be read from.
    retired: Mutex<Retired>,
    /// Merges end early.
    stop: AtomicBool,
}

#[derive(Default)]
struct Retired {
    tables: Vec<Arc<Table>>,
    memtables: Vec<Arc<Memtable>>,
}

impl Tree {
    /// Opens what is in the folder. Also returns the number of the last batch that is in tables.
    pub(crate) fn open(folder: &Path, sizes: Sizes) -> Result<(Self, u64), EngineError> {
        let failed = |error| {
            let message = format!("cannot open the tables: {error}: {}", folder.display());
            crate::store::io_error(&error, &message)
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let files = table_files(folder)?;
        let list = match List::read(folder)? {
            Some(list) => list,
            None if files.is_empty() => {
                let list = List::default();
                // Before there is any table: from then on a list that is missing means damage, not a crash.
                list.write(folder)?;
                list
            }
            None => {
                let message = format!("the list of tables is missing: {}", folder.display());
                return Err(EngineError::Corrupt(message));
            }
        };
        let open = |listed: &list::Listed| {
            let table = Table::open(folder, listed.id)?;
            if table.bytes != listed.bytes {
                let path = Table::path(folder, listed.id);
                let message = format!("a table does not have its size: {}", path.display());
                return Err(EngineError::Corrupt(message));
            }
            Ok((usize::from(listed.level), table))
        };
        let tables = list.tables.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let levels = Levels::new(tables.into_iter()).ok_or_else(|| {
            EngineError::Corrupt(format!("tables of one level overlap: {}", folder.display()))
        })?;
        let listed: HashSet<u64> = list.tables.iter().map(|table| table.id).collect();
        let unlisted: Vec<u64> = files.into_iter().filter(|id| !listed.contains(id)).collect();
        if !unlisted.is_empty() {
            // Whatever has happened to the list before: it is on disk before what it does not name is gone.
            list.write(folder)?;
        }
        for id in unlisted {
            std::fs::remove_file(Table::path(folder, id)).map_err(failed)?;
        }
        let sources = Sources {
            active: Arc::new(Memtable::new(sizes.memtable_bytes)),
            sealed: vec![],
            levels: Arc::new(levels),
        };
        let tree = Self {
            folder: folder.to_owned(),
            sizes,
            sources: Mutex::new(Arc::new(sources)),
            flushed: Mutex::new(list.flushed),
            busy: Mutex::default(),
            next_id: AtomicU64::new(listed.iter().max().map_or(1, |highest| highest + 1)),
            retired: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        Ok((tree, list.flushed))
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

    /// Writes the oldest full memtable to a table, if there is one. Called by one thread at a time.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        let sources = self.sources();
        let Some(memtable) = sources.sealed.last() else { return Ok(()) };
        let table = self.write_memtable(memtable, &sources.levels)?.map(Arc::new);
        let mut flushed = lock(&self.flushed);
        *flushed = memtable.newest().max(*flushed);
        let before = Arc::clone(&self.sources().levels);
        let levels = table.map_or_else(|| Levels::clone(&before), |table| before.with_newest(table));
        List::new(*flushed, &levels).write(&self.folder)?;
        let mut current = lock(&self.sources);
        let mut sealed = current.sealed.clone();
        let memtable = sealed.pop();
        *current =
            Arc::new(Sources { active: Arc::clone(&current.active), sealed, levels: Arc::new(levels) });
        drop(current);
        lock(&self.retired).memtables.extend(memtable);
        Ok(())
    }

    fn write_memtable(&self, memtable: &Memtable, levels: &Levels) -> Result<Option<Table>, EngineError> {
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

    /// Merges some tables that want it, if there are any: as soon as so many came from memory. With leisure,
    /// less urgent ones too. Says whether it has changed anything.
    pub(crate) fn merge(&self, from_memory: usize, leisure: bool) -> Result<bool, EngineError> {
        let Some((merge, claim)) = self.claim(|levels, busy| {
            let merge = levels.pick(self.sizes, busy, from_memory);
            let merge = merge.or_else(|| leisure.then(|| levels.pick_deletions(busy)).flatten())?;
            let ids = merge.tables().map(|table| table.id).collect();
            Some((merge, ids))
        }) else {
            return Ok(false);
        };
        let began = Instant::now();
        let merged = if merge.is_move { Some(merge.upper.clone()) } else { self.merge_rows(&merge)? };
        let Some(merged) = merged else { return Ok(false) };
        tracing::debug!(
            level = merge.target,
            is_move = merge.is_move,
            tables = claim.ids.len(),
            bytes = merge.tables().map(|table| table.bytes).sum::<u64>(),
            merged_tables = merged.len(),
            merged_bytes = merged.iter().map(|table| table.bytes).sum::<u64>(),
            milliseconds = began.elapsed().as_millis() as u64,
            "merged tables"
        );
        let gone = claim.ids.iter().copied().collect();
        let has_changed = self.change(|levels| levels.without(&gone).with(merge.target, merged))?;
        if has_changed && !merge.is_move {
            lock(&self.retired).tables.extend(merge.tables().cloned());
        }
        Ok(has_changed)
    }

    /// `None`: it was told to stop.
    fn merge_rows(&self, merge: &Merge) -> Result<Option<Vec<Arc<Table>>>, EngineError> {
        let through = |tables| TablesCursor::through(tables).map(Source::Tables);
        let upper = merge.upper.iter().map(|table| through(vec![Arc::clone(table)]));
        let lower = std::iter::once_with(|| through(merge.lower.clone()));
        let mut rows = Rows::new(upper.chain(lower).collect::<Result<_, _>>()?)?;
        // Tables below are merged and dropped meanwhile, which makes no key appear there.
        let levels = Arc::clone(&self.sources().levels);
        let table_bytes = self.sizes.table_bytes(merge.target);
        let (mut tables, mut writer) = (Vec::new(), None);
        while let Some(key) = rows.key() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let value = rows.value();
            if value.is_some() || levels.spans_below(merge.target, key) {
                let table = self.writer(&mut writer)?;
                table.push(key, value)?;
                if table.len() >= table_bytes {
                    tables.extend(writer.take().map(TableWriter::finish).transpose()?.map(Arc::new));
                }
            }
            rows.advance()?;
        }
        tables.extend(writer.map(TableWriter::finish).transpose()?.map(Arc::new));
        Ok(Some(tables))
    }

    fn writer<'a>(&self, writer: &'a mut Option<TableWriter>) -> Result<&'a mut TableWriter, EngineError> {
        Ok(match writer {
            Some(writer) => writer,
            None => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                writer.insert(TableWriter::new(&self.folder, id, self.sizes.block_bytes)?)
            }
        })
    }

    /// Drops the tables that lie wholly in the range. Those that are being merged stay, and so does what is in
    /// memory. Deletions go as well, so older rows of the range may show again.
    pub(crate) fn drop_range(&self, bounds: Bounds<'_>) -> Result<Dropped, EngineError> {
        let is_inside = |table: &Table| {
            let begins = match bounds.0 {
                Bound::Included(start) => table.first >= start,
                Bound::Excluded(start) => table.first > start,
                Bound::Unbounded => true,
            };
            begins && !is_after(&table.last, bounds.1)
        };
        let mut left = 0;
        let claimed = self.claim(|levels, busy| {
            let inside = levels.tables().map(|(_, table)| table).filter(|table| is_inside(table));
            let (kept, tables): (Vec<_>, Vec<_>) =
                inside.cloned().partition(|table| busy.contains(&table.id));
            left = kept.len();
            let ids = tables.iter().map(|table| table.id).collect::<Vec<_>>();
            (!ids.is_empty()).then_some((tables, ids))
        });
        let Some((tables, claim)) = claimed else { return Ok(Dropped { tables: 0, left }) };
        let gone = claim.ids.iter().copied().collect();
        if !self.change(|levels| levels.without(&gone))? {
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
        let flushed = lock(&self.flushed);
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let levels = change(&self.sources().levels);
        List::new(*flushed, &levels).write(&self.folder)?;
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
                tracing::warn!(%error, table = table.id, "cannot remove a table that is not needed any more");
            }
        }
    }

    /// Merges end early, and from here on only a flush under way changes the list of tables: the folder may be
    /// opened again as soon as that is over, whoever still holds this tree.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Waits for whoever is changing the list; who comes later sees the flag.
        drop(lock(&self.flushed));
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
    pub(crate) fn get(&self, key: &[u8], number: u64) -> Result<Option<Value>, EngineError> {
        let hash = filter::hash(key);
        for memtable in self.memtables() {
            if let Some(entry) = memtable.get(key, hash, number) {
                return Ok(entry);
            }
        }
        let from_memory = self.levels.overlapping().iter().filter(|table| table.spans(key));
        let ordered = self.levels.ordered().filter_map(|tables| levels::table_for(tables, key));
        for table in from_memory.chain(ordered) {
            if let Some(entry) = table.get(key, hash)? {
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
    ) -> Result<ScanPage, EngineError> {
        let mut page = ScanPage::default();
        let mut bytes = 0;
        let mut rows = self.rows(bounds, number)?;
        while let Some((key, entry)) = rows.row() {
            if is_after(&key, bounds.1) {
                break;
            }
            if let Some(value) = entry {
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

    fn rows(&self, bounds: Bounds<'_>, number: u64) -> Result<Rows<'_>, EngineError> {
        let from = match bounds.0 {
            Bound::Included(from) | Bound::Excluded(from) => from,
            Bound::Unbounded => b"",
        };
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
                sources.push(Source::Tables(TablesCursor::new(tables.to_vec(), from, to)?));
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

fn is_after(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// The ids of the tables in the folder, listed or not.
fn table_files(folder: &Path) -> Result<Vec<u64>, EngineError> {
    let failed = |error| {
        let message = format!("cannot list the tables: {error}: {}", folder.display());
        crate::store::io_error(&error, &message)
    };
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        match name.parse() {
            Ok(id) => ids.push(id),
            Err(_) if List::is_list(name) => {}
            Err(_) => {
                return Err(EngineError::Corrupt(format!("not a file of a table: {}", path.display())));
            }
        }
    }
    Ok(ids)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
