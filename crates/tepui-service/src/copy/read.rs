//! Pages of rows, read ahead by a task of their own. Every page is read in a transaction of its own, as nobody writes.

use super::patience::patiently;
use std::sync::Arc;
use tepui_storage::{Engine, Key, KeyRange, ScanLimit, ScanPage, Snapshot, StorageError, Value};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The rows that are read, and committed, at a time.
pub(super) const PAGE: ScanLimit = ScanLimit { max_rows: 4096, max_bytes: 4 << 20 };
/// The pages that are in memory beside the one that is worked on.
const PAGES_AHEAD: usize = 2;

pub(super) type Rows = Vec<(Key, Value)>;

/// The rows of some ranges, in their order.
pub(super) struct RowPages {
    pages: mpsc::Receiver<Result<Rows, StorageError>>,
    reader: JoinHandle<()>,
}

impl Drop for RowPages {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl RowPages {
    /// `ranges` are in the order of their keys. What is before `from` is left out.
    pub(super) fn new<E: Engine>(engine: &Arc<E>, ranges: &[KeyRange], from: &Key, limit: ScanLimit) -> Self {
        let ranges: Vec<KeyRange> = ranges.iter().filter_map(|range| rest(range, from)).collect();
        let engine = Arc::clone(engine);
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let reader = tokio::spawn(async move {
            for range in ranges {
                let mut left = Some(range);
                while let Some(range) = left {
                    let page = page(&*engine, &range, limit).await;
                    left = page.as_ref().ok().and_then(|page| after(page, range));
                    let is_last = page.is_err();
                    if sender.send(page.map(|page| page.rows)).await.is_err() || is_last {
                        return;
                    }
                }
            }
        });
        Self { pages, reader }
    }

    /// The next page, which may be empty. `None`: there is no more.
    pub(super) async fn next(&mut self) -> Result<Option<Rows>, StorageError> {
        self.pages.recv().await.transpose()
    }
}

/// What is left of a range from a key on.
fn rest(range: &KeyRange, from: &Key) -> Option<KeyRange> {
    let start = range.start.clone().max(from.clone());
    (start < range.end).then(|| KeyRange { start, end: range.end.clone() })
}

fn after(page: &ScanPage, range: KeyRange) -> Option<KeyRange> {
    page.next.clone().map(|start| KeyRange { start, end: range.end })
}

async fn page<E: Engine>(engine: &E, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
    patiently(|| async { engine.begin().await?.scan_some(range, limit).await }).await
}

/// All rows of a range with few.
pub(super) async fn all<E: Engine>(engine: &E, range: &KeyRange) -> Result<Rows, StorageError> {
    let (mut rows, mut left) = (Rows::new(), Some(range.clone()));
    while let Some(range) = left {
        let page = page(engine, &range, PAGE).await?;
        left = after(&page, range);
        rows.extend(page.rows);
    }
    Ok(rows)
}

/// The first key after this one.
pub(super) fn following(key: &[u8]) -> Key {
    [key, &[0]].concat().into()
}
