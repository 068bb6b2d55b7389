//! Role assignments: listed, made, taken away.

use super::accounts::{refusal, short, source_name};
use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::accounts::{AccountEditor, EditError, ListedAssignment};
use crate::net::body::ReplyBody;
use hyper::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tepui_model::Timestamp;
use tepui_model::role::{Actions, InvalidAssignment, Role, RoleAssignment, Scope};
use tepui_model::table::Guid;
use tepui_storage::Engine;

/// The longest text of an assignment. Names of principals can be long, but are not novels.
const MAX_TEXT_BYTES: usize = 1024;

pub(crate) struct RolesArea<E> {
    editor: Arc<AccountEditor<E>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assign {
    principal: String,
    role: String,
    scope: String,
    issuer: Option<String>,
}

impl Assign {
    fn assignment(&self) -> Result<RoleAssignment, AdminError> {
        let wrong = |error: InvalidAssignment| AdminError::invalid(format!("{}.", short_error(&error)));
        let Self { principal, role, scope, issuer } = self;
        for text in [Some(principal), Some(scope), issuer.as_ref()].into_iter().flatten() {
            if text.len() > MAX_TEXT_BYTES || text.chars().any(char::is_control) {
                return Err(AdminError::invalid(format!(
                    "A text has at most {MAX_TEXT_BYTES} bytes, and no control characters."
                )));
            }
        }
        if issuer.as_ref().is_some_and(String::is_empty) {
            return Err(AdminError::invalid("issuer is as tokens have it in `iss`; leave it out for any."));
        }
        Ok(RoleAssignment {
            principal: principal.parse().map_err(wrong)?,
            issuer: issuer.clone(),
            role: role.parse().map_err(wrong)?,
            scope: scope.parse().map_err(wrong)?,
        })
    }
}

fn short_error(error: &InvalidAssignment) -> String {
    error.to_string().chars().take(2 * MAX_TEXT_BYTES).collect()
}

impl<E: Engine> RolesArea<E> {
    pub(crate) fn new(editor: Arc<AccountEditor<E>>) -> Self {
        Self { editor }
    }

    async fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(if call.route == ("GET", "/role-assignments") { &["account"] } else { &[] })?;
        if call.route.0 != "POST" {
            call.no_body()?;
        }
        match call.route {
            ("GET", "/roles") => call::ok(&json!({"roles": Role::ALL.map(shown_role)})),
            ("GET", _) => self.list(call.parameter("account")),
            ("DELETE", _) => {
                let given = call.parts.first().map(String::as_str).unwrap_or_default();
                let unknown =
                    || AdminError::not_found(format!("There is no such role assignment: {}.", short(given)));
                let id = Guid::parse(given).map(|guid| u128::from_be_bytes(guid.0)).ok_or_else(unknown)?;
                let removed =
                    self.editor.remove_assignment(id).await.map_err(|error| refused(error, given))?;
                if removed { call::nothing() } else { Err(unknown()) }
            }
            _ => {
                let assignment = call.json::<Assign>()?.assignment()?;
                let scope = assignment.scope.to_string();
                if let Scope::Account(name) | Scope::Service(name, _) | Scope::Resource(name, _, _) =
                    &assignment.scope
                    && !self.editor.directory().current().serves(name)
                {
                    return Err(AdminError::not_found(format!("There is no such account: {name}.")));
                }
                let assigned = self.editor.assign(&assignment).await;
                let (listed, is_new) = assigned.map_err(|error| refused(error, &scope))?;
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                call::json(status, &shown(&listed))
            }
        }
    }

    fn list(&self, account: Option<&str>) -> Result<Response<ReplyBody>, AdminError> {
        let current = self.editor.directory().current();
        let counts = |listed: &&ListedAssignment| {
            let scope = &listed.assignment.scope;
            account.is_none_or(|account| *scope == Scope::Server || scope.is_in(account))
        };
        let all: Vec<Value> = current.assignments().iter().filter(counts).map(shown).collect();
        call::ok(&json!({"roleAssignments": all}))
    }
}

fn refused(error: EditError, what: &str) -> AdminError {
    match error {
        EditError::Configured => AdminError::conflict(format!(
            "This role assignment is configured, and only there can it be taken away: {what}."
        )),
        error => refusal(error, what),
    }
}

fn shown(listed: &ListedAssignment) -> Value {
    let ListedAssignment { id, assignment, source, created } = listed;
    json!({
        "id": Guid(id.to_be_bytes()).to_string(),
        "principal": assignment.principal.to_string(),
        "issuer": assignment.issuer,
        "role": assignment.role.name(),
        "roleId": assignment.role.id(),
        "scope": assignment.scope.to_string(),
        "source": source_name(*source),
        "created": created.map(Timestamp::to_iso_7),
    })
}

fn shown_role(role: Role) -> Value {
    let actions = Actions::ALL.iter().filter(|(action, _)| role.actions().contains_all(*action));
    let actions: Vec<String> =
        actions.map(|(_, name)| format!("Microsoft.Storage/storageAccounts/{name}")).collect();
    json!({"name": role.name(), "id": role.id(), "actions": actions})
}

impl<E: Engine> Area for RolesArea<E> {
    fn routes(&self) -> &'static [Route] {
        &[
            ("GET", "/roles"),
            ("GET", "/role-assignments"),
            ("POST", "/role-assignments"),
            ("DELETE", "/role-assignments/{}"),
        ]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call).await })
    }
}
