//! Keys of queues and of their messages.

use super::{Incarnation, KeyWriter, read_text, space, two_texts};
use std::borrow::Cow;
use tepui_model::time::NodeNumber;
use tepui_storage::{Key, KeyRange};

/// The position of a message in the order of its queue: ticks at which it is visible (or expires), sequence.
pub(crate) type QueuePosition = (u64, u64);

/// The catalogue row of a queue.
pub(crate) fn queue(account: &str, name: &str) -> Key {
    KeyWriter::new(space::QUEUE).text(account).last_text(name).finish()
}

/// The rows of an account's queues whose names begin with `prefix`.
pub(crate) fn queues(account: &str, prefix: &str) -> KeyRange {
    let key = || KeyWriter::new(space::QUEUE).text(account).last_text(prefix);
    KeyRange { start: key().finish(), end: key().after_all() }
}

/// The rows of all queues of all accounts.
pub(crate) fn all_queues() -> KeyRange {
    let space = || KeyWriter::new(space::QUEUE);
    KeyRange { start: space().finish(), end: space().after_all() }
}

/// The name inside a key of the catalogue of queues.
pub(crate) fn queue_name<'a>(account: &str, key: &'a [u8]) -> Option<Cow<'a, str>> {
    read_text(key.strip_prefix(queues(account, "").start.as_ref())?)
}

/// The account and the name inside a key of [`all_queues`].
pub(crate) fn queue_of(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    two_texts(key.get(1..)?)
}

/// A name that is reserved after its queue was deleted.
pub(crate) fn reserved_queue_name(account: &str, name: &str) -> Key {
    KeyWriter::new(space::RESERVED_QUEUE_NAME).text(account).last_text(name).finish()
}

/// The state of a queue.
pub(crate) fn queue_state(queue: Incarnation) -> Key {
    KeyWriter::new(space::QUEUE_STATE).number(queue.0).finish()
}

/// What a node adds to the state of a queue.
pub(crate) fn queue_node_state(queue: Incarnation, node: NodeNumber) -> Key {
    KeyWriter::new(space::QUEUE_NODE_STATE).number(queue.0).byte(node.get() as u8).finish()
}

/// What all nodes add to the state of a queue.
pub(crate) fn queue_node_states(queue: Incarnation) -> KeyRange {
    let prefix = || KeyWriter::new(space::QUEUE_NODE_STATE).number(queue.0);
    KeyRange { start: prefix().finish(), end: prefix().after_all() }
}

/// A message by the time at which it is visible.
pub(crate) fn message(messages: Incarnation, (visible, sequence): QueuePosition) -> Key {
    numbers(space::MESSAGE, &[messages.0, visible, sequence])
}

/// The text of a message.
pub(crate) fn message_text(messages: Incarnation, sequence: u64) -> Key {
    numbers(space::MESSAGE_TEXT, &[messages.0, sequence])
}

/// A message by the time at which it expires.
pub(crate) fn message_expiry(messages: Incarnation, (expires, sequence): QueuePosition) -> Key {
    numbers(space::MESSAGE_EXPIRY, &[messages.0, expires, sequence])
}

/// The messages at `from` or later that are visible at the tick `until`.
pub(crate) fn messages_between(messages: Incarnation, from: QueuePosition, until: u64) -> KeyRange {
    KeyRange { start: message(messages, from), end: message(messages, (until + 1, 0)) }
}

/// The messages that expire at the tick `from` or later, and not after `until`.
pub(crate) fn expiring_between(messages: Incarnation, from: u64, until: u64) -> KeyRange {
    KeyRange { start: message_expiry(messages, (from, 0)), end: message_expiry(messages, (until + 1, 0)) }
}

/// The place inside a key of a message, by visibility or by expiry.
pub(crate) fn position_of(key: &[u8]) -> Option<QueuePosition> {
    let number = |at: usize| key.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    Some((number(9)?, number(17)?))
}

/// All keys of messages.
pub(crate) fn message_ranges(messages: Incarnation) -> [KeyRange; 3] {
    [space::MESSAGE, space::MESSAGE_TEXT, space::MESSAGE_EXPIRY].map(|space| {
        let prefix = || KeyWriter::new(space).number(messages.0);
        KeyRange { start: prefix().finish(), end: prefix().after_all() }
    })
}

/// Whether a key is of a message.
pub(crate) fn is_of_message(key: &[u8]) -> bool {
    key.first().is_some_and(|space| (space::MESSAGE..=space::MESSAGE_EXPIRY).contains(space))
}

fn numbers(space: u8, numbers: &[u64]) -> Key {
    let key = KeyWriter::with_capacity(space, 1 + size_of_val(numbers));
    numbers.iter().fold(key, |key, number| key.number(*number)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGES: Incarnation = Incarnation(u64::MAX);

    proptest! {
        #[test]
        fn order_of_keys_is_order_of_positions(a in any::<QueuePosition>(), b in any::<QueuePosition>()) {
            prop_assert_eq!(message(MESSAGES, a).cmp(&message(MESSAGES, b)), a.cmp(&b));
            prop_assert_eq!(message_expiry(MESSAGES, a).cmp(&message_expiry(MESSAGES, b)), a.cmp(&b));
            prop_assert_eq!(position_of(&message(MESSAGES, a)), Some(a));
            let [messages, texts, expiries] = message_ranges(MESSAGES);
            for (range, key) in [
                (messages, message(MESSAGES, a)),
                (texts, message_text(MESSAGES, a.1)),
                (expiries, message_expiry(MESSAGES, a)),
            ] {
                prop_assert!(range.start <= key && key < range.end && is_of_message(&key));
            }
        }

        #[test]
        fn foreign_keys_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (position_of(&bytes), queue_of(&bytes), queue_name("acct", &bytes));
        }
    }

    #[test]
    fn names_are_read_back() {
        let key = queue("acct", "jobs-low");
        assert_eq!(queue_name("acct", &key).as_deref(), Some("jobs-low"));
        assert_eq!(queue_of(&key), Some(("acct".into(), "jobs-low".into())));
        for (account, prefix, inside) in
            [("acct", "", true), ("acct", "jobs", true), ("acct", "jobs-x", false), ("acc", "", false)]
        {
            let range = queues(account, prefix);
            assert_eq!(range.start <= key && key < range.end, inside, "{account} {prefix}");
        }
        assert!(!is_of_message(&key));
    }
}
