//! The space-saving sketch of Metwally, Agrawal and El Abbadi (2005): the heaviest of any number of keys, with a bounded number of
//! counters.
//!
//! A key without a counter takes over the smallest one, and its count as a possible error. So a count is never too
//! small, and at most too large by its error, which is at most the weight of all keys by the number of counters.
//! A key that is heavier than that has a counter.

use super::buckets::AsItIs;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// The heaviest keys, by hashes of them. Each has a value beside its count.
pub(super) struct Sketch<V> {
    capacity: usize,
    index: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
    /// Apart from the rest, so that the smallest is found fast.
    counts: Vec<f64>,
    counters: Vec<Counter<V>>,
}

struct Counter<V> {
    key: u64,
    error: f64,
    value: V,
}

/// A counter as it is read.
pub(super) struct Counted<'a, V> {
    /// Never too small.
    pub(super) count: f64,
    /// By how much the count may be too large.
    pub(super) error: f64,
    pub(super) value: &'a V,
}

impl<V: Default> Sketch<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            index: HashMap::default(),
            counts: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// Counts a key. `begin` makes the value of a key that had no counter, out of that of another, whose memory can be used again.
    pub(super) fn add(&mut self, key: u64, weight: f64, begin: impl FnOnce(&mut V)) -> &mut V {
        let slot = match self.index.get(&key) {
            Some(slot) => *slot,
            None => self.take_over(key, begin),
        };
        self.counts[slot] += weight;
        &mut self.counters[slot].value
    }

    fn take_over(&mut self, key: u64, begin: impl FnOnce(&mut V)) -> usize {
        let slot = if self.counters.len() < self.capacity {
            self.counts.push(0.0);
            self.counters.push(Counter { key, error: 0.0, value: V::default() });
            self.counters.len() - 1
        } else {
            let slot = smallest(&self.counts);
            let counter = &mut self.counters[slot];
            self.index.remove(&counter.key);
            counter.key = key;
            counter.error = self.counts[slot];
            slot
        };
        self.index.insert(key, slot);
        begin(&mut self.counters[slot].value);
        slot
    }

    /// Makes what was counted so far count half as much.
    pub(super) fn halve(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2.0);
        self.counters.iter_mut().for_each(|counter| counter.error /= 2.0);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        self.index.get(&key).map(|slot| &self.counters[*slot].value)
    }

    /// All counters, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Counted<'_, V>> {
        self.counters.iter().zip(&self.counts).map(|(counter, count)| Counted {
            count: *count,
            error: counter.error,
            value: &counter.value,
        })
    }
}

fn smallest(counts: &[f64]) -> usize {
    let mut found = (0, f64::INFINITY);
    for (slot, count) in counts.iter().enumerate() {
        if *count < found.1 {
            found = (slot, *count);
        }
    }
    found.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stream in which the key k occurs about 1/k as often as the first.
    fn zipf(keys: u64, length: usize) -> Vec<u64> {
        let weights: Vec<f64> = (1..=keys).map(|key| 1.0 / key as f64).collect();
        let all: f64 = weights.iter().sum();
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut left = (random >> 11) as f64 / (1u64 << 53) as f64 * all;
            weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            })
        };
        (0..length).map(|_| draw().unwrap_or(0) as u64).collect()
    }

    fn exact(stream: &[u64]) -> HashMap<u64, f64> {
        let mut counts = HashMap::new();
        stream.iter().for_each(|key| *counts.entry(*key).or_default() += 1.0);
        counts
    }

    /// What the paper promises.
    fn check(stream: &[u64], capacity: usize) {
        let mut sketch = Sketch::<u64>::new(capacity);
        stream.iter().for_each(|key| {
            sketch.add(*key, 1.0, |value| *value = *key);
        });
        let exact = exact(stream);
        assert!(sketch.counters.len() <= capacity && sketch.index.len() == sketch.counters.len());
        let most = stream.len() as f64 / capacity as f64;
        for counted in sketch.iter() {
            let count = exact[counted.value];
            assert!(counted.count >= count && counted.count - counted.error <= count, "{}", *counted.value);
            assert!(counted.error <= most, "{} > {most}", counted.error);
        }
        for (key, count) in exact {
            assert!(count <= most || sketch.get(key).is_some(), "{key}: {count}");
        }
    }

    #[test]
    fn the_heaviest_of_a_zipf_stream_are_found() {
        let stream = zipf(10_000, 50_000);
        check(&stream, 128);
        let mut sketch = Sketch::<u64>::new(128);
        for key in &stream {
            sketch.add(*key, 1.0, |value| *value = *key);
        }
        let mut top: Vec<_> = sketch.iter().map(|counted| (counted.count, *counted.value)).collect();
        top.sort_by(|a, b| b.0.total_cmp(&a.0));
        let exact = exact(&stream);
        for (place, (count, key)) in top.iter().take(10).enumerate() {
            assert_eq!(*key, place as u64);
            assert!(count / exact[key] < 1.1, "{key}: {count}, not {}", exact[key]);
        }
    }

    #[test]
    fn halving_forgets_what_is_over() {
        let mut sketch = Sketch::<u64>::new(4);
        sketch.add(1, 100.0, |value| *value = 1);
        (0..10).for_each(|_| sketch.halve());
        sketch.add(2, 1.0, |value| *value = 2);
        let counts: HashMap<u64, f64> =
            sketch.iter().map(|counted| (*counted.value, counted.count)).collect();
        assert!(counts[&1] < counts[&2]);
    }

    proptest! {
        #[test]
        fn counts_are_within_their_errors(stream in proptest::collection::vec(0..60u64, 0..400), capacity in 1..40usize) {
            check(&stream, capacity);
        }
    }
}
