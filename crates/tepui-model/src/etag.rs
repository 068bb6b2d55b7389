//! ETags of entities: the entity's timestamp in a dress of its own.

use crate::Timestamp;

const OPEN: &str = "W/\"datetime'";
const CLOSE: &str = "'\"";

/// The ETag of an entity that was last written at `timestamp`.
///
/// ```
/// use tepui_model::{etag, Timestamp};
/// let at = Timestamp::parse_iso("2026-03-10T08:15:30.5Z").unwrap();
/// assert_eq!(etag::to_text(at), r#"W/"datetime'2026-03-10T08%3A15%3A30.5Z'""#);
/// ```
pub fn to_text(timestamp: Timestamp) -> String {
    let mut text = Vec::with_capacity(52);
    write(timestamp, &mut text);
    String::from_utf8(text).expect("an ETag is ASCII")
}

/// Appends the ETag.
pub fn write(timestamp: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(OPEN.as_bytes());
    timestamp.write_iso(out, b"%3A");
    out.extend_from_slice(CLOSE.as_bytes());
}

/// The timestamp inside an ETag; `None` if it holds none.
pub fn parse(text: &str) -> Option<Timestamp> {
    let inside = text.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    Timestamp::parse_iso(&inside.replace("%3A", ":").replace("%3a", ":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_hold_their_timestamp() {
        let at = Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").unwrap();
        assert_eq!(parse(&to_text(at)), Some(at));
        assert_eq!(parse(&to_text(at).replace("%3A", "%3a")), Some(at));
        assert_eq!(parse(&to_text(at).replace("%3A", ":")), Some(at));
        for text in ["", "*", "W/\"x\"", "W/\"datetime'soon'\"", "W/\"datetime'"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
