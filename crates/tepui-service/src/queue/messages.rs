//! What changes of messages mean. A view is one snapshot plus the changes of the steps decided on it, which may
//! not be durable yet; each step reads the changes of the steps before it.

use super::id::{id_of, message_of};
use super::read;
use super::sequencer::{Command, CommandReply, QueueId, WaitingSteps};
use crate::MAX_CLOCK_SKEW;
use crate::catalogue::{next_incarnation, next_version};
use crate::coop::{CoopBudget, ROW_COST};
use crate::keyspace::{self, Incarnation, QueuePosition};
use crate::record::{self, QueueState, StoredMessage};
use crate::transact::storage_error;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::queue::{Claimed, MessageId, PopReceipt, Reply, SequencedOperation, Stamp};
use tepui_model::time::NodeNumber;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Guard, Key, ScanLimit, Snapshot, Value, Write};

/// Rows per scan when visible messages are looked for.
const PAGE_ROWS: usize = 64;
/// Expired messages that one step removes; it skips the others.
const MAX_EXPIRED: usize = 512;
/// Expired messages that one step of the sweep removes.
const SWEEP_STEP: usize = 128;
/// How far the low-water marks may lag before a commit is made only to move them.
const HEAD_LAG: Duration = Duration::from_secs(2);
/// How far the low-water marks stay behind the last write of the queue's state where several nodes share it: see [`SharedState`].
const SHARED_MARGIN: Duration = MAX_CLOCK_SKEW.saturating_mul(2);
/// The last time of expiry is rounded up to this where several nodes share the queue, so that it seldom changes.
const SHARED_EXPIRY_STEP: Duration = Duration::from_secs(3600);
/// Marks the sequences of messages that are numbered by a node on its own. The node follows, in six bits.
const NODE_SEQUENCES: u64 = 1 << 63;
const NODE_SHIFT: u32 = 56;
pub(super) const SWEEP_LAG: Duration = Duration::from_secs(600);

/// Why a step was not decided.
pub(super) enum StepError {
    /// An error for the caller; the view stays valid.
    Rejected(ServiceError),
    /// The view is discarded.
    Failed(ServiceError),
}

impl From<ErrorCode> for StepError {
    fn from(code: ErrorCode) -> Self {
        Self::Rejected(code.into())
    }
}

