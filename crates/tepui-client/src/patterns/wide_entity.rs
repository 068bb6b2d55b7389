//! Wide entities pattern: an entity with more properties, or more bytes, than one entity can have.
//!
//! An entity has at most 252 properties and 1 MiB. What is larger is kept in several rows of one partition, which
//! [`WideTable`] writes in one transaction and puts together when it reads them: `{row}~00`, `{row}~01` and so on, filled in
//! the order of the properties.
//!
//! Every write gives all rows of an entity a new `_Generation`. Rows may be read in several pages, between which somebody
//! writes: a reader compares their generations and reads again if they are not all of one write. So it never returns a
//! mixture of two writes.
//!
//! Use it for up to 4 MiB, which is what a transaction takes. More, or single values of more than 64 KiB, are blobs: see
//! [`large_entity`](super::large_entity). Do not use it for what is mostly read in parts: entities of their own are
//! cheaper then.
//!
//! ```
//! use tepui_client::patterns::wide_entity::WideTable;
//! use tepui_client::{DynamicEntity, EntityKey};
//!
//! # tepui_client_testing::run(async |account| {
//! let table = account.table("Messages")?;
//! table.create_if_missing().await?;
//! let wide = WideTable::new(&table);
//! let mut year = DynamicEntity::new("emp7", "2026");
//! for day in 0..365 {
//!     year.set(format!("D{day:03}"), day * 3);
//! }
//! wide.insert(&year).await?;
//! let key = EntityKey::new("emp7", "2026");
//! wide.modify(&key, |year| year.set("D364", 0)).await?;
//! let read = wide.get(&key).await?.ok_or("there is no such year")?;
//! assert_eq!((read.rows, read.entity.get("D100"), read.entity.get("D364")), (2, Some(&300.into()), Some(&0.into())));
//! # Ok(()) });
//! ```

mod rows;

use crate::table::{MAX_TRIES, new_token, wait_after_conflict};
use crate::{
    DynamicEntity, ETag, Entity, EntityKey, Error, ErrorKind, Guid, Match, ReplaceEntity, StoredEntity,
    Table, Timestamp,
};
use rows::{Row, SEPARATOR, join, row_key, split};
use std::fmt;
use tepui_model::table::change_set::MAX_CHANGES;

/// A table of entities that may each take several rows.
pub struct WideTable<E = DynamicEntity> {
    table: Table<E>,
    rows_per_request: usize,
}

/// An entity that was read, all of it of one write.
#[derive(Debug, Clone, PartialEq)]
pub struct Wide<E> {
    pub entity: E,
    /// Of the first row, which every write changes.
    pub etag: ETag,
    pub timestamp: Option<Timestamp>,
    /// How many rows it takes.
    pub rows: usize,
}

impl<E: Entity + 'static> WideTable<E> {
    /// Entities of a table. The same table may hold others, with row keys without `~`.
    pub fn new(table: &Table<E>) -> Self {
        Self { table: table.clone(), rows_per_request: MAX_CHANGES }
    }

    /// How many rows are asked for at a time: all, unless said otherwise. Fewer make smaller answers, for programs with little
    /// memory or time for each.
    #[must_use]
    pub fn rows_per_request(mut self, rows: usize) -> Self {
        self.rows_per_request = rows;
        self
    }

    /// An entity by its keys; `None` if there is none.
    ///
    /// [`Contended`](ErrorKind::Contended): its rows were of different writes each time they were read.
    pub async fn get(&self, key: &EntityKey) -> Result<Option<Wide<E>>, Error> {
        check(key)?;
        let prefix = format!("{}{SEPARATOR}", key.row_key);
        for attempt in 0..MAX_TRIES {
            let rows =
                self.table.of::<Row>().query().partition(key.partition_key.as_str()).row_prefix(&prefix);
            let rows = rows.page_size(self.rows_per_request).all().await?;
            let (Some(first), count) = (rows.first(), rows.len()) else { return Ok(None) };
            let (etag, timestamp) = (first.etag.clone(), first.timestamp);
            if let Some(properties) = join(rows.iter().map(|row| &row.entity))? {
                let stored = StoredEntity { key: key.clone(), etag: etag.clone(), timestamp, properties };
                return Ok(Some(Wide { entity: E::from_stored(&stored)?, etag, timestamp, rows: count }));
            }
            wait_after_conflict(attempt).await;
        }
        Err(Error::new(ErrorKind::Contended, "the rows of the entity were of different writes each time"))
    }

    /// Adds an entity that is not there.
    pub async fn insert(&self, entity: &E) -> Result<(), Error> {
        let key = entity.entity_key()?;
        check(&key)?;
        let generation = new_token();
        let mut transaction = self.table.transaction(key.partition_key.as_str())?;
        for row in split(&key, &entity.to_properties()?, generation)? {
            transaction.insert(&row)?;
        }
        self.settle(&key, generation, transaction.commit().await.map(drop)).await
    }

    /// Deletes an entity that was read, with all of its rows.
    pub async fn delete(&self, key: &EntityKey, read: &Wide<E>) -> Result<(), Error> {
        check(key)?;
        let mut transaction = self.table.transaction(key.partition_key.as_str())?;
        for number in 0..read.rows {
            let row = EntityKey::new(key.partition_key.as_str(), row_key(&key.row_key, number));
            transaction.delete(&row, condition(number, read))?;
        }
        transaction.commit().await.map(drop)
    }

    /// What became of a write. Its generation is found in the first row, unless somebody has written since.
    async fn settle(
        &self,
        key: &EntityKey,
        generation: Guid,
        outcome: Result<(), Error>,
    ) -> Result<(), Error> {
        let Err(error) = outcome else { return Ok(()) };
        if error.kind() != ErrorKind::Unknown {
            return Err(error);
        }
        let first = EntityKey::new(key.partition_key.as_str(), row_key(&key.row_key, 0));
        match self.table.of::<Row>().get(&first).await {
            Ok(Some(row)) if row.generation == generation => Ok(()),
            _ => Err(error),
        }
    }
}

