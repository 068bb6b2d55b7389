//! Entities and tables to JSON.
//!
//! Members are written with a comma behind each; the last one is exchanged for the closing brace.

use super::text::{write_json_string, write_text};
use crate::payload::Payload;
use crate::table::format::MetadataLevel;
use crate::table::links::{TableLinks, table_path};
use crate::table::number::write_double;
use crate::table::select::Select;
use crate::table::value::write_base64;
use tepui_model::Timestamp;
use tepui_model::table::{EntityKey, EntitySink, EntityView, Properties, ValueRef, properties};

/// The size of the first piece of a set. Each one after it is twice as large, up to the last size: a page
/// that grows is never copied, and few large pieces take the system less time to send than many small ones.
const FIRST_PIECE_BYTES: usize = 128 * 1024;
const LAST_PIECE_BYTES: usize = 1024 * 1024;

/// Writes the entities of a page as they are found.
#[derive(Debug)]
pub struct EntityWriter {
    /// The pieces that are full, and their size together.
    full: Vec<Vec<u8>>,
    full_bytes: usize,
    out: Vec<u8>,
    needs_comma: bool,
    level: MetadataLevel,
    base: String,
    account: String,
    table: String,
    select: Select,
}

impl EntityWriter {
    /// Starts a set.
    pub fn set(level: MetadataLevel, links: &TableLinks<'_>, select: Select) -> Self {
        let mut out = Vec::with_capacity(FIRST_PIECE_BYTES);
        out.push(b'{');
        if level != MetadataLevel::None {
            write_metadata(&mut out, links.base, links.table, "", &select);
        }
        out.extend_from_slice(b"\"value\":[");
        let TableLinks { base, account, table } = *links;
        Self {
            full: Vec::new(),
            full_bytes: 0,
            out,
            needs_comma: false,
            level,
            base: base.to_owned(),
            account: account.to_owned(),
            table: table.to_owned(),
            select,
        }
    }

    /// The body of the answer.
    pub fn finish(mut self) -> Payload {
        self.out.extend_from_slice(b"]}");
        self.full.push(self.out);
        Payload::from_pieces(self.full)
    }
}

impl EntitySink for EntityWriter {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let links = TableLinks { base: &self.base, account: &self.account, table: &self.table };
        // An entity that hardly fits in begins the next piece.
        let room = self.out.capacity();
        if self.out.len() + entity.packed.len() + 1024 > room && self.out.len() > room / 2 {
            let next = Vec::with_capacity((room * 2).min(LAST_PIECE_BYTES));
            self.full_bytes += self.out.len();
            self.full.push(std::mem::replace(&mut self.out, next));
        }
        if self.needs_comma {
            self.out.push(b',');
        }
        self.needs_comma = true;
        self.out.push(b'{');
        write_members(&mut self.out, self.level, &links, &self.select, entity);
        close_object(&mut self.out);
    }

    fn bytes(&self) -> usize {
        self.full_bytes + self.out.len()
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
    out: &mut Vec<u8>,
    level: MetadataLevel,
    links: &TableLinks<'_>,
    select: &Select,
    entity: &EntityView<'_>,
) {
    out.push(b'{');
    if level != MetadataLevel::None {
        write_metadata(out, links.base, links.table, "/@Element", select);
    }
    write_members(out, level, links, select, entity);
    close_object(out);
}

/// The body of a request that writes an entity.
pub(in crate::table) fn entity_request(key: &EntityKey, properties: &Properties) -> Vec<u8> {
    let mut out = Vec::with_capacity(properties.bytes().len() * 2 + 256);
    out.push(b'{');
    write_key(&mut out, b"\"PartitionKey\":", &key.partition_key);
    write_key(&mut out, b"\"RowKey\":", &key.row_key);
    for (name, value) in properties::iter_bytes(properties.bytes()) {
        // To some services every number without a fraction is an Int32, however it is written. Azurite is one.
        if matches!(value, ValueRef::Double(number) if number.is_finite() && number.fract() == 0.0) {
            write_type(&mut out, name, value);
        }
        write_property(&mut out, MetadataLevel::Minimal, name, value);
    }
    close_object(&mut out);
    out
}

