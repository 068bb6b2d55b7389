//! The memory for answers on their way out.

use crate::limits::{Limits, PAGE_BYTES, SMALL_BODY_BYTES};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory for pages, messages and blobs that are sent. Clients that read slowly keep theirs for as long as they
/// take, so there is only so much for all of them.
pub(super) struct ReplyMemory {
    kib: Arc<Semaphore>,
    all_kib: u32,
    patience: Duration,
}

impl ReplyMemory {
    pub(super) fn new(limits: &Limits) -> Self {
        let all_kib = kib(limits.reply_memory_bytes);
        let kib = Arc::new(Semaphore::new(all_kib as usize));
        Self { kib, all_kib, patience: limits.body_memory_timeout }
    }

    /// Enough for a page.
    pub(super) async fn reserve_page(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        self.reserve(PAGE_BYTES).await
    }

    /// Enough for so many bytes, if there is as much at all.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ServiceError> {
        if let Some(permit) = self.try_reserve(bytes) {
            return Ok(permit);
        }
        let permit = Arc::clone(&self.kib).acquire_many_owned(kib(bytes).min(self.all_kib));
        match tokio::time::timeout(self.patience, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }

    /// Adds to what is reserved, so that it is enough for so many bytes.
    pub(super) async fn grow(
        &self,
        reserved: &mut OwnedSemaphorePermit,
        bytes: usize,
    ) -> Result<(), ServiceError> {
        let more = (kib(bytes).min(self.all_kib) as usize).saturating_sub(reserved.num_permits());
        if more > 0 {
            reserved.merge(self.reserve(more * 1024).await?);
        }
        Ok(())
    }

    /// For an answer of this size that is there already, if it counts and only reads: it is given up if there is
    /// no memory for it, rather than kept until there is.
    pub(super) fn hold(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, ServiceError> {
        match bytes <= SMALL_BODY_BYTES {
            true => Ok(None),
            false => self.try_reserve(bytes).map(Some).ok_or_else(busy),
        }
    }

    /// So much, if it is there now.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.kib).try_acquire_many_owned(kib(bytes)).ok()
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
    ServiceError::new(ErrorCode::ServerBusy).with_cause("there is no memory for the answer now")
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