impl<E: ReplaceEntity + 'static> WideTable<E> {
    /// Puts an entity in the place of what was read: another version is a [`Conflict`](ErrorKind::Conflict).
    pub async fn replace(&self, entity: &E, read: &Wide<E>) -> Result<(), Error> {
        let key = entity.entity_key()?;
        check(&key)?;
        let generation = new_token();
        let rows = split(&key, &entity.to_properties()?, generation)?;
        let mut transaction = self.table.transaction(key.partition_key.as_str())?;
        for (number, row) in rows.iter().enumerate() {
            if number < read.rows {
                transaction.replace(row, condition(number, read))?;
            } else {
                transaction.insert(row)?;
            }
        }
        for number in rows.len()..read.rows {
            let surplus = EntityKey::new(key.partition_key.as_str(), row_key(&key.row_key, number));
            transaction.delete(&surplus, Match::Any)?;
        }
        let outcome = transaction.commit().await.map(drop).map_err(as_conflict);
        self.settle(&key, generation, outcome).await
    }

    /// Reads an entity, changes it, and writes it; again if somebody else was faster.
    pub async fn modify(&self, key: &EntityKey, mut change: impl FnMut(&mut E)) -> Result<E, Error>
    where
        E: Clone,
    {
        for attempt in 0..MAX_TRIES {
            let read = self.get(key).await?;
            let read = read.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no entity to modify"))?;
            let mut changed = read.entity.clone();
            change(&mut changed);
            if changed.entity_key()? != *key {
                return Err(Error::new(ErrorKind::Refused, "to modify an entity cannot change its keys"));
            }
            match self.replace(&changed, &read).await {
                Ok(()) => return Ok(changed),
                Err(error) if error.kind() == ErrorKind::Conflict => wait_after_conflict(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time"))
    }
}

/// Every write changes the first row, so that its version is that of all.
fn condition<E>(number: usize, read: &Wide<E>) -> Match {
    if number == 0 { Match::ETag(read.etag.clone()) } else { Match::Any }
}

/// A row that has come or gone since the entity was read is a conflict as well.
fn as_conflict(error: Error) -> Error {
    let is_gone = error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound");
    let is_new = error.kind() == ErrorKind::AlreadyExists;
    if is_gone || is_new { error.with_kind(ErrorKind::Conflict) } else { error }
}

/// The separator would make a row of one entity look like a row of another.
fn check(key: &EntityKey) -> Result<(), Error> {
    if key.row_key.contains(SEPARATOR) {
        let message = format!("the row key of a wide entity must not hold {SEPARATOR:?}");
        return Err(Error::new(ErrorKind::KeyInvalid, message));
    }
    Ok(())
}

impl<E> Clone for WideTable<E> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), rows_per_request: self.rows_per_request }
    }
}

impl<E> fmt::Debug for WideTable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WideTable").field(&self.table).finish()
    }
}
