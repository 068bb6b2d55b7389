//! Entities and tables from Atom.
//!
//! Only `m:properties` matters, wherever in the entry it is. Documents with a type definition are
//! refused, so there are no entities but those of XML itself, and elements nest a few levels at most.

use super::{ATOM, DATA, METADATA};
use crate::table::json::{DecodedEntity, KeysIn, Refusal, unreadable_body};
use crate::table::value::parse_value;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use tepui_model::table::properties::MAX_PROPERTIES;
use tepui_model::table::{EdmType, PropertiesBuilder};
use tepui_model::{ErrorCode, ServiceError};

/// How deep elements may nest.
const MAX_DEPTH: usize = 32;

/// The entity that an entry holds.
pub fn decode_entry(body: &[u8], keys: KeysIn) -> Result<DecodedEntity, ServiceError> {
    let mut entity = DecodedEntity::default();
    let mut builder = PropertiesBuilder::with_capacity(body.len() / 2);
    let mut refusal = Refusal::default();
    let mut scratch = Vec::new();
    let mut count = 0;
    for_each_property(body, |property| {
        let key = match property.name.as_str() {
            "Timestamp" => return Ok(()),
            "PartitionKey" => Some(&mut entity.partition_key),
            "RowKey" => Some(&mut entity.row_key),
            _ => None,
        };
        if property.is_null {
            return Ok(());
        }
        let kind = property.kind()?;
        if let Some(key) = key {
            if kind != EdmType::String && keys == KeysIn::Body {
                return Err(unreadable_body());
            }
            if key.replace(property.text).is_some() {
                refusal.note(ErrorCode::DuplicatePropertiesSpecified.into());
            }
            return Ok(());
        }
        count += 1;
        if count > MAX_PROPERTIES {
            refusal.note(ErrorCode::TooManyProperties.into());
            return Ok(());
        }
        let value = parse_value(kind, &property.text, &mut scratch).ok_or_else(unreadable_body)?;
        builder.push(&property.name, value).or_else(|error| {
            refusal.note(error);
            Ok(())
        })
    })?;
    if keys == KeysIn::Body {
        refusal.note_keys(entity.partition_key.as_deref(), entity.row_key.as_deref());
    }
    refusal.into_result()?;
    entity.properties = builder.finish();
    Ok(entity)
}

/// The name in the entry of a table; `None` if there is none.
pub fn decode_table_entry(body: &[u8]) -> Result<Option<String>, ServiceError> {
    let mut table_name = None;
    for_each_property(body, |property| {
        if property.name == "TableName" && !property.is_null {
            if property.kind()? != EdmType::String {
                return Err(unreadable_body());
            }
            table_name = Some(property.text);
        }
        Ok(())
    })?;
    Ok(table_name)
}

/// An element of `m:properties`.
struct Property {
    name: String,
    /// `m:type`; a String where it is missing.
    edm_type: Option<String>,
    is_null: bool,
    text: String,
}

impl Property {
    fn kind(&self) -> Result<EdmType, ServiceError> {
        match self.edm_type.as_deref() {
            None | Some("") => Ok(EdmType::String),
            Some(name) => EdmType::parse(name).ok_or_else(unreadable_body),
        }
    }
}

fn for_each_property(
    body: &[u8],
    mut visit: impl FnMut(Property) -> Result<(), ServiceError>,
) -> Result<(), ServiceError> {
    let text = std::str::from_utf8(body).map_err(unreadable)?;
    let mut reader = NsReader::from_str(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    let mut depth = 0;
    // How deep the properties are, while inside of them.
    let mut properties_at = None;
    let mut property: Option<Property> = None;
    let mut entries = 0;
    loop {
        let event = reader.read_event().map_err(unreadable)?;
        match event {
            Event::Start(start) => {
                let (namespace, local) = reader.resolver().resolve_element(start.name());
                if depth == 0 {
                    entries += 1;
                    if entries > 1 || !is_in(&namespace, ATOM) || local.as_ref() != "entry" {
                        return Err(unreadable_body());
                    }
                } else if depth == MAX_DEPTH || property.is_some() {
                    // A value holds no elements.
                    return Err(unreadable_body());
                } else if properties_at == Some(depth) && is_in(&namespace, DATA) {
                    property = Some(open_property(&reader, &start, local.as_ref())?);
                } else if properties_at.is_none()
                    && is_in(&namespace, METADATA)
                    && local.as_ref() == "properties"
                {
                    properties_at = Some(depth + 1);
                }
                depth += 1;
            }
            Event::End(_) => {
                depth -= 1;
                if let Some(property) = property.take() {
                    visit(property)?;
                } else if properties_at == Some(depth + 1) {
                    properties_at = None;
                }
            }
            Event::Text(text) if depth == 0 && !text.trim().is_empty() => return Err(unreadable_body()),
            Event::Text(text) => add_text(&mut property, &text.xml10_content()),
            Event::CData(text) => add_text(&mut property, &text.xml10_content()),
            Event::GeneralRef(reference) => add_reference(&mut property, &reference)?,
            // Empty elements come as a start and an end.
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::Empty(_) => {}
            Event::DocType(_) => return Err(unreadable_body()),
            Event::Eof if depth == 0 && entries == 1 => return Ok(()),
            Event::Eof => return Err(unreadable_body()),
        }
    }
}

fn open_property(
    reader: &NsReader<&[u8]>,
    start: &BytesStart<'_>,
    name: &str,
) -> Result<Property, ServiceError> {
    let mut property =
        Property { name: name.to_owned(), edm_type: None, is_null: false, text: String::new() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(unreadable)?;
        let (namespace, local) = reader.resolver().resolve_attribute(attribute.key);
        if !is_in(&namespace, METADATA) {
            continue;
        }
        let value = attribute.normalized_value(XmlVersion::Explicit1_0).map_err(unreadable)?;
        match local.as_ref() {
            "type" => property.edm_type = Some(value.into_owned()),
            "null" => property.is_null = matches!(&*value, "true" | "1"),
            _ => {}
        }
    }
    Ok(property)
}

fn is_in(namespace: &ResolveResult<'_>, wanted: &str) -> bool {
    *namespace == ResolveResult::Bound(Namespace(wanted))
}

fn add_text(property: &mut Option<Property>, text: &str) {
    if let Some(property) = property {
        property.text.push_str(text);
    }
}

fn add_reference(property: &mut Option<Property>, reference: &BytesRef<'_>) -> Result<(), ServiceError> {
    if let Some(character) = reference.resolve_char_ref().map_err(unreadable)? {
        add_text(property, character.encode_utf8(&mut [0; 4]));
    } else {
        add_text(property, resolve_predefined_entity(reference).ok_or_else(unreadable_body)?);
    }
    Ok(())
}

fn unreadable(error: impl std::fmt::Display) -> ServiceError {
    unreadable_body().with_cause(error)
}
