//! `tepui admin clock`: the clock of a test bench.

use super::Output;
use super::client::AdminClient;
use super::duration::seconds;
use crate::USAGE;
use crate::serve::Failure;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Reads, sets, advances, freezes or resumes the clock of a test bench.
#[derive(Args)]
pub(crate) struct ClockOptions {
    #[command(subcommand)]
    command: Option<ClockCommand>,
}

#[derive(Subcommand)]
enum ClockCommand {
    /// Shows what time it is for the server. So does no command
    Get,
    /// Sets the clock: 2030-01-01T12:00:00Z
    Set { time: String },
    /// Moves the clock on: 90, 90s, 5m, 2h, 7d, 250ms
    Advance { by: String },
    /// Stops the clock
    Freeze,
    /// Lets the clock run on from where it stands
    Resume,
    /// Follows the machine's clock again
    Reset,
}

pub(crate) fn clock(client: &AdminClient, options: &ClockOptions, output: Output) -> Result<(), Failure> {
    let answer = match options.command.as_ref().unwrap_or(&ClockCommand::Get) {
        ClockCommand::Get => client.call("GET", "/clock", None),
        ClockCommand::Set { time } => client.call("PUT", "/clock", Some(&json!({"now": time}))),
        ClockCommand::Advance { by } => {
            let Some(seconds) = seconds(by) else {
                let message = format!("a duration is a number with ms, s, m, h or d: {by}");
                return Err(Failure { message, code: USAGE });
            };
            client.call("POST", "/clock/advance", Some(&json!({"seconds": seconds})))
        }
        ClockCommand::Freeze => client.call("POST", "/clock/freeze", None),
        ClockCommand::Resume => client.call("POST", "/clock/resume", None),
        ClockCommand::Reset => client.call("DELETE", "/clock", None),
    }?;
    output.print(&answer, as_text);
    Ok(())
}

fn as_text(clock: &Value) -> String {
    let now = clock["now"].as_str().unwrap_or_default();
    let frozen = if clock["frozen"] == true { " (frozen)" } else { "" };
    format!("{now}{frozen}")
}
