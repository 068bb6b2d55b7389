//! Errors of PostgreSQL, as errors of storage and outcomes of commits.

use tepui_storage::{CommitError, StorageError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// What is to become of the connection on which a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can be used again, once the transaction is rolled back.
    Keep,
    /// It is of no use, and others like it probably neither: the server is gone, or does not accept writes any more.
    Suspect,
}

/// A failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: StorageError,
    pub(crate) verdict: Verdict,
}

impl Failure {
    fn keep(error: StorageError) -> Self {
        Self { error, verdict: Verdict::Keep }
    }

    fn suspect(error: StorageError) -> Self {
        Self { error, verdict: Verdict::Suspect }
    }

    pub(crate) fn timed_out() -> Self {
        Self::suspect(StorageError::unavailable("PostgreSQL did not answer in time"))
    }
}

/// The server's words, without the detail, which may show keys.
pub(crate) fn message(error: &DbError) -> String {
    format!("PostgreSQL: {} ({})", error.message(), error.code().code())
}

/// A failed read, or a failed statement of a commit, which is rolled back then.
pub(crate) fn failure(error: Error) -> Failure {
    let Some(known) = error.as_db_error() else {
        return match error.is_closed() || is_network(&error) {
            true => Failure::suspect(StorageError::unavailable("the connection to PostgreSQL was lost")),
            false => {
                Failure::suspect(StorageError::failed("PostgreSQL cannot be understood").with_source(error))
            }
        };
    };
    let (code, message) = (known.code(), message(known));
    match code.code().get(..2).unwrap_or_default() {
        _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN => {
            Failure::keep(StorageError::failed(format!("{message}; `tepui storage init` makes the schema")))
        }
        _ if *code == SqlState::DISK_FULL => Failure::keep(StorageError::no_space(message)),
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => Failure::keep(StorageError::busy(message)),
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            Failure::suspect(StorageError::unavailable(message))
        }
        _ if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            Failure::keep(StorageError::corrupt(message))
        }
        // Cached plans after the schema has changed.
        _ if *code == SqlState::FEATURE_NOT_SUPPORTED => Failure::suspect(StorageError::unavailable(message)),
        // What a transaction reads is not kept, or it was rolled back or ended by the server.
        "40" => Failure::keep(StorageError::too_old(message)),
        "25" => Failure::suspect(StorageError::too_old(message)),
        "53" => Failure::keep(StorageError::busy(message)),
        "08" | "57" => Failure::suspect(StorageError::unavailable(message)),
        _ => Failure::keep(StorageError::failed(message)),
    }
}

/// Whether a statement was refused because of other transactions.
pub(crate) fn is_conflict(error: &Error) -> bool {
    const CONFLICTS: [SqlState; 4] = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_INTEGRITY_CONSTRAINT_VIOLATION,
    ];
    error.code().is_some_and(|code| CONFLICTS.contains(code))
}

/// What COMMIT itself has answered, after all statements before it have succeeded. Only a word of the server that it was
/// rolled back is a definite failure.
pub(crate) fn commit_failure(error: &Error) -> CommitError {
    match error.as_db_error() {
        Some(_) if is_conflict(error) => CommitError::Conflict,
        Some(known) => CommitError::Unknown(message(known)),
        None => CommitError::Unknown("the connection to PostgreSQL was lost during COMMIT".to_owned()),
    }
}

/// Why no connection could be made.
pub(crate) fn connect_failure(host: &str, error: Error) -> StorageError {
    let source = std::error::Error::source(&error);
    let why = match error.as_db_error() {
        Some(known) => message(known),
        None => source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    };
    let message = format!("cannot connect to {host}: {why}");
    let wrong = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ];
    match error.code() {
        Some(code) if wrong.contains(code) => StorageError::failed(message),
        _ => StorageError::unavailable(message),
    }
}

fn is_network(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}
