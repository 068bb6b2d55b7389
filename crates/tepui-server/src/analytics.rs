//! Storage Analytics: what the server writes down about the requests of an account, in the account itself.
//!
//! | | |
//! | --- | --- |
//! | `status.rs` | how a request ended, in a word |
//! | `operation.rs` | what it asked for, in a word |
//!
//! An account switches it on with Set Service Properties. [`Analytics::record`] hears of each request of such accounts, never
//! waits, and keeps a bounded amount in memory until a task has written it.

pub(crate) mod operation;
pub(crate) mod status;

use crate::pipeline::FinishedExchange;

/// What is kept in memory until it is written.
#[derive(Default)]
pub struct Analytics {}

impl Analytics {
    /// A request of an account that has switched on analytics has ended.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        let _ = (operation::name(exchange), operation::class(exchange), status::RequestStatus::of(exchange));
    }
}