/// The body of a request that creates a table.
pub(in crate::table) fn table_request(name: &str) -> Vec<u8> {
    let mut out = vec![b'{'];
    write_text_member(&mut out, "TableName", name);
    close_object(&mut out);
    out
}

/// The body of an answer that lists tables.
pub fn tables_body(level: MetadataLevel, base: &str, account: &str, names: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(names.len() * 96 + 128);
    out.push(b'{');
    if level != MetadataLevel::None {
        write_metadata(&mut out, base, "Tables", "", &Select::everything());
    }
    out.extend_from_slice(b"\"value\":[");
    for (index, name) in names.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        write_table(&mut out, level, base, account, name);
    }
    out.extend_from_slice(b"]}");
    out
}

/// The body of an answer that holds one table.
pub fn table_body(level: MetadataLevel, base: &str, account: &str, name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    if level != MetadataLevel::None {
        write_metadata(&mut out, base, "Tables", "/@Element", &Select::everything());
    }
    write_table(&mut out, level, base, account, name);
    out
}

fn write_table(out: &mut Vec<u8>, level: MetadataLevel, base: &str, account: &str, name: &str) {
    if level == MetadataLevel::Full {
        let path = table_path(name);
        write_text_member(out, "odata.type", &format!("{account}.Tables"));
        write_text_member(out, "odata.id", &format!("{base}/{path}"));
        write_text_member(out, "odata.editLink", &path);
    }
    write_text_member(out, "TableName", name);
    close_object(out);
}

fn write_metadata(out: &mut Vec<u8>, base: &str, set: &str, element: &str, select: &Select) {
    let mut url = format!("{base}/$metadata#{set}{element}");
    if let Some(list) = select.as_sent() {
        url.push_str("&$select=");
        url.push_str(&list.replace(' ', "%20"));
    }
    write_text_member(out, "odata.metadata", &url);
}

fn write_text_member(out: &mut Vec<u8>, name: &str, text: &str) {
    write_text(out, name);
    out.push(b':');
    write_text(out, text);
    out.push(b',');
}

/// Exchanges the last comma for the closing brace.
fn close_object(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
}

/// Appends the members of an entity, all but `odata.metadata`.
fn write_members(
    out: &mut Vec<u8>,
    level: MetadataLevel,
    links: &TableLinks<'_>,
    select: &Select,
    entity: &EntityView<'_>,
) {
    out.reserve(entity.packed.len() + 512);
    if level == MetadataLevel::Full {
        write_text_member(out, "odata.type", &format!("{}.{}", links.account, links.table));
        write_text_member(out, "odata.id", &links.entity_url(entity.partition_key, entity.row_key));
    }
    if level != MetadataLevel::None {
        write_etag(out, entity.timestamp);
    }
    if level == MetadataLevel::Full {
        write_text_member(out, "odata.editLink", &links.entity_path(entity.partition_key, entity.row_key));
    }
    match select.names() {
        None => {
            write_key(out, b"\"PartitionKey\":", entity.partition_key);
            write_key(out, b"\"RowKey\":", entity.row_key);
            write_timestamp(out, level, entity.timestamp);
            for (name, value) in properties::iter_bytes(entity.packed) {
                write_property(out, level, name, value);
            }
        }
        Some(names) => write_selected(out, level, names, entity),
    }
}

