//! The server from outside: clients on raw sockets, well-behaved and not.

mod exchange;
mod limits;
mod support;
