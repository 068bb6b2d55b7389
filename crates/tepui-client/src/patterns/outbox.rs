//! Eventually consistent transactions: one change, and everything that follows from it in other partitions and tables.
//!
//! A transaction of the Table service stays within one partition. What has to follow elsewhere (entries of an index, copies,
//! lists, views, an entity that moves) follows by way of a queue: an author puts a message before it makes its change, and whatever
//! becomes of the author, a [`Worker`] finishes what the message tells. For a moment readers see the change and not yet what follows.
//!
//! # When to use it
//! - Entities that must agree are in different partitions, because of load or because of the keys they are looked up by.
//! - A reader can live with an index or a copy that is a moment behind.
//!
//! # When not
//! - All is in one partition: a [`Transaction`](crate::Transaction) is simpler, and there is no moment in between.
//! - Readers need isolation. Choose keys such that one transaction does.
//!
//! # The protocol
//! The guide's recipe (a message, then the work, which can be repeated) is not enough to keep copies of something that several
//! authors change: a late author or worker leaves copies of a state that is gone. So:
//! 1. The author puts a message that nobody sees for a while: an id, the key of the entity, and the keys of all rows that follow from
//!    it, as it was and as it will be.
//! 2. In one transaction it changes the entity, whose `_Version` rises, and inserts the marker `~tx_{id}`.
//! 3. It applies the change: reads the entity; makes each row what the entity says, or a tombstone, with the entity's version,
//!    only over older versions, and only over what it has read; reads the entity again, and if that has changed does it all again.
//! 4. It deletes the marker, then the message.
//!
//! A worker that sees the message inserts `~tx_{id}` as aborted. If it can, the author has not committed and now cannot: the
//! message is dropped. If not, it reads the marker, and goes on with 3 if the change was committed. An entity that is
//! deleted leaves the row `~deleted_{row key}`, which carries its version. No clocks of machines are compared.
//!
//! The model in `tests/models/index_upkeep.rs` explores this protocol, with crashes and leases that run out. Code and model are the
//! same: the author's steps 3 and 4 are those of a worker that holds the message; `apply.rs` is its worker from the reading of
//! the entity on; `follow.rs` decides as its `write_copy`. Beyond the model, a place can pass from one entity to another, entities
//! can move, and an entity that was written without the outbox gets a new version.
//!
//! # What is left to do
//! - Every write of the entities goes through the outbox. What does not is followed only after [`repair`](
//!   super::index_across_partitions), or the next write that does.
//! - [`Outbox::sweep`] now and then.
//! - Look at the poison queue ([`Worker::poisoned`]).
//!
//! # Example
//! ```
//! use tepui_client::entity::Properties;
//! use tepui_client::patterns::copies::{Copies, CopyRow};
//! use tepui_client::patterns::outbox::{Outbox, Worker};
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
//! /// An entry of an index: which employee has this address.
//! impl Copies for Employee {
//!     fn copies(&self) -> Result<Vec<CopyRow>, Error> {
//!         let key = EntityKey::new("email", self.email.as_str());
//!         Ok(vec![CopyRow { table: None, key, properties: Properties::default() }])
//!     }
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let staff = account.table_of::<Employee>()?;
//! let queue = account.queue("staff")?;
//! # staff.create().await?;
//! # queue.create_if_missing().await?;
//! let outbox = Outbox::new(staff, queue);
//!
//! let jun = Employee { department: "Sales".to_owned(), id: 223, email: "jun@contoso.com".to_owned() };
//! outbox.insert(&jun).await?;
//! outbox.modify(&Employee::key("Sales", 223)?, |jun| jun.email = "cao@contoso.com".to_owned()).await?;
//!
//! // In some other process, for authors that did not come to the end.
//! let worker = Worker::of(&outbox);
//! worker.drain().await?;
//! let entries = account.table("Staff")?;
//! assert!(entries.get(&EntityKey::new("email", "cao@contoso.com")).await?.is_some());
//! # Ok(()) });
//! ```

mod apply;
mod commit;
mod follow;
mod message;
mod moves;
mod poison;
mod rows;
mod sweep;
mod worker;

pub use follow::{BoxFuture, Followed, Follower, Seen};
pub(crate) use follow::{COPIES, Next, is_changed, next_copy, write};
pub use message::Place;
pub(crate) use message::ascii;
pub use poison::Poisoned;
pub(crate) use rows::{Row, entity_of, is_own_property};
pub use sweep::Swept;
pub use worker::{Worked, Worker};

use super::copies::Copies;
use crate::{ETag, Entity, EntityKey, Error, ErrorKind, Match, Queue, ReplaceEntity, Table};
use commit::{After, Primary};
use follow::FollowingCopies;
use rows::tombstone_key;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Writes entities such that what follows from them follows in any case. Cheap to clone; authors and [`Worker`]s are made of
/// the same one.
pub struct Outbox<E> {
    rows: Table<Row>,
    queue: Queue,
    name: Arc<str>,
    followers: Vec<Arc<dyn Follower<E>>>,
    archive: Option<Arc<Outbox<E>>>,
    hidden: Duration,
    leaves_it_to_workers: bool,
}

/// A change that was made.
#[derive(Debug)]
pub struct Committed {
    /// `None` if the entity was deleted or has moved.
    pub etag: Option<ETag>,
    pub version: i64,
    /// Why what follows does not follow yet. A worker will see to it.
    pub pending: Option<Error>,
}

impl<E> Clone for Outbox<E> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            queue: self.queue.clone(),
            name: Arc::clone(&self.name),
            followers: self.followers.clone(),
            archive: self.archive.clone(),
            hidden: self.hidden,
            leaves_it_to_workers: self.leaves_it_to_workers,
        }
    }
}

