//! `tepui admin faults`: the faults of a test bench.

use super::Output;
use super::client::AdminClient;
use super::duration::seconds;
use crate::USAGE;
use crate::serve::Failure;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

/// Lets requests fail, take long or lose their connection, on a test bench.
#[derive(Args)]
pub(crate) struct FaultsOptions {
    #[command(subcommand)]
    command: Option<FaultsCommand>,
}

#[derive(Subcommand)]
enum FaultsCommand {
    /// Shows all rules, and how often they were met. So does no command
    List,
    /// Adds a rule, and prints its id
    Add(Box<RuleOptions>),
    /// Removes a rule
    Remove { id: u64 },
    /// Removes all rules
    Clear,
}

/// Requests have to match all that is given.
#[derive(Args)]
struct RuleOptions {
    /// table, queue or blob
    #[arg(long)]
    service: Option<String>,
    /// An operation, as Storage Analytics calls it: InsertEntity, PutMessage, PutBlob
    #[arg(long)]
    operation: Option<String>,
    #[arg(long)]
    account: Option<String>,
    /// A table, queue or container
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// How the path after the account begins: /pictures/2026/
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Hit the nth call, counted from 1, and only that unless --count says otherwise
    #[arg(long)]
    nth: Option<u64>,
    /// Hit so many calls at most
    #[arg(long)]
    count: Option<u64>,
    /// Hit this share of calls, such as 0.25
    #[arg(long)]
    share: Option<f64>,
    /// Which calls those are
    #[arg(long)]
    seed: Option<u64>,
    /// Before or after the work was done
    #[arg(long, value_parser = ["before", "after"])]
    when: Option<String>,
    /// Wait so long: 250ms, 5s
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// Answer with this error, such as ServerBusy
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// Answer with another status than the error has
    #[arg(long, requires = "error")]
    status: Option<u16>,
    /// Answer with another message than the error has
    #[arg(long, requires = "error")]
    message: Option<String>,
    /// Close the connection without an answer
    #[arg(long)]
    cut: bool,
}

impl RuleOptions {
    fn rule(&self) -> Result<Value, Failure> {
        let mut rule = Map::new();
        let texts = [
            ("service", &self.service),
            ("operation", &self.operation),
            ("account", &self.account),
            ("resource", &self.resource),
            ("path", &self.path),
            ("when", &self.when),
        ];
        let numbers = [("nth", self.nth), ("count", self.count), ("seed", self.seed)];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, json!(text.as_ref()?))));
        let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, json!(number?))));
        rule.extend(texts.chain(numbers).map(|(name, value)| (name.to_owned(), value)));
        if let Some(share) = self.share {
            rule.insert("share".to_owned(), json!(share));
        }
        if let Some(delay) = &self.delay {
            let seconds = seconds(delay).ok_or_else(|| Failure {
                message: format!("a duration is a number with ms, s, m, h or d: {delay}"),
                code: USAGE,
            })?;
            rule.insert("delayMs".to_owned(), json!((seconds * 1000.0).round() as u64));
        }
        if let Some(code) = &self.error {
            let mut error = Map::from_iter([("code".to_owned(), json!(code))]);
            error.extend(self.status.map(|status| ("status".to_owned(), json!(status))));
            error.extend(self.message.as_ref().map(|message| ("message".to_owned(), json!(message))));
            rule.insert("error".to_owned(), Value::Object(error));
        }
        if self.cut {
            rule.insert("cut".to_owned(), json!(true));
        }
        Ok(Value::Object(rule))
    }
}

pub(crate) fn faults(client: &AdminClient, options: &FaultsOptions, output: Output) -> Result<(), Failure> {
    match options.command.as_ref().unwrap_or(&FaultsCommand::List) {
        FaultsCommand::List => {
            output.print(&client.call("GET", "/faults", None)?, |answer| {
                let rules = answer["faults"].as_array().into_iter().flatten();
                rules.map(|rule| format!("{}\n", as_text(rule))).collect()
            });
        }
        FaultsCommand::Add(rule) => {
            let added = client.call("POST", "/faults", Some(&rule.rule()?))?;
            output.print(&added, |rule| rule["id"].to_string());
        }
        FaultsCommand::Remove { id } => {
            client.call("DELETE", &format!("/faults/{id}"), None)?;
        }
        FaultsCommand::Clear => {
            client.call("DELETE", "/faults", None)?;
        }
    }
    Ok(())
}

/// A rule as one line: its id, what it says, and how often it was met.
fn as_text(rule: &Value) -> String {
    let Some(fields) = rule.as_object() else { return String::new() };
    let said = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "id" | "calls" | "hits"));
    let said = said.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    let said = said.collect::<Vec<_>>().join(" ");
    format!("{:<4} {said}  calls={} hits={}", rule["id"], rule["calls"], rule["hits"])
}
