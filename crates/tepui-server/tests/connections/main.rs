//! The server from outside: clients on raw sockets, well-behaved and not.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod exchange;
mod limits;
mod support;
