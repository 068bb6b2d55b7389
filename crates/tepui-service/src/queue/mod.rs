//! The Queue service.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | which operation goes where; sweeping |
//! | `queues.rs` | queues themselves: the catalogue, metadata, access policies |
//! | `lane.rs` | changes of one queue's messages, one after the other without waiting |
//! | `round.rs` | what those changes mean |
//! | `look.rs` | what is read without a change: peeking, counting |
//! | `id.rs` | ids of messages |

mod id;
mod lane;
mod look;
mod queues;
mod round;
mod service;

pub use service::{QueueOptions, QueueService};
