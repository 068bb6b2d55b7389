//! The rows of several sources in one order. Of a key that is in several, the newest counts.

use super::memtable::MemtableCursor;
use super::table::{Lost, Table, TableCursor};
use super::{Entry, ReadError, ReadMode};
use crate::{EngineError, Key};
use std::sync::Arc;

/// Rows in the order of their keys, each key once.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and most are of tables")]
pub(super) enum Source<'a> {
    Memtable(MemtableCursor<'a>),
    Tables(TablesCursor),
}

impl Source<'_> {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.key(),
            Self::Tables(cursor) => cursor.current.as_ref()?.key(),
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.value(),
            Self::Tables(cursor) => cursor.current.as_ref()?.value(),
        }
    }

    fn row(&self) -> Option<(Key, Entry)> {
        match self {
            Self::Memtable(cursor) => cursor.row(),
            Self::Tables(cursor) => cursor.current.as_ref()?.row(),
        }
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Memtable(cursor) => cursor.advance(),
            Self::Tables(cursor) => cursor.advance()?,
        }
        Ok(())
    }
}

/// Goes through tables that follow each other.
pub(super) struct TablesCursor {
    current: Option<TableCursor>,
    next: std::vec::IntoIter<Arc<Table>>,
    wanted: Wanted,
}

/// Which rows of each table are wanted.
enum Wanted {
    /// Those up to a key, or all, for a reader.
    UpTo(Option<Key>, ReadMode),
    /// All that can be read, for a merge.
    Readable(Lost),
}

impl Wanted {
    /// The next table that has any.
    fn open(&self, tables: &mut std::vec::IntoIter<Arc<Table>>) -> Result<Option<TableCursor>, ReadError> {
        for table in tables {
            let cursor = match self {
                Self::UpTo(to, mode) => Some(TableCursor::new(table, b"", to.as_deref(), *mode)?),
                Self::Readable(lost) => TableCursor::through(table, lost)?,
            };
            if cursor.is_some() {
                return Ok(cursor);
            }
        }
        Ok(None)
    }
}

impl TablesCursor {
    /// Stands at the first key that is not before `from`. Rows after `to` may be left out.
    pub(super) fn new(
        tables: Vec<Arc<Table>>,
        from: &[u8],
        to: Option<&[u8]>,
        mode: ReadMode,
    ) -> Result<Self, ReadError> {
        let mut next = tables.into_iter();
        let current = next.next().map(|table| TableCursor::new(table, from, to, mode)).transpose()?;
        let wanted = Wanted::UpTo(to.map(Key::copy_from_slice), mode);
        let mut cursor = Self { current, next, wanted };
        cursor.settle()?;
        Ok(cursor)
    }

    /// All rows that can be read. What is lost is added to `lost`.
    pub(super) fn through(tables: Vec<Arc<Table>>, lost: &Lost) -> Result<Self, EngineError> {
        let wanted = Wanted::Readable(Arc::clone(lost));
        let mut next = tables.into_iter();
        let current = wanted.open(&mut next)?;
        let mut cursor = Self { current, next, wanted };
        cursor.settle()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        if let Some(current) = &mut self.current {
            current.advance()?;
        }
        self.settle()
    }

    fn settle(&mut self) -> Result<(), ReadError> {
        while self.current.as_ref().is_some_and(|current| current.key().is_none()) {
            self.current = self.wanted.open(&mut self.next)?;
        }
        Ok(())
    }
}

/// Stands at one row after the other.
pub(super) struct Rows<'a> {
    /// The newest first.
    sources: Vec<Source<'a>>,
    /// The source that has the smallest key, and the one of the others that has the smallest.
    first: usize,
    second: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn new(sources: Vec<Source<'a>>) -> Result<Self, ReadError> {
        let mut rows = Self { sources, first: 0, second: 0 };
        rows.settle()?;
        Ok(rows)
    }

    /// `None`: there are no more rows.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.sources.get(self.first)?.key()
    }

    /// `None`: the key was deleted.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.sources.get(self.first)?.value()
    }

    /// Both, to keep.
    pub(super) fn row(&self) -> Option<(Key, Entry)> {
        self.sources.get(self.first)?.row()
    }

    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        let Some(source) = self.sources.get_mut(self.first) else { return Ok(()) };
        source.advance()?;
        let second = match self.second == self.first {
            true => None,
            false => self.sources[self.second].key(),
        };
        // Mostly one source has many rows in a row.
        match (self.sources[self.first].key(), second) {
            (Some(_), None) => Ok(()),
            (Some(key), Some(second)) if key < second => Ok(()),
            _ => self.settle(),
        }
    }

    /// Finds `first` and `second`, and passes over what is older than the row of `first`.
    fn settle(&mut self) -> Result<(), ReadError> {
        let Some(first) = self.smallest(None) else {
            self.sources.clear();
            return Ok(());
        };
        let (newer, older) = self.sources.split_at_mut(first + 1);
        let key = newer.last().and_then(Source::key);
        for source in older {
            if source.key() == key {
                source.advance()?;
            }
        }
        self.first = first;
        self.second = self.smallest(Some(first)).unwrap_or(first);
        Ok(())
    }

    /// The source with the smallest key, the newest of several, among all but one.
    fn smallest(&self, but: Option<usize>) -> Option<usize> {
        let keys = self.sources.iter().enumerate().filter(|(index, _)| Some(*index) != but);
        keys.filter_map(|(index, source)| Some((source.key()?, index))).min().map(|(_, index)| index)
    }
}
