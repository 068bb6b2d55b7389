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
//! | `blocking.rs` | work that may wait for the disk |
//! | `io_error.rs` | errors of the operating system as errors of storage |
//!
//! Everything is read and written through `tepui-files`, so that tests can fail and crash it.

mod blocking;
mod byte_reader;
mod directory;
mod engine;
mod extents;
mod io_error;
mod lsm;
mod upgrade;
mod wal;

pub use directory::is_initialized;
pub use engine::{DiskEngine, DiskSnapshot, EngineOptions, Stepper};
pub use extents::{DiskExtents, DiskWriter, ExtentsOptions};
