//! A cursor over the rows of a range.

use crate::transact::engine_error;
use tepui_model::ServiceError;
use tepui_storage::{Key, KeyRange, ScanLimit, Snapshot, Value};

/// Iterates over the rows of a range, read in chunks.
pub(super) struct RowCursor<'s, S> {
    snapshot: &'s S,
    /// The range that was not read yet.
    rest: Option<KeyRange>,
    read: std::vec::IntoIter<(Key, Value)>,
    limit: ScanLimit,
}

impl<'s, S: Snapshot> RowCursor<'s, S> {
    pub(super) fn new(snapshot: &'s S, range: KeyRange, max_rows: usize) -> Self {
        let limit = ScanLimit { max_rows, max_bytes: 1024 * 1024 };
        let rest = (range.start < range.end).then_some(range);
        Self { snapshot, rest, read: Vec::new().into_iter(), limit }
    }

    pub(super) async fn next(&mut self) -> Result<Option<(Key, Value)>, ServiceError> {
        loop {
            if let Some(row) = self.read.next() {
                return Ok(Some(row));
            }
            let Some(range) = self.rest.take() else { return Ok(None) };
            let page = self.snapshot.scan(&range, self.limit).await.map_err(engine_error)?;
            self.read = page.rows.into_iter();
            self.rest = page.next.map(|start| KeyRange { start, end: range.end });
        }
    }

    /// Continues with the first row that is not before `key`.
    pub(super) fn skip_to(&mut self, key: &Key) {
        while self.read.as_slice().first().is_some_and(|(read, _)| read < key) {
            self.read.next();
        }
        if self.read.as_slice().is_empty()
            && let Some(range) = &mut self.rest
            && range.start < *key
        {
            range.start = key.clone();
            if range.start >= range.end {
                self.rest = None;
            }
        }
    }
}
