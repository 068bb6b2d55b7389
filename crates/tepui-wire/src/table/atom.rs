//! Entities and tables as Atom, which versions before 2015-12-11 speak.

use crate::table::json::DecodedEntity;
use crate::table::links::TableLinks;
use crate::table::select::Select;
use tepui_model::table::{EntitySink, EntityView};
use tepui_model::{ErrorCode, ServiceError, Timestamp};

pub fn decode_entry(_body: &[u8]) -> Result<DecodedEntity, ServiceError> {
    Err(ErrorCode::NotImplemented.into())
}

/// The name in the entry of a table; `None` if there is none.
pub fn decode_table_entry(_body: &[u8]) -> Result<Option<String>, ServiceError> {
    Err(ErrorCode::NotImplemented.into())
}

/// Writes the entities of a page as they are found.
#[derive(Debug)]
pub struct FeedWriter {
    out: Vec<u8>,
}

impl FeedWriter {
    pub fn feed(_links: &TableLinks<'_>, _select: Select, _now: Timestamp) -> Self {
        Self { out: Vec::new() }
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

impl EntitySink for FeedWriter {
    fn accept(&mut self, _entity: &EntityView<'_>) {}

    fn bytes(&self) -> usize {
        self.out.len()
    }
}

pub fn entity_entry(
    _links: &TableLinks<'_>,
    _select: &Select,
    _now: Timestamp,
    _entity: &EntityView<'_>,
) -> Vec<u8> {
    Vec::new()
}

pub fn table_feed(_base: &str, _account: &str, _names: &[String], _now: Timestamp) -> Vec<u8> {
    Vec::new()
}

pub fn table_entry(_base: &str, _account: &str, _name: &str, _now: Timestamp) -> Vec<u8> {
    Vec::new()
}
