//! Lanes: changes of one queue's messages are decided one after the other, and stored without waiting for
//! each other.
//!
//! Whoever changes messages takes a turn: decides on what the turns before it have left, hands the
//! writes to the engine as the next commit of a chain, and lets the next one in before they are stored.
//! So many callers share one sync of the disk and never meet a conflict with each other.

use super::round::Round;
use crate::transact::Space;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::queue::{Operation, Reply};
use tepui_storage::{Commit, CommitError, CommitPipeline, Engine, Snapshot, Version, Write};

/// How many turns are decided on one snapshot, for how long, and about how many bytes they may change: what
/// they have changed is kept in memory until then.
const MAX_TURNS: u64 = 1024;
const MAX_AGE: Duration = Duration::from_millis(100);
const MAX_BYTES: usize = 4 << 20;

/// A queue, as its callers name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LaneId {
    pub(super) account: String,
    pub(super) queue: String,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    /// An operation that changes messages, or deletes the queue.
    Operation(&'a Operation),
    /// Remove some of the messages that have expired.
    Expire,
}

impl Ask<'_> {
    /// What it does to the space on the disk.
    pub(super) fn space(self) -> Space {
        Space::freed_if(match self {
            Self::Operation(operation) => operation.frees_space(),
            Self::Expire => true,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Reply(Reply),
    /// Whether there are more to remove.
    Expired {
        more: bool,
    },
}

/// The lanes that are in use.
pub(super) struct Lanes<S> {
    open: Mutex<HashMap<LaneId, Arc<Lane<S>>>>,
}

pub(super) struct Lane<S> {
    pub(super) id: LaneId,
    /// Locked for as long as a turn is decided. `None`: what was decided before has been stored, or given up.
    pub(super) turn: tokio::sync::Mutex<Option<Decisions<S>>>,
}

/// A lane that somebody uses. It ends with the last of them.
pub(super) struct InLane<'a, S> {
    lanes: &'a Lanes<S>,
    lane: Arc<Lane<S>>,
}

impl<S> Default for Lanes<S> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

impl<S> Lanes<S> {
    pub(super) fn enter(&self, id: LaneId) -> InLane<'_, S> {
        let mut open = self.open();
        if let Some(lane) = open.get(&id) {
            return InLane { lanes: self, lane: Arc::clone(lane) };
        }
        let lane = Arc::new(Lane { id: id.clone(), turn: tokio::sync::Mutex::new(None) });
        open.insert(id, Arc::clone(&lane));
        InLane { lanes: self, lane }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<LaneId, Arc<Lane<S>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Deref for InLane<'_, S> {
    type Target = Lane<S>;

    fn deref(&self) -> &Lane<S> {
        &self.lane
    }
}

impl<S> Drop for InLane<'_, S> {
    fn drop(&mut self) {
        let mut open = self.lanes.open();
        // Lanes are handed out under this lock: one is in the map, and one is ours.
        if Arc::strong_count(&self.lane) == 2 {
            open.remove(&self.lane.id);
        }
    }
}

/// What was decided on one snapshot, and how much of it is stored.
pub(super) struct Decisions<S> {
    pub(super) round: Round<S>,
    at: Version,
    chain: CommitPipeline,
    began: Timestamp,
    bytes: usize,
    sent: u64,
    stored: Arc<AtomicU64>,
}

impl<S: Snapshot> Decisions<S> {
    pub(super) fn new(round: Round<S>, at: Version, began: Timestamp) -> Self {
        Self { round, at, chain: CommitPipeline::new(), began, bytes: 0, sent: 0, stored: Arc::default() }
    }

    /// Whether another turn may be decided on them.
    pub(super) fn go_on(&self, now: Timestamp) -> bool {
        let age = Duration::from_nanos(now.ticks().saturating_sub(self.began.ticks()).saturating_mul(100));
        !self.round.is_over()
            && !self.chain.is_poisoned()
            && age < MAX_AGE
            && self.sent < MAX_TURNS
            && self.bytes < MAX_BYTES
    }

    /// Hands over what the last turn has changed. The future tells when it is stored, and with it all that
    /// it rests on.
    pub(super) fn send<E: Engine>(
        &mut self,
        engine: &E,
        space: Space,
    ) -> (impl Future<Output = Result<(), CommitError>> + Send + 'static, Option<Write>) {
        let (guards, writes) = self.round.take_changes();
        let rests_on_nothing = writes.is_empty() && self.stored.load(Ordering::Acquire) == self.sent;
        // What others would find if it were there; each message has its own key and its own moment.
        let proof = writes.iter().rev().find(|write| matches!(write, Write::Put(..))).cloned();
        self.bytes += writes.iter().map(size).sum::<usize>();
        self.sent += u64::from(!writes.is_empty());
        let (sent, stored) = (self.sent, Arc::clone(&self.stored));
        let commit = Commit { at: self.at, guards, writes, frees_space: space == Space::Frees };
        let outcome = (!rests_on_nothing).then(|| engine.submit(Some(&self.chain), commit));
        let future = async move {
            if let Some(outcome) = outcome {
                outcome.await?;
                // Commits of a chain are stored in their order.
                stored.fetch_max(sent, Ordering::AcqRel);
            }
            Ok(())
        };
        (future, proof)
    }

    /// Waits until nothing is on its way any more, stored or not.
    pub(super) async fn settle<E: Engine>(self, engine: &E) {
        if self.stored.load(Ordering::Acquire) < self.sent {
            let _ = engine.commit_next(&self.chain, self.at, Vec::new(), Vec::new()).await;
        }
    }
}

fn size(write: &Write) -> usize {
    match write {
        Write::Put(key, value) => key.len() + value.len(),
        Write::Delete(key) => key.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_end_with_their_last_user() {
        let lanes = Lanes::<()>::default();
        let id = LaneId { account: "account".to_owned(), queue: "jobs".to_owned() };
        let (first, second) = (lanes.enter(id.clone()), lanes.enter(id.clone()));
        let other = lanes.enter(LaneId { queue: "other".to_owned(), ..id.clone() });
        assert!(Arc::ptr_eq(&first.lane, &second.lane) && !Arc::ptr_eq(&first.lane, &other.lane));
        drop(first);
        assert_eq!(lanes.open().len(), 2);
        drop((second, other));
        assert!(lanes.open().is_empty());
    }
}
