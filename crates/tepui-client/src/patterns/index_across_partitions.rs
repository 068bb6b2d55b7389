//! Inter-partition secondary index: entities can be found by something else than their keys, wherever the entries are.
//!
//! A table has one index, that of its keys. To find employees by their address, each has a copy with the address as its key, in
//! another partition or table than the employee: so the load of look-ups is not on the partition of the employees. Entries
//! follow by way of the [`outbox`](super::outbox), and hold as many of the properties as readers want.
//!
//! # When to use it
//! - The index covers several partitions, or one partition would have to bear too much.
//! - A look-up may be a moment behind. [`verified`](IndexQuery::verified) reads the entities themselves and leaves out entries that
//!   are behind; an entry that is not there yet it cannot know.
//!
//! # When not
//! - Entities and entries can be in one partition: then one transaction writes both, and no entry is ever behind.
//! - Many entities have the same value, and lists are wanted: see the index entities.
//!
//! An entry's key has to be unique. Two entities that want the same one are told of it: the change of the second is made, but its
//! message ends in the poison queue.
//!
//! # Example
//! ```
//! use tepui_client::entity::Properties;
//! use tepui_client::patterns::copies::{Copies, CopyRow};
//! use tepui_client::patterns::index_across_partitions::IndexAcrossPartitions;
//! use tepui_client::patterns::outbox::Outbox;
//! use tepui_client::{Entity, EntityKey, Error};
//!
//! #[derive(Entity, Clone)]
//! #[entity(table = "Staff", closed)]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     email: String,
//! }
//!
//! impl Copies for Employee {
//!     fn copies(&self) -> Result<Vec<CopyRow>, Error> {
//!         let key = EntityKey::new("email", self.email.as_str());
//!         Ok(vec![CopyRow { table: None, key, properties: Properties::default() }])
//!     }
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! # account.table("Staff")?.create().await?;
//! # account.queue("staff")?.create_if_missing().await?;
//! let outbox = Outbox::new(account.table_of::<Employee>()?, account.queue("staff")?);
//! outbox.insert(&Employee { department: "Sales".to_owned(), id: 223, email: "jun@contoso.com".to_owned() }).await?;
//!
//! let by_email = IndexAcrossPartitions::of(&outbox);
//! let entry = by_email.get(&EntityKey::new("email", "jun@contoso.com")).await?;
//! assert_eq!(entry.map(|entry| entry.primary), Some(Employee::key("Sales", 223)?));
//! // All whose address begins with j, as they are now.
//! let found = by_email.query("email").row_prefix("j").verified().all().await?;
//! assert_eq!(found[0].id, 223);
//! # Ok(()) });
//! ```

use super::copies::Copies;
use super::outbox::{COPIES, Outbox, Place, Row, entity_of};
use crate::entity::{Properties, StoredEntity};
use crate::key::KeyRange;
use crate::{DynamicEntity, Entity, EntityKey, EntityStream, Error, ErrorKind, Query, Table, Versioned};

/// How many entities are read at a time to verify entries.
const VERIFIED_AT_A_TIME: usize = 100;

/// The entries of an index that follows from entities of type `E`. They are read as `C`.
pub struct IndexAcrossPartitions<E, C = DynamicEntity> {
    outbox: Outbox<E>,
    table: Option<String>,
    rows: Table<Row>,
    entry: std::marker::PhantomData<fn() -> C>,
}

/// An entry of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<C> {
    pub copy: C,
    /// The entity that it was made from.
    pub primary: EntityKey,
    /// And which version of that.
    pub version: i64,
}

/// What a repair has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// What was looked at: entities, or entries.
    pub checked: usize,
    /// How many of them were not as they should be, and are now.
    pub repaired: usize,
    /// Rows that are not entities of the type.
    pub skipped: usize,
}

impl<E: Copies + Sync + 'static> IndexAcrossPartitions<E> {
    /// The entries that are in the table of the entities, in other partitions.
    pub fn of(outbox: &Outbox<E>) -> Self {
        let rows = outbox.rows().clone();
        Self { outbox: outbox.clone(), table: None, rows, entry: std::marker::PhantomData }
    }

    /// The entries that are in another table.
    pub fn in_table(outbox: &Outbox<E>, table: &str) -> Result<Self, Error> {
        let rows = outbox.rows().beside(table)?;
        Ok(Self { table: Some(table.to_owned()), rows, ..Self::of(outbox) })
    }
}

