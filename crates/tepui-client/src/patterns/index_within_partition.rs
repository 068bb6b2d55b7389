//! Intra-partition secondary index: copies of an entity under other row keys, in the same partition.
//!
//! A table finds entities by their keys and by nothing else. To find employees by their email address as well as by their id,
//! each is stored twice in its partition: as `empid_000223`, and as `email_junc@contoso.com`. As both are in one partition, one
//! transaction writes them: at no moment does a reader see one without the other.
//!
//! `#[index(…)]` says which copies there are, and [`Table::indexed`] writes them. A copy may have all properties, so that one
//! read is enough, or only some (`fields(…)`), which is cheaper to store and to write.
//!
//! # When to use it
//!
//! - Entities are asked for by several values, or in several orders.
//! - The partition is known when they are asked for, and one partition can take all writes: each one writes 1 + copies rows.
//! - An index must be unique within a partition: `email_{email}` refuses a second employee with the same address.
//!
//! # When not
//!
//! - The question is for all partitions: an index in another partition answers it, and follows by way of a queue.
//! - Many entities share a value, and only their keys are wanted: index entities are smaller.
//! - Changes are much more frequent than questions: scan.
//!
//! ```
//! use tepui_client::{Entity, ErrorKind};
//!
//! #[derive(Entity)]
//! #[entity(table = "Employees", closed)]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! #[index(by_email, row = "email_{email}")]
//! #[index(by_name, row = "name_{last_name:ordered} {id:06}", fields(email))]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     email: String,
//!     last_name: String,
//!     age: i32,
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let people = account.table_of::<Employee>()?;
//! people.create_if_missing().await?;
//! let employee = |id, email: &str| Employee {
//!     department: "Sales".to_owned(),
//!     id,
//!     email: email.to_owned(),
//!     last_name: "Cao".to_owned(),
//!     age: 34,
//! };
//! people.indexed().insert(&employee(223, "junc@contoso.com")).await?;
//! let again = people.indexed().insert(&employee(224, "junc@contoso.com")).await.unwrap_err();
//! assert_eq!(again.kind(), ErrorKind::AlreadyExists);
//!
//! let key = Employee::key("Sales", 223)?;
//! people.indexed().update(&key, |employee| employee.email = "jun@contoso.com".to_owned()).await?;
//!
//! // By the index, with everything: an entry is an employee under another key.
//! let found = people.partition("Sales").by_email().with_email("jun@contoso.com").all().await?;
//! let [entry] = <[_; 1]>::try_from(found).map_err(|_| "one employee has it")?;
//! assert_eq!(Employee::from(entry.into_inner()).age, 34);
//!
//! // By the other one, in its order. What was not copied is read from the entity.
//! let named = people.partition("Sales").by_name().last_name_prefix("C").all().await?;
//! let whole = people.get_primary(&named[0].entity).await?.ok_or("it is there")?;
//! assert_eq!((named[0].email.as_str(), whole.age), ("jun@contoso.com", 34));
//! # Ok(()) });
//! ```
//!
//! Written alone, the entity would leave its copies behind. So a program with `people.insert(&employee)`, or any other write of
//! a [`Table`] but this, cannot be built; the same holds for the entries. A [`Transaction`] writes what it is told.

use super::copies::{Copies, CopyRow};
use crate::entity::Properties;
use crate::table::Verb;
use crate::{
    DynamicEntity, ETag, EntityKey, Error, ErrorKind, Match, ReplaceEntity, Table, Transaction, Versioned,
    random,
};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::time::sleep;

const MAX_TRIES: u32 = 8;
/// The longest wait after the first conflict; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// An entity whose copies are all in its own partition and table. Derived for entities whose indexes say no other.
#[diagnostic::on_unimplemented(
    message = "rows that follow from `{Self}` are not all in its partition, so no transaction can write them together",
    note = "an entity needs an #[index(…)], and none of its indexes may have `partition = …` or `table = …`",
    note = "rows in other partitions are written by way of a queue: see the patterns for indexes between partitions"
)]
pub trait CopiesWithinPartition: Copies {}

/// Writes entities together with their copies: see the [module](self).
pub struct Indexed<E> {
    table: Table<E>,
}

impl<E> Table<E> {
    /// Writes of entities together with their copies.
    pub fn indexed(&self) -> Indexed<E>
    where
        E: CopiesWithinPartition,
    {
        Indexed { table: self.clone() }
    }
}

