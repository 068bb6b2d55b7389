//! The properties of an entity, packed into one run of bytes.
//!
//! The same bytes are built when a request is decoded, stored on disk, matched by filters and
//! written out as JSON: no property is taken apart unless it is looked at. This is the layout that
//! `docs/disk-format.md` describes; changing it means a new format version of the record around it.
//!
//! Each property is its name (length as a varint, UTF-8), one byte for the kind, and the value:
//!
//! | kind | value |
//! |---|---|
//! | 1 string, 2 plain string, 10 binary | length as a varint, bytes |
//! | 3 Int32 | 4 bytes, little endian |
//! | 4 Int64, 5 Double, 8 DateTime (ticks) | 8 bytes, little endian |
//! | 6 true, 7 false | nothing |
//! | 9 Guid | 16 bytes in the order of its text |

use super::edm::{Guid, TextRef, ValueRef};
use crate::text::utf16_len;
use crate::{ErrorCode, ServiceError, Timestamp};
use bytes::Bytes;

/// The most properties that an entity has beside PartitionKey, RowKey and Timestamp.
pub const MAX_PROPERTIES: usize = 252;
const MAX_NAME_UNITS: usize = 255;
const MAX_STRING_UNITS: usize = 32 * 1024;
const MAX_BINARY_BYTES: usize = 64 * 1024;
const MAX_ENTITY_BYTES: usize = 1024 * 1024;

/// The properties of an entity beside its keys and its timestamp, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties(Bytes);

impl Properties {
    /// From bytes that [`Properties::bytes`] returned.
    pub fn from_stored(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub fn iter(&self) -> Iter<'_> {
        iter(&self.0)
    }

    /// How many there are. Counted each time.
    pub fn count(&self) -> usize {
        let (mut rest, mut count) = (&self.0[..], 0);
        while take_counted(&mut rest).is_some() && skip_value(&mut rest).is_some() {
            count += 1;
        }
        count
    }

    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        get(&self.0, name)
    }

    /// These properties with those of `changes` set: known ones in their place, new ones at the end.
    pub fn merged_with(&self, changes: &Self) -> Self {
        let mut merged = PropertiesBuilder::with_capacity(self.0.len() + changes.0.len());
        for (name, value) in self.iter() {
            merged.append(name, changes.get(name).unwrap_or(value));
        }
        for (name, value) in changes.iter() {
            if self.get(name).is_none() {
                merged.append(name, value);
            }
        }
        merged.finish()
    }

    /// Checks what holds for an entity as a whole: how many properties it has and how large it is.
    pub fn check_entity(&self, partition_key: &str, row_key: &str) -> Result<(), ErrorCode> {
        let (mut count, mut size) =
            (0, 4 + 2 * (utf16_len(partition_key.as_bytes()) + utf16_len(row_key.as_bytes())));
        for (name, value) in self.iter() {
            count += 1;
            size += 8 + 2 * utf16_len(name.as_bytes()) + counted_size(value);
        }
        if count > MAX_PROPERTIES {
            return Err(ErrorCode::TooManyProperties);
        }
        if size > MAX_ENTITY_BYTES {
            return Err(ErrorCode::EntityTooLarge);
        }
        Ok(())
    }
}

/// The size of a value as the service counts it towards the limit of an entity.
fn counted_size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::String(text) if text.is_plain() => 4 + 2 * text.bytes().len(),
        ValueRef::String(text) => 4 + 2 * utf16_len(text.bytes()),
        ValueRef::Binary(bytes) => 4 + bytes.len(),
        ValueRef::DateTime(_) | ValueRef::Double(_) | ValueRef::Int64(_) => 8,
        ValueRef::Guid(_) => 16,
        ValueRef::Int32(_) => 4,
        ValueRef::Boolean(_) => 1,
    }
}

/// The value of the property `name` in packed bytes.
pub fn get<'a>(packed: &'a [u8], name: &str) -> Option<ValueRef<'a>> {
    let mut rest = packed;
    while !rest.is_empty() {
        let found = take_counted(&mut rest)?;
        if found == name.as_bytes() {
            return take_value(&mut rest);
        }
        skip_value(&mut rest)?;
    }
    None
}

/// The properties in packed bytes, in their order.
pub fn iter(packed: &[u8]) -> Iter<'_> {
    Iter { rest: packed }
}

