//! Lists of row keys in the properties of one entity.

use crate::entity::{Properties, PropertiesBuilder, ValueRef};
use crate::table::WRITE_TOKEN;
use crate::{Entity, EntityKey, Error, ErrorKind, ReplaceEntity, StoredEntity};
use std::collections::BTreeSet;
use tepui_model::table::TextRef;
use tepui_model::text::utf16_len;

/// What the properties of a list are named, with two digits.
const PROPERTY: &str = "Keys";
/// No key holds it.
const SEPARATOR: char = '/';
/// A text has at most 32 Ki units of two bytes.
const MAX_UNITS: usize = 32 * 1024;

/// The row keys of entities of one value. A property has at most 64 KiB, so a list takes as many as it needs, up to the 1 MiB
/// of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyList {
    pub(super) key: EntityKey,
    pub(super) row_keys: BTreeSet<String>,
}

impl Entity for KeyList {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(self.key.clone())
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        let mut properties = PropertiesBuilder::new();
        let (mut text, mut units, mut number) = (String::new(), 0, 0);
        for row_key in &self.row_keys {
            let length = utf16_len(row_key.as_bytes()) + 1;
            if units + length > MAX_UNITS {
                push(&mut properties, number, &text)?;
                text.clear();
                (units, number) = (0, number + 1);
            }
            text.push_str(row_key);
            text.push(SEPARATOR);
            units += length;
        }
        push(&mut properties, number, &text)?;
        let properties = properties.finish();
        properties.check_entity(&self.key.partition_key, &self.key.row_key).map_err(|error| {
            let message =
                "the list of keys is larger than an entity: use MemberRows, which has no limit, or InBlob";
            Error::new(ErrorKind::TooLarge, message).with_source(Error::from(error))
        })?;
        Ok(properties)
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        let mut row_keys = BTreeSet::new();
        for (name, value) in stored.properties.iter().filter(|(name, _)| *name != WRITE_TOKEN) {
            let ValueRef::String(text) = value else { return Err(other(name)) };
            if !name.starts_with(PROPERTY) {
                return Err(other(name));
            }
            // Each key ends with a separator, so that an empty row key is one, too.
            row_keys.extend(text.as_str().split_terminator(SEPARATOR).map(str::to_owned));
        }
        Ok(Self { key: stored.key.clone(), row_keys })
    }
}

/// A list has all properties that it is stored with.
impl ReplaceEntity for KeyList {}

fn push(to: &mut PropertiesBuilder, number: usize, text: &str) -> Result<(), Error> {
    Ok(to.push(&format!("{PROPERTY}{number:02}"), ValueRef::String(TextRef::new(text)))?)
}

fn other(name: &str) -> Error {
    Error::decode(format!("a list of keys has a property that is something else: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETag;

    #[test]
    fn lists_are_split_and_read_back() {
        for (count, properties) in [(0, 1), (1, 1), (4_681, 1), (4_682, 2), (70_000, 15)] {
            let row_keys: BTreeSet<_> = (0..count).map(|id| format!("{id:06}")).collect();
            let list = KeyList { key: EntityKey::new("Sales", "ln_Jones"), row_keys };
            let stored = list.to_properties().unwrap();
            assert_eq!(stored.iter().count(), properties, "{count}");
            let (key, etag) = (list.key.clone(), ETag::new(""));
            let stored = StoredEntity { key, etag, timestamp: None, properties: stored };
            assert_eq!(KeyList::from_stored(&stored).unwrap(), list);
        }
        let row_keys = (0..80_000).map(|id| format!("{id:06}")).collect();
        let error =
            KeyList { key: EntityKey::new("Sales", "ln_Jones"), row_keys }.to_properties().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.message().contains("InBlob") && error.message().contains("MemberRows"));
    }
}
