//! The one error of this crate.

use std::error::Error as StdError;
use std::fmt;
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::remote::{InvalidRequest, RemoteError, ReplyError};

/// Why something did not work, or is not known to have worked.
///
/// ```
/// use tepui_client::{Error, ErrorKind};
/// fn is_worth_telling(error: &Error) -> bool {
///     match error.kind() {
///         ErrorKind::AlreadyExists => false,
///         ErrorKind::Unknown => true, // It may have worked: read it back.
///         _ => true,
///     }
/// }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    /// As the service spells it; empty if it said none.
    code: String,
    status: Option<u16>,
    message: String,
    request_id: Option<String>,
    index: Option<usize>,
    retry_after_seconds: Option<u64>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What to do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such table, entity, queue, message, container or blob.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// It was changed by somebody else, or is in a state that does not allow it.
    Conflict,
    /// It was changed by others again and again, more often than was tried.
    Contended,
    /// A write whose answer was lost: it may have been carried out or not.
    Unknown,
    /// The service is too busy, also after all retries.
    Throttled,
    /// The service failed, also after all retries.
    Unavailable,
    /// The credentials do not allow it.
    Denied,
    /// It can never work like this.
    Refused,
    /// An entity, a value, a message or a transaction is larger than services take.
    TooLarge,
    /// A key or a name has characters or a length that it cannot have.
    KeyInvalid,
    /// The condition of a read does not hold: the caller has it already.
    NotModified,
    /// An answer, or what is stored, is something else than expected.
    Decode,
    /// The service could not be reached, or the connection was lost during a read.
    Transport,
    /// The time that the call was given has passed.
    DeadlineExceeded,
    /// The account is not set up such that it can be used.
    Configuration,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            code: String::new(),
            status: None,
            message: message.into(),
            request_id: None,
            index: None,
            retry_after_seconds: None,
            source: None,
        }))
    }

    /// What is stored is something else than expected.
    pub fn decode(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Decode, message)
    }

    /// The service answered, but to something else.
    pub(crate) fn unexpected() -> Self {
        Self::decode("the service replied to something else")
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The code of the service, also one that this crate does not know.
    pub fn code(&self) -> Option<&str> {
        Some(self.0.code.as_str()).filter(|code| !code.is_empty())
    }

    /// The HTTP status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The id that the service gave the request, for its operators.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The change of a transaction that the error is about, counted from 0.
    pub fn index(&self) -> Option<usize> {
        self.0.index
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.0.retry_after_seconds
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.0.index = Some(index);
        self
    }

    /// The same for another that it is about as well. What caused it is told as a text.
    pub(crate) fn for_another(&self) -> Self {
        let Inner { kind, code, status, message, request_id, retry_after_seconds, .. } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            code: code.clone(),
            status: *status,
            message: message.clone(),
            request_id: request_id.clone(),
            index: None,
            retry_after_seconds: *retry_after_seconds,
            source: self.0.source.as_ref().map(|source| source.to_string().into()),
        }))
    }

    pub(crate) fn add_to_message(&mut self, text: &str) {
        self.0.message.push_str(text);
    }
}

/// What a status and a code mean to a caller.
fn kind_of(status: u16, code: &str) -> ErrorKind {
    let known = ErrorCode::ALL.iter().copied().find(|known| known.name() == code);
    if let Some(known) = known.and_then(kind_of_code) {
        return known;
    }
    match status {
        304 => ErrorKind::NotModified,
        401 | 403 => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        409 if code.ends_with("AlreadyExists") => ErrorKind::AlreadyExists,
        409 | 412 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 | 503 => ErrorKind::Throttled,
        408 | 500.. => ErrorKind::Unavailable,
        _ => ErrorKind::Refused,
    }
}

/// Those whose status does not tell.
fn kind_of_code(code: ErrorCode) -> Option<ErrorKind> {
    Some(match code {
        ErrorCode::EntityTooLarge
        | ErrorCode::PropertyValueTooLarge
        | ErrorCode::RequestBodyTooLarge
        | ErrorCode::TooManyProperties => ErrorKind::TooLarge,
        ErrorCode::InvalidResourceName => ErrorKind::KeyInvalid,
        _ => return None,
    })
}

impl From<RemoteError> for Error {
    fn from(error: RemoteError) -> Self {
        let status = error.status.as_u16();
        Self(Box::new(Inner {
            kind: kind_of(status, &error.code),
            status: Some(status),
            code: error.code,
            message: error.message,
            request_id: error.request_id,
            index: error.change,
            retry_after_seconds: error.retry_after_seconds,
            source: None,
        }))
    }
}

impl From<ReplyError> for Error {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Refused(error) => (*error).into(),
            ReplyError::Unreadable(_) => Self::new(ErrorKind::Decode, error.to_string()),
        }
    }
}

impl From<InvalidRequest> for Error {
    fn from(error: InvalidRequest) -> Self {
        Self::new(ErrorKind::Refused, error.to_string())
    }
}

/// What the model refuses before it is sent, with the words that a service would have for it.
impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        let mut refused = Self::new(kind_of(error.status(), error.code.name()), error.message());
        refused.0.code = error.code.name().to_owned();
        refused.0.index = error.change;
        refused
    }
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        ServiceError::new(code).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { code, status, message, request_id, index, .. } = &*self.0;
        let mut written = false;
        if let Some(index) = index {
            write!(f, "change {index}:")?;
            written = true;
        }
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        for text in [&status, code, message].into_iter().filter(|text| !text.is_empty()) {
            write!(f, "{}{text}", if written { " " } else { "" })?;
            written = true;
        }
        match request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_means() {
        for (status, code, expected) in [
            (404, "ResourceNotFound", ErrorKind::NotFound),
            (404, "", ErrorKind::NotFound),
            (409, "EntityAlreadyExists", ErrorKind::AlreadyExists),
            (409, "TableBeingDeleted", ErrorKind::Conflict),
            (412, "UpdateConditionNotSatisfied", ErrorKind::Conflict),
            (403, "AuthenticationFailed", ErrorKind::Denied),
            (400, "EntityTooLarge", ErrorKind::TooLarge),
            (413, "RequestBodyTooLarge", ErrorKind::TooLarge),
            (400, "InvalidResourceName", ErrorKind::KeyInvalid),
            (400, "SomethingNew", ErrorKind::Refused),
            (503, "ServerBusy", ErrorKind::Throttled),
            (500, "OperationTimedOut", ErrorKind::Unavailable),
            (502, "", ErrorKind::Unavailable),
            (304, "", ErrorKind::NotModified),
        ] {
            assert_eq!(kind_of(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn an_error_says_what_the_service_said() {
        let mut error = Error::from(ErrorCode::EntityAlreadyExists).at_index(3);
        error.0.request_id = Some("r1".to_owned());
        assert_eq!(error.code(), Some("EntityAlreadyExists"));
        assert_eq!(
            error.to_string(),
            "change 3: EntityAlreadyExists The specified entity already exists. (request r1)"
        );
    }
}
