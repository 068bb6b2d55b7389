//! The XML of access policies, service properties and stats: reading and printing.
//!
//! Whatever is wrong with a body that is read, the answer is `InvalidXmlDocument`.

mod blob_service_properties;
pub(crate) mod document;
mod service_properties;
mod signed_identifiers;

pub(crate) use blob_service_properties::receive_blob_service_properties;
pub use blob_service_properties::{parse_blob_service_properties, print_blob_service_properties};
pub use service_properties::{parse_service_properties, print_service_properties};
pub(crate) use service_properties::{print_service_properties_change, receive_service_properties};
pub use signed_identifiers::{parse_signed_identifiers, print_signed_identifiers};

use crate::address::Service;
use std::borrow::Cow;
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

/// What the body of Get Service Stats says. `None` if it cannot be read.
pub(crate) fn receive_service_stats(body: &[u8]) -> Option<GeoReplication> {
    let mut root = document::parse(body, "StorageServiceStats").ok()?;
    let mut replication = root.take("GeoReplication")?;
    match replication.take("Status")?.text.as_str() {
        "live" => {
            let last_sync = Timestamp::parse_http(&replication.take("LastSyncTime")?.text)?;
            Some(GeoReplication::Live { last_sync })
        }
        "bootstrap" => Some(GeoReplication::Bootstrap),
        "unavailable" => Some(GeoReplication::Unavailable),
        _ => None,
    }
}

/// The tags of a leaf, each in one piece: lists print them thousands of times.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    open: &'static str,
    close: &'static str,
    empty: &'static str,
}

macro_rules! tag {
    ($name:literal) => {
        $crate::xml::Tag::new(concat!("<", $name, ">"), concat!("</", $name, ">"), concat!("<", $name, " />"))
    };
}
pub(crate) use tag;

impl Tag {
    /// For [`tag!`].
    #[inline(always)]
    pub(crate) const fn new(open: &'static str, close: &'static str, empty: &'static str) -> Self {
        Self { open, close, empty }
    }
}

/// Writes a document: no blanks between elements.
pub(crate) struct Printer {
    out: Vec<u8>,
    /// The second that was printed last, and its text: many entries of a list were made in the same one.
    date: Option<(u64, [u8; 29])>,
}

impl Printer {
    /// Fidelity: the documents of the real service begin with a byte order mark, and clients must cope.
    /// scenario: properties-default
    pub(crate) fn new(service: Service) -> Self {
        let out = [mark(service), DECLARATION].concat().into_bytes();
        Self { out, date: None }
    }

    /// How much was printed.
    pub(crate) fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Makes room for an entry of about so many bytes. Long documents are copied less often than if they grew
    /// as vectors do.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.out.capacity() - self.out.len() < bytes {
            self.out.reserve(bytes + 3 * self.out.len());
        }
    }

    pub(crate) fn leaf(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return self.empty(name);
        }
        self.tag("<", name);
        self.text(text);
        self.tag("</", name);
    }

    /// A leaf whose text is known to stand as it is, and not to be empty: a number, a date, a word of ours.
    #[inline(always)]
    pub(crate) fn plain_leaf(&mut self, tag: Tag, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        debug_assert!(is_plain(text) && !text.is_empty(), "{}: {text:?}", tag.open);
        self.push(tag.open);
        self.out.extend_from_slice(text);
        self.push(tag.close);
    }

    /// A leaf with any text.
    #[inline(always)]
    pub(crate) fn text_leaf(&mut self, tag: Tag, text: &str) {
        if text.is_empty() {
            return self.push(tag.empty);
        }
        self.push(tag.open);
        self.text(text);
        self.push(tag.close);
    }

    /// A leaf with a date as headers have it.
    #[inline(always)]
    pub(crate) fn date(&mut self, tag: Tag, date: Timestamp) {
        let text = match self.date {
            Some((second, text)) if second == date.seconds() => text,
            _ => date.http_bytes(),
        };
        self.date = Some((date.seconds(), text));
        self.plain_leaf(tag, text);
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
        self.push("<");
        self.push(name);
        for (attribute, value) in attributes {
            self.push(&format!(" {attribute}=\"{}\"", escape(value).replace('"', "&quot;")));
        }
        self.push(">");
        Opened { name, inside: self.bytes() }
    }

    /// Elements are closed in the opposite order.
    #[inline]
    pub(crate) fn close(&mut self, opened: Opened) {
        if self.bytes() == opened.inside {
            self.out.pop();
            self.push(" />");
        } else {
            self.tag("</", opened.name);
        }
    }

    /// Text between the tags of whatever is open.
    pub(crate) fn text(&mut self, text: &str) {
        self.push(&escape(text));
    }

    #[inline(always)]
    pub(crate) fn empty(&mut self, name: &str) {
        self.push("<");
        self.push(name);
        self.push(" />");
    }

    #[inline(always)]
    fn tag(&mut self, opening: &str, name: &str) {
        self.push(opening);
        self.push(name);
        self.push(">");
    }

    #[inline(always)]
    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
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

/// Whether text can stand between tags as it is. Nearly all of it can.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    // Without an early exit the compiler can look at many bytes at a time.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'&') & (byte != b'<') & (byte != b'>');
    text.iter().fold(true, |plain, byte| plain & is_plain(*byte))
}

/// Text as it stands between tags. What XML cannot hold becomes a replacement character.
#[inline]
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) { Cow::Borrowed(text) } else { Cow::Owned(escaped(text)) }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
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
    out
}
