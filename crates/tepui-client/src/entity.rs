//! Entities: what tables hold.

mod dynamic;
mod name;
mod raw;
pub mod typed;

pub use dynamic::DynamicEntity;
pub(crate) use raw::RawEntity;

use crate::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use tepui_model::Timestamp;
use tepui_model::table::EntityKey;

/// What a table can hold. [`DynamicEntity`] holds whatever is there; structs have their properties fixed.
///
/// ```
/// use tepui_client::entity::Properties;
/// use tepui_client::{DynamicEntity, Entity, EntityKey, Error, StoredEntity};
///
/// struct Visits(EntityKey, i32);
///
/// impl Entity for Visits {
///     fn entity_key(&self) -> Result<EntityKey, Error> {
///         Ok(self.0.clone())
///     }
///     fn to_properties(&self) -> Result<Properties, Error> {
///         DynamicEntity::new("", "").with("Count", self.1).to_properties()
///     }
///     fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
///         let entity = DynamicEntity::from_stored(stored)?;
///         let count = entity.get("Count").and_then(|value| value.as_i32());
///         Ok(Self(stored.key.clone(), count.ok_or_else(|| Error::decode("Count is missing"))?))
///     }
/// }
/// ```
pub trait Entity: Sized + Send {
    /// Both keys. Fails if they cannot be written as the key of an entity.
    fn entity_key(&self) -> Result<EntityKey, Error>;

    /// Everything but the keys. Fails if a value is too large.
    fn to_properties(&self) -> Result<Properties, Error>;

    /// From what was read. Fails if that is something else.
    fn from_stored(stored: &StoredEntity) -> Result<Self, Error>;

    /// The same where nobody else needs the key and the properties, which can be moved out.
    #[doc(hidden)]
    fn take_stored(stored: &mut StoredEntity) -> Result<Self, Error> {
        Self::from_stored(stored)
    }

    /// Whether other rows must be written together with the entity: it has an `#[index(…)]`, or is an entry of one.
    #[doc(hidden)]
    const IS_WRITTEN_WITH_OTHERS: bool = false;
}

/// What queries can return: entities, and [projections](typed::Projection) of them, which cannot be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can be neither read as an entity nor as a part of one",
    note = "derive `Entity`, or `Projection` for a struct with some of an entity's fields"
)]
pub trait ReadEntity: Sized + Send {
    /// From what was read. Fails if that is something else.
    fn read(stored: &StoredEntity) -> Result<Self, Error>;

    /// The same where nobody else needs the key and the properties, which can be moved out.
    #[doc(hidden)]
    fn take(stored: &mut StoredEntity) -> Result<Self, Error> {
        Self::read(stored)
    }
}

impl<E: Entity> ReadEntity for E {
    fn read(stored: &StoredEntity) -> Result<Self, Error> {
        Self::from_stored(stored)
    }

    fn take(stored: &mut StoredEntity) -> Result<Self, Error> {
        Self::take_stored(stored)
    }
}

/// An entity that knows all properties of what is stored, so that it can take its place without losing any.
///
/// ```compile_fail
/// # use tepui_client::{Entity, Error, Match, Table};
/// async fn overwrite<E: Entity>(table: &Table<E>, entity: &E) -> Result<(), Error> {
///     table.replace(entity, Match::Any).await?; // Properties that E does not know would be lost.
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot replace what is stored: properties that it does not know would be lost",
    note = "merge it instead, or let the struct keep other properties in a field `#[rest] others: Properties`",
    note = "if nobody else ever adds properties, write `#[entity(closed)]`"
)]
pub trait ReplaceEntity: Entity {}

/// Properties that the client writes for itself: no entity has them, and none is refused because of them.
pub(crate) fn is_own_property(name: &str) -> bool {
    name == crate::table::WRITE_TOKEN || crate::patterns::outbox::is_own_property(name)
}

/// The properties of an entity as they are sent and received: packed.
pub use tepui_model::table::{Properties, PropertiesBuilder, ValueRef};

/// An entity as a service has told it: what [`Entity::from_stored`] makes a value of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntity {
    pub key: EntityKey,
    pub etag: ETag,
    pub timestamp: Option<Timestamp>,
    /// Without what was not selected.
    pub properties: Properties,
}

/// Says which version of an entity or a blob is meant. Opaque, as the service spells it.
///
/// ```
/// use tepui_client::ETag;
/// let stored = ETag::new("W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"");
/// assert_eq!(ETag::new(stored.as_str()), stored);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// From a text that [`ETag::as_str`] gave.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which version of an entity may be overwritten or deleted.
///
/// There is no default: to overwrite what somebody else has written meanwhile has to be said.
///
/// ```
/// use tepui_client::{DynamicEntity, EntityKey, ErrorKind, Match};
/// # tepui_client_testing::run_with_table(async |people| {
/// let (hired, key) = (DynamicEntity::new("Sales", "000223"), EntityKey::new("Sales", "000223"));
/// let etag = people.insert(&hired).await?;
/// people.merge(&hired.with("Age", 34), Match::Any).await?; // Whatever is there.
/// let stale = people.delete(&key, etag).await.unwrap_err(); // Only what was inserted.
/// assert_eq!(stale.kind(), ErrorKind::Conflict);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Whatever is there.
    Any,
    /// Only this one. Another is a [`Conflict`](crate::ErrorKind::Conflict).
    ETag(ETag),
}

impl From<ETag> for Match {
    fn from(etag: ETag) -> Self {
        Self::ETag(etag)
    }
}

impl From<&ETag> for Match {
    fn from(etag: &ETag) -> Self {
        Self::ETag(etag.clone())
    }
}

impl<E> From<&Versioned<E>> for Match {
    fn from(entity: &Versioned<E>) -> Self {
        Self::ETag(entity.etag.clone())
    }
}

/// An entity, and the version of it that was read or written. Can be used as the entity itself.
///
/// ```
/// use tepui_client::{DynamicEntity, ETag, Versioned};
/// let entity = DynamicEntity::new("Sales", "000223").with("Age", 34);
/// let mut read = Versioned { entity, etag: ETag::new("W/\"1\""), timestamp: None };
/// read.set("Age", 35);
/// assert_eq!(read.into_inner().get("Age"), Some(&35.into()));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<E> {
    pub entity: E,
    pub etag: ETag,
    /// When it was written last. Not there if it was not selected, or right after a write.
    pub timestamp: Option<Timestamp>,
}

impl<E> Versioned<E> {
    pub fn into_inner(self) -> E {
        self.entity
    }
}

impl<E: ReadEntity> Versioned<E> {
    pub(crate) fn from_stored(mut stored: StoredEntity) -> Result<Self, Error> {
        let entity = E::take(&mut stored)?;
        Ok(Self { entity, etag: stored.etag, timestamp: stored.timestamp })
    }
}

impl<E> Deref for Versioned<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.entity
    }
}

impl<E> DerefMut for Versioned<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.entity
    }
}
