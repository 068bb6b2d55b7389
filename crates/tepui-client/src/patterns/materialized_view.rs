//! Materialized views: answers that are computed when something changes, and not when somebody asks.
//!
//! A [`View`] says to which rows an entity contributes, and what a row is, given all entities that contribute to it: a sum, a maximum,
//! the ten newest. It follows by way of the [`outbox`](super::outbox), and is read by one point query.
//!
//! # When to use it
//! - A question over many entities is asked much more often than those change.
//! - The answer may be a moment behind.
//!
//! # When not
//! - Very many entities contribute to one row: each change reads all contributions to it. Some thousands are fine.
//! - It is only a number of entities of one partition: a [`Counter`](super::denormalization::Counter) is cheaper and never behind.
//!
//! # How it is kept
//! The partition of a row holds a copy of each entity that contributes, and the row itself. A change writes the copy, reads all of
//! them, and writes the row only over what it has read before them: who comes later has seen more. Rows that have become empty stay as
//! tombstones, for the same reason.
//!
//! [`MaterializedView::rebuild`] makes the view anew in another table while the old one is read and kept up, and then lets a
//! pointer change over: for a view whose definition has changed, or entities that were written without the outbox.
//!
//! # Example
//! ```
//! use tepui_client::entity::Properties;
//! use tepui_client::patterns::materialized_view::{MaterializedView, View};
//! use tepui_client::patterns::outbox::Outbox;
//! use tepui_client::{DynamicEntity, Entity, Error};
//!
//! #[derive(Entity, Clone)]
//! #[entity(table = "Orders", closed)]
//! #[key(partition = "{customer}", row = "{number:08}")]
//! struct Order {
//!     customer: String,
//!     number: u64,
//!     month: String,
//!     cents: i64,
//! }
//!
//! /// What was sold in each month.
//! struct Sales;
//!
//! impl View for Sales {
//!     type Source = Order;
//!     fn keys(&self, order: &Order) -> Result<Vec<String>, Error> {
//!         Ok(vec![order.month.clone()])
//!     }
//!     fn fold(&self, _month: &str, orders: &[Order]) -> Result<Properties, Error> {
//!         let sum: i64 = orders.iter().map(|order| order.cents).sum();
//!         DynamicEntity::new("", "").with("Cents", sum).to_properties()
//!     }
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! # account.table("Orders")?.create().await?;
//! # account.queue("orders")?.create_if_missing().await?;
//! let orders = account.table_of::<Order>()?;
//! let sales = MaterializedView::new(Sales, "Sales", &orders)?;
//! sales.create_if_missing().await?;
//! let outbox = Outbox::without_copies(orders, account.queue("orders")?).with(sales.clone());
//! for (number, cents) in [(1, 250), (2, 750)] {
//!     let (customer, month) = ("contoso".to_owned(), "2026-03".to_owned());
//!     outbox.insert(&Order { customer, number, month, cents }).await?;
//! }
//! let march = sales.get("2026-03").await?.ok_or("there were orders")?;
//! assert_eq!(march.get("Cents").and_then(|cents| cents.as_i64()), Some(1000));
//! # Ok(()) });
//! ```

mod pointer;
mod rebuild;

pub use rebuild::Rebuilt;

use super::outbox::{BoxFuture, Followed, Follower, Next, Place, Row, Seen, is_changed, next_copy, write};
use crate::entity::{Properties, StoredEntity};
use crate::{DynamicEntity, Entity, EntityKey, Error, ErrorKind, Table, Value, random};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tepui_wire::crypto::sha256;
use tokio::time::sleep;

const MAX_ROUNDS: u32 = 12;
const CONTRIBUTION_PREFIX: &str = "~of_";
/// The row key of what readers read.
const ROW: &str = "view";
const DELETED: &str = "_Deleted";

/// What is in a view.
pub trait View: Send + Sync + 'static {
    type Source: Entity + Clone + Sync + 'static;

    /// The keys of the rows that an entity contributes to.
    fn keys(&self, source: &Self::Source) -> Result<Vec<String>, Error>;

    /// A row, given all entities that contribute to it, at least one, in the order of their keys. It must depend on nothing else.
    fn fold(&self, key: &str, sources: &[Self::Source]) -> Result<Properties, Error>;
}

/// A view that is kept in tables. Give it to an outbox by [`with`](super::outbox::Outbox::with).
pub struct MaterializedView<V: View> {
    view: Arc<V>,
    name: Arc<str>,
    sources: Table<V::Source>,
    pointers: Table<Row>,
}

impl<V: View> Clone for MaterializedView<V> {
    fn clone(&self) -> Self {
        Self {
            view: Arc::clone(&self.view),
            name: Arc::clone(&self.name),
            sources: self.sources.clone(),
            pointers: self.pointers.clone(),
        }
    }
}

impl<V: View> MaterializedView<V> {
    /// A view of the entities of `sources`. The table `name` says in which other one the view is: `{name}1`, `{name}2` and so
    /// on.
    pub fn new(view: V, name: &str, sources: &Table<V::Source>) -> Result<Self, Error> {
        let pointers = sources.of::<Row>().beside(name)?;
        let follower = format!("view {name}").into();
        Ok(Self { view: Arc::new(view), name: follower, sources: sources.clone(), pointers })
    }

