//! A cursor over the rows of a range.

use crate::transact::storage_error;
use tepui_model::ServiceError;
use tepui_storage::{Key, KeyRange, ScanLimit, Snapshot, Value};

/// Iterates over the rows of a range, read in chunks.
pub(super) struct RowCursor<'s, S> {
    snapshot: &'s S,
    position: CursorPosition,
}

/// How far a cursor is.
pub(super) struct CursorPosition {
    /// The range that was not read yet.
    rest: Option<KeyRange>,
    read: std::vec::IntoIter<(Key, Value)>,
    limit: ScanLimit,
}

impl<'s, S: Snapshot> RowCursor<'s, S> {
    pub(super) fn new(snapshot: &'s S, range: KeyRange, max_rows: usize) -> Self {
        let limit = ScanLimit { max_rows, max_bytes: 1024 * 1024 };
        let rest = (range.start < range.end).then_some(range);
        Self { snapshot, position: CursorPosition { rest, read: Vec::new().into_iter(), limit } }
    }

    pub(super) async fn next(&mut self) -> Result<Option<(Key, Value)>, ServiceError> {
        loop {
            if let Some(row) = self.position.read.next() {
                return Ok(Some(row));
            }
            if self.position.rest.is_none() {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// Whether the next row has to be read first.
    pub(super) fn is_at_end_of_chunk(&self) -> bool {
        self.position.read.as_slice().is_empty()
    }

    /// Reads the next chunk. To be called when all that was read is taken.
    pub(super) async fn fill(&mut self) -> Result<(), ServiceError> {
        let Some(range) = &mut self.position.rest else { return Ok(()) };
        // If this fails, the position stays.
        let page = self.snapshot.scan(range, self.position.limit).await.map_err(storage_error)?;
        self.position.read = page.rows.into_iter();
        match page.next {
            Some(start) => range.start = start,
            None => self.position.rest = None,
        }
        Ok(())
    }

    /// The next rows, at most `count`.
    pub(super) async fn take(&mut self, count: usize) -> Result<Vec<(Key, Value)>, ServiceError> {
        let mut rows = Vec::with_capacity(count.min(self.position.limit.max_rows));
        while rows.len() < count
            && let Some(row) = self.next().await?
        {
            rows.push(row);
        }
        Ok(rows)
    }

    pub(super) fn into_position(self) -> CursorPosition {
        self.position
    }

    /// A cursor that goes on where one of another snapshot was.
    pub(super) fn resume(snapshot: &'s S, position: CursorPosition) -> Self {
        Self { snapshot, position }
    }

    /// Continues with the first row that is not before `key`.
    pub(super) fn skip_to(&mut self, key: &Key) {
        while self.position.read.as_slice().first().is_some_and(|(read, _)| read < key) {
            self.position.read.next();
        }
        if self.position.read.as_slice().is_empty()
            && let Some(range) = &mut self.position.rest
            && range.start < *key
        {
            range.start = key.clone();
            if range.start >= range.end {
                self.position.rest = None;
            }
        }
    }
}
