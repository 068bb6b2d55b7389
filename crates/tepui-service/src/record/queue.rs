//! Records of queues and of their messages.

use super::{Kind, Reader, Writer, corrupt};
use crate::keyspace::{Incarnation, QueuePosition};
use bytes::Bytes;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::metadata::Metadata;
use tepui_model::{ServiceError, Timestamp};

/// The catalogue row of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredQueue {
    pub(crate) incarnation: Incarnation,
    pub(crate) created: Timestamp,
    pub(crate) metadata: Metadata,
    pub(crate) acl: Vec<SignedIdentifier>,
}

impl StoredQueue {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Queue);
        out.number(self.incarnation.0);
        out.number(self.created.ticks());
        out.pairs(self.metadata.iter());
        out.acl(&self.acl);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Queue))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Queue)?;
        let incarnation = Incarnation(from.number()?);
        let created = from.timestamp()?;
        let metadata = from.metadata()?;
        let acl = from.acl()?;
        Some(Self { incarnation, created, metadata, acl })
    }

    /// Only the incarnation, which is all that most operations need.
    pub(crate) fn incarnation_of(bytes: &[u8]) -> Result<Incarnation, ServiceError> {
        let number = Reader::new(bytes, Kind::Queue).and_then(|mut from| from.number());
        number.map(Incarnation).ok_or_else(|| corrupt(Kind::Queue))
    }
}

/// The state of a queue, which changes with every message. Times are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// The incarnation of the messages. Clear Messages assigns a new one.
    pub(crate) messages: Incarnation,
    /// The number of messages, including expired ones that were not swept yet.
    pub(crate) count: u64,
    pub(crate) next_sequence: u64,
    /// The low-water mark of positions: no message is before it, so scans start here.
    pub(crate) head: QueuePosition,
    /// The latest time of visibility that any message ever had.
    pub(crate) last_visible: u64,
    /// The low-water mark of expiry: no message expires before it.
    pub(crate) swept: u64,
    /// The latest time of expiry that any message ever had.
    pub(crate) last_expiry: u64,
    /// Unique to every write of this record: reading it back proves the commit.
    pub(crate) stamp: u64,
}

impl QueueState {
    /// The state of a queue that was never used, and of one whose messages were cleared.
    pub(crate) fn empty(messages: Incarnation) -> Self {
        Self {
            messages,
            count: 0,
            next_sequence: 0,
            head: (0, 0),
            last_visible: 0,
            swept: 0,
            last_expiry: 0,
            stamp: 0,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let numbers = [
            self.messages.0,
            self.count,
            self.next_sequence,
            self.head.0,
            self.head.1,
            self.last_visible,
            self.swept,
            self.last_expiry,
            self.stamp,
        ];
        Writer::of_numbers(Kind::QueueState, numbers).finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::QueueState))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::QueueState)?;
        Some(Self {
            messages: Incarnation(from.number()?),
            count: from.number()?,
            next_sequence: from.number()?,
            head: (from.number()?, from.number()?),
            last_visible: from.number()?,
            swept: from.number()?,
            last_expiry: from.number()?,
            stamp: from.number()?,
        })
    }
}

/// A message under its position. Its text is stored apart, because it stays when the message moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) inserted: Timestamp,
    /// [`Timestamp::MAX`]: never.
    pub(crate) expires: Timestamp,
    pub(crate) dequeue_count: u32,
    /// Counts dequeues and updates.
    pub(crate) changes: u32,
}

impl StoredMessage {
    pub(crate) fn encode(&self) -> Bytes {
        let Self { inserted, expires, dequeue_count, changes } = *self;
        let numbers = [inserted.ticks(), expires.ticks(), dequeue_count.into(), changes.into()];
        Writer::of_numbers(Kind::Message, numbers).finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Message))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Message)?;
        Some(Self {
            inserted: from.timestamp()?,
            expires: from.timestamp()?,
            dequeue_count: u32::try_from(from.number()?).ok()?,
            changes: u32::try_from(from.number()?).ok()?,
        })
    }
}

pub(crate) fn encode_text(text: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + text.len());
    bytes.push(Kind::MessageText.version());
    bytes.extend_from_slice(text);
    bytes.into()
}

pub(crate) fn decode_text(bytes: &Bytes) -> Result<Bytes, ServiceError> {
    match bytes.first() {
        Some(&version) if version == Kind::MessageText.version() => Ok(bytes.slice(1..)),
        _ => Err(corrupt(Kind::MessageText)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_are_read_back() {
        let timestamp = Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").unwrap();
        let pairs = vec![("Team".to_owned(), "core".to_owned()), ("empty".to_owned(), String::new())];
        let queue = StoredQueue {
            incarnation: Incarnation(42),
            created: timestamp,
            metadata: Metadata::new(pairs).unwrap(),
            acl: vec![SignedIdentifier { id: "reader".to_owned(), policy: None }],
        };
        assert_eq!(StoredQueue::decode(&queue.encode()), Ok(queue.clone()));
        assert_eq!(StoredQueue::incarnation_of(&queue.encode()), Ok(Incarnation(42)));
        let state = QueueState { count: 3, head: (4, 5), stamp: 6, ..QueueState::empty(Incarnation(2)) };
        assert_eq!(QueueState::decode(&state.encode()), Ok(state));
        let message = StoredMessage {
            inserted: timestamp,
            expires: Timestamp::MAX,
            dequeue_count: 7,
            changes: u32::MAX,
        };
        assert_eq!(StoredMessage::decode(&message.encode()), Ok(message));
        assert_eq!(decode_text(&encode_text(b"text")), Ok(Bytes::from_static(b"text")));
    }

    proptest! {
        #[test]
        fn foreign_records_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (StoredQueue::decode(&bytes), QueueState::decode(&bytes), StoredMessage::decode(&bytes));
            let _ = decode_text(&bytes.into());
        }
    }
}
