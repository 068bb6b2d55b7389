//! TLS from outside: handshakes, both protocols on one port, long bodies, certificates that change, clients that stop half-way.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod bodies;
mod certificates;
mod handshakes;
mod limits;
mod reload;
mod support;
