//! `tepui role`: who has which roles on a running server, by its admin API.

use crate::admin::Output;
use crate::admin::client::{AdminClient, ServerOptions, encoded};
use crate::serve::Failure;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

/// Lists, assigns and takes away roles: see docs/accounts.md.
///
/// The server is found as by `tepui admin`: by --port and --token, by TEPUI_ADMIN_PORT and TEPUI_ADMIN_TOKEN, or by the file that it
/// wrote its ports to (--ports-file).
#[derive(Args)]
pub(crate) struct RoleOptions {
    #[command(flatten)]
    server: ServerOptions,

    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: RoleCommand,
}

#[derive(Subcommand)]
enum RoleCommand {
    /// Shows all role assignments
    List {
        /// Only those that count in this account
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
    /// Assigns a role: tepui role assign group:data-team 'Storage Table Data Reader' /people
    Assign {
        /// oid:ID, sub:SUBJECT, client:ID or group:NAME
        principal: String,
        /// Its name or its id
        role: String,
        /// /, /ACCOUNT, /ACCOUNT/SERVICE or /ACCOUNT/SERVICE/NAME
        scope: String,
        /// Only for tokens of this issuer, as they have it in `iss`
        #[arg(long)]
        issuer: Option<String>,
    },
    /// Takes a role away
    Remove {
        /// As `tepui role list` shows it
        id: String,
    },
    /// Shows the roles that there are
    Roles,
}

pub(crate) fn role(options: &RoleOptions) -> Result<(), Failure> {
    let client = AdminClient::find(&options.server)?;
    let output = Output { json: options.json };
    let lines = |answer: &Value, name: &str| -> String {
        answer[name].as_array().into_iter().flatten().map(|one| line(one) + "\n").collect()
    };
    match &options.command {
        RoleCommand::List { account } => {
            let account = account.as_ref().map(|name| format!("?account={}", encoded(name)));
            let path = format!("/role-assignments{}", account.unwrap_or_default());
            output.print(&client.call("GET", &path, None)?, |answer| lines(answer, "roleAssignments"));
        }
        RoleCommand::Assign { principal, role, scope, issuer } => {
            let mut body = Map::new();
            let texts = [("principal", Some(principal)), ("role", Some(role)), ("scope", Some(scope))];
            for (name, text) in texts.into_iter().chain([("issuer", issuer.as_ref())]) {
                body.extend(text.map(|text| (name.to_owned(), Value::from(text.as_str()))));
            }
            let answer = client.call("POST", "/role-assignments", Some(&Value::Object(body)))?;
            output.print(&answer, line);
        }
        RoleCommand::Remove { id } => {
            let answer = client.call("DELETE", &format!("/role-assignments/{}", encoded(id)), None)?;
            output.print(&answer, |_| format!("taken away: {id}"));
        }
        RoleCommand::Roles => {
            output.print(&client.call("GET", "/roles", None)?, |answer| {
                let roles = answer["roles"].as_array().into_iter().flatten();
                let text = |role: &Value, name: &str| role[name].as_str().unwrap_or_default().to_owned();
                roles.map(|role| format!("{}  {}\n", text(role, "id"), text(role, "name"))).collect()
            });
        }
    }
    Ok(())
}

/// A role assignment in one line.
fn line(assignment: &Value) -> String {
    let text = |name: &str| assignment[name].as_str().unwrap_or_default();
    let mut line = format!("{}  {}  {}  {}", text("id"), text("principal"), text("role"), text("scope"));
    if let Some(issuer) = assignment["issuer"].as_str() {
        line += &format!("  of {issuer}");
    }
    if text("source") == "configuration" {
        line += "  (configured)";
    }
    line
}
