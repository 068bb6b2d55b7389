//! Tests a server with Rust's clients for blobs.

/// azure_storage_blob, the official one.
mod official {
    mod access;
    mod blobs;
    mod containers;
    mod kinds;
}
/// object_store, which DataFusion, Delta Lake and others use.
mod store {
    mod access;
    mod conditions;
    mod copies;
    mod lists;
    mod objects;
    mod uploads;
}
mod shared_key;
mod support;
