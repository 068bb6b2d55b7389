//! The Table service.

mod entities;
mod import;
mod plan;
mod query;
mod service;
mod tables;

pub use query::QueryBudget;
pub use service::{TableOptions, TableService};
