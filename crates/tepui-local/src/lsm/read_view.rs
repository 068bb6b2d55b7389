//! What a reader holds: the memtables and tables of one moment, which stay as long as it does.

use super::levels::{self, Levels, LostRange};
use super::memtable::MemtableCursor;
use super::merge_iterator::{LevelCursor, MergeInput, MergeIterator};
use super::{Memtable, ReadError, SeqNo, bloom_filter, is_after};
use crate::blocking::ReadMode;
use std::ops::Bound;
use std::sync::Arc;
use tepui_storage::{Key, ScanBounds, ScanLimit, ScanPage, StorageError, Value};

/// How many rows a scan visits before it returns what it has: there may be any number of tombstones between two rows.
pub(super) const MAX_VISITED_ROWS: usize = 4096;

/// One state of the tree. It never changes, but for newer batches in the active memtable.
pub(crate) struct ReadView {
    pub(super) active: Arc<Memtable>,
    /// Memtables that are not flushed yet, the newest first.
    pub(super) sealed: Vec<Arc<Memtable>>,
    pub(super) levels: Arc<Levels>,
}

impl ReadView {
    /// The value of a key as of a sequence number.
    pub(crate) fn get(&self, key: &[u8], seq_no: SeqNo, mode: ReadMode) -> Result<Option<Value>, ReadError> {
        if let Some(range) = self.levels.lost_from(key).filter(|range| range.start <= key) {
            return Err(is_lost(range).into());
        }
        let hash = bloom_filter::hash(key);
        for memtable in self.memtables() {
            if let Some(entry) = memtable.get(key, hash, seq_no) {
                return Ok(entry);
            }
        }
        let level0 = self.levels.level0().iter().filter(|table| table.spans(key));
        let below = self.levels.sorted_levels().filter_map(|tables| levels::table_for(tables, key));
        for table in level0.chain(below) {
            if let Some(entry) = table.get(key, hash, mode)? {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    /// The first rows in these bounds as of a sequence number.
    pub(crate) fn scan(
        &self,
        bounds: ScanBounds<'_>,
        limit: ScanLimit,
        seq_no: SeqNo,
        mode: ReadMode,
    ) -> Result<ScanPage, ReadError> {
        let mut page = ScanPage::default();
        let mut bytes = 0;
        let lost = self.levels.lost_from(start(bounds)).filter(|range| !is_after(&range.start, bounds.1));
        let mut rows = self.rows(bounds, seq_no, mode)?;
        for visited in 0.. {
            let key = rows.key().filter(|key| !is_after(key, bounds.1));
            if let Some(range) = lost.filter(|range| key.is_none_or(|key| key >= &range.start[..])) {
                // Rows before the lost range are returned first; the next page reports it.
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

    fn rows(
        &self,
        bounds: ScanBounds<'_>,
        seq_no: SeqNo,
        mode: ReadMode,
    ) -> Result<MergeIterator<'_>, ReadError> {
        let from = start(bounds);
        let to = match bounds.1 {
            Bound::Included(to) | Bound::Excluded(to) => Some(to),
            Bound::Unbounded => None,
        };
        let cursor = |memtable| MergeInput::Memtable(MemtableCursor::new(memtable, from, seq_no));
        let mut inputs: Vec<MergeInput<'_>> = self.memtables().map(cursor).collect();
        let level0 = self.levels.level0().iter().map(std::slice::from_ref);
        for tables in level0.chain(self.levels.sorted_levels()) {
            let tables = levels::between(tables, from, to);
            if !tables.is_empty() {
                inputs.push(MergeInput::Level(LevelCursor::new(tables.to_vec(), from, to, mode)?));
            }
        }
        let mut rows = MergeIterator::new(inputs)?;
        if matches!(bounds.0, Bound::Excluded(from) if rows.key() == Some(from)) {
            rows.advance()?;
        }
        Ok(rows)
    }

    /// The newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&*self.active).chain(self.sealed.iter().map(|memtable| &**memtable))
    }
}

fn start(bounds: ScanBounds<'_>) -> &[u8] {
    match bounds.0 {
        Bound::Included(from) | Bound::Excluded(from) => from,
        Bound::Unbounded => b"",
    }
}

fn is_lost(range: &LostRange) -> StorageError {
    StorageError::corrupt(format!("rows were lost to damage: {:?} to {:?}", range.start, range.end))
}
