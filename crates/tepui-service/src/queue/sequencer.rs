//! Sequencers: the changes of one queue's messages are decided one at a time, and their commits are pipelined.
//!
//! Each change is one step. A step is decided on the state that the steps before it leave behind, its writes are
//! submitted as the next commit of a pipeline, and the next step begins before they are durable. Many callers so
//! share one sync of the disk, and no commit of a queue conflicts with another of the same process.
//!
//! Commits of other nodes do conflict if they take the same messages. Steps then gather while the next pipeline waits, and begin at
//! different messages.

use super::id::message_of;
use super::messages::{PendingView, Spread};
use crate::keyspace;
use crate::transact::{Contention, SpaceUse, proof, random_below};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::queue::{Reply, SequencedOperation};
use tepui_storage::{Commit, CommitError, CommitPipeline, Key, Write};
use tokio::time::Instant;

/// Limits on what is decided on one state: steps, age, and bytes changed, which are held in memory meanwhile.
const MAX_STEPS: u64 = 1024;
const MAX_AGE: Duration = Duration::from_millis(100);
const MAX_BYTES: usize = 4 << 20;

/// A queue by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct QueueId {
    pub(super) account: String,
    pub(super) queue: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Command<'a> {
    /// An operation that changes messages, or deletes the queue.
    Operation(&'a SequencedOperation),
    /// Remove a batch of expired messages.
    Expire,
}

impl Command<'_> {
    pub(super) fn space(self) -> SpaceUse {
        SpaceUse::frees_if(match self {
            Self::Operation(operation) => operation.frees_space(),
            Self::Expire => true,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CommandReply {
    Reply(Reply),
    /// Whether expired messages are left.
    Expired {
        more: bool,
    },
}

/// The sequencers in use, one for each queue.
pub(super) struct QueueSequencers<P> {
    by_queue: Mutex<HashMap<QueueId, Arc<QueueSequencer<P>>>>,
}

pub(super) struct QueueSequencer<P> {
    pub(super) id: QueueId,
    /// Locked while a step is decided. `None`: no commit is pending.
    pub(super) pending: tokio::sync::Mutex<Option<PendingCommits<P>>>,
    conflicts: Mutex<Conflicts>,
    pub(super) waiting: Arc<WaitingSteps>,
}

/// What the steps that wait for their turn will read, so that it is read together. For stores behind a network.
#[derive(Default)]
pub(super) struct WaitingSteps(Mutex<Needs>);

/// What steps will read.
#[derive(Default)]
struct Needs {
    /// Rows of messages.
    messages: Vec<Key>,
    /// How many messages are taken.
    claims: usize,
}

/// The most messages whose texts are read before their turn.
const MAX_CLAIMS_AHEAD: usize = 64;

impl WaitingSteps {
    /// A step waits for its turn until this is dropped.
    pub(super) fn announce(&self, command: Command<'_>) -> WaitingStep<'_> {
        let mut step = WaitingStep { waiting: self, message: None, claims: 0 };
        match command {
            Command::Operation(SequencedOperation::GetMessages { count, .. }) => step.claims = *count,
            Command::Operation(
                SequencedOperation::UpdateMessage { id: Some(id), receipt: Some(receipt), .. }
                | SequencedOperation::DeleteMessage { id: Some(id), receipt: Some(receipt), .. },
            ) => {
                let (messages, sequence) = message_of(*id);
                step.message = Some(keyspace::message(messages, (receipt.visible.ticks(), sequence)));
            }
            Command::Operation(_) | Command::Expire => {}
        }
        let mut needs = self.0.lock();
        needs.messages.extend(step.message.clone());
        needs.claims += step.claims;
        step
    }

    /// The rows of messages that steps need. Nobody else reads them then.
    pub(super) fn take_messages(&self) -> Vec<Key> {
        std::mem::take(&mut self.0.lock().messages)
    }

    /// How many messages steps will take.
    pub(super) fn claims(&self) -> usize {
        self.0.lock().claims.min(MAX_CLAIMS_AHEAD)
    }
}

/// A step that waits for its turn.
pub(super) struct WaitingStep<'a> {
    waiting: &'a WaitingSteps,
    message: Option<Key>,
    claims: usize,
}

impl Drop for WaitingStep<'_> {
    fn drop(&mut self) {
        let mut needs = self.waiting.0.lock();
        if let Some(key) = &self.message {
            needs.messages.retain(|message| message != key);
        }
        needs.claims -= self.claims;
    }
}

/// The conflicts of this queue's pipelines with what other nodes have committed.
#[derive(Default)]
struct Conflicts {
    contention: Contention,
    /// When the last pipeline began that failed.
    last: Option<Timestamp>,
    /// How long to wait before the next pipeline, so that the nodes do not meet again.
    wait: Duration,
    /// Until when it is likely that others take messages.
    contended_until: Option<Instant>,
}

/// How long after a conflict a node does not begin with the first message.
const CONTENDED: Duration = Duration::from_secs(1);
/// Into how many parts the visible messages are divided among nodes.
const PARTS: u32 = 4;

impl<P> QueueSequencer<P> {
    /// To be called when a commit of the pipeline that began at this time has met a conflict. All steps of a pipeline do so
    /// together. Returns whether to go on.
    pub(super) fn conflict(&self, pipeline: Timestamp) -> bool {
        let mut conflicts = self.conflicts.lock();
        if conflicts.last.replace(pipeline) == Some(pipeline) {
            return true;
        }
        conflicts.contended_until = Some(Instant::now() + CONTENDED);
        let wait = conflicts.contention.conflict();
        conflicts.wait = wait.unwrap_or_default();
        if wait.is_none() {
            conflicts.contention = Contention::default();
        }
        wait.is_some()
    }

    /// To be called when a commit has succeeded.
    pub(super) fn no_conflict(&self) {
        let mut conflicts = self.conflicts.lock();
        if conflicts.last.take().is_some() {
            conflicts.contention = Contention::default();
            conflicts.wait = Duration::ZERO;
        }
    }

    /// How long to wait before the next pipeline, and where it begins to take messages.
    pub(super) fn before_pipeline(&self) -> (Duration, Spread) {
        let mut conflicts = self.conflicts.lock();
        let is_contended = conflicts.contended_until.is_some_and(|until| Instant::now() < until);
        let spread = match is_contended {
            // Any part, the first one among them: no message is passed over for long.
            true => Spread { part: random_below(PARTS) as usize, parts: PARTS as usize },
            false => Spread::default(),
        };
        (std::mem::take(&mut conflicts.wait), spread)
    }
}

/// A reference to a sequencer, which is dropped with its last one.
pub(super) struct SequencerHandle<'a, P> {
    sequencers: &'a QueueSequencers<P>,
    sequencer: Arc<QueueSequencer<P>>,
}

impl<P> Default for QueueSequencers<P> {
    fn default() -> Self {
        Self { by_queue: Mutex::default() }
    }
}

impl<P> QueueSequencers<P> {
    pub(super) fn acquire(&self, id: QueueId) -> SequencerHandle<'_, P> {
        let mut by_queue = self.by_queue.lock();
        if let Some(sequencer) = by_queue.get(&id) {
            return SequencerHandle { sequencers: self, sequencer: Arc::clone(sequencer) };
        }
        let pending = tokio::sync::Mutex::new(None);
        let (conflicts, waiting) = (Mutex::default(), Arc::default());
        let sequencer = Arc::new(QueueSequencer { id: id.clone(), pending, conflicts, waiting });
        by_queue.insert(id, Arc::clone(&sequencer));
        SequencerHandle { sequencers: self, sequencer }
    }
}

