//! The memory for answers on their way out.

use crate::net::limits::{Limits, PAGE_BYTES, SMALL_BODY_BYTES};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Throttle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is reserved for an account that finds everything else taken: two pages.
const SHARE_BYTES: usize = 2 * PAGE_BYTES;
/// The part of the memory that is reserved: one in so many.
const RESERVED: usize = 4;

/// The memory for pages, messages and blobs that are sent. Clients that read slowly keep theirs for as long as they
/// take, so it is limited for all of them together. A quarter of it is reserved for accounts that find the rest taken by
/// another account.
pub(crate) struct ReplyMemory {
    common: Arc<Semaphore>,
    common_kib: u32,
    shares: Mutex<Shares>,
    patience: Duration,
}

/// What is reserved.
struct Shares {
    /// How many more accounts can have a share.
    left: usize,
    by_account: HashMap<String, Arc<Semaphore>>,
}

impl Shares {
    /// The share of an account, if there is one left for it. Unused ones are given to others.
    fn of(&mut self, account: &str) -> Option<Arc<Semaphore>> {
        if let Some(share) = self.by_account.get(account) {
            return Some(Arc::clone(share));
        }
        if self.left == 0 {
            let before = self.by_account.len();
            let is_used = |share: &Arc<Semaphore>| {
                Arc::strong_count(share) > 1 || share.available_permits() < kib(SHARE_BYTES) as usize
            };
            self.by_account.retain(|_, share| is_used(share));
            self.left += before - self.by_account.len();
        }
        self.left = self.left.checked_sub(1)?;
        let share = Arc::new(Semaphore::new(kib(SHARE_BYTES) as usize));
        self.by_account.insert(account.to_owned(), Arc::clone(&share));
        Some(share)
    }
}

impl ReplyMemory {
    pub(super) fn new(limits: &Limits) -> Self {
        let left = limits.reply_memory_bytes / RESERVED / SHARE_BYTES;
        let common_kib = kib(limits.reply_memory_bytes - left * SHARE_BYTES);
        Self {
            common: Arc::new(Semaphore::new(common_kib as usize)),
            common_kib,
            shares: Mutex::new(Shares { left, by_account: HashMap::new() }),
            patience: limits.body_memory_timeout,
        }
    }

    /// How much of it is taken.
    pub(crate) fn used_bytes(&self) -> u64 {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let of_share = |share: &Arc<Semaphore>| kib(SHARE_BYTES) as usize - share.available_permits();
        let reserved: usize = shares.by_account.values().map(of_share).sum();
        let common = self.common_kib as usize - self.common.available_permits();
        (common + reserved) as u64 * 1024
    }

    /// Enough for a page.
    pub(super) async fn reserve_page(&self, account: &str) -> Result<OwnedSemaphorePermit, ServiceError> {
        self.reserve(account, PAGE_BYTES).await
    }

    /// Enough for so many bytes, if there is as much at all.
    pub(super) async fn reserve(
        &self,
        account: &str,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, ServiceError> {
        if let Some(permit) = self.try_reserve(account, bytes) {
            return Ok(permit);
        }
        let common = Arc::clone(&self.common).acquire_many_owned(kib(bytes).min(self.common_kib));
        let share = self.share(account, bytes).map(|share| share.acquire_many_owned(kib(bytes)));
        let permit = async {
            match share {
                Some(share) => tokio::select! { permit = common => permit, permit = share => permit },
                None => common.await,
            }
        };
        match tokio::time::timeout(self.patience, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }

    /// The account's own share, if so many bytes fit.
    fn share(&self, account: &str, bytes: usize) -> Option<Arc<Semaphore>> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= SHARE_BYTES { shares.of(account) } else { None }
    }

    /// Whether what is reserved is enough for so many bytes, or all there is.
    pub(super) fn is_enough(&self, reserved: &OwnedSemaphorePermit, bytes: usize) -> bool {
        reserved.num_permits() >= kib(bytes).min(self.common_kib) as usize
    }

    /// For an answer of this size that is there already, if it counts and only reads: it is given up if there is
    /// no memory for it, rather than kept until there is.
    pub(super) fn hold(
        &self,
        account: &str,
        bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, ServiceError> {
        match bytes <= SMALL_BODY_BYTES {
            true => Ok(None),
            false => self.try_reserve(account, bytes).map(Some).ok_or_else(busy),
        }
    }

    /// So much, if it is there now.
    pub(super) fn try_reserve(&self, account: &str, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.common).try_acquire_many_owned(kib(bytes)) {
            return Some(permit);
        }
        self.share(account, bytes)?.try_acquire_many_owned(kib(bytes)).ok()
    }

    /// What an answer of this size keeps of what was reserved. Small ones do not count.
    pub(super) fn keep(mut reserved: OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= SMALL_BODY_BYTES {
            None
        } else {
            reserved.split(bytes.div_ceil(1024).min(reserved.num_permits()))
        }
    }
}

fn busy() -> ServiceError {
    ServiceError::new(ErrorCode::ServerBusy)
        .with_cause("there is no memory for the answer now")
        .with_throttle(Throttle::Memory)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: usize) -> ReplyMemory {
        let body_memory_timeout = Duration::from_millis(1);
        ReplyMemory::new(&Limits { reply_memory_bytes: bytes, body_memory_timeout, ..Limits::default() })
    }

    /// Takes pages until there are no more.
    fn take_all(memory: &ReplyMemory, account: &str) -> Vec<OwnedSemaphorePermit> {
        std::iter::from_fn(|| memory.try_reserve(account, PAGE_BYTES)).collect()
    }

    #[tokio::test]
    async fn who_takes_all_leaves_something_for_others() {
        let memory = memory(16 * PAGE_BYTES);
        let greedy = take_all(&memory, "greedy");
        assert_eq!(greedy.len(), 14, "all but the share of one more");
        assert!(memory.reserve_page("greedy").await.is_err());
        assert_eq!(memory.used_bytes(), 14 * PAGE_BYTES as u64);
        let page = memory.reserve_page("modest").await.ok();
        assert!(page.is_some() && memory.reserve_page("modest").await.is_ok());
        assert!(memory.reserve("modest", 3 * PAGE_BYTES).await.is_err(), "not that much");
        assert!(memory.reserve_page("third").await.is_err(), "two shares are all that was set apart");
        drop(page);
        assert!(memory.reserve_page("third").await.is_ok(), "the share of the second is unused");
        drop(greedy);
        assert!(memory.reserve("third", 12 * PAGE_BYTES).await.is_ok());
    }

    #[test]
    fn little_memory_is_not_divided() {
        assert_eq!(take_all(&memory(4 * PAGE_BYTES), "greedy").len(), 4);
    }
}
