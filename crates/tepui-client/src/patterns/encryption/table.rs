//! A table whose entities are encrypted.

use super::at_once::several_at_once;
use super::cipher::Place;
use super::{EncryptedEntity, EncryptedTransaction, Policy, ReplaceEncryptedEntity};
use crate::entity::RawEntity;
use crate::random;
use crate::{ETag, EntityKey, Error, ErrorKind, Match, StoredEntity, Table, Versioned};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::sleep;

const MAX_TRIES: u32 = 8;
/// The longest wait after the first conflict; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// A table that encrypts what it writes, and decrypts what it reads. Cheap to clone.
///
/// There is no `merge`:
///
/// ```compile_fail,E0599
/// # use tepui_client::{DynamicEntity, Error, Match};
/// # use tepui_client::patterns::encryption::EncryptedTable;
/// async fn merge(people: EncryptedTable<DynamicEntity>, entity: DynamicEntity) -> Result<(), Error> {
///     people.merge(&entity, Match::Any).await?; // What it leaves as it was could not be decrypted any more.
///     Ok(())
/// }
/// ```
pub struct EncryptedTable<E> {
    pub(super) table: Table<Sealed>,
    pub(super) policy: Policy,
    entity: PhantomData<fn() -> E>,
}

/// An entity whose properties are encrypted.
pub(super) type Sealed = RawEntity;

impl<E> Table<E> {
    /// The same table with entities that are encrypted as the policy says.
    ///
    /// ```
    /// # use tepui_client::patterns::encryption::{AesKey, Policy};
    /// # let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true")?;
    /// let policy = Policy::new(AesKey::new("2026", &[7; 32])?).encrypt(["Salary"]);
    /// let people = account.table("People")?.encrypted(policy);
    /// # Ok::<(), tepui_client::Error>(())
    /// ```
    pub fn encrypted(&self, policy: Policy) -> EncryptedTable<E> {
        EncryptedTable { table: self.of(), policy, entity: PhantomData }
    }
}

impl<E> Clone for EncryptedTable<E> {
    fn clone(&self) -> Self {
        self.of()
    }
}

impl<E> fmt::Debug for EncryptedTable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedTable").field(&self.table.name()).field(&self.policy).finish()
    }
}

impl<E> EncryptedTable<E> {
    /// The same table and policy with entities of another type, such as a projection.
    pub fn of<F>(&self) -> EncryptedTable<F> {
        EncryptedTable { table: self.table.clone(), policy: self.policy.clone(), entity: PhantomData }
    }

    pub fn name(&self) -> &str {
        self.table.name()
    }

    pub async fn create(&self) -> Result<(), Error> {
        self.table.create().await
    }

    /// Creates the table unless it is there. Says whether it was not.
    pub async fn create_if_missing(&self) -> Result<bool, Error> {
        self.table.create_if_missing().await
    }

    /// Deletes an entity. One that is not there is a [`NotFound`](ErrorKind::NotFound).
    pub async fn delete(&self, key: &EntityKey, condition: impl Into<Match>) -> Result<(), Error> {
        self.table.delete(key, condition).await
    }
}

impl<E: EncryptedEntity> EncryptedTable<E> {
    /// An entity by its keys; `None` if there is none.
    pub async fn get(&self, key: &EntityKey) -> Result<Option<Versioned<E>>, Error> {
        match self.table.get(key).await? {
            Some(found) => self.open(found, None).await.map(Some),
            None => Ok(None),
        }
    }

    /// Many entities by their keys, several at a time, in the order of the keys.
    pub async fn get_many(
        &self,
        keys: impl IntoIterator<Item = EntityKey>,
    ) -> Result<Vec<Option<Versioned<E>>>, Error> {
        let found = self.table.get_many(keys).await?;
        let open = async |found: Option<Versioned<Sealed>>| match found {
            Some(found) => self.open(found, None).await.map(Some),
            None => Ok(None),
        };
        several_at_once(found, open).await.into_iter().collect()
    }

    /// Adds an entity that is not there. One that is there is an [`AlreadyExists`](ErrorKind::AlreadyExists).
    pub async fn insert(&self, entity: &E) -> Result<ETag, Error> {
        self.table.insert(&self.seal(entity).await?).await
    }

    /// A transaction of one partition.
    pub fn transaction(&self, partition_key: impl Into<String>) -> Result<EncryptedTransaction<E>, Error> {
        Ok(EncryptedTransaction::new(self.clone(), self.table.transaction(partition_key)?))
    }

    pub(super) async fn seal(&self, entity: &E) -> Result<Sealed, Error> {
        let (key, plain) = (entity.entity_key()?, entity.to_properties()?);
        let place = Place { table: self.table.name(), key: &key };
        let properties = self.policy.seal(place, &plain, E::ENCRYPTED).await?;
        Ok(Sealed { key, properties })
    }

    /// `selected`: what was asked for, if not for all.
    pub(super) async fn open(
        &self,
        found: Versioned<Sealed>,
        selected: Option<&[String]>,
    ) -> Result<Versioned<E>, Error> {
        let Versioned { entity: Sealed { key, properties }, etag, timestamp } = found;
        let place = Place { table: self.table.name(), key: &key };
        let properties = self.policy.open(place, &properties, selected, E::ENCRYPTED).await?;
        let stored = StoredEntity { key, etag, timestamp, properties };
        Ok(Versioned { entity: E::from_stored(&stored)?, etag: stored.etag, timestamp })
    }
}

impl<E: ReplaceEncryptedEntity> EncryptedTable<E> {
    /// Puts an entity in the place of the one that is there: properties that it does not have are gone.
    pub async fn replace(&self, entity: &E, condition: impl Into<Match>) -> Result<ETag, Error> {
        self.table.replace(&self.seal(entity).await?, condition).await
    }

    /// Puts an entity in the place of the one that is there, or inserts it.
    pub async fn upsert_replace(&self, entity: &E) -> Result<ETag, Error> {
        self.table.upsert_replace(&self.seal(entity).await?).await
    }

    /// Changes an entity, and puts it in the place of what was read. If somebody else was faster, it is read and changed
    /// again: `change` may be called several times. After eight conflicts it is [`Contended`](ErrorKind::Contended).
    pub async fn modify(
        &self,
        key: &EntityKey,
        mut change: impl FnMut(&mut E),
    ) -> Result<Versioned<E>, Error> {
        for attempt in 0..MAX_TRIES {
            let missing = || Error::new(ErrorKind::NotFound, "there is no entity to modify");
            let mut found = self.get(key).await?.ok_or_else(missing)?;
            change(&mut found);
            if found.entity.entity_key()? != *key {
                return Err(Error::new(ErrorKind::Refused, "to modify an entity cannot change its keys"));
            }
            match self.replace(&found.entity, &found.etag).await {
                Ok(etag) => return Ok(Versioned { entity: found.entity, etag, timestamp: None }),
                Err(error) if error.kind() == ErrorKind::Conflict => wait_after_conflict(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }
}

/// Anything up to the longest: those who met here must not meet again.
pub(super) async fn wait_after_conflict(attempt: u32) {
    sleep((FIRST_WAIT * 2_u32.saturating_pow(attempt)).mul_f64(random::fraction())).await;
}

pub(super) fn contended() -> Error {
    Error::new(ErrorKind::Contended, "the entity was changed by others each time")
}

pub(super) fn tries() -> std::ops::Range<u32> {
    0..MAX_TRIES
}
