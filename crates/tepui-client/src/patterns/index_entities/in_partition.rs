//! A list for each value, in the partition of its entities.

use super::in_transaction::{self, PartitionIndex};
use super::key_list::KeyList;
use super::{ListIndex, Listed, contended, is_conflict, with_value};
use crate::key::KeyWriter;
use crate::table::{MAX_TRIES, Transaction, wait_after_conflict};
use crate::{EntityKey, Error, ErrorKind, Table, Versioned};
use std::collections::BTreeSet;
use std::fmt;

/// An index within one partition: an entity for each value, `{prefix}{value}`, with the row keys of all entities that have
/// it.
///
/// A change of the value is one transaction of three entities: the entity itself and both lists, each in the version that
/// was read.
pub struct InPartition<E> {
    table: Table<E>,
    partition_key: String,
    prefix: String,
}

impl<E: Listed> InPartition<E> {
    /// An index of a partition. The prefix tells its lists from the entities and from other indexes, such as `ln_`.
    pub fn new(table: &Table<E>, partition_key: &str, prefix: &str) -> Result<Self, Error> {
        KeyWriter::new().literal(prefix).finish()?;
        // Marks say what became of a transaction whose answer was lost.
        let table = table.with_write_tokens();
        Ok(Self { table, partition_key: partition_key.to_owned(), prefix: prefix.to_owned() })
    }

    fn list_key(&self, value: &str) -> Result<EntityKey, Error> {
        let row_key = KeyWriter::new().literal(&self.prefix).ordered(value).finish()?;
        Ok(EntityKey::new(self.partition_key.as_str(), row_key))
    }

    /// Adds a change of the list of a value, in the version that is there now. An empty list is deleted.
    async fn change_list(
        &self,
        transaction: &mut Transaction,
        value: Option<&str>,
        change: impl FnOnce(&mut BTreeSet<String>) -> bool + Send,
    ) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        let key = self.list_key(value)?;
        let found = self.table.of::<KeyList>().get(&key).await?;
        let mut list = match &found {
            Some(found) => found.entity.clone(),
            None => KeyList { key: key.clone(), row_keys: BTreeSet::new() },
        };
        // There is nothing to write if it was so already.
        if !change(&mut list.row_keys) {
            return Ok(());
        }
        match found {
            Some(found) if list.row_keys.is_empty() => transaction.delete(&key, &found),
            Some(found) => transaction.replace(&list, &found),
            None if list.row_keys.is_empty() => Ok(()),
            None => transaction.insert(&list),
        }
    }
}

impl<E: Listed> PartitionIndex<E> for InPartition<E> {
    fn table(&self) -> &Table<E> {
        &self.table
    }

    fn partition_key(&self) -> &str {
        &self.partition_key
    }

    async fn add(&self, to: &mut Transaction, value: Option<&str>, key: &EntityKey) -> Result<(), Error> {
        self.change_list(to, value, |row_keys| row_keys.insert(key.row_key.clone())).await
    }

    async fn take_out(
        &self,
        of: &mut Transaction,
        value: Option<&str>,
        key: &EntityKey,
    ) -> Result<(), Error> {
        self.change_list(of, value, |row_keys| row_keys.remove(&key.row_key)).await
    }
}

impl<E: Listed> ListIndex<E> for InPartition<E> {
    async fn insert(&self, entity: &E) -> Result<(), Error> {
        let key = entity.entity_key()?;
        for attempt in 0..MAX_TRIES {
            let mut transaction = self.transaction()?;
            transaction.insert(entity)?;
            self.add(&mut transaction, entity.listed_under(), &key).await?;
            match transaction.commit().await {
                Ok(_) => return Ok(()),
                Err(error) if is_conflict(&error) => {
                    // The list or the entity? Services do not all say which change it was.
                    if error.kind() == ErrorKind::AlreadyExists && self.table.get(&key).await?.is_some() {
                        return Err(error);
                    }
                    wait_after_conflict(attempt).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }

    async fn change(&self, key: &EntityKey, change: impl FnMut(&mut E) + Send) -> Result<(), Error> {
        in_transaction::change(self, key, change).await
    }

    async fn remove(&self, key: &EntityKey) -> Result<(), Error> {
        in_transaction::remove(self, key).await
    }

    async fn keys(&self, value: &str) -> Result<Vec<EntityKey>, Error> {
        let list = self.table.of::<KeyList>().get(&self.list_key(value)?).await?;
        let row_keys = list.map(|list| list.into_inner().row_keys).unwrap_or_default();
        Ok(row_keys.into_iter().map(|row_key| EntityKey::new(self.partition_key.as_str(), row_key)).collect())
    }

    async fn find(&self, value: &str) -> Result<Vec<Versioned<E>>, Error> {
        Ok(with_value(self.table.get_many(self.keys(value).await?).await?, value))
    }
}

impl<E> fmt::Debug for InPartition<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPartition")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
