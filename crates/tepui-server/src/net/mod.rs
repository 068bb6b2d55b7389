//! Connections: from a listening socket to a [`Handler`](accept::Handler), with limits on what clients may take.
//!
//! | | |
//! | --- | --- |
//! | `accept.rs` | listeners, connection permits, shutdown |
//! | `connection.rs` | one connection and its state |
//! | `slow_clients.rs` | the watchdog for slow and silent clients |
//! | `body/` | bodies of requests and replies |
//! | `body_memory.rs` | the memory budget of request bodies |
//! | `header_case.rs` | the case of metadata names, which hyper does not keep |
//! | `limits.rs` | the limits |

pub(crate) mod accept;
pub(crate) mod body;
mod body_memory;
mod connection;
mod header_case;
pub(crate) mod limits;
mod slow_clients;
