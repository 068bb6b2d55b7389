//! Filters: whether a key may be in a table or a memtable, told from its hash and one line of memory.
//!
//! A filter is a row of lines of 512 bits. A key sets a few bits of one line.

use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// With so many bits, about one key in a hundred is taken for one that is there.
const BITS_PER_KEY: usize = 10;
const PROBES: usize = 7;
const LINE_BITS: usize = 512;
const WORDS: usize = LINE_BITS / 64;
pub(super) const LINE_BYTES: usize = LINE_BITS / 8;

/// What filters know of a key.
pub(super) fn hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// Of a table: made once.
pub(super) struct Filter {
    lines: Box<[Line]>,
}

/// A line of the processor's cache.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; WORDS]);

impl Filter {
    pub(super) fn new(hashes: &[u64]) -> Self {
        let mut lines = vec![Line::default(); lines_for(hashes.len())];
        let count = lines.len();
        for hash in hashes {
            let line = &mut lines[spread(*hash, count)];
            for (word, bit) in bits(*hash) {
                line.0[word] |= bit;
            }
        }
        Self { lines: lines.into() }
    }

    /// From what [`Filter::bytes`] returned; nothing if these are not whole lines.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
        let read = |line: &[u8; LINE_BYTES]| {
            let (words, _) = line.as_chunks::<8>();
            Line(std::array::from_fn(|word| words.get(word).map_or(0, |word| u64::from_le_bytes(*word))))
        };
        (rest.is_empty() && !lines.is_empty()).then(|| Self { lines: lines.iter().map(read).collect() })
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = [u8; 8]> {
        self.lines.iter().flat_map(|line| line.0).map(u64::to_le_bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Certainly not if this is false.
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let line = &self.lines[spread(hash, self.lines.len())];
        bits(hash).all(|(word, bit)| line.0[word] & bit != 0)
    }
}

/// Of a memtable: one thread adds to it while others read.
pub(super) struct GrowingFilter {
    lines: Box<[GrowingLine]>,
}

#[derive(Default)]
#[repr(align(64))]
struct GrowingLine([AtomicU64; WORDS]);

impl GrowingFilter {
    pub(super) fn for_keys(count: usize) -> Self {
        Self { lines: (0..lines_for(count)).map(|_| GrowingLine::default()).collect() }
    }

    /// Whoever learns of the key by way of a lock finds it here as well.
    pub(super) fn add(&self, hash: u64) {
        let line = &self.lines[spread(hash, self.lines.len())];
        for (word, bit) in bits(hash) {
            line.0[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let line = &self.lines[spread(hash, self.lines.len())];
        bits(hash).all(|(word, bit)| line.0[word].load(Ordering::Relaxed) & bit != 0)
    }
}

fn lines_for(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(LINE_BITS).max(1)
}

/// The upper half of a hash, spread over so many places.
fn spread(hash: u64, places: usize) -> usize {
    (((hash >> 32) * places as u64) >> 32) as usize
}

/// The bits of a key in its line, from the lower half of its hash.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = (hash & 0xFFFF_FFFF).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..PROBES).map(move |probe| {
        let bit = (mixed >> (9 * probe)) as usize % LINE_BITS;
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(numbers: std::ops::Range<u32>) -> Vec<u64> {
        numbers.map(|number| hash(format!("key {number}").as_bytes())).collect()
    }

    #[test]
    fn what_is_there_is_always_found_and_what_is_not_seldom() {
        let filter = Filter::new(&hashes(0..10_000));
        let growing = GrowingFilter::for_keys(10_000);
        hashes(0..10_000).into_iter().for_each(|hash| growing.add(hash));
        for hash in hashes(0..10_000) {
            assert!(filter.may_hold(hash) && growing.may_hold(hash));
        }
        let strangers = hashes(10_000..110_000);
        let taken = strangers.iter().filter(|hash| filter.may_hold(**hash)).count();
        assert_eq!(taken, strangers.iter().filter(|hash| growing.may_hold(**hash)).count());
        assert!(taken < 2_000, "{taken} of 100,000");
    }

    #[test]
    fn filters_are_read_back() {
        let filter = Filter::new(&hashes(0..1000));
        let bytes: Vec<u8> = filter.bytes().flatten().collect();
        let read = Filter::read(&bytes).expect("these are whole lines");
        assert!(hashes(0..5000).into_iter().all(|hash| filter.may_hold(hash) == read.may_hold(hash)));
        assert!(Filter::read(&bytes[1..]).is_none() && Filter::read(&[]).is_none());
    }
}
