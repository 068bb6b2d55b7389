//! Index entities pattern: which entities share a value of a property that is not in their keys.
//!
//! A table finds entities by their keys only. To find all employees of one last name without a scan, the keys of those
//! employees are kept in a list, or in rows of their own. All forms are [`ListIndex`]es, which write an entity together with its
//! place in the index:
//!
//! | form | where | both change | a list is bound by |
//! | --- | --- | --- | --- |
//! | [`MemberRows`] | one row for each entity, in its partition | in one transaction | nothing |
//! | [`InPartition`] | one row for each value, in the partition of its entities | in one transaction, depending on the list's ETag | 1 MiB |
//! | [`InBlob`] | one blob for each value, for all partitions | the list first, so that it never lacks an entity | 64 MiB |
//!
//! Use [`MemberRows`] unless something else is needed: `ln_Jones 000152` is a row without properties, the entities of a
//! value are a range of rows, and no two writers have to change the same list. [`InPartition`] reads a list with a single
//! request, but whoever writes has to wait for others that change the same list. [`InBlob`] finds entities of all
//! partitions. Its list may have keys of entities that are not there (yet, or any more) when somebody ended in between;
//! [`find`](ListIndex::find) reads the entities and leaves those out.
//!
//! Do not use an index for what can be a part of the keys. All writes of the entities have to go through their index.
//!
//! ```
//! use tepui_client::patterns::index_entities::{Listed, ListIndex, MemberRows};
//! use tepui_client::Entity;
//!
//! #[derive(Entity)]
//! #[entity(table = "Employees", closed)]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     last_name: String,
//! }
//!
//! impl Listed for Employee {
//!     fn listed_under(&self) -> Option<&str> {
//!         Some(&self.last_name)
//!     }
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let employees = account.table_of::<Employee>()?;
//! employees.create_if_missing().await?;
//! let by_last_name = MemberRows::new(&employees, "Sales", "ln_")?;
//! for (id, last_name) in [(151, "Cao"), (152, "Jones"), (223, "Jones")] {
//!     by_last_name.insert(&Employee { department: "Sales".into(), id, last_name: last_name.into() }).await?;
//! }
//! by_last_name.change(&Employee::key("Sales", 151)?, |employee| employee.last_name = "Jones".into()).await?;
//! let found: Vec<_> = by_last_name.find("Jones").await?.iter().map(|employee| employee.id).collect();
//! assert_eq!(found, [151, 152, 223]);
//! # Ok(()) });
//! ```

pub mod elsewhere;
mod in_blob;
mod in_partition;
mod in_transaction;
mod key_list;
mod member_rows;

pub use in_blob::InBlob;
pub use in_partition::InPartition;
pub use member_rows::MemberRows;

use crate::{EntityKey, Error, ErrorKind, ReplaceEntity, Versioned};
use std::future::Future;

/// An entity that is found by a value which others may have, too.
pub trait Listed: ReplaceEntity + Sync + 'static {
    /// The value; `None`: it is not listed.
    fn listed_under(&self) -> Option<&str>;
}

/// An index of entities by a value. It writes the entities, too: both change together.
pub trait ListIndex<E: Listed> {
    /// Adds an entity that is not there.
    fn insert(&self, entity: &E) -> impl Future<Output = Result<(), Error>> + Send;

    /// Changes an entity, and its place in the index if its value changes. If somebody else is faster it is read and changed
    /// again: `change` may be called several times. The keys cannot change.
    fn change(
        &self,
        key: &EntityKey,
        change: impl FnMut(&mut E) + Send,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Deletes an entity.
    fn remove(&self, key: &EntityKey) -> impl Future<Output = Result<(), Error>> + Send;

    /// The keys that are listed under a value, in their order.
    fn keys(&self, value: &str) -> impl Future<Output = Result<Vec<EntityKey>, Error>> + Send;

    /// The entities with a value, in the order of their keys. What has changed since the keys were read is left out.
    fn find(&self, value: &str) -> impl Future<Output = Result<Vec<Versioned<E>>, Error>> + Send;
}

/// Leaves out those that are not there, or have another value by now.
fn with_value<E: Listed>(found: Vec<Option<Versioned<E>>>, value: &str) -> Vec<Versioned<E>> {
    found.into_iter().flatten().filter(|entity| entity.listed_under() == Some(value)).collect()
}

/// Whether a transaction failed because somebody else has written what it depends on.
fn is_conflict(error: &Error) -> bool {
    let is_gone = error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound");
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists) || is_gone
}

fn check_same_key<E: Listed>(entity: &E, key: &EntityKey) -> Result<(), Error> {
    if entity.entity_key()? == *key {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Refused, "to change an entity cannot change its keys"))
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "there is no such entity")
}

fn contended() -> Error {
    Error::new(ErrorKind::Contended, "the entity or its list was changed by others each time")
}
