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
//! | `resets.rs` | of which requests nothing is written any more: those before a reset, and those of deleted accounts |
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
mod resets;
pub(crate) mod status;
mod transactions;

pub(crate) use log_retention::LogRetention;
pub(crate) use log_writer::LogWriter;
pub(crate) use metrics_keeper::{CapacityMeter, MetricsKeeper};
pub(crate) use metrics_writer::MetricsWriter;

use crate::pipeline::FinishedExchange;
use log_buffer::LogBuffer;
use minute_counts::MinuteCounts;
use parking_lot::RwLock;
use resets::{Resets, Written};
use status::{RequestStatus, Requester, StatusKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::service_properties::ServiceProperties;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_service::test_bench::{BenchError, ResetScope};
use tepui_wire::address::Service;
use transactions::Transactions;

/// What is kept in memory until it is written.
#[derive(Default)]
pub struct Analytics {
    logs: LogBuffer,
    metrics: MinuteCounts,
    /// Held shared while a request is recorded, so that it is either forgotten or known to be undone.
    resets: RwLock<Resets>,
    /// Held shared while something is written that is in memory no more, alone during a reset.
    writing: tokio::sync::RwLock<()>,
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
        let resets = self.resets.read();
        let FinishedExchange { account, service, started, .. } = exchange;
        // It may have begun before a reset, or end a little after the client has its answer and asks for one.
        let is_undone = |written| resets.is_undone(written, account, *service, *started);
        if !is_undone(Written::LogLine) {
            self.logs.record(exchange);
        }
        if !is_undone(Written::Metrics) {
            self.metrics.record(exchange);
        }
    }

    /// Carries out a reset, or a restore, which is one of everything. Afterwards nothing is written about requests before it.
    pub(crate) async fn reset<T: Send + 'static>(
        self: &Arc<Self>,
        scope: ResetScope,
        reset: impl Future<Output = Result<T, BenchError>> + Send + 'static,
    ) -> Result<T, BenchError> {
        let analytics = Arc::clone(self);
        // In a task of its own: it must not end half-way when the caller has gone.
        let task = tokio::spawn(async move {
            let _alone = analytics.writing.write().await;
            let outcome = reset.await;
            // One that has failed may have deleted some.
            if matches!(outcome, Ok(_) | Err(BenchError::Failed(_))) {
                analytics.forget(&scope);
            }
            outcome
        });
        let panicked = |panic: &dyn std::fmt::Display| {
            BenchError::Failed(ServiceError::new(ErrorCode::InternalError).with_cause(panic))
        };
        task.await.unwrap_or_else(|panic| Err(panicked(&panic)))
    }

    /// Drops what is in memory of an account that is deleted, so that none of it is in the next one of that name.
    pub(crate) fn forget_account(&self, name: &str) {
        self.forget(&ResetScope { account: Some(name.to_owned()), service: None });
    }

    fn forget(&self, scope: &ResetScope) {
        let mut resets = self.resets.write();
        resets.note(scope, Instant::now());
        self.logs.forget(|account, service| Written::LogLine.is_in(scope, account, service));
        self.metrics.forget(|account, service| Written::Metrics.is_in(scope, account, service));
    }

    /// No reset begins while this is held.
    async fn hold_resets(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.writing.read().await
    }

    /// Whether something that was kept since then is of requests before a reset.
    fn is_undone(&self, written: Written, account: &str, service: Service, since: Instant) -> bool {
        self.resets.read().is_undone(written, account, service, since)
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
