//! Garbage collection of dropped ranges: entities of deleted tables, messages of deleted and cleared queues.

use crate::keyspace;
use crate::work_lease::{Work, WorkLeases};
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::{Commit, CommitError, Engine, ScanLimit, Snapshot, StorageErrorKind, Transaction, Write};
use tokio::sync::Notify;

/// The time between two scans for GC records without a wake-up: of another process, or of cancelled requests.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Processes the GC records of dropped tables and messages. All services of a server share one.
pub struct GarbageCollector<E> {
    engine: Arc<E>,
    dropped: Notify,
}

impl<E: Engine> GarbageCollector<E> {
    pub fn new(engine: Arc<E>) -> Self {
        Self { engine, dropped: Notify::new() }
    }

    /// To be called when a GC record was committed.
    pub(crate) fn wake(&self) {
        self.dropped.notify_one();
    }

    /// Collects garbage until it is dropped. For a background task.
    pub async fn run(&self, leases: &WorkLeases<E>) {
        loop {
            let collected = leases.run(Work::CollectRanges, collect_all(&*self.engine)).await;
            if let Some(Err(error)) = collected {
                tracing::warn!(%error, "cannot reclaim the space of what was deleted yet");
                tokio::time::sleep(Duration::from_secs(10)).await;
                continue;
            }
            // A timeout is as good as a wake-up.
            let _ = tokio::time::timeout(SCAN_INTERVAL, self.dropped.notified()).await;
        }
    }
}

/// Processes all GC records.
pub(crate) async fn collect_all<E: Engine>(engine: &E) -> Result<(), CommitError> {
    loop {
        let transaction = engine.begin().await?;
        let limit = ScanLimit { max_rows: 100, max_bytes: 1024 * 1024 };
        let records = match transaction.scan_some(&keyspace::all_dropped(), limit).await {
            Err(error) if error.kind() == StorageErrorKind::TooOld => continue,
            records => records?,
        };
        if records.rows.is_empty() {
            return Ok(());
        }
        drop(transaction);
        for (gc_record, _) in records.rows {
            // Incarnations are unique over all services, so these are of one table, or of one queue.
            if let Some(incarnation) = keyspace::dropped_incarnation(&gc_record) {
                engine.reclaim(keyspace::entities(incarnation)).await?;
                for range in keyspace::message_ranges(incarnation) {
                    engine.reclaim(range).await?;
                }
                engine.reclaim(keyspace::queue_node_states(incarnation)).await?;
            }
            let commit = Commit::from(vec![Write::Delete(gc_record)]).with_frees_space(true);
            match engine.begin().await?.commit(commit).await {
                // The record is read again, if it is still there.
                Ok(()) | Err(CommitError::Conflict | CommitError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
