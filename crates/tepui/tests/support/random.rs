//! Chance that can be repeated.

use std::hash::{BuildHasher, RandomState};

/// A xorshift generator: `TEPUI_TEST_SEED` sets where it starts.
pub(crate) struct Random(u64);

impl Random {
    /// Starts anywhere and prints where, unless the environment says where.
    pub(crate) fn seeded(what: &str) -> Self {
        let seed = match std::env::var("TEPUI_TEST_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => RandomState::new().hash_one(what),
        };
        println!("{what}: TEPUI_TEST_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) as usize) % limit
    }

    /// Whether something happens that does so once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
