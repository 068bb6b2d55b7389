//! The rows of several sources in one order. Of a key that is in several, the newest counts.

use super::Entry;
use super::memtable::MemtableCursor;
use super::table::{Table, TableCursor};
use crate::{EngineError, Key};
use std::sync::Arc;

/// Rows in the order of their keys, each key once.
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

    fn advance(&mut self) -> Result<(), EngineError> {
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
    to: Option<Key>,
    /// All rows are wanted.
    through: bool,
}

impl TablesCursor {
    /// Stands at the first key that is not before `from`. Rows after `to` may be left out.
    pub(super) fn new(tables: Vec<Arc<Table>>, from: &[u8], to: Option<&[u8]>) -> Result<Self, EngineError> {
        let mut next = tables.into_iter();
        let current = next.next().map(|table| TableCursor::new(table, from, to)).transpose()?;
        let mut cursor = Self { current, next, to: to.map(Key::copy_from_slice), through: false };
        cursor.settle()?;
        Ok(cursor)
    }

    /// All rows, for merges.
    pub(super) fn through(tables: Vec<Arc<Table>>) -> Result<Self, EngineError> {
        let mut next = tables.into_iter();
        let current = next.next().map(TableCursor::through).transpose()?;
        Ok(Self { current, next, to: None, through: true })
    }

    fn advance(&mut self) -> Result<(), EngineError> {
        if let Some(current) = &mut self.current {
            current.advance()?;
        }
        self.settle()
    }

    fn settle(&mut self) -> Result<(), EngineError> {
        while self.current.as_ref().is_some_and(|current| current.key().is_none()) {
            let next = self.next.next();
            let open = |table: Arc<Table>| match self.through {
                true => TableCursor::through(table),
                false => TableCursor::new(table, b"", self.to.as_deref()),
            };
            self.current = next.map(open).transpose()?;
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
    pub(super) fn new(sources: Vec<Source<'a>>) -> Result<Self, EngineError> {
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

    pub(super) fn advance(&mut self) -> Result<(), EngineError> {
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
    fn settle(&mut self) -> Result<(), EngineError> {
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
