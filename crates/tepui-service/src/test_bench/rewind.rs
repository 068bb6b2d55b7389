//! What becomes of each row when everything goes back to a snapshot. Most are as they were; some must never go back.

use crate::identity::{AccountOrigin, AccountRecord, AccountStage};
use crate::keyspace::{self, space};
use crate::record::{self, StoredExtent};
use crate::transact::storage_error;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::rewindable::Rewound;
use tepui_storage::{CommitError, Key, Value, Write};

/// A failure of a rewind.
pub(super) enum RewindError {
    Commit(CommitError),
    Service(ServiceError),
}

impl From<CommitError> for RewindError {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

impl From<ServiceError> for RewindError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<RewindError> for ServiceError {
    fn from(error: RewindError) -> Self {
        match error {
            RewindError::Service(error) => error,
            RewindError::Commit(CommitError::Storage(error)) => storage_error(error),
            RewindError::Commit(error) => Self::new(ErrorCode::InternalError).with_cause(error),
        }
    }
}

pub(super) fn decide(key: &Key, now: Option<&Value>, then: Option<&Value>) -> Result<Rewound, RewindError> {
    let exactly = |value: Option<&Value>| Rewound { value: value.cloned(), also: None };
    Ok(match key.first().copied().unwrap_or_default() {
        // No number is used twice; a lease is of those who work now; what was swept stays so.
        space::COUNTER
        | space::WORK_LEASE
        | space::NODE
        | space::VOLUME
        | space::INSTALLATION
        | space::SERVER_SECRET => exactly(now.or(then)),
        // Accounts and roles are not what tests begin with: they stay. What was in an account that is deleted comes back and has to
        // be deleted once more.
        space::ACCOUNT => match now.map(|row| AccountRecord::decode(row)).transpose()? {
            Some(account) if account.stage == AccountStage::Deleted => {
                let again = AccountRecord { stage: AccountStage::Deleting, ..account };
                Rewound { value: Some(again.encode()), also: None }
            }
            Some(_) => exactly(now),
            // It was deleted so long ago that its name is forgotten.
            None => match then.map(|row| AccountRecord::decode(row)).transpose()? {
                Some(account) if account.origin == AccountOrigin::Created => {
                    let again = AccountRecord {
                        stage: AccountStage::Deleting,
                        keys: [None, None],
                        delegation: None,
                        ..account
                    };
                    Rewound { value: Some(again.encode()), also: None }
                }
                _ => exactly(None),
            },
        },
        space::ROLE_ASSIGNMENT => exactly(now),
        // What is cached is valid as long as the version is the same.
        space::CATALOGUE_VERSION => {
            let version = now.map_or(Ok(0), |row| record::decode_number(row))?;
            Rewound { value: Some(record::encode_number(version + 1)), also: None }
        }
        space::EXTENT | space::EXTENT_IN_STORE => {
            Rewound { value: then.cloned(), also: garbage(key, now, then)? }
        }
        // See above: what was written and deleted since is still to be freed.
        space::FREE_EXTENT | space::FREE_EXTENT_IN_STORE => exactly(now.or(then)),
        _ => exactly(then),
    })
}

/// The change of the GC record of an extent. No snapshot has one of an extent that was written later.
fn garbage(key: &Key, now: Option<&Value>, then: Option<&Value>) -> Result<Option<Write>, ServiceError> {
    let record = |row: &Value| -> Result<(Key, u64), ServiceError> {
        let bytes = StoredExtent::decode(row)?.bytes;
        let extent = keyspace::extent_at(key, bytes).ok_or(ErrorCode::InternalError)?;
        Ok((keyspace::free_extent(extent), bytes))
    };
    Ok(match (now, then) {
        // Nothing will refer to it.
        (Some(row), None) => {
            let (gc_record, bytes) = record(row)?;
            Some(Write::Put(gc_record, record::encode_number(bytes)))
        }
        // It is referred to again. Its record sorts before it, so this write is the last.
        (None, Some(row)) => Some(Write::Delete(record(row)?.0)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{DelegationSecret, StoredKey};
    use tepui_model::account::AccountKey;
    use tepui_storage::{Extent, StoreId};

    #[test]
    fn what_goes_back_and_what_does_not() {
        let number = |number| Some(record::encode_number(number));
        let extent = Extent { store: StoreId::LOCAL, volume: 3, offset: 4, bytes: 500 };
        let counted = Some(StoredExtent { bytes: 500, references: 2 }.encode());
        let gc_record = keyspace::free_extent(extent);
        let freed = Some(Write::Put(gc_record.clone(), record::encode_number(500)));
        let kept = Some(Write::Delete(gc_record.clone()));
        let version = Key::from_static(keyspace::catalogue_version(7));
        let table = keyspace::table("account", "table");
        let account = |stage| {
            let created = tepui_model::Timestamp::MIN;
            Some(AccountRecord { stage, ..AccountRecord::configured(created) }.encode())
        };
        let (live, deleting, deleted) =
            (account(AccountStage::Live), account(AccountStage::Deleting), account(AccountStage::Deleted));
        let people = keyspace::account("people");
        let made_here = |stage, secret: Option<&[u8]>| {
            let created = tepui_model::Timestamp::MIN;
            let key = secret.map(|secret| AccountKey::new(secret.to_vec()));
            let delegation = key.clone().map(|secret| DelegationSecret { secret, since: created });
            let keys = [key.map(|key| StoredKey { key, created, replaces: None }), None];
            let configured = AccountRecord::configured(created);
            let origin = AccountOrigin::Created;
            Some(AccountRecord { stage, origin, keys, delegation, ..configured }.encode())
        };
        let (was_made, is_deleted_again) =
            (made_here(AccountStage::Live, Some(b"secret")), made_here(AccountStage::Deleting, None));
        for (case, key, now, then, value, also) in [
            ("a new account", people.clone(), live.clone(), None, live.clone(), None),
            ("a deleted account", people.clone(), deleted, live.clone(), deleting.clone(), None),
            ("one that is being deleted", people.clone(), deleting.clone(), live.clone(), deleting, None),
            ("one that was deleted long ago", people.clone(), None, was_made, is_deleted_again, None),
            ("one that was configured", people, None, live, None, None),
            ("a role that was taken away", keyspace::role_assignment(7), None, number(1), None, None),
            ("a row", table.clone(), number(2), number(1), number(1), None),
            ("a new row", table.clone(), number(2), None, None, None),
            ("a deleted row", table, None, number(1), number(1), None),
            ("a counter", keyspace::incarnation_counter(), number(9), number(5), number(9), None),
            ("a version", version.clone(), number(9), number(5), number(10), None),
            ("a first version", version, None, None, number(1), None),
            ("a new extent", keyspace::extent(extent), counted.clone(), None, None, freed),
            ("a deleted extent", keyspace::extent(extent), None, counted.clone(), counted.clone(), kept),
            ("an old extent", keyspace::extent(extent), counted.clone(), counted.clone(), counted, None),
            ("garbage", gc_record.clone(), number(500), None, number(500), None),
            ("no garbage", gc_record, None, None, None, None),
        ] {
            let rewound = decide(&key, now.as_ref(), then.as_ref()).map_err(ServiceError::from);
            assert_eq!(rewound.unwrap(), Rewound { value, also }, "{case}");
        }
    }
}
