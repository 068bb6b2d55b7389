//! `tepui admin`: the admin API of a running server, for people and scripts.
//!
//! | | |
//! | --- | --- |
//! | `client.rs` | finds the server and its token, and sends calls |
//! | `clock.rs`, `faults.rs`, `messages.rs`, `partitions.rs`, `reset.rs`, `seed.rs`, `snapshot.rs`, `tail.rs`, `token.rs` | the commands |
//! | `duration.rs` | durations as people write them |
//!
//! A command is added as a variant of [`AdminCommand`], with a file of its own.

pub(crate) mod client;
mod clock;
mod duration;
mod faults;
mod messages;
mod partitions;
mod reset;
mod seed;
mod snapshot;
mod stream;
mod tail;
mod token;

use crate::serve::Failure;
use clap::{Args, Subcommand};
use client::{AdminClient, ServerOptions};
use std::io::Write as _;

/// Steers a running server by its admin API: see docs/admin.md.
///
/// The server is found by --port and --token, by TEPUI_ADMIN_PORT and TEPUI_ADMIN_TOKEN, or by the file that it wrote its ports
/// to (--ports-file).
#[derive(Args)]
pub(crate) struct AdminOptions {
    #[command(flatten)]
    server: ServerOptions,

    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Subcommand)]
enum AdminCommand {
    Clock(clock::ClockOptions),
    Faults(faults::FaultsOptions),
    Messages(messages::MessagesOptions),
    Partitions(partitions::PartitionsOptions),
    Reset(reset::ResetOptions),
    Seed(seed::SeedOptions),
    Snapshot(snapshot::SnapshotOptions),
    Tail(tail::TailOptions),
    Token(token::TokenOptions),
}

pub(crate) fn admin(options: &AdminOptions) -> Result<(), Failure> {
    let client = AdminClient::find(&options.server)?;
    let output = Output { json: options.json };
    match &options.command {
        AdminCommand::Clock(options) => clock::clock(&client, options, output),
        AdminCommand::Faults(options) => faults::faults(&client, options, output),
        AdminCommand::Messages(options) => messages::messages(&client, options, output),
        AdminCommand::Partitions(options) => partitions::partitions(&client, options, output),
        AdminCommand::Reset(options) => reset::reset(&client, options, output),
        AdminCommand::Seed(options) => seed::seed(&client, options, output),
        AdminCommand::Snapshot(options) => snapshot::snapshot(&client, options, output),
        AdminCommand::Tail(options) => tail::tail(&client, options, output),
        AdminCommand::Token(options) => token::token(&client, options, output),
    }
}

/// How answers are printed.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints an answer as it is, or as `text` puts it.
    pub(crate) fn print(self, answer: &serde_json::Value, text: impl FnOnce(&serde_json::Value) -> String) {
        let text = if self.json { printable_json(&answer.to_string()) } else { text(answer) };
        if !text.is_empty() {
            // Whoever reads it may have gone.
            let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
        }
    }
}

/// A text of others, such as a key or a path, which must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{FFFD}' } else { letter }).collect()
}

/// JSON that means the same, with all control characters escaped: JSON itself asks for that only up to U+001F.
fn printable_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter.is_control() && !letter.is_ascii_whitespace() {
            true => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_do_not_steer_the_terminal() {
        let text = "a\u{1b}[31m\u{9b}31m\u{7f}é\n";
        assert_eq!(printable(text), "a\u{FFFD}[31m\u{FFFD}31m\u{FFFD}é\u{FFFD}");
        let answer = serde_json::json!({"key": text});
        let json = printable_json(&answer.to_string());
        assert_eq!(json, r#"{"key":"a\u001b[31m\u009b31m\u007fé\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), answer);
        assert_eq!(printable_json("{\n\t\"a\": 1\n}"), "{\n\t\"a\": 1\n}");
    }
}
