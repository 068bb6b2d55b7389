//! Long work in turns: whoever walks over many rows counts its work, and lets others run after so much of it.
//!
//! Tasks of the runtime share a few threads, and one that does not wait for anything keeps its thread. Decisions
//! read through [`Paced`], which counts for them; what takes long without reading counts with [`Pace::work`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_storage::{EngineError, KeyRange, ScanLimit, ScanPage, Snapshot, Value, Version};
use tokio::time::Instant;

/// How long a turn lasts.
const MAX_TURN: Duration = Duration::from_millis(8);
/// The most work of a turn, however fast it was done: a page of 5,000 blobs. Pages that are made half at a time, side by
/// side, do not fit into the processor's caches.
const MAX_TURN_WORK: usize = 80 * WORK_PER_LOOK;
/// The work between two looks at the clock: well below a millisecond, yet much more than a look takes.
const WORK_PER_LOOK: usize = 1024;
/// The work of a row, in comparisons of its properties.
pub(crate) const ROW_WORK: usize = 8;
pub(crate) const BYTES_PER_WORK: usize = 64;
/// The most rows that one scan returns: they are looked at without a rest.
const MAX_SCAN_ROWS: usize = 1024;

/// How much one task has worked, and when it is the turn of others.
pub struct Pace {
    started: Instant,
    /// In microseconds since the start.
    turn_began: AtomicU64,
    /// Since the last look at the clock. One task counts, so there is nothing to order.
    work: AtomicUsize,
    turn_work: AtomicUsize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            turn_began: AtomicU64::new(0),
            work: AtomicUsize::new(0),
            turn_work: AtomicUsize::new(0),
        }
    }
}

impl Pace {
    /// How long ago the work began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts work. Whether it is time to look at the clock, with [`Pace::rest`].
    pub(crate) fn has_worked(&self, work: usize) -> bool {
        let work = self.work.load(Ordering::Relaxed) + work;
        self.work.store(work, Ordering::Relaxed);
        work >= WORK_PER_LOOK
    }

    /// Lets others run if a turn is over. Returns how long ago the work began.
    pub(crate) async fn rest(&self) -> Duration {
        let work = self.work.swap(0, Ordering::Relaxed);
        let work = self.turn_work.fetch_add(work, Ordering::Relaxed) + work;
        let elapsed = self.elapsed();
        let turn_began = Duration::from_micros(self.turn_began.load(Ordering::Relaxed));
        if work < MAX_TURN_WORK && elapsed.saturating_sub(turn_began) < MAX_TURN {
            return elapsed;
        }
        tokio::task::yield_now().await;
        let elapsed = self.elapsed();
        self.turn_began.store(elapsed.as_micros() as u64, Ordering::Relaxed);
        self.turn_work.store(0, Ordering::Relaxed);
        elapsed
    }

    /// Counts work, and lets others run when it is their turn.
    pub async fn work(&self, work: usize) {
        if self.has_worked(work) {
            self.rest().await;
        }
    }
}

/// A snapshot whose readers rest.
pub(crate) struct Paced<S> {
    snapshot: S,
    pub(crate) pace: Pace,
}

impl<S> Paced<S> {
    pub(crate) fn new(snapshot: S) -> Self {
        Self { snapshot, pace: Pace::default() }
    }

    pub(crate) fn into_inner(self) -> S {
        self.snapshot
    }
}

impl<S: Snapshot> Snapshot for Paced<S> {
    fn version(&self) -> Version {
        self.snapshot.version()
    }

    fn catalogue_version(&self) -> Version {
        self.snapshot.catalogue_version()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.pace.work(ROW_WORK).await;
        self.snapshot.get(key).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let limit = ScanLimit { max_rows: limit.max_rows.min(MAX_SCAN_ROWS), ..limit };
        let page = self.snapshot.scan(range, limit).await?;
        let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.pace.work(ROW_WORK * (1 + page.rows.len()) + bytes / BYTES_PER_WORK).await;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn others_run_after_so_much_work_however_fast_it_was() {
        let (done, turns) = (Cell::new(false), Cell::new(0));
        let pace = Pace::default();
        let long = async {
            for _ in 0..10 * MAX_TURN_WORK {
                pace.work(1).await;
            }
            done.set(true);
        };
        let others = async {
            while !done.get() {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(long, others);
        assert!(turns.get() >= 10, "{}", turns.get());
    }
}
