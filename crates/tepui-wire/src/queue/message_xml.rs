//! The text of a message in XML: read from the bodies of Put and Update Message, and escaped for lists.
//!
//! Every character of the text counts, blanks too. Foreign bytes decide neither depth nor size.

use crate::xml::{BOM, document, is_xml_character};
use bytes::Bytes;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_model::{ErrorCode, ServiceError};

/// A text of the largest size whose every character is escaped, and what is around it.
const MAX_BODY_BYTES: usize = 6 * MAX_TEXT_BYTES + 1024;
const MAX_DEPTH: usize = 64;

/// Reads `<QueueMessage><MessageText>…</MessageText></QueueMessage>`. Elements inside of the text are
/// dropped, their texts kept. A text of more than `max_bytes` is refused once the body is known to be XML.
pub fn parse(body: &[u8], max_bytes: usize) -> Result<Bytes, ServiceError> {
    let too_large =
        || ServiceError::new(ErrorCode::RequestBodyTooLarge).with_detail("MaxLimit", max_bytes.to_string());
    if body.len() > MAX_BODY_BYTES {
        return Err(too_large());
    }
    let document =
        std::str::from_utf8(body).map_err(|error| invalid(body, error.valid_up_to(), "not UTF-8"))?;
    let document = document.strip_prefix(BOM).unwrap_or(document);
    if let Some(at) = forbidden_character(document) {
        return Err(invalid(document.as_bytes(), at, "a character that XML has not"));
    }
    let mut reader = document::reader(document);
    let mut text = Text { max_bytes, ..Text::default() };
    let read = text.read(&mut reader);
    read.map_err(|cause| invalid(document.as_bytes(), reader.buffer_position() as usize, cause))?;
    if text.bytes > max_bytes { Err(too_large()) } else { Ok(text.kept.into()) }
}

/// The text of a message, as far as it was read.
#[derive(Default)]
struct Text {
    max_bytes: usize,
    kept: Vec<u8>,
    /// Of all of the text, also of what was not kept because there is no room for it.
    bytes: usize,
    /// How many elements are open.
    depth: usize,
    inside: bool,
    seen: bool,
    root_seen: bool,
}

impl Text {
    fn read(&mut self, reader: &mut Reader<&[u8]>) -> Result<(), &'static str> {
        let mut is_first = true;
        loop {
            let event = reader.read_event().map_err(|_| "not well-formed")?;
            document::check(&event, std::mem::replace(&mut is_first, false))?;
            match event {
                Event::Start(start) => self.open(start.local_name().into_inner())?,
                Event::End(_) => {
                    self.depth = self.depth.checked_sub(1).ok_or("an end without a start")?;
                    self.inside &= self.depth > 1;
                }
                Event::Text(piece) => self.add(&piece.xml10_content())?,
                Event::CData(piece) => self.add(&piece.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let character = character(&reference).ok_or("not a character")?;
                    self.add(character.encode_utf8(&mut [0; 4]))?;
                }
                // Nobody sends definitions for good reasons.
                Event::DocType(_) => return Err("a document type"),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Empty(_) => return Err("an element that was not expanded"),
                Event::Eof if self.depth > 0 => return Err("an element is not closed"),
                Event::Eof if self.seen => return Ok(()),
                Event::Eof => return Err("no MessageText"),
            }
        }
    }

    fn open(&mut self, name: &str) -> Result<(), &'static str> {
        match self.depth {
            0 if self.root_seen || name != "QueueMessage" => return Err("the root element is another"),
            0 => self.root_seen = true,
            1 if name == "MessageText" => {
                if self.seen {
                    return Err("MessageText is there twice");
                }
                (self.seen, self.inside) = (true, true);
            }
            MAX_DEPTH => return Err("too deep"),
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    fn add(&mut self, piece: &str) -> Result<(), &'static str> {
        if self.inside {
            self.bytes += piece.len();
            if self.bytes <= self.max_bytes {
                self.kept.extend_from_slice(piece.as_bytes());
            }
        } else if self.depth <= 1 && !piece.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            return Err("text outside of MessageText");
        }
        Ok(())
    }
}

/// A character by its number, or by one of the five names that need no definition.
fn character(reference: &BytesRef<'_>) -> Option<char> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Some(character).filter(|character| is_xml_character(*character)),
        Ok(None) => match &**reference {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "apos" => Some('\''),
            "quot" => Some('"'),
            _ => None,
        },
        Err(_) => None,
    }
}

