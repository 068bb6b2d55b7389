//! Who is reading: what they might read is freed only when they are done, or have taken too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long those who read are waited for. Whoever downloads a blob that is deleted meanwhile has so long to get
/// the rest of it; and nobody who reads slowly keeps everyone's deleted blobs on the disk for longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Everyone who reads, by the epoch in which they began. Whoever waits for them begins a new epoch.
pub(crate) struct Readers {
    state: Mutex<State>,
    left: Notify,
    patience: Duration,
}

#[derive(Default)]
struct State {
    epoch: u64,
    /// Readers of earlier epochs than this are not waited for any more.
    over: u64,
    /// How many readers of each epoch there still are.
    counts: BTreeMap<u64, usize>,
}

/// Someone who reads.
pub struct Reading {
    readers: Arc<Readers>,
    epoch: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl Readers {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { state: Mutex::default(), left: Notify::new(), patience }
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Reading {
        let mut state = self.state();
        let epoch = state.epoch;
        *state.counts.entry(epoch).or_insert(0) += 1;
        Reading { readers: Arc::clone(self), epoch }
    }

    /// Waits until everyone who is reading now is done or has taken too long, and for nobody who begins later.
    pub(crate) async fn wait(&self) {
        let epoch = {
            let mut state = self.state();
            state.epoch += 1;
            state.epoch
        };
        // Without a timer if there is nobody.
        if !self.is_done(epoch) && tokio::time::timeout(self.patience, self.wait_for(epoch)).await.is_err() {
            let mut state = self.state();
            state.over = state.over.max(epoch);
        }
    }

    /// Whether nobody who began before an epoch has to be waited for.
    fn is_done(&self, epoch: u64) -> bool {
        let state = self.state();
        state.over >= epoch || state.counts.range(state.over..epoch).next().is_none()
    }

    /// Whether someone was waited for long enough.
    pub(crate) fn is_over(&self, reading: &Reading) -> bool {
        reading.epoch < self.state().over
    }

    async fn wait_for(&self, epoch: u64) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Before the look: who leaves after it wakes us.
            left.as_mut().enable();
            if self.is_done(epoch) {
                return;
            }
            left.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading {
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
    async fn nobody_is_waited_for_for_ever() {
        let readers = Arc::new(Readers::new(Duration::from_millis(20)));
        let (quick, slow) = (readers.enter(), readers.enter());
        drop(quick);
        readers.wait().await;
        let later = readers.enter();
        assert!(readers.is_over(&slow) && !readers.is_over(&later));
        drop(later);
        // Whoever was waited for once is not waited for again.
        let patient = Readers { patience: Duration::from_secs(3600), ..Readers::new(Duration::ZERO) };
        patient.state().over = 1;
        let patient = Arc::new(patient);
        let _slow = patient.enter();
        patient.wait().await;
    }
}
