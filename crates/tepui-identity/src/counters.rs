//! What happened to tokens and keys, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use tepui_model::token::TokenFailure;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    refused: [AtomicU64; TokenFailure::ALL.len()],
    cache_hits: AtomicU64,
    fetched: AtomicU64,
    fetches_failed: AtomicU64,
}

/// How often issuers were asked for their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchCounts {
    pub succeeded: u64,
    pub failed: u64,
}

impl Counters {
    /// Tokens that were good.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Tokens that were not, by reason.
    pub fn refused(&self) -> [(TokenFailure, u64); TokenFailure::ALL.len()] {
        TokenFailure::ALL.map(|failure| (failure, self.refused[failure as usize].load(Ordering::Relaxed)))
    }

    /// Tokens that had been verified before.
    pub fn cache_hits(&self) -> u64 {
        self.cache_hits.load(Ordering::Relaxed)
    }

    pub fn fetches(&self) -> FetchCounts {
        FetchCounts {
            succeeded: self.fetched.load(Ordering::Relaxed),
            failed: self.fetches_failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count<T>(&self, outcome: &Result<T, TokenFailure>) {
        let counter = match outcome {
            Ok(_) => &self.accepted,
            Err(failure) => &self.refused[*failure as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_cache_hit(&self) {
        self.cache_hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_fetch(&self, succeeded: bool) {
        let counter = if succeeded { &self.fetched } else { &self.fetches_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_their_reason() {
        let counters = Counters::default();
        for failure in TokenFailure::ALL {
            counters.count::<()>(&Err(failure));
        }
        counters.count(&Ok(()));
        assert!(counters.refused().iter().all(|(_, count)| *count == 1));
        assert_eq!(counters.accepted(), 1);
    }
}
