//! Entities with the mark of their write, for patterns that settle lost answers themselves.

use crate::entity::{Properties, PropertiesBuilder, ValueRef};
use crate::table::WRITE_TOKEN;
use crate::{Entity, EntityKey, Error, Guid, StoredEntity, Table};

/// An entity as it is written with a mark. Never read.
pub(super) struct Marked<'a, E> {
    pub(super) entity: &'a E,
    pub(super) token: Guid,
}

impl<E: Entity + Sync> Entity for Marked<'_, E> {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        self.entity.entity_key()
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        let mut marked = PropertiesBuilder::new();
        for (name, value) in self.entity.to_properties()?.iter().filter(|(name, _)| *name != WRITE_TOKEN) {
            marked.push(name, value)?;
        }
        marked.push(WRITE_TOKEN, ValueRef::Guid(self.token))?;
        Ok(marked.finish())
    }

    fn from_stored(_: &StoredEntity) -> Result<Self, Error> {
        Err(Error::decode("what is marked is only written"))
    }
}

/// Only the mark of an entity, if it has one.
struct Mark(Option<Guid>);

impl Entity for Mark {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Err(Error::decode("a mark is only read"))
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        Err(Error::decode("a mark is only read"))
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        Ok(Self(match stored.properties.get(WRITE_TOKEN) {
            Some(ValueRef::Guid(token)) => Some(token),
            _ => None,
        }))
    }
}

/// Whose an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// There is no entity.
    Nobody,
    /// It was written with this mark.
    Us,
    Another,
}

/// Whose the entity is that is stored under a key.
pub(super) async fn owner<E>(table: &Table<E>, key: &EntityKey, token: Guid) -> Result<Owner, Error> {
    let mark = table.of::<Mark>().get(key).await?.map(|stored| stored.into_inner().0);
    Ok(match mark {
        None => Owner::Nobody,
        Some(found) if found == Some(token) => Owner::Us,
        Some(_) => Owner::Another,
    })
}
