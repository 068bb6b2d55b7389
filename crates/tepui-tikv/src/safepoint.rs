//! How long old states are kept.
//!
//! TiKV keeps all that was overwritten or deleted until its safepoint is moved past it, and nobody does that without TiDB. Here
//! one node at a time does, under a lease: a row with its owner and its end. Nothing rests on the lease, since PD never moves a
//! safepoint back. The time is that of PD's timestamps, so clocks of nodes do not matter.

use crate::copies::random;
use crate::engine::Store;
use crate::keys;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tepui_storage::StorageError;
use tikv_client::{Timestamp, TimestampExt};
use tokio::task::AbortHandle;

/// How long to resolve the locks that were left behind before the safepoint, of all keys.
const MOVE_TIMEOUT: Duration = Duration::from_secs(300);

/// How far the safepoint stays behind what transactions may read, as a part of that: none of them notices at once that it is
/// too old.
const MARGIN: i64 = 5;

/// How often it is moved, while old states are kept for so long.
fn interval(history: Duration) -> Duration {
    (history / 10).min(Duration::from_secs(60))
}

/// Starts to move the safepoint now and then.
pub(crate) fn spawn(store: &Arc<Store>) -> AbortHandle {
    let task = tokio::spawn(keep_moving(Arc::downgrade(store), interval(store.history), random()));
    task.abort_handle()
}

async fn keep_moving(store: Weak<Store>, interval: Duration, owner: u64) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = move_safepoint(&store, owner, interval).await {
            tracing::warn!(%error, "the GC safepoint of TiKV cannot be moved yet");
        }
    }
}

/// Moves the safepoint, if no other node does.
async fn move_safepoint(store: &Arc<Store>, owner: u64, interval: Duration) -> Result<(), StorageError> {
    let mut begun = store.begin().await?;
    let key = store.keys.own(keys::SAFEPOINT_LEASE);
    let connection = &store.connection;
    let found = connection.read(begun.transaction.get(key.clone())).await?;
    let now = begun.timestamp.physical;
    if found
        .and_then(|row| Lease::decode(&row))
        .is_some_and(|lease| lease.owner != owner && lease.until > now)
    {
        return Ok(());
    }
    let lease = Lease { owner, until: now.saturating_add(3 * milliseconds(interval)) };
    let taken = async {
        begun.transaction.put(key, lease.encode()).await?;
        begun.transaction.commit().await.map(drop)
    };
    connection.call(connection.timeout(), taken).await?;
    let history = milliseconds(store.history);
    let safepoint = now.saturating_sub(history.saturating_add(history / MARGIN));
    let Some(safepoint) = Timestamp::try_from_version(u64::try_from(safepoint).unwrap_or(0) << 18) else {
        return Ok(());
    };
    connection.call(MOVE_TIMEOUT, connection.client().gc(safepoint)).await?;
    Ok(())
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[derive(Debug, PartialEq, Eq)]
struct Lease {
    owner: u64,
    /// In milliseconds, as PD counts them.
    until: i64,
}

impl Lease {
    fn encode(&self) -> Vec<u8> {
        [self.owner.to_be_bytes(), self.until.to_be_bytes()].concat()
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let (owner, until) = row.split_first_chunk()?;
        let until = i64::from_be_bytes(until.try_into().ok()?);
        Some(Self { owner: u64::from_be_bytes(*owner), until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_come_back() {
        let lease = Lease { owner: random(), until: 1_700_000_000_000 };
        assert_eq!(Lease::decode(&lease.encode()), Some(lease));
        assert_eq!(Lease::decode(b"short"), None);
    }
}
