//! What services ask of storage: an [`Engine`] for ordered bytes, and [`Extents`] for bytes that are too large for it.
//!
//! | | |
//! | --- | --- |
//! | `engine.rs` `limits.rs` | the engine: snapshots, commits, errors, limits |
//! | `commit_pipeline.rs` `key_hashes.rs` | commits that depend on one another and need not wait for each other |
//! | `extents.rs` `readers.rs` | large bytes; readers that frees wait for |
//! | `memory_engine.rs` `memory_extents.rs` | both in memory |
//! | `contract/` | the suites that every implementation passes |
//!
//! This crate knows nothing about tables, queues, blobs or HTTP, and nothing about disks: services lay out their own keys and
//! values on top of it, and other crates implement it.

mod commit_pipeline;
pub mod contract;
mod engine;
mod extents;
mod key_hashes;
pub mod limits;
mod memory_engine;
mod memory_extents;
mod readers;

pub use commit_pipeline::CommitPipeline;
pub use engine::{
    CATALOGUE_END, Commit, CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot,
    Value, Version, Write, changes_catalogue,
};
pub use extents::{Extent, ExtentError, ExtentWriter, Extents, PIECE_BYTES};
pub use key_hashes::{KeyHashes, VersionsByHash};
pub use limits::{MAX_COMMIT_BYTES, MAX_KEY_BYTES};
pub use memory_engine::{MemoryEngine, MemorySnapshot};
pub use memory_extents::{MemoryExtents, MemoryWriter};
pub use readers::{READER_TIMEOUT, ReadGuard, Readers};
