//! Entities and their keys.

use super::edm::{TextRef, ValueRef};
use super::properties::{self, Properties};
use crate::text::utf16_len;
use crate::{ErrorCode, ServiceError, Timestamp};

/// The longest PartitionKey or RowKey, in UTF-16 code units.
pub const MAX_KEY_UNITS: usize = 1024;

/// The two keys that name an entity within its table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntityKey {
    pub partition_key: String,
    pub row_key: String,
}

impl EntityKey {
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self { partition_key: partition_key.into(), row_key: row_key.into() }
    }

    /// Whether the keys are short enough to be stored.
    pub fn check_lengths(&self) -> Result<(), ErrorCode> {
        check_key_lengths(&self.partition_key, &self.row_key)
    }
}

/// Whether the keys of an entity hold only characters that keys may have; names the offender.
pub fn check_key_characters(partition_key: &str, row_key: &str) -> Result<(), ServiceError> {
    for (name, value) in [("PartitionKey", partition_key), ("RowKey", row_key)] {
        if !value.chars().all(is_key_character) {
            return Err(ServiceError::new(ErrorCode::OutOfRangeInput)
                .with_message(format!("The '{name}' parameter of value '{value}' is out of range.")));
        }
    }
    Ok(())
}

/// Whether the keys of an entity are short enough to be stored.
pub fn check_key_lengths(partition_key: &str, row_key: &str) -> Result<(), ErrorCode> {
    let fits = |key: &str| key.len() <= MAX_KEY_UNITS || utf16_len(key.as_bytes()) <= MAX_KEY_UNITS;
    if fits(partition_key) && fits(row_key) { Ok(()) } else { Err(ErrorCode::PropertyValueTooLarge) }
}

/// Everything but `/ \ # ?` and control characters.
pub fn is_key_character(character: char) -> bool {
    !matches!(character, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

/// An entity as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub key: EntityKey,
    pub timestamp: Timestamp,
    pub properties: Properties,
}

impl Entity {
    pub fn view(&self) -> EntityView<'_> {
        EntityView {
            partition_key: &self.key.partition_key,
            row_key: &self.key.row_key,
            timestamp: self.timestamp,
            packed: self.properties.bytes(),
        }
    }
}

/// An entity borrowed from where it is stored, to be looked at property by property.
#[derive(Debug, Clone, Copy)]
pub struct EntityView<'a> {
    pub partition_key: &'a str,
    pub row_key: &'a str,
    pub timestamp: Timestamp,
    /// The packed bytes of the other properties.
    pub packed: &'a [u8],
}

impl<'a> EntityView<'a> {
    /// The value of any property, the keys and the timestamp among them.
    pub fn property(&self, name: &str) -> Option<ValueRef<'a>> {
        match name {
            "PartitionKey" => Some(ValueRef::String(TextRef::stored(self.partition_key.as_bytes(), false))),
            "RowKey" => Some(ValueRef::String(TextRef::stored(self.row_key.as_bytes(), false))),
            "Timestamp" => Some(ValueRef::DateTime(self.timestamp)),
            _ => properties::get(self.packed, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_keys() {
        for (key, fits) in [
            ("", true),
            ("a b'c\"%+,=()@:", true),
            ("ä大😀", true),
            ("a/b", false),
            ("a\\b", false),
            ("a#", false),
            ("?", false),
            ("\t", false),
            ("\u{85}", false),
            ("\u{A0}", true),
        ] {
            assert_eq!(check_key_characters(key, "").is_ok(), fits, "{key:?}");
            assert_eq!(check_key_characters("", key).is_ok(), fits, "{key:?}");
        }
    }

    #[test]
    fn lengths_of_keys() {
        assert_eq!(EntityKey::new("x".repeat(1024), "é".repeat(1024)).check_lengths(), Ok(()));
        assert_eq!(
            EntityKey::new("x".repeat(1025), "").check_lengths(),
            Err(ErrorCode::PropertyValueTooLarge)
        );
    }
}
