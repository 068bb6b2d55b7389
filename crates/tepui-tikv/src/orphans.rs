//! Locks whose transaction nobody finds.
//!
//! A commit locks its keys in several regions at once, and one of them, the primary, says what became of it. If a store is lost at
//! that moment, there may be locks without a primary. TiKV lets whoever meets such a lock remove it, when it has expired. The
//! client does not: it takes the answer that there is no such transaction for an error, and the key would be locked until the
//! safepoint has passed it. So locks are removed here, as the client does it for the safepoint.
//!
//! The same is done about locks that a transaction takes before it writes: those of a process that was killed last for 20 s, whether it
//! has written since or not, and the client cannot be told otherwise.
//!
//! What is removed may belong to a commit that is slow. It finds its locks gone and is refused, so that nothing is half done.

use crate::connection::Connection;
use crate::outcome::{early_lock, lost_transaction};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tikv_client::transaction::ResolveLocksOptions;
use tikv_client::{Error, Timestamp, TimestampExt};

/// How old a transaction is before its locks are removed, in milliseconds: those of commits expire after as long.
const EXPIRED: i64 = 3000;
const BATCH: u32 = 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Orphans {
    keys: Range<Vec<u8>>,
    is_removing: AtomicBool,
}

impl Orphans {
    pub(crate) fn new(keys: Range<Vec<u8>>) -> Self {
        Self { keys, is_removing: AtomicBool::new(false) }
    }

    /// Looks at an error. If it tells of a lock whose transaction is not found, or of one that was taken before a write, and that is old, all
    /// locks that are as old are removed by a task.
    pub(crate) fn meet(&self, connection: &Arc<Connection>, error: &Error) {
        let Some(version) = lost_transaction(error).or_else(|| early_lock(error)) else { return };
        if self.is_removing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (connection, keys) = (Arc::clone(connection), self.keys.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(TIMEOUT, remove(&connection, keys, version)).await {
                Ok(Ok(0)) => {}
                Ok(Ok(locks)) => tracing::info!(locks, "locks that were left behind are removed"),
                Ok(Err(error)) => tracing::warn!(%error, "locks that were left behind cannot be removed yet"),
                Err(_) => tracing::warn!("locks that were left behind cannot be removed in time"),
            }
            connection.orphans().is_removing.store(false, Ordering::Release);
        });
    }
}

/// Removes locks, if the transaction of that version is old. Returns how many.
async fn remove(connection: &Connection, keys: Range<Vec<u8>>, version: u64) -> Result<usize, Error> {
    let client = connection.client();
    let now = client.current_timestamp().await?;
    let expired = Timestamp { physical: now.physical.saturating_sub(EXPIRED), ..now };
    if Timestamp::from_version(version).physical > expired.physical {
        return Ok(0);
    }
    let options = ResolveLocksOptions { batch_size: BATCH, ..ResolveLocksOptions::default() };
    Ok(client.cleanup_locks(keys, &expired, options).await?.resolved_locks)
}
