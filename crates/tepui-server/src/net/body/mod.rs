//! The bodies of requests and replies.

mod chunks;
mod reply;
mod request;

pub use reply::{BrokenReply, Pieces, ReplyBody};
pub use request::{Body, BodyError};

pub(crate) use reply::TrackedReply;
pub(crate) use request::reserved_bytes;
