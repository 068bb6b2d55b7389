//! The body of Put Message and of Update Message.

use crate::checks::refused;
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_wire::queue::message_xml::{parse, push_text};

pub(super) const WORDS: &[&str] = &[
    "<QueueMessage>",
    "</QueueMessage>",
    "<MessageText>",
    "</MessageText>",
    "<MessageText/>",
    "<a>",
    "</a>",
    "<b/>",
    "aGVsbG8=",
    "&amp;",
    "&lt;",
    "&gt;",
    "&quot;",
    "&apos;",
    "&#x0;",
    "&#xD;",
    "&#13;",
    "&#xFFFE;",
    "&#x10FFFF;",
    "&#",
    ";",
    "\r\n",
    "\r",
    "]]>",
    "<![CDATA[",
    "<!--",
    "-->",
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
    "<!DOCTYPE a [<!ENTITY e \"x\">]>",
    "&e;",
    " xmlns=\"u\"",
    "\u{FEFF}",
    "\u{FFFE}",
    "\u{FFFF}",
    "😀",
];

/// A text is not too long, and the same once it is sent and read again.
pub fn message_xml(data: &[u8]) {
    for max_bytes in [MAX_TEXT_BYTES, 16] {
        match parse(data, max_bytes) {
            Ok(text) => survives(&text, max_bytes),
            Err(error) => refused(&error),
        }
    }
}

pub(super) fn survives(text: &[u8], max_bytes: usize) {
    assert!(text.len() <= max_bytes && std::str::from_utf8(text).is_ok());
    let mut body = b"<QueueMessage><MessageText>".to_vec();
    push_text(text, &mut body);
    body.extend_from_slice(b"</MessageText></QueueMessage>");
    let again = parse(&body, max_bytes);
    assert_eq!(again.as_deref(), Ok(text), "{}", String::from_utf8_lossy(&body));
}
