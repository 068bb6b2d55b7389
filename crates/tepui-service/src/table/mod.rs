//! The Table service.

mod entities;
mod import;
pub(crate) mod metrics;
mod plan;
mod query;
mod service;
mod tables;

pub use metrics::{MetricsError, MetricsRow, ServiceSettings};
pub use query::QueryBudget;
pub use service::{TableOptions, TableService};
