//! Entities as they are stored, for patterns that add properties of their own or change all of them.

use super::{Entity, Properties, ReplaceEntity, StoredEntity};
use crate::{EntityKey, Error};

/// A row with all of its properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawEntity {
    pub(crate) key: EntityKey,
    pub(crate) properties: Properties,
}

impl Entity for RawEntity {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(self.key.clone())
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        Ok(self.properties.clone())
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        Ok(Self { key: stored.key.clone(), properties: stored.properties.clone() })
    }
}

impl ReplaceEntity for RawEntity {}
