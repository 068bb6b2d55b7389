//! Text as JSON.

/// Appends a text with its quotes.
pub fn write_json_string(_out: &mut Vec<u8>, _utf8: &[u8]) {}
