//! Keys and values in the names of blobs.

use crate::{Error, ErrorKind};
use std::fmt::Write;
use tepui_model::text::utf16_len;

/// What a name of a blob can have.
const MAX_UNITS: usize = 1024;

/// Any text as a part of a name: letters, digits, `-` and `_` as they are, other bytes as `.` and two hexadecimal digits.
/// There is no slash in it, and an empty text is empty.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, ".{byte:02x}");
        }
    }
    encoded
}

/// The inverse of [`encode`]; `None` for what it does not write.
pub(super) fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'.' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    (encode(&text) == part).then_some(text)
}

/// Refuses a name that no blob can have.
pub(super) fn check_length(name: &str) -> Result<(), Error> {
    if utf16_len(name.as_bytes()) <= MAX_UNITS {
        return Ok(());
    }
    let message =
        "the keys are too long to be a part of the name of a blob, which has at most 1,024 characters";
    Err(Error::new(ErrorKind::KeyInvalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back() {
        for (text, part) in
            [("", ""), ("Jones-Smith_2", "Jones-Smith_2"), ("a/b. é", "a.2fb.2e.20.c3.a9"), ("..", ".2e.2e")]
        {
            assert_eq!(encode(text), part);
            assert_eq!(decode(part).as_deref(), Some(text));
        }
        for part in [".", ".2", ".2F", ".41", ".ff", "a/b", "é"] {
            assert_eq!(decode(part), None, "{part}");
        }
    }
}
