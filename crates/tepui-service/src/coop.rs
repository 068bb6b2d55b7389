//! Cooperative scheduling: long work counts its cost against a budget and yields to the runtime when it is used up.
//!
//! Tasks of the runtime share a few threads, and a task that never awaits keeps its thread. Decisions read through
//! [`CoopSnapshot`], which counts for them; long work without reads counts with [`CoopBudget::spend`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_storage::{Key, KeyRange, ScanLimit, ScanPage, Snapshot, StorageError, Value};
use tokio::time::Instant;

/// The length of a time slice.
const MAX_SLICE: Duration = Duration::from_millis(2);
/// The most cost of a slice, however fast it was: with slices of a whole page of 5,000 blobs, others waited for seconds
/// while 500 clients asked for one.
const MAX_SLICE_COST: usize = 16 * COST_PER_CHECK;
/// The cost between two reads of the clock: well below a millisecond, yet much more than a read of the clock takes.
const COST_PER_CHECK: usize = 1024;
/// The cost of a row, in comparisons of its properties.
pub(crate) const ROW_COST: usize = 8;
pub(crate) const BYTES_PER_COST: usize = 64;
/// The most rows that one scan returns, since they are processed without yielding.
const MAX_SCAN_ROWS: usize = 1024;
/// The most rows that are read at once by their keys.
const MAX_KEYS_AT_ONCE: usize = 256;

/// The cost that one task has spent, and when it has to yield.
pub struct CoopBudget {
    started: Instant,
    /// In microseconds since `started`.
    slice_began: AtomicU64,
    /// Since the last read of the clock. Only one task counts, so no ordering is needed.
    unchecked: AtomicUsize,
    slice_cost: AtomicUsize,
}

impl Default for CoopBudget {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            slice_began: AtomicU64::new(0),
            unchecked: AtomicUsize::new(0),
            slice_cost: AtomicUsize::new(0),
        }
    }
}

impl CoopBudget {
    /// The time since the work began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts cost. Returns whether [`CoopBudget::yield_if_due`] has to be called.
    pub(crate) fn charge(&self, cost: usize) -> bool {
        let unchecked = self.unchecked.load(Ordering::Relaxed) + cost;
        self.unchecked.store(unchecked, Ordering::Relaxed);
        unchecked >= COST_PER_CHECK
    }

    /// Yields if the time slice is used up. Returns the time since the work began.
    pub(crate) async fn yield_if_due(&self) -> Duration {
        let unchecked = self.unchecked.swap(0, Ordering::Relaxed);
        let cost = self.slice_cost.fetch_add(unchecked, Ordering::Relaxed) + unchecked;
        let elapsed = self.elapsed();
        let slice_began = Duration::from_micros(self.slice_began.load(Ordering::Relaxed));
        if cost < MAX_SLICE_COST && elapsed.saturating_sub(slice_began) < MAX_SLICE {
            return elapsed;
        }
        tokio::task::yield_now().await;
        let elapsed = self.elapsed();
        self.slice_began.store(elapsed.as_micros() as u64, Ordering::Relaxed);
        self.slice_cost.store(0, Ordering::Relaxed);
        elapsed
    }

    /// Counts cost, and yields if the time slice is used up.
    pub async fn spend(&self, cost: usize) {
        if self.charge(cost) {
            self.yield_if_due().await;
        }
    }
}

/// A snapshot whose reads count against a budget.
pub(crate) struct CoopSnapshot<S> {
    snapshot: S,
    pub(crate) coop: CoopBudget,
}

impl<S> CoopSnapshot<S> {
    pub(crate) fn new(snapshot: S) -> Self {
        Self { snapshot, coop: CoopBudget::default() }
    }

    pub(crate) fn into_inner(self) -> S {
        self.snapshot
    }
}

impl<S: Snapshot> Snapshot for CoopSnapshot<S> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.coop.spend(ROW_COST).await;
        self.snapshot.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(MAX_KEYS_AT_ONCE) {
            self.coop.spend(ROW_COST * keys.len()).await;
            values.extend(self.snapshot.get_many(keys).await?);
        }
        Ok(values)
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        let limit = ScanLimit { max_rows: limit.max_rows.min(MAX_SCAN_ROWS), ..limit };
        let page = self.snapshot.scan(range, limit).await?;
        let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.coop.spend(ROW_COST * (1 + page.rows.len()) + bytes / BYTES_PER_COST).await;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn a_task_yields_after_its_budget_however_fast_it_was_spent() {
        let (done, yields) = (Cell::new(false), Cell::new(0));
        let coop = CoopBudget::default();
        let long = async {
            for _ in 0..10 * MAX_SLICE_COST {
                coop.spend(1).await;
            }
            done.set(true);
        };
        let others = async {
            while !done.get() {
                yields.set(yields.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(long, others);
        assert!(yields.get() >= 10, "{}", yields.get());
    }
}
