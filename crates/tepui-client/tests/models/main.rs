//! Models of the protocols that span partitions, explored exhaustively: every order of requests, crashes and leases that run out,
//! up to a bound. A protocol is right if no final state of them all is wrong.

mod explorer;
mod index_upkeep;
