//! New tables, which carry little at first: all their partitions are on one server until ranges of them are moved.

use super::buckets::{InDebt, seconds};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// More new tables than this at a time are not told from old ones.
const MAX_TABLES: usize = 1024;

/// The tables that are warming up. What one may carry rises evenly from `start_rate` to `full_rate`.
pub(super) struct WarmUp {
    start_rate: f64,
    full_rate: f64,
    seconds: f64,
    burst_seconds: f64,
    tables: Mutex<HashMap<u64, NewTable>>,
    /// How many there are: mostly none, and then there is no lock to be taken.
    count: AtomicUsize,
}

struct NewTable {
    created: Instant,
    /// As of a token bucket.
    level: f64,
    at: Instant,
}

impl WarmUp {
    pub(super) fn new(start_rate: f64, full_rate: f64, seconds: f64, burst_seconds: f64) -> Self {
        Self {
            start_rate,
            full_rate,
            seconds,
            burst_seconds,
            tables: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// A table was created.
    pub(super) fn begin(&self, key: u64, now: Instant) {
        let mut tables = self.tables.lock();
        tables.retain(|_, table| self.age(table, now) < self.seconds);
        if tables.len() < MAX_TABLES {
            let level = self.start_rate * self.burst_seconds;
            tables.insert(key, NewTable { created: now, level, at: now });
        }
        self.count.store(tables.len(), Ordering::Relaxed);
    }

    /// Takes what a request costs, if the table is old or not in debt.
    pub(super) fn admit(&self, key: u64, cost: f64, now: Instant) -> Result<(), InDebt> {
        self.with(key, now, |table, rate| {
            if table.level < 0.0 {
                return Err(InDebt { target: 0, time: seconds(-table.level / rate) });
            }
            table.level -= cost;
            Ok(())
        })
        .unwrap_or(Ok(()))
    }

    /// Takes more, or gives back.
    pub(super) fn charge(&self, key: u64, cost: f64, now: Instant) {
        self.with(key, now, |table, _| table.level -= cost);
    }

    /// A table that is warming up and what it carries now; `None`: it is an old one.
    fn with<T>(&self, key: u64, now: Instant, act: impl FnOnce(&mut NewTable, f64) -> T) -> Option<T> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut tables = self.tables.lock();
        let table = tables.get_mut(&key)?;
        if self.age(table, now) >= self.seconds {
            tables.remove(&key);
            self.count.store(tables.len(), Ordering::Relaxed);
            return None;
        }
        let rate = self.rate(table, now);
        // The rate rises evenly, so that its mean is that of both ends.
        let mean = (self.rate(table, table.at) + rate) / 2.0;
        let elapsed = now.saturating_duration_since(table.at).as_secs_f64();
        table.level = (table.level + elapsed * mean).min(rate * self.burst_seconds);
        table.at = table.at.max(now);
        Some(act(table, rate))
    }

    fn age(&self, table: &NewTable, now: Instant) -> f64 {
        now.saturating_duration_since(table.created).as_secs_f64()
    }

    fn rate(&self, table: &NewTable, now: Instant) -> f64 {
        let share = self.age(table, now) / self.seconds;
        self.start_rate + (self.full_rate - self.start_rate) * share.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_new_table_carries_more_and_more() {
        let warm_up = WarmUp::new(100.0, 1000.0, 10.0, 0.1);
        let start = Instant::now();
        warm_up.begin(1, start);
        let mut taken = [0; 12];
        for millisecond in 0..12_000u64 {
            let now = start + Duration::from_millis(millisecond);
            // Nobody asks for more than two in a millisecond.
            for _ in 0..2 {
                taken[millisecond as usize / 1000] += usize::from(warm_up.admit(1, 1.0, now).is_ok());
            }
            assert_eq!(warm_up.admit(2, 1.0, now), Ok(()), "an old table");
        }
        for (second, taken) in taken.iter().enumerate() {
            let expected = if second < 10 { 145 + 90 * second } else { 2000 };
            assert!(taken.abs_diff(expected) <= 15, "second {second}: {taken}, not {expected}");
        }
        assert_eq!(warm_up.tables.lock().len(), 0);
    }

    #[test]
    fn new_tables_are_bounded() {
        let warm_up = WarmUp::new(100.0, 1000.0, 10.0, 0.1);
        let start = Instant::now();
        for key in 0..5000 {
            warm_up.begin(key, start);
        }
        assert_eq!(warm_up.tables.lock().len(), MAX_TABLES);
        warm_up.begin(5001, start + Duration::from_secs(11));
        assert_eq!(warm_up.tables.lock().len(), 1);
    }
}
