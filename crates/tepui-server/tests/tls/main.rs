//! TLS from outside: handshakes, both protocols on one port, certificates that change, clients that stop half-way.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod certificates;
mod handshakes;
mod limits;
mod reload;
mod support;
