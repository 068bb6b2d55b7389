//! What lists are asked for: of containers, of blobs, and of blobs by their tags.

use super::name::{BlobName, ContainerName, Revision};
use super::tag_filter::TagFilter;

/// The most that one page holds.
pub const MAX_PAGE_SIZE: usize = 5000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListContainers {
    pub prefix: String,
    pub from: Option<ContainerMarker>,
    /// 1 to 5000.
    pub page_size: usize,
    pub with_metadata: bool,
    pub with_deleted: bool,
    pub with_system: bool,
}

/// Where a page of containers begins: with a name, or with one of those that were deleted under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerMarker {
    pub name: String,
    /// `None`: with all that have the name.
    pub deleted_version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListBlobs {
    pub container: ContainerName,
    pub prefix: String,
    /// Never empty.
    pub delimiter: Option<String>,
    pub from: Option<BlobMarker>,
    /// 1 to 5000, blobs and prefixes together.
    pub page_size: usize,
    pub include: BlobInclude,
}

/// Where a page of blobs begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlobMarker {
    /// At the first name that is not less.
    AtName(String),
    /// At this state of this blob.
    At(BlobName, Revision),
    /// After everything that begins like this.
    AfterPrefix(String),
}

/// What a list of blobs shows beside the blobs as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobInclude {
    pub snapshots: bool,
    pub metadata: bool,
    pub uncommitted: bool,
    pub copy: bool,
    pub deleted: bool,
    pub tags: bool,
    pub versions: bool,
    pub deleted_with_versions: bool,
    pub immutability_policy: bool,
    pub legal_hold: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindBlobsByTags {
    /// `None`: in all of them.
    pub container: Option<ContainerName>,
    pub filter: TagFilter,
    pub from: Option<FoundMarker>,
    pub page_size: usize,
    pub with_deleted: bool,
    pub with_versions: bool,
}

/// Where a page of found blobs begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMarker {
    pub container: String,
    pub blob: String,
    pub revision: Revision,
}
