//! Accounts: made, changed, and marked as deleted.

use super::{
    AccountOrigin, AccountRecord, AccountStage, DelegationSecret, IdentityError, IdentityStore, MAX_ACCOUNTS,
    StoredKey, Switch, all_rows, next_version,
};
use crate::drops::catalogue_ranges;
use crate::keyspace;
use crate::record;
use crate::transact::{Attempt, Outcome, SpaceUse, commit, retry, storage_error};
use tepui_model::account::AccountKey;
use tepui_model::{ServiceError, Timestamp};
use tepui_storage::{Engine, Snapshot, Write};

/// An account that is to be made.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub keys: [AccountKey; 2],
    pub delegation: AccountKey,
    pub disabled: bool,
    pub allow_shared_keys: bool,
}

impl NewAccount {
    /// As nothing is configured of it, what it is compared with later is the default.
    fn record(&self, now: Timestamp) -> AccountRecord {
        let stored = |key: &AccountKey| Some(StoredKey { key: key.clone(), created: now, replaces: None });
        AccountRecord {
            stage: AccountStage::Live,
            origin: AccountOrigin::Created,
            created: now,
            changed: now,
            keys: self.keys.each_ref().map(stored),
            disabled: Some(Switch { value: self.disabled, configured: false }),
            allow_shared_keys: Some(Switch { value: self.allow_shared_keys, configured: true }),
            delegation: Some(DelegationSecret { secret: self.delegation.clone(), since: now }),
        }
    }
}

impl<E: Engine> IdentityStore<E> {
    /// Makes an account, which is empty. The caller knows that the configuration has none of that name.
    pub async fn create(&self, name: &str, new: &NewAccount) -> Result<AccountRecord, IdentityError> {
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            match account(&transaction, name).await? {
                Some(AccountRecord { stage: AccountStage::Deleting, .. }) => {
                    return Err(IdentityError::BeingDeleted);
                }
                Some(AccountRecord { stage: AccountStage::Live, origin: AccountOrigin::Created, .. }) => {
                    return Err(IdentityError::AccountExists);
                }
                _ => {}
            }
            // Whatever makes something of it has the row as a guard, so nothing is added meanwhile.
            if has_data(&transaction, name).await? {
                return Err(IdentityError::HasData);
            }
            if live_accounts(&transaction).await? >= MAX_ACCOUNTS {
                return Err(IdentityError::TooMany);
            }
            let record = new.record(self.clock.tick());
            self.put(transaction, name, record).await
        })
        .await
    }

    /// Changes an account. One that is configured need not have a row before.
    pub async fn edit(
        &self,
        name: &str,
        is_configured: bool,
        change: impl Fn(&mut AccountRecord, Timestamp),
    ) -> Result<AccountRecord, IdentityError> {
        let change = &change;
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let now = self.clock.tick();
            let mut record = match account(&transaction, name).await? {
                Some(record) if record.stage == AccountStage::Live => {
                    if record.origin == AccountOrigin::Configured && !is_configured {
                        return Err(IdentityError::NoSuchAccount);
                    }
                    record
                }
                Some(record) if record.stage == AccountStage::Deleting => {
                    return Err(IdentityError::NoSuchAccount);
                }
                _ if is_configured => AccountRecord::configured(now),
                _ => return Err(IdentityError::NoSuchAccount),
            };
            change(&mut record, now);
            record.changed = now;
            self.put(transaction, name, record).await
        })
        .await
    }

    /// Marks an account that was made here as deleted, and forgets its secrets. What is in it is deleted by
    /// [`finish_deletion`](Self::finish_deletion).
    pub async fn begin_deletion(&self, name: &str) -> Result<(), IdentityError> {
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let record = match account(&transaction, name).await? {
                Some(record) if record.stage == AccountStage::Deleting => return Ok(Attempt::Done(())),
                Some(record)
                    if record.stage == AccountStage::Live && record.origin == AccountOrigin::Created =>
                {
                    record
                }
                _ => return Err(IdentityError::NoSuchAccount),
            };
            let now = self.clock.tick();
            let marked = AccountRecord {
                stage: AccountStage::Deleting,
                origin: AccountOrigin::Created,
                created: record.created,
                ..AccountRecord::configured(now)
            };
            Ok(match self.put(transaction, name, marked).await? {
                Attempt::Done(_) => Attempt::Done(()),
                Attempt::Retry(()) => Attempt::Retry(()),
                Attempt::Continue(()) => Attempt::Continue(()),
            })
        })
        .await
    }

    /// Forgets accounts that were deleted before a time, when no request that began before can be under way.
    pub async fn forget_deleted(&self, before: Timestamp) -> Result<(), ServiceError> {
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let mut writes = Vec::new();
            for (key, row) in all_rows(&transaction, keyspace::accounts()).await? {
                let record = AccountRecord::decode(&row)?;
                if record.stage == AccountStage::Deleted && record.changed < before {
                    writes.push(Write::Delete(key));
                }
            }
            if !writes.is_empty() {
                writes.push(next_version(&transaction).await?);
            }
            let outcome = Outcome { reply: (), guards: Vec::new(), writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
        })
        .await
    }

    /// The secret from which those of all accounts follow that have none of their own. It is `random` if there is none yet.
    pub async fn make_server_secret(&self, random: &AccountKey) -> Result<AccountKey, ServiceError> {
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let key = keyspace::server_secret();
            if let Some(row) = transaction.get(&key).await.map_err(storage_error)? {
                return Ok(Attempt::Done(record::decode_secret(&row)?));
            }
            let writes =
                vec![next_version(&transaction).await?, Write::Put(key, record::encode_secret(random))];
            let outcome = Outcome { reply: random.clone(), guards: Vec::new(), writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Commits the row of an account.
    pub(super) async fn put(
        &self,
        transaction: E::Transaction,
        name: &str,
        record: AccountRecord,
    ) -> Result<Attempt<AccountRecord>, IdentityError> {
        let row = Write::Put(keyspace::account(name), record.encode());
        let writes = vec![next_version(&transaction).await?, row];
        let outcome = Outcome { reply: record, guards: Vec::new(), writes };
        let committed = commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await;
        Ok(committed.map_err(ServiceError::from)?)
    }
}

/// The row of an account.
pub(super) async fn account<S: Snapshot>(
    snapshot: &S,
    name: &str,
) -> Result<Option<AccountRecord>, ServiceError> {
    let row = snapshot.get(&keyspace::account(name)).await.map_err(storage_error)?;
    row.map(|row| AccountRecord::decode(&row)).transpose()
}

/// Whether there are tables, queues, containers or settings of an account.
async fn has_data<S: Snapshot>(snapshot: &S, name: &str) -> Result<bool, ServiceError> {
    for range in catalogue_ranges(Some(name), None) {
        if let Some((key, _)) = snapshot.first(&range).await.map_err(storage_error)?
            && keyspace::is_catalogue_row(&key)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn live_accounts<S: Snapshot>(snapshot: &S) -> Result<usize, ServiceError> {
    let mut count = 0;
    for (_, row) in all_rows(snapshot, keyspace::accounts()).await? {
        count += usize::from(record::account_stage(&row)? == AccountStage::Live);
    }
    Ok(count)
}
