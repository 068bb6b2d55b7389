//! Reads the entities of replies, in one pass from JSON to packed properties.
//!
//! The entities of a page mostly have the same members in the same order. What has been found out about the members of
//! one (what they mean, their types, and that no name is said twice) holds for the next as long as the text is the same
//! to the letter, so that only the values have to be read. An entity with an annotation that does not stand right before
//! its value, or with anything else that is unusual, is read again by [`Members`], which has the last word.

use super::decode::{KeysIn, Members, cut, typed};
use super::reader::{Malformed, Reader, Value};
use super::receive::RemoteEntity;
use std::borrow::Cow;
use tepui_model::Timestamp;
use tepui_model::table::properties::{MAX_PROPERTIES, check_name};
use tepui_model::table::{EdmType, PropertiesBuilder};

/// All properties, and what replies say beside them.
const MAX_KNOWN: usize = MAX_PROPERTIES + 12;

#[derive(Default)]
pub(super) struct EntityReader<'a> {
    /// The members of the entities so far, in their order. No name is there twice.
    known: Vec<Known<'a>>,
    packed: PropertiesBuilder,
    scratch: Vec<u8>,
}

struct Known<'a> {
    /// All that stands before the value: the comma, the annotation of the type, the name and the colon.
    text: &'a str,
    name: Cow<'a, str>,
    meaning: Meaning,
}

#[derive(Clone, Copy)]
enum Meaning {
    ETag,
    PartitionKey,
    RowKey,
    Timestamp,
    Property(Option<EdmType>),
    /// Metadata that nobody looks at.
    Nothing,
}

impl<'a> EntityReader<'a> {
    /// Reads the rest of an object whose brace has been read.
    pub(super) fn read(&mut self, reader: &mut Reader<'a>) -> Result<RemoteEntity, Malformed> {
        let start = reader.position();
        if let Some(entity) = self.read_usual(reader) {
            return Ok(entity);
        }
        self.packed.clear();
        reader.go_back(start);
        read_any(reader)
    }

    /// `None` if there is anything that is not as usual, whether it is an error or not.
    fn read_usual(&mut self, reader: &mut Reader<'a>) -> Option<RemoteEntity> {
        let mut entity = RemoteEntity::default();
        let mut properties = 0;
        for index in 0.. {
            if !self.known.get(index).is_some_and(|known| reader.skip_name(known.text)) {
                let start = reader.position();
                let Some(name) = reader.next_name().ok()? else { break };
                self.known.truncate(index);
                self.learn(reader, start, name)?;
            }
            let known = self.known.get(index)?;
            match (known.meaning, reader.value().ok()?) {
                (Meaning::Nothing, _) | (Meaning::Property(_), Value::Null) => {}
                (Meaning::Property(kind), value) => {
                    properties += 1;
                    let value = typed(kind, &value, &mut self.scratch)?;
                    self.packed.push_new(&known.name, value).ok()?;
                }
                (Meaning::ETag, Value::Text(text)) => entity.etag = Some(text.into_owned()),
                (Meaning::PartitionKey, Value::Text(text)) => entity.partition_key = Some(text.into_owned()),
                (Meaning::RowKey, Value::Text(text)) => entity.row_key = Some(text.into_owned()),
                (Meaning::Timestamp, Value::Text(text)) => {
                    entity.timestamp = Some(Timestamp::parse_iso(&text)?);
                }
                _ => return None,
            }
        }
        if properties > MAX_PROPERTIES {
            return None;
        }
        entity.properties = self.packed.take();
        Some(entity)
    }

    /// Finds out about a member whose name has just been read, and reads on up to its value.
    fn learn(&mut self, reader: &mut Reader<'a>, start: usize, mut name: Cow<'a, str>) -> Option<()> {
        let meaning = match &*name {
            "odata.etag" => Meaning::ETag,
            "PartitionKey" => Meaning::PartitionKey,
            "RowKey" => Meaning::RowKey,
            "Timestamp" => Meaning::Timestamp,
            "Timestamp@odata.type" => Meaning::Nothing,
            other if other.starts_with("odata.") => Meaning::Nothing,
            other => match memchr::memchr(b'@', other.as_bytes()).map(|at| (at, &other[at..])) {
                Some((at, "@odata.type")) => {
                    let Value::Text(kind) = reader.value().ok()? else { return None };
                    let kind = EdmType::parse(&kind)?;
                    name = cut(name, at);
                    if reader.next_name().ok()?? != name || name == "PartitionKey" || name == "RowKey" {
                        return None;
                    }
                    Meaning::Property(Some(kind))
                }
                Some((_, annotation)) if annotation.starts_with("@odata.") => Meaning::Nothing,
                _ => Meaning::Property(None),
            },
        };
        if matches!(meaning, Meaning::Property(_)) {
            check_name(&name).ok()?;
        }
        if self.known.len() == MAX_KNOWN || self.known.iter().any(|known| known.name == name) {
            return None;
        }
        if self.known.is_empty() {
            self.known.reserve(16);
        }
        self.known.push(Known { text: reader.text_since(start), name, meaning });
        Some(())
    }
}

/// Any entity, as requests may have it as well.
fn read_any(reader: &mut Reader<'_>) -> Result<RemoteEntity, Malformed> {
    let start = reader.position();
    let (mut etag, mut timestamp, mut members) = (None, None, Members::default());
    while let Some((name, value)) = reader.next_inner()? {
        match (&*name, &value) {
            ("odata.etag", Value::Text(text)) => etag = Some(text.clone().into_owned()),
            ("Timestamp", Value::Text(text)) => {
                timestamp = Some(Timestamp::parse_iso(text).ok_or(Malformed)?);
            }
            _ => members.add(name, value, KeysIn::Address).map_err(|_| Malformed)?,
        }
    }
    let entity = members.into_entity(reader.position() - start, KeysIn::Address).map_err(|_| Malformed)?;
    Ok(RemoteEntity {
        partition_key: entity.partition_key,
        row_key: entity.row_key,
        timestamp,
        etag,
        properties: entity.properties,
    })
}

#[cfg(test)]
#[path = "entity_reader_tests.rs"]
mod tests;
