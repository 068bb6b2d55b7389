//! Transactions of encrypted entities.

use super::{EncryptedEntity, EncryptedTable, ReplaceEncryptedEntity};
use crate::{ETag, EntityKey, Error, Match, Transaction};
use std::fmt;

/// Changes of one partition that are made together or not at all, with entities that are encrypted when they are added.
///
/// ```no_run
/// # use tepui_client::{DynamicEntity, EntityKey, Error, Match, patterns::encryption::EncryptedTable};
/// # async fn example(people: EncryptedTable<DynamicEntity>, hired: DynamicEntity) -> Result<(), Error> {
/// let mut hire = people.transaction("Sales")?;
/// hire.insert(&hired).await?;
/// hire.delete(&EntityKey::new("Sales", "candidate_7"), Match::Any)?;
/// hire.plain().upsert_merge(&DynamicEntity::new("Sales", "department").with("Employees", 13))?;
/// hire.commit().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is changed before it is committed"]
pub struct EncryptedTransaction<E> {
    table: EncryptedTable<E>,
    transaction: Transaction,
}

impl<E: EncryptedEntity> EncryptedTransaction<E> {
    pub(super) fn new(table: EncryptedTable<E>, transaction: Transaction) -> Self {
        Self { table, transaction }
    }

    pub async fn insert(&mut self, entity: &E) -> Result<(), Error> {
        self.transaction.insert(&self.table.seal(entity).await?)
    }

    pub fn delete(&mut self, key: &EntityKey, condition: impl Into<Match>) -> Result<(), Error> {
        self.transaction.delete(key, condition)
    }

    /// For entities of the same partition that are not encrypted.
    pub fn plain(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    /// Makes all changes or none: see [`Transaction::commit`].
    pub async fn commit(self) -> Result<Vec<Option<ETag>>, Error> {
        self.transaction.commit().await
    }
}

impl<E: ReplaceEncryptedEntity> EncryptedTransaction<E> {
    pub async fn replace(&mut self, entity: &E, condition: impl Into<Match>) -> Result<(), Error> {
        self.transaction.replace(&self.table.seal(entity).await?, condition)
    }

    pub async fn upsert_replace(&mut self, entity: &E) -> Result<(), Error> {
        self.transaction.upsert_replace(&self.table.seal(entity).await?)
    }
}

impl<E> fmt::Debug for EncryptedTransaction<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedTransaction").field(&self.transaction).finish()
    }
}
