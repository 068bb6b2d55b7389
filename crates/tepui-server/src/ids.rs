//! Ids of requests: unlike each other and unlike those of other processes, and cheap. Ids of leases and
//! copies, which cannot be guessed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_service::blob::RandomIds;

/// Hands out ids in the form of GUIDs.
#[derive(Debug)]
pub struct RequestIds {
    seed: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// Ids that no other process hands out.
    pub fn random() -> Self {
        Self::seeded(random() as u64)
    }

    /// The same ids for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    pub fn next(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let halves = [mix(self.seed ^ mix(count)), mix(self.seed.wrapping_add(count))];
        let mut id = String::with_capacity(36);
        for (index, byte) in halves.iter().flat_map(|half| half.to_be_bytes()).enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                id.push('-');
            }
            id.push(char::from(DIGITS[usize::from(byte >> 4)]));
            id.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        id
    }
}

/// Ids that cannot be guessed.
pub(crate) fn random_ids() -> RandomIds {
    Arc::new(random)
}

pub(crate) fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u128::from_ne_bytes(bytes)
}

/// Spreads a number over all its bits (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_guids_and_differ() {
        let ids = RequestIds::seeded(7);
        let some: HashSet<_> = (0..10_000).map(|_| ids.next()).collect();
        assert_eq!(some.len(), 10_000);
        for id in some {
            assert!(tepui_model::table::Guid::parse(&id).is_some_and(|guid| guid.to_string() == id));
        }
    }
}
