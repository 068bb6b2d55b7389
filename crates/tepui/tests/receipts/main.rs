//! Receipts, one request at a time: what each says is written down here, and counted once more from plain data that the
//! test has written itself.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

mod headers;
mod ledger;
mod lists;
mod messages;
mod tables;
