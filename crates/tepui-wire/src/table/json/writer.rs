//! Entities and tables to JSON.

use crate::table::format::MetadataLevel;
use crate::table::links::TableLinks;
use crate::table::select::Select;
use tepui_model::table::{EntitySink, EntityView};

/// Writes the entities of a page as they are found.
#[derive(Debug)]
pub struct EntityWriter {
    out: Vec<u8>,
}

impl EntityWriter {
    /// Starts a set.
    pub fn set(_level: MetadataLevel, _links: &TableLinks<'_>, _select: Select) -> Self {
        Self { out: Vec::new() }
    }

    /// The body of the answer.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

impl EntitySink for EntityWriter {
    fn accept(&mut self, _entity: &EntityView<'_>) {}

    fn bytes(&self) -> usize {
        self.out.len()
    }
}

/// The body of an answer that holds one entity.
pub fn entity_body(
    level: MetadataLevel,
    links: &TableLinks<'_>,
    select: &Select,
    entity: &EntityView<'_>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(entity.packed.len() * 2 + 512);
    write_entity(&mut out, level, links, select, entity);
    out
}

/// Appends the body of an answer that holds one entity.
pub fn write_entity(
    _out: &mut Vec<u8>,
    _level: MetadataLevel,
    _links: &TableLinks<'_>,
    _select: &Select,
    _entity: &EntityView<'_>,
) {
}

/// The body of an answer that lists tables.
pub fn tables_body(_level: MetadataLevel, _base: &str, _account: &str, _names: &[String]) -> Vec<u8> {
    Vec::new()
}

/// The body of an answer that holds one table.
pub fn table_body(_level: MetadataLevel, _base: &str, _account: &str, _name: &str) -> Vec<u8> {
    Vec::new()
}
