//! The query string of a request: its parameters, decoded, in the order in which they were sent.

use crate::percent;
use std::ops::Range;

/// The parameters of a query string. Their text lies in one buffer: most requests have few or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    text: String,
    pairs: Vec<(Range<usize>, Range<usize>)>,
}

impl Query {
    /// Never fails: what is not UTF-8 once decoded becomes replacement characters, which match nothing.
    pub fn parse(raw: Option<&str>) -> Self {
        let mut query = Self::default();
        let raw = raw.unwrap_or_default();
        query.text.reserve(raw.len());
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = query.push_decoded(name);
            let value = query.push_decoded(value);
            query.pairs.push((name, value));
        }
        query
    }

    fn push_decoded(&mut self, raw: &str) -> Range<usize> {
        let start = self.text.len();
        if memchr::memchr2(b'%', b'+', raw.as_bytes()).is_none() {
            self.text.push_str(raw);
        } else {
            // Before decoding, so that an escaped plus stays one.
            let spaced = raw.replace('+', " ");
            let mut bytes = Vec::with_capacity(spaced.len());
            percent::decode_into(&spaced, &mut bytes);
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        start..self.text.len()
    }

    /// The first value of a parameter, its name as sent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(sent, _)| *sent == name).map(|(_, value)| value)
    }

    /// The first value of a parameter whose name may come in any case: `comp`, `restype`, `timeout`.
    pub fn get_ignore_case(&self, name: &str) -> Option<&str> {
        self.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn count(&self, name: &str) -> usize {
        self.iter().filter(|(sent, _)| *sent == name).count()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()]))
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_split_then_decoded() {
        for (raw, expected) in [
            ("", vec![]),
            ("&&", vec![]),
            ("comp=acl", vec![("comp", "acl")]),
            ("comp", vec![("comp", "")]),
            ("a=1&a=2", vec![("a", "1"), ("a", "2")]),
            ("%24filter=A%20eq%20'x%26y'", vec![("$filter", "A eq 'x&y'")]),
            ("a=b=c", vec![("a", "b=c")]),
            ("a=x+y%2Bz", vec![("a", "x y+z")]),
            ("a=%FF", vec![("a", "\u{FFFD}")]),
        ] {
            let query = Query::parse(Some(raw));
            assert_eq!(query.iter().collect::<Vec<_>>(), expected, "{raw}");
        }
    }

    #[test]
    fn lookups() {
        let query = Query::parse(Some("Comp=acl&a=1&a=2"));
        assert_eq!(query.get("comp"), None);
        assert_eq!(query.get_ignore_case("comp"), Some("acl"));
        assert_eq!((query.get("a"), query.count("a"), query.count("b")), (Some("1"), 2, 0));
        assert!(Query::parse(None).is_empty() && !query.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_parses(raw in "[%&=+0-9a-fA-F$é ]{0,40}") {
            let _ = Query::parse(Some(&raw)).iter().count();
        }
    }
}
