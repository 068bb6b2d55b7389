//! What errors of the store of objects mean.

use object_store::Error;
use std::error::Error as StdError;
use tepui_storage::StorageError;

/// Why a call failed. Nothing in it says that the call was not carried out: it is the answer to the last attempt, and one
/// before it may have been carried out without an answer.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) error: StorageError,
    /// There is no such object.
    pub(crate) is_not_found: bool,
    /// There is such an object, which was to be created.
    pub(crate) is_there: bool,
}

impl CallError {
    /// No answer in time.
    pub(crate) fn late(what: &str) -> Self {
        Self::unavailable(format!("no answer in time: {what}"))
    }

    pub(crate) fn unavailable(message: String) -> Self {
        let error = StorageError::unavailable(message);
        Self { error, is_not_found: false, is_there: false }
    }

    /// `what`: what was to be done, for people. Credentials are in no message: what the store says about permissions, which may
    /// repeat them, is left out.
    pub(crate) fn new(what: &str, error: Error) -> Self {
        let refused = |error| Self { error, is_not_found: false, is_there: false };
        match error {
            Error::NotFound { .. } => Self {
                is_not_found: true,
                ..refused(StorageError::failed(format!("no such object, or no such bucket: {what}")))
            },
            Error::AlreadyExists { .. } | Error::Precondition { .. } => Self {
                is_there: true,
                ..refused(StorageError::failed(format!("it is there already: {what}")))
            },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                let message = format!(
                    "the store of objects refuses it: check the credentials, what they permit, and the clock: {what}"
                );
                refused(StorageError::failed(message))
            }
            Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::InvalidPath { .. }
            | Error::UnknownConfigurationKey { .. }
            // Memory is always available.
            | Error::Generic { store: "InMemory", .. } => {
                refused(StorageError::failed(what.to_owned()).with_source(error))
            }
            error => match status(&error) {
                Some(507) => refused(StorageError::no_space(what.to_owned()).with_source(error)),
                // Too slow, and too much at once.
                Some(status) if (400..500).contains(&status) && status != 408 && status != 429 => {
                    refused(StorageError::failed(what.to_owned()).with_source(error))
                }
                _ => {
                    let unavailable = StorageError::unavailable(what.to_owned()).with_source(error);
                    Self {
                        error: unavailable,
                        is_not_found: false,
                        is_there: false,
                    }
                }
            },
        }
    }
}

impl From<CallError> for StorageError {
    fn from(error: CallError) -> Self {
        error.error
    }
}

/// The HTTP status of an error, which `object_store` only has in the text of its cause.
fn status(error: &Error) -> Option<u16> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        let digits = text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        if digits.is_some() {
            return digits;
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::StorageErrorKind;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn kinds_say_what_to_do() {
        let not_found = Error::NotFound { path: String::new(), source: "x".into() };
        for (error, kind) in [
            (generic("Server returned non-2xx status code: 503 x"), StorageErrorKind::Unavailable),
            (generic("Server returned non-2xx status code: 429 x"), StorageErrorKind::Unavailable),
            (generic("Server returned non-2xx status code: 400 x"), StorageErrorKind::Failed),
            (generic("Server returned non-2xx status code: 507 x"), StorageErrorKind::NoSpace),
            (generic("connection reset"), StorageErrorKind::Unavailable),
            (not_found, StorageErrorKind::Failed),
        ] {
            let text = error.to_string();
            assert_eq!(CallError::new("x", error).error.kind(), kind, "{text}");
        }
    }

    #[test]
    fn what_a_store_says_about_permissions_is_left_out() {
        let source = "Server returned non-2xx status code: 403: <AWSAccessKeyId>AKIASECRET</AWSAccessKeyId>";
        let error = Error::PermissionDenied { path: String::new(), source: source.into() };
        let error = CallError::new("an extent cannot be put", error).error;
        assert!(!error.to_string().contains("AKIA") && error.to_string().contains("credentials"), "{error}");
    }
}