impl<P> Deref for SequencerHandle<'_, P> {
    type Target = QueueSequencer<P>;

    fn deref(&self) -> &QueueSequencer<P> {
        &self.sequencer
    }
}

impl<P> Drop for SequencerHandle<'_, P> {
    fn drop(&mut self) {
        let mut by_queue = self.sequencers.by_queue.lock();
        // New references are made under this lock, so two means: the map's and this one.
        if Arc::strong_count(&self.sequencer) == 2 {
            by_queue.remove(&self.sequencer.id);
        }
    }
}

/// The steps that were decided on one state, and the pipeline of their commits.
pub(super) struct PendingCommits<P> {
    pub(super) view: PendingView<P>,
    pub(super) began: Timestamp,
    bytes: usize,
    submitted: u64,
    committed: Arc<AtomicU64>,
}

impl<P: CommitPipeline> PendingCommits<P> {
    pub(super) fn new(view: PendingView<P>, began: Timestamp) -> Self {
        Self { view, began, bytes: 0, submitted: 0, committed: Arc::default() }
    }

    /// Whether another step may be decided on this snapshot.
    pub(super) fn can_continue(&self, now: Timestamp) -> bool {
        let age = Duration::from_nanos(now.ticks().saturating_sub(self.began.ticks()).saturating_mul(100));
        // A view cannot go back if the clock was.
        now > self.view.now()
            && !self.view.is_deleted()
            && !self.view.base().is_ended()
            && age < MAX_AGE
            && self.submitted < MAX_STEPS
            && self.bytes < MAX_BYTES
    }

    /// Submits the writes of the last step. The future completes when they, and all that they depend on, are durable.
    pub(super) fn submit(
        &mut self,
        space: SpaceUse,
    ) -> (impl Future<Output = Result<(), CommitError>> + Send + 'static, Option<Write>) {
        let (guards, writes) = self.view.take_changes();
        let depends_on_nothing =
            writes.is_empty() && self.committed.load(Ordering::Acquire) == self.submitted;
        // Proves the commit if its outcome is unknown: each message has a key and a timestamp of its own.
        let proof = proof(&writes);
        self.submitted += u64::from(!writes.is_empty());
        let (submitted, committed) = (self.submitted, Arc::clone(&self.committed));
        let commit = Commit::new(guards, writes).with_frees_space(space == SpaceUse::Frees);
        self.bytes += commit.bytes();
        let outcome = (!depends_on_nothing).then(|| self.view.base().submit(commit));
        let future = async move {
            if let Some(outcome) = outcome {
                outcome.await?;
                // Commits of a pipeline become durable in their order.
                committed.fetch_max(submitted, Ordering::AcqRel);
            }
            Ok(())
        };
        (future, proof)
    }

    /// Waits until every submitted commit has succeeded or failed.
    pub(super) async fn drain(self) {
        if self.committed.load(Ordering::Acquire) < self.submitted {
            let _ = self.view.base().submit(Commit::default()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequencers_are_dropped_with_their_last_reference() {
        let sequencers = QueueSequencers::<()>::default();
        let id = QueueId { account: "account".to_owned(), queue: "jobs".to_owned() };
        let (first, second) = (sequencers.acquire(id.clone()), sequencers.acquire(id.clone()));
        let other = sequencers.acquire(QueueId { queue: "other".to_owned(), ..id.clone() });
        assert!(Arc::ptr_eq(&first.sequencer, &second.sequencer));
        assert!(!Arc::ptr_eq(&first.sequencer, &other.sequencer));
        drop(first);
        assert_eq!(sequencers.by_queue.lock().len(), 2);
        drop((second, other));
        assert!(sequencers.by_queue.lock().is_empty());
    }
}
