//! The Queue service: queues of messages, and what can be asked of them.

pub mod message;
pub mod name;
pub mod operation;
pub mod reply;

pub use message::{Claimed, MessageId, Peeked, PopReceipt, Stamp};
pub use name::QueueName;
pub use operation::{Call, ListQueues, Operation, OperationKind, SequencedOperation};
pub use reply::{ListedQueue, QueuePage, Reply};
