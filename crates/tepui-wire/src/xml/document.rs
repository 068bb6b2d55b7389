//! A small document as a tree, read with bounds: foreign bytes decide neither depth nor size.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use tepui_model::{ErrorCode, ServiceError};

/// The most that a document may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    bytes: usize,
    elements: usize,
    depth: usize,
}

impl Limits {
    /// More than any of the documents that requests bring can need.
    pub(crate) const OF_REQUESTS: Self = Self { bytes: 256 * 1024, elements: 2048, depth: 8 };
    /// More than the longest list or the largest messages take. Whoever receives a reply limits its bytes as well.
    pub(crate) const OF_REPLIES: Self = Self { bytes: 64 * 1024 * 1024, elements: 1024 * 1024, depth: 16 };
}

/// An element: its name without prefix, and either text or children.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
    /// Whether its text is percent-encoded: the only attribute that is kept.
    pub(crate) encoded: bool,
}

pub(crate) fn invalid(cause: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidXmlDocument).with_cause(cause)
}

/// A reader of a document. Elements without content are as if they had an end.
pub(crate) fn reader(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    (config.expand_empty_elements, config.check_comments) = (true, true);
    reader
}

/// Finds what the reader lets pass and XML does not. `is_first`: whether the document begins with it.
pub(crate) fn check(event: &Event<'_>, is_first: bool) -> Result<(), &'static str> {
    match event {
        Event::Start(start) if start.attributes().any(|attribute| attribute.is_err()) => {
            Err("an attribute that is not well-formed, or there twice")
        }
        Event::Decl(_) if !is_first => Err("a declaration that is not at the beginning"),
        Event::Text(text) if text.contains("]]>") => Err("the end of a section that was not begun"),
        _ => Ok(()),
    }
}

/// The text of a body without its byte order mark. `None` if it is not UTF-8.
pub(crate) fn text(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    Some(text.strip_prefix(super::BOM).unwrap_or(text))
}

/// Reads a document whose root has the given name.
pub(crate) fn parse(body: &[u8], root: &str) -> Result<Element, ServiceError> {
    let found = parse_any(body, Limits::OF_REQUESTS).map_err(invalid)?;
    if found.name == root { Ok(found) } else { Err(invalid("the root element is another")) }
}

/// Reads a document whatever its root is.
pub(crate) fn parse_any(body: &[u8], limits: Limits) -> Result<Element, &'static str> {
    let text = text(body).filter(|text| text.len() <= limits.bytes).ok_or("not UTF-8 or too long")?;
    let mut reader = reader(text);
    let mut is_first = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut count = 0;
    loop {
        let event = reader.read_event().map_err(|_| "not well-formed")?;
        check(&event, std::mem::replace(&mut is_first, false))?;
        match event {
            Event::Start(start) => {
                count += 1;
                if count > limits.elements || open.len() >= limits.depth || root.is_some() {
                    return Err("too many elements");
                }
                let name = start.local_name().into_inner().to_owned();
                let encoded = start.attributes().flatten().any(|attribute| {
                    attribute.key.as_ref() == "Encoded" && attribute.value.as_ref() == "true"
                });
                open.push(Element { name, text: String::new(), children: Vec::new(), encoded });
            }
            Event::End(_) => {
                let closed = open.pop().ok_or("an end without a start")?;
                if !closed.children.is_empty() && !closed.text.trim().is_empty() {
                    return Err("text between elements");
                }
                match open.last_mut() {
                    Some(parent) => parent.children.push(closed),
                    None => root = Some(closed),
                }
            }
            Event::Text(piece) => add_text(&mut open, &piece.xml10_content())?,
            Event::CData(piece) => add_text(&mut open, &piece.xml10_content())?,
            Event::GeneralRef(reference) => add_text(&mut open, &resolve(&reference)?)?,
            // Nobody sends definitions for good reasons: they are how a small document becomes a large one.
            Event::DocType(_) => return Err("a document type"),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Empty(_) => return Err("an element that was not expanded"),
            Event::Eof if open.is_empty() => return root.ok_or("no element"),
            Event::Eof => return Err("an element is not closed"),
        }
    }
}

