//! Clients that are wrong, greedy, slow or malicious: each is rejected or disconnected, and other clients are not affected.
//!
//! Each test lays siege to a server of its own while a well-behaved client, the neighbour, goes on
//! working there. It must see no error and wait for nothing; the server must stay the same process and
//! need no more memory than before, but for a fixed allowance.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod blobs;
mod connections;
mod framing;
mod payloads;
mod siege;
mod uploads;

#[path = "../support/mod.rs"]
mod support;
