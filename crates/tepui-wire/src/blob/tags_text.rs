//! Tags as XML, in the bodies of Get and Set Blob Tags and in lists, and as the header `x-ms-tags`.

use crate::address::Service;
use crate::query::Query;
use crate::xml::Printer;
use crate::xml::document::{self, Element, invalid};
use tepui_model::blob::Tags;
use tepui_model::blob::tags::MAX_TAGS;
use tepui_model::{ErrorCode, ServiceError};

/// Reads the body of Set Blob Tags.
pub fn parse_xml(body: &[u8]) -> Result<Tags, ServiceError> {
    read(document::parse(body, "Tags")?)
}

/// Reads the element of a body or of an entry of a list.
pub(super) fn read(mut root: Element) -> Result<Tags, ServiceError> {
    let set = root.take("TagSet");
    root.done()?;
    let pairs = set.map(|set| set.children).unwrap_or_default().into_iter().map(read_tag);
    Ok(Tags::new(pairs.collect::<Result<_, _>>()?)?)
}

fn read_tag(mut element: Element) -> Result<(String, String), ServiceError> {
    if element.name != "Tag" {
        return Err(invalid("not a Tag"));
    }
    let key = element.require("Key")?.into_text()?;
    let value = element.require("Value")?.into_text()?;
    element.done()?;
    Ok((key, value))
}

/// Reads `key=value&key2=value2`, each escaped as in a query.
pub fn parse_header(text: &str) -> Result<Tags, ErrorCode> {
    let query = Query::parse(Some(text));
    // One too many is enough to refuse them all.
    let pairs = query.iter().take(MAX_TAGS + 1).map(|(key, value)| (key.to_owned(), value.to_owned()));
    Tags::new(pairs.collect())
}

/// The body of Get Blob Tags.
pub fn print_xml(tags: &Tags) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    push(tags, &mut body);
    body.finish()
}

pub(super) fn push(tags: &Tags, body: &mut Printer) {
    body.parent("Tags", |body| {
        body.parent("TagSet", |body| {
            for (key, value) in tags.iter() {
                body.parent("Tag", |body| {
                    body.leaf("Key", key);
                    body.leaf("Value", value);
                });
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;
    use proptest::prelude::*;

    #[test]
    fn headers() {
        let tags = |pairs: &[(&str, &str)]| {
            Ok(Tags::from_stored(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()))
        };
        for (text, expected) in [
            ("", tags(&[])),
            ("k=v&k2=v2", tags(&[("k", "v"), ("k2", "v2")])),
            ("k%201=a%2Bb+c&e", tags(&[("k 1", "a+b c"), ("e", "")])),
            ("=v", Err(EmptyTagName)),
            ("k=1&k=2", Err(DuplicateTagNames)),
            ("k=%C3%A9", Err(InvalidTag)),
            ("a&b&c&d&e&f&g&h&i&j&k", Err(TagsTooLarge)),
        ] {
            assert_eq!(parse_header(text), expected, "{text}");
        }
    }

    #[test]
    fn bodies_are_refused() {
        for (body, expected) in [
            ("<Tags><TagSet><Tag><Key></Key><Value/></Tag></TagSet></Tags>", EmptyTagName),
            ("<Tags><TagSet><Tag><Key>k</Key></Tag></TagSet></Tags>", InvalidXmlDocument),
            ("<Tags><TagSet><Other/></TagSet></Tags>", InvalidXmlDocument),
            ("<Tags><Tag/></Tags>", InvalidXmlDocument),
            ("<TagSet/>", InvalidXmlDocument),
            ("", InvalidXmlDocument),
        ] {
            assert_eq!(parse_xml(body.as_bytes()).map_err(|error| error.code), Err(expected), "{body}");
        }
        assert_eq!(parse_xml(b"<Tags><TagSet /></Tags>"), Ok(Tags::default()));
        assert!(print_xml(&Tags::default()).ends_with(b"<Tags><TagSet /></Tags>"));
    }

    proptest! {
        #[test]
        fn printed_tags_are_read_as_themselves(
            pairs in proptest::collection::btree_map("[a-zA-Z0-9+./:=_-][a-z +]{0,6}", "[a-zA-Z0-9 +./:=_-]{0,9}", 0..=10)
        ) {
            let tags = Tags::new(pairs.into_iter().collect()).unwrap();
            prop_assert_eq!(parse_xml(&print_xml(&tags)), Ok(tags));
        }
    }
}
