//! Ordered bytes on TiKV: [`TikvEngine`], an engine of `tepui-storage`.
//!
//! | | |
//! | --- | --- |
//! | `engine.rs` `options.rs` | the engine, and how to open it |
//! | `transaction.rs` `scan.rs` `commit.rs` | transactions: one optimistic transaction of TiKV each |
//! | `copies.rs` | guards that many commits share |
//! | `keys.rs` `format.rs` | how keys are encoded, and what a store remembers of that |
//! | `connection.rs` `outcome.rs` | deadlines, a new client when one keeps failing; what errors mean |
//! | `orphans.rs` | locks whose transaction nobody finds |
//! | `regions.rs` | where regions end, so that scans ask one at a time |
//! | `safepoint.rs` | how long old states are kept |
//!
//! `docs/tikv.md` says how to run it and what it was run against, `docs/decisions/0019-tikv.md` why it is as it is.

mod commit;
mod connection;
mod copies;
mod engine;
mod format;
mod keys;
mod options;
mod orphans;
mod outcome;
mod regions;
mod safepoint;
mod scan;
mod transaction;

pub use engine::TikvEngine;
pub use options::TikvOptions;
pub use transaction::TikvTransaction;
