//! Changes of an entity and of its index in one transaction of their partition, begun again when others were faster.

use super::{Listed, check_same_key, contended, is_conflict, missing};
use crate::table::{MAX_TRIES, Transaction, wait_after_conflict};
use crate::{EntityKey, Error, Table};

/// An index whose entries are in the partition of the entities.
pub(super) trait PartitionIndex<E>: Sync {
    fn table(&self) -> &Table<E>;

    fn partition_key(&self) -> &str;

    /// Adds to a transaction that the entity of this key is listed under a value. Does nothing if there is no value.
    fn add(
        &self,
        to: &mut Transaction,
        value: Option<&str>,
        key: &EntityKey,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Adds to a transaction that it is not listed there any more.
    fn take_out(
        &self,
        of: &mut Transaction,
        value: Option<&str>,
        key: &EntityKey,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    fn transaction(&self) -> Result<Transaction, Error> {
        self.table().transaction(self.partition_key())
    }
}

/// Changes an entity, and moves it in the index if its value has changed.
pub(super) async fn change<E: Listed>(
    index: &impl PartitionIndex<E>,
    key: &EntityKey,
    mut change: impl FnMut(&mut E) + Send,
) -> Result<(), Error> {
    for attempt in 0..MAX_TRIES {
        let mut entity = index.table().get(key).await?.ok_or_else(missing)?;
        let before = entity.listed_under().map(str::to_owned);
        change(&mut entity);
        check_same_key(&entity.entity, key)?;
        let mut transaction = index.transaction()?;
        transaction.replace(&entity.entity, &entity)?;
        if before.as_deref() != entity.listed_under() {
            index.take_out(&mut transaction, before.as_deref(), key).await?;
            index.add(&mut transaction, entity.listed_under(), key).await?;
        }
        if is_committed(transaction, attempt).await? {
            return Ok(());
        }
    }
    Err(contended())
}

/// Deletes an entity, and takes it out of the index.
pub(super) async fn remove<E: Listed>(index: &impl PartitionIndex<E>, key: &EntityKey) -> Result<(), Error> {
    for attempt in 0..MAX_TRIES {
        let entity = index.table().get(key).await?.ok_or_else(missing)?;
        let mut transaction = index.transaction()?;
        transaction.delete(key, &entity)?;
        index.take_out(&mut transaction, entity.listed_under(), key).await?;
        if is_committed(transaction, attempt).await? {
            return Ok(());
        }
    }
    Err(contended())
}

/// Commits. `false` after a conflict, and some time: decide anew.
async fn is_committed(transaction: Transaction, attempt: u32) -> Result<bool, Error> {
    match transaction.commit().await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) => {
            wait_after_conflict(attempt).await;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
