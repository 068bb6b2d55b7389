//! Readers, by epoch: what they may read is freed when they are done or have timed out (epoch-based reclamation).

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long frees wait for readers. The download of a blob that is deleted meanwhile has so long to finish, and a slow reader
/// keeps deleted blobs on the disk no longer than that.
pub const READER_TIMEOUT: Duration = Duration::from_secs(60);

/// The readers of each epoch. Every wait starts a new epoch.
pub struct Readers {
    state: Mutex<Epochs>,
    left: Notify,
    timeout: Duration,
}

#[derive(Default)]
struct Epochs {
    epoch: u64,
    /// Readers of earlier epochs than this have expired.
    expired_before: u64,
    /// How many readers of each epoch there still are.
    counts: BTreeMap<u64, usize>,
}

/// Delays frees as long as it is held.
pub struct ReadGuard {
    readers: Arc<Readers>,
    epoch: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Self::new(READER_TIMEOUT)
    }
}

impl Readers {
    /// Readers expire after `timeout`, once something waits for them.
    pub fn new(timeout: Duration) -> Self {
        Self { state: Mutex::default(), left: Notify::new(), timeout }
    }

    /// Registers a reader.
    pub fn enter(self: &Arc<Self>) -> ReadGuard {
        let mut state = self.state();
        let epoch = state.epoch;
        *state.counts.entry(epoch).or_insert(0) += 1;
        ReadGuard { readers: Arc::clone(self), epoch }
    }

    /// Waits until every current reader is done or has expired. Does not wait for later ones.
    pub async fn wait(&self) {
        let epoch = {
            let mut state = self.state();
            state.epoch += 1;
            state.epoch
        };
        // No timer if there are no readers.
        if !self.is_done(epoch) && tokio::time::timeout(self.timeout, self.wait_for(epoch)).await.is_err() {
            let mut state = self.state();
            state.expired_before = state.expired_before.max(epoch);
        }
    }

    /// Whether no reader from before an epoch has to be waited for.
    fn is_done(&self, epoch: u64) -> bool {
        let state = self.state();
        state.expired_before >= epoch || state.counts.range(state.expired_before..epoch).next().is_none()
    }

    /// Whether frees do not wait for a reader any more.
    pub fn expired(&self, guard: &ReadGuard) -> bool {
        guard.epoch < self.state().expired_before
    }

    async fn wait_for(&self, epoch: u64) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Before the check: a reader that leaves after it wakes us.
            left.as_mut().enable();
            if self.is_done(epoch) {
                return;
            }
            left.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, Epochs> {
        self.state.lock()
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut state = self.readers.state();
        if let Some(count) = state.counts.get_mut(&self.epoch) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&self.epoch);
                drop(state);
                self.readers.left.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_readers_expire() {
        let readers = Arc::new(Readers::new(Duration::from_millis(20)));
        let (quick, slow) = (readers.enter(), readers.enter());
        drop(quick);
        readers.wait().await;
        let later = readers.enter();
        assert!(readers.expired(&slow) && !readers.expired(&later));
        drop(later);
        // An expired reader is not waited for again.
        let patient = Readers { timeout: Duration::from_secs(3600), ..Readers::new(Duration::ZERO) };
        patient.state().expired_before = 1;
        let patient = Arc::new(patient);
        let _slow = patient.enter();
        patient.wait().await;
    }
}
