//! What changes of messages mean. A round decides many of them, turn by turn, on one snapshot; each sees
//! what those before it have changed.

use super::id::{id_of, message_of};
use super::lane::{Answer, Ask, LaneId};
use super::look;
use crate::catalogue::next_incarnation;
use crate::keyspace::{self, Incarnation, Place};
use crate::pace::{Pace, ROW_WORK};
use crate::record::{self, QueueState, StoredMessage};
use crate::transact::engine_error;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tepui_model::queue::{Claimed, MessageId, Operation, PopReceipt, Reply, Stamp};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, ScanLimit, Snapshot, Value, Write};

/// How many rows are read at once on the way to visible messages.
const PAGE_ROWS: usize = 64;
/// How many expired messages a turn removes; takers pass over the others.
const MAX_EXPIRED: usize = 512;
/// How many expired messages one step of the sweep removes.
const SWEEP_STEP: usize = 128;
/// How far the low-water marks may lag before they are moved for their own sake.
const HEAD_LAG: Duration = Duration::from_secs(2);
pub(super) const SWEEP_LAG: Duration = Duration::from_secs(600);

/// Why a change was not decided.
pub(super) enum Stop {
    /// The caller is told so, and the round goes on.
    Refused(ServiceError),
    /// The whole round fails.
    Broken(ServiceError),
}

impl From<ErrorCode> for Stop {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

impl From<ServiceError> for Stop {
    fn from(error: ServiceError) -> Self {
        Self::Broken(error)
    }
}

/// A queue as a round finds it.
pub(super) struct Queue {
    pub(super) lane: LaneId,
    /// The catalogue's row.
    pub(super) key: Key,
    pub(super) incarnation: Incarnation,
    /// How long the name rests once the queue is deleted.
    pub(super) name_rests: Duration,
}

pub(super) struct Round<S> {
    snapshot: S,
    queue: Queue,
    now: Timestamp,
    state: QueueState,
    /// As the turns before this one have left it.
    state_before: QueueState,
    /// What is not as in the snapshot, `None` for a deletion. The state is not here.
    changed: HashMap<Key, Option<Value>>,
    /// The keys that this turn has changed.
    changed_now: Vec<Key>,
    /// The places that messages were moved to in this round.
    moved_to: BTreeSet<Place>,
    /// Messages of the snapshot that were read ahead and not taken yet.
    ahead: VecDeque<(Key, Value)>,
    /// Where to read on; `None`: everything that is visible was read.
    unread: Option<Key>,
    /// The moment up to which visible messages were read.
    read_until: Timestamp,
    /// The first expired message that was passed over.
    passed_over: Option<Place>,
    pace: Pace,
    /// How many expired messages this turn has removed.
    expired: usize,
    deleted: bool,
}

impl<S: Snapshot> Round<S> {
    pub(super) async fn new(snapshot: S, queue: Queue, now: Timestamp) -> Result<Self, ServiceError> {
        let state = look::state(&snapshot, queue.incarnation).await?;
        Ok(Self {
            snapshot,
            queue,
            now,
            state_before: state.clone(),
            changed: HashMap::new(),
            changed_now: Vec::new(),
            moved_to: BTreeSet::new(),
            ahead: VecDeque::new(),
            unread: Some(keyspace::message(state.messages, state.head)),
            read_until: now,
            passed_over: None,
            pace: Pace::default(),
            expired: 0,
            deleted: false,
            state,
        })
    }

    /// Whether nothing is left to decide: the queue is gone.
    pub(super) fn is_over(&self) -> bool {
        self.deleted
    }

