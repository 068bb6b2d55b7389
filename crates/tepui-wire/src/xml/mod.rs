//! The XML of access policies, service properties and stats: reading and printing.
//!
//! Whatever is wrong with a body that is read, the answer is `InvalidXmlDocument`.

mod blob_service_properties;
pub(crate) mod document;
mod service_properties;
mod signed_identifiers;

pub use blob_service_properties::{parse_blob_service_properties, print_blob_service_properties};
pub use service_properties::{parse_service_properties, print_service_properties};
pub use signed_identifiers::{parse_signed_identifiers, print_signed_identifiers};

use crate::address::Service;
use tepui_model::Timestamp;

pub(crate) const BOM: &str = "\u{FEFF}";
pub(crate) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// How far the secondary endpoint is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoReplication {
    Live { last_sync: Timestamp },
    Bootstrap,
    Unavailable,
}

/// The body of Get Service Stats.
pub fn print_service_stats(replication: GeoReplication, service: Service) -> Vec<u8> {
    let (status, last_sync) = match replication {
        GeoReplication::Live { last_sync } => ("live", last_sync.to_http()),
        GeoReplication::Bootstrap => ("bootstrap", String::new()),
        GeoReplication::Unavailable => ("unavailable", String::new()),
    };
    let mut body = Printer::new(service);
    body.parent("StorageServiceStats", |body| {
        body.parent("GeoReplication", |body| {
            body.leaf("Status", status);
            body.leaf("LastSyncTime", &last_sync);
        });
    });
    body.finish()
}

/// Writes a document: no blanks between elements.
pub(crate) struct Printer(String);

impl Printer {
    /// Fidelity: the documents of the real service begin with a byte order mark, and clients must cope.
    /// scenario: properties-default
    pub(crate) fn new(service: Service) -> Self {
        Self([mark(service), DECLARATION].concat())
    }

    /// How much was printed.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Makes room for an entry of about so many bytes. Long documents are copied less often than if they grew
    /// as strings do.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.0.capacity() - self.0.len() < bytes {
            self.0.reserve(bytes + 3 * self.0.len());
        }
    }

    pub(crate) fn leaf(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return self.empty(name);
        }
        self.tag("<", name);
        push_escaped(text, &mut self.0);
        self.tag("</", name);
    }

    /// A leaf whose text is known to stand as it is, and not to be empty: a number, a date, a word of ours.
    /// Lists have thousands of them; in line, the tags are copied without a call.
    #[inline(always)]
    pub(crate) fn plain_leaf(&mut self, name: &str, text: &str) {
        debug_assert!(is_plain(text) && !text.is_empty(), "{name}: {text:?}");
        self.0.reserve(2 * name.len() + text.len() + "<></>".len());
        self.tag("<", name);
        self.0.push_str(text);
        self.tag("</", name);
    }

    #[inline]
    pub(crate) fn parent(&mut self, name: &'static str, children: impl FnOnce(&mut Self)) {
        self.parent_with(name, &[], children);
    }

    /// An element with attributes, and with what is inside.
    #[inline]
    pub(crate) fn parent_with(
        &mut self,
        name: &'static str,
        attributes: &[(&str, &str)],
        children: impl FnOnce(&mut Self),
    ) {
        let opened = self.open(name, attributes);
        children(self);
        self.close(opened);
    }

    /// Opens an element whose inside is printed bit by bit.
    #[inline]
    pub(crate) fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) -> Opened {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            push_attribute(value, &mut self.0);
            self.0.push('"');
        }
        self.0.push('>');
        Opened { name, inside: self.bytes() }
    }

    /// Elements are closed in the opposite order.
    #[inline]
    pub(crate) fn close(&mut self, opened: Opened) {
        if self.bytes() == opened.inside {
            self.0.pop();
            self.0.push_str(" />");
        } else {
            self.tag("</", opened.name);
        }
    }

    /// Text between the tags of whatever is open.
    pub(crate) fn text(&mut self, text: &str) {
        push_escaped(text, &mut self.0);
    }

    #[inline(always)]
    pub(crate) fn empty(&mut self, name: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push_str(" />");
    }

    #[inline(always)]
    fn tag(&mut self, opening: &str, name: &str) {
        self.0.push_str(opening);
        self.0.push_str(name);
        self.0.push('>');
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// An element that is not closed yet.
pub(crate) struct Opened {
    name: &'static str,
    /// Where what is in it begins.
    inside: usize,
}

/// The byte order mark, for the services that send one. The real Queue and Blob services do too, but their
/// clients need none, and not every parser of XML copes.
pub(crate) fn mark(service: Service) -> &'static str {
    match service {
        Service::Table => BOM,
        Service::Queue | Service::Blob => "",
    }
}

/// Whether a document of XML 1.0 can hold a character.
pub(crate) fn is_xml_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// Appends text between the quotes of an attribute.
pub(crate) fn push_attribute(text: &str, out: &mut String) {
    for (index, piece) in text.split('"').enumerate() {
        if index > 0 {
            out.push_str("&quot;");
        }
        push_escaped(piece, out);
    }
}

/// Whether text can stand between tags as it is. Nearly all of it can.
pub(crate) fn is_plain(text: &str) -> bool {
    // Without an early exit the compiler can look at many bytes at a time.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'&') & (byte != b'<') & (byte != b'>');
    text.bytes().fold(true, |plain, byte| plain & is_plain(byte))
}

/// Appends text between tags. What XML cannot hold becomes a replacement character.
pub(crate) fn push_escaped(text: &str, out: &mut String) {
    if is_plain(text) {
        return out.push_str(text);
    }
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#xD;"),
            _ if is_xml_character(character) => out.push(character),
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
}
