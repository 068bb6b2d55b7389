//! The memory budget of request bodies, for all connections. No account gets all of it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// An account may hold this many times as much as is left for the others: one alone gets three quarters of the budget, and
/// the next one always finds some.
const SHARE: usize = 3;

/// The time between two requests to others to release memory. They wake every connection, so all that wait share them.
const RELEASE_INTERVAL: Duration = Duration::from_millis(250);

/// A memory budget.
pub(crate) struct BodyMemory {
    bytes: usize,
    usage: Mutex<Usage>,
    freed: Notify,
    waiting: AtomicUsize,
    /// When others were last asked to release memory.
    asked: Mutex<Option<Instant>>,
}

struct Usage {
    free: usize,
    by_account: HashMap<Arc<str>, usize>,
}

/// A part of the budget. Released when it is dropped.
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    account: Arc<str>,
    bytes: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let usage = Usage { free: bytes, by_account: HashMap::new() };
        Arc::new(Self {
            bytes,
            usage: Mutex::new(usage),
            freed: Notify::new(),
            waiting: AtomicUsize::new(0),
            asked: Mutex::new(None),
        })
    }

    /// Reserves memory for an account, if its share allows that now.
    pub(crate) fn try_reserve(self: &Arc<Self>, account: &Arc<str>, bytes: usize) -> Option<Reservation> {
        let mut usage = self.usage.lock();
        if !usage.allows(account, bytes) {
            return None;
        }
        usage.free -= bytes;
        *usage.by_account.entry(Arc::clone(account)).or_default() += bytes;
        Some(Reservation { memory: Arc::clone(self), account: Arc::clone(account), bytes })
    }

    /// Reserves memory, if that is possible within `timeout`. Calls `ask_release` meanwhile, so that others release some, if
    /// nobody has done so just before.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        account: &Arc<str>,
        bytes: usize,
        timeout: Duration,
        ask_release: impl Fn(),
    ) -> Option<Reservation> {
        if let Some(reservation) = self.try_reserve(account, bytes) {
            return Some(reservation);
        }
        let _waiting = Waiting::begin(&self.waiting);
        let waiting = async {
            loop {
                // Created before the attempt, so that no release after it is missed.
                let freed = self.freed.notified();
                if let Some(reservation) = self.try_reserve(account, bytes) {
                    return reservation;
                }
                if self.may_ask() {
                    ask_release();
                }
                let _ = tokio::time::timeout(RELEASE_INTERVAL, freed).await;
            }
        };
        tokio::time::timeout(timeout, waiting).await.ok()
    }

    /// Whether others are to be asked again, which then counts as done.
    fn may_ask(&self) -> bool {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        let is_due = asked.is_none_or(|last| now.duration_since(last) >= RELEASE_INTERVAL);
        if is_due {
            *asked = Some(now);
        }
        is_due
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        (self.bytes - self.usage.lock().free) as u64
    }

    /// Whether a request waits for memory.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// Counts a waiting request while it exists.
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

impl Usage {
    fn allows(&self, account: &Arc<str>, bytes: usize) -> bool {
        let held = self.by_account.get(account).copied().unwrap_or(0);
        match self.free.checked_sub(bytes) {
            // An account without a reservation gets any size that fits.
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
        let mut usage = self.memory.usage.lock();
        usage.free += self.bytes;
        if let Some(of_account) = usage.by_account.get_mut(&self.account) {
            *of_account -= self.bytes;
            if *of_account == 0 {
                usage.by_account.remove(&self.account);
            }
        }
        drop(usage);
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
        let usage = memory.usage.lock();
        assert_eq!((usage.free, usage.by_account.len()), (100, 0));
    }

    #[test]
    fn an_account_without_a_reservation_may_get_all() {
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
    async fn released_memory_goes_to_waiting_requests() {
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

    #[tokio::test(start_paused = true)]
    async fn others_are_asked_once_per_interval_whoever_waits() {
        let memory = BodyMemory::new(10);
        let account: Arc<str> = "one".into();
        let all = memory.try_reserve(&account, 10).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let (memory, account, asked) =
                    (Arc::clone(&memory), Arc::clone(&account), Arc::clone(&asked));
                tokio::spawn(async move {
                    let ask = || _ = asked.fetch_add(1, Relaxed);
                    memory.reserve(&account, 10, RELEASE_INTERVAL * 4 - Duration::from_millis(1), ask).await
                })
            })
            .collect();
        // Others come and go meanwhile, and every time all try again.
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            memory.freed.notify_waiters();
        }
        for waiting in waiting {
            assert!(waiting.await.unwrap().is_none());
        }
        assert_eq!(asked.load(Relaxed), 4);
        drop(all);
    }
}
