//! Scans: one region after another, in pages of a bounded number of rows and bytes.

use crate::TikvTransaction;
use crate::keys::{self, after};
use std::ops::Range;
use tepui_storage::{Key, KeyRange, ScanLimit, ScanPage, StorageError};
use tikv_client::{Error, KvPair, Snapshot};

/// How many rows are asked for at once. More only if they are known to be in one region, because every region of the range
/// is asked for as many.
const MAX_ROWS: usize = 128;
const MAX_ROWS_OF_REGION: usize = 1024;
/// Before the size of the first rows is known.
const FIRST_ROWS: usize = 32;
/// About how many bytes are asked for at once.
const CALL_BYTES: usize = 4 << 20;

/// A part of a range that one call scans.
struct Part {
    end: Vec<u8>,
    max_rows: usize,
}

impl TikvTransaction {
    pub(crate) async fn scan_rows(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> Result<ScanPage, StorageError> {
        let mut page = ScanPage::default();
        let Some((mut start, end)) = self.store.keys.rows(range) else { return Ok(page) };
        let mut bytes = 0usize;
        while start < end {
            let part = self.part(&start, &end).await;
            let is_last = part.end == end;
            let asked = rows_to_ask_for(&page, bytes, limit).min(part.max_rows);
            let part_range = start.clone()..part.end.clone();
            // As many as fit into four bytes.
            let max_rows = asked as u32;
            let found = self.read(|snapshot| scan(snapshot, part_range.clone(), max_rows)).await?;
            let is_exhausted = found.len() < asked;
            for pair in found {
                let row: Vec<u8> = pair.0.into();
                let Some(key) = self.store.keys.key_of(&row) else {
                    return Err(StorageError::corrupt("TiKV has returned a row outside of the range"));
                };
                let (key, value) = (Key::copy_from_slice(key), keys::decode_value(pair.1)?);
                bytes = bytes.saturating_add(key.len() + value.len());
                let is_full = page.rows.len() >= limit.max_rows || bytes > limit.max_bytes;
                if is_full && !page.rows.is_empty() {
                    page.next = Some(key);
                    return Ok(page);
                }
                start = after(row);
                page.rows.push((key, value));
            }
            if is_exhausted {
                start = part.end;
            }
            let is_first_enough = limit.max_rows <= 1 && !page.rows.is_empty();
            if is_first_enough && !(is_exhausted && is_last) {
                page.next = self.store.keys.key_of(&start).map(Key::copy_from_slice);
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// The first keys of a range, as TiKV has them, and where to continue.
    pub(crate) async fn scan_keys(
        &self,
        start: &[u8],
        end: &[u8],
        max_rows: u32,
    ) -> Result<(Vec<Vec<u8>>, Option<Vec<u8>>), StorageError> {
        let part = self.part(start, end).await;
        let range = start.to_vec()..part.end.clone();
        let found = self.read(|snapshot| scan_keys(snapshot, range.clone(), max_rows)).await?;
        let is_exhausted = found.len() < max_rows as usize;
        let next = match found.last() {
            Some(last) if !is_exhausted => Some(after(last.clone())),
            _ => (part.end != end).then_some(part.end),
        };
        Ok((found, next))
    }

    /// The part of a range that is in the region of its start.
    async fn part(&self, start: &[u8], end: &[u8]) -> Part {
        match self.store.regions.end_of(start).await {
            Some(border) if start < &border[..] && &border[..] < end => {
                Part { end: border, max_rows: MAX_ROWS_OF_REGION }
            }
            Some(border) if &border[..] >= end => Part { end: end.to_vec(), max_rows: MAX_ROWS_OF_REGION },
            _ => Part { end: end.to_vec(), max_rows: MAX_ROWS },
        }
    }
}

async fn scan(mut snapshot: Snapshot, range: Range<Vec<u8>>, max_rows: u32) -> Result<Vec<KvPair>, Error> {
    Ok(snapshot.scan(range, max_rows).await?.collect())
}

async fn scan_keys(
    mut snapshot: Snapshot,
    range: Range<Vec<u8>>,
    max_rows: u32,
) -> Result<Vec<Vec<u8>>, Error> {
    Ok(snapshot.scan_keys(range, max_rows).await?.map(Into::into).collect())
}

/// One more than fits, to know whether there are more; but not of a single row, which may be large.
fn rows_to_ask_for(page: &ScanPage, bytes: usize, limit: ScanLimit) -> usize {
    if limit.max_rows <= 1 {
        return 1;
    }
    let left = (limit.max_rows - page.rows.len().min(limit.max_rows)).saturating_add(1);
    let bytes_left = limit.max_bytes.saturating_sub(bytes).clamp(1, CALL_BYTES);
    let fitting = match page.rows.len() {
        0 => FIRST_ROWS,
        rows => (bytes_left / (bytes / rows).max(1)).saturating_add(1),
    };
    left.min(fitting).clamp(1, MAX_ROWS_OF_REGION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::Value;

    #[test]
    fn as_many_rows_are_asked_for_as_may_fit() {
        let page = |rows: usize| ScanPage { rows: vec![(Key::new(), Value::new()); rows], next: None };
        let limit = |max_rows, max_bytes| ScanLimit { max_rows, max_bytes };
        for (case, rows, bytes, limit, expected) in [
            ("one", 0, 0, limit(1, usize::MAX), 1),
            ("few", 0, 0, limit(5, usize::MAX), 6),
            ("unknown size", 0, 0, limit(1000, usize::MAX), FIRST_ROWS),
            ("small rows", 32, 3200, limit(1000, usize::MAX), 969),
            ("very many", 32, 3200, limit(usize::MAX, usize::MAX), MAX_ROWS_OF_REGION),
            ("large rows", 32, 32 << 20, limit(1000, usize::MAX), 5),
            ("nearly full", 32, 3200, limit(1000, 3300), 2),
            ("full", 32, 3200, limit(32, usize::MAX), 1),
            ("empty rows", 32, 0, limit(100, 0), 2),
        ] {
            assert_eq!(rows_to_ask_for(&page(rows), bytes, limit), expected, "{case}");
        }
    }
}
