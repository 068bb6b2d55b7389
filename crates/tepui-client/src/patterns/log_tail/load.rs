//! How much single partitions take.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What one partition takes in a second before the service begins to refuse.
const PARTITION_TARGET: u64 = 2_000;
/// How many partitions are counted at most within a second. Those that come later in that second are not.
const MAX_PARTITIONS: usize = 10_000;

/// Counts the entries that this log has written to each partition within a second. Other writers are not counted.
#[derive(Debug, Default)]
pub struct Load(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    second_began: Option<Instant>,
    entries: HashMap<String, u64>,
    seconds_above: u64,
    busiest: Option<Busiest>,
}

/// The partition that took most entries within a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busiest {
    pub partition_key: String,
    pub entries_per_second: u64,
}

impl Load {
    /// How often a partition took more than 2,000 entities within a second. More than 0: spread the entries over more
    /// partitions, or use [`log_blobs`](crate::patterns::log_blobs).
    pub fn seconds_above_target(&self) -> u64 {
        self.lock().seconds_above
    }

    /// The most that a partition took within a second, and which it was.
    pub fn busiest(&self) -> Option<Busiest> {
        self.lock().busiest.clone()
    }

    pub(super) fn count(&self, partition_key: &str) {
        let mut counts = self.lock();
        let counts = &mut *counts;
        let now = Instant::now();
        if counts.second_began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            counts.second_began = Some(now);
            counts.entries.clear();
        }
        if counts.entries.len() == MAX_PARTITIONS && !counts.entries.contains_key(partition_key) {
            return;
        }
        let entries = counts.entries.entry(partition_key.to_owned()).or_insert(0);
        *entries += 1;
        let entries = *entries;
        counts.seconds_above += u64::from(entries == PARTITION_TARGET + 1);
        if counts.busiest.as_ref().is_none_or(|busiest| busiest.entries_per_second < entries) {
            let partition_key = partition_key.to_owned();
            counts.busiest = Some(Busiest { partition_key, entries_per_second: entries });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn seconds_above_the_target_are_counted_once() {
        let load = Load::default();
        assert_eq!((load.seconds_above_target(), load.busiest()), (0, None));
        (0..PARTITION_TARGET).for_each(|_| load.count("a"));
        (0..10).for_each(|_| load.count("b"));
        assert_eq!(load.seconds_above_target(), 0);
        (0..5).for_each(|_| load.count("a"));
        assert_eq!(load.seconds_above_target(), 1);
        let busiest = Busiest { partition_key: "a".to_owned(), entries_per_second: PARTITION_TARGET + 5 };
        assert_eq!(load.busiest(), Some(busiest.clone()));
        tokio::time::advance(Duration::from_secs(1)).await;
        (0..PARTITION_TARGET).for_each(|_| load.count("b"));
        assert_eq!((load.seconds_above_target(), load.busiest()), (1, Some(busiest)));
    }
}