    /// Decides the next turn. `now` must be later than in every turn before.
    pub(super) async fn decide(&mut self, ask: Ask<'_>, now: Timestamp) -> Result<Answer, Stop> {
        self.now = now;
        self.expired = 0;
        let operation = match ask {
            Ask::Operation(operation) => operation,
            Ask::Expire => return self.expire().await,
        };
        let reply = match operation {
            Operation::PutMessage { text, visibility, lifetime, .. } => {
                self.put(text, *visibility, *lifetime)
            }
            Operation::GetMessages { count, visibility, .. } => {
                Reply::Messages(self.take(*count, *visibility).await?)
            }
            Operation::UpdateMessage { id, receipt, visibility, text, .. } => {
                self.update(*id, *receipt, *visibility, text.as_ref()).await?
            }
            Operation::DeleteMessage { id, receipt, .. } => {
                let (place, message) = self.held(*id, *receipt).await?;
                self.remove(place, &message);
                Reply::MessageDeleted
            }
            Operation::ClearMessages { .. } => {
                self.clear().await?;
                Reply::Cleared
            }
            Operation::DeleteQueue { .. } => {
                self.delete_queue();
                Reply::QueueDeleted
            }
            _ => {
                let error = ServiceError::new(ErrorCode::InternalError);
                return Err(Stop::Refused(error.with_cause("an operation that has no place in a lane")));
            }
        };
        Ok(Answer::Reply(reply))
    }

    /// What is to be committed for the last turn's answer to be true: guards and writes.
    pub(super) fn take_changes(&mut self) -> (Vec<Key>, Vec<Write>) {
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
        // A queue that is deleted meanwhile takes its messages with it.
        (vec![self.queue.key.clone()], writes)
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
        Reply::Put(self.place(visible, sequence, &message, Bytes::new()))
    }

    async fn update(
        &mut self,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
        visibility: Duration,
        text: Option<&Bytes>,
    ) -> Result<Reply, Stop> {
        let (place, mut message) = self.held(id, receipt).await?;
        let visible = self.now.saturating_add(visibility);
        if visible > message.expires {
            return Err(Stop::Refused(
                ServiceError::new(ErrorCode::InvalidQueryParameterValue)
                    .with_detail("QueryParameterName", "visibilitytimeout")
                    .with_detail("QueryParameterValue", visibility.as_secs().to_string())
                    .with_detail("Reason", "messagettl must be greater than visibilitytimeout"),
            ));
        }
        message.changes = message.changes.wrapping_add(1);
        if let Some(text) = text {
            self.write_text(place.1, text);
        }
        self.unplace(place);
        Ok(Reply::Updated(self.place(visible, place.1, &message, Bytes::new()).receipt))
    }

    /// The message that a receipt is good for.
    async fn held(
        &self,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
    ) -> Result<(Place, StoredMessage), Stop> {
        let (messages, sequence) = message_of(id.ok_or(ErrorCode::MessageNotFound)?);
        if messages != self.state.messages {
            return Err(ErrorCode::MessageNotFound.into());
        }
        let Some(receipt) = receipt else {
            // Fidelity: what the receipt looks like matters only if there is such a message.
            let text = self.get(&keyspace::message_text(messages, sequence)).await?;
            text.ok_or(ErrorCode::MessageNotFound)?;
            return Err(Stop::Refused(
                ServiceError::new(ErrorCode::InvalidQueryParameterValue)
                    .with_detail("QueryParameterName", "popreceipt")
                    .with_detail("Reason", "Invalid pop receipt format"),
            ));
        };
        let place = (receipt.visible.ticks(), sequence);
        let value = self.get(&keyspace::message(messages, place)).await?;
        let message = StoredMessage::decode(&value.ok_or(ErrorCode::MessageNotFound)?)?;
        let is_current = receipt.sequence == sequence && receipt.changes == message.changes;
        if !is_current || message.expires <= self.now {
            return Err(ErrorCode::MessageNotFound.into());
        }
        Ok((place, message))
    }

    async fn take(&mut self, count: usize, visibility: Duration) -> Result<Vec<Claimed>, Stop> {
        let visible = self.now.saturating_add(visibility);
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some((place, message)) = self.next_visible().await?
        {
            self.unplace(place);
            taken.push((place.1, message));
        }
        self.move_head(taken.is_empty());
        let mut claimed = Vec::with_capacity(taken.len());
        for (sequence, mut message) in taken {
            message.dequeue_count = message.dequeue_count.saturating_add(1);
            message.changes = message.changes.wrapping_add(1);
            let text = self.text(sequence).await?;
            claimed.push(self.place(visible, sequence, &message, text));
        }
        Ok(claimed)
    }

