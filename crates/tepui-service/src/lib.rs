//! What Azure Storage operations mean, on top of any engine. No HTTP.
//!
//! A request arrives as an [`Operation`](tepui_model::table::Operation). It is executed with optimistic concurrency:
//! begin a transaction of the engine, decide, commit, and retry after a conflict (`transact.rs`). The decisions themselves
//! are pure functions.

pub mod blob;
mod catalogue;
pub mod check;
mod coop;
pub mod copy;
mod drops;
mod gc;
pub mod identity;
mod installation;
mod keyspace;
mod nodes;
pub mod phase;
pub mod queue;
mod record;
mod settings;
mod stats;
pub mod table;
pub mod test_bench;
mod transact;
mod work_lease;

pub use blob::{BlobOptions, BlobService};
pub use catalogue::{catalogue_versions, shared_guard_ranges};
pub use coop::CoopBudget;
pub use gc::GarbageCollector;
pub use installation::installation_number;
pub use keyspace::MAX_KEY_BYTES;
pub use nodes::{NodeClock, NodeEngine, NodeError, NodeLease};
pub use queue::{QueueOptions, QueueService};
pub use stats::{BlobStats, QueueStats};
pub use table::{MetricsError, MetricsRow, QueryBudget, ServiceSettings, TableOptions, TableService};
pub use transact::{TransactStats, transact_stats};
pub use work_lease::{StoreAccess, Work, WorkLeases};

/// How far the clocks of nodes that share a store may be apart. What has expired by one clock is taken for expired only when
/// it has by all.
pub const MAX_CLOCK_SKEW: std::time::Duration = std::time::Duration::from_secs(1);

/// A page of a list of queues, containers or blobs ends at about this size. Metadata can be long.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// A page of a list ends after this time, full or not, with a continuation marker.
const MAX_PAGE_TIME: std::time::Duration = std::time::Duration::from_secs(5);
