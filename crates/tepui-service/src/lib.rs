//! What Azure Storage operations mean, on top of any engine. No HTTP.
//!
//! A request arrives as an [`Operation`](tepui_model::table::Operation). It is executed with optimistic concurrency:
//! read a snapshot of the engine, decide, commit, and retry after a conflict (`transact.rs`). The decisions themselves
//! are pure functions.

pub mod blob;
mod catalogue;
mod coop;
mod gc;
mod keyspace;
pub mod queue;
mod record;
mod settings;
pub mod table;
mod transact;

pub use blob::{BlobOptions, BlobService};
pub use coop::CoopBudget;
pub use gc::GarbageCollector;
pub use queue::{QueueOptions, QueueService};
pub use table::{QueryBudget, TableOptions, TableService};

/// A page of a list of queues, containers or blobs ends at about this size. Metadata can be long.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// A page of a list ends after this time, full or not, with a continuation marker.
const MAX_PAGE_TIME: std::time::Duration = std::time::Duration::from_secs(5);
