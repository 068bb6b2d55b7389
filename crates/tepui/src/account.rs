//! `tepui account`: the accounts of a running server and their keys, by its admin API.

use crate::admin::Output;
use crate::admin::client::{AdminClient, ServerOptions, encoded};
use crate::serve::Failure;
use crate::{FAILED, USAGE};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Lists, makes, changes and deletes the accounts of a running server, and renews their keys: see docs/accounts.md.
///
/// The server is found as by `tepui admin`: by --port and --token, by TEPUI_ADMIN_PORT and TEPUI_ADMIN_TOKEN, or by the file that it
/// wrote its ports to (--ports-file).
#[derive(Args)]
pub(crate) struct AccountOptions {
    #[command(flatten)]
    server: ServerOptions,

    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Subcommand)]
enum AccountCommand {
    /// Shows all accounts
    List,
    /// Makes an account, and prints its keys
    Create {
        name: String,
        /// Refuse its keys, and what is signed with them: only tokens are accepted
        #[arg(long)]
        refuse_shared_keys: bool,
    },
    /// Shows an account, without its keys
    Show { name: String },
    /// Serves nobody who asks for the account
    Disable { name: String },
    /// Serves the account again
    Enable { name: String },
    /// Deletes an account and everything in it
    Delete {
        name: String,
        /// Do it: nothing can be brought back
        #[arg(long)]
        yes: bool,
    },
    /// Shows and renews keys
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Accepts or refuses the keys of an account, and what is signed with them
    SharedKeys { what: SharedKeys, name: String },
    /// Makes all user delegation keys of an account worthless, and the SAS that were signed with them
    RevokeDelegationKeys { name: String },
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Prints the keys of an account
    List { name: String },
    /// Makes a new key, and prints it with a connection string. The one before is good no more
    Renew {
        name: String,
        /// key1 or key2
        key: KeyName,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum KeyName {
    Key1,
    Key2,
}

impl KeyName {
    fn text(self) -> &'static str {
        match self {
            Self::Key1 => "key1",
            Self::Key2 => "key2",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum SharedKeys {
    Allow,
    Refuse,
}

pub(crate) fn account(options: &AccountOptions) -> Result<(), Failure> {
    let client = AdminClient::find(&options.server)?;
    let output = Output { json: options.json };
    let path = |name: &str| format!("/accounts/{}", encoded(name));
    let change = |name: &str, what: Value| {
        let answer = client.call("PATCH", &path(name), Some(&what))?;
        output.print(&answer, line);
        Ok(())
    };
    match &options.command {
        AccountCommand::List => {
            let answer = client.call("GET", "/accounts", None)?;
            output.print(&answer, |answer| {
                answer["accounts"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|account| line(account) + "\n")
                    .collect()
            });
            Ok(())
        }
        AccountCommand::Create { name, refuse_shared_keys } => {
            let body = json!({"allowSharedKeys": !refuse_shared_keys});
            let answer = client.call("PUT", &path(name), Some(&body))?;
            output.print(&answer, |account| format!("{}\n{}", line(account), with_keys(account)));
            Ok(())
        }
        AccountCommand::Show { name } => {
            output.print(&client.call("GET", &path(name), None)?, |account| {
                let mut text = line(account) + "\n";
                for (service, endpoint) in account["endpoints"].as_object().into_iter().flatten() {
                    let _ = writeln!(text, "{service}: {}", endpoint.as_str().unwrap_or_default());
                }
                text
            });
            Ok(())
        }
        AccountCommand::Disable { name } => change(name, json!({"disabled": true})),
        AccountCommand::Enable { name } => change(name, json!({"disabled": false})),
        AccountCommand::SharedKeys { what, name } => {
            change(name, json!({"allowSharedKeys": matches!(what, SharedKeys::Allow)}))
        }
        AccountCommand::Delete { name, yes } => {
            if !yes {
                let message =
                    format!("this deletes everything in the account: if it is meant, add --yes: {name}");
                return Err(Failure { message, code: USAGE });
            }
            let answer = client.call("DELETE", &path(name), None)?;
            output.print(&answer, |answer| match answer.is_null() {
                true => format!("deleted: {name}"),
                false => format!("not served any more; what is in it is being deleted: {name}"),
            });
            Ok(())
        }
        AccountCommand::Key { command: KeyCommand::List { name } } => {
            let mut answer = client.call("GET", &format!("{}/keys", path(name)), None)?;
            if !output.json {
                answer["name"] = name.as_str().into();
                answer["endpoints"] = client.call("GET", &path(name), None)?["endpoints"].take();
            }
            output.print(&answer, with_keys);
            Ok(())
        }
        AccountCommand::Key { command: KeyCommand::Renew { name, key } } => {
            let mut answer =
                client.call("POST", &format!("{}/keys/{}/renew", path(name), key.text()), None)?;
            if answer["value"].as_str().is_none() {
                let message = "the server has not answered with a key".to_owned();
                return Err(Failure { message, code: FAILED });
            }
            if !output.json {
                let endpoints = answer["endpoints"].take();
                answer = json!({"name": name, "endpoints": endpoints, "keys": [answer]});
            }
            output.print(&answer, with_keys);
            Ok(())
        }
        AccountCommand::RevokeDelegationKeys { name } => {
            let answer = client.call("POST", &format!("{}/delegation-keys/revoke", path(name)), None)?;
            output.print(&answer, |_| format!("revoked: {name}"));
            Ok(())
        }
    }
}

/// An account in one line.
fn line(account: &Value) -> String {
    let text = |name: &str| account[name].as_str().unwrap_or_default();
    let mut line = format!("{}  {}", text("name"), text("state"));
    if account["allowSharedKeys"] == false {
        line += "  refuses shared keys";
    }
    if text("source") == "configuration" {
        line += "  (configured)";
    }
    line
}

/// Keys with the connection strings that have them.
fn with_keys(account: &Value) -> String {
    let mut text = String::new();
    for key in account["keys"].as_array().into_iter().flatten() {
        let value = key["value"].as_str().unwrap_or_default();
        let name = account["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{}  {value}", key["keyName"].as_str().unwrap_or_default());
        let empty = Map::new();
        let endpoints = account["endpoints"].as_object().unwrap_or(&empty);
        let _ = writeln!(text, "      {}", connection_string(name, value, endpoints));
    }
    text
}

fn connection_string(name: &str, key: &str, endpoints: &Map<String, Value>) -> String {
    let is_tls = |endpoint: &Value| endpoint.as_str().is_some_and(|endpoint| endpoint.starts_with("https:"));
    let protocol = if endpoints.values().any(is_tls) { "https" } else { "http" };
    let mut text = format!("DefaultEndpointsProtocol={protocol};AccountName={name};AccountKey={key};");
    for (service, word) in [("blob", "Blob"), ("queue", "Queue"), ("table", "Table")] {
        if let Some(endpoint) = endpoints.get(service).and_then(Value::as_str) {
            let _ = write!(text, "{word}Endpoint={endpoint};");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_as_text() {
        for (account, expected) in [
            (
                json!({"name": "a", "state": "enabled", "allowSharedKeys": true, "source": "api"}),
                "a  enabled",
            ),
            (
                json!({"name": "b", "state": "disabled", "allowSharedKeys": false, "source": "configuration"}),
                "b  disabled  refuses shared keys  (configured)",
            ),
            (json!({"name": "c", "state": "deleting"}), "c  deleting"),
        ] {
            assert_eq!(line(&account), expected);
        }
        let account = json!({
            "name": "a",
            "keys": [{"keyName": "key1", "value": "c2VjcmV0"}],
            "endpoints": {"table": "http://127.0.0.1:2/a", "blob": "http://127.0.0.1:1/a"},
        });
        assert_eq!(
            with_keys(&account),
            "key1  c2VjcmV0\n      DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;\
             BlobEndpoint=http://127.0.0.1:1/a;TableEndpoint=http://127.0.0.1:2/a;\n"
        );
    }
}
