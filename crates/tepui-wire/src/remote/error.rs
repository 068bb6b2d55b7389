//! Refusals as clients read them: the mirror of [`crate::error_body`].

use super::text;
use crate::error_body::{ERROR_CODE, REQUEST_ID};
use crate::xml::document::{self, Element, Limits};
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use serde_json::Value;
use std::fmt;
use tepui_model::ErrorCode;

/// What a service says of a request that it has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub status: StatusCode,
    /// As the service spells it. Empty if it says none, as things between client and service do.
    pub code: String,
    /// Without the id and the time that services add.
    pub message: String,
    pub request_id: Option<String>,
    /// The change that was refused, counted from 0, if the error is about one of a batch and says which.
    pub change: Option<usize>,
    pub retry_after_seconds: Option<u64>,
    /// Further elements of the answer, name and text.
    pub details: Vec<(String, String)>,
}

impl RemoteError {
    /// The code, if it is one of the catalogue.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|code| code.name() == self.code)
    }

    /// Reads a response that is no success: its body, be it JSON or XML, and where there is none, its headers.
    pub fn read(response: &Response<impl AsRef<[u8]>>) -> Self {
        let mut error = Self::of_body(response.status(), response.body().as_ref());
        if error.code.is_empty() {
            error.code = text(response, ERROR_CODE).unwrap_or_default().to_owned();
        }
        if let Some(id) = text(response, REQUEST_ID) {
            error.request_id = Some(id.to_owned());
        }
        error.retry_after_seconds =
            text(response, RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        error
    }

    /// Reads the body of a refusal.
    pub(crate) fn of_body(status: StatusCode, body: &[u8]) -> Self {
        let mut error = Self {
            status,
            code: String::new(),
            message: String::new(),
            request_id: None,
            change: None,
            retry_after_seconds: None,
            details: Vec::new(),
        };
        let Some(body) = document::text(body).map(str::trim_start) else { return error };
        match body.as_bytes().first() {
            Some(b'{') => error.read_json(body),
            Some(b'<') => error.read_xml(body),
            _ => {}
        }
        error.cut_message();
        error
    }

    /// `{"odata.error":{"code":…,"message":{"lang":…,"value":…}}}`, with either of two names.
    fn read_json(&mut self, body: &str) {
        let Ok(body) = serde_json::from_str::<Value>(body) else { return };
        let error = body.get("odata.error").or_else(|| body.get("error")).unwrap_or(&body);
        let said = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        self.code = said(error.get("code"));
        let message = error.get("message");
        self.message = said(message.and_then(|message| message.get("value")).or(message));
    }

    /// `<Error>` of queues and blobs, `<m:error>` of tables.
    fn read_xml(&mut self, body: &str) {
        let Ok(root) = document::parse_any(body.as_bytes(), Limits::OF_REPLIES) else { return };
        if !root.name.eq_ignore_ascii_case("error") {
            return;
        }
        for Element { name, text, .. } in root.children {
            match name.as_str() {
                "Code" | "code" => self.code = text,
                "Message" | "message" => self.message = text,
                _ => self.details.push((name, text)),
            }
        }
    }

    /// Takes out of the message what is said elsewhere: the id, the time and the index of a change.
    fn cut_message(&mut self) {
        if let Some(at) = self.message.rfind("\nRequestId:") {
            let added = self.message.split_off(at);
            let id = added["\nRequestId:".len()..].lines().next().unwrap_or_default();
            self.request_id = Some(id.to_owned());
        }
    }

    /// Takes the index of the refused change out of the message: `3:The specified entity already exists.`
    pub(crate) fn take_change(mut self) -> Self {
        if let Some((index, message)) = self.message.split_once(':')
            && let Ok(index) = index.parse()
        {
            self.change = Some(index);
            self.message = message.to_owned();
        }
        self
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status.as_u16())?;
        for text in [&self.code, &self.message].into_iter().filter(|text| !text.is_empty()) {
            write!(f, " {text}")?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RemoteError {}

/// Why a response is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyError {
    /// The service has refused the request.
    Refused(Box<RemoteError>),
    /// The response is not what the operation is answered with. Says what could not be read.
    Unreadable(&'static str),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Unreadable(what) => write!(f, "the reply cannot be read: {what}"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Passes on a success, and reads a refusal.
pub(crate) fn check(response: &Response<impl AsRef<[u8]>>) -> Result<(), ReplyError> {
    if response.status().is_success() { Ok(()) } else { Err(refusal(RemoteError::read(response))) }
}

pub(crate) fn refusal(error: RemoteError) -> ReplyError {
    ReplyError::Refused(Box::new(error))
}
