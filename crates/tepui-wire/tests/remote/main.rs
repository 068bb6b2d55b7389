//! Both directions of the wire against each other: what a client writes, the server reads as the same operation and takes
//! for signed, and what the server replies, a client reads as the same reply.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod arrived;
mod blob;
mod blob_replies;
mod errors;
mod queue;
mod some;
mod table;
