//! Lists in XML.

use super::RemoteReply;
use super::properties::{RemoteBlob, RemoteContainer, Texts as _, soft_deleted};
use crate::blob::tags_text;
use crate::xml::document::{self, Element, Limits};
use crate::{metadata, percent};
use tepui_model::Timestamp;
use tepui_model::blob::{
    BlockId, ByteRange, ListedBlock, PageState, Revision, SoftDeleted, Tags, VersionView,
};

/// An entry of a list of blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEntry {
    /// Everything whose name begins like this, up to the delimiter.
    Prefix(String),
    Blob {
        name: String,
        snapshot: Option<Timestamp>,
        deleted: Option<SoftDeleted>,
        /// The blob is gone, but has versions.
        has_versions_only: bool,
        /// `None`: there are blocks, but no blob yet.
        blob: Option<Box<RemoteBlob>>,
        /// Only if they were asked for and there are any.
        tags: Tags,
    },
}

/// A blob that was found by its tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFound {
    pub container: String,
    pub name: String,
    pub version: Option<VersionView>,
    /// Those that the expression names.
    pub tags: Tags,
}

fn root(body: &[u8], name: &str) -> Option<Element> {
    document::parse_any(body, Limits::OF_REPLIES).ok().filter(|root| root.name == name)
}

fn next(root: &mut Element) -> Option<String> {
    root.take("NextMarker").map(|marker| marker.text).filter(|marker| !marker.is_empty())
}

/// Names that XML cannot hold come percent-encoded.
fn name(of: &mut Element) -> Option<String> {
    let name = of.take("Name")?;
    match name.encoded {
        true => percent::decode(&name.text).map(|name| name.into_owned()),
        false => Some(name.text),
    }
}

fn version(of: &mut Element) -> Option<VersionView> {
    let id = Revision::parse_moment(&of.take("VersionId")?.text)?;
    let is_current = of.take("IsCurrentVersion").is_some_and(|flag| flag.text == "true");
    Some(VersionView { id, is_current })
}

fn tags(of: &mut Element) -> Option<Tags> {
    match of.take("Tags") {
        Some(tags) => tags_text::read(tags).ok(),
        None => Some(Tags::default()),
    }
}

pub(super) fn containers(body: &[u8]) -> Option<RemoteReply> {
    let mut root = root(body, "EnumerationResults")?;
    let next = next(&mut root);
    let containers = root.take("Containers")?.children.into_iter().map(RemoteContainer::of_list);
    Some(RemoteReply::Containers { containers: containers.collect::<Option<_>>()?, next })
}

pub(super) fn blobs(body: &[u8]) -> Option<RemoteReply> {
    let mut root = root(body, "EnumerationResults")?;
    let next = next(&mut root);
    let entries = root.take("Blobs")?.children.into_iter().map(entry);
    Some(RemoteReply::Blobs { entries: entries.collect::<Option<_>>()?, next })
}

fn entry(mut element: Element) -> Option<RemoteEntry> {
    let name = name(&mut element)?;
    if element.name == "BlobPrefix" {
        return Some(RemoteEntry::Prefix(name));
    }
    let properties = element.take("Properties")?;
    let snapshot = match element.take("Snapshot") {
        Some(moment) => Some(Revision::parse_moment(&moment.text)?),
        None => None,
    };
    let blob = match properties.get("", "Etag") {
        Some(_) => {
            let bytes = properties.get("", "Content-Length")?.parse().ok()?;
            let mut blob = RemoteBlob::of(&properties, bytes)?;
            if let Some(pairs) = element.take("Metadata") {
                blob.metadata = metadata::receive(pairs)?;
            }
            blob.version = version(&mut element);
            Some(Box::new(blob))
        }
        None => None,
    };
    Some(RemoteEntry::Blob {
        name,
        snapshot,
        deleted: soft_deleted(&properties),
        has_versions_only: element.take("HasVersionsOnly").is_some_and(|flag| flag.text == "true"),
        blob,
        tags: tags(&mut element)?,
    })
}

pub(super) fn found(body: &[u8]) -> Option<RemoteReply> {
    let mut root = root(body, "EnumerationResults")?;
    let next = next(&mut root);
    let blobs = root.take("Blobs")?.children.into_iter().map(|mut element| {
        Some(RemoteFound {
            name: name(&mut element)?,
            container: element.take("ContainerName")?.text,
            version: version(&mut element),
            tags: tags(&mut element)?,
        })
    });
    Some(RemoteReply::Found { blobs: blobs.collect::<Option<_>>()?, next })
}

pub(super) fn blocks(body: &[u8]) -> Option<RemoteReply> {
    let mut root = root(body, "BlockList")?;
    let block = |mut element: Element| {
        Some(ListedBlock {
            id: BlockId::parse(&element.take("Name")?.text)?,
            bytes: element.take("Size")?.text.parse().ok()?,
        })
    };
    let mut section = |name| match root.take(name) {
        Some(section) => section.children.into_iter().map(block).collect::<Option<Vec<_>>>().map(Some),
        None => Some(None),
    };
    Some(RemoteReply::BlockList {
        committed: section("CommittedBlocks")?,
        uncommitted: section("UncommittedBlocks")?,
    })
}

type Pages = (Vec<(PageState, ByteRange)>, Option<String>);

pub(super) fn pages(body: &[u8]) -> Option<Pages> {
    let mut root = root(body, "PageList")?;
    let next = next(&mut root);
    let ranges = root.children.into_iter().map(|element| {
        let state = match element.name.as_str() {
            "PageRange" => PageState::Written,
            "ClearRange" => PageState::Cleared,
            _ => return None,
        };
        let first = element.get("", "Start")?.parse().ok()?;
        let last = Some(element.get("", "End")?.parse().ok()?);
        Some((state, ByteRange { first, last }))
    });
    Some((ranges.collect::<Option<_>>()?, next))
}
