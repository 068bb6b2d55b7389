//! What holds for every target: how inputs are refused, and that entities survive being written.

use crate::material::{ACCOUNT, NOW};
use serde::de::IgnoredAny;
use tepui_model::ServiceError;
use tepui_model::table::properties::MAX_PROPERTIES;
use tepui_model::table::{Entity, EntityKey, Properties, ValueRef};
use tepui_wire::address::Service;
use tepui_wire::auth::Challenge;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::table::atom;
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::table::json::{self, KeysIn};
use tepui_wire::table::links::TableLinks;
use tepui_wire::table::select::Select;

const REQUEST_ID: &str = "8c1bac20-4ed1-4f3b-9a0e-0123456789ab";
const LINKS: TableLinks<'_> =
    TableLinks { base: "http://127.0.0.1:10002/devstoreaccount1", account: ACCOUNT, table: "People" };

/// Foreign bytes may be the caller's fault or ask for too much. They are never the server's fault.
pub(crate) fn refused(error: &ServiceError) {
    let status = error.status();
    assert!((400..500).contains(&status) || status == 501, "status {status}: {error}");
    let format = ErrorFormat::OData { content_type: MetadataLevel::Minimal.content_type() };
    let answer = error_body::encode(error, format, Service::Table, REQUEST_ID, *NOW, &Challenge::default());
    if error.stage != tepui_model::Stage::Authentication {
        is_json(answer.body());
    }
    for format in [ErrorFormat::ODataXml, ErrorFormat::Xml] {
        let answer =
            error_body::encode(error, format, Service::Table, REQUEST_ID, *NOW, &Challenge::default());
        assert_eq!(answer.status().as_u16(), status);
        assert!(std::str::from_utf8(answer.body()).is_ok());
    }
}

/// A string to sign as an error tells it: `None` if it is too long to be told as a whole, so that it cannot be signed.
pub(crate) fn told_as_a_whole(text: &str) -> Option<&str> {
    (!text.ends_with('…')).then_some(text)
}

pub(crate) fn is_json(body: &[u8]) {
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        panic!("not JSON: {error}: {}", String::from_utf8_lossy(body));
    }
}

/// Within the limits, and the same after being written and read again in either format.
pub(crate) fn entity_survives(key: &EntityKey, properties: &Properties) {
    let (mut count, mut negative_zero, mut nul) = (0, false, false);
    for (name, value) in properties.iter() {
        count += 1;
        assert!(name.chars().count() <= 255, "a long name: {name}");
        assert_eq!(properties.get(name).map(text_of), Some(text_of(value)), "{name} is not found as it is");
        match value {
            ValueRef::Double(number) => negative_zero |= number == 0.0 && number.is_sign_negative(),
            ValueRef::String(text) => {
                assert!(std::str::from_utf8(text.bytes()).is_ok(), "not UTF-8: {name}");
                nul |= text.bytes().contains(&0);
            }
            _ => {}
        }
    }
    assert!(count <= MAX_PROPERTIES, "{count} properties");
    let entity = Entity { key: key.clone(), timestamp: *NOW, properties: properties.clone() };
    let everything = Select::everything();
    for level in [MetadataLevel::None, MetadataLevel::Minimal, MetadataLevel::Full] {
        let body = json::entity_body(level, &LINKS, &everything, &entity.view());
        is_json(&body);
        // Without metadata types are lost. JSON has no negative zero.
        if level != MetadataLevel::None && !negative_zero {
            let again = json::decode_entity(&body, KeysIn::Body).expect("what was written can be read");
            assert_eq!(&again.properties, properties, "{}", String::from_utf8_lossy(&body));
            assert_eq!(again.partition_key.as_ref(), Some(&key.partition_key));
            assert_eq!(again.row_key.as_ref(), Some(&key.row_key));
        }
    }
    let body = atom::entity_entry(&LINKS, &everything, *NOW, &entity.view());
    // XML has no way to write this character.
    if !nul {
        let again = atom::decode_entry(&body, KeysIn::Body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)));
        assert_eq!(&again.properties, properties, "{}", String::from_utf8_lossy(&body));
        assert_eq!(again.partition_key.as_ref(), Some(&key.partition_key));
    }
}

/// A value to compare with: NaN equals nothing, not even itself.
fn text_of(value: ValueRef<'_>) -> String {
    format!("{value:?}")
}
