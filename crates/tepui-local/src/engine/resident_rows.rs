//! Rows that are kept in memory whatever is flushed: few and small, and read in every transaction.

use crate::blocking::ReadMode;
use crate::engine::published_view::SnapshotView;
use crate::lsm::ReadError;
use std::collections::HashMap;
use std::ops::Bound;
use tepui_storage::{Key, KeyRange, ScanLimit, Value, Write};

/// All rows of a range, as of one view.
#[derive(Default)]
pub(crate) struct ResidentRows {
    range: KeyRange,
    rows: HashMap<Key, Value>,
}

impl ResidentRows {
    /// Reads the rows of a range.
    pub(crate) fn read(range: KeyRange, view: &SnapshotView) -> Result<Self, ReadError> {
        let limit = ScanLimit { max_rows: 1024, max_bytes: 1 << 20 };
        let mut rows = HashMap::new();
        let mut next = (range.start < range.end).then(|| range.start.clone());
        while let Some(start) = next {
            let bounds = (Bound::Included(&start[..]), Bound::Excluded(&range.end[..]));
            let page = view.read_view.scan(bounds, limit, view.seq_no, ReadMode::Blocking)?;
            // Copies, because they may be slices of blocks.
            let copy =
                |(key, value): (Key, Value)| (Key::copy_from_slice(&key), Value::copy_from_slice(&value));
            rows.extend(page.rows.into_iter().map(copy));
            next = page.next;
        }
        Ok(Self { range, rows })
    }

    /// The value of a key. `None`: not in the range.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Value>> {
        self.range.contains(key).then(|| self.rows.get(key).cloned())
    }

    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    /// The rows after a batch. `None`: it does not change them.
    pub(crate) fn after(&self, batch: &[Write]) -> Option<Self> {
        let mut changes = batch.iter().filter(|write| self.range.contains(write.key())).peekable();
        changes.peek()?;
        let mut rows = self.rows.clone();
        for write in changes {
            match write {
                // A copy: what is passed may be a slice of a larger buffer, and these stay.
                Write::Put(key, value) => {
                    rows.insert(Key::copy_from_slice(key), Value::copy_from_slice(value))
                }
                Write::Delete(key) => rows.remove(key),
            };
        }
        Some(Self { range: self.range.clone(), rows })
    }
}
