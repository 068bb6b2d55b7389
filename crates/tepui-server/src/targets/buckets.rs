//! Token buckets: each is filled at the rate of a target, and emptied by what is asked for.
//!
//! A request is let in if the bucket is not in debt, whatever it costs, and pays in full: the bucket may go below zero, and
//! the next requests wait until it is paid off. So what is let in over a long time is the target exactly, though the cost of
//! a query is known only when it is over.
//!
//! Buckets are found by a hash of what they are for, and names are not kept. A bucket that is full is as good as none: there is
//! room for a bounded number, and full ones make way for others.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

/// The rate of a target, and how much can be saved up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) per_second: f64,
    pub(super) depth: f64,
}

/// The buckets of something that has `N` targets, which are filled at the same times.
#[derive(Debug, Clone, Copy)]
struct Levels<const N: usize> {
    levels: [f64; N],
    /// When they were last filled.
    at: Instant,
}

/// Why something was not let in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct InDebt {
    /// Which of the targets.
    pub(super) target: usize,
    /// How long it takes until the debt is paid off.
    pub(super) time: Duration,
}

/// The buckets of everything of a kind. `None` in `limits`: such a target is not set.
pub(super) struct Buckets<const N: usize> {
    limits: [Option<Limit>; N],
    shards: Vec<Mutex<Shard<N>>>,
    shard_capacity: usize,
}

type Shard<const N: usize> = HashMap<u64, Levels<N>, BuildHasherDefault<AsItIs>>;

const SHARDS: usize = 64;
/// 65,536 buckets in all: some MiB.
const SHARD_CAPACITY: usize = 1024;

impl<const N: usize> Buckets<N> {
    /// `None`: there is no target at all.
    pub(super) fn new(limits: [Option<Limit>; N]) -> Option<Self> {
        Self::with_capacity(limits, SHARDS, SHARD_CAPACITY)
    }

    fn with_capacity(limits: [Option<Limit>; N], shards: usize, shard_capacity: usize) -> Option<Self> {
        limits.iter().any(Option::is_some).then(|| Self {
            limits,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_capacity,
        })
    }

    /// Takes what a request costs, if no bucket is in debt.
    pub(super) fn admit(&self, key: u64, costs: [f64; N], now: Instant) -> Result<(), InDebt> {
        self.with(key, now, |buckets, limits| {
            for (target, (level, limit)) in buckets.levels.iter().zip(limits).enumerate() {
                if let Some(limit) = limit
                    && *level < 0.0
                {
                    return Err(InDebt { target, time: seconds(-level / limit.per_second) });
                }
            }
            take(&mut buckets.levels, costs);
            Ok(())
        })
    }

    /// Takes more, or gives back what is below zero, whether or not it is there.
    pub(super) fn charge(&self, key: u64, costs: [f64; N], now: Instant) {
        if costs.iter().any(|cost| *cost != 0.0) {
            self.with(key, now, |buckets, _| take(&mut buckets.levels, costs));
        }
    }

