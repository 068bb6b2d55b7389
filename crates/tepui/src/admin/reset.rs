//! `tepui admin reset`: deletes what a test bench stores.

use super::Output;
use super::client::AdminClient;
use crate::serve::Failure;
use clap::Args;
use serde_json::{Map, Value};

/// Deletes everything that a test bench stores, or what is of one account, of one service, or of both.
#[derive(Args)]
pub(crate) struct ResetOptions {
    /// Only what is of this account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,

    /// Only what is of this service: blob, queue or table
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
}

pub(crate) fn reset(client: &AdminClient, options: &ResetOptions, output: Output) -> Result<(), Failure> {
    let mut scope = Map::new();
    for (name, value) in [("account", &options.account), ("service", &options.service)] {
        scope.extend(value.as_ref().map(|value| (name.to_owned(), Value::from(value.as_str()))));
    }
    let answer = client.call("POST", "/reset", Some(&Value::Object(scope)))?;
    output.print(&answer, |counts| {
        let count = |name: &str| counts[name].as_u64().unwrap_or_default();
        format!(
            "deleted: {} tables, {} queues, {} containers",
            count("tables"),
            count("queues"),
            count("containers")
        )
    });
    Ok(())
}