/// Whether packed bytes are properties up to their end, with names in UTF-8.
pub fn is_whole(packed: &[u8]) -> bool {
    let mut properties = iter(packed);
    while properties.next().is_some() {}
    properties.rest.is_empty()
}

/// Walks the properties in their order. Ends early at bytes that no builder wrote.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (name, value) = take_property(&mut self.rest)?;
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// The same walk with names as the bytes they are, for those who only copy them.
pub fn iter_bytes(packed: &[u8]) -> impl Iterator<Item = (&[u8], ValueRef<'_>)> {
    let mut rest = packed;
    std::iter::from_fn(move || if rest.is_empty() { None } else { take_property(&mut rest) })
}

fn take_property<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], ValueRef<'a>)> {
    let name = take_counted(rest)?;
    Some((name, take_value(rest)?))
}

mod kind {
    pub(super) const STRING: u8 = 1;
    pub(super) const PLAIN_STRING: u8 = 2;
    pub(super) const INT32: u8 = 3;
    pub(super) const INT64: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const TRUE: u8 = 6;
    pub(super) const FALSE: u8 = 7;
    pub(super) const DATE_TIME: u8 = 8;
    pub(super) const GUID: u8 = 9;
    pub(super) const BINARY: u8 = 10;
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0usize;
    for shift in (0..=28).step_by(7) {
        let [byte] = take_array::<1>(rest)?;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = take_varint(rest)?;
    take(rest, count)
}

fn take_value<'a>(rest: &mut &'a [u8]) -> Option<ValueRef<'a>> {
    let [kind] = take_array(rest)?;
    Some(match kind {
        kind::STRING => ValueRef::String(TextRef::stored(take_counted(rest)?, false)),
        kind::PLAIN_STRING => ValueRef::String(TextRef::stored(take_counted(rest)?, true)),
        kind::INT32 => ValueRef::Int32(i32::from_le_bytes(take_array(rest)?)),
        kind::INT64 => ValueRef::Int64(i64::from_le_bytes(take_array(rest)?)),
        kind::DOUBLE => ValueRef::Double(f64::from_le_bytes(take_array(rest)?)),
        kind::TRUE => ValueRef::Boolean(true),
        kind::FALSE => ValueRef::Boolean(false),
        kind::DATE_TIME => ValueRef::DateTime(Timestamp::from_ticks(u64::from_le_bytes(take_array(rest)?))?),
        kind::GUID => ValueRef::Guid(Guid(take_array(rest)?)),
        kind::BINARY => ValueRef::Binary(take_counted(rest)?),
        _ => return None,
    })
}

fn skip_value(rest: &mut &[u8]) -> Option<()> {
    let [kind] = take_array(rest)?;
    let count = match kind {
        kind::STRING | kind::PLAIN_STRING | kind::BINARY => take_varint(rest)?,
        kind::INT32 => 4,
        kind::INT64 | kind::DOUBLE | kind::DATE_TIME => 8,
        kind::TRUE | kind::FALSE => 0,
        kind::GUID => 16,
        _ => return None,
    };
    take(rest, count).map(drop)
}

/// Packs properties one by one, checking each against the limits of the service.
#[derive(Debug, Default)]
pub struct PropertiesBuilder {
    packed: Vec<u8>,
}

