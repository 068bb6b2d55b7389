//! Metadata as headers, `x-ms-meta-name: value`, and as the texts of a list.
//!
//! Some clients write values in UTF-8, others in Latin-1, and each reads back what it wrote. So a value is
//! kept as a text with one character for each byte of the header, whatever the bytes mean.

use crate::xml::document::Element;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError};

const PREFIX: &str = "x-ms-meta-";

/// The names of metadata that have capital letters, as headers: [`HeaderMap`] knows only small ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderCase(Vec<String>);

impl HeaderCase {
    /// Of the names of headers as they were sent.
    pub fn sent<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let of_metadata = |name: &'a str| {
            let prefix = name.get(..PREFIX.len())?;
            let rest = &name[PREFIX.len()..];
            let counts = prefix.eq_ignore_ascii_case(PREFIX) && has_capitals(rest);
            counts.then(|| [PREFIX, rest].concat())
        };
        Self(names.filter_map(of_metadata).collect())
    }

    /// Of metadata that is answered.
    pub fn of(metadata: &Metadata) -> Self {
        let names = metadata.iter().filter(|(name, _)| has_capitals(name));
        Self(names.map(|(name, _)| [PREFIX, name].concat()).collect())
    }

    /// The names of headers, each `x-ms-meta-` and what has capitals.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn has_capitals(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Reads the metadata of a request. Names have the case in which they were sent, as far as that is known.
pub fn decode(headers: &HeaderMap, case: Option<&HeaderCase>) -> Result<Metadata, ServiceError> {
    let pairs = headers.iter().filter_map(|(name, value)| {
        let small = name.as_str();
        let mut sent = case.into_iter().flat_map(HeaderCase::names);
        let name =
            sent.find(|sent| sent.eq_ignore_ascii_case(small)).unwrap_or(small).strip_prefix(PREFIX)?;
        Some((name.to_owned(), value.as_bytes().iter().map(|byte| char::from(*byte)).collect()))
    });
    Metadata::new(pairs.collect())
}

/// Adds metadata to the headers of an answer.
pub fn encode(metadata: &Metadata, headers: &mut HeaderMap) -> Result<(), ServiceError> {
    for (name, value) in metadata.iter() {
        let refused = |cause: &dyn std::fmt::Display| {
            ServiceError::new(ErrorCode::InternalError).with_cause(format!("metadata {name}: {cause}"))
        };
        let header = HeaderName::try_from([PREFIX, name].concat()).map_err(|error| refused(&error))?;
        let value = match bytes(value) {
            Some(bytes) => HeaderValue::from_bytes(&bytes),
            None => HeaderValue::from_str(value),
        };
        headers.append(header, value.map_err(|error| refused(&error))?);
    }
    Ok(())
}

/// Metadata as lists have it: an element for each pair, its value as [`readable`] shows it.
pub(crate) fn receive(pairs: Element) -> Option<Metadata> {
    // One character for each byte, as in headers.
    let value = |text: String| text.bytes().map(char::from).collect();
    Metadata::new(pairs.children.into_iter().map(|pair| (pair.name, value(pair.text))).collect()).ok()
}

/// What a value says to people: its bytes as UTF-8 if they are that, and else as Latin-1.
pub fn readable(value: &str) -> Cow<'_, str> {
    if value.is_ascii() {
        return Cow::Borrowed(value);
    }
    match bytes(value).map(String::from_utf8) {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(value),
    }
}

/// The bytes of the header. `None` if the value came from elsewhere and is no such text.
fn bytes(value: &str) -> Option<Vec<u8>> {
    value.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn names_and_values() {
        use ErrorCode::*;
        let long = "x".repeat(8192);
        for (pairs, expected) in [
            (&[][..], Ok(vec![])),
            (&[("x-ms-version", b"1" as &[u8]), ("x-ms-meta-team", b"core")], Ok(vec![("team", "core")])),
            (&[("x-ms-meta-a", b""), ("x-ms-meta-b", b"a, b")], Ok(vec![("a", ""), ("b", "a, b")])),
            (&[("x-ms-meta-a", "é".as_bytes())], Ok(vec![("a", "é")])),
            (&[("x-ms-meta-a", b"\xE9")], Ok(vec![("a", "é")])),
            (&[("x-ms-meta-a", "大".as_bytes())], Ok(vec![("a", "大")])),
            (&[("x-ms-meta-", b"x")], Err(EmptyMetadataKey)),
            (&[("x-ms-meta-1bad", b"x")], Err(InvalidMetadata)),
            (&[("x-ms-meta-a-b", b"x")], Err(InvalidMetadata)),
            (&[("x-ms-meta-a", b"x"), ("x-ms-meta-a", b"y")], Err(InvalidMetadata)),
            (&[("x-ms-meta-a", long.as_bytes())], Err(MetadataTooLarge)),
        ] {
            let decoded = decode(&headers(pairs), None).map_err(|error| error.code);
            let readable = decoded.as_ref().map_err(|code| *code).map(|metadata| {
                metadata.iter().map(|(name, value)| (name, readable(value))).collect::<Vec<_>>()
            });
            let expected = expected.map(|pairs| {
                pairs.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect::<Vec<_>>()
            });
            assert_eq!(readable, expected, "{pairs:?}");
        }
    }

    #[test]
    fn names_keep_their_case() {
        let sent = ["Host", "X-MS-Meta-Owner", "x-ms-meta-plain", "x-ms-met", "x-ms-meta-", "x-ms-meta-aB"];
        let case = HeaderCase::sent(sent.into_iter());
        assert_eq!(case.names().collect::<Vec<_>>(), ["x-ms-meta-Owner", "x-ms-meta-aB"]);
        let sent = headers(&[("x-ms-meta-plain", b"1"), ("x-ms-meta-owner", b"2"), ("x-ms-meta-ab", b"3")]);
        let decoded = decode(&sent, Some(&case)).unwrap();
        assert_eq!(decoded.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["plain", "Owner", "aB"]);
        assert_eq!(HeaderCase::of(&decoded), case);
    }

    #[test]
    fn values_that_no_header_brought_are_printed_too() {
        let metadata = Metadata::new(vec![("a".to_owned(), "大".to_owned())]).unwrap();
        let mut printed = HeaderMap::new();
        assert_eq!(encode(&metadata, &mut printed), Ok(()));
        assert_eq!(printed, headers(&[("x-ms-meta-a", "大".as_bytes())]));
        assert_eq!(readable("大"), "大");
    }

    proptest! {
        #[test]
        fn values_come_back_as_the_same_bytes(value in proptest::collection::vec(0x20u8..=0xFF, 0..20)) {
            prop_assume!(!value.contains(&0x7F));
            let sent = headers(&[("x-ms-meta-a", &value)]);
            let mut printed = HeaderMap::new();
            encode(&decode(&sent, None).unwrap(), &mut printed).unwrap();
            prop_assert_eq!(printed, sent);
        }
    }
}
