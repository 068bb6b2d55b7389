//! The state that readers see: published by the committer, shared by every snapshot.
//!
//! Views are made only between two batches, by the one thread that writes: at any other time the
//! newest number may belong to a batch that is still on its way to the journal.

use crate::tree::{Sources, Tree};
use crate::{EngineError, Version};
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// One state of the store: what was written up to its number.
pub(crate) struct View {
    pub(crate) tree: Arc<Tree>,
    pub(crate) sources: Arc<Sources>,
    /// Of the last batch that it shows.
    pub(crate) number: u64,
    pub(crate) version: Version,
    pub(crate) catalogue_version: Version,
}

/// Where the committer puts the newest [`View`] and readers find it.
pub(crate) struct Published {
    current: RwLock<Current>,
    changed: Notify,
    /// Held by every view that was published and is still in use.
    in_use: Arc<()>,
}

/// A published view, kept by the snapshots that read from it.
pub(crate) struct Held {
    view: View,
    _in_use: Arc<()>,
}

impl Deref for Held {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

enum Current {
    Ready(Arc<Held>),
    /// The store is being opened again; this takes a moment.
    Reopening,
    Failed(EngineError),
}

impl Published {
    pub(crate) fn new(view: View) -> Self {
        let in_use = Arc::new(());
        let held = Held { view, _in_use: Arc::clone(&in_use) };
        Self { current: RwLock::new(Current::Ready(Arc::new(held))), changed: Notify::new(), in_use }
    }

    /// The newest view. Waits only while the store is being opened again.
    pub(crate) async fn get(&self, wait: Duration) -> Result<Arc<Held>, EngineError> {
        if let Some(view) = self.try_get()? {
            return Ok(view);
        }
        let changed = async {
            loop {
                let changed = self.changed.notified();
                if let Some(view) = self.try_get()? {
                    return Ok(view);
                }
                changed.await;
            }
        };
        tokio::time::timeout(wait, changed)
            .await
            .unwrap_or_else(|_| Err(EngineError::Unavailable("the store is being opened again".into())))
    }

    pub(crate) fn try_get(&self) -> Result<Option<Arc<Held>>, EngineError> {
        match &*self.current.read().unwrap_or_else(PoisonError::into_inner) {
            Current::Ready(view) => Ok(Some(Arc::clone(view))),
            Current::Reopening => Ok(None),
            Current::Failed(error) => Err(error.clone()),
        }
    }

    pub(crate) fn set(&self, view: View) {
        self.replace(Current::Ready(Arc::new(Held { view, _in_use: Arc::clone(&self.in_use) })));
    }

    pub(crate) fn set_failed(&self, error: EngineError) {
        self.replace(Current::Failed(error));
    }

    /// Takes the view away from new readers and waits until nobody reads from this one or any
    /// older one. Puts it back if that takes too long.
    pub(crate) fn withdraw(&self, wait: Duration) -> Result<(), EngineError> {
        let previous = self.replace(Current::Reopening);
        let ours = 1 + usize::from(matches!(previous, Current::Ready(_)));
        let give_up = Instant::now() + wait;
        loop {
            let readers = match &previous {
                Current::Ready(held) => Arc::strong_count(held) - 1,
                _ => 0,
            };
            if readers == 0 && Arc::strong_count(&self.in_use) == ours {
                return Ok(());
            }
            if Instant::now() >= give_up {
                self.replace(previous);
                return Err(EngineError::Unavailable("readers still hold the failed store".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn replace(&self, next: Current) -> Current {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *current, next);
        drop(current);
        self.changed.notify_waiters();
        previous
    }
}
