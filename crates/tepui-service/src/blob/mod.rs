//! The Blob service.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | which operation goes where |
//! | `containers.rs` | containers: the catalogue, metadata, access, their leases |
//! | `target.rs` | the blob that an operation is about, and what becomes of its state before |
//! | `precondition.rs` | what must hold before an operation goes ahead |
//! | `put.rs`, `blocks.rs`, `append.rs` | blobs that come whole, in blocks, and bit by bit |
//! | `staged.rs` | which blobs may have blocks that are not committed |
//! | `pages.rs`, `layers.rs`, `merge.rs` | blobs of pages, and how they share what they have in common |
//! | `copy.rs`, `pending.rs` | blobs that are made of others; copies that take their time |
//! | `read.rs`, `list.rs`, `find.rs` | what is read without a change |
//! | `change.rs`, `tier.rs`, `delete.rs` | changes of what is known of a blob; its end |
//! | `lease.rs` | the states of a lease, of containers and blobs alike |
//! | `contents.rs` | extents and lists of pieces, and how often they are referred to |
//! | `upload.rs`, `download.rs` | bytes on their way in and out |
//! | `encryption.rs` | bytes and metadata with a key that the caller brings along |
//! | `digester.rs` | MD5 of what comes in |
//! | `reclaim.rs` | space that is given back, and what has expired |
//! | `edit.rs` | what an operation reads and is going to write |

mod append;
mod blocks;
mod change;
mod containers;
mod contents;
mod copy;
mod delete;
mod digester;
mod download;
mod edit;
pub(crate) mod encryption;
mod find;
mod layers;
pub(crate) mod lease;
mod list;
mod merge;
mod pages;
mod pending;
mod precondition;
mod put;
mod read;
mod reclaim;
mod service;
mod staged;
mod target;
mod tier;
mod upload;

pub use download::{BytesOrHole, Download, READ_BYTES};
pub use pending::CopyUnderWay;
pub use service::{Answer, BlobOptions, BlobService, Caller, RandomIds};
pub use upload::{Upload, Uploaded};
