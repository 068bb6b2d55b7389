//! An entity whose properties are known only when it is there.

use super::name::Name;
use super::{Entity, ReplaceEntity, StoredEntity, is_own_property};
use crate::{Error, Value};
use tepui_model::table::{EntityKey, Properties, PropertiesBuilder};

/// An entity with whatever properties it has.
///
/// ```
/// use tepui_client::DynamicEntity;
/// let mut employee = DynamicEntity::new("Sales", "000223").with("Name", "Jun Cao").with("Age", 34);
/// employee.set("Age", 35);
/// assert_eq!(employee.get("Age").and_then(|age| age.as_i32()), Some(35));
/// assert_eq!(employee.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Name", "Age"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicEntity {
    pub key: EntityKey,
    /// In their order. Entities have few properties: a search is as fast as a map.
    properties: Vec<(Name, Value)>,
}

impl DynamicEntity {
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self { key: EntityKey::new(partition_key, row_key), properties: Vec::new() }
    }

    /// The same with a property set.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value)
    }

    /// Sets a property; a new one comes last. Limits are checked when it is written.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.properties.iter_mut().find(|(known, _)| known.as_str() == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((Name::new(&name), value)),
        }
    }

    /// Takes a property out. To take it out of what is stored, the entity has to be replaced: a merge keeps it.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let index = self.properties.iter().position(|(known, _)| known.as_str() == name)?;
        Some(self.properties.remove(index).1)
    }

    /// The properties in their order, without the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Entity for DynamicEntity {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(self.key.clone())
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        let mut packed = PropertiesBuilder::new();
        for (name, value) in &self.properties {
            packed.push(name.as_str(), value.as_ref())?;
        }
        Ok(packed.finish())
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        Ok(Self { key: stored.key.clone(), properties: unpack(&stored.properties) })
    }

    fn take_stored(stored: &mut StoredEntity) -> Result<Self, Error> {
        let properties = unpack(&stored.properties);
        Ok(Self { key: std::mem::replace(&mut stored.key, EntityKey::new("", "")), properties })
    }
}

fn unpack(stored: &Properties) -> Vec<(Name, Value)> {
    // Counted first: growing the list step by step would take longer.
    let mut properties = Vec::with_capacity(stored.count());
    // The mark of a write is not a property of what was written.
    let written = stored.iter().filter(|(name, _)| !is_own_property(name));
    properties.extend(written.map(|(name, value)| (Name::new(name), value.into())));
    properties
}

impl ReplaceEntity for DynamicEntity {}
