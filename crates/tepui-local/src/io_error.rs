//! Errors of the operating system as errors of storage: one mapping for all.

use std::io::{self, ErrorKind};
use tepui_storage::{StorageError, StorageErrorKind};

/// `message` says what failed; the error itself becomes the source.
pub(crate) fn io_error(error: &io::Error, message: impl Into<String>) -> StorageError {
    let kind = match error.kind() {
        // A file is missing, too short or damaged.
        ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => StorageErrorKind::Corrupt,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageErrorKind::NoSpace,
        _ => StorageErrorKind::Failed,
    };
    // Errors of the system cannot be cloned.
    let source = match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    };
    StorageError::new(kind, message).with_source(source)
}
