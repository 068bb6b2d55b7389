//! Storage in one directory: [`DiskEngine`] and [`DiskExtents`].
//!
//! | | |
//! | --- | --- |
//! | `engine/` | group commit, snapshots, flushes and compactions in the background |
//! | `wal/` | the write-ahead log |
//! | `lsm/` | memtables and sorted tables |
//! | `extents/` | large bytes in volumes |
//! | `directory.rs` | the data directory: format, lock |
//! | `upgrade.rs` | directories of earlier formats |
//! | `offline.rs` | a directory that is read without a server |
//! | `check.rs` | every checksum of it, verified |
//! | `checkpoint.rs` | its contents at one point in time |
//! | `backup/` | checkpoints as files, and back |
//! | `blocking.rs` | work that may wait for the disk |
//! | `stats.rs` | what both count of themselves |
//! | `io_error.rs` | errors of the operating system as errors of storage |
//!
//! Everything is read and written through `tepui-files`, so that tests can fail and crash it.

pub mod backup;
mod blocking;
mod byte_reader;
pub mod check;
mod checkpoint;
mod directory;
mod engine;
mod extents;
mod io_error;
mod lsm;
mod offline;
mod stats;
mod upgrade;
mod wal;

pub use checkpoint::Checkpoint;
pub use directory::is_initialized;
pub use engine::{DiskEngine, DiskPipeline, DiskTransaction, EngineOptions, Stepper};
pub use extents::{DiskExtents, DiskWriter, ExtentsOptions};
pub use offline::{OfflineDirectory, OfflineError};
pub use stats::{DelayStats, DiskSpace, EngineStats, ExtentStats};
