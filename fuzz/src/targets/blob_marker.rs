//! Where a page of blobs begins, and what a user asks a key for.

use crate::checks::refused;
use tepui_wire::blob::marker::{parse_blobs, parse_found, print_blobs, print_found};
use tepui_wire::delegation_xml;

pub(super) const WORDS: &[&str] = &[
    "2!",
    "!",
    "2!18!cGIAAAAAAAAAAHAwLw",
    "2!24!ZmIAAAAAAAAAAGMwMS9uZXh0",
    "AAAA",
    "<KeyInfo>",
    "</KeyInfo>",
    "<Start>2026-03-04T05:06:07Z</Start>",
    "<Expiry>2026-03-05T05:06:07Z</Expiry>",
];

/// A place has one text.
pub fn blob_marker(data: &[u8]) {
    if let Err(error) = delegation_xml::parse(data) {
        refused(&error);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(marker) = parse_blobs(text) {
        assert_eq!(print_blobs(&marker), text);
    }
    if let Some(marker) = parse_found(text) {
        assert_eq!(print_found(&marker), text);
    }
}
