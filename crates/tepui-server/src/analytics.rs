//! Storage Analytics: what the server writes down about the requests of an account, in the account itself.
//!
//! | | |
//! | --- | --- |
//! | `status.rs` | how a request ended, in a word |
//! | `operation.rs` | what it asked for, in a word |
//! | `minute_counts.rs` | requests that are counted and not written yet |
//! | `transactions.rs` | a row of transaction metrics |
//! | `metrics_writer.rs`, `metrics_keeper.rs` | the tasks that write and expire metrics tables |
//!
//! An account switches it on with Set Service Properties. [`Analytics::record`] hears of each request of such accounts, never
//! waits, and keeps a bounded amount in memory until a task has written it.

pub(crate) mod metrics_keeper;
#[cfg(test)]
mod metrics_tests;
pub(crate) mod metrics_writer;
mod minute_counts;
pub(crate) mod operation;
pub(crate) mod status;
mod transactions;

use minute_counts::MinuteCounts;

use crate::pipeline::FinishedExchange;

/// What is kept in memory until it is written.
#[derive(Default)]
pub struct Analytics {
    metrics: MinuteCounts,
}

impl Analytics {
    /// A request of an account that has switched on analytics has ended.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        self.metrics.record(exchange);
    }
}
