//! Frees ranges that are not reachable any more, in small steps.
//!
//! Tables that lie wholly inside the range are dropped as files, which frees their space at once. The rest, at the edges
//! and in memtables, is deleted row by row, with a pause after each step so that other commits come first.

use crate::blocking;
use crate::engine::DiskEngine;
use crate::lsm::DroppedTables;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::{CommitError, Engine, Key, KeyRange, Limits, ScanLimit, Snapshot, StorageError, Write};
use tokio::time::Instant;

/// How many rows are deleted in one commit.
const DELETE_BATCH: ScanLimit = ScanLimit { max_rows: 512, max_bytes: 4 << 20 };

/// The longest pause between two steps.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// How long to wait for compactions of tables that could be dropped otherwise.
const COMPACTION_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn reclaim(engine: &DiskEngine, range: KeyRange) -> Result<(), StorageError> {
    if Limits::LOCAL.bounds(&range).is_none() {
        return Ok(());
    }
    engine.check_removal()?;
    // A dropped table is not a batch, which would change the rows that are kept in memory.
    let is_resident = engine.begin().await?.view().resident.overlaps(&range);
    let can_drop = !is_resident && !no_op_tombstone(&range).is_empty();
    let dropped = can_drop && drop_tables(engine, range.clone()).await?;
    if dropped {
        // A dropped table may have held tombstones of rows in other tables, which become visible again. The published view
        // is from before the drop; a commit replaces it.
        engine.remove(no_op_tombstone(&range)).await.map_err(storage_error)?;
    }
    delete_rows(engine, range).await
}

/// Returns whether there were any.
async fn drop_tables(engine: &DiskEngine, range: KeyRange) -> Result<bool, StorageError> {
    let give_up = Instant::now() + COMPACTION_WAIT;
    let mut dropped = false;
    loop {
        let (transaction, range) = (engine.begin().await?, range.clone());
        let files = Arc::clone(transaction.view().tree.files());
        let answer = blocking::spawn(&*files, move || {
            let tree = &transaction.view().tree;
            Limits::LOCAL
                .bounds(&range)
                .map_or(Ok(DroppedTables::default()), |bounds| tree.drop_range(bounds))
        });
        let step = answer.await.map_err(|_| StorageError::unavailable("the program is ending"))??;
        dropped |= step.tables > 0;
        if step.left == 0 || Instant::now() > give_up {
            return Ok(dropped);
        }
        tokio::time::sleep(MAX_PAUSE).await;
    }
}

async fn delete_rows(engine: &DiskEngine, mut left: KeyRange) -> Result<(), StorageError> {
    loop {
        let began = Instant::now();
        // A new transaction each time: an old one would keep the space in use.
        let page = engine.begin().await?.scan(&left, DELETE_BATCH).await?;
        let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        if !writes.is_empty() {
            engine.remove(writes).await.map_err(storage_error)?;
        }
        let Some(next) = page.next else { return Ok(()) };
        // Not from the start: what lies before is nothing but tombstones.
        left.start = next;
        tokio::time::sleep(began.elapsed().min(MAX_PAUSE)).await;
    }
}

/// A tombstone inside the range: a commit without an effect.
fn no_op_tombstone(range: &KeyRange) -> Vec<Write> {
    let key = if range.start.is_empty() { Key::from_static(&[0]) } else { range.start.clone() };
    if Limits::LOCAL.is_valid_key(&key) && key < range.end { vec![Write::Delete(key)] } else { vec![] }
}

fn storage_error(error: CommitError) -> StorageError {
    match error {
        CommitError::Storage(error) => error,
        other => StorageError::unavailable(other.to_string()),
    }
}