/// Where the first character is that no document of XML 1.0 can hold.
fn forbidden_character(text: &str) -> Option<usize> {
    // Without branches, so that all bytes are looked at many at a time: hardly ever there is one.
    let control = |byte: u8| (byte < b' ') & (byte != b'\t') & (byte != b'\n') & (byte != b'\r');
    // U+FFFE and U+FFFF are the bytes EF BF BE and EF BF BF.
    let noncharacter = |at: &usize| matches!(text.as_bytes()[*at..], [0xEF, 0xBF, 0xBE | 0xBF, ..]);
    if text.bytes().fold(false, |found, byte| found | control(byte)) {
        return text.bytes().position(control);
    }
    memchr::memchr_iter(0xEF, text.as_bytes()).find(noncharacter)
}

/// Whether a text can be that of a message.
pub(super) fn is_text(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| forbidden_character(text).is_none())
}

fn invalid(document: &[u8], at: usize, cause: &str) -> ServiceError {
    let read = &document[..at.min(document.len())];
    let line = memchr::memchr_iter(b'\n', read).count() + 1;
    let column = read.len() - memchr::memrchr(b'\n', read).map_or(0, |feed| feed + 1) + 1;
    ServiceError::new(ErrorCode::InvalidXmlDocument)
        .with_detail("LineNumber", line.to_string())
        .with_detail("LinePosition", column.to_string())
        .with_detail("Reason", "Error parsing Xml content")
        .with_cause(cause)
}

/// Appends a text between tags. A carriage return is a reference: readers would make it a line feed.
pub fn push_text(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memchr_iter(b'>', text) {
        push_without_greater(&text[from..at], out);
        out.extend_from_slice(b"&gt;");
        from = at + 1;
    }
    push_without_greater(&text[from..], out);
}

