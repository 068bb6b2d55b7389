//! Frees ranges that nobody can reach any more, a little at a time.
//!
//! Tables that lie wholly inside the range are dropped as files, which gives their space back at
//! once. What is left, at the edges and in memory, is deleted row by row, with a rest after each
//! step so that others come first.

use crate::disk::DiskEngine;
use crate::limits;
use crate::tree::Dropped;
use crate::{CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, Snapshot, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many rows are deleted in one commit.
const STEP: ScanLimit = ScanLimit { max_rows: 512, max_bytes: 4 << 20 };

/// The longest rest between two steps.
const MAX_REST: Duration = Duration::from_millis(50);

/// How long to wait for merges of tables that could be dropped otherwise.
const MERGE_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn reclaim(engine: &DiskEngine, range: KeyRange) -> Result<(), EngineError> {
    if limits::bounds(&range).is_none() {
        return Ok(());
    }
    engine.check_removal()?;
    let dropped = !marker(&range).is_empty() && drop_tables(engine, range.clone()).await?;
    if dropped {
        // A dropped table may have held deletions of rows that are still in others, and these rows
        // show again. What is published is from before; a commit replaces it.
        engine.remove(marker(&range)).await.map_err(engine_error)?;
    }
    delete_rows(engine, range).await
}

/// Says whether there were any.
async fn drop_tables(engine: &DiskEngine, range: KeyRange) -> Result<bool, EngineError> {
    let give_up = Instant::now() + MERGE_WAIT;
    let mut dropped = false;
    loop {
        let (snapshot, range) = (engine.snapshot().await?, range.clone());
        let files = Arc::clone(snapshot.view().tree.files());
        let (reply, answer) = oneshot::channel();
        files.spawn_blocking(Box::new(move || {
            let tree = &snapshot.view().tree;
            let dropped =
                limits::bounds(&range).map_or(Ok(Dropped::default()), |bounds| tree.drop_range(bounds));
            let _ = reply.send(dropped);
        }));
        let step = answer.await.map_err(|_| EngineError::Unavailable("the program is ending".into()))??;
        dropped |= step.tables > 0;
        if step.left == 0 || Instant::now() > give_up {
            return Ok(dropped);
        }
        tokio::time::sleep(MAX_REST).await;
    }
}

async fn delete_rows(engine: &DiskEngine, mut left: KeyRange) -> Result<(), EngineError> {
    loop {
        let began = Instant::now();
        // A fresh snapshot each time: an old one would keep what is being freed.
        let page = engine.snapshot().await?.scan(&left, STEP).await?;
        let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        if !writes.is_empty() {
            engine.remove(writes).await.map_err(engine_error)?;
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

fn engine_error(error: CommitError) -> EngineError {
    match error {
        CommitError::Engine(error) => error,
        other => EngineError::Unavailable(other.to_string()),
    }
}
