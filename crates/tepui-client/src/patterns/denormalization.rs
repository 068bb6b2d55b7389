//! Denormalization: what is read together is kept together, so that one point query finds all of it.
//!
//! A department that holds the name and the address of its manager needs no second read. The price is that they are stored twice,
//! and that a change of the manager has to follow: [`Denormalized`] sees to it by way of the [`outbox`](super::outbox). A
//! summary, such as the number of employees, is a [`Counter`], which changes in the transaction of its members.
//!
//! # When to use it
//! - Related things are read together again and again, and change seldom.
//!
//! # When not
//! - What is copied changes often, or goes into very many entities: each change writes all of them.
//! - A copy in a row of its own is as good: see [`Copies`](super::copies::Copies). It needs no entity to go into.
//! - The count covers more than one partition: see [`materialized_view`](super::materialized_view).
//!
//! # Example
//! ```
//! use tepui_client::patterns::copies::CopyRow;
//! use tepui_client::patterns::denormalization::Denormalized;
//! use tepui_client::patterns::outbox::Outbox;
//! use tepui_client::{DynamicEntity, Entity, EntityKey, Error};
//!
//! #[derive(Entity, Clone)]
//! #[entity(table = "Staff", closed)]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     name: String,
//!     manages: Option<String>,
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! # account.table("Staff")?.create().await?;
//! # account.table("Departments")?.create().await?;
//! # account.queue("staff")?.create_if_missing().await?;
//! let departments = account.table("Departments")?;
//! departments.insert(&DynamicEntity::new("Sales", "department").with("Floor", 3)).await?;
//!
//! // A manager's name goes into the department.
//! let manager = Denormalized::new("manager", departments.clone(), |employee: &Employee| {
//!     let Some(department) = &employee.manages else { return Ok(Vec::new()) };
//!     let properties = DynamicEntity::new("", "").with("ManagerName", employee.name.as_str()).to_properties()?;
//!     Ok(vec![CopyRow { table: None, key: EntityKey::new(department.as_str(), "department"), properties }])
//! });
//! let staff = account.table_of::<Employee>()?;
//! let outbox = Outbox::without_copies(staff.clone(), account.queue("staff")?).with(manager.of(&staff));
//!
//! let jun = Employee {
//!     department: "Sales".to_owned(),
//!     id: 223,
//!     name: "Jun Cao".to_owned(),
//!     manages: Some("Sales".to_owned()),
//! };
//! outbox.insert(&jun).await?;
//! let sales = departments.get(&EntityKey::new("Sales", "department")).await?.ok_or("it was inserted")?;
//! assert_eq!(sales.get("ManagerName").and_then(|name| name.as_str()), Some("Jun Cao"));
//! assert_eq!(sales.get("Floor").and_then(|floor| floor.as_i32()), Some(3));
//! # Ok(()) });
//! ```

mod counter;

pub use counter::Counter;

use super::copies::CopyRow;
use super::outbox::{BoxFuture, Followed, Follower, Next, Place, Row, Seen, is_changed, next_copy};
use crate::entity::{Properties, PropertiesBuilder};
use crate::table::check_key;
use crate::{Entity, EntityKey, Error, ErrorKind, Table, Versioned};
use std::sync::Arc;

const MAX_TRIES: u32 = 8;

type Rows<E> = dyn Fn(&E) -> Result<Vec<CopyRow>, Error> + Send + Sync;

/// Copies some properties of entities into entities of another kind.
///
/// Beside each of those a row `~copy_{name}_{row key}` holds what is copied, of which entity and of which version. Both change in one
/// transaction. If the entity that the properties go into is not there, that row waits for it: see [`fill`](Self::fill).
pub struct Denormalized<E> {
    name: Arc<str>,
    targets: Table<Row>,
    rows: Arc<Rows<E>>,
}

impl<E> Clone for Denormalized<E> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), targets: self.targets.clone(), rows: Arc::clone(&self.rows) }
    }
}

