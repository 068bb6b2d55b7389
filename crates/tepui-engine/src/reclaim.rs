//! Frees ranges that nobody can reach any more, a little at a time.

use crate::committer::Kind;
use crate::disk::DiskEngine;
use crate::{CommitError, Engine, EngineError, KeyRange, ScanLimit, Snapshot, Write};
use std::time::{Duration, Instant};

/// How many rows are removed in one commit.
const STEP: ScanLimit = ScanLimit { max_rows: 512, max_bytes: 4 << 20 };

pub(crate) async fn reclaim(engine: &DiskEngine, range: KeyRange) -> Result<(), EngineError> {
    let mut left = range;
    loop {
        let began = Instant::now();
        let page = engine.snapshot().await?.scan(&left, STEP).await?;
        let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        if !writes.is_empty() {
            engine.request(Kind::Reclaim, writes).await.map_err(engine_error)?;
        }
        match page.next {
            Some(next) => left.start = next,
            None => return Ok(()),
        }
        // As much rest as work, so that others come first.
        tokio::time::sleep(began.elapsed().min(Duration::from_millis(50))).await;
    }
}

fn engine_error(error: CommitError) -> EngineError {
    match error {
        CommitError::Engine(error) => error,
        other => EngineError::Unavailable(other.to_string()),
    }
}