impl From<ServiceError> for StepError {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

/// The queue that a view is of.
pub(super) struct QueueTarget {
    pub(super) id: QueueId,
    /// The key of its catalogue row.
    pub(super) key: Key,
    pub(super) incarnation: Incarnation,
    /// How long the name stays reserved once the queue is deleted.
    pub(super) name_reserved_for: Duration,
    /// How much longer a message stays hidden than was asked for.
    pub(super) clock_skew: Duration,
}

/// Where nodes share a queue, each of them changes a row of its own with every message, and has the queue's state as a guard
/// that all share. So their changes do not conflict unless they are of the same message.
///
/// The state has the low-water marks. Whoever writes it conflicts with all changes that were decided before and are not
/// committed yet. But a message may be committed before that and after the snapshot, which does not show it. It must not be
/// before a mark. It is not, if the marks stay behind the last write of the state that the snapshot shows: what was committed before
/// that write is in the snapshot, and what was committed after it was decided after it, by a clock that differs by
/// [`MAX_CLOCK_SKEW`] at most.
struct SharedState {
    node: NodeNumber,
    /// The queue's state as it is stored, or as this view has written it. The stamp is of the last write in the snapshot.
    stored: QueueState,
    /// Whether it has to be written though it is the same: it is not there yet, or is written by this view.
    is_written: bool,
    /// Whether this step writes it only for its stamp.
    is_touched: bool,
}

impl SharedState {
    /// The highest low-water mark that is safe.
    fn safe_mark(&self) -> u64 {
        self.stored.stamp.saturating_sub(ticks(SHARED_MARGIN))
    }
}

fn ticks(time: Duration) -> u64 {
    (time.as_nanos() / 100) as u64
}

/// What is read of a queue before its first message.
pub(super) struct StoredStates {
    pub(super) state: Option<Value>,
    /// What this node has added, if several share the store.
    pub(super) node: Option<(NodeNumber, Option<Value>)>,
    /// Rows that steps have announced to need.
    pub(super) ahead: HashMap<Key, Option<Value>>,
}

impl StoredStates {
    pub(super) async fn read<S: Snapshot>(
        snapshot: &S,
        queue: Incarnation,
        node: Option<NodeNumber>,
        ahead: &[Key],
    ) -> Result<Self, ServiceError> {
        let state = keyspace::queue_state(queue);
        let Some(node) = node else {
            let state = snapshot.get(&state).await.map_err(storage_error)?;
            return Ok(Self { state, node: None, ahead: HashMap::new() });
        };
        let mut keys = vec![state, keyspace::queue_node_state(queue, node)];
        keys.extend_from_slice(ahead);
        let mut values = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
        let mut value = || values.next().flatten();
        let (state, node) = (value(), Some((node, value())));
        Ok(Self { state, node, ahead: ahead.iter().cloned().zip(values).collect() })
    }
}

pub(super) struct PendingView<S> {
    snapshot: S,
    queue: QueueTarget,
    now: Timestamp,
    /// The queue's state. Where nodes share it, counts and sequences are those of this node.
    state: QueueState,
    shared: Option<SharedState>,
    /// The state before this step.
    state_before: QueueState,
    /// Values that differ from the snapshot, `None` for a deletion. Without the state.
    changed: HashMap<Key, Option<Value>>,
    /// The keys that this step has changed.
    changed_now: Vec<Key>,
    /// The positions of messages that were inserted or moved in this view.
    moved: BTreeSet<QueuePosition>,
    /// Messages of the snapshot that were read and not dequeued yet.
    prefetched: VecDeque<(Key, Value)>,
    /// Which of them is dequeued next. Not the first one if other nodes take messages, too.
    next_prefetched: usize,
    /// In which part of the messages that were read this view begins.
    spread: Spread,
    /// Rows of the snapshot that were read before they are needed.
    ahead: HashMap<Key, Option<Value>>,
    /// The steps that wait for their turn, if what they need is read ahead.
    waiting: Option<Arc<WaitingSteps>>,
    /// Where the next scan starts; `None`: every visible message was read.
    unread: Option<Key>,
    /// Messages that are visible at this time were read.
    read_until: Timestamp,
    /// The first expired message that was skipped.
    first_skipped: Option<QueuePosition>,
    coop: CoopBudget,
    /// Expired messages that this step has removed.
    expired: usize,
    deleted: bool,
}

/// In which part of the visible messages a view begins to take them, as a fraction. Nodes that take messages of one queue at
/// the same time begin at different ones, so that not all but one of them fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) part: usize,
    pub(super) parts: usize,
}

impl<S: Snapshot> PendingView<S> {
    pub(super) fn new(
        snapshot: S,
        queue: QueueTarget,
        stored: StoredStates,
        (spread, waiting): (Spread, Option<Arc<WaitingSteps>>),
        now: Timestamp,
    ) -> Result<Self, ServiceError> {
        let is_stored = stored.state.is_some();
        let mut state = read::decode_state(queue.incarnation, stored.state)?;
        let shared = match stored.node {
            None => None,
            Some((node, row)) => {
                let of_queue = state.clone();
                let own = row.map(|row| QueueState::decode(&row)).transpose()?;
                // What it has added to messages that were cleared since does not count.
                let own = own.filter(|own| own.messages == state.messages);
                let own = own.unwrap_or_else(|| QueueState::empty(state.messages));
                state.count = own.count;
                state.next_sequence = own.next_sequence;
                state.last_visible = own.last_visible.max(state.last_visible);
                Some(SharedState { node, stored: of_queue, is_written: !is_stored, is_touched: false })
            }
        };
        Ok(Self {
            snapshot,
            queue,
            now,
            shared,
            next_prefetched: 0,
            spread,
            ahead: stored.ahead,
            waiting,
            state_before: state.clone(),
            changed: HashMap::new(),
            changed_now: Vec::new(),
            moved: BTreeSet::new(),
            prefetched: VecDeque::new(),
            unread: Some(keyspace::message(state.messages, state.head)),
            read_until: now,
            first_skipped: None,
            coop: CoopBudget::default(),
            expired: 0,
            deleted: false,
            state,
        })
    }

    /// The state that it is based on.
    pub(super) fn base(&self) -> &S {
        &self.snapshot
    }

