//! The Table service.

mod entities;
mod import;
mod key_ranges;
pub(crate) mod metrics;
mod query;
mod service;
mod tables;

pub use metrics::{MetricsError, MetricsRow, ServiceSettings};
pub use query::QueryBudget;
pub use service::{TableOptions, TableService};
