//! Random numbers for jitter, boundaries and write tokens: they need to be different, not secret.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The standard library asks the system for its keys, once for each process here. What a keyed hash makes of a counter
/// does not repeat.
static SEED: LazyLock<(RandomState, RandomState)> =
    LazyLock::new(|| (RandomState::new(), RandomState::new()));
static COUNTER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn bits() -> u128 {
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    u128::from(SEED.0.hash_one((count, 1_u8))) << 64 | u128::from(SEED.1.hash_one((count, 2_u8)))
}

/// From 0 to 1, without 1.
pub(crate) fn fraction() -> f64 {
    (bits() as u64 >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_fractions_are_spread() {
        let numbers: std::collections::HashSet<_> = (0..10_000).map(|_| bits()).collect();
        assert_eq!(numbers.len(), 10_000);
        let mean = (0..10_000).map(|_| fraction()).sum::<f64>() / 10_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert!((0..10_000).map(|_| fraction()).all(|number| (0.0..1.0).contains(&number)));
    }
}
