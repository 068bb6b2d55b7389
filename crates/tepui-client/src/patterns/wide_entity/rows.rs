//! How the properties of an entity are spread over rows, and put together again.

use crate::entity::{Properties, PropertiesBuilder, ValueRef};
use crate::table::WRITE_TOKEN;
use crate::{Entity, EntityKey, Error, ErrorKind, Guid, ReplaceEntity, StoredEntity};
use tepui_model::table::change_set::MAX_CHANGES;
use tepui_model::table::properties::MAX_PROPERTIES;

/// Between the row key of the entity and the number of the row.
pub(super) const SEPARATOR: char = '~';
/// Which write a row is of.
const GENERATION: &str = "_Generation";
/// How many rows the entity has.
const ROWS: &str = "_Rows";
/// The two above, and the mark that tables with write tokens add.
const OWN_PROPERTIES: usize = 3;
/// Of a row; the limit is 1 MiB. What is packed here is counted a little differently by services, where a character of text
/// takes two bytes.
const MAX_ROW_BYTES: usize = 1 << 20;
const BYTES_LEFT_FREE: usize = 8 << 10;

/// One row of an entity.
pub(super) struct Row {
    key: EntityKey,
    pub(super) generation: Guid,
    rows: usize,
    /// Only those of the entity.
    properties: Properties,
}

pub(super) fn row_key(row_key: &str, number: usize) -> String {
    format!("{row_key}{SEPARATOR}{number:02}")
}

impl Entity for Row {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(self.key.clone())
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        let mut all = PropertiesBuilder::with_capacity(self.properties.bytes().len() + 64);
        all.push(GENERATION, ValueRef::Guid(self.generation))?;
        all.push(ROWS, ValueRef::Int32(i32::try_from(self.rows).unwrap_or(i32::MAX)))?;
        for (name, value) in self.properties.iter() {
            all.push(name, value)?;
        }
        Ok(all.finish())
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        let (Some(ValueRef::Guid(generation)), Some(ValueRef::Int32(rows))) =
            (stored.properties.get(GENERATION), stored.properties.get(ROWS))
        else {
            return Err(Error::decode(format!("not a row of a wide entity: {:?}", stored.key.row_key)));
        };
        let mut properties = PropertiesBuilder::with_capacity(stored.properties.bytes().len());
        for (name, value) in stored.properties.iter().filter(|(name, _)| !is_own(name)) {
            properties.push(name, value)?;
        }
        let rows = usize::try_from(rows).unwrap_or(0);
        Ok(Self { key: stored.key.clone(), generation, rows, properties: properties.finish() })
    }
}

/// A row has all properties that it is stored with.
impl ReplaceEntity for Row {}

fn is_own(name: &str) -> bool {
    matches!(name, GENERATION | ROWS | WRITE_TOKEN)
}

/// The rows of an entity, at least one.
pub(super) fn split(key: &EntityKey, properties: &Properties, generation: Guid) -> Result<Vec<Row>, Error> {
    let mut filled = Vec::new();
    let mut current = PropertiesBuilder::new();
    let (mut count, mut bytes) = (0, 0);
    for (name, value) in properties.iter().filter(|(name, _)| *name != WRITE_TOKEN) {
        if is_own(name) {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("wide entities use this property themselves: {name}"),
            ));
        }
        let size = counted_bytes(name, value);
        if count == MAX_PROPERTIES - OWN_PROPERTIES || bytes + size > MAX_ROW_BYTES - BYTES_LEFT_FREE {
            filled.push(std::mem::take(&mut current).finish());
            (count, bytes) = (0, 0);
        }
        current.push(name, value)?;
        count += 1;
        bytes += size;
    }
    filled.push(current.finish());
    if filled.len() > MAX_CHANGES {
        let message =
            "an entity can take at most 100 rows, which are written in one transaction: see large_entity";
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let rows = filled.len();
    let row = |(number, properties)| {
        let key = EntityKey::new(key.partition_key.as_str(), row_key(&key.row_key, number));
        Row { key, generation, rows, properties }
    };
    Ok(filled.into_iter().enumerate().map(row).collect())
}

/// At least what services count for a property.
fn counted_bytes(name: &str, value: ValueRef<'_>) -> usize {
    let value = match value {
        // A byte of UTF-8 is at most one unit of UTF-16.
        ValueRef::String(text) => 2 * text.bytes().len(),
        ValueRef::Binary(bytes) => bytes.len(),
        _ => 16,
    };
    16 + 2 * name.len() + value
}

/// All properties, if the rows are all that one write has written; otherwise `None`.
pub(super) fn join<'a>(rows: impl ExactSizeIterator<Item = &'a Row>) -> Result<Option<Properties>, Error> {
    let count = rows.len();
    let mut generation = None;
    let mut all = PropertiesBuilder::new();
    for (number, row) in rows.enumerate() {
        let is_next = row.key.row_key.ends_with(&row_key("", number));
        if !is_next
            || row.rows != count
            || generation.replace(row.generation).is_some_and(|before| before != row.generation)
        {
            return Ok(None);
        }
        for (name, value) in row.properties.iter() {
            all.push(name, value)?;
        }
    }
    Ok(Some(all.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DynamicEntity;
    use crate::table::new_token;

    fn entity(count: usize, bytes: usize) -> Properties {
        let mut entity = DynamicEntity::new("p", "r");
        for number in 0..count {
            entity.set(format!("P{number}"), "x".repeat(bytes));
        }
        entity.to_properties().unwrap()
    }

    #[test]
    fn rows_are_within_the_limits_and_make_the_entity_again() {
        let key = EntityKey::new("p", "r");
        for (count, bytes, expected) in [
            (0, 0, 1),
            (1, 10, 1),
            (249, 10, 1),
            (250, 10, 2),
            (600, 10, 3),
            (40, 32_000, 3),
            (100, 20_000, 4),
        ] {
            let properties = entity(count, bytes);
            let rows = split(&key, &properties, new_token()).unwrap();
            assert_eq!(rows.len(), expected, "{count} of {bytes}");
            for row in &rows {
                let stored = row.to_properties().unwrap();
                stored.check_entity("p", &row.key.row_key).unwrap();
                assert_eq!(row.rows, expected);
            }
            assert_eq!(join(rows.iter()).unwrap(), Some(properties));
        }
        assert_eq!(
            split(&key, &entity(1_700, 32_000), new_token()).err().unwrap().kind(),
            ErrorKind::TooLarge
        );
    }

    #[test]
    fn rows_of_different_writes_are_not_put_together() {
        let key = EntityKey::new("p", "r");
        let (old, new) = (entity(600, 10), entity(600, 11));
        let old = split(&key, &old, new_token()).unwrap();
        let new = split(&key, &new, new_token()).unwrap();
        for rows in [
            vec![&old[0], &new[1], &new[2]],
            vec![&old[0], &old[1]],
            vec![&old[1], &old[2]],
            vec![&old[0], &old[2], &old[1]],
        ] {
            assert_eq!(join(rows.into_iter()).unwrap(), None);
        }
    }
}
