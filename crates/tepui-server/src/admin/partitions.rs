//! The hottest partitions, and tables that grow at one end only.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::net::body::ReplyBody;
use crate::targets::{GrowingTable, Heat, HotPartition};
use hyper::http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// How many are told if nobody says, and at most.
const DEFAULT_TOP: usize = 20;
const MAX_TOP: usize = 1000;

pub(crate) struct PartitionsArea {
    heat: Arc<Heat>,
}

impl PartitionsArea {
    pub(crate) fn new(heat: Arc<Heat>) -> Self {
        Self { heat }
    }

    fn top(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&["top"])?;
        call.no_body()?;
        let count = call.number("top", 1..=MAX_TOP)?.unwrap_or(DEFAULT_TOP);
        let partitions: Vec<Value> = self.heat.top(count).iter().map(shown).collect();
        let growing: Vec<Value> = self.heat.growing_tables(count).iter().map(shown_table).collect();
        call::ok(&json!({"partitions": partitions, "growingTables": growing}))
    }
}

impl Area for PartitionsArea {
    fn routes(&self) -> &'static [Route] {
        &[("GET", "/partitions")]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.top(&call) })
    }
}

fn shown(hot: &HotPartition) -> Value {
    let HotPartition { service, account, resource, partition, row_keys, partition_keys, .. } = hot;
    json!({
        "service": service.name(),
        "account": account,
        "resource": resource,
        "partition": partition,
        "unitsPerSecond": rounded(hot.units_per_second),
        "errorPerSecond": rounded(hot.error_per_second),
        "rowKeys": row_keys.map(|growth| growth.name()),
        "partitionKeys": partition_keys.map(|growth| growth.name()),
    })
}

fn shown_table(growing: &GrowingTable) -> Value {
    json!({
        "account": growing.account,
        "table": growing.table,
        "partitionKeys": growing.partition_keys.name(),
        "insertsPerSecond": rounded(growing.inserts_per_second),
    })
}

/// More digits than these would only look exact.
fn rounded(rate: f64) -> f64 {
    (rate * 1000.0).round() / 1000.0
}
