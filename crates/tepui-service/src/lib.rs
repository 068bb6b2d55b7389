//! What Azure Storage operations mean, on top of any engine. No HTTP.
//!
//! A request has become an [`Operation`](tepui_model::table::Operation) before it gets here. It is
//! carried out on one snapshot of the engine: read, decide, commit, and again if what was read has
//! changed meanwhile. The decisions themselves are pure functions.

pub mod blob;
mod catalogue;
mod keyspace;
mod pace;
pub mod queue;
mod reclaim;
mod record;
mod settings;
pub mod table;
mod transact;

pub use blob::{BlobOptions, BlobService};
pub use pace::Pace;
pub use queue::{QueueOptions, QueueService};
pub use reclaim::Reclaimer;
pub use table::{QueryBudget, TableOptions, TableService};

/// A page of a list of queues, containers or blobs is not begun to be larger than this, about. Metadata can be long.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// A page of a list ends after this time, full or not: the caller goes on from there.
const MAX_PAGE_TIME: std::time::Duration = std::time::Duration::from_secs(5);
