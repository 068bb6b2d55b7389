//! Messages, what identifies them, and what proves that a client holds one.

use crate::{Timestamp, guid};
use bytes::Bytes;
use std::fmt;

/// The largest text of a message, in bytes of UTF-8.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The most messages that one request takes or looks at.
pub const MAX_MESSAGES: usize = 32;

/// The id of a message, a GUID. Never used twice on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId(pub u128);

impl MessageId {
    /// `None` if it is not a GUID. Any case will do.
    pub fn parse(text: &str) -> Option<Self> {
        guid::parse(text).map(Self)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&guid::print(self.0))
    }
}

/// What proves that its bearer was the last to put, take or change a message. Opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PopReceipt {
    /// When the message is visible next.
    pub visible: Timestamp,
    /// The message's place in the order of its queue.
    pub sequence: u64,
    /// How often the message was taken or changed.
    pub changes: u32,
}

/// What all answers about a message say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub id: MessageId,
    pub inserted: Timestamp,
    /// [`Timestamp::MAX`]: never.
    pub expires: Timestamp,
}

/// A message that was put or taken: its caller holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub stamp: Stamp,
    pub receipt: PopReceipt,
    pub dequeue_count: u32,
    /// Empty for a message that was put.
    pub text: Bytes,
}

/// A message that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub stamp: Stamp,
    pub dequeue_count: u32,
    pub text: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_guids() {
        let text = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
        assert_eq!(MessageId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        assert_eq!(MessageId::parse(&text.to_uppercase()), MessageId::parse(text));
        for bad in ["", "no-such-id", &text[1..], &text.replace('-', "0"), &text.replace('5', "g")] {
            assert_eq!(MessageId::parse(bad), None, "{bad}");
        }
        assert_eq!(MessageId(1).to_string(), "00000000-0000-0000-0000-000000000001");
    }
}
