//! Numbers that look random and are the same for the same seed.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Each name has a sequence of its own, so that a target alone repeats what it did among others.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(name.bytes().fold(seed, |state, byte| Self(state ^ u64::from(byte)).number()))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % (limit.max(1) as u64)) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.number() as u8
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
