//! A call of the admin API: what an area is asked, and how it answers.

use crate::net::body::ReplyBody;
use bytes::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::str::FromStr;
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::query::Query;

/// A part of the admin API: some routes, and what they do. One file each.
pub(crate) trait Area: Send + Sync + 'static {
    /// Its calls. No two areas have the same.
    fn routes(&self) -> &'static [Route];

    /// Whether only a server that was started with `--test-bench` has it.
    fn is_for_test_bench(&self) -> bool;

    /// The longest body that is read.
    fn max_body_bytes(&self) -> usize {
        1 << 20
    }

    /// Answers a call of one of its routes.
    fn answer(&self, call: Call) -> AnswerFuture<'_>;
}

/// A method, and a path below `/admin/v1` in which `{}` is any one part: `("DELETE", "/faults/{}")`.
pub(crate) type Route = (&'static str, &'static str);

/// What [`Area::answer`] returns: `Box::pin(async move { … })`.
pub(crate) type AnswerFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, AdminError>> + Send + 'a>>;

/// A call whose caller may make it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) route: Route,
    /// What stands for each `{}` of the route, decoded.
    pub(crate) parts: Vec<String>,
    pub(super) query: Query,
    pub(crate) body: Bytes,
}

impl Call {
    /// The body, of which every field must be known.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, AdminError> {
        if self.body.is_empty() {
            return Err(AdminError::invalid("A body of JSON is needed."));
        }
        // A list of the fields' values would do otherwise.
        if self.body.trim_ascii_start().first() != Some(&b'{') {
            return Err(AdminError::invalid(
                "The body is not as it should be: an object of JSON is expected.",
            ));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| AdminError::invalid(format!("The body is not as it should be: {error}.")))
    }

    /// Refuses a body that would not be read.
    pub(crate) fn no_body(&self) -> Result<(), AdminError> {
        match self.body.is_empty() || self.body.trim_ascii() == b"{}" {
            true => Ok(()),
            false => Err(AdminError::invalid("This call has no body.")),
        }
    }

    /// Refuses parameters other than these, and those that are given twice.
    pub(crate) fn only_parameters(&self, known: &[&str]) -> Result<(), AdminError> {
        for (name, _) in self.query.iter() {
            if !known.contains(&name) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(AdminError::invalid(format!(
                    "There is no such parameter: {name}. Known here: {known}."
                )));
            }
            if self.query.count(name) > 1 {
                return Err(AdminError::invalid(format!("A parameter is given twice: {name}.")));
            }
        }
        Ok(())
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name)
    }

    /// A parameter that is a number in a range.
    pub(crate) fn number<N: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        range: RangeInclusive<N>,
    ) -> Result<Option<N>, AdminError> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(AdminError::invalid(format!(
                "{name} is a number from {} to {}: {text}.",
                range.start(),
                range.end()
            ))),
        }
    }
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response<ReplyBody>, AdminError> {
    let mut text = serde_json::to_vec(value).map_err(|error| AdminError::internal(&error))?;
    text.push(b'\n');
    let mut response = Response::new(ReplyBody::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An answer of 200.
pub(crate) fn ok(value: &impl Serialize) -> Result<Response<ReplyBody>, AdminError> {
    json(StatusCode::OK, value)
}

/// An answer of 204.
pub(crate) fn nothing() -> Result<Response<ReplyBody>, AdminError> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Why a call was refused or failed: a status, a code for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// The methods of the path, where another was used.
    allow: Option<HeaderValue>,
}

impl AdminError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), allow: None }
    }

    /// 400: what was sent means nothing.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidInput", message)
    }

    /// 404: there is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// 409: it cannot be done as things are.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// 500. The cause is for the log only.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a call of the admin API has failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            "This went wrong on the side of the server, whose log says why.",
        )
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(super) fn forbidden(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(super) fn method_not_allowed(allowed: &str) -> Self {
        let message = format!("This path is for {allowed}.");
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        Self { allow: HeaderValue::from_str(allowed).ok(), ..error }
    }

    pub(super) fn response(&self) -> Response<ReplyBody> {
        let body = serde_json::json!({"error": {"code": self.code, "message": self.message}});
        let mut response = json(self.status, &body).unwrap_or_default();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = &self.allow {
            response.headers_mut().insert(ALLOW, allow.clone());
        }
        response
    }
}

/// An error of a service, as those of the admin API are.
impl From<ServiceError> for AdminError {
    fn from(error: ServiceError) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if error.code == ErrorCode::InternalError {
            return Self::internal(&error);
        }
        Self::new(status, error.code.name(), error.message())
    }
}
