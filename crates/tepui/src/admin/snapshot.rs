//! `tepui admin snapshot`: named snapshots of everything that a test bench stores.

use super::Output;
use super::client::{AdminClient, encoded};
use crate::serve::Failure;
use clap::{Args, Subcommand};
use serde_json::Value;

/// Takes, lists, restores or deletes snapshots of everything that a test bench stores.
#[derive(Args)]
pub(crate) struct SnapshotOptions {
    #[command(subcommand)]
    command: Option<SnapshotCommand>,
}

#[derive(Subcommand)]
enum SnapshotCommand {
    /// Shows the snapshots, and how many rows were written since each. So does no command
    List,
    /// Takes a snapshot
    Take { name: String },
    /// Goes back to a snapshot, which stays
    Restore { name: String },
    /// Deletes a snapshot
    Delete { name: String },
}

pub(crate) fn snapshot(
    client: &AdminClient,
    options: &SnapshotOptions,
    output: Output,
) -> Result<(), Failure> {
    let path = |name: &str| format!("/snapshots/{}", encoded(name));
    match options.command.as_ref().unwrap_or(&SnapshotCommand::List) {
        SnapshotCommand::List => {
            output.print(&client.call("GET", "/snapshots", None)?, |answer| {
                let snapshots = answer["snapshots"].as_array().into_iter().flatten();
                let line = |snapshot: &Value| {
                    let name = snapshot["name"].as_str().unwrap_or_default();
                    format!("{name}  {} rows written since\n", snapshot["writtenRows"])
                };
                snapshots.map(line).collect()
            });
        }
        SnapshotCommand::Take { name } => {
            output.print(&client.call("PUT", &path(name), None)?, |_| format!("taken: {name}"));
        }
        SnapshotCommand::Restore { name } => {
            let answer = client.call("POST", &format!("{}/restore", path(name)), None)?;
            output
                .print(&answer, |answer| format!("restored: {name}, {} rows changed", answer["changedRows"]));
        }
        SnapshotCommand::Delete { name } => {
            output.print(&client.call("DELETE", &path(name), None)?, |_| format!("deleted: {name}"));
        }
    }
    Ok(())
}
