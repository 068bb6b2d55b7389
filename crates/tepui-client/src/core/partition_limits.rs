//! How many requests may be under way to a partition that has been too busy.
//!
//! A partition has no limit until the service says that it is busy. From then on, each such answer halves the limit and
//! each hundred successes raise it by one, until it is as high as the account's own, where it is forgotten.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// More busy partitions than these are not told apart: their requests only wait for their retries.
const MAX_PARTITIONS: usize = 1024;
const SUCCESSES_TO_RISE: u32 = 100;

pub(crate) struct PartitionLimits {
    partitions: Mutex<HashMap<String, Arc<Partition>>>,
    /// How many there are: nearly always none, and then nobody takes the lock.
    known: AtomicUsize,
    /// Where a limit is no limit any more.
    cap: usize,
}

struct Partition {
    state: Mutex<State>,
    left: Notify,
}

struct State {
    limit: usize,
    under_way: usize,
    successes: u32,
    /// Rises with each halving. A request that began before the last one says nothing new.
    halvings: u64,
}

impl State {
    /// The number of halvings so far, if one more request may be sent.
    fn take_one(&mut self) -> Option<u64> {
        (self.under_way < self.limit).then(|| {
            self.under_way += 1;
            self.halvings
        })
    }
}

/// Leave to send one request to a partition. Gives it back when dropped.
pub(crate) struct Leave {
    partition: Option<Arc<Partition>>,
    halvings: u64,
}

impl PartitionLimits {
    pub(crate) fn new(cap: usize) -> Self {
        Self { partitions: Mutex::default(), known: AtomicUsize::new(0), cap: cap.max(1) }
    }

    /// Waits until another request may be sent.
    pub(crate) async fn enter(&self, key: &str) -> Leave {
        let Some(partition) = self.find(key) else { return Leave { partition: None, halvings: 0 } };
        loop {
            let left = partition.left.notified();
            let taken = lock(&partition.state).take_one();
            if let Some(halvings) = taken {
                drop(left);
                return Leave { partition: Some(partition), halvings };
            }
            left.await;
        }
    }

    /// The service said that the partition is too busy.
    pub(crate) fn was_busy(&self, key: &str, leave: &Leave) {
        let partition = {
            let mut partitions = lock(&self.partitions);
            match partitions.get(key) {
                Some(partition) => Arc::clone(partition),
                None if partitions.len() >= MAX_PARTITIONS => return,
                None => {
                    let state = State { limit: self.cap, under_way: 0, successes: 0, halvings: 0 };
                    let partition = Arc::new(Partition { state: Mutex::new(state), left: Notify::new() });
                    partitions.insert(key.to_owned(), Arc::clone(&partition));
                    self.known.store(partitions.len(), Ordering::Release);
                    partition
                }
            }
        };
        let mut state = lock(&partition.state);
        if leave.partition.is_none() && state.halvings > 0 || leave.halvings < state.halvings {
            return;
        }
        state.limit = (state.limit / 2).max(1);
        state.halvings += 1;
        state.successes = 0;
    }

    pub(crate) fn has_succeeded(&self, key: &str, leave: &Leave) {
        let Some(partition) = &leave.partition else { return };
        let mut state = lock(&partition.state);
        state.successes += 1;
        if state.successes < SUCCESSES_TO_RISE {
            return;
        }
        (state.successes, state.limit) = (0, state.limit + 1);
        let is_free = state.limit >= self.cap;
        drop(state);
        partition.left.notify_one();
        if is_free {
            let mut partitions = lock(&self.partitions);
            partitions.remove(key);
            self.known.store(partitions.len(), Ordering::Release);
            partition.left.notify_waiters();
        }
    }

    fn find(&self, key: &str) -> Option<Arc<Partition>> {
        if self.known.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.partitions).get(key).cloned()
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(partition) = &self.partition {
            lock(&partition.state).under_way -= 1;
            partition.left.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    fn limit(limits: &PartitionLimits, key: &str) -> Option<usize> {
        limits.find(key).map(|partition| lock(&partition.state).limit)
    }

    #[tokio::test(start_paused = true)]
    async fn busy_halves_and_successes_raise() {
        let limits = PartitionLimits::new(8);
        let leave = limits.enter("p").await;
        assert_eq!(limit(&limits, "p"), None);
        limits.was_busy("p", &leave);
        assert_eq!(limit(&limits, "p"), Some(4));
        // Sent before the first answer of this kind: one burst halves once.
        limits.was_busy("p", &leave);
        assert_eq!(limit(&limits, "p"), Some(4));
        let leave = limits.enter("p").await;
        limits.was_busy("p", &leave);
        assert_eq!(limit(&limits, "p"), Some(2));
        let other = limits.enter("p").await;
        assert!(timeout(Duration::from_secs(1), limits.enter("p")).await.is_err(), "a third has to wait");
        assert!(
            timeout(Duration::from_secs(1), limits.enter("q")).await.is_ok(),
            "another partition has not"
        );
        drop(other);
        let other = limits.enter("p").await;
        for _ in 0..100 {
            limits.has_succeeded("p", &other);
        }
        assert_eq!(limit(&limits, "p"), Some(3));
        for _ in 0..500 {
            limits.has_succeeded("p", &other);
        }
        assert_eq!(limit(&limits, "p"), None, "forgotten when it is as high as the account's");
    }
}
