//! Compares references with what is referred to, in constant memory.
//!
//! Every reference adds a hash of what it refers to, to one of many sums; what is referred to subtracts its hash as often as it is
//! counted. Where all is well, every sum is zero in the end. Which one is not says where to look in the next pass.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use tepui_storage::{Extent, Key};

const BUCKETS: u64 = 1 << 16;

/// What a row refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Reference {
    Extent(Extent),
    /// A list of pieces.
    Content(u128),
    /// A small content.
    Small(u128),
    /// The text of a message, by its key.
    Text(Key),
    /// The row by which a message expires.
    Expiry(Key),
    /// An entry of the index of tags.
    Tag(Key),
}

impl Reference {
    /// The bucket, and what is added.
    fn hash(&self) -> (u64, u64) {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        let place = hasher.finish();
        // The sum is of another hash: two in one bucket have much of the first in common.
        1u8.hash(&mut hasher);
        (place % BUCKETS, hasher.finish())
    }
}

pub(super) struct Ledger(Vec<u64>);

impl Default for Ledger {
    fn default() -> Self {
        Self(vec![0; BUCKETS as usize])
    }
}

impl Ledger {
    /// A row refers to it.
    pub(super) fn refers(&mut self, to: &Reference) {
        self.add(to, 1);
    }

    /// It is there, and says how often it is referred to.
    pub(super) fn counts(&mut self, what: &Reference, references: u64) {
        self.add(what, references.wrapping_neg());
    }

    fn add(&mut self, reference: &Reference, times: u64) {
        let (bucket, hash) = reference.hash();
        let sum = &mut self.0[bucket as usize];
        *sum = sum.wrapping_add(hash.wrapping_mul(times));
    }

    pub(super) fn unbalanced(&self) -> Unbalanced {
        let buckets = self.0.iter().zip(0u64..).filter(|(sum, _)| **sum != 0);
        Unbalanced(buckets.map(|(_, bucket)| bucket).collect())
    }
}

/// The sums that are not zero.
pub(super) struct Unbalanced(HashSet<u64>);

impl Unbalanced {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn may_contain(&self, reference: &Reference) -> bool {
        self.0.contains(&reference.hash().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::StoreId;

    #[test]
    fn what_does_not_match_is_found_among_much_that_does() {
        let extent = |number: u64| {
            Reference::Extent(Extent {
                store: StoreId::LOCAL,
                volume: number / 100,
                offset: number << 12,
                bytes: 7,
            })
        };
        for (case, refers, counts, unbalanced) in
            [("all right", 0, 0, false), ("one too many", 1, 0, true), ("one too few", 0, 1, true)]
        {
            let mut ledger = Ledger::default();
            for number in 0..100_000 {
                (0..number % 3).for_each(|_| ledger.refers(&extent(number)));
                ledger.counts(&extent(number), number % 3);
            }
            (0..refers).for_each(|_| ledger.refers(&extent(4711)));
            ledger.counts(&extent(4711), counts);
            let found = ledger.unbalanced();
            assert_eq!(
                (!found.is_empty(), found.may_contain(&extent(4711))),
                (unbalanced, unbalanced),
                "{case}"
            );
        }
    }
}