/// The keys and the timestamp come first, as always; the others in the order in which they were named.
fn write_selected(out: &mut Vec<u8>, level: MetadataLevel, names: &[String], entity: &EntityView<'_>) {
    let named = |name: &str| names.iter().any(|other| other == name);
    if named("PartitionKey") {
        write_key(out, b"\"PartitionKey\":", entity.partition_key);
    }
    if named("RowKey") {
        write_key(out, b"\"RowKey\":", entity.row_key);
    }
    if named("Timestamp") {
        write_timestamp(out, level, entity.timestamp);
    }
    for name in names {
        match name.as_str() {
            "PartitionKey" | "RowKey" | "Timestamp" => {}
            // The ETag is already there, and must not be covered by a null.
            "odata.etag" if level != MetadataLevel::None => {}
            name => match properties::get(entity.packed, name) {
                Some(value) => write_property(out, level, name.as_bytes(), value),
                // Fidelity: a missing property is null, not absent. scenario: select-point
                None => {
                    write_text(out, name);
                    out.extend_from_slice(b":null,");
                }
            },
        }
    }
}

fn write_key(out: &mut Vec<u8>, name: &[u8], key: &str) {
    out.extend_from_slice(name);
    write_text(out, key);
    out.push(b',');
}

/// The ETag as [`etag`](tepui_model::etag) has it, its quotes escaped.
fn write_etag(out: &mut Vec<u8>, timestamp: Timestamp) {
    out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
    timestamp.write_iso(out, b"%3A");
    out.extend_from_slice(b"'\\\"\",");
}

fn write_timestamp(out: &mut Vec<u8>, level: MetadataLevel, timestamp: Timestamp) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
    }
    out.extend_from_slice(b"\"Timestamp\":\"");
    timestamp.write_iso(out, b":");
    out.extend_from_slice(b"\",");
}

/// Appends a property with its annotation, if it needs one to read back as the same type.
fn write_property(out: &mut Vec<u8>, level: MetadataLevel, name: &[u8], value: ValueRef<'_>) {
    let annotated = match value {
        ValueRef::DateTime(_) | ValueRef::Guid(_) | ValueRef::Binary(_) | ValueRef::Int64(_) => true,
        ValueRef::Double(number) => !number.is_finite(),
        ValueRef::String(_) | ValueRef::Int32(_) | ValueRef::Boolean(_) => false,
    };
    if annotated && level != MetadataLevel::None {
        write_type(out, name, value);
    }
    write_name(out, name);
    match value {
        ValueRef::String(text) if text.is_plain() => {
            out.extend_from_slice(b"\":\"");
            out.extend_from_slice(text.bytes());
            out.extend_from_slice(b"\",");
        }
        ValueRef::String(text) => {
            out.extend_from_slice(b"\":");
            write_json_string(out, text.bytes());
            out.push(b',');
        }
        ValueRef::Int32(number) => {
            out.extend_from_slice(b"\":");
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.push(b',');
        }
        ValueRef::Boolean(true) => out.extend_from_slice(b"\":true,"),
        ValueRef::Boolean(false) => out.extend_from_slice(b"\":false,"),
        ValueRef::Double(number) if number.is_finite() => {
            out.extend_from_slice(b"\":");
            write_double(out, number);
            out.push(b',');
        }
        quoted => {
            out.extend_from_slice(b"\":\"");
            write_quoted(out, quoted);
            out.extend_from_slice(b"\",");
        }
    }
}

/// Appends what stands between quotes, and never holds anything that needs an escape there.
fn write_quoted(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Int64(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Double(number) => write_double(out, number),
        ValueRef::DateTime(moment) => moment.write_iso(out, b":"),
        ValueRef::Guid(guid) => guid.write(out),
        ValueRef::Binary(bytes) => write_base64(out, bytes),
        ValueRef::String(_) | ValueRef::Int32(_) | ValueRef::Boolean(_) => {}
    }
}

/// Appends the annotation of a property with its type.
fn write_type(out: &mut Vec<u8>, name: &[u8], value: ValueRef<'_>) {
    write_name(out, name);
    out.extend_from_slice(b"@odata.type\":\"");
    out.extend_from_slice(value.edm_type().name().as_bytes());
    out.extend_from_slice(b"\",");
}

/// Appends a name and the quote before it. It is an identifier: no part of it needs a backslash.
fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    if name.is_ascii() {
        out.push(b'"');
        out.extend_from_slice(name);
    } else {
        write_json_string(out, name);
        out.pop();
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
