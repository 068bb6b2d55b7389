//! Extents as objects: in memory, in a directory, on a server that speaks the protocol of S3, and on a store that fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod az;
mod contract;
mod faulty;
mod leases;
mod prefixes;
mod s3;
mod subject;