impl<E: Entity + Sync + 'static> Denormalized<E> {
    /// `rows` says into which entities of `targets` which properties go; their `table` does not matter. `name` tells it from other
    /// things that follow, and is part of keys.
    pub fn new<T>(
        name: &str,
        targets: Table<T>,
        rows: impl Fn(&E) -> Result<Vec<CopyRow>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), targets: targets.of(), rows: Arc::new(rows) }
    }

    /// What follows the entities of a table: to be given to their outbox.
    pub fn of(&self, sources: &Table<E>) -> impl Follower<E> + use<E> {
        let name = format!("copied {}", self.name);
        FollowingProperties { name, sources: sources.clone(), into: self.clone() }
    }

    /// Copies into an entity what waits for it. To be called by whoever inserts or replaces an entity that others are copied into. Says
    /// whether it has changed.
    pub async fn fill(&self, target: &EntityKey) -> Result<bool, Error> {
        for _ in 0..MAX_TRIES {
            let waiting = self.targets.get(&self.waiting_key(target)).await?;
            let stored = self.targets.get(target).await?;
            let (Some(waiting), Some(stored)) = (waiting, stored) else { return Ok(false) };
            let Some(filled) = filled(&stored, &waiting, &waiting)? else { return Ok(false) };
            // Together with what it was made from, so that both are of the same version.
            let mut transaction = self.targets.transaction(target.partition_key.as_str())?;
            transaction.replace(&filled, &stored)?;
            transaction.replace(&waiting.entity, &waiting)?;
            match transaction.commit().await {
                Ok(_) => return Ok(true),
                Err(error) if is_changed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time"))
    }

    fn waiting_key(&self, target: &EntityKey) -> EntityKey {
        let row_key = format!("~copy_{}_{}", self.name, target.row_key);
        EntityKey::new(target.partition_key.as_str(), row_key)
    }

    fn wanted(&self, entity: Option<&E>, target: &EntityKey) -> Result<Option<Properties>, Error> {
        let Some(entity) = entity else { return Ok(None) };
        Ok((self.rows)(entity)?.into_iter().find(|row| row.key == *target).map(|row| row.properties))
    }

    async fn bring(&self, sources: &Table<E>, target: &EntityKey, seen: &Seen<E>) -> Result<Followed, Error> {
        let key = self.waiting_key(target);
        let waiting = self.targets.get(&key).await?;
        let stored = self.targets.get(target).await?;
        let wanted = |entity: Option<&E>| self.wanted(entity, target);
        let next = match next_copy(sources, &key, waiting.as_ref(), seen, &wanted).await? {
            Next::Keep => None,
            Next::Later => return Ok(Followed::Later),
            Next::Write(next) => Some(next),
        };
        let mut transaction = self.targets.transaction(target.partition_key.as_str())?;
        let current = next.as_ref().or(waiting.as_ref().map(|row| &row.entity));
        let before = waiting.as_ref().map(|row| &row.entity).or(next.as_ref());
        if let (Some(stored), Some(current), Some(before)) = (&stored, current, before)
            && let Some(filled) = filled(stored, before, current)?
        {
            transaction.replace(&filled, stored)?;
        }
        match (&next, &waiting) {
            (Some(next), Some(waiting)) => transaction.replace(next, waiting)?,
            (Some(next), None) => transaction.insert(next)?,
            // Written as it is, so that the entity gets what is still of this version.
            (None, Some(waiting)) if !transaction.is_empty() => {
                transaction.replace(&waiting.entity, waiting)?
            }
            (None, _) => {}
        }
        Followed::of_write(transaction.commit().await)
    }
}

/// An entity without what was copied into it before, and with what is now. `None`: it has that already.
fn filled(stored: &Versioned<Row>, before: &Row, now: &Row) -> Result<Option<Row>, Error> {
    let strip = |row: &Row| Row::new(row.key.clone(), &row.properties, &[]);
    let (before, now) = (strip(before)?.properties, strip(now)?.properties);
    let mut properties = PropertiesBuilder::new();
    let is_kept = |name: &str| before.get(name).is_none() && now.get(name).is_none();
    for (name, value) in stored.properties.iter().filter(|(name, _)| is_kept(name)) {
        properties.push(name, value)?;
    }
    for (name, value) in now.iter() {
        properties.push(name, value)?;
    }
    let has_already = now.iter().all(|(name, value)| stored.properties.get(name) == Some(value))
        && before.iter().all(|(name, _)| now.get(name).is_some() || stored.properties.get(name).is_none());
    let filled = Row { key: stored.key.clone(), properties: properties.finish() };
    Ok((!has_already).then_some(filled))
}

struct FollowingProperties<E> {
    name: String,
    sources: Table<E>,
    into: Denormalized<E>,
}

impl<E: Entity + Sync + 'static> Follower<E> for FollowingProperties<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn places(&self, entity: &E) -> Result<Vec<Place>, Error> {
        let table = Some(self.into.targets.name().to_owned());
        let place = |row: CopyRow| {
            check_key(&self.into.waiting_key(&row.key))?;
            Ok(Place { table: table.clone(), key: row.key })
        };
        (self.into.rows)(entity)?.into_iter().map(place).collect()
    }

    fn follow<'a>(&'a self, place: &'a Place, seen: &'a Seen<E>) -> BoxFuture<'a, Result<Followed, Error>> {
        Box::pin(self.into.bring(&self.sources, &place.key, seen))
    }
}
