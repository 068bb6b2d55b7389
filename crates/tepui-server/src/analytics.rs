//! Storage Analytics: what the server writes down about the requests of an account, in the account itself.
//!
//! | | |
//! | --- | --- |
//! | `status.rs` | how a request ended, in a word |
//! | `operation.rs` | what it asked for, in a word |
//! | `line.rs` | the line of a log about it |
//! | `log_buffer.rs` | lines that are not written yet |
//! | `log_writer.rs` | the task that writes them to the container `$logs` |
//! | `log_retention.rs` | the task that deletes old logs |
//! | `minute_counts.rs` | requests that are counted and not written yet |
//! | `transactions.rs` | a row of transaction metrics |
//! | `metrics_writer.rs`, `metrics_keeper.rs` | the tasks that write and expire metrics tables |
//!
//! An account switches it on with Set Service Properties. [`Analytics::record`] hears of each request of such accounts, never
//! waits, and keeps a bounded amount in memory until a task has written it.

mod line;
mod log_buffer;
mod log_retention;
mod log_writer;
mod metrics_keeper;
#[cfg(test)]
mod metrics_tests;
mod metrics_writer;
mod minute_counts;
pub(crate) mod operation;
pub(crate) mod status;
mod transactions;

pub(crate) use log_retention::LogRetention;
pub(crate) use log_writer::LogWriter;
pub(crate) use metrics_keeper::{CapacityMeter, MetricsKeeper};
pub(crate) use metrics_writer::MetricsWriter;

use crate::pipeline::FinishedExchange;
use log_buffer::LogBuffer;
use minute_counts::MinuteCounts;
use status::{RequestStatus, Requester, StatusKind};
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::service_properties::ServiceProperties;
use tepui_wire::address::Service;
use transactions::Transactions;

/// What is kept in memory until it is written.
#[derive(Default)]
pub struct Analytics {
    logs: LogBuffer,
    metrics: MinuteCounts,
}

/// What became of a request of Storage Analytics itself.
pub(crate) struct SystemRequest {
    /// Of its body.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) succeeded: bool,
}

impl Analytics {
    /// A request of an account that has switched on analytics has ended.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        self.logs.record(exchange);
        self.metrics.record(exchange);
    }

    /// Storage Analytics itself has written or deleted a log, which began at `at` by the clock of the server. Such requests are in metrics, and
    /// not in logs.
    pub(crate) fn record_system(
        &self,
        account: &str,
        properties: &ServiceProperties,
        operation: &'static str,
        at: Timestamp,
        done: SystemRequest,
    ) {
        let kind = if done.succeeded { StatusKind::Success } else { StatusKind::ServerOtherError };
        let status = RequestStatus { kind, requester: Requester::Key };
        let request = Transactions::one(status, done.bytes, 0, done.time, done.time);
        self.metrics.record_system(account, Service::Blob, properties, at, operation, &request);
    }

    /// The lines of logs that were not written, because there were too many of them or the store has failed.
    pub(crate) fn dropped_log_lines(&self) -> u64 {
        self.logs.dropped()
    }

    /// The requests that are in no row of metrics, because too many rows waited to be written or the store has failed.
    pub(crate) fn dropped_metrics_requests(&self) -> u64 {
        self.metrics.dropped()
    }
}