impl PropertiesBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_capacity(bytes: usize) -> Self {
        Self { packed: Vec::with_capacity(bytes) }
    }

    /// Adds a property.
    ///
    /// ```
    /// use tepui_model::table::{PropertiesBuilder, ValueRef};
    /// let mut builder = PropertiesBuilder::new();
    /// builder.push("Age", ValueRef::Int32(42)).unwrap();
    /// assert!(builder.push("Age", ValueRef::Int32(43)).is_err());
    /// assert_eq!(builder.finish().get("Age"), Some(ValueRef::Int32(42)));
    /// ```
    pub fn push(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), ServiceError> {
        check_value(name, value)?;
        check_name(name)?;
        if get(&self.packed, name).is_some() {
            return Err(ErrorCode::DuplicatePropertiesSpecified.into());
        }
        self.append(name, value);
        Ok(())
    }

    /// Adds a property whose name has passed [`check_name`] and is new, as the caller has seen: only the value is checked.
    ///
    /// ```
    /// use tepui_model::table::{PropertiesBuilder, ValueRef};
    /// let mut builder = PropertiesBuilder::new();
    /// builder.push_new("Age", ValueRef::Int32(42)).unwrap();
    /// assert!(builder.push_new("Photo", ValueRef::Binary(&[0; 65_537])).is_err());
    /// assert_eq!(builder.take().count(), 1);
    /// assert_eq!(builder.finish().get("Age"), None);
    /// ```
    pub fn push_new(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), ServiceError> {
        check_value(name, value)?;
        self.append(name, value);
        Ok(())
    }

    /// Adds a property that is known to be within the limits and new.
    fn append(&mut self, name: &str, value: ValueRef<'_>) {
        self.put_counted(name.as_bytes());
        match value {
            ValueRef::String(text) => {
                // Stored text carries the answer already; text from a request was looked at once.
                self.packed.push(if text.is_plain() { kind::PLAIN_STRING } else { kind::STRING });
                self.put_counted(text.bytes());
            }
            ValueRef::Int32(number) => self.put(kind::INT32, &number.to_le_bytes()),
            ValueRef::Int64(number) => self.put(kind::INT64, &number.to_le_bytes()),
            ValueRef::Double(number) => self.put(kind::DOUBLE, &number.to_le_bytes()),
            ValueRef::Boolean(true) => self.packed.push(kind::TRUE),
            ValueRef::Boolean(false) => self.packed.push(kind::FALSE),
            ValueRef::DateTime(time) => self.put(kind::DATE_TIME, &time.ticks().to_le_bytes()),
            ValueRef::Guid(guid) => self.put(kind::GUID, &guid.0),
            ValueRef::Binary(bytes) => {
                self.packed.push(kind::BINARY);
                self.put_counted(bytes);
            }
        }
    }

    fn put(&mut self, kind: u8, payload: &[u8]) {
        self.packed.push(kind);
        self.packed.extend_from_slice(payload);
    }

    fn put_counted(&mut self, bytes: &[u8]) {
        let mut count = bytes.len();
        while count >= 0x80 {
            self.packed.push(count as u8 | 0x80);
            count >>= 7;
        }
        self.packed.push(count as u8);
        self.packed.extend_from_slice(bytes);
    }

    pub fn finish(self) -> Properties {
        Properties(self.packed.into())
    }

    /// The properties so far, in memory of just their size. The builder is empty again, and keeps its own.
    pub fn take(&mut self) -> Properties {
        let taken = Properties(Bytes::copy_from_slice(&self.packed));
        self.clear();
        taken
    }

    pub fn clear(&mut self) {
        self.packed.clear();
    }
}

fn check_value(name: &str, value: ValueRef<'_>) -> Result<(), ServiceError> {
    match value {
        ValueRef::String(text)
            if text.bytes().len() > MAX_STRING_UNITS && utf16_len(text.bytes()) > MAX_STRING_UNITS =>
        {
            Err(ErrorCode::PropertyValueTooLarge.into())
        }
        ValueRef::Binary(bytes) if bytes.len() > MAX_BINARY_BYTES => {
            Err(ErrorCode::PropertyValueTooLarge.into())
        }
        ValueRef::DateTime(time) if time < Timestamp::EARLIEST_STORABLE => {
            let c = time.calendar();
            Err(ServiceError::new(ErrorCode::OutOfRangeInput).with_message(format!(
                "The '{name}' parameter of value '{:02}/{:02}/{:04} {:02}:{:02}:{:02}' is out of range.",
                c.month, c.day, c.year, c.hour, c.minute, c.second
            )))
        }
        _ => Ok(()),
    }
}

/// A property's name is an identifier of C# that XML accepts as well.
pub fn check_name(name: &str) -> Result<(), ErrorCode> {
    if name.len() > MAX_NAME_UNITS && utf16_len(name.as_bytes()) > MAX_NAME_UNITS {
        return Err(ErrorCode::PropertyNameTooLong);
    }
    // Nearly all names are letters and digits of ASCII.
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain && name.starts_with(|first: char| !first.is_ascii_digit()) {
        return Ok(());
    }
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|first| first == '_' || first.is_alphabetic());
    let goes_on = characters.all(|next| next == '_' || next.is_alphanumeric() || is_joining(next));
    if starts && goes_on { Ok(()) } else { Err(ErrorCode::PropertyNameInvalid) }
}

/// Combining marks and joiners that both C# and XML allow inside a name.
fn is_joining(character: char) -> bool {
    matches!(character, '\u{0300}'..='\u{036F}' | '\u{203F}'..='\u{2040}')
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod tests;
