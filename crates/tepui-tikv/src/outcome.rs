//! Errors of the client, as errors of storage and outcomes of commits.

use tepui_storage::{CommitError, StorageError};
use tikv_client::{Error, ProtoKeyError, ProtoLockInfo};

/// The number of pessimistic locks in TiKV's protocol.
const EARLY_LOCK: i32 = 5;

/// Why a call failed that writes nothing. Whatever it was, it may pass.
pub(crate) fn unavailable(error: &Error) -> StorageError {
    StorageError::unavailable(format!("TiKV: {}", short(error)))
}

/// What became of a commit. It is a conflict only where the store has said so. The client reports as a plain error what may
/// have been committed, so all others are open.
pub(crate) fn commit_error(error: &Error) -> CommitError {
    match is_conflict(error) {
        true => CommitError::Conflict,
        false => CommitError::Unknown(format!("TiKV: {}", short(error))),
    }
}

/// Whether a store has answered about a key that the transaction cannot commit. Keys are either written first, all of them,
/// or the first of them is committed: that one answer is enough for certainty, whatever became of the others.
pub(crate) fn is_conflict(error: &Error) -> bool {
    match error {
        Error::PessimisticLockError { inner, .. } => is_conflict(inner),
        Error::KeyError(error) => is_key_conflict(error),
        Error::ResolveLockError(_) | Error::TxnNotFound(_) => true,
        Error::MultipleKeyErrors(errors) | Error::ExtractedErrors(errors) => errors.iter().any(is_conflict),
        _ => false,
    }
}

fn is_key_conflict(error: &ProtoKeyError) -> bool {
    error.conflict.is_some()
        || error.locked.is_some()
        || error.deadlock.is_some()
        || error.txn_not_found.is_some()
        || !error.retryable.is_empty()
        // The locks are gone: somebody has rolled the transaction back, because it took too long.
        || error.abort.contains("LockNotFound")
}

/// The version of a transaction that was not found, though there is a lock of it.
pub(crate) fn lost_transaction(error: &Error) -> Option<u64> {
    match error {
        Error::PessimisticLockError { inner, .. } => lost_transaction(inner),
        Error::KeyError(error) => error.txn_not_found.as_ref().map(|lost| lost.start_ts),
        Error::TxnNotFound(lost) => Some(lost.start_ts),
        Error::MultipleKeyErrors(errors) | Error::ExtractedErrors(errors) => {
            errors.iter().find_map(lost_transaction)
        }
        _ => None,
    }
}

/// The version of a transaction that has locked a key before it writes. One that was killed keeps such locks for 20 s, also if it has
/// written since: TiKV then leaves a lock the longer one of its two times.
pub(crate) fn early_lock(error: &Error) -> Option<u64> {
    match error {
        Error::PessimisticLockError { inner, .. } => early_lock(inner),
        Error::ResolveLockError(locks) => {
            let is_early =
                |lock: &&ProtoLockInfo| lock.lock_type == EARLY_LOCK || lock.lock_for_update_ts > 0;
            let early = locks.iter().filter(is_early);
            early.map(|lock| lock.lock_version).min()
        }
        Error::MultipleKeyErrors(errors) | Error::ExtractedErrors(errors) => {
            errors.iter().find_map(early_lock)
        }
        _ => None,
    }
}

/// The beginning of what an error says: some repeat all keys.
fn short(error: &Error) -> String {
    let text = error.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_error(change: impl FnOnce(&mut ProtoKeyError)) -> Error {
        let mut error = ProtoKeyError::default();
        change(&mut error);
        error.into()
    }

    #[test]
    fn only_what_a_store_has_refused_is_a_conflict() {
        let conflict = || key_error(|error| error.conflict = Some(Default::default()));
        let lost = || Error::StringError("connection lost".to_owned());
        for (case, error, is_conflict) in [
            ("conflict", conflict(), true),
            ("locked", key_error(|error| error.locked = Some(Default::default())), true),
            ("rolled back", key_error(|error| error.abort = "TxnLockNotFound".to_owned()), true),
            ("refused", key_error(|error| error.abort = "key is too large".to_owned()), false),
            (
                "one of several",
                Error::ExtractedErrors(vec![lost(), Error::MultipleKeyErrors(vec![conflict()])]),
                true,
            ),
            ("none of several", Error::ExtractedErrors(vec![lost(), lost()]), false),
            ("open", Error::UndeterminedError(Box::new(conflict())), false),
            ("lost", lost(), false),
        ] {
            assert_eq!(commit_error(&error) == CommitError::Conflict, is_conflict, "{case}");
        }
    }

    #[test]
    fn transactions_that_are_lost_are_found_in_any_error() {
        let mut lost = tikv_client::ProtoKeyError::default();
        lost.txn_not_found.get_or_insert_default().start_ts = 7;
        let error = || Error::from(lost.clone());
        assert_eq!(lost_transaction(&error()), Some(7));
        assert_eq!(lost_transaction(&Error::MultipleKeyErrors(vec![error()])), Some(7));
        let conflict = key_error(|error| error.conflict = Some(Default::default()));
        assert_eq!(lost_transaction(&Error::ExtractedErrors(vec![conflict])), None);
    }

    #[test]
    fn only_locks_that_were_taken_before_a_write_are_early() {
        let lock = |version, kind, locked_at| {
            let mut lock = ProtoLockInfo::default();
            (lock.lock_version, lock.lock_type, lock.lock_for_update_ts) = (version, kind, locked_at);
            lock
        };
        let held = |locks| Error::ExtractedErrors(vec![Error::ResolveLockError(locks)]);
        let (optimistic, early, written) = (lock(9, 0, 0), lock(8, EARLY_LOCK, 80), lock(7, 0, 70));
        assert_eq!(early_lock(&held(vec![optimistic.clone(), early.clone(), written.clone()])), Some(7));
        assert_eq!(early_lock(&held(vec![optimistic.clone(), early])), Some(8));
        assert_eq!(early_lock(&held(vec![written])), Some(7));
        assert_eq!(early_lock(&held(vec![optimistic])), None);
    }

    #[test]
    fn long_texts_are_cut() {
        let error = Error::StringError("ä".repeat(1000));
        assert_eq!(short(&error).chars().count(), 301);
    }
}