fn add_text(open: &mut [Element], piece: &str) -> Result<(), &'static str> {
    // Neither as they are nor as references: what is read here must be possible to print.
    if !piece.chars().all(super::is_xml_character) {
        return Err("a character that XML has not");
    }
    match open.last_mut() {
        Some(element) => element.text.push_str(piece),
        None if piece.trim().is_empty() => {}
        None => return Err("text outside of the root element"),
    }
    Ok(())
}

/// A character, or one of the five entities that need no definition.
pub(crate) fn resolve(reference: &BytesRef<'_>) -> Result<String, &'static str> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Ok(character.to_string()),
        Ok(None) => resolve_predefined_entity(reference).map(str::to_owned).ok_or("an unknown entity"),
        Err(_) => Err("not a character"),
    }
}

impl Element {
    /// Takes a child out, the first of that name.
    pub(crate) fn take(&mut self, name: &str) -> Option<Element> {
        let at = self.children.iter().position(|child| child.name == name)?;
        Some(self.children.remove(at))
    }

    pub(crate) fn require(&mut self, name: &str) -> Result<Element, ServiceError> {
        self.take(name).ok_or_else(|| invalid("a required element is missing"))
    }

    /// All that was expected has been taken: what is left is unknown, or there twice.
    pub(crate) fn done(&self) -> Result<(), ServiceError> {
        if self.children.is_empty() { Ok(()) } else { Err(invalid("an element is unknown or repeated")) }
    }

    /// The text of an element without children.
    pub(crate) fn into_text(self) -> Result<String, ServiceError> {
        self.done()?;
        Ok(self.text)
    }

    pub(crate) fn bool(self) -> Result<bool, ServiceError> {
        match self.into_text()?.trim() {
            "true" | "True" | "1" => Ok(true),
            "false" | "False" | "0" => Ok(false),
            _ => Err(invalid("neither true nor false")),
        }
    }

    pub(crate) fn number(self) -> Result<u32, ServiceError> {
        self.into_text()?.trim().parse().map_err(|_| invalid("not a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(name: &str, text: &str) -> Element {
        Element { name: name.to_owned(), text: text.to_owned(), children: Vec::new(), encoded: false }
    }

    #[test]
    fn documents_are_read() {
        for (text, expected) in [
            ("<a/>", ""),
            ("<?xml version=\"1.0\"?>\r\n<!-- c --><a>x</a>\n", "x"),
            ("\u{FEFF}<a>x</a>", "x"),
            ("<p:a xmlns:p=\"u\">x &amp; &#x79;<![CDATA[<z>]]></p:a>", "x & y<z>"),
        ] {
            assert_eq!(parse(text.as_bytes(), "a"), Ok(leaf("a", expected)), "{text}");
        }
        let nested = parse(b"<a> <b>1</b>\n<c/> </a>", "a").unwrap();
        assert_eq!(nested.children, [leaf("b", "1"), leaf("c", "")]);
    }

    #[test]
    fn documents_are_refused() {
        let deep = "<a>".repeat(9) + &"</a>".repeat(9);
        let many = format!("<a>{}</a>", "<b/>".repeat(3000));
        let long = format!("<a>{}</a>", "x".repeat(300_000));
        for text in [
            "",
            "x",
            "<a>",
            "</a>",
            "<a></b>",
            "<b/>",
            "<a/><a/>",
            "<a/>x",
            "<a>x<b/></a>",
            "<a>&nope;</a>",
            "<a>&#xD800;</a>",
            "<a>x\0y</a>",
            "<a>\u{1}</a>",
            "<a>&#x1;</a>",
            "<a>\u{FFFF}</a>",
            "<a><![CDATA[\u{1F}]]></a>",
            "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>",
            "<!DOCTYPE a><a/>",
            &deep,
            &many,
            &long,
        ] {
            let error = parse(text.as_bytes(), "a").unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidXmlDocument, "{text:.60}");
        }
        assert!(parse(b"<a>\xFF</a>", "a").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            text in "(<a>|</a>|<b/>|&amp;|&#|;|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<\\?|[a-z<>&]){0,20}",
        ) {
            let _ = parse(&bytes, "a");
            let _ = parse(text.as_bytes(), "a");
        }
    }
}