    /// The buckets of a key, filled for the time that has passed.
    fn with<T>(
        &self,
        key: u64,
        now: Instant,
        act: impl FnOnce(&mut Levels<N>, &[Option<Limit>; N]) -> T,
    ) -> T {
        let mut shard = self.shards[key as usize % self.shards.len()].lock();
        if shard.len() >= self.shard_capacity && !shard.contains_key(&key) {
            make_room(&mut shard, &self.limits, self.shard_capacity, now);
        }
        let buckets = shard.entry(key).or_insert_with(|| Levels {
            levels: self.limits.map(|limit| limit.map_or(0.0, |limit| limit.depth)),
            at: now,
        });
        buckets.fill(&self.limits, now);
        act(buckets, &self.limits)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

fn take<const N: usize>(levels: &mut [f64; N], costs: [f64; N]) {
    for (level, cost) in levels.iter_mut().zip(costs) {
        *level -= cost;
    }
}

impl<const N: usize> Levels<N> {
    fn fill(&mut self, limits: &[Option<Limit>; N], now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        for (level, limit) in self.levels.iter_mut().zip(limits) {
            *level = match limit {
                Some(limit) => (*level + elapsed * limit.per_second).min(limit.depth),
                None => 0.0,
            };
        }
        // Several threads may come with times that are a little apart.
        self.at = self.at.max(now);
    }

    /// How long it takes until all are full.
    fn seconds_to_full(&self, limits: &[Option<Limit>; N]) -> f64 {
        let time = |(level, limit): (&f64, &Option<Limit>)| match limit {
            Some(limit) => (limit.depth - level) / limit.per_second,
            None => 0.0,
        };
        self.levels.iter().zip(limits).map(time).fold(0.0, f64::max)
    }
}

/// Drops the buckets that are full, and if that is not a quarter, the fullest others: those that matter least.
/// Because many are dropped at a time, a client that names ever new partitions does not cause this work with every request.
fn make_room<const N: usize>(
    shard: &mut Shard<N>,
    limits: &[Option<Limit>; N],
    capacity: usize,
    now: Instant,
) {
    shard.retain(|_, buckets| {
        buckets.fill(limits, now);
        buckets.seconds_to_full(limits) > 0.0
    });
    let kept = capacity - capacity.div_ceil(4);
    if shard.len() > kept {
        let mut times: Vec<(f64, u64)> =
            shard.iter().map(|(key, buckets)| (buckets.seconds_to_full(limits), *key)).collect();
        let dropped = times.len() - kept;
        times.select_nth_unstable_by(dropped - 1, |a, b| a.0.total_cmp(&b.0));
        for (_, key) in &times[..dropped] {
            shard.remove(key);
        }
    }
}

/// A time that may be absurdly long.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Keys are hashes already.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        // The lower bits have chosen the shard.
        self.0 = key.rotate_right(16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Limit = Limit { per_second: 100.0, depth: 50.0 };

    fn buckets() -> Buckets<1> {
        Buckets::new([Some(LIMIT)]).unwrap()
    }

    fn at(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_bucket_is_emptied_and_filled() {
        let (buckets, start) = (buckets(), Instant::now());
        let admit = |cost: f64, milliseconds| buckets.admit(1, [cost], at(start, milliseconds));
        let debt = |milliseconds| Err(InDebt { target: 0, time: Duration::from_millis(milliseconds) });
        for (case, cost, milliseconds, expected) in [
            ("a full one", 50.0, 0, Ok(())),
            ("an empty one is not in debt", 10.0, 0, Ok(())),
            ("one in debt", 1.0, 0, debt(100)),
            ("half paid off", 1.0, 50, debt(50)),
            ("paid off", 200.0, 100, Ok(())),
            ("a debt is of any size", 1.0, 100, debt(2000)),
            ("nothing beyond the depth is saved up", 51.0, 60_000, Ok(())),
            ("so that", 1.0, 60_000, debt(10)),
        ] {
            assert_eq!(admit(cost, milliseconds), expected, "{case}");
        }
        assert_eq!(buckets.admit(2, [1.0], at(start, 60_000)), Ok(()), "another bucket");
        buckets.charge(1, [-10.0], at(start, 60_000));
        assert_eq!(admit(1.0, 60_000), Ok(()), "given back");
    }

    #[test]
    fn a_target_that_is_not_set_limits_nothing() {
        let start = Instant::now();
        assert!(Buckets::new([None::<Limit>, None]).is_none());
        let buckets = Buckets::new([None, Some(LIMIT)]).unwrap();
        for _ in 0..10 {
            assert_eq!(buckets.admit(1, [1e9, 0.0], start), Ok(()));
        }
        assert_eq!(buckets.admit(1, [0.0, 60.0], start), Ok(()));
        assert_eq!(buckets.admit(1, [0.0, 0.0], start).unwrap_err().target, 1);
    }

    #[test]
    fn a_partition_in_debt_is_not_forgotten_for_a_million_others() {
        let (buckets, start) = (buckets(), Instant::now());
        buckets.charge(7, [1e6], start);
        for key in 0..1_000_000u64 {
            // As a hash would spread them.
            let key = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let _ = buckets.admit(key, [1.0], start);
        }
        assert!(buckets.len() <= SHARDS * SHARD_CAPACITY, "{}", buckets.len());
        assert!(buckets.admit(7, [1.0], start).is_err());
    }

    #[test]
    fn full_buckets_make_way() {
        let buckets = Buckets::with_capacity([Some(LIMIT)], 1, 8).unwrap();
        let start = Instant::now();
        for key in 0..8 {
            buckets.charge(key, [10.0], start);
        }
        buckets.charge(8, [10.0], at(start, 1_000));
        assert_eq!(buckets.len(), 1, "the others were full again");
    }

    proptest! {
        /// Whatever requests cost, what is let in over a long time is what the target says.
        #[test]
        fn the_rate_is_the_target(costs in proptest::collection::vec(0.0..500.0f64, 1..50)) {
            let (buckets, start) = (buckets(), Instant::now());
            let (mut taken, milliseconds) = (0.0, 200_000);
            let mut next = costs.iter().cycle();
            for now in (0..milliseconds).step_by(10) {
                // One unit is known before, the rest after, as of a query.
                while buckets.admit(1, [1.0], at(start, now)).is_ok() {
                    let cost = next.next().unwrap();
                    buckets.charge(1, [*cost], at(start, now));
                    taken += 1.0 + cost;
                }
            }
            let rate = taken / (milliseconds as f64 / 1000.0);
            prop_assert!((rate / LIMIT.per_second - 1.0).abs() < 0.03, "{rate}");
        }
    }
}