    /// Whether the queue was deleted, so that no further step can be decided.
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether the last step has changed nothing, so that no commit checks that the snapshot was recent enough.
    pub(super) fn is_unchanged(&self) -> bool {
        let is_touched = self.shared.as_ref().is_some_and(|shared| shared.is_touched);
        self.changed_now.is_empty() && self.state == self.state_before && !is_touched
    }

    /// How many expired messages the last step has removed.
    pub(super) fn expired(&self) -> usize {
        self.expired
    }

    /// When a message that is hidden for so long is visible again, on every node.
    fn hidden_until(&self, visibility: Duration) -> Timestamp {
        let skew = if visibility.is_zero() { Duration::ZERO } else { self.queue.clock_skew };
        self.now.saturating_add(visibility).saturating_add(skew)
    }

    /// The time of the last step.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Decides the next step, right after the step before if `now` is not later.
    pub(super) async fn decide(
        &mut self,
        command: Command<'_>,
        now: Timestamp,
    ) -> Result<CommandReply, StepError> {
        self.now = now.later_than(self.now);
        self.expired = 0;
        let operation = match command {
            Command::Operation(operation) => operation,
            Command::Expire => return self.expire().await,
        };
        let reply = match operation {
            SequencedOperation::PutMessage { text, visibility, lifetime, .. } => {
                self.put(text, *visibility, *lifetime)
            }
            SequencedOperation::GetMessages { count, visibility, .. } => {
                Reply::Messages(self.dequeue(*count, *visibility).await?)
            }
            SequencedOperation::UpdateMessage { id, receipt, visibility, text, .. } => {
                self.update(*id, *receipt, *visibility, text.as_ref()).await?
            }
            SequencedOperation::DeleteMessage { id, receipt, .. } => {
                let (position, message) = self.claimed_message(*id, *receipt).await?;
                self.remove(position, &message);
                Reply::MessageDeleted
            }
            SequencedOperation::ClearMessages { .. } => {
                self.clear().await?;
                Reply::Cleared
            }
            SequencedOperation::DeleteQueue { .. } => {
                self.delete_queue().await?;
                Reply::QueueDeleted
            }
        };
        Ok(CommandReply::Reply(reply))
    }

    /// Guards and writes of the commit that makes the reply of the last step true.
    pub(super) fn take_changes(&mut self) -> (Vec<Guard>, Vec<Write>) {
        if self.is_unchanged() {
            return (Vec::new(), Vec::new());
        }
        let mut keys = std::mem::take(&mut self.changed_now);
        let mut writes = Vec::with_capacity(keys.len() + 2);
        // The catalogue row is a guard: a deleted queue cannot gain messages.
        let mut guards = vec![Guard::Shared(self.queue.key.clone())];
        self.write_state(&mut guards, &mut writes);
        self.state_before = self.state.clone();
        keys.sort_unstable();
        keys.dedup();
        writes.extend(keys.into_iter().map(|key| match self.changed.get(&key) {
            Some(Some(value)) => Write::Put(key, value.clone()),
            _ => Write::Delete(key),
        }));
        (guards, writes)
    }

    /// Writes the state of the queue, or what this node adds to it.
    fn write_state(&mut self, guards: &mut Vec<Guard>, writes: &mut Vec<Write>) {
        self.state.stamp = self.now.ticks();
        let put = |key, state: &QueueState| Write::Put(key, state.encode());
        let key = keyspace::queue_state(self.queue.incarnation);
        let Some(shared) = &mut self.shared else {
            writes.push(if self.deleted { Write::Delete(key) } else { put(key, &self.state) });
            return;
        };
        let own_key = keyspace::queue_node_state(self.queue.incarnation, shared.node);
        if self.deleted {
            writes.extend([Write::Delete(key), Write::Delete(own_key)]);
            return;
        }
        // Marks of the queue are in its own state.
        let (head, swept, last_expiry) = ((0, 0), 0, 0);
        writes.push(put(own_key, &QueueState { head, swept, last_expiry, ..self.state.clone() }));
        let QueueState { messages, head, swept, last_expiry, stamp, .. } = self.state;
        let before = match shared.stored.messages == messages {
            true => shared.stored.clone(),
            false => QueueState::empty(messages),
        };
        let of_queue = QueueState { head, swept, last_expiry, ..before };
        shared.is_written |= std::mem::take(&mut shared.is_touched);
        if shared.is_written || of_queue != shared.stored {
            shared.is_written = true;
            shared.stored = of_queue;
            writes.push(put(key, &QueueState { stamp, ..shared.stored.clone() }));
        } else {
            // Others that add to the queue have the same guard.
            guards.push(Guard::Shared(key));
        }
    }

