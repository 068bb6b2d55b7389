//! Keys of accounts and role assignments.

use super::{KeyWriter, read_text, space};
use std::borrow::Cow;
use tepui_storage::{Key, KeyRange};

/// The row of an account.
pub(crate) fn account(name: &str) -> Key {
    KeyWriter::new(space::ACCOUNT).last_text(name).finish()
}

/// The rows of all accounts.
pub(crate) fn accounts() -> KeyRange {
    KeyRange {
        start: KeyWriter::new(space::ACCOUNT).finish(),
        end: KeyWriter::new(space::ACCOUNT).after_all(),
    }
}

/// The name inside a key of [`accounts`].
pub(crate) fn account_name(key: &[u8]) -> Option<Cow<'_, str>> {
    read_text(key.get(1..)?)
}

/// A role assignment.
pub(crate) fn role_assignment(id: u128) -> Key {
    KeyWriter::new(space::ROLE_ASSIGNMENT).number((id >> 64) as u64).number(id as u64).finish()
}

/// All role assignments.
pub(crate) fn role_assignments() -> KeyRange {
    KeyRange {
        start: KeyWriter::new(space::ROLE_ASSIGNMENT).finish(),
        end: KeyWriter::new(space::ROLE_ASSIGNMENT).after_all(),
    }
}

/// The id inside a key of [`role_assignments`].
pub(crate) fn role_assignment_id(key: &[u8]) -> Option<u128> {
    key.get(1..)?.try_into().ok().map(u128::from_be_bytes)
}

/// The secret of all accounts that have none of their own.
pub(crate) fn server_secret() -> Key {
    KeyWriter::new(space::SERVER_SECRET).finish()
}

/// The version of accounts and role assignments, which every change of them raises.
pub(crate) fn identity_version() -> Key {
    KeyWriter::new(space::COUNTER).last_text("identity").finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        assert_eq!(account_name(&account("people")).as_deref(), Some("people"));
        assert!(accounts().contains(&account("people")) && !accounts().contains(&role_assignment(1)));
        for id in [0, 7, u128::MAX] {
            assert_eq!(role_assignment_id(&role_assignment(id)), Some(id));
            assert!(role_assignments().contains(&role_assignment(id)));
        }
        assert_eq!(role_assignment_id(b"short"), None);
    }
}
