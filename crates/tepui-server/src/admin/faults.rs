//! Faults: rules added, shown, replaced and removed.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::faults::{Faults, RuleError};
use crate::net::body::ReplyBody;
use hyper::http::{Response, StatusCode};
use std::sync::Arc;

pub(crate) struct FaultsArea {
    faults: Arc<Faults>,
}

impl FaultsArea {
    pub(crate) fn new(faults: Arc<Faults>) -> Self {
        Self { faults }
    }

    fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        if matches!(call.route.0, "GET" | "DELETE") {
            call.no_body()?;
        }
        let id = || {
            let text = call.parts.first().map_or("", String::as_str);
            text.parse::<u64>().map_err(|_| no_such_rule())
        };
        match call.route {
            ("GET", "/faults") => call::ok(&serde_json::json!({"faults": self.faults.all()})),
            ("DELETE", "/faults") => {
                self.faults.clear();
                call::nothing()
            }
            ("POST", _) => call::json(StatusCode::CREATED, &self.faults.add(call.json()?)?),
            ("PUT", _) => {
                let id = id()?;
                // An unknown rule is said before what is wrong with its new one.
                self.faults.get(id)?;
                call::ok(&self.faults.replace(id, call.json()?)?)
            }
            ("DELETE", _) => {
                self.faults.remove(id()?)?;
                call::nothing()
            }
            (_, _) => call::ok(&self.faults.get(id()?)?),
        }
    }
}

fn no_such_rule() -> AdminError {
    AdminError::not_found("There is no such rule.")
}

impl From<RuleError> for AdminError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::Invalid(message) => Self::invalid(message),
            RuleError::NotFound => no_such_rule(),
            RuleError::TooMany => Self::conflict(format!("There are {} rules already.", Faults::MAX_RULES)),
        }
    }
}

impl Area for FaultsArea {
    fn routes(&self) -> &'static [Route] {
        &[
            ("GET", "/faults"),
            ("POST", "/faults"),
            ("DELETE", "/faults"),
            ("GET", "/faults/{}"),
            ("PUT", "/faults/{}"),
            ("DELETE", "/faults/{}"),
        ]
    }

    fn is_for_test_bench(&self) -> bool {
        true
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call) })
    }
}