    fn change(&mut self, key: Key, value: Option<Value>) {
        self.changed_now.push(key.clone());
        self.changed.insert(key, value);
    }

    fn put(&mut self, text: &Bytes, visibility: Duration, lifetime: Option<Duration>) -> Reply {
        let visible = self.now.saturating_add(visibility);
        let expires = lifetime.map_or(Timestamp::MAX, |lifetime| self.now.saturating_add(lifetime));
        let number = self.state.next_sequence;
        let sequence = match &self.shared {
            Some(shared) => NODE_SEQUENCES | shared.node.get() << NODE_SHIFT | number,
            None => number,
        };
        self.state.next_sequence += 1;
        self.state.count = self.state.count.wrapping_add(1);
        let message = StoredMessage { inserted: self.now, expires, dequeue_count: 0, changes: 0 };
        self.write_text(sequence, text);
        Reply::Put(self.schedule(visible, sequence, &message, Bytes::new()))
    }

    async fn update(
        &mut self,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
        visibility: Duration,
        text: Option<&Bytes>,
    ) -> Result<Reply, StepError> {
        let (position, mut message) = self.claimed_message(id, receipt).await?;
        let visible = self.hidden_until(visibility);
        if self.now.saturating_add(visibility) > message.expires {
            return Err(StepError::Rejected(
                ServiceError::new(ErrorCode::InvalidQueryParameterValue)
                    .with_detail("QueryParameterName", "visibilitytimeout")
                    .with_detail("QueryParameterValue", visibility.as_secs().to_string())
                    .with_detail("Reason", "messagettl must be greater than visibilitytimeout"),
            ));
        }
        message.changes = message.changes.wrapping_add(1);
        if let Some(text) = text {
            self.write_text(position.1, text);
        }
        self.unschedule(position);
        Ok(Reply::Updated(self.schedule(visible, position.1, &message, Bytes::new()).receipt))
    }

    /// The message that a pop receipt is valid for.
    async fn claimed_message(
        &mut self,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
    ) -> Result<(QueuePosition, StoredMessage), StepError> {
        let (messages, sequence) = message_of(id.ok_or(ErrorCode::MessageNotFound)?);
        if messages != self.state.messages {
            return Err(ErrorCode::MessageNotFound.into());
        }
        let Some(receipt) = receipt else {
            // Fidelity: the format of the receipt is checked only if the message exists.
            let text = self.get(&keyspace::message_text(messages, sequence)).await?;
            text.ok_or(ErrorCode::MessageNotFound)?;
            return Err(StepError::Rejected(
                ServiceError::new(ErrorCode::InvalidQueryParameterValue)
                    .with_detail("QueryParameterName", "popreceipt")
                    .with_detail("Reason", "Invalid pop receipt format"),
            ));
        };
        let position = (receipt.visible.ticks(), sequence);
        let key = keyspace::message(messages, position);
        self.read_messages_ahead(&key).await?;
        let value = self.get(&key).await?;
        let message = StoredMessage::decode(&value.ok_or(ErrorCode::MessageNotFound)?)?;
        let is_current = receipt.sequence == sequence && receipt.changes == message.changes;
        if !is_current || message.expires <= self.now {
            return Err(ErrorCode::MessageNotFound.into());
        }
        Ok((position, message))
    }

    async fn dequeue(&mut self, count: usize, visibility: Duration) -> Result<Vec<Claimed>, StepError> {
        let visible = self.hidden_until(visibility);
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some((position, message)) = self.next_visible().await?
        {
            self.unschedule(position);
            taken.push((position.1, message));
        }
        self.move_head(taken.is_empty());
        let texts = taken.iter().map(|(sequence, _)| keyspace::message_text(self.state.messages, *sequence));
        let texts: Vec<Key> = texts.collect();
        self.read_texts_ahead(&texts).await?;
        let texts = self.get_many(&texts).await?;
        let mut claimed = Vec::with_capacity(taken.len());
        for ((sequence, mut message), text) in taken.into_iter().zip(texts) {
            message.dequeue_count = message.dequeue_count.saturating_add(1);
            message.changes = message.changes.wrapping_add(1);
            let text = read::decode_text(text)?;
            claimed.push(self.schedule(visible, sequence, &message, text));
        }
        Ok(claimed)
    }

