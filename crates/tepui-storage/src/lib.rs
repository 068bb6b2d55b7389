//! What services ask of storage: an [`Engine`] for ordered bytes, and [`Extents`] for bytes that are too large for it.
//!
//! | | |
//! | --- | --- |
//! | `engine.rs` `commit.rs` `limits.rs` | the engine: transactions, pipelines, commits and their guards, limits |
//! | `error.rs` | why storage failed |
//! | `transaction_pipeline.rs` | pipelines for engines behind a network |
//! | `versions.rs` | for engines that number their commits |
//! | `extents.rs` `readers.rs` | large bytes; readers that frees wait for |
//! | `stats.rs` | what storage counts of itself |
//! | `memory_engine.rs` `memory_extents.rs` | both in memory |
//! | `dynamic.rs` | any engine and any extents behind one type each |
//! | `rewindable.rs` | named snapshots of any engine, for test benches |
//! | `contract/` | the suites that every implementation passes |
//!
//! This crate knows nothing about tables, queues, blobs or HTTP, and nothing about disks: services lay out their own keys and
//! values on top of it, and other crates implement it.

mod commit;
pub mod contract;
pub mod dynamic;
mod engine;
mod error;
mod extents;
mod limits;
mod memory_engine;
mod memory_extents;
mod readers;
pub mod rewindable;
pub mod stats;
mod transaction_pipeline;
pub mod versions;

pub use commit::{Commit, CommitError, Guard, Write};
pub use engine::{CommitPipeline, Engine, Key, KeyRange, ScanLimit, ScanPage, Snapshot, Transaction, Value};
pub use error::{StorageError, StorageErrorKind};
pub use extents::{Extent, ExtentWriter, Extents, PIECE_BYTES, StoreId};
pub use limits::{Limits, ScanBounds};
pub use memory_engine::{MemoryEngine, MemoryPipeline, MemoryTransaction};
pub use memory_extents::{MemoryExtents, MemoryWriter};
pub use readers::{READER_TIMEOUT, ReadGuard, Readers};
pub use transaction_pipeline::TransactionPipeline;
