//! `If-Match`.

use crate::checks::refused;
use crate::material::NOW;
use tepui_model::condition::Condition;
use tepui_model::etag;

pub(super) const WORDS: &[&str] = &[
    "*",
    "W/\"",
    "\"",
    "datetime'",
    "'\"",
    "2026-03-10T08%3A15%3A30.5Z",
    "%3a",
    "%3A",
    "%25",
    ",",
    " ",
    "\t",
    "9999-12-31T23%3A59%3A59.9999999Z",
    "+14%3A00",
    "\u{E4}",
];

/// A tag that is a time is the tag of that time.
pub fn condition(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Condition::parse(text) {
        Ok(Condition::WrittenAt(time)) => {
            let tag = etag::to_text(time);
            assert_eq!(Condition::parse(&tag), Ok(Condition::WrittenAt(time)), "{tag}");
            assert!(Condition::WrittenAt(time).accepts(time) && !Condition::Never.accepts(time));
        }
        Ok(Condition::Any) => assert!(text.trim() == "*" && Condition::Any.accepts(*NOW)),
        Ok(Condition::Never) => assert!(text.trim().starts_with("W/\"")),
        Err(error) => refused(&error),
    }
}