    /// Reads the row of a message, and with it those that the next steps need.
    async fn read_messages_ahead(&mut self, key: &Key) -> Result<(), StepError> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        if self.changed.contains_key(key) || self.ahead.contains_key(key) {
            return Ok(());
        }
        let mut keys = waiting.take_messages();
        keys.push(key.clone());
        let values = self.snapshot.get_many(&keys).await.map_err(storage_error)?;
        self.ahead.extend(keys.into_iter().zip(values));
        Ok(())
    }

    /// Reads these texts, and with them those of the messages that the next steps will take.
    async fn read_texts_ahead(&mut self, texts: &[Key]) -> Result<(), StepError> {
        let is_known = |key: &Key| self.changed.contains_key(key) || self.ahead.contains_key(key);
        let claims_ahead = self.waiting.as_ref().map_or(0, |waiting| waiting.claims());
        if claims_ahead == 0 || texts.iter().all(is_known) {
            return Ok(());
        }
        let next = self.prefetched.iter().skip(self.next_prefetched).take(claims_ahead);
        let next = next.filter_map(|(key, _)| keyspace::position_of(key));
        let next = next.map(|(_, sequence)| keyspace::message_text(self.state.messages, sequence));
        let keys: Vec<Key> = texts.iter().cloned().chain(next).filter(|key| !is_known(key)).collect();
        let values = self.snapshot.get_many(&keys).await.map_err(storage_error)?;
        self.ahead.extend(keys.into_iter().zip(values));
        Ok(())
    }

    /// The first message that is visible and not expired. Removes expired ones before it.
    async fn next_visible(&mut self) -> Result<Option<(QueuePosition, StoredMessage)>, StepError> {
        loop {
            self.prefetch().await?;
            let next = self.prefetched.get(self.next_prefetched);
            let stored = next.and_then(|(key, _)| keyspace::position_of(key));
            let moved = self.first_moved();
            let position = match (stored, moved) {
                (Some(stored), Some(moved)) => stored.min(moved),
                (Some(position), None) | (None, Some(position)) => position,
                (None, None) => return Ok(None),
            };
            let value = if Some(position) == stored {
                self.prefetched.remove(self.next_prefetched).map(|(_, value)| value)
            } else {
                self.get(&keyspace::message(self.state.messages, position)).await?
            };
            let message = StoredMessage::decode(&value.ok_or(ErrorCode::InternalError)?)?;
            if message.expires > self.now {
                return Ok(Some((position, message)));
            }
            if self.expired < MAX_EXPIRED {
                self.expired += 1;
                self.remove(position, &message);
            } else {
                // There may be very many, so yield.
                self.coop.spend(ROW_COST).await;
                self.moved.remove(&position);
                self.first_skipped = self.first_skipped.min(Some(position)).or(Some(position));
            }
        }
    }

    /// The first message inserted or moved in this view that is visible.
    fn first_moved(&self) -> Option<QueuePosition> {
        self.moved.first().copied().filter(|(visible, _)| *visible <= self.now.ticks())
    }

    /// Makes `next_prefetched` the next message of the snapshot, if any is left.
    async fn prefetch(&mut self) -> Result<(), StepError> {
        loop {
            let is_changed = |(key, _): &(Key, Value)| self.changed.contains_key(key);
            while self.prefetched.get(self.next_prefetched).is_some_and(is_changed) {
                self.prefetched.remove(self.next_prefetched);
            }
            if self.next_prefetched < self.prefetched.len() {
                return Ok(());
            }
            if !self.prefetched.is_empty() {
                self.next_prefetched = 0;
                continue;
            }
            let Some(start) = self.unread.take() else { return Ok(()) };
            let range = keyspace::messages_between(self.state.messages, (0, 0), self.now.ticks());
            let limit = ScanLimit { max_rows: PAGE_ROWS, max_bytes: 1024 * 1024 };
            let range = tepui_storage::KeyRange { start, end: range.end };
            let page = self.snapshot.scan(&range, limit).await.map_err(storage_error)?;
            self.prefetched = page.rows.into();
            let Spread { part, parts } = self.spread;
            self.next_prefetched = self.prefetched.len() * part / parts.max(1);
            self.unread = page.next;
            self.read_until = self.now;
        }
    }

    /// Moves the low-water mark to the first message left, but not past what was read. With `found_nothing` and no other
    /// write, only if many tombstones may lie between the mark and now, since it takes a commit.
    fn move_head(&mut self, found_nothing: bool) {
        let left = self.prefetched.iter().find(|(key, _)| !self.changed.contains_key(key));
        let left = left.map(|(key, _)| key).or(self.unread.as_ref());
        let left = left.and_then(|key| keyspace::position_of(key));
        let read = (self.read_until.ticks(), 0);
        let head = [left, self.moved.first().copied(), self.first_skipped, Some(read)];
        let Some(head) = head.into_iter().flatten().min() else { return };
        if let Some(shared) = &mut self.shared {
            let lag = head.0.saturating_sub(self.state.head.0);
            let age = self.now.ticks().saturating_sub(shared.stored.stamp);
            if lag.min(age) >= ticks(HEAD_LAG) && self.state.head.0 <= self.state.last_visible {
                let safe = (shared.safe_mark(), 0);
                self.state.head = self.state.head.max(head.min(safe));
                shared.is_touched = true;
            }
            return;
        }
        let lag = Duration::from_nanos(head.0.saturating_sub(self.state.head.0).saturating_mul(100));
        let worth_it = self.state.head.0 <= self.state.last_visible && lag >= HEAD_LAG;
        let commits_anyway = !found_nothing || !self.changed_now.is_empty();
        if head > self.state.head && (commits_anyway || worth_it) {
            self.state.head = head;
        }
    }

    /// Removes a batch of expired messages.
    async fn expire(&mut self) -> Result<CommandReply, StepError> {
        let messages = self.state.messages;
        let range = keyspace::expiring_between(messages, self.state.swept, self.now.ticks());
        let limit = ScanLimit { max_rows: SWEEP_STEP, max_bytes: 1024 * 1024 };
        let page = self.snapshot.scan_some(&range, limit).await.map_err(storage_error)?;
        let mut positions = Vec::with_capacity(page.rows.len());
        for (key, value) in &page.rows {
            // The snapshot does not show that it was removed or moved in this view.
            let value = self.changed.get(key).map_or(Some(value), Option::as_ref);
            if let (Some(value), Some((_, sequence))) = (value, keyspace::position_of(key)) {
                positions.push((record::decode_number(value)?, sequence));
            }
        }
        let keys = positions.iter().map(|position| keyspace::message(messages, *position));
        let values = self.get_many(&keys.collect::<Vec<Key>>()).await?;
        for (position, value) in positions.into_iter().zip(values) {
            let missing = || ServiceError::new(ErrorCode::InternalError).with_cause("a message is missing");
            let message = StoredMessage::decode(&value.ok_or_else(missing)?)?;
            self.remove(position, &message);
            self.expired += 1;
        }
        let next = page.next.as_deref().and_then(keyspace::position_of);
        let swept = next.map_or(self.now.ticks(), |(expires, _)| expires);
        let lags = swept.saturating_sub(self.state.swept) as u128 * 100 >= SWEEP_LAG.as_nanos();
        let swept = self.shared.as_ref().map_or(swept, |shared| swept.min(shared.safe_mark()));
        if !page.rows.is_empty() || lags {
            self.state.swept = self.state.swept.max(swept);
            if let Some(shared) = &mut self.shared {
                shared.is_touched = true;
            }
        }
        Ok(CommandReply::Expired { more: next.is_some() })
    }

    /// Drops all messages in one small commit, by giving the queue a new incarnation of messages.
    async fn clear(&mut self) -> Result<(), StepError> {
        let numbered = match self.changed.get(&keyspace::incarnation_counter()) {
            Some(Some(last)) => {
                let next = record::decode_number(last)? + 1;
                (Incarnation(next), Write::Put(keyspace::incarnation_counter(), record::encode_number(next)))
            }
            _ => next_incarnation(&self.snapshot).await?,
        };
        self.drop_messages();
        let (messages, write) = numbered;
        if let Write::Put(counter, value) = write {
            self.change(counter, Some(value));
        }
        self.state = QueueState::empty(messages);
        Ok(())
    }

    async fn delete_queue(&mut self) -> Result<(), StepError> {
        let bucket = keyspace::catalogue_bucket(&self.queue.key);
        if let Write::Put(version, value) = next_version(&self.snapshot, bucket).await? {
            self.change(version, Some(value));
        }
        self.drop_messages();
        // For what nodes have added to its state. To delete that here would conflict with whatever they do meanwhile.
        let gc_record = keyspace::dropped(self.queue.incarnation);
        self.change(gc_record, Some(record::encode_number(self.now.ticks())));
        self.change(self.queue.key.clone(), None);
        if !self.queue.name_reserved_for.is_zero() {
            let until = self.now.saturating_add(self.queue.name_reserved_for);
            let reserved = keyspace::reserved_queue_name(&self.queue.id.account, &self.queue.id.queue);
            self.change(reserved, Some(record::encode_number(until.ticks())));
        }
        self.deleted = true;
        Ok(())
    }

    /// Writes a GC record for all messages, and drops their changes from this view.
    fn drop_messages(&mut self) {
        self.changed.retain(|key, _| !keyspace::is_of_message(key));
        self.changed_now.retain(|key| !keyspace::is_of_message(key));
        self.moved.clear();
        self.prefetched.clear();
        self.unread = None;
        self.first_skipped = None;
        let gc_record = keyspace::dropped(self.state.messages);
        self.change(gc_record, Some(record::encode_number(self.now.ticks())));
    }

    /// Inserts a message into the order of visibility. It must not have a position yet.
    fn schedule(
        &mut self,
        visible: Timestamp,
        sequence: u64,
        message: &StoredMessage,
        text: Bytes,
    ) -> Claimed {
        let messages = self.state.messages;
        let position = (visible.ticks(), sequence);
        self.change(keyspace::message(messages, position), Some(message.encode()));
        self.moved.insert(position);
        // They stay low-water marks even if the clock was set back.
        self.state.head = self.state.head.min(position);
        self.state.last_visible = self.state.last_visible.max(position.0);
        if message.expires < Timestamp::MAX {
            let expires = message.expires.ticks();
            let key = keyspace::message_expiry(messages, (expires, sequence));
            self.change(key, Some(record::encode_number(position.0)));
            self.state.swept = self.state.swept.min(expires);
            if expires > self.state.last_expiry {
                let step = match self.shared {
                    Some(_) => SHARED_EXPIRY_STEP,
                    None => Duration::ZERO,
                };
                self.state.last_expiry = message.expires.saturating_add(step).ticks();
            }
        }
        let StoredMessage { inserted, expires, dequeue_count, changes } = *message;
        Claimed {
            stamp: Stamp { id: id_of(messages, sequence), inserted, expires },
            receipt: PopReceipt { visible, sequence, changes },
            dequeue_count,
            text,
        }
    }

    /// Removes a message from the order of visibility.
    fn unschedule(&mut self, position: QueuePosition) {
        self.change(keyspace::message(self.state.messages, position), None);
        self.moved.remove(&position);
    }

    fn remove(&mut self, position: QueuePosition, message: &StoredMessage) {
        let messages = self.state.messages;
        self.unschedule(position);
        self.change(keyspace::message_text(messages, position.1), None);
        if message.expires < Timestamp::MAX {
            let key = keyspace::message_expiry(messages, (message.expires.ticks(), position.1));
            self.change(key, None);
        }
        self.state.count = self.state.count.wrapping_sub(1);
    }

    fn write_text(&mut self, sequence: u64, text: &Bytes) {
        let key = keyspace::message_text(self.state.messages, sequence);
        self.change(key, Some(record::encode_text(text)));
    }

    async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.changed.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => match self.ahead.get(key) {
                Some(value) => Ok(value.clone()),
                None => self.snapshot.get(key).await.map_err(storage_error),
            },
        }
    }

    /// The values of keys, in their order.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, ServiceError> {
        let known = |key: &Key| self.changed.get(key).or_else(|| self.ahead.get(key));
        let stored: Vec<Key> = keys.iter().filter(|key| known(key).is_none()).cloned().collect();
        let mut stored = match stored.is_empty() {
            true => Vec::new(),
            false => self.snapshot.get_many(&stored).await.map_err(storage_error)?,
        }
        .into_iter();
        let mut value = |key: &Key| match known(key) {
            Some(value) => value.clone(),
            None => stored.next().flatten(),
        };
        Ok(keys.iter().map(&mut value).collect())
    }
}