impl<E: Copies + Sync + 'static, C: Entity + 'static> IndexAcrossPartitions<E, C> {
    /// The same index, with its entries read as another type.
    pub fn read_as<D: Entity + 'static>(&self) -> IndexAcrossPartitions<E, D> {
        IndexAcrossPartitions {
            outbox: self.outbox.clone(),
            table: self.table.clone(),
            rows: self.rows.clone(),
            entry: std::marker::PhantomData,
        }
    }

    /// An entry by its keys.
    pub async fn get(&self, key: &EntityKey) -> Result<Option<Entry<C>>, Error> {
        match self.rows.get(key).await? {
            Some(row) => entry(&row),
            None => Ok(None),
        }
    }

    /// The entity that has the entry with these keys, if it is still the one that the entry was made from.
    pub async fn get_verified(&self, key: &EntityKey) -> Result<Option<Versioned<E>>, Error> {
        let Some(entry) = self.get(key).await? else { return Ok(None) };
        let found = self.outbox.table().get(&entry.primary).await?;
        match found {
            Some(entity) if self.wants(&entity, key)?.is_some() => Ok(Some(entity)),
            _ => Ok(None),
        }
    }

    /// The entries of one partition of the index, to be narrowed.
    pub fn query(&self, partition_key: impl Into<String>) -> IndexQuery<'_, E, C> {
        IndexQuery { index: self, query: self.rows.query().partition(partition_key) }
    }

    /// The entry with these keys that an entity says it has.
    fn wants(&self, entity: &E, key: &EntityKey) -> Result<Option<Properties>, Error> {
        let copies = entity.copies()?;
        let found = copies.into_iter().find(|copy| copy.key == *key && copy.table == self.table);
        Ok(found.map(|copy| copy.properties))
    }

    /// Looks at all entities of one partition, and writes those again from which something does not follow as it should. A second time
    /// it finds nothing to do. For entities that were written without the outbox.
    pub async fn repair(&self, partition_key: &str) -> Result<Repaired, Error> {
        let mut rows = self.outbox.rows().query().partition(partition_key).stream();
        let mut report = Repaired::default();
        while let Some(row) = rows.next_entity().await? {
            let is_own = row.key.row_key.starts_with('~') || row.primary().is_some();
            let Some(entity) = entity_of::<E>(&row).ok().filter(|_| !is_own) else {
                report.skipped += usize::from(!is_own);
                continue;
            };
            report.checked += 1;
            let mut is_right = row.version().is_some();
            for copy in entity.copies()? {
                is_right &= self.is_right(&row, &copy).await?;
            }
            if !is_right {
                match self.outbox.write_again(&row.key).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => report.repaired += 1,
                }
            }
        }
        Ok(report)
    }

    async fn is_right(&self, row: &Versioned<Row>, copy: &super::copies::CopyRow) -> Result<bool, Error> {
        let table = match &copy.table {
            Some(name) => self.rows.beside(name)?,
            None => self.outbox.rows().clone(),
        };
        let is_beside = table.name().eq_ignore_ascii_case(self.outbox.rows().name())
            && copy.key.partition_key == row.key.partition_key;
        let Some(stored) = table.get(&copy.key).await? else { return Ok(false) };
        let is_ours = stored.primary().as_ref() == Some(&row.key) && stored.version() == row.version();
        let expected = Row::new(copy.key.clone(), &copy.properties, &[])?;
        let found = Row::new(stored.key.clone(), &stored.properties, &[])?;
        Ok((is_beside || is_ours) && !stored.is_tombstone() && found == expected)
    }

    /// Looks at all entries of one partition of the index, and takes away those that no entity wants. A second time it finds nothing to
    /// do.
    pub async fn repair_entries(&self, partition_key: &str) -> Result<Repaired, Error> {
        let mut rows = self.rows.query().partition(partition_key).stream();
        let mut report = Repaired::default();
        while let Some(row) = rows.next_entity().await? {
            let Some(primary) = row.primary().filter(|_| !row.is_tombstone()) else {
                report.skipped += usize::from(row.primary().is_none());
                continue;
            };
            report.checked += 1;
            let entity = self.outbox.table().get(&primary).await?;
            let is_wanted = match &entity {
                Some(entity) => self.wants(entity, &row.key)?.is_some(),
                None => false,
            };
            if !is_wanted {
                let place = Place { table: self.table.clone(), key: row.key.clone() };
                self.outbox.apply(&primary, &[(COPIES.to_owned(), place)]).await?;
                report.repaired += 1;
            }
        }
        Ok(report)
    }
}