/// Most texts are base64 with nothing to escape: then this is one search and one copy.
fn push_without_greater(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memchr3_iter(b'&', b'<', b'\r', text) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(match text[at] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            _ => b"&#xD;",
        });
        from = at + 1;
    }
    out.extend_from_slice(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(body: &str) -> Result<String, ErrorCode> {
        let text = parse(body.as_bytes(), MAX_TEXT_BYTES).map_err(|error| error.code)?;
        Ok(String::from_utf8(text.to_vec()).unwrap())
    }

    fn message(inside: &str) -> String {
        format!("<QueueMessage><MessageText>{inside}</MessageText></QueueMessage>")
    }

    #[test]
    fn texts_are_read() {
        for (inside, expected) in [
            ("aGVsbG8=", "aGVsbG8="),
            ("", ""),
            ("  ", "  "),
            ("\n\t x \n", "\n\t x \n"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("a&#xD;&#10;b&#13;", "a\r\nb\r"),
            ("&amp;lt;b&amp;gt; é", "&lt;b&gt; é"),
            ("&lt;&gt;&amp;&apos;&quot;&#x41;&#66;", "<>&'\"AB"),
            ("<![CDATA[<a>&amp;]]> x", "<a>&amp; x"),
            ("a<b>c<d/>e</b> f", "ace f"),
            ("a<!-- c --><?p i?>b", "ab"),
            ("<MessageText>twice</MessageText>", "twice"),
            ("😀\u{FFFD}\u{85}", "😀\u{FFFD}\u{85}"),
        ] {
            assert_eq!(read(&message(inside)).as_deref(), Ok(expected), "{inside}");
        }
        for body in [
            "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<QueueMessage>\r\n  <MessageText>x</MessageText>\r\n</QueueMessage>\r\n",
            "<p:QueueMessage xmlns:p=\"u\"><p:MessageText a=\"1\">x</p:MessageText></p:QueueMessage>",
            "<QueueMessage><Other>y<MessageText>z</MessageText></Other><MessageText>x</MessageText></QueueMessage>",
        ] {
            assert_eq!(read(body).as_deref(), Ok("x"), "{body}");
        }
        assert_eq!(read("<QueueMessage><MessageText/></QueueMessage>").as_deref(), Ok(""));
    }

    #[test]
    fn bodies_are_refused() {
        let deep = message(&("<a>".repeat(100) + &"</a>".repeat(100)));
        for body in [
            "",
            "plain",
            "<QueueMessage/>",
            "<QueueMessage>x</QueueMessage>",
            "<MessageText>x</MessageText>",
            "<QueueMessage><MessageText>x</MessageText>",
            "<QueueMessage><MessageText>x</QueueMessage>",
            "<QueueMessage><MessageText>x</MessageText>y</QueueMessage>",
            "<QueueMessage><MessageText/><MessageText/></QueueMessage>",
            "<QueueMessage><MessageText/></QueueMessage><QueueMessage/>",
            "<QueueMessage><MessageText/></QueueMessage>x",
            "<QueueMessage><messagetext/></QueueMessage>",
            "<!DOCTYPE a [<!ENTITY e \"x\">]><QueueMessage><MessageText>&e;</MessageText></QueueMessage>",
            &message("\0"),
            &message("\u{1F}"),
            &message("\u{FFFE}"),
            &message("\u{FFFF}"),
            &message("<![CDATA[\u{1}]]>"),
            &message("&#x0;"),
            &message("&#x1;"),
            &message("&#xFFFE;"),
            &message("&#xD800;"),
            &message("&nope;"),
            &message("a & b"),
            &message("a]]>b"),
            &message("<!-- a -- b -->"),
            &message("<?xml version=\"1.0\"?>"),
            "\n<?xml version=\"1.0\"?><QueueMessage><MessageText>x</MessageText></QueueMessage>",
            "<QueueMessage a=\"1\" a=\"2\"><MessageText>x</MessageText></QueueMessage>",
            "<QueueMessage><MessageText a>x</MessageText></QueueMessage>",
            "<QueueMessage><MessageText a=<>x</MessageText></QueueMessage>",
            &message("<"),
            &deep,
        ] {
            assert_eq!(read(body), Err(ErrorCode::InvalidXmlDocument), "{body:.80}");
        }
        assert!(parse(b"<QueueMessage><MessageText>\xFF</MessageText></QueueMessage>", 9).is_err());
    }

    #[test]
    fn forbidden_characters_are_found_wherever_they_are() {
        for length in 0..70 {
            let good = "\t\n\r ~".repeat(14)[..length].to_owned();
            assert_eq!(forbidden_character(&good), None, "{length}");
            for (bad, second) in [("\0", "\u{1F}"), ("\u{1F}", "\u{FFFE}"), ("\u{FFFF}", "\u{FFFE}")] {
                for at in 0..=length {
                    let (before, after) = good.split_at(at);
                    let text = [before, bad, after, second].concat();
                    assert_eq!(forbidden_character(&text), Some(at), "{at} of {length}");
                }
            }
        }
    }

    #[test]
    fn errors_say_where() {
        for (body, line, position) in [("plain", "1", "6"), ("<QueueMessage>\n \u{1}", "2", "2")] {
            let expected = [
                ("LineNumber", line.to_owned()),
                ("LinePosition", position.to_owned()),
                ("Reason", "Error parsing Xml content".to_owned()),
            ];
            assert_eq!(parse(body.as_bytes(), 9).unwrap_err().details, expected, "{body}");
        }
    }

    #[test]
    fn sizes_count_without_escapes() {
        for (piece, count, limit, fits) in [
            ("a", 65_536, MAX_TEXT_BYTES, true),
            ("a", 65_537, MAX_TEXT_BYTES, false),
            ("&quot;", 65_536, MAX_TEXT_BYTES, true),
            ("é", 32_768, MAX_TEXT_BYTES, true),
            ("é", 32_769, MAX_TEXT_BYTES, false),
            ("a", 500_000, MAX_TEXT_BYTES, false),
            ("a", 8193, 8192, false),
        ] {
            let outcome = parse(message(&piece.repeat(count)).as_bytes(), limit);
            let expected =
                ServiceError::new(ErrorCode::RequestBodyTooLarge).with_detail("MaxLimit", limit.to_string());
            assert_eq!(outcome.map(drop), if fits { Ok(()) } else { Err(expected) }, "{count} of {piece}");
        }
        let broken = "x".repeat(70_000) + "<";
        assert_eq!(read(&message(&broken)), Err(ErrorCode::InvalidXmlDocument));
    }

    proptest! {
        #[test]
        fn texts_come_back_as_they_were(text in "([a-z<>&'\"\r\n\t ]|é|😀|\\]\\]>|\\PC){0,60}") {
            prop_assume!(text.chars().all(is_xml_character));
            let mut escaped = Vec::new();
            push_text(text.as_bytes(), &mut escaped);
            let body = message(std::str::from_utf8(&escaped).unwrap());
            prop_assert_eq!(read(&body), Ok(text));
        }

        #[test]
        fn any_bytes_are_read_or_not(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            inside in "(<a>|</a>|<b/>|&amp;|&#|;|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<\\?|[a-z<>&]){0,20}",
        ) {
            let _ = parse(&bytes, MAX_TEXT_BYTES);
            let _ = read(&message(&inside));
        }
    }
}
