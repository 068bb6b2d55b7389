//! Where the next page of a list begins, as text. Of lists of blobs: `2!`, a length, and base64 that means nothing
//! to callers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tepui_model::Timestamp;
use tepui_model::blob::{BlobMarker, BlobName, ContainerMarker, ContainerName, FoundMarker, Revision};

/// The text of where a page of containers begins, which is plain: `/account/name`, and for one that was deleted a
/// slash and its version.
pub fn print_containers(account: &str, marker: &ContainerMarker) -> String {
    let ContainerMarker { name, deleted_version } = marker;
    match deleted_version {
        Some(version) => format!("/{account}/{name}/{version}"),
        None => format!("/{account}/{name}"),
    }
}

pub fn parse_containers(text: &str) -> Option<ContainerMarker> {
    let (_, place) = text.strip_prefix('/')?.split_once('/')?;
    let (name, version) = match place.split_once('/') {
        Some((name, version)) => (name, Some(version)),
        None => (place, None),
    };
    ContainerName::parse(name).ok()?;
    let is_version = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    version
        .is_none_or(is_version)
        .then(|| ContainerMarker { name: name.to_owned(), deleted_version: version.map(str::to_owned) })
}

/// The text of where a page of blobs begins.
pub fn print_blobs(marker: &BlobMarker) -> String {
    print(&match marker {
        BlobMarker::AtName(name) => fields(b'n', Revision::Base, name),
        BlobMarker::At(name, revision) => fields(b'b', *revision, name.as_str()),
        BlobMarker::AfterPrefix(prefix) => fields(b'p', Revision::Base, prefix),
    })
}

/// `None` if no server of this kind made it.
pub fn parse_blobs(text: &str) -> Option<BlobMarker> {
    let bytes = parse(text)?;
    let (kind, revision, name) = read_fields(&bytes)?;
    let marker = match kind {
        b'n' => BlobMarker::AtName(name.to_owned()),
        b'b' => BlobMarker::At(BlobName::parse(name).ok()?, revision),
        b'p' => BlobMarker::AfterPrefix(name.to_owned()),
        _ => return None,
    };
    // The same place has one text only.
    (print_blobs(&marker) == text).then_some(marker)
}

/// The text of where a page of found blobs begins.
pub fn print_found(marker: &FoundMarker) -> String {
    // No container has a slash in its name.
    print(&fields(b'f', marker.revision, &format!("{}/{}", marker.container, marker.blob)))
}

pub fn parse_found(text: &str) -> Option<FoundMarker> {
    let bytes = parse(text)?;
    let (b'f', revision, path) = read_fields(&bytes)? else { return None };
    let (container, blob) = path.split_once('/')?;
    let marker = FoundMarker { container: container.to_owned(), blob: blob.to_owned(), revision };
    (print_found(&marker) == text).then_some(marker)
}

/// What kind it is, then of which revision, then the name.
fn fields(kind: u8, revision: Revision, name: &str) -> Vec<u8> {
    let (of, moment) = match revision {
        Revision::Base => (b'b', Timestamp::MIN),
        Revision::Snapshot(moment) => (b's', moment),
        Revision::Version(moment) => (b'v', moment),
    };
    let mut bytes = vec![kind, of];
    bytes.extend_from_slice(&moment.ticks().to_be_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

fn read_fields(bytes: &[u8]) -> Option<(u8, Revision, &str)> {
    let ([kind, of], rest) = bytes.split_first_chunk()?;
    let (ticks, name) = rest.split_first_chunk()?;
    let moment = Timestamp::from_ticks(u64::from_be_bytes(*ticks))?;
    let revision = match of {
        b'b' => Revision::Base,
        b's' => Revision::Snapshot(moment),
        b'v' => Revision::Version(moment),
        _ => return None,
    };
    Some((*kind, revision, std::str::from_utf8(name).ok()?))
}

fn print(bytes: &[u8]) -> String {
    let text = URL_SAFE_NO_PAD.encode(bytes);
    format!("2!{}!{text}", text.len())
}

fn parse(text: &str) -> Option<Vec<u8>> {
    let (length, encoded) = text.strip_prefix("2!")?.split_once('!')?;
    (length.parse() == Ok(encoded.len())).then(|| URL_SAFE_NO_PAD.decode(encoded).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_containers() {
        let marker = |name: &str, version: Option<&str>| ContainerMarker {
            name: name.to_owned(),
            deleted_version: version.map(str::to_owned),
        };
        for (text, expected) in [
            ("/a/c01", Some(marker("c01", None))),
            ("/a/c01/000000000000002A", Some(marker("c01", Some("000000000000002A")))),
            ("/a/c01/2A", None),
            ("/a/c01/", None),
            ("/a/C", None),
            ("/c01", None),
            ("c01", None),
        ] {
            let parsed = parse_containers(text);
            assert_eq!(parsed, expected, "{text}");
            assert!(parsed.is_none_or(|marker| print_containers("a", &marker) == text), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        let good = print_blobs(&BlobMarker::AtName("a".to_owned()));
        assert!(parse_blobs(&good).is_some());
        for text in
            ["", "rubbish", "2!4!AAAA", "2!0!", "2!!", &good.replace("2!1", "2!+1"), &format!("{good}A")]
        {
            assert_eq!(parse_blobs(text), None, "{text}");
            assert_eq!(parse_found(text), None, "{text}");
        }
        assert_eq!(parse_found(&good), None);
    }

    fn revision() -> impl Strategy<Value = Revision> {
        (0..3u8, 0..=Timestamp::MAX.ticks()).prop_map(|(kind, ticks)| {
            let moment = Timestamp::from_ticks(ticks).unwrap();
            [Revision::Base, Revision::Snapshot(moment), Revision::Version(moment)][usize::from(kind)]
        })
    }

    proptest! {
        #[test]
        fn printed_markers_are_read_as_themselves(name in "\\PC{1,20}", revision in revision()) {
            let blob = BlobName::parse(&name).unwrap();
            for marker in [
                BlobMarker::AtName(name.clone()),
                BlobMarker::At(blob, revision),
                BlobMarker::AfterPrefix(name.clone()),
            ] {
                prop_assert_eq!(parse_blobs(&print_blobs(&marker)), Some(marker));
            }
            let found = FoundMarker { container: "c".to_owned(), blob: name, revision };
            prop_assert_eq!(parse_found(&print_found(&found)), Some(found));
        }

        #[test]
        fn any_text_is_a_marker_or_not(text in "2![0-9]{1,2}![A-Za-z0-9_-]{0,40}") {
            let _ = parse_blobs(&text);
            let _ = parse_found(&text);
        }
    }
}
