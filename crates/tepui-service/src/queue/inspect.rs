//! All messages of a queue, for those who look into it: also those that are hidden, and without a trace.

use super::id::id_of;
use super::read::{decode_text, state};
use crate::keyspace::{self, Incarnation, QueuePosition};
use crate::record::StoredMessage;
use crate::transact::storage_error;
use bytes::Bytes;
use std::fmt;
use std::str::FromStr;
use tepui_model::queue::Stamp;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, ScanLimit, Snapshot};

/// A message as it is in its queue, visible or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    pub stamp: Stamp,
    /// When it is visible, or has become so.
    pub next_visible: Timestamp,
    pub is_visible: bool,
    pub dequeue_count: u32,
    pub text: Bytes,
}

/// Some messages, by the time at which they are visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagePage {
    pub messages: Vec<QueuedMessage>,
    /// Where the next page begins.
    pub next: Option<MessageCursor>,
}

/// A place in the order of a queue. Opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageCursor(QueuePosition);

impl fmt::Display for MessageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (visible, sequence) = self.0;
        write!(f, "{visible:x}-{sequence:x}")
    }
}

impl FromStr for MessageCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (visible, sequence) = text.split_once('-').ok_or(())?;
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(drop);
        Ok(Self((number(visible)?, number(sequence)?)))
    }
}

/// Rows per scan, and the most bytes of texts on a page.
const STEP_ROWS: usize = 32;
const PAGE_TEXT_BYTES: usize = 4 << 20;

/// The messages from a place on that have not expired, `count` at most, or as many as a page holds.
pub(super) async fn all_messages<S: Snapshot>(
    snapshot: &S,
    queue: Incarnation,
    from: Option<MessageCursor>,
    count: usize,
    now: Timestamp,
) -> Result<MessagePage, ServiceError> {
    let state = state(snapshot, queue).await?;
    let [mut range, ..] = keyspace::message_ranges(state.messages);
    let first = from.map_or(state.head, |cursor| cursor.0.max(state.head));
    range.start = keyspace::message(state.messages, first);
    let (mut messages, mut text_bytes) = (Vec::new(), 0);
    loop {
        let limit = ScanLimit { max_rows: STEP_ROWS, max_bytes: 1024 * 1024 };
        let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
        let mut found = Vec::with_capacity(page.rows.len());
        for (key, value) in &page.rows {
            let position = keyspace::position_of(key).ok_or(ErrorCode::InternalError)?;
            found.push((position, StoredMessage::decode(value)?));
        }
        found.retain(|(_, message)| message.expires > now);
        let keys = found.iter().map(|((_, sequence), _)| keyspace::message_text(state.messages, *sequence));
        let texts = snapshot.get_many(&keys.collect::<Vec<Key>>()).await.map_err(storage_error)?;
        for ((position, message), text) in found.into_iter().zip(texts) {
            if messages.len() == count || text_bytes >= PAGE_TEXT_BYTES {
                return Ok(MessagePage { messages, next: Some(MessageCursor(position)) });
            }
            let (text, (visible, sequence)) = (decode_text(text)?, position);
            text_bytes += text.len();
            let next_visible = Timestamp::from_ticks(visible).ok_or(ErrorCode::InternalError)?;
            messages.push(QueuedMessage {
                stamp: Stamp {
                    id: id_of(state.messages, sequence),
                    inserted: message.inserted,
                    expires: message.expires,
                },
                next_visible,
                is_visible: next_visible <= now,
                dequeue_count: message.dequeue_count,
                text,
            });
        }
        let Some(next) = page.next else { return Ok(MessagePage { messages, next: None }) };
        range.start = next;
    }
}
