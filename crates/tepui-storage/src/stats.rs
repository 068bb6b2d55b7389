//! What storage counts of itself: numbers and histograms that cost an atomic addition each. Whoever reports them reads
//! [snapshots](Histogram::snapshot); this crate knows no format of metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper bounds of latencies, in nanoseconds: 0.25 ms to 16 s, each twice the one before.
pub const LATENCY_BOUNDS: [u64; 17] = {
    let mut bounds = [250_000; 17];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = 2 * bounds[at - 1];
        at += 1;
    }
    bounds
};

/// The upper bounds of counts: 1, 2, 5, 10 and so on to a million.
pub const COUNT_BOUNDS: [u64; 19] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000,
];

/// A number that rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Adds a duration, in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(nanoseconds(time));
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How often values lay between given bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and the last for what is above all of them.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A [`Histogram`] at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The highest values of the buckets but the last, which has none.
    pub bounds: &'static [u64],
    /// How many values each bucket has, and no other.
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl Histogram {
    /// `bounds` rise.
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    pub fn of_latencies() -> Self {
        Self::new(&LATENCY_BOUNDS)
    }

    pub fn of_counts() -> Self {
        Self::new(&COUNT_BOUNDS)
    }

    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Adds a duration, in nanoseconds.
    pub fn observe_time(&self, time: Duration) {
        self.observe(nanoseconds(time));
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            bounds: self.bounds,
            counts: self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How commits ended.
#[derive(Debug, Default)]
pub struct CommitOutcomes {
    pub ok: Counter,
    pub conflict: Counter,
    /// They may be durable or not.
    pub unknown: Counter,
    /// They were refused, or could not be written.
    pub failed: Counter,
}

impl CommitOutcomes {
    pub fn add(&self, outcome: &Result<(), crate::CommitError>, commits: u64) {
        match outcome {
            Ok(()) => &self.ok,
            Err(crate::CommitError::Conflict) => &self.conflict,
            Err(crate::CommitError::Unknown(_)) => &self.unknown,
            Err(crate::CommitError::Storage(_)) => &self.failed,
        }
        .add(commits);
    }
}

/// What an engine behind a network counts of its calls to the store.
#[derive(Debug)]
pub struct RemoteStats {
    /// Times that a call has waited for an answer of the store. Statements that are sent together are one.
    pub round_trips: Counter,
    /// How long calls took that read.
    pub read: Histogram,
    /// How long commits took, whatever became of them.
    pub commit: Histogram,
    pub commits: CommitOutcomes,
    /// Connections that were opened, the first ones among them.
    pub connects: Counter,
    /// Calls that failed because the store could not be reached, or did not answer in time.
    pub unavailable: Counter,
    /// Connections in use now.
    pub in_use: Gauge,
}

impl Default for RemoteStats {
    fn default() -> Self {
        Self {
            round_trips: Counter::new(),
            read: Histogram::of_latencies(),
            commit: Histogram::of_latencies(),
            commits: CommitOutcomes::default(),
            connects: Counter::new(),
            unavailable: Counter::new(),
            in_use: Gauge::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        let histogram = Histogram::of_counts();
        for (value, bucket) in
            [(0, 0), (1, 0), (2, 1), (3, 2), (5, 2), (6, 3), (1_000_000, 18), (1_000_001, 19)]
        {
            let before = histogram.snapshot();
            histogram.observe(value);
            let after = histogram.snapshot();
            assert_eq!(after.sum, before.sum + value);
            let changed: Vec<usize> =
                (0..after.counts.len()).filter(|at| after.counts[*at] != before.counts[*at]).collect();
            assert_eq!(changed, [bucket], "{value}");
        }
        assert!(COUNT_BOUNDS.is_sorted() && LATENCY_BOUNDS.is_sorted());
        assert_eq!(LATENCY_BOUNDS[16], 16_384_000_000);
    }
}
