//! Tags: as the body of Set Blob Tags, as a header, and in expressions.

use crate::checks::refused;
use tepui_model::ServiceError;
use tepui_model::blob::Tags;
use tepui_wire::blob::tag_filter_text;
use tepui_wire::blob::tags_text::{parse_header, parse_xml, print_xml};

pub(super) const WORDS: &[&str] = &[
    "<Tags>",
    "</Tags>",
    "<TagSet>",
    "</TagSet>",
    "<Tag><Key>env</Key><Value>prod</Value></Tag>",
    "<Key/>",
    "<Value/>",
    "&amp;",
    "env=prod",
    "&",
    "=",
    "%20",
    "+",
    "'",
    "\"",
    "@container",
    " AND ",
    " or ",
    "<>",
    "<=",
    ">",
    "(",
    ")",
    "'it''s'",
];

/// What is read stays the same once it is printed, and an expression means the same.
pub fn blob_tags(data: &[u8]) {
    match parse_xml(data) {
        Ok(tags) => survives(&tags),
        Err(error) => refused(&error),
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_header(text) {
        Ok(tags) => survives(&tags),
        Err(code) => refused(&ServiceError::new(code)),
    }
    for parse in [tag_filter_text::parse_find, tag_filter_text::parse_condition] {
        match parse(text) {
            // Printed with parentheses it may be too deep to be read again, but it is never another.
            Ok(filter) => {
                if let Ok(again) = parse(&tag_filter_text::print(&filter)) {
                    assert_eq!(again, filter, "{text}");
                }
                let _ = filter.matches("c", &Tags::default());
            }
            Err(error) => assert!(error.position <= text.chars().count() + 1),
        }
    }
}

fn survives(tags: &Tags) {
    assert!(tags.len() <= 10);
    assert_eq!(parse_xml(&print_xml(tags)).as_ref(), Ok(tags));
}
