//! The suites that every implementation passes.

pub mod engine;
pub mod extents;
