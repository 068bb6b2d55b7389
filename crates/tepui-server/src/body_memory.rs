//! The memory for the bodies of requests: a budget for all connections, of which no account gets all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// An account may hold so many times as much as is then left for the others: one alone gets three quarters of it all,
/// and whoever comes next always finds something.
const SHARE: usize = 3;

/// How often who waits asks others for what they do not need.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A budget of memory.
pub(crate) struct BodyMemory {
    held: Mutex<Held>,
    freed: Notify,
    waiting: AtomicUsize,
}

struct Held {
    free: usize,
    by_account: HashMap<Arc<str>, usize>,
}

/// A part of the budget. Given back when it is dropped.
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    account: Arc<str>,
    bytes: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let held = Held { free: bytes, by_account: HashMap::new() };
        Arc::new(Self { held: Mutex::new(held), freed: Notify::new(), waiting: AtomicUsize::new(0) })
    }

    /// So much for an account, if it may have as much now.
    pub(crate) fn try_reserve(self: &Arc<Self>, account: &Arc<str>, bytes: usize) -> Option<Reservation> {
        let mut held = self.lock();
        if !held.allows(account, bytes) {
            return None;
        }
        held.free -= bytes;
        *held.by_account.entry(Arc::clone(account)).or_default() += bytes;
        Some(Reservation { memory: Arc::clone(self), account: Arc::clone(account), bytes })
    }

    /// The same, if it comes to that in time. Whoever could give some back hears `ask` meanwhile.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        account: &Arc<str>,
        bytes: usize,
        patience: Duration,
        ask: impl Fn(),
    ) -> Option<Reservation> {
        if let Some(reservation) = self.try_reserve(account, bytes) {
            return Some(reservation);
        }
        let _waiting = Waiting::begin(&self.waiting);
        let waiting = async {
            loop {
                // Made before the attempt: it misses nothing that is freed after that.
                let freed = self.freed.notified();
                if let Some(reservation) = self.try_reserve(account, bytes) {
                    return reservation;
                }
                ask();
                let _ = tokio::time::timeout(ASK_AGAIN, freed).await;
            }
        };
        tokio::time::timeout(patience, waiting).await.ok()
    }

    /// Whether somebody waits for some.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Held {
    fn allows(&self, account: &Arc<str>, bytes: usize) -> bool {
        let held = self.by_account.get(account).copied().unwrap_or(0);
        match self.free.checked_sub(bytes) {
            // One body of any size that fits at all can be had by whoever has none.
            Some(left) => held == 0 || bytes == 0 || held + bytes <= left.saturating_mul(SHARE),
            None => false,
        }
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn account(&self) -> &Arc<str> {
        &self.account
    }

    /// Adds another of the same account and budget.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.memory.lock();
        held.free += self.bytes;
        if let Some(of_account) = held.by_account.get_mut(&self.account) {
            *of_account -= self.bytes;
            if *of_account == 0 {
                held.by_account.remove(&self.account);
            }
        }
        drop(held);
        self.memory.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_account_gets_all() {
        let memory = BodyMemory::new(100);
        let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        let of_one: Vec<_> = std::iter::from_fn(|| memory.try_reserve(&one, 5)).collect();
        assert_eq!(of_one.len(), 15);
        let of_two: Vec<_> = std::iter::from_fn(|| memory.try_reserve(&two, 5)).collect();
        assert_eq!(of_two.len(), 3);
        assert!(memory.try_reserve(&one, 5).is_none());
        drop(of_one);
        assert!(memory.try_reserve(&two, 40).is_some());
        drop(of_two);
        let held = memory.lock();
        assert_eq!((held.free, held.by_account.len()), (100, 0));
    }

    #[test]
    fn whoever_has_none_may_have_all() {
        let memory = BodyMemory::new(100);
        let account: Arc<str> = "one".into();
        assert!(memory.try_reserve(&account, 101).is_none());
        let mut all = memory.try_reserve(&account, 100).unwrap();
        assert!(memory.try_reserve(&account, 1).is_none());
        drop(memory.try_reserve(&"two".into(), 0));
        all.merge(memory.try_reserve(&account, 0).unwrap());
        assert_eq!(all.bytes(), 100);
    }

    #[tokio::test]
    async fn what_is_given_back_goes_to_those_who_wait() {
        let memory = BodyMemory::new(10);
        let account: Arc<str> = "one".into();
        let first = memory.try_reserve(&account, 10).unwrap();
        assert!(memory.reserve(&account, 10, Duration::from_millis(1), || ()).await.is_none());
        assert!(!memory.is_wanted());
        let waiting = tokio::spawn({
            let (memory, account) = (Arc::clone(&memory), Arc::clone(&account));
            async move { memory.reserve(&account, 10, Duration::from_secs(20), || ()).await.is_some() }
        });
        while !memory.is_wanted() {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
