//! Entries of indexes.

use super::TypedEntity;
use crate::{EntityKey, Error, Table, Versioned};

/// An entry of an index: a row with another key, and some or all of the properties of an entity. `#[index(…)]` of
/// `#[derive(Entity)]` makes a type of its own for each index, so that an entry is never taken for the entity: what it has
/// not copied, it does not have.
pub trait IndexEntry: TypedEntity {
    /// The entity that it is an entry for.
    type Primary: TypedEntity;

    /// The key of that entity.
    fn primary_key(&self) -> Result<EntityKey, Error>;
}

impl<E: TypedEntity> Table<E> {
    /// The entity that an entry of an index is for, as it is now. `None` if it is gone. An index that is kept up to date by
    /// way of a queue may be behind.
    pub async fn get_primary<I: IndexEntry<Primary = E>>(
        &self,
        entry: &I,
    ) -> Result<Option<Versioned<E>>, Error> {
        self.get(&entry.primary_key()?).await
    }
}
