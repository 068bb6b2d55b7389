//! Which requests are counted one by one: all, as long as they are few. Of many small ones, some stand for the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Chooses requests. On the average, what is counted is what was asked for.
pub(super) struct Sampler {
    start: Instant,
    second: AtomicU64,
    /// In that second.
    seen: AtomicU64,
    /// Of a random sequence.
    step: AtomicU64,
}

/// So many requests in a second are all counted.
const EXACT_PER_SECOND: u64 = 1000;
/// Beyond them, one that costs less than this counts as much, or not at all.
const SAMPLE_UNITS: u64 = 16;

impl Sampler {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, second: AtomicU64::new(0), seen: AtomicU64::new(0), step: AtomicU64::new(0) }
    }

    /// How much a request of so many units is to be counted, and when it was; `None`: not at all. Mostly without asking for the time.
    pub(super) fn weigh(&self, units: u64, now: impl FnOnce() -> Instant) -> Option<(u64, Instant)> {
        let is_busy = self.seen.fetch_add(1, Ordering::Relaxed) >= EXACT_PER_SECOND;
        let units = units.max(1);
        let weight = if is_busy && units < SAMPLE_UNITS {
            if random(self.step.fetch_add(1, Ordering::Relaxed)) % SAMPLE_UNITS >= units {
                return None;
            }
            SAMPLE_UNITS
        } else {
            units
        };
        let now = now();
        let second = now.saturating_duration_since(self.start).as_secs();
        if self.second.load(Ordering::Relaxed) != second {
            self.second.store(second, Ordering::Relaxed);
            self.seen.store(0, Ordering::Relaxed);
        }
        Some((weight, now))
    }
}

/// SplitMix64 of Steele, Lea and Flood (2014).
fn random(step: u64) -> u64 {
    let mut x = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn few_are_counted_exactly_and_many_on_the_average() {
        let start = Instant::now();
        let at =
            |second: u64, number: u64| start + Duration::from_secs(second) + Duration::from_micros(number);
        for (case, units, requests, most_off) in [
            ("few", 1, 1000, 0.0),
            ("many", 1, 200_000, 0.03),
            ("many of some units", 5, 200_000, 0.03),
            ("many large ones", 16, 200_000, 0.0),
            ("many of nothing count one", 0, 200_000, 0.03),
        ] {
            let sampler = Sampler::new(start);
            let (mut counted, mut chosen) = (0, 0);
            for number in 0..requests {
                if let Some((weight, _)) = sampler.weigh(units, || at(0, number)) {
                    counted += weight;
                    chosen += 1;
                }
            }
            let off = counted as f64 / (units.max(1) * requests) as f64 - 1.0;
            assert!(off.abs() <= most_off, "{case}: {off}");
            assert!(
                requests == 1000 || units >= 16 || chosen < requests * 3 * units.max(1) / 32,
                "{case}: {chosen}"
            );
            // A new second begins exactly.
            let next: Vec<_> = (0..1000).filter_map(|number| sampler.weigh(1, || at(1, number))).collect();
            assert!(next.len() > 900, "{case}: {}", next.len());
        }
    }

    #[test]
    fn turns_are_not_mistaken_for_heat() {
        // Partitions that are asked for one after the other are all chosen as often.
        let start = Instant::now();
        for partitions in [2, 8, 13, 16, 32] {
            let sampler = Sampler::new(start);
            let mut counted = vec![0_u64; partitions];
            for number in 0..320_000 {
                if let Some((weight, _)) = sampler.weigh(1, || start) {
                    counted[number % partitions] += weight;
                }
            }
            let fair = 320_000.0 / partitions as f64;
            assert!(counted.iter().all(|count| (*count as f64 / fair - 1.0).abs() < 0.15), "{counted:?}");
        }
    }
}
