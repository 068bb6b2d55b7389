//! Errors of the operating system as errors of storage: one mapping for all.

use std::io::{self, ErrorKind};
use tepui_storage::{EngineError, ExtentError};

/// An error of storage that can be made of an I/O error.
pub(crate) trait FromIoError {
    fn no_space(message: String) -> Self;
    fn corrupt(message: String) -> Self;
    fn failed(message: String) -> Self;
}

impl FromIoError for EngineError {
    fn no_space(message: String) -> Self {
        Self::NoSpace(message)
    }

    fn corrupt(message: String) -> Self {
        Self::Corrupt(message)
    }

    fn failed(message: String) -> Self {
        Self::Failed(message)
    }
}

impl FromIoError for ExtentError {
    fn no_space(message: String) -> Self {
        Self::NoSpace(message)
    }

    fn corrupt(message: String) -> Self {
        Self::Corrupt(message)
    }

    fn failed(message: String) -> Self {
        Self::Failed(message)
    }
}

pub(crate) fn io_error<E: FromIoError>(error: &io::Error, message: String) -> E {
    match error.kind() {
        // A file is missing, too short or damaged.
        ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => E::corrupt(message),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => E::no_space(message),
        _ => E::failed(message),
    }
}
