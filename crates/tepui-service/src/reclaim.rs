//! Gives back the space of what was dropped: entities of deleted tables, messages of deleted and cleared queues.

use crate::keyspace;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::{Commit, CommitError, Engine, ScanLimit, Snapshot, Write};
use tokio::sync::Notify;

/// How often notes are looked for that nobody told of: those of another server, or of callers that left.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Works off the notes about what was dropped. One of them serves all services of a server.
pub struct Reclaimer<E> {
    engine: Arc<E>,
    dropped: Notify,
}

impl<E: Engine> Reclaimer<E> {
    pub fn new(engine: Arc<E>) -> Self {
        Self { engine, dropped: Notify::new() }
    }

    /// Tells it that something was dropped.
    pub(crate) fn wake(&self) {
        self.dropped.notify_one();
    }

    /// Gives back space for ever. Run it in the background; it can be stopped at any time.
    pub async fn run(&self) {
        loop {
            if let Err(error) = reclaim_all(&*self.engine).await {
                tracing::warn!(%error, "cannot reclaim the space of what was deleted yet");
                tokio::time::sleep(Duration::from_secs(10)).await;
                continue;
            }
            // Told of something or not, it is time to look.
            let _ = tokio::time::timeout(LOOK_EVERY, self.dropped.notified()).await;
        }
    }
}

/// Reclaims everything that there is a note about.
pub(crate) async fn reclaim_all<E: Engine>(engine: &E) -> Result<(), CommitError> {
    loop {
        let snapshot = engine.snapshot().await?;
        let limit = ScanLimit { max_rows: 100, max_bytes: 1024 * 1024 };
        let notes = snapshot.scan_some(&keyspace::all_dropped(), limit).await?;
        if notes.rows.is_empty() {
            return Ok(());
        }
        drop(snapshot);
        for (note, _) in notes.rows {
            // Numbers are given out once over all services, so only one of these ranges has anything in it.
            if let Some(incarnation) = keyspace::dropped_incarnation(&note) {
                engine.reclaim(keyspace::entities(incarnation)).await?;
                for range in keyspace::message_ranges(incarnation) {
                    engine.reclaim(range).await?;
                }
            }
            let at = engine.snapshot().await?.version();
            let writes = vec![Write::Delete(note)];
            match engine.submit(None, Commit { at, writes, frees_space: true, ..Commit::default() }).await {
                // The note is still there and will be read again.
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
