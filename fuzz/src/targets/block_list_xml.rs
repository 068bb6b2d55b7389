//! The body of Put Block List.

use crate::checks::refused;
use tepui_model::blob::block::MAX_COMMITTED_BLOCKS;
use tepui_wire::blob::block_list_xml::{parse, print_chosen};

pub(super) const WORDS: &[&str] = &[
    "<BlockList>",
    "</BlockList>",
    "<BlockList/>",
    "<Latest>",
    "</Latest>",
    "<Committed>MQ==</Committed>",
    "<Uncommitted>MDAwMQ==</Uncommitted>",
    "<Block/>",
    "MQ==",
    "&#61;",
    "&amp;",
    "&e;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
    "<!DOCTYPE a [<!ENTITY e \"x\">]>",
    "\u{FEFF}",
    "\r\n",
];

/// A list is not too long, and the same once it is printed and read again.
pub fn block_list_xml(data: &[u8]) {
    match parse(data) {
        Ok(blocks) => {
            assert!(blocks.len() <= MAX_COMMITTED_BLOCKS);
            assert!(blocks.iter().all(|block| (1..=64).contains(&block.id.bytes().len())));
            assert_eq!(parse(&print_chosen(&blocks)), Ok(blocks));
        }
        Err(error) => refused(&error),
    }
}
