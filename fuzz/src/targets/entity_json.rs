//! Entities in JSON.

use crate::checks::{entity_survives, is_json, refused};
use tepui_model::table::EntityKey;
use tepui_wire::table::json::{KeysIn, decode_entity};

pub(super) const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\"PartitionKey\":\"p\",",
    "\"RowKey\":\"r\",",
    "\"Timestamp\":",
    "null",
    "true",
    "false",
    "@odata.type\":\"Edm.Int64\",",
    "Edm.Int32",
    "Edm.Double",
    "Edm.Boolean",
    "Edm.DateTime",
    "Edm.Guid",
    "Edm.Binary",
    "Edm.String",
    "odata.etag",
    "@odata.",
    "\"A\":1,",
    "\\u0000",
    "\\ud83d\\ude00",
    "\\ud83d",
    "\\",
    "\\\"",
    "-0",
    "0.0",
    "1e400",
    "1e-400",
    "2147483648",
    "-9223372036854775808",
    "NaN",
    "Infinity",
    "AQL/",
    "\u{FEFF}",
    "2026-03-10T08:15:30.5Z",
    "1600-12-31T23:59:59Z",
    "8c1bac20-4ed1-4f3b-9a0e-0123456789ab",
    "\u{301}",
    "\u{1F600}",
];

/// What is read is JSON, and can be written and read again.
pub fn entity_json(data: &[u8]) {
    match decode_entity(data, KeysIn::Body) {
        Ok(entity) => {
            is_json(data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data));
            let (Some(partition_key), Some(row_key)) = (entity.partition_key, entity.row_key) else {
                panic!("an insert without keys");
            };
            let key = EntityKey { partition_key, row_key };
            assert!(
                tepui_model::table::entity::check_key_characters(&key.partition_key, &key.row_key).is_ok()
                    && key.check_lengths().is_ok(),
                "{key:?}"
            );
            entity_survives(&key, &entity.properties);
        }
        Err(error) => refused(&error),
    }
    match decode_entity(data, KeysIn::Address) {
        Ok(entity) => entity_survives(&EntityKey::new("p", "r"), &entity.properties),
        Err(error) => refused(&error),
    }
}
