//! Entities and tables to Atom.

use super::{ATOM, DATA, METADATA, SCHEME};
use crate::table::links::{TableLinks, table_path};
use crate::table::number::write_double;
use crate::table::select::Select;
use crate::table::value::write_base64;
use tepui_model::table::{EdmType, EntitySink, EntityView, TextRef, ValueRef, properties};
use tepui_model::{Timestamp, etag};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// Writes the entities of a page as they are found.
#[derive(Debug)]
pub struct FeedWriter {
    out: Vec<u8>,
    base: String,
    account: String,
    table: String,
    select: Select,
    now: Timestamp,
}

impl FeedWriter {
    pub fn feed(links: &TableLinks<'_>, select: Select, now: Timestamp) -> Self {
        let mut out = Vec::with_capacity(16 * 1024);
        open_feed(&mut out, links.base, links.table, now);
        let TableLinks { base, account, table } = *links;
        Self { out, base: base.to_owned(), account: account.to_owned(), table: table.to_owned(), select, now }
    }

    /// The body of the answer.
    pub fn finish(mut self) -> Vec<u8> {
        put(&mut self.out, "</feed>");
        self.out
    }
}

impl EntitySink for FeedWriter {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let links = TableLinks { base: &self.base, account: &self.account, table: &self.table };
        put(&mut self.out, "<entry");
        write_entity(&mut self.out, &links, &self.select, self.now, entity);
    }

    fn bytes(&self) -> usize {
        self.out.len()
    }
}

/// The body of an answer that holds one entity.
pub fn entity_entry(
    links: &TableLinks<'_>,
    select: &Select,
    now: Timestamp,
    entity: &EntityView<'_>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(entity.packed.len() * 2 + 1024);
    open_document(&mut out, "entry", links.base);
    write_entity(&mut out, links, select, now, entity);
    out
}

/// The body of an answer that lists tables.
pub fn table_feed(base: &str, account: &str, names: &[String], now: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(names.len() * 512 + 512);
    open_feed(&mut out, base, "Tables", now);
    for name in names {
        put(&mut out, "<entry>");
        write_table(&mut out, base, account, name, now);
    }
    put(&mut out, "</feed>");
    out
}

/// The body of an answer that holds one table.
pub fn table_entry(base: &str, account: &str, name: &str, now: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    open_document(&mut out, "entry", base);
    put(&mut out, ">");
    write_table(&mut out, base, account, name, now);
    out
}

/// Up to the attributes of the outermost element; the caller may add one and closes it.
fn open_document(out: &mut Vec<u8>, element: &str, base: &str) {
    put(out, DECLARATION);
    put(out, "<");
    put(out, element);
    put(out, " xml:base=\"");
    put_escaped(out, base);
    put(out, "/\" xmlns=\"");
    put(out, ATOM);
    put(out, "\" xmlns:d=\"");
    put(out, DATA);
    put(out, "\" xmlns:m=\"");
    put(out, METADATA);
    put(out, "\"");
}

fn open_feed(out: &mut Vec<u8>, base: &str, set: &str, now: Timestamp) {
    open_document(out, "feed", base);
    put(out, "><title type=\"text\">");
    put_escaped(out, set);
    put(out, "</title><id>");
    put_escaped(out, base);
    put(out, "/");
    put_escaped(out, set);
    put(out, "</id><updated>");
    now.write_iso(out, b":");
    put(out, "</updated><link rel=\"self\" title=\"");
    put_escaped(out, set);
    put(out, "\" href=\"");
    put_escaped(out, set);
    put(out, "\" />");
}

/// What every entry begins with, up to the properties.
fn open_entry(out: &mut Vec<u8>, base: &str, account: &str, set: &str, path: &str, now: Timestamp) {
    put(out, "<id>");
    put_escaped(out, base);
    put(out, "/");
    put_escaped(out, path);
    put(out, "</id><title type=\"text\"></title><updated>");
    now.write_iso(out, b":");
    put(out, "</updated><author><name /></author><link rel=\"edit\" title=\"");
    put_escaped(out, set);
    put(out, "\" href=\"");
    put_escaped(out, path);
    put(out, "\" /><category term=\"");
    put_escaped(out, account);
    put(out, ".");
    put_escaped(out, set);
    put(out, "\" scheme=\"");
    put(out, SCHEME);
    put(out, "\" /><content type=\"application/xml\"><m:properties>");
}

