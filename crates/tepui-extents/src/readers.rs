//! Who is reading: what they might read is freed only when they are done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Everyone who reads, by the epoch in which they began. Whoever waits for them begins a new epoch.
#[derive(Default)]
pub(crate) struct Readers {
    state: Mutex<State>,
    left: Notify,
}

#[derive(Default)]
struct State {
    epoch: u64,
    /// How many readers of each epoch there still are.
    counts: BTreeMap<u64, usize>,
}

/// Someone who reads. What is freed meanwhile stays readable until this is dropped.
pub struct Reading {
    readers: Arc<Readers>,
    epoch: u64,
}

impl Readers {
    pub(crate) fn enter(self: &Arc<Self>) -> Reading {
        let mut state = self.state();
        let epoch = state.epoch;
        *state.counts.entry(epoch).or_insert(0) += 1;
        Reading { readers: Arc::clone(self), epoch }
    }

    /// Waits until everyone who is reading now is done, and for nobody who begins later.
    pub(crate) async fn wait(&self) {
        let epoch = {
            let mut state = self.state();
            state.epoch += 1;
            state.epoch
        };
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Before the look: who leaves after it wakes us.
            left.as_mut().enable();
            if self.state().counts.range(..epoch).next().is_none() {
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
