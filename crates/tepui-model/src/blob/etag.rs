//! ETags of containers and blobs: the time of the last change, in hexadecimal.

use crate::Timestamp;

/// The ETag without quotes.
///
/// ```
/// use tepui_model::{blob::etag, Timestamp};
/// let at = Timestamp::parse_iso("2026-03-04T05:06:07Z").unwrap();
/// assert_eq!(etag::to_text(at), "0x8DE79ABBE2A4980");
/// assert_eq!(etag::parse("\"0x8DE79ABBE2A4980\""), Some(at));
/// ```
pub fn to_text(changed: Timestamp) -> String {
    String::from_utf8_lossy(EtagText::of(changed).as_ref()).into_owned()
}

/// The same without memory of its own, for answers that hold many.
pub struct EtagText {
    bytes: [u8; LONGEST],
    start: usize,
}

const LONGEST: usize = "\"0x\"".len() + 16;

impl EtagText {
    pub fn of(changed: Timestamp) -> Self {
        let mut text = Self::empty();
        text.prepend_ticks(changed);
        text
    }

    /// With quotes, as headers have it.
    pub fn quoted(changed: Timestamp) -> Self {
        let mut text = Self::empty();
        text.prepend(b'"');
        text.prepend_ticks(changed);
        text.prepend(b'"');
        text
    }

    fn empty() -> Self {
        Self { bytes: [0; LONGEST], start: LONGEST }
    }

    fn prepend_ticks(&mut self, changed: Timestamp) {
        let mut rest = changed.ticks();
        loop {
            self.prepend(b"0123456789ABCDEF"[(rest % 16) as usize]);
            rest /= 16;
            if rest == 0 {
                break;
            }
        }
        self.prepend(b'x');
        self.prepend(b'0');
    }

    fn prepend(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }
}

impl AsRef<[u8]> for EtagText {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The time in an ETag, with quotes or without; `None` if no resource has such an ETag.
pub fn parse(text: &str) -> Option<Timestamp> {
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let changed = Timestamp::from_ticks(u64::from_str_radix(bare.strip_prefix("0x")?, 16).ok()?)?;
    // A time has one text.
    (to_text(changed) == bare).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "*",
            "0x",
            "0x+8DE",
            "0x0008DE",
            "0x8de7a1b2c3d4e5f",
            "W/\"0x8DE7A1B2C3D4E5F\"",
            "\"",
            "\"0x8DE",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn etags_hold_their_moment(ticks in 0..=Timestamp::MAX.ticks()) {
            let at = Timestamp::from_ticks(ticks).unwrap();
            prop_assert_eq!(to_text(at), format!("0x{ticks:X}"));
            prop_assert_eq!(EtagText::quoted(at).as_ref().to_vec(), format!("\"0x{ticks:X}\"").into_bytes());
            prop_assert_eq!(parse(&to_text(at)), Some(at));
            prop_assert_eq!(parse(&format!("\"{}\"", to_text(at))), Some(at));
        }
    }
}
