//! Reads of a queue that change nothing: peeking and counting.

use super::id::id_of;
use crate::keyspace::{self, Incarnation};
use crate::record::{self, QueueState, StoredMessage};
use crate::transact::storage_error;
use bytes::Bytes;
use tepui_model::queue::{Peeked, Stamp};
use tepui_model::time::MAX_NODES;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, ScanLimit, Snapshot, Value};

/// The state of a queue. A queue that was never used has no record.
pub(super) async fn state<S: Snapshot>(snapshot: &S, queue: Incarnation) -> Result<QueueState, ServiceError> {
    let value = snapshot.get(&keyspace::queue_state(queue)).await.map_err(storage_error)?;
    decode_state(queue, value)
}

/// What nodes have added to the state of a queue, or to that of messages that were cleared.
async fn node_states<S: Snapshot>(snapshot: &S, queue: Incarnation) -> Result<Vec<QueueState>, ServiceError> {
    let limit = ScanLimit { max_rows: MAX_NODES as usize, max_bytes: 1024 * 1024 };
    let mut range = keyspace::queue_node_states(queue);
    let mut states = Vec::new();
    loop {
        let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
        for (_, value) in &page.rows {
            states.push(QueueState::decode(value)?);
        }
        let Some(next) = page.next else { return Ok(states) };
        range.start = next;
    }
}

/// The states of queues, in their order, without what nodes have added.
pub(crate) async fn states<S: Snapshot>(
    snapshot: &S,
    queues: &[Incarnation],
) -> Result<Vec<QueueState>, ServiceError> {
    let keys: Vec<Key> = queues.iter().map(|queue| keyspace::queue_state(*queue)).collect();
    let values = snapshot.get_many(&keys).await.map_err(storage_error)?;
    queues.iter().zip(values).map(|(queue, value)| decode_state(*queue, value)).collect()
}

pub(super) fn decode_state(queue: Incarnation, value: Option<Value>) -> Result<QueueState, ServiceError> {
    value.map_or_else(|| Ok(QueueState::empty(queue)), |value| QueueState::decode(&value))
}

/// The first messages that are visible.
pub(super) async fn peek<S: Snapshot>(
    snapshot: &S,
    queue: Incarnation,
    count: usize,
    now: Timestamp,
) -> Result<Vec<Peeked>, ServiceError> {
    let state = state(snapshot, queue).await?;
    let mut range = keyspace::messages_between(state.messages, state.head, now.ticks());
    let mut peeked = Vec::new();
    while peeked.len() < count {
        let limit = ScanLimit { max_rows: count - peeked.len(), max_bytes: 1024 * 1024 };
        let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
        let mut messages = Vec::with_capacity(page.rows.len());
        for (key, value) in &page.rows {
            let message = StoredMessage::decode(value)?;
            if message.expires > now {
                let (_, sequence) = keyspace::position_of(key).ok_or(ErrorCode::InternalError)?;
                messages.push((sequence, message));
            }
        }
        let keys = messages.iter().map(|(sequence, _)| keyspace::message_text(state.messages, *sequence));
        let texts = snapshot.get_many(&keys.collect::<Vec<Key>>()).await.map_err(storage_error)?;
        for ((sequence, message), text) in messages.into_iter().zip(texts) {
            let text = decode_text(text)?;
            let id = id_of(state.messages, sequence);
            let stamp = Stamp { id, inserted: message.inserted, expires: message.expires };
            peeked.push(Peeked { stamp, dequeue_count: message.dequeue_count, text });
        }
        let Some(next) = page.next else { break };
        range.start = next;
    }
    Ok(peeked)
}

/// The text of a stored message.
pub(super) fn decode_text(value: Option<Value>) -> Result<Bytes, ServiceError> {
    let missing = || ServiceError::new(ErrorCode::InternalError).with_cause("a stored message has no text");
    record::decode_text(&value.ok_or_else(missing)?)
}

/// The most expired messages that are subtracted: those that the sweep has not removed yet.
const MAX_EXPIRED: u64 = 50_000;

/// The number of messages that have not expired. Never too small; too large if more than `MAX_EXPIRED` are still to be
/// swept.
pub(super) async fn count<S: Snapshot>(
    snapshot: &S,
    queue: Incarnation,
    now: Timestamp,
) -> Result<u64, ServiceError> {
    let (state, nodes) = tokio::join!(biased; state(snapshot, queue), node_states(snapshot, queue));
    let state = state?;
    let nodes = nodes?.into_iter().filter(|node| node.messages == state.messages);
    // What one node has put another may have deleted, so that a part of the sum can be negative.
    let count = nodes.fold(state.count, |count, node| count.wrapping_add(node.count));
    let count = u64::try_from(count.cast_signed()).unwrap_or(0);
    if count == 0 {
        return Ok(0);
    }
    let mut expired = 0;
    let mut range = keyspace::expiring_between(state.messages, state.swept, now.ticks());
    loop {
        let limit = ScanLimit { max_rows: 1000, max_bytes: 1024 * 1024 };
        let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
        expired += page.rows.len() as u64;
        let Some(next) = page.next.filter(|_| expired < MAX_EXPIRED) else { break };
        range.start = next;
    }
    Ok(count.saturating_sub(expired))
}
