//! Ranges of keys, in the order of the Table service.

use crate::Filter;
use crate::filter::{all, property};
use std::cmp::Ordering;
use tepui_model::table::entity::is_key_character;
use tepui_model::text::utf16_cmp;

/// The keys from `start` up to, and without, `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub start: String,
    /// `None`: to the last key there is.
    pub end: Option<String>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    ///
    /// ```
    /// use tepui_client::key::KeyRange;
    /// assert_eq!(KeyRange::prefix("email_a").end.as_deref(), Some("email_b"));
    /// // No key holds a slash.
    /// assert_eq!(KeyRange::prefix("a.").end.as_deref(), Some("a0"));
    /// ```
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let start = prefix.into();
        Self { end: successor(&start), start }
    }

    /// All keys from those that begin with `first` to those that begin with `last`. Parts that follow do not matter.
    ///
    /// ```
    /// use tepui_client::key::KeyRange;
    /// let range = KeyRange::prefixes("empid_000100", "empid_000199");
    /// assert!(range.contains("empid_000199_2012") && !range.contains("empid_000200"));
    /// ```
    pub fn prefixes(first: impl Into<String>, last: &str) -> Self {
        Self { start: first.into(), end: successor(last) }
    }

    /// All keys, in ranges that end and begin at these keys, which must be in order.
    ///
    /// ```
    /// use tepui_client::key::KeyRange;
    /// let ranges = KeyRange::split_at(["H", "R"]);
    /// assert!(ranges.len() == 3 && ranges[1].contains("Jones") && ranges[2].contains("Smith"));
    /// ```
    pub fn split_at<S: Into<String>>(keys: impl IntoIterator<Item = S>) -> Vec<Self> {
        let mut ranges = Vec::new();
        let mut start = String::new();
        for key in keys {
            let end = key.into();
            ranges.push(Self { start: std::mem::replace(&mut start, end.clone()), end: Some(end) });
        }
        ranges.push(Self { start, end: None });
        ranges
    }

    /// The range as a filter of `PartitionKey` or `RowKey`, which is read as a range and not as a scan.
    ///
    /// ```
    /// use tepui_client::filter::{all, property};
    /// use tepui_client::key::KeyRange;
    /// let filter = KeyRange::prefix("email_a").filter("RowKey");
    /// assert_eq!(filter, all([property("RowKey").ge("email_a"), property("RowKey").lt("email_b")]));
    /// ```
    pub fn filter(&self, key: &str) -> Filter {
        let start = (!self.start.is_empty()).then(|| property(key).ge(self.start.as_str()));
        let end = self.end.as_deref().map(|end| property(key).lt(end));
        all(start.into_iter().chain(end))
    }

    /// Whether all keys are in it.
    pub fn is_all(&self) -> bool {
        self.start.is_empty() && self.end.is_none()
    }

    pub fn contains(&self, key: &str) -> bool {
        let compare = |bound: &str| utf16_cmp(key.as_bytes(), bound.as_bytes());
        compare(&self.start) != Ordering::Less
            && self.end.as_deref().is_none_or(|end| compare(end) == Ordering::Less)
    }
}

/// The smallest key that sorts after all keys that begin with `prefix`; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut key = prefix.to_owned();
    while let Some(last) = key.pop() {
        if let Some(next) = next_key_character(last) {
            key.push(next);
            return Some(key);
        }
    }
    None
}

/// The next character that keys may have. In UTF-16, those beyond U+FFFF are between U+D7FF and U+E000.
fn next_key_character(character: char) -> Option<char> {
    let mut next = character;
    loop {
        next = match next {
            '\u{D7FF}' => '\u{10000}',
            '\u{10FFFF}' => '\u{E000}',
            '\u{FFFF}' => return None,
            other => char::from_u32(u32::from(other) + 1)?,
        };
        if is_key_character(next) {
            return Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors() {
        for (prefix, expected) in [
            ("", None),
            ("a", Some("b")),
            ("a\u{FFFF}", Some("b")),
            ("\u{FFFF}\u{FFFF}", None),
            ("\u{D7FF}", Some("\u{10000}")),
            ("😀", Some("😁")),
            ("\u{10FFFF}", Some("\u{E000}")),
            ("~", Some("\u{A0}")),
            ("[", Some("]")),
        ] {
            assert_eq!(successor(prefix).as_deref(), expected, "{prefix:?}");
        }
    }
}
