//! Keys that are only ever added at one end: dates, counters. All load then meets the server that has the last range of keys, or
//! the first.

use tepui_model::text::utf16_cmp;

/// Where keys are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGrowth {
    /// Behind all keys before: append only.
    Rising,
    /// Before all of them, as in the log tail pattern.
    Falling,
}

impl KeyGrowth {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rising => "rising",
            Self::Falling => "falling",
        }
    }
}

/// The keys that were inserted: their ends, and how many came at one.
#[derive(Debug, Default)]
pub(super) struct Growth {
    lowest: String,
    highest: String,
    inserts: u32,
    at_low: u32,
    at_high: u32,
    new_lows: u32,
    new_highs: u32,
}

/// So many keys must have been beyond all before, so that it is no chance.
const MIN_NEW_ENDS: u32 = 8;
const MIN_INSERTS: u32 = 16;
/// And this share of all must have been at that end, in tenths.
const MIN_TENTHS: u32 = 9;
/// After so many, the older half counts less and less.
const MEMORY: u32 = 4096;

impl Growth {
    /// A key was inserted. The same key as the one at the end is at the end, too: the entities of a day in the partition of that day.
    pub(super) fn insert(&mut self, key: &str) {
        let (above, below) = match self.inserts {
            0 => {
                replace(&mut self.lowest, key);
                replace(&mut self.highest, key);
                (std::cmp::Ordering::Equal, std::cmp::Ordering::Equal)
            }
            _ => (
                utf16_cmp(key.as_bytes(), self.highest.as_bytes()),
                utf16_cmp(self.lowest.as_bytes(), key.as_bytes()),
            ),
        };
        if above.is_gt() {
            replace(&mut self.highest, key);
            self.new_highs = self.new_highs.saturating_add(1);
        }
        if below.is_gt() {
            replace(&mut self.lowest, key);
            self.new_lows = self.new_lows.saturating_add(1);
        }
        self.inserts += 1;
        self.at_high += u32::from(above.is_ge());
        self.at_low += u32::from(below.is_ge());
        if self.inserts >= MEMORY {
            self.inserts /= 2;
            self.at_high /= 2;
            self.at_low /= 2;
        }
    }

    pub(super) fn growth(&self) -> Option<KeyGrowth> {
        let mostly = |at_end: u32, new: u32| {
            new >= MIN_NEW_ENDS && self.inserts >= MIN_INSERTS && at_end * 10 >= self.inserts * MIN_TENTHS
        };
        if mostly(self.at_high, self.new_highs) {
            Some(KeyGrowth::Rising)
        } else if mostly(self.at_low, self.new_lows) {
            Some(KeyGrowth::Falling)
        } else {
            None
        }
    }

    /// Forgets everything, but keeps the memory of the texts.
    pub(super) fn reset(&mut self) {
        self.lowest.clear();
        self.highest.clear();
        (self.inserts, self.at_low, self.at_high, self.new_lows, self.new_highs) = (0, 0, 0, 0, 0);
    }
}

/// Without an allocation, mostly.
pub(super) fn replace(text: &mut String, with: &str) {
    text.clear();
    text.push_str(with);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_at_one_end_is_told_from_other_growth() {
        let of = |keys: &mut dyn Iterator<Item = String>| {
            let mut growth = Growth::default();
            keys.for_each(|key| growth.insert(&key));
            growth.growth()
        };
        let spread = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for (case, found, expected) in [
            ("a counter", of(&mut (0..20_000).map(|n| format!("{n:08}"))), Some(KeyGrowth::Rising)),
            (
                "a log tail",
                of(&mut (0..20_000).map(|n| format!("{:08}", 99_999 - n))),
                Some(KeyGrowth::Falling),
            ),
            (
                "partitions of a day",
                of(&mut (0..20_000).map(|n| format!("{:04}", n / 1000))),
                Some(KeyGrowth::Rising),
            ),
            ("hashes", of(&mut (0..20_000).map(spread)), None),
            ("one partition", of(&mut (0..20_000).map(|_| "all".to_owned())), None),
            ("too few to tell", of(&mut (0..15).map(|n| format!("{n:08}"))), None),
            (
                "one in five elsewhere",
                of(&mut (0..1000).map(|n| format!("{:08}", if n % 5 == 0 { n / 2 } else { n }))),
                None,
            ),
            (
                "rising after a spread start",
                of(&mut (0..1000).map(spread).chain((0..20_000).map(|n| format!("z{n:08}")))),
                Some(KeyGrowth::Rising),
            ),
            ("nothing", of(&mut std::iter::empty()), None),
        ] {
            assert_eq!(found, expected, "{case}");
        }
    }
}
