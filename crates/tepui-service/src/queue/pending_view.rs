//! What changes of messages mean. A view is one snapshot plus the changes of the steps decided on it, which may
//! not be durable yet; each step reads the changes of the steps before it.

use super::id::{id_of, message_of};
use super::read;
use super::sequencer::{Command, CommandReply, QueueId};
use crate::catalogue::{next_incarnation, next_version};
use crate::coop::{CoopBudget, ROW_COST};
use crate::keyspace::{self, Incarnation, QueuePosition};
use crate::record::{self, QueueState, StoredMessage};
use crate::transact::storage_error;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tepui_model::queue::{Claimed, MessageId, PopReceipt, Reply, SequencedOperation, Stamp};
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

pub(super) struct PendingView<S> {
    snapshot: S,
    queue: QueueTarget,
    now: Timestamp,
    state: QueueState,
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

impl<S: Snapshot> PendingView<S> {
    pub(super) async fn new(snapshot: S, queue: QueueTarget, now: Timestamp) -> Result<Self, ServiceError> {
        let state = read::state(&snapshot, queue.incarnation).await?;
        Ok(Self {
            snapshot,
            queue,
            now,
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
        self.changed_now.is_empty() && self.state == self.state_before
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
        let mut keys = std::mem::take(&mut self.changed_now);
        if keys.is_empty() && self.state == self.state_before {
            return (Vec::new(), Vec::new());
        }
        let mut writes = Vec::with_capacity(keys.len() + 1);
        let state_key = keyspace::queue_state(self.queue.incarnation);
        writes.push(if self.deleted {
            Write::Delete(state_key)
        } else {
            self.state.stamp = self.now.ticks();
            Write::Put(state_key, self.state.encode())
        });
        self.state_before = self.state.clone();
        keys.sort_unstable();
        keys.dedup();
        writes.extend(keys.into_iter().map(|key| match self.changed.get(&key) {
            Some(Some(value)) => Write::Put(key, value.clone()),
            _ => Write::Delete(key),
        }));
        // The catalogue row is a guard: a deleted queue cannot gain messages.
        (vec![Guard::Shared(self.queue.key.clone())], writes)
    }

    fn change(&mut self, key: Key, value: Option<Value>) {
        self.changed_now.push(key.clone());
        self.changed.insert(key, value);
    }

    fn put(&mut self, text: &Bytes, visibility: Duration, lifetime: Option<Duration>) -> Reply {
        let visible = self.now.saturating_add(visibility);
        let expires = lifetime.map_or(Timestamp::MAX, |lifetime| self.now.saturating_add(lifetime));
        let sequence = self.state.next_sequence;
        self.state.next_sequence += 1;
        self.state.count += 1;
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
        &self,
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
        let value = self.get(&keyspace::message(messages, position)).await?;
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
        let texts = self.get_many(&texts.collect::<Vec<Key>>()).await?;
        let mut claimed = Vec::with_capacity(taken.len());
        for ((sequence, mut message), text) in taken.into_iter().zip(texts) {
            message.dequeue_count = message.dequeue_count.saturating_add(1);
            message.changes = message.changes.wrapping_add(1);
            let text = read::decode_text(text)?;
            claimed.push(self.schedule(visible, sequence, &message, text));
        }
        Ok(claimed)
    }

    /// The first message that is visible and not expired. Removes expired ones before it.
    async fn next_visible(&mut self) -> Result<Option<(QueuePosition, StoredMessage)>, StepError> {
        loop {
            self.prefetch().await?;
            let stored = self.prefetched.front().and_then(|(key, _)| keyspace::position_of(key));
            let moved = self.first_moved();
            let position = match (stored, moved) {
                (Some(stored), Some(moved)) => stored.min(moved),
                (Some(position), None) | (None, Some(position)) => position,
                (None, None) => return Ok(None),
            };
            let value = if Some(position) == stored {
                self.prefetched.pop_front().map(|(_, value)| value)
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

    /// Makes the front of `prefetched` the next message of the snapshot, if any is left.
    async fn prefetch(&mut self) -> Result<(), StepError> {
        loop {
            while self.prefetched.front().is_some_and(|(key, _)| self.changed.contains_key(key)) {
                self.prefetched.pop_front();
            }
            if !self.prefetched.is_empty() {
                return Ok(());
            }
            let Some(start) = self.unread.take() else { return Ok(()) };
            let range = keyspace::messages_between(self.state.messages, (0, 0), self.now.ticks());
            let limit = ScanLimit { max_rows: PAGE_ROWS, max_bytes: 1024 * 1024 };
            let range = tepui_storage::KeyRange { start, end: range.end };
            let page = self.snapshot.scan(&range, limit).await.map_err(storage_error)?;
            self.prefetched = page.rows.into();
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
        }
        let next = page.next.as_deref().and_then(keyspace::position_of);
        let swept = next.map_or(self.now.ticks(), |(expires, _)| expires);
        let lags = swept.saturating_sub(self.state.swept) as u128 * 100 >= SWEEP_LAG.as_nanos();
        if !page.rows.is_empty() || lags {
            self.state.swept = self.state.swept.max(swept);
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
        let Incarnation(number) = self.state.messages;
        let gc_record = keyspace::dropped(self.state.messages);
        self.change(gc_record, Some(record::encode_number(number)));
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
            self.state.last_expiry = self.state.last_expiry.max(expires);
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
        self.state.count = self.state.count.saturating_sub(1);
    }

    fn write_text(&mut self, sequence: u64, text: &Bytes) {
        let key = keyspace::message_text(self.state.messages, sequence);
        self.change(key, Some(record::encode_text(text)));
    }

    async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.changed.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => self.snapshot.get(key).await.map_err(storage_error),
        }
    }

    /// The values of keys, in their order.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, ServiceError> {
        let stored: Vec<Key> = keys.iter().filter(|key| !self.changed.contains_key(*key)).cloned().collect();
        let mut stored = self.snapshot.get_many(&stored).await.map_err(storage_error)?.into_iter();
        let mut value = |key: &Key| match self.changed.get(key) {
            Some(changed) => changed.clone(),
            None => stored.next().flatten(),
        };
        Ok(keys.iter().map(&mut value).collect())
    }
}
