//! The Blob service.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | dispatch of operations |
//! | `containers.rs` | containers: the catalogue, metadata, access, their leases |
//! | `slot.rs` | one name in a container: the blob there, how it is replaced, versions and soft delete |
//! | `precondition.rs` | leases and conditions of a request, checked against a blob |
//! | `put.rs`, `blocks.rs`, `append.rs` | Put Blob; block lists; append blobs |
//! | `staged.rs` | markers of blobs that may have uncommitted blocks |
//! | `pages.rs`, `layers.rs`, `merge.rs` | page blobs, and the layers that they share with their snapshots |
//! | `copy.rs`, `pending.rs` | copies; copies that continue after the reply |
//! | `read.rs`, `list.rs`, `find.rs` | reads, lists, Find Blobs by Tags |
//! | `change.rs`, `tier.rs`, `delete.rs` | metadata, properties, tags, tiers; deletion |
//! | `logs.rs` | the container of analytics logs |
//! | `lease.rs` | the states of a lease, of containers and blobs alike |
//! | `contents.rs` | extents and lists of pieces, with their reference counts |
//! | `upload.rs`, `download.rs` | streams of bytes in and out |
//! | `encryption.rs` | customer-provided keys |
//! | `capacity.rs` | how much an account stores |
//! | `gc.rs` | garbage collection and expiry |
//! | `volumes.rs` | what keeps references from volumes of shared stores that were swept |
//! | `write_set.rs`, `cursor.rs` | writes of an operation; iteration over rows |

mod append;
mod blocks;
mod capacity;
mod change;
mod containers;
pub(crate) mod contents;
mod copy;
mod cursor;
mod delete;
mod download;
pub(crate) mod encryption;
mod find;
mod gc;
mod layers;
pub(crate) mod lease;
mod list;
mod logs;
mod merge;
mod pages;
mod pending;
mod precondition;
mod put;
mod read;
mod service;
mod slot;
mod staged;
mod tier;
mod upload;
mod volumes;
mod write_set;

pub use capacity::{AccountCapacity, Capacity};
pub use download::{BytesOrHole, Download, READ_BYTES};
pub use logs::NewLog;
pub use pending::{CopyUnderWay, Interrupted};
pub use service::{Answer, BlobOptions, BlobService, Caller, RandomIds};
pub use upload::{Upload, Uploaded};