impl<E: CopiesWithinPartition + 'static> Indexed<E> {
    /// Adds an entity and its copies. One that is there, also a copy with the same key, is an
    /// [`AlreadyExists`](ErrorKind::AlreadyExists).
    pub async fn insert(&self, entity: &E) -> Result<ETag, Error> {
        let key = entity.entity_key()?;
        let mut transaction = self.table.transaction(key.partition_key.as_str())?;
        transaction.insert(entity)?;
        for (row_key, properties) in copies(entity, &key)? {
            transaction.row(Verb::Insert, EntityKey::new(key.partition_key.as_str(), row_key), properties)?;
        }
        first_etag(transaction.commit().await?)
    }

    /// Reads an entity, changes it, and puts it and its copies in the place of the old ones. The row key may change, the
    /// partition key may not. If somebody else was faster, it is read and changed again: `change` may be called several
    /// times. After eight conflicts it is [`Contended`](ErrorKind::Contended).
    ///
    /// A copy with a key that another entity has is an [`AlreadyExists`](ErrorKind::AlreadyExists).
    pub async fn update(&self, key: &EntityKey, mut change: impl FnMut(&mut E)) -> Result<Versioned<E>, Error>
    where
        E: ReplaceEntity,
    {
        let prepare = |found: Versioned<E>, mut old: Rows| {
            let Versioned { mut entity, etag, .. } = found;
            change(&mut entity);
            let new_key = entity.entity_key()?;
            if new_key.partition_key != key.partition_key {
                let message = "an entity and its copies cannot go to another partition in one transaction: that takes a queue, as \
                               in the pattern for eventually consistent transactions";
                return Err(Error::new(ErrorKind::Refused, message));
            }
            let mut transaction = self.table.transaction(key.partition_key.as_str())?;
            if new_key == *key {
                transaction.replace(&entity, &etag)?;
            } else {
                transaction.insert(&entity)?;
                transaction.delete(key, &etag)?;
            }
            for (row_key, properties) in copies(&entity, &new_key)? {
                let copy_key = || EntityKey::new(key.partition_key.as_str(), row_key.as_str());
                match old.remove(&row_key) {
                    Some(same) if same == properties => {}
                    Some(_) => transaction.row(Verb::UpsertReplace, copy_key(), properties)?,
                    None => transaction.row(Verb::Insert, copy_key(), properties)?,
                }
            }
            delete_all(&mut transaction, key, old)?;
            Ok((transaction, entity))
        };
        let (etags, entity) = self.repeat(key, prepare).await?;
        Ok(Versioned { entity, etag: first_etag(etags)?, timestamp: None })
    }

    /// Deletes an entity and its copies. One that is not there is a [`NotFound`](ErrorKind::NotFound). If somebody changes it
    /// meanwhile, it is read again.
    pub async fn delete(&self, key: &EntityKey) -> Result<(), Error> {
        let prepare = |found: Versioned<E>, old: Rows| {
            let mut transaction = self.table.transaction(key.partition_key.as_str())?;
            transaction.delete(key, &found)?;
            delete_all(&mut transaction, key, old)?;
            Ok((transaction, ()))
        };
        self.repeat(key, prepare).await.map(drop)
    }

    /// Writes all copies of an entity as they should be, for entities that are older than their index.
    pub async fn repair(&self, key: &EntityKey) -> Result<(), Error>
    where
        E: ReplaceEntity,
    {
        let prepare = |found: Versioned<E>, copies: Rows| {
            let mut transaction = self.table.transaction(key.partition_key.as_str())?;
            // Nobody has changed it meanwhile, or its copies would be those of an older state.
            transaction.replace(&found.entity, &found)?;
            for (row_key, properties) in copies {
                let copy_key = EntityKey::new(key.partition_key.as_str(), row_key);
                transaction.row(Verb::UpsertReplace, copy_key, properties)?;
            }
            Ok((transaction, ()))
        };
        self.repeat(key, prepare).await.map(drop)
    }

    /// Reads the entity and commits what is prepared of it and its copies, again after conflicts.
    async fn repeat<T>(
        &self,
        key: &EntityKey,
        mut prepare: impl FnMut(Versioned<E>, Rows) -> Result<(Transaction, T), Error>,
    ) -> Result<(Vec<Option<ETag>>, T), Error> {
        let mut only_present = false;
        for attempt in 0..MAX_TRIES {
            let found = self.table.get(key).await?;
            let found =
                found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no entity with this key"))?;
            let mut old = copies(&found.entity, key)?;
            if only_present {
                self.keep_present(&mut old, key).await?;
            }
            let (transaction, prepared) = prepare(found, old)?;
            match transaction.commit().await {
                Ok(etags) => return Ok((etags, prepared)),
                // The entity, which is looked for again, or a copy: it was written before it had this index.
                Err(error)
                    if error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound") =>
                {
                    only_present = true;
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    sleep((FIRST_WAIT * 2_u32.pow(attempt)).mul_f64(random::fraction())).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time"))
    }

    /// Leaves the copies that are there. They change only together with the entity, so its ETag vouches for them.
    async fn keep_present(&self, rows: &mut Rows, key: &EntityKey) -> Result<(), Error> {
        let keys: Vec<_> =
            rows.keys().map(|row| EntityKey::new(key.partition_key.as_str(), row.as_str())).collect();
        let present = self.table.of::<DynamicEntity>().get_many(keys.iter().cloned()).await?;
        for (key, _) in keys.iter().zip(present).filter(|(_, found)| found.is_none()) {
            rows.remove(&key.row_key);
        }
        Ok(())
    }
}

/// Copies by their row keys.
type Rows = BTreeMap<String, Properties>;

/// The copies of an entity, which are all in its partition.
fn copies<E: Copies>(entity: &E, key: &EntityKey) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for CopyRow { table, key: copy, properties } in entity.copies()? {
        if table.is_some() || copy.partition_key != key.partition_key {
            let message = "a row that follows from the entity is in another partition or table";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if copy.row_key == key.row_key || rows.insert(copy.row_key, properties).is_some() {
            return Err(Error::new(
                ErrorKind::Refused,
                "two rows that follow from the entity have the same key",
            ));
        }
    }
    Ok(rows)
}

fn delete_all(transaction: &mut Transaction, key: &EntityKey, rows: Rows) -> Result<(), Error> {
    rows.into_keys().try_for_each(|row_key| {
        transaction.delete(&EntityKey::new(key.partition_key.as_str(), row_key), Match::Any)
    })
}

/// That of the entity, which comes first in each transaction.
fn first_etag(etags: Vec<Option<ETag>>) -> Result<ETag, Error> {
    let first = etags.into_iter().next().flatten();
    first.ok_or_else(|| Error::decode("a write was answered without an ETag"))
}

impl<E> fmt::Debug for Indexed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Indexed").field(&self.table).finish()
    }
}
