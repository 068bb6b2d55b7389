//! The rows of the protocol, and the properties that it adds to those of others.
//!
//! | Row | Where | Holds |
//! | --- | --- | --- |
//! | the entity | its key | `_Version`; while it is moved, `_MovingTo` and `_Move` |
//! | `~tx_{id}` | its partition | `_State`: `committed` or `aborted` |
//! | `~deleted_{row key}` | its partition | `_Version` of the entity that was deleted, `_Deleted` |
//! | a copy | its key | `_Version` and key of the entity it was made from, `_Deleted` if it is a tombstone, `_Former` |

use crate::entity::{Properties, PropertiesBuilder, RawEntity, ValueRef};
use crate::{Entity, EntityKey, Error, StoredEntity, Value, Versioned};

pub(crate) const VERSION: &str = "_Version";
pub(crate) const DELETED: &str = "_Deleted";
pub(crate) const PRIMARY_PARTITION: &str = "_PrimaryPartition";
pub(crate) const PRIMARY_ROW: &str = "_PrimaryRow";
/// Entities that the copy was of before, with their versions.
pub(crate) const FORMER: &str = "_Former";
pub(crate) const MOVING_TO: &str = "_MovingTo";
pub(crate) const MOVE: &str = "_Move";
pub(crate) const STATE: &str = "_State";

pub(crate) const COMMITTED: &str = "committed";
pub(crate) const ABORTED: &str = "aborted";
pub(crate) const MARKER_PREFIX: &str = "~tx_";
pub(crate) const TOMBSTONE_PREFIX: &str = "~deleted_";

/// All of them begin like this, and the names of others hardly ever do.
const OWN_PREFIX: char = '_';
const OWN_PROPERTIES: [&str; 8] =
    [VERSION, DELETED, PRIMARY_PARTITION, PRIMARY_ROW, FORMER, MOVING_TO, MOVE, STATE];

pub(crate) fn is_own_property(name: &str) -> bool {
    name.starts_with(OWN_PREFIX) && OWN_PROPERTIES.contains(&name)
}

/// A row with all its properties, those of the protocol among them.
pub(crate) type Row = RawEntity;

impl Row {
    pub(crate) fn new(key: EntityKey, properties: &Properties, own: &[(&str, Value)]) -> Result<Self, Error> {
        Ok(Self { key, properties: with_own(properties, own)? })
    }

    pub(crate) fn version(&self) -> Option<i64> {
        match self.properties.get(VERSION) {
            Some(ValueRef::Int64(version)) => Some(version),
            _ => None,
        }
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        matches!(self.properties.get(DELETED), Some(ValueRef::Boolean(true)))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.properties.get(name) {
            Some(ValueRef::String(text)) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The entity that a copy was made from.
    pub(crate) fn primary(&self) -> Option<EntityKey> {
        Some(EntityKey::new(self.text(PRIMARY_PARTITION)?, self.text(PRIMARY_ROW)?))
    }
}

/// The properties without any of the protocol, and then these.
pub(crate) fn with_own(properties: &Properties, own: &[(&str, Value)]) -> Result<Properties, Error> {
    let mut all = PropertiesBuilder::new();
    for (name, value) in properties.iter().filter(|(name, _)| !crate::entity::is_own_property(name)) {
        all.push(name, value)?;
    }
    for (name, value) in own {
        all.push(name, value.as_ref())?;
    }
    Ok(all.finish())
}

/// A row as the entity that it holds.
pub(crate) fn entity_of<E: Entity>(row: &Versioned<Row>) -> Result<E, Error> {
    E::from_stored(&StoredEntity {
        key: row.key.clone(),
        etag: row.etag.clone(),
        timestamp: row.timestamp,
        properties: row.properties.clone(),
    })
}

pub(crate) fn marker_key(partition_key: &str, id: &str) -> EntityKey {
    EntityKey::new(partition_key, format!("{MARKER_PREFIX}{id}"))
}

pub(crate) fn tombstone_key(key: &EntityKey) -> EntityKey {
    EntityKey::new(key.partition_key.as_str(), format!("{TOMBSTONE_PREFIX}{}", key.row_key))
}

pub(crate) fn marker(key: EntityKey, state: &str) -> Result<Row, Error> {
    Row::new(key, &Properties::default(), &[(STATE, state.into())])
}

/// What stays of an entity that was deleted.
pub(crate) fn tombstone(key: &EntityKey, version: i64) -> Result<Row, Error> {
    let own = [(VERSION, version.into()), (DELETED, true.into())];
    Row::new(tombstone_key(key), &Properties::default(), &own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_properties_are_known() {
        assert!(OWN_PROPERTIES.into_iter().all(is_own_property));
        assert!(!["_Other", "Version", ""].into_iter().any(is_own_property));
    }
}