/// `None`: it is a tombstone, or no entry at all.
fn entry<C: Entity>(row: &Versioned<Row>) -> Result<Option<Entry<C>>, Error> {
    let (Some(primary), Some(version)) = (row.primary(), row.version()) else { return Ok(None) };
    if row.is_tombstone() {
        return Ok(None);
    }
    let copy = C::from_stored(&StoredEntity {
        key: row.key.clone(),
        etag: row.etag.clone(),
        timestamp: row.timestamp,
        properties: row.properties.clone(),
    })?;
    Ok(Some(Entry { copy, primary, version }))
}

/// Entries of one partition of an index.
#[must_use]
pub struct IndexQuery<'a, E, C> {
    index: &'a IndexAcrossPartitions<E, C>,
    query: Query<Row>,
}

impl<'a, E: Copies + Sync + 'static, C: Entity + 'static> IndexQuery<'a, E, C> {
    /// Only those whose row key begins like this.
    pub fn row_prefix(mut self, prefix: &str) -> Self {
        self.query = self.query.row_prefix(prefix);
        self
    }

    /// Only those whose row key is in this range.
    pub fn rows(mut self, range: &KeyRange) -> Self {
        self.query = self.query.rows(range.clone());
        self
    }

    /// The entries, page by page as they are needed.
    pub fn stream(self) -> Entries<C> {
        Entries { rows: self.query.stream(), entry: std::marker::PhantomData }
    }

    /// All entries at once: for queries that are known to find few.
    pub async fn all(self) -> Result<Vec<Entry<C>>, Error> {
        let (mut entries, mut all) = (self.stream(), Vec::new());
        while let Some(entry) = entries.next_entry().await? {
            all.push(entry);
        }
        Ok(all)
    }

    /// The entities themselves, without those of which an entry is behind.
    pub fn verified(self) -> Verified<'a, E, C> {
        Verified { index: self.index, entries: self.query.stream(), page: Vec::new().into_iter() }
    }
}

/// Entries of an index, page by page.
#[must_use]
pub struct Entries<C> {
    rows: EntityStream<Row>,
    entry: std::marker::PhantomData<fn() -> C>,
}

impl<C: Entity> Entries<C> {
    /// The next entry; `None` after the last.
    pub async fn next_entry(&mut self) -> Result<Option<Entry<C>>, Error> {
        while let Some(row) = self.rows.next_entity().await? {
            if let Some(entry) = entry(&row)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Entities that were found through an index and read again, some at a time.
#[must_use]
pub struct Verified<'a, E, C> {
    index: &'a IndexAcrossPartitions<E, C>,
    entries: EntityStream<Row>,
    page: std::vec::IntoIter<Versioned<E>>,
}

impl<E: Copies + Sync + 'static, C: Entity + 'static> Verified<'_, E, C> {
    /// The next entity; `None` after the last.
    pub async fn next_entity(&mut self) -> Result<Option<Versioned<E>>, Error> {
        loop {
            if let Some(entity) = self.page.next() {
                return Ok(Some(entity));
            }
            let mut entries = Vec::new();
            while entries.len() < VERIFIED_AT_A_TIME
                && let Some(row) = self.entries.next_entity().await?
            {
                if let Some(primary) = row.primary().filter(|_| !row.is_tombstone()) {
                    entries.push((row.key.clone(), primary));
                }
            }
            if entries.is_empty() {
                return Ok(None);
            }
            let keys = entries.iter().map(|(_, primary)| primary.clone());
            let found = self.index.outbox.table().get_many(keys).await?;
            let mut page = Vec::new();
            for ((key, _), entity) in entries.iter().zip(found) {
                if let Some(entity) = entity
                    && self.index.wants(&entity, key)?.is_some()
                {
                    page.push(entity);
                }
            }
            self.page = page.into_iter();
        }
    }

    /// All entities at once: for queries that are known to find few.
    pub async fn all(mut self) -> Result<Vec<Versioned<E>>, Error> {
        let mut all = Vec::new();
        while let Some(entity) = self.next_entity().await? {
            all.push(entity);
        }
        Ok(all)
    }
}
