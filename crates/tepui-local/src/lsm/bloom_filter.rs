//! Blocked Bloom filters: whether a key may be in a table or a memtable, from its hash and one cache line.
//!
//! A filter is an array of cache lines of 512 bits. A key sets a few bits of one of them.

use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// Gives a false positive rate of about 1 %.
const BITS_PER_KEY: usize = 10;
const PROBES: usize = 7;
const CACHE_LINE_BITS: usize = 512;
const WORDS: usize = CACHE_LINE_BITS / 64;
pub(super) const CACHE_LINE_BYTES: usize = CACHE_LINE_BITS / 8;

/// The hash that filters are asked with.
pub(super) fn hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// The filter of a table, immutable.
pub(super) struct BloomFilter {
    lines: Box<[CacheLine]>,
}

/// The unit of a filter: a query touches one.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct CacheLine([u64; WORDS]);

impl BloomFilter {
    pub(super) fn new(hashes: &[u64]) -> Self {
        let mut lines = vec![CacheLine::default(); lines_for(hashes.len())];
        let count = lines.len();
        for hash in hashes {
            let line = &mut lines[line_of(*hash, count)];
            for (word, bit) in bits(*hash) {
                line.0[word] |= bit;
            }
        }
        Self { lines: lines.into() }
    }

    /// Reads what [`BloomFilter::bytes`] returned. `None`: these are not whole cache lines.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (lines, rest) = bytes.as_chunks::<CACHE_LINE_BYTES>();
        let read = |line: &[u8; CACHE_LINE_BYTES]| {
            let (words, _) = line.as_chunks::<8>();
            CacheLine(std::array::from_fn(|word| words.get(word).map_or(0, |word| u64::from_le_bytes(*word))))
        };
        (rest.is_empty() && !lines.is_empty()).then(|| Self { lines: lines.iter().map(read).collect() })
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = [u8; 8]> {
        self.lines.iter().flat_map(|line| line.0).map(u64::to_le_bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// False positives are possible, false negatives are not.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())];
        bits(hash).all(|(word, bit)| line.0[word] & bit != 0)
    }
}

/// The filter of a memtable: one thread adds to it while others read.
pub(super) struct ConcurrentBloomFilter {
    lines: Box<[AtomicCacheLine]>,
}

#[derive(Default)]
#[repr(align(64))]
struct AtomicCacheLine([AtomicU64; WORDS]);

impl ConcurrentBloomFilter {
    pub(super) fn for_keys(count: usize) -> Self {
        Self { lines: (0..lines_for(count)).map(|_| AtomicCacheLine::default()).collect() }
    }

    /// Relaxed: a reader learns of the key through a lock, which orders this before it.
    pub(super) fn add(&self, hash: u64) {
        let line = &self.lines[line_of(hash, self.lines.len())];
        for (word, bit) in bits(hash) {
            line.0[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())];
        bits(hash).all(|(word, bit)| line.0[word].load(Ordering::Relaxed) & bit != 0)
    }
}

fn lines_for(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(CACHE_LINE_BITS).max(1)
}

/// Which of `count` cache lines a key is in, from the upper half of its hash.
fn line_of(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

/// The bits of a key in its cache line, from the lower half of its hash.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = (hash & 0xFFFF_FFFF).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..PROBES).map(move |probe| {
        let bit = (mixed >> (9 * probe)) as usize % CACHE_LINE_BITS;
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
        let filter = BloomFilter::new(&hashes(0..10_000));
        let growing = ConcurrentBloomFilter::for_keys(10_000);
        hashes(0..10_000).into_iter().for_each(|hash| growing.add(hash));
        for hash in hashes(0..10_000) {
            assert!(filter.may_contain(hash) && growing.may_contain(hash));
        }
        let strangers = hashes(10_000..110_000);
        let taken = strangers.iter().filter(|hash| filter.may_contain(**hash)).count();
        assert_eq!(taken, strangers.iter().filter(|hash| growing.may_contain(**hash)).count());
        assert!(taken < 2_000, "{taken} of 100,000");
    }

    #[test]
    fn filters_are_read_back() {
        let filter = BloomFilter::new(&hashes(0..1000));
        let bytes: Vec<u8> = filter.bytes().flatten().collect();
        let read = BloomFilter::read(&bytes).expect("these are whole lines");
        assert!(hashes(0..5000).into_iter().all(|hash| filter.may_contain(hash) == read.may_contain(hash)));
        assert!(BloomFilter::read(&bytes[1..]).is_none() && BloomFilter::read(&[]).is_none());
    }
}