    /// A row of the view.
    pub async fn get(&self, key: &str) -> Result<Option<DynamicEntity>, Error> {
        let pointer = self.pointer().await?;
        let row = self.pointers.beside(&pointer.current)?.get(&EntityKey::new(key, ROW)).await?;
        let Some(row) = row.filter(|row| !row.is_tombstone()) else { return Ok(None) };
        super::outbox::entity_of(&row).map(Some)
    }

    /// All rows of the view, as (key, row). It reads the whole table.
    pub async fn all(&self) -> Result<Vec<(String, DynamicEntity)>, Error> {
        let pointer = self.pointer().await?;
        let table = self.pointers.beside(&pointer.current)?;
        let mut rows = table.query().scan().filter(crate::filter::property("RowKey").eq(ROW)).stream();
        let mut all = Vec::new();
        while let Some(row) = rows.next_entity().await? {
            if !row.is_tombstone() {
                all.push((row.key.partition_key.clone(), super::outbox::entity_of(&row)?));
            }
        }
        Ok(all)
    }

    fn place(&self, key: String, source: &EntityKey) -> Place {
        Place { table: None, key: EntityKey::new(key, contribution_row_key(source)) }
    }

    fn wanted(&self, source: Option<&V::Source>, key: &str) -> Result<Option<Properties>, Error> {
        let Some(source) = source else { return Ok(None) };
        match self.view.keys(source)?.iter().any(|wanted| wanted == key) {
            true => source.to_properties().map(Some),
            false => Ok(None),
        }
    }

    async fn bring(&self, place: &Place, seen: &Seen<V::Source>) -> Result<Followed, Error> {
        for _ in 0..MAX_ROUNDS {
            let before = self.pointer().await?;
            for table in before.tables() {
                let table = self.pointers.beside(table)?;
                match self.contribute(&table, place, seen).await? {
                    Followed::Done => self.refold(&table, &place.key.partition_key).await?,
                    other => return Ok(other),
                }
            }
            // A rebuild that has begun since then may have read the entity before it was changed.
            if self.pointer().await?.tables().eq(before.tables()) {
                return Ok(Followed::Done);
            }
        }
        Err(Error::new(ErrorKind::Contended, "the view was rebuilt again and again"))
    }

    /// Writes the copy of an entity that contributes, or its tombstone.
    async fn contribute(
        &self,
        table: &Table<Row>,
        place: &Place,
        seen: &Seen<V::Source>,
    ) -> Result<Followed, Error> {
        let stored = table.get(&place.key).await?;
        let wanted = |source: Option<&V::Source>| self.wanted(source, &place.key.partition_key);
        match next_copy(&self.sources, &place.key, stored.as_ref(), seen, &wanted).await? {
            Next::Keep => Ok(Followed::Done),
            Next::Later => Ok(Followed::Later),
            Next::Write(row) => Followed::of_write(write(table, &row, stored.as_ref()).await),
        }
    }

    /// Makes a row what its contributions say. The row is read before them, so that it is written over nothing that has seen more.
    async fn refold(&self, table: &Table<Row>, key: &str) -> Result<(), Error> {
        let row_key = EntityKey::new(key, ROW);
        for attempt in 0..MAX_ROUNDS {
            let stored = table.get(&row_key).await?;
            let mut sources = Vec::new();
            let mut rows = table.query().partition(key).row_prefix(CONTRIBUTION_PREFIX).stream();
            while let Some(row) = rows.next_entity().await? {
                let Some(primary) = row.primary().filter(|_| !row.is_tombstone()) else { continue };
                let source = V::Source::from_stored(&StoredEntity {
                    key: primary.clone(),
                    etag: row.etag.clone(),
                    timestamp: row.timestamp,
                    properties: row.properties.clone(),
                })?;
                sources.push(((primary.partition_key, primary.row_key), source));
            }
            sources.sort_by(|(one, _), (other, _)| one.cmp(other));
            let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
            let next = match sources.as_slice() {
                [] if stored.is_none() => return Ok(()),
                [] => Row::new(row_key.clone(), &Properties::default(), &[(DELETED, Value::from(true))])?,
                sources => Row::new(row_key.clone(), &self.view.fold(key, sources)?, &[])?,
            };
            if stored.as_ref().is_some_and(|stored| stored.entity == next) {
                return Ok(());
            }
            match write(table, &next, stored.as_ref()).await {
                Ok(_) => return Ok(()),
                Err(error) if is_changed(&error) => {
                    let wait = Duration::from_millis(10) * 2_u32.pow(attempt.min(6));
                    sleep(wait.mul_f64(random::fraction())).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the row of the view was changed by others each time"))
    }
}

/// Of a fixed length, whatever the keys are.
fn contribution_row_key(source: &EntityKey) -> String {
    let EntityKey { partition_key, row_key } = source;
    let length = (partition_key.len() as u64).to_be_bytes();
    let hash = sha256(&[&length, partition_key.as_bytes(), row_key.as_bytes()].concat());
    let mut key = CONTRIBUTION_PREFIX.to_owned();
    for byte in hash.iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

impl<V: View> Follower<V::Source> for MaterializedView<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn places(&self, source: &V::Source) -> Result<Vec<Place>, Error> {
        let own = source.entity_key()?;
        Ok(self.view.keys(source)?.into_iter().map(|key| self.place(key, &own)).collect())
    }

    fn follow<'a>(
        &'a self,
        place: &'a Place,
        seen: &'a Seen<V::Source>,
    ) -> BoxFuture<'a, Result<Followed, Error>> {
        Box::pin(self.bring(place, seen))
    }
}
