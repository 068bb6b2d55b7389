//! The Queue service.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | dispatch of operations; the sweep of expired messages |
//! | `queues.rs` | queues themselves: the catalogue, metadata, access policies |
//! | `sequencer.rs` | orders the changes of one queue and pipelines their commits |
//! | `messages.rs` | what those changes mean, on a snapshot plus the changes that are not committed yet |
//! | `read.rs` | reads without a change: peeking, counting |
//! | `inspect.rs` | all messages, for those who look into a queue |
//! | `id.rs` | ids of messages |

mod id;
mod inspect;
mod messages;
mod queues;
mod read;
mod sequencer;
mod service;

pub use inspect::{MessageCursor, MessagePage, QueuedMessage};
pub(crate) use read::states;
pub use service::{QueueOptions, QueueService};