    /// The first message that is visible and has not expired. Removes expired ones on the way.
    async fn next_visible(&mut self) -> Result<Option<(Place, StoredMessage)>, Stop> {
        loop {
            self.read_ahead().await?;
            let stored = self.ahead.front().and_then(|(key, _)| keyspace::place(key));
            let moved = self.first_moved();
            let place = match (stored, moved) {
                (Some(stored), Some(moved)) => stored.min(moved),
                (Some(place), None) | (None, Some(place)) => place,
                (None, None) => return Ok(None),
            };
            let value = if Some(place) == stored {
                self.ahead.pop_front().map(|(_, value)| value)
            } else {
                self.get(&keyspace::message(self.state.messages, place)).await?
            };
            let message = StoredMessage::decode(&value.ok_or(ErrorCode::InternalError)?)?;
            if message.expires > self.now {
                return Ok(Some((place, message)));
            }
            if self.expired < MAX_EXPIRED {
                self.expired += 1;
                self.remove(place, &message);
            } else {
                // There may be very many of them.
                self.pace.work(ROW_WORK).await;
                self.moved_to.remove(&place);
                self.passed_over = self.passed_over.min(Some(place)).or(Some(place));
            }
        }
    }

    /// The first message that this round has moved to a place where it is visible.
    fn first_moved(&self) -> Option<Place> {
        self.moved_to.first().copied().filter(|(visible, _)| *visible <= self.now.ticks())
    }

    /// Sees to it that the first of `ahead`, if there is one, is the next message of the snapshot.
    async fn read_ahead(&mut self) -> Result<(), Stop> {
        loop {
            while self.ahead.front().is_some_and(|(key, _)| self.changed.contains_key(key)) {
                self.ahead.pop_front();
            }
            if !self.ahead.is_empty() {
                return Ok(());
            }
            let Some(start) = self.unread.take() else { return Ok(()) };
            let range = keyspace::messages_between(self.state.messages, (0, 0), self.now.ticks());
            let limit = ScanLimit { max_rows: PAGE_ROWS, max_bytes: 1024 * 1024 };
            let range = tepui_storage::KeyRange { start, end: range.end };
            let page = self.snapshot.scan(&range, limit).await.map_err(engine_error)?;
            self.ahead = page.rows.into();
            self.unread = page.next;
            self.read_until = self.now;
        }
    }

    /// Moves the low-water mark to the first message left, but not past what was read. Without `found_nothing` there is a commit
    /// anyway; with it, only if many deleted rows may lie between the mark and now.
    fn move_head(&mut self, found_nothing: bool) {
        let left = self.ahead.iter().find(|(key, _)| !self.changed.contains_key(key));
        let left = left.map(|(key, _)| key).or(self.unread.as_ref());
        let left = left.and_then(|key| keyspace::place(key));
        let read = (self.read_until.ticks(), 0);
        let head = [left, self.moved_to.first().copied(), self.passed_over, Some(read)];
        let Some(head) = head.into_iter().flatten().min() else { return };
        let lag = Duration::from_nanos(head.0.saturating_sub(self.state.head.0).saturating_mul(100));
        let worth_it = self.state.head.0 <= self.state.last_visible && lag >= HEAD_LAG;
        let commits_anyway = !found_nothing || !self.changed_now.is_empty();
        if head > self.state.head && (commits_anyway || worth_it) {
            self.state.head = head;
        }
    }