fn close_entry(out: &mut Vec<u8>) {
    put(out, "</m:properties></content></entry>");
}

fn write_table(out: &mut Vec<u8>, base: &str, account: &str, name: &str, now: Timestamp) {
    open_entry(out, base, account, "Tables", &table_path(name), now);
    write_property(out, "TableName", ValueRef::string(name));
    close_entry(out);
}

fn write_entity(
    out: &mut Vec<u8>,
    links: &TableLinks<'_>,
    select: &Select,
    now: Timestamp,
    entity: &EntityView<'_>,
) {
    put(out, " m:etag=\"");
    put_escaped(out, &etag::to_text(entity.timestamp));
    put(out, "\">");
    let path = links.entity_path(entity.partition_key, entity.row_key);
    open_entry(out, links.base, links.account, links.table, &path, now);
    let system = [
        ("PartitionKey", ValueRef::string(entity.partition_key)),
        ("RowKey", ValueRef::string(entity.row_key)),
        ("Timestamp", ValueRef::DateTime(entity.timestamp)),
    ];
    let selected = |name: &str| select.names().is_none_or(|names| names.iter().any(|other| other == name));
    for (name, value) in system {
        if selected(name) {
            write_property(out, name, value);
        }
    }
    match select.names() {
        None => {
            for (name, value) in properties::iter(entity.packed) {
                write_property(out, name, value);
            }
        }
        Some(names) => {
            for name in names.iter().filter(|name| system.iter().all(|(other, _)| other != name)) {
                match properties::get(entity.packed, name) {
                    Some(value) => write_property(out, name, value),
                    None => write_null(out, name),
                }
            }
        }
    }
    close_entry(out);
}

/// A property that was asked for and is missing. What cannot be an element's name is left out.
fn write_null(out: &mut Vec<u8>, name: &str) {
    let starts = name.starts_with(|first: char| first == '_' || first.is_alphabetic());
    if starts && name.chars().all(|next| next == '_' || next.is_alphanumeric()) {
        put(out, "<d:");
        put(out, name);
        put(out, " m:null=\"true\" />");
    }
}

fn write_property(out: &mut Vec<u8>, name: &str, value: ValueRef<'_>) {
    put(out, "<d:");
    put(out, name);
    let kind = value.edm_type();
    if kind != EdmType::String {
        put(out, " m:type=\"");
        put(out, kind.name());
        put(out, "\"");
    }
    match value {
        ValueRef::String(text) => {
            if has_blank_ends(text) {
                put(out, " xml:space=\"preserve\"");
            }
            put(out, ">");
            if text.is_plain() {
                out.extend_from_slice(text.bytes());
            } else {
                put_escaped(out, text.as_str());
            }
        }
        other => {
            put(out, ">");
            write_value(out, other);
        }
    }
    put(out, "</d:");
    put(out, name);
    put(out, ">");
}

fn has_blank_ends(text: TextRef<'_>) -> bool {
    let blank = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
    blank(text.bytes().first()) || blank(text.bytes().last())
}

/// Values whose text never needs an escape.
fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(_) => {}
        ValueRef::Int32(number) => put(out, itoa::Buffer::new().format(number)),
        ValueRef::Int64(number) => put(out, itoa::Buffer::new().format(number)),
        // Fidelity: XML has its own names for the infinities. scenario: atom-types
        ValueRef::Double(f64::INFINITY) => put(out, "INF"),
        ValueRef::Double(f64::NEG_INFINITY) => put(out, "-INF"),
        ValueRef::Double(number) => write_double(out, number),
        ValueRef::Boolean(answer) => put(out, if answer { "true" } else { "false" }),
        ValueRef::DateTime(moment) => moment.write_iso(out, b":"),
        ValueRef::Guid(guid) => guid.write(out),
        ValueRef::Binary(bytes) => write_base64(out, bytes),
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends text so that it can stand between tags and between quotes.
fn put_escaped(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'&' => put(out, "&amp;"),
            b'<' => put(out, "&lt;"),
            b'>' => put(out, "&gt;"),
            b'"' => put(out, "&quot;"),
            // A bare carriage return would be read as a line feed.
            b'\t' | b'\n' => out.push(byte),
            0..b' ' => put(out, &format!("&#x{byte:X};")),
            _ => out.push(byte),
        }
    }
}
