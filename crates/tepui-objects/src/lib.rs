//! Large bytes as objects: [`ObjectExtents`] is a store of extents in a bucket of S3 or of anything that speaks its protocol, a
//! container of Azure Blob Storage, or a bucket of Google Cloud Storage. Any number of nodes share it.
//!
//! | | |
//! | --- | --- |
//! | `options.rs` `backend.rs` `http.rs` | what is configured; from a URL to a store of objects; connections |
//! | `identity.rs` | what says that a prefix is a store of ours, and which |
//! | `names.rs` `pieces.rs` | the names of objects; how bytes are stored in them, with checksums |
//! | `volumes.rs` `lease.rs` | the volumes that this process writes; leases on volumes |
//! | `writer.rs` | an extent that is being written |
//! | `extents.rs` `sweep.rs` | the store; what is left behind by nodes that have stopped |
//! | `objects.rs` `error.rs` | calls with deadlines; what errors of the store of objects mean |
//!
//! Below the prefix of the URL are:
//!
//! ```text
//! tepui-store              what this is, its format, its number: made once
//! extents/VOLUME/OFFSET    an extent
//! leases/VOLUME            until when a node writes to a volume
//! swept/VOLUME             when a volume was swept
//! ```
//!
//! This crate knows nothing about blobs, nor about the rows that refer to extents.

mod backend;
mod error;
mod extents;
#[cfg(feature = "cloud")]
mod http;
mod identity;
mod lease;
mod names;
mod objects;
mod options;
mod pieces;
mod sweep;
mod volumes;
mod writer;

pub use backend::open_store;
pub use extents::{ObjectExtents, ObjectReadGuard};
pub use options::{Environment, MachineClock, ObjectOptions};
pub use writer::ObjectWriter;

/// The crate whose stores [`ObjectExtents::open_on`] takes.
pub use object_store;
