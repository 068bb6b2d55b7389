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
//!
//! An account switches it on with Set Service Properties. [`Analytics::record`] hears of each request of such accounts, never
//! waits, and keeps a bounded amount in memory until a task has written it.

mod line;
mod log_buffer;
mod log_retention;
mod log_writer;
pub(crate) mod operation;
pub(crate) mod status;

pub(crate) use log_retention::LogRetention;
pub(crate) use log_writer::LogWriter;

use crate::pipeline::FinishedExchange;
use log_buffer::LogBuffer;

/// What is kept in memory until it is written.
#[derive(Default)]
pub struct Analytics {
    logs: LogBuffer,
}

impl Analytics {
    /// A request of an account that has switched on analytics has ended.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        self.logs.record(exchange);
    }

    /// The lines of logs that were not written, because there were too many of them or the store has failed.
    #[allow(dead_code, reason = "for metrics")]
    pub(crate) fn dropped_log_lines(&self) -> u64 {
        self.logs.dropped()
    }
}
