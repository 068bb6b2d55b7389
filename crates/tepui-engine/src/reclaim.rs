//! Frees ranges that nobody can reach any more, a little at a time.
//!
//! Tables that lie wholly inside the range are dropped as files, which gives their space back at
//! once. What is left, at the edges and in memory, is deleted row by row, with a rest after each
//! step so that others come first.

use crate::committer::Kind;
use crate::disk::DiskEngine;
use crate::limits;
use crate::store::{panicked, storage_error};
use crate::{CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, Snapshot, Write};
use lsm_tree::AbstractTree;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How many rows are deleted in one commit.
const STEP: ScanLimit = ScanLimit { max_rows: 512, max_bytes: 4 << 20 };

/// The longest rest between two steps.
const MAX_REST: Duration = Duration::from_millis(50);

/// How long to wait for what is in memory to be written to tables.
const FLUSH_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn reclaim(engine: &DiskEngine, range: KeyRange) -> Result<(), EngineError> {
    if limits::bounds(&range).is_none() {
        return Ok(());
    }
    engine.health()?;
    let dropped = !marker(&range).is_empty() && drop_tables(engine, range.clone()).await?;
    if dropped {
        // A dropped table may have held deletions of rows that are still in others, and these rows
        // show again. What is published is from before; a commit replaces it.
        engine.request(Kind::Reclaim, marker(&range)).await.map_err(engine_error)?;
    }
    delete_rows(engine, range.clone()).await?;
    if dropped {
        // Opening tells by the newest number in its tables which part of a journal is in them already,
        // and that number may have gone with a dropped table: after a crash the journal would
        // bring the range back. A newer table puts that right.
        flush(engine, &range).await?;
    }
    Ok(())
}

async fn drop_tables(engine: &DiskEngine, range: KeyRange) -> Result<bool, EngineError> {
    let snapshot = engine.snapshot().await?;
    let work = tokio::task::spawn_blocking(move || {
        let tree = &snapshot.view().tree;
        let Some(bounds) = limits::bounds(&range) else { return Ok(false) };
        let before = tree.table_count();
        catch_unwind(AssertUnwindSafe(|| tree.drop_range::<&[u8], limits::Bounds<'_>>(bounds)))
            .map_err(|panic| panicked(&*panic))?
            .map_err(|error| storage_error(&error))?;
        Ok(tree.table_count() < before)
    });
    work.await.unwrap_or_else(|error| Err(EngineError::Failed(error.to_string())))
}

async fn delete_rows(engine: &DiskEngine, mut left: KeyRange) -> Result<(), EngineError> {
    loop {
        let began = Instant::now();
        // A fresh snapshot each time: an old one would keep what is being freed.
        let page = engine.snapshot().await?.scan(&left, STEP).await?;
        let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        if !writes.is_empty() {
            engine.request(Kind::Reclaim, writes).await.map_err(engine_error)?;
        }
        let Some(next) = page.next else { return Ok(()) };
        // From here on, not from the start: what lies before is nothing but deletions.
        left.start = next;
        tokio::time::sleep(began.elapsed().min(MAX_REST)).await;
    }
}

/// A deletion inside the range: a commit that changes nothing.
fn marker(range: &KeyRange) -> Vec<Write> {
    let key = if range.start.is_empty() { Key::from_static(&[0]) } else { range.start.clone() };
    if limits::is_key(&key) && key < range.end { vec![Write::Delete(key)] } else { vec![] }
}

/// Writes something new, and waits until it is in a table.
async fn flush(engine: &DiskEngine, range: &KeyRange) -> Result<(), EngineError> {
    engine.request(Kind::Flush, marker(range)).await.map_err(engine_error)?;
    let give_up = Instant::now() + FLUSH_WAIT;
    loop {
        if engine.snapshot().await?.view().tree.sealed_memtable_count() == 0 {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(EngineError::Unavailable(
                "what is in memory was not written to tables in time".into(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn engine_error(error: CommitError) -> EngineError {
    match error {
        CommitError::Engine(error) => error,
        other => EngineError::Unavailable(other.to_string()),
    }
}
