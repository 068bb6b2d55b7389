//! The headers of a request, found by the text of their names.

use crate::metadata::{self, HeaderCase};
use http::{HeaderMap, HeaderValue};
use tepui_model::ServiceError;
use tepui_model::metadata::Metadata;

/// Headers in a list, for requests in which dozens are looked for and most are not there. [`HeaderMap::get`] would
/// check and hash each name, which costs far more than comparing its length with those of the few that were sent.
#[derive(Debug, Clone)]
pub struct RequestHeaders<'a> {
    map: &'a HeaderMap,
    /// Names in lower case. A header that was sent twice is there twice.
    listed: Vec<(&'a str, &'a HeaderValue)>,
    case: Option<&'a HeaderCase>,
}

impl<'a> RequestHeaders<'a> {
    pub fn new(map: &'a HeaderMap) -> Self {
        let mut listed = Vec::with_capacity(map.len());
        listed.extend(map.iter().map(|(name, value)| (name.as_str(), value)));
        Self { map, listed, case: None }
    }

    /// The same, with the case of the names of metadata.
    pub fn with_case(map: &'a HeaderMap, case: Option<&'a HeaderCase>) -> Self {
        Self { case, ..Self::new(map) }
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, ServiceError> {
        metadata::decode(self.map, self.case)
    }

    pub fn map(&self) -> &'a HeaderMap {
        self.map
    }

    /// The first value of a header, its name in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&'a HeaderValue> {
        self.all(name).next()
    }

    /// All values of a header, its name in lower case, in the order in which they were sent.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &'a HeaderValue> {
        self.listed.iter().filter(move |(sent, _)| *sent == name).map(|(_, value)| *value)
    }

    /// Whether there is such a header, be it empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn headers_are_found_as_the_map_finds_them() {
        let mut map = HeaderMap::new();
        for (name, value) in [
            ("Host", "h"),
            ("X-Ms-Version", "2019-02-02"),
            ("x-ms-tags", "first"),
            ("x-ms-date", ""),
            ("X-MS-TAGS", "second"),
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_static(value));
        }
        let headers = RequestHeaders::new(&map);
        for (name, expected) in [
            ("host", Some("h")),
            ("x-ms-version", Some("2019-02-02")),
            ("x-ms-tags", Some("first")),
            ("x-ms-date", Some("")),
            ("x-ms-data", None),
            ("x-ms-dat", None),
            ("range", None),
        ] {
            let found = headers.get(name);
            assert_eq!(found.map(|value| value.to_str().unwrap()), expected, "{name}");
            assert_eq!(found, map.get(name), "{name}");
            assert_eq!(headers.has(name), expected.is_some(), "{name}");
        }
        assert!(!RequestHeaders::new(&HeaderMap::new()).has("host"));
    }
}
