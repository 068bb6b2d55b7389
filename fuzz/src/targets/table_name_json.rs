//! The body of Create Table.

use crate::checks::{is_json, refused};
use crate::material::ACCOUNT;
use tepui_model::table::TableName;
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::table::json::{decode_table_name, table_body};

pub(super) const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"TableName\":",
    "\"People\"",
    "\"",
    ":",
    ",",
    "null",
    "\\u0041",
    "\\ud800",
    "\u{FEFF}",
    "1e5",
    "true",
    "\"odata.type\":\"x\",",
    "\u{1F600}",
    "\n",
];

/// A name that is one is read again from the answer.
pub fn table_name_json(data: &[u8]) {
    let name = match decode_table_name(data) {
        Ok(name) => name,
        Err(error) => return refused(&error),
    };
    is_json(data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data));
    let Some(name) = name else { return };
    match TableName::parse(&name) {
        Ok(table) => {
            assert!((3..=63).contains(&table.as_str().len()));
            for level in [MetadataLevel::None, MetadataLevel::Minimal, MetadataLevel::Full] {
                let body = table_body(level, "http://h/a", ACCOUNT, table.as_str());
                assert_eq!(decode_table_name(&body).as_ref(), Ok(&Some(name.clone())));
            }
        }
        Err(error) => refused(&error),
    }
}
