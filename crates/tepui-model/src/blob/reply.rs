//! What the Blob service answers.

use super::block::ListedBlock;
use super::checksum::Checksums;
use super::lease::LeaseOutcome;
use super::list::{ContainerMarker, FoundMarker};
use super::name::Revision;
use super::properties::{
    BlobProperties, Changed, ContainerProperties, CopyStatus, Encryption, ImmutabilityPolicy, PublicAccess,
    SoftDeleted,
};
use super::range::ByteRange;
use super::settings::BlobServiceProperties;
use super::tags::Tags;
use crate::Timestamp;
use crate::access_policy::SignedIdentifier;
use crate::cost::Cost;

/// The answer to an [`Operation`](super::Operation) that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    ServiceProperties(Box<BlobServiceProperties>),
    ServicePropertiesSet,
    /// When the secondary was last in step.
    ServiceStats {
        last_sync: Timestamp,
    },
    AccountInformation,
    Containers(ContainerPage),
    Found(FoundPage),

    ContainerCreated(Changed),
    Container(Box<ContainerProperties>),
    ContainerMetadataSet(Changed),
    ContainerAcl {
        changed: Changed,
        public_access: Option<PublicAccess>,
        identifiers: Vec<SignedIdentifier>,
    },
    ContainerAclSet(Changed),
    /// Of a container or a blob.
    Lease {
        changed: Changed,
        outcome: LeaseOutcome,
    },
    ContainerDeleted,
    ContainerRestored,

    /// Put Blob, and Put Blob From URL.
    BlobPut {
        written: Written,
        checksums: Checksums,
    },
    CopyStarted {
        written: Written,
        copy_id: String,
        status: CopyStatus,
        checksums: Checksums,
    },
    CopyAborted,
    /// The content follows: see [`Content::range`].
    Content(Box<Content>),
    /// The answer to Get Blob Properties or Metadata.
    Blob(Box<BlobProperties>),
    MetadataSet(Written),
    /// The sequence number, of a page blob.
    PropertiesSet {
        written: Written,
        sequence_number: Option<u64>,
    },
    TierSet {
        rehydrating: bool,
    },
    Tags(Tags),
    TagsSet,
    ImmutabilityPolicySet(ImmutabilityPolicy),
    ImmutabilityPolicyDeleted,
    LegalHoldSet(bool),
    Snapshot {
        written: Written,
        snapshot: Timestamp,
    },
    BlobDeleted {
        permanently: bool,
    },
    BlobUndeleted,

    BlockPut {
        checksums: Checksums,
        encryption: Encryption,
    },
    BlockListPut {
        written: Written,
        checksums: Checksums,
    },
    BlockList(BlockList),
    Appended {
        written: Written,
        checksums: Checksums,
        offset: u64,
        committed_blocks: u32,
    },
    Sealed(Changed),
    PagesPut {
        written: Written,
        checksums: Checksums,
        sequence_number: u64,
    },
    PageRanges(PageRanges),
}

/// What writes tell of the blob they wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub changed: Changed,
    /// Where the account keeps versions.
    pub version: Option<Timestamp>,
    pub encryption: Encryption,
}

/// A blob that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub properties: BlobProperties,
    /// What is sent of it, both ends included; `None`: all of it.
    pub range: Option<std::ops::RangeInclusive<u64>>,
    /// Of the range, if they were asked for.
    pub checksums: Checksums,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerPage {
    /// In the order of their names.
    pub containers: Vec<ListedContainer>,
    /// Where the next page begins, if there is one.
    pub next: Option<ContainerMarker>,
    pub cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedContainer {
    pub name: String,
    pub properties: ContainerProperties,
    pub deleted: Option<DeletedContainer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedContainer {
    /// What tells it from others of that name that were deleted.
    pub version: String,
    pub since: SoftDeleted,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundPage {
    pub blobs: Vec<FoundBlob>,
    pub next: Option<FoundMarker>,
    pub cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlob {
    pub container: String,
    pub name: String,
    pub revision: Revision,
    pub is_current_version: bool,
    /// Those that the expression names.
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockList {
    /// Of the blob as it is committed: when it was changed, and its length.
    pub committed_as: Option<(Changed, u64)>,
    /// `None`: not asked for.
    pub committed: Option<Vec<ListedBlock>>,
    pub uncommitted: Option<Vec<ListedBlock>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRanges {
    pub changed: Changed,
    pub blob_bytes: u64,
    /// In the order of their first bytes.
    pub ranges: Vec<(PageState, ByteRange)>,
    /// The first byte that the next page of ranges may speak of.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    Written,
    /// Since the snapshot with which it is compared.
    Cleared,
}
