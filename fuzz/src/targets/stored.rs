//! Packed properties, as disks return them. A disk that lies must not bring the server down.

use crate::checks::entity_survives;
use crate::material::{ACCOUNT, NOW};
use bytes::Bytes;
use tepui_model::table::{Entity, EntityKey, Properties, PropertiesBuilder, TextRef, ValueRef};
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::table::links::TableLinks;
use tepui_wire::table::select::Select;
use tepui_wire::table::{atom, json};

pub(super) const WORDS: &[&str] = &[
    "\x01A\x01\x01x",
    "\x01B\x02\x01y",
    "\x01C\x03\0\0\0\0",
    "\x01D\x04\0\0\0\0\0\0\0\0",
    "\x01E\x05\0\0\0\0\0\0\0\0",
    "\x01F\x06",
    "\x01G\x07",
    "\x01H\x08\0\0\0\0\0\0\0\0",
    "\x01I\x090123456789abcdef",
    "\x01J\x0A\x02ab",
    "\x7F",
    "\0",
    "\u{80}",
    "\u{7FF}",
];

/// Bytes that no builder wrote end the walk. Those that one could have written are an entity.
pub fn stored(data: &[u8]) {
    let properties = Properties::from_stored(Bytes::copy_from_slice(data));
    let bytes: usize = properties.iter().map(|(name, _)| name.len() + 2).sum();
    assert!(bytes <= data.len(), "more names than bytes");
    let checked = properties.check_entity("p", "r");
    let entity = Entity { key: EntityKey::new("p", "r"), timestamp: *NOW, properties };
    let links = TableLinks { base: "http://h", account: ACCOUNT, table: "T" };
    let select = Select::parse("A,B,Timestamp,C").expect("a short list");
    for select in [Select::everything(), select] {
        json::entity_body(MetadataLevel::Full, &links, &select, &entity.view());
        atom::entity_entry(&links, &select, *NOW, &entity.view());
    }
    // Names are looked up one by one, which is quick for as many as an entity may have.
    if checked.is_ok() {
        rebuilt(&entity, data);
    }
}

fn rebuilt(entity: &Entity, data: &[u8]) {
    let merged = entity.properties.merged_with(&entity.properties);
    let mut builder = PropertiesBuilder::new();
    let good = entity.properties.iter().all(|(name, value)| builder.push(name, value).is_ok());
    let rebuilt = builder.finish();
    if good && rebuilt.bytes() == data {
        assert_eq!(merged, rebuilt);
        // Text with a wrong mark, or that is not UTF-8, is written as well as can be.
        if rebuilt.iter().all(|(_, value)| is_well_marked(value)) {
            entity_survives(&entity.key, &rebuilt);
        }
    }
}

fn is_well_marked(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(text) => std::str::from_utf8(text.bytes())
            .is_ok_and(|known| TextRef::new(known).is_plain() == text.is_plain()),
        // Only one NaN can be written.
        ValueRef::Double(number) => !number.is_nan() || number.to_bits() == f64::NAN.to_bits(),
        _ => true,
    }
}
