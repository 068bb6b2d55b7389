//! Percent-encoding: RFC 3986 as the Table service reads and writes it.

use std::borrow::Cow;

const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Decodes every `%XX` once. A `%` that no two hexadecimal digits follow stays what it is.
/// `None` if the outcome is not UTF-8.
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'%', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    decode_into(text, &mut bytes);
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Appends the decoded bytes of the text, whatever they are.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        match escape(rest) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[3..];
            }
            None => {
                out.push(b'%');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest);
}

/// The byte that an escape at the start of the text stands for.
pub(crate) fn escape(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some(hex_digit(*high)? << 4 | hex_digit(*low)?),
        _ => None,
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends a key for use between the quotes of `Location`, `odata.id` and edit links.
///
/// Fidelity: a quote is doubled and left as it is; whatever else is not unreserved is escaped.
/// scenario: keys-round-trip
pub fn encode_key(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'\'' => out.push_str("''"),
            _ if is_unreserved(byte) => out.push(char::from(byte)),
            _ => push_escape(byte, out),
        }
    }
}

/// Appends a text with everything escaped that is not unreserved.
pub(crate) fn push_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match is_unreserved(byte) {
            true => out.push(char::from(byte)),
            false => push_escape(byte, out),
        }
    }
}

pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

pub(crate) fn push_escape(byte: u8, out: &mut String) {
    out.push('%');
    out.push(char::from(UPPER_HEX[usize::from(byte >> 4)]));
    out.push(char::from(UPPER_HEX[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_decoded_once() {
        for (text, expected) in [
            ("", Some("")),
            ("plain", Some("plain")),
            ("a%20b", Some("a b")),
            ("%2525", Some("%25")),
            ("a+b", Some("a+b")),
            ("%c3%B4", Some("ô")),
            ("%", Some("%")),
            ("%2", Some("%2")),
            ("100%zz", Some("100%zz")),
            ("%%41", Some("%A")),
            ("%FF", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn keys_are_encoded() {
        for (key, expected) in [
            ("", ""),
            ("p1", "p1"),
            ("o'k", "o''k"),
            ("a b", "a%20b"),
            ("ô\"%:", "%C3%B4%22%25%3A"),
            ("-._~", "-._~"),
            ("a+b,c=(d)@", "a%2Bb%2Cc%3D%28d%29%40"),
        ] {
            let mut out = String::new();
            encode_key(key, &mut out);
            assert_eq!(out, expected, "{key}");
        }
    }

    proptest! {
        #[test]
        fn encoded_keys_decode_to_themselves(key in "\\PC{0,20}") {
            let mut encoded = String::new();
            encode_key(&key, &mut encoded);
            prop_assert_eq!(decode(&encoded).unwrap().replace("''", "'"), key);
        }

        #[test]
        fn any_text_decodes_or_not(text in "[%0-9a-fA-Fg é]{0,20}") {
            let _ = decode(&text);
        }
    }
}
