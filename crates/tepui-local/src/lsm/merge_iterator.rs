//! Merges the rows of several inputs into one order. Of a key that is in several, the newest counts.

use super::memtable::MemtableCursor;
use super::sorted_table::{LostRanges, SortedTable, TableCursor};
use super::{ReadError, StoredValue};
use crate::blocking::ReadMode;
use std::sync::Arc;
use tepui_storage::{Key, StorageError};

/// Rows in key order, each key once.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and most are levels")]
pub(super) enum MergeInput<'a> {
    Memtable(MemtableCursor<'a>),
    Level(LevelCursor),
}

impl MergeInput<'_> {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.key(),
            Self::Level(cursor) => cursor.current.as_ref()?.key(),
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.value(),
            Self::Level(cursor) => cursor.current.as_ref()?.value(),
        }
    }

    fn row(&self) -> Option<(Key, StoredValue)> {
        match self {
            Self::Memtable(cursor) => cursor.row(),
            Self::Level(cursor) => cursor.current.as_ref()?.row(),
        }
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Memtable(cursor) => cursor.advance(),
            Self::Level(cursor) => cursor.advance()?,
        }
        Ok(())
    }
}

/// Iterates over tables that do not overlap, in key order.
pub(super) struct LevelCursor {
    current: Option<TableCursor>,
    next: std::vec::IntoIter<Arc<SortedTable>>,
    scope: ReadScope,
}

/// Which rows of each table are read.
enum ReadScope {
    /// For a reader: those up to a key, or all.
    UpTo(Option<Key>, ReadMode),
    /// For a compaction: all that can be read.
    Readable(LostRanges),
}

impl ReadScope {
    /// Opens the next table that has such rows.
    fn open(
        &self,
        tables: &mut std::vec::IntoIter<Arc<SortedTable>>,
    ) -> Result<Option<TableCursor>, ReadError> {
        for table in tables {
            let cursor = match self {
                Self::UpTo(to, mode) => Some(TableCursor::new(table, b"", to.as_deref(), *mode)?),
                Self::Readable(lost) => TableCursor::for_compaction(table, lost)?,
            };
            if cursor.is_some() {
                return Ok(cursor);
            }
        }
        Ok(None)
    }
}

impl LevelCursor {
    /// Starts at the first key that is not before `from`. May end at the first key after `to`.
    pub(super) fn new(
        tables: Vec<Arc<SortedTable>>,
        from: &[u8],
        to: Option<&[u8]>,
        mode: ReadMode,
    ) -> Result<Self, ReadError> {
        let mut next = tables.into_iter();
        let current = next.next().map(|table| TableCursor::new(table, from, to, mode)).transpose()?;
        let scope = ReadScope::UpTo(to.map(Key::copy_from_slice), mode);
        let mut cursor = Self { current, next, scope };
        cursor.skip_exhausted()?;
        Ok(cursor)
    }

    /// All rows that can be read. Ranges that cannot are added to `lost`.
    pub(super) fn for_compaction(
        tables: Vec<Arc<SortedTable>>,
        lost: &LostRanges,
    ) -> Result<Self, StorageError> {
        let scope = ReadScope::Readable(Arc::clone(lost));
        let mut next = tables.into_iter();
        let current = scope.open(&mut next)?;
        let mut cursor = Self { current, next, scope };
        cursor.skip_exhausted()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        if let Some(current) = &mut self.current {
            current.advance()?;
        }
        self.skip_exhausted()
    }

    fn skip_exhausted(&mut self) -> Result<(), ReadError> {
        while self.current.as_ref().is_some_and(|current| current.key().is_none()) {
            self.current = self.scope.open(&mut self.next)?;
        }
        Ok(())
    }
}

/// Iterates over the newest row of each key, in key order.
pub(super) struct MergeIterator<'a> {
    /// The newest first.
    inputs: Vec<MergeInput<'a>>,
    /// The input with the smallest key, and the one with the smallest key among the others.
    first: usize,
    second: usize,
}

impl<'a> MergeIterator<'a> {
    pub(super) fn new(inputs: Vec<MergeInput<'a>>) -> Result<Self, ReadError> {
        let mut rows = Self { inputs, first: 0, second: 0 };
        rows.find_smallest()?;
        Ok(rows)
    }

    /// `None`: there are no more rows.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.inputs.get(self.first)?.key()
    }

    /// `None`: a tombstone.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.inputs.get(self.first)?.value()
    }

    /// Key and value, owned.
    pub(super) fn row(&self) -> Option<(Key, StoredValue)> {
        self.inputs.get(self.first)?.row()
    }

    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        let Some(input) = self.inputs.get_mut(self.first) else { return Ok(()) };
        input.advance()?;
        let second = match self.second == self.first {
            true => None,
            false => self.inputs[self.second].key(),
        };
        // Often one input has many successive rows.
        match (self.inputs[self.first].key(), second) {
            (Some(_), None) => Ok(()),
            (Some(key), Some(second)) if key < second => Ok(()),
            _ => self.find_smallest(),
        }
    }

    /// Finds `first` and `second`, and skips rows that the one of `first` shadows.
    fn find_smallest(&mut self) -> Result<(), ReadError> {
        let Some(first) = self.smallest(None) else {
            self.inputs.clear();
            return Ok(());
        };
        let (newer, older) = self.inputs.split_at_mut(first + 1);
        let key = newer.last().and_then(MergeInput::key);
        for input in older {
            if input.key() == key {
                input.advance()?;
            }
        }
        self.first = first;
        self.second = self.smallest(Some(first)).unwrap_or(first);
        Ok(())
    }

    /// The input with the smallest key, the newest of several, except one.
    fn smallest(&self, except: Option<usize>) -> Option<usize> {
        let keys = self.inputs.iter().enumerate().filter(|(index, _)| Some(*index) != except);
        keys.filter_map(|(index, input)| Some((input.key()?, index))).min().map(|(_, index)| index)
    }
}