    /// Removes some of the expired messages.
    async fn expire(&mut self) -> Result<Answer, Stop> {
        let messages = self.state.messages;
        let range = keyspace::expiring_between(messages, self.state.swept, self.now.ticks());
        let limit = ScanLimit { max_rows: SWEEP_STEP, max_bytes: 1024 * 1024 };
        let page = self.snapshot.scan_some(&range, limit).await.map_err(engine_error)?;
        for (key, _) in &page.rows {
            // It may have been removed, or moved, in this round.
            let (Some(value), Some((_, sequence))) = (self.get(key).await?, keyspace::place(key)) else {
                continue;
            };
            let place = (record::decode_number(&value)?, sequence);
            let value = self.get(&keyspace::message(messages, place)).await?;
            let missing = || ServiceError::new(ErrorCode::InternalError).with_cause("a message is missing");
            let message = StoredMessage::decode(&value.ok_or_else(missing)?)?;
            self.remove(place, &message);
        }
        let next = page.next.as_deref().and_then(keyspace::place);
        let swept = next.map_or(self.now.ticks(), |(expires, _)| expires);
        let lags = swept.saturating_sub(self.state.swept) as u128 * 100 >= SWEEP_LAG.as_nanos();
        if !page.rows.is_empty() || lags {
            self.state.swept = self.state.swept.max(swept);
        }
        Ok(Answer::Expired { more: next.is_some() })
    }

    /// Drops all messages, however many there are, by starting under a new number.
    async fn clear(&mut self) -> Result<(), Stop> {
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

    fn delete_queue(&mut self) {
        self.drop_messages();
        self.change(self.queue.key.clone(), None);
        if !self.queue.name_rests.is_zero() {
            let until = self.now.saturating_add(self.queue.name_rests);
            let resting = keyspace::resting_queue_name(&self.queue.lane.account, &self.queue.lane.queue);
            self.change(resting, Some(record::encode_number(until.ticks())));
        }
        self.deleted = true;
    }

    /// Leaves a note to reclaim all messages, and forgets what this round did to them.
    fn drop_messages(&mut self) {
        self.changed.retain(|key, _| !keyspace::is_of_message(key));
        self.changed_now.retain(|key| !keyspace::is_of_message(key));
        self.moved_to.clear();
        self.ahead.clear();
        self.unread = None;
        self.passed_over = None;
        let Incarnation(number) = self.state.messages;
        let note = keyspace::dropped(self.state.messages);
        self.change(note, Some(record::encode_number(number)));
    }

    /// Puts a message where it is visible from `visible` on. It must have no other place.
    fn place(&mut self, visible: Timestamp, sequence: u64, message: &StoredMessage, text: Bytes) -> Claimed {
        let messages = self.state.messages;
        let place = (visible.ticks(), sequence);
        self.change(keyspace::message(messages, place), Some(message.encode()));
        self.moved_to.insert(place);
        // Marks are low-water marks even where the clock was set back.
        self.state.head = self.state.head.min(place);
        self.state.last_visible = self.state.last_visible.max(place.0);
        if message.expires < Timestamp::MAX {
            let expires = message.expires.ticks();
            let key = keyspace::message_expiry(messages, (expires, sequence));
            self.change(key, Some(record::encode_number(place.0)));
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

    /// Takes a message from its place.
    fn unplace(&mut self, place: Place) {
        self.change(keyspace::message(self.state.messages, place), None);
        self.moved_to.remove(&place);
    }

    fn remove(&mut self, place: Place, message: &StoredMessage) {
        let messages = self.state.messages;
        self.unplace(place);
        self.change(keyspace::message_text(messages, place.1), None);
        if message.expires < Timestamp::MAX {
            let key = keyspace::message_expiry(messages, (message.expires.ticks(), place.1));
            self.change(key, None);
        }
        self.state.count = self.state.count.saturating_sub(1);
    }

    fn write_text(&mut self, sequence: u64, text: &Bytes) {
        let key = keyspace::message_text(self.state.messages, sequence);
        self.change(key, Some(record::encode_text(text)));
    }

    async fn text(&self, sequence: u64) -> Result<Bytes, ServiceError> {
        match self.changed.get(&keyspace::message_text(self.state.messages, sequence)) {
            Some(Some(text)) => record::decode_text(text),
            _ => look::text(&self.snapshot, self.state.messages, sequence).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.changed.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => self.snapshot.get(key).await.map_err(engine_error),
        }
    }
}
