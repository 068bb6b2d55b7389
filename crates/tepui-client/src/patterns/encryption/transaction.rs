//! Transactions of encrypted entities.

use super::{EncryptedEntity, EncryptedTable, ReplaceEncryptedEntity};
use crate::{ETag, EntityKey, Error, Match, Transaction};
use std::fmt;

/// Changes of one partition that are made together or not at all, with entities that are encrypted when they are added.
///
/// ```
/// use tepui_client::DynamicEntity;
/// # use tepui_client::patterns::encryption::{AesKey, Policy};
/// # tepui_client_testing::run_with_table(async |people| {
/// # let people = people.encrypted(Policy::new(AesKey::new("2026-11", &[7; 32])?).encrypt(["Salary"]));
/// let mut hire = people.transaction("Sales")?;
/// hire.insert(&DynamicEntity::new("Sales", "000223").with("Salary", 71_000)).await?;
/// hire.plain().upsert_merge(&DynamicEntity::new("Sales", "department").with("Employees", 13))?;
/// assert_eq!(hire.commit().await?.len(), 2);
/// # Ok(()) });
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