impl<E> fmt::Debug for Outbox<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let followers: Vec<_> = self.followers.iter().map(|follower| follower.name()).collect();
        f.debug_struct("Outbox")
            .field("name", &self.name)
            .field("followers", &followers)
            .finish_non_exhaustive()
    }
}

impl<E: Copies + Sync + 'static> Outbox<E> {
    /// An outbox for entities that say which rows follow from them.
    pub fn new(table: Table<E>, queue: Queue) -> Self {
        let copies = FollowingCopies::new(table.clone());
        Self::without_copies(table, queue).with(copies)
    }
}

impl<E> Outbox<E> {
    /// An outbox for entities from which no rows follow, other than by what is [added](Self::with).
    pub fn without_copies(table: Table<E>, queue: Queue) -> Self {
        Self {
            name: table.name().into(),
            rows: table.of(),
            queue,
            followers: Vec::new(),
            archive: None,
            hidden: Duration::from_secs(60),
            leaves_it_to_workers: false,
        }
    }

    /// Something else that follows from the entities: a list, a view.
    pub fn with(mut self, follower: impl Follower<E> + 'static) -> Self {
        self.followers.push(Arc::new(follower));
        self
    }

    /// What messages call it, where a table has entities of several types: its table unless said otherwise. While there are
    /// messages, it must stay the same.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Where [`archive`](Self::archive) moves entities to.
    pub fn archive_to(mut self, archive: Self) -> Self {
        self.archive = Some(Arc::new(archive));
        self
    }

    /// For how long no worker sees the message of a change: an author has to commit within that time. A minute unless said
    /// otherwise. Whole seconds, at least one.
    pub fn hidden_for(mut self, time: Duration) -> Self {
        self.hidden = time.max(Duration::from_secs(1));
        self
    }

    /// Authors only make their change; everything that follows is done by workers. Authors are faster so, and what follows is
    /// later.
    pub fn leave_it_to_workers(mut self) -> Self {
        self.leaves_it_to_workers = true;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table of the entities, for reading.
    pub fn table(&self) -> Table<E> {
        self.rows.of()
    }

    pub(crate) fn rows(&self) -> &Table<Row> {
        &self.rows
    }
}

impl<E: Entity + Sync + 'static> Outbox<E> {
    /// Adds an entity that is not there.
    pub async fn insert(&self, entity: &E) -> Result<Committed, Error> {
        let (key, properties) = self.parts(entity)?;
        let absent = |before: &Primary| match before.row {
            Some(_) => Err(Error::new(ErrorKind::AlreadyExists, "the entity is there already")),
            None => Ok(Some(After::new(properties.clone()))),
        };
        self.change(&key, absent).await
    }

    /// Sets the properties of an entity that is there; others that it has stay.
    pub async fn merge(&self, entity: &E, condition: impl Into<Match>) -> Result<Committed, Error> {
        let (key, properties) = self.parts(entity)?;
        let condition = condition.into();
        let merged = |before: &Primary| {
            let row = before.matching(&condition)?;
            Ok(Some(After::new(row.properties.merged_with(&properties))))
        };
        self.change(&key, merged).await
    }

    /// Deletes an entity.
    pub async fn delete(&self, key: &EntityKey, condition: impl Into<Match>) -> Result<Committed, Error> {
        let condition = condition.into();
        let gone = |before: &Primary| before.matching(&condition).map(|_| None);
        let committed = self.change(key, gone).await?;
        Ok(Committed { etag: None, ..committed })
    }

    /// Writes an entity as it is, so that all that follows from it is written again.
    pub(crate) async fn write_again(&self, key: &EntityKey) -> Result<Committed, Error> {
        let same = |before: &Primary| {
            let row = before.matching(&Match::Any)?;
            Ok(Some(After::new(row.properties.clone())))
        };
        self.change(key, same).await
    }

    /// The keys and properties of an entity, refused if it could not be deleted later.
    fn parts(&self, entity: &E) -> Result<(EntityKey, crate::entity::Properties), Error> {
        let key = entity.entity_key()?;
        if key.row_key.starts_with('~') {
            let message = "row keys that begin with ~ are for the rows of the outbox itself";
            return Err(Error::new(ErrorKind::KeyInvalid, message));
        }
        tombstone_key(&key)
            .check_lengths()
            .map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok((key, entity.to_properties()?))
    }
}

impl<E: ReplaceEntity + Sync + 'static> Outbox<E> {
    /// Puts an entity in the place of the one that is there.
    pub async fn replace(&self, entity: &E, condition: impl Into<Match>) -> Result<Committed, Error> {
        let (key, properties) = self.parts(entity)?;
        let condition = condition.into();
        self.change(&key, |before| {
            before.matching(&condition)?;
            Ok(Some(After::new(properties.clone())))
        })
        .await
    }

    /// Puts an entity in the place of the one that is there, or inserts it.
    pub async fn upsert_replace(&self, entity: &E) -> Result<Committed, Error> {
        let (key, properties) = self.parts(entity)?;
        self.change(&key, |_| Ok(Some(After::new(properties.clone())))).await
    }

    /// Changes an entity; again if somebody else was faster, so that `change` may be called several times.
    pub async fn modify(
        &self,
        key: &EntityKey,
        mut change: impl FnMut(&mut E) + Send,
    ) -> Result<Committed, Error> {
        self.change(key, |before| {
            let mut entity: E = entity_of(before.matching(&Match::Any)?)?;
            change(&mut entity);
            if entity.entity_key()? != *key {
                let message = "to modify an entity cannot change its keys: move_to can";
                return Err(Error::new(ErrorKind::Refused, message));
            }
            Ok(Some(After::new(entity.to_properties()?)))
        })
        .await
    }
}
