//! One row for each member: the recommended form.

use super::in_transaction::{self, PartitionIndex};
use super::{ListIndex, Listed, with_value};
use crate::key::{KeyReader, KeyWriter};
use crate::table::Transaction;
use crate::{DynamicEntity, EntityKey, Error, Match, Table, Versioned};
use std::fmt;

/// An index within one partition: a row without properties for each entity, `{prefix}{value} {row key}`, of which those of one
/// value are a range.
///
/// Values are escaped such that they sort as text does. A value and a row key together have to fit into a key.
pub struct MemberRows<E> {
    table: Table<E>,
    partition_key: String,
    prefix: String,
}

impl<E: Listed> MemberRows<E> {
    /// An index of a partition. The prefix tells its rows from the entities and from other indexes, such as `ln_`.
    pub fn new(table: &Table<E>, partition_key: &str, prefix: &str) -> Result<Self, Error> {
        KeyWriter::new().literal(prefix).finish()?;
        // Marks say what became of a transaction whose answer was lost.
        let table = table.with_write_tokens();
        Ok(Self { table, partition_key: partition_key.to_owned(), prefix: prefix.to_owned() })
    }

    /// The keys of all entities whose values begin like this, in the order of the values.
    pub async fn keys_beginning(&self, start: &str) -> Result<Vec<EntityKey>, Error> {
        self.keys_of(&KeyWriter::new().literal(&self.prefix).ordered(start).finish()?).await
    }

    async fn keys_of(&self, row_prefix: &str) -> Result<Vec<EntityKey>, Error> {
        let rows = self.table.of::<DynamicEntity>();
        let rows = rows.query().partition(self.partition_key.as_str()).row_prefix(row_prefix).all().await?;
        rows.iter().map(|row| self.member(&row.key.row_key)).collect()
    }

    /// The entity that a row is for.
    fn member(&self, row_key: &str) -> Result<EntityKey, Error> {
        let other = |error| Error::decode("a row of the index is something else").with_source(error);
        let mut reader = KeyReader::new(row_key);
        reader.literal(&self.prefix).map_err(other)?;
        reader.ordered().map_err(other)?;
        reader.literal(" ").map_err(other)?;
        let row_key = reader.plain(crate::key::Until::End).map_err(other)?;
        Ok(EntityKey::new(self.partition_key.as_str(), row_key))
    }

    fn row(&self, value: &str, key: &EntityKey) -> Result<EntityKey, Error> {
        let row_key =
            KeyWriter::new().literal(&self.prefix).ordered(value).literal(" ").literal(&key.row_key);
        Ok(EntityKey::new(self.partition_key.as_str(), row_key.finish()?))
    }
}

impl<E: Listed> PartitionIndex<E> for MemberRows<E> {
    fn table(&self) -> &Table<E> {
        &self.table
    }

    fn partition_key(&self) -> &str {
        &self.partition_key
    }

    async fn add(&self, to: &mut Transaction, value: Option<&str>, key: &EntityKey) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        let row = self.row(value, key)?;
        to.upsert_replace(&DynamicEntity::new(row.partition_key, row.row_key))
    }

    async fn take_out(
        &self,
        of: &mut Transaction,
        value: Option<&str>,
        key: &EntityKey,
    ) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        of.delete(&self.row(value, key)?, Match::Any)
    }
}

impl<E: Listed> ListIndex<E> for MemberRows<E> {
    async fn insert(&self, entity: &E) -> Result<(), Error> {
        let mut transaction = self.transaction()?;
        transaction.insert(entity)?;
        self.add(&mut transaction, entity.listed_under(), &entity.entity_key()?).await?;
        transaction.commit().await.map(drop)
    }

    async fn change(&self, key: &EntityKey, change: impl FnMut(&mut E) + Send) -> Result<(), Error> {
        in_transaction::change(self, key, change).await
    }

    async fn remove(&self, key: &EntityKey) -> Result<(), Error> {
        in_transaction::remove(self, key).await
    }

    async fn keys(&self, value: &str) -> Result<Vec<EntityKey>, Error> {
        self.keys_of(&KeyWriter::new().literal(&self.prefix).ordered(value).literal(" ").finish()?).await
    }

    async fn find(&self, value: &str) -> Result<Vec<Versioned<E>>, Error> {
        Ok(with_value(self.table.get_many(self.keys(value).await?).await?, value))
    }
}

impl<E> fmt::Debug for MemberRows<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberRows")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
