//! The Blob service.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | which operation goes where |
//! | `edit.rs` | what an operation reads and is going to write |
//! | `containers.rs` | containers: the catalogue, metadata, access, their leases |
//! | `lease.rs` | the states of a lease, of containers and blobs alike |

mod containers;
#[allow(dead_code, reason = "blobs come with the next step")]
mod edit;
#[allow(dead_code, reason = "blobs come with the next step")]
pub(crate) mod lease;
mod service;

pub use service::{BlobOptions, BlobService, Caller, Chance};
