//! What can be asked of the Blob service.
//!
//! The bytes of an upload are not in its operation: they are streamed. The operation says how many there
//! are, what their checksums should be, and what is to become of them.

use super::block::{BlockId, BlockListType, ChosenBlock};
use super::checksum::Checksums;
use super::condition::{AppendConditions, Conditions, Preconditions, SequenceConditions};
use super::copy::{CopyBlob, CopySource, PutBlobFromUrl, SharedCopy};
use super::lease::LeaseAction;
use super::list::{FindBlobsByTags, ListBlobs, ListContainers};
use super::name::{BlobPath, ContainerName, Revision};
use super::properties::{ContainerEncryption, Encryption, HttpProperties, ImmutabilityPolicy, PublicAccess};
use super::range::{ByteRange, PageRange};
use super::settings::BlobServicePropertiesChange;
use super::tags::Tags;
use super::tier::{AccessTier, RehydratePriority};
use crate::access_policy::SignedIdentifier;
use crate::metadata::Metadata;
use crate::operation::operation_kinds;
use crate::{ErrorCode, Timestamp};

/// What a request asks for, by how it runs. Values are within their limits.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Answered with one [`Reply`](super::Reply), and perhaps with bytes after it.
    Operation(Operation),
    /// Carried out once its bytes are stored: they come with the request, or are fetched from its source.
    Upload(UploadOperation),
    /// Answered with a page, blob by blob as they are found.
    List(ListBlobs),
    /// The operations inside are decoded and decided one by one.
    Batch { container: Option<ContainerName> },
}

impl From<Operation> for Call {
    fn from(operation: Operation) -> Self {
        Self::Operation(operation)
    }
}

impl From<UploadOperation> for Call {
    fn from(operation: UploadOperation) -> Self {
        Self::Upload(operation)
    }
}

/// Everything but uploads, lists of blobs and batches.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    GetServiceProperties,
    SetServiceProperties(BlobServicePropertiesChange),
    GetServiceStats,
    GetAccountInformation,
    ListContainers(ListContainers),
    FindBlobsByTags(FindBlobsByTags),

    CreateContainer {
        container: ContainerName,
        metadata: Metadata,
        public_access: Option<PublicAccess>,
        encryption: ContainerEncryption,
    },
    /// Metadata alone: answered with less.
    GetContainer {
        container: ContainerName,
        preconditions: Preconditions,
        detail: Detail,
    },
    SetContainerMetadata {
        container: ContainerName,
        metadata: Metadata,
        preconditions: Preconditions,
    },
    GetContainerAcl {
        container: ContainerName,
        preconditions: Preconditions,
    },
    SetContainerAcl {
        container: ContainerName,
        public_access: Option<PublicAccess>,
        identifiers: Vec<SignedIdentifier>,
        preconditions: Preconditions,
    },
    LeaseContainer {
        container: ContainerName,
        action: LeaseAction,
        conditions: Conditions,
    },
    DeleteContainer {
        container: ContainerName,
        preconditions: Preconditions,
    },
    /// Under the name in the path, what was deleted under another or the same.
    RestoreContainer {
        container: ContainerName,
        deleted: ContainerName,
        deleted_version: String,
    },

    PutEmptyBlob(PutEmptyBlob),
    PutBlobFromUrl(SharedCopy<PutBlobFromUrl>),
    CopyBlob(SharedCopy<CopyBlob>),
    AbortCopy {
        blob: BlobPath,
        copy_id: String,
        preconditions: Preconditions,
    },
    IncrementalCopy {
        blob: BlobPath,
        source: CopySource,
        preconditions: Preconditions,
    },

    GetBlob(GetBlob),
    /// Metadata alone: answered with less.
    GetBlobProperties {
        blob: BlobPath,
        revision: Revision,
        detail: Detail,
        preconditions: Preconditions,
        encryption: Encryption,
    },
    SetBlobMetadata {
        blob: BlobPath,
        metadata: Metadata,
        preconditions: Preconditions,
        encryption: Encryption,
    },
    SetBlobProperties(SetBlobProperties),
    SetBlobTier {
        blob: BlobPath,
        revision: Revision,
        tier: AccessTier,
        priority: Option<RehydratePriority>,
        preconditions: Preconditions,
    },
    GetBlobTags {
        blob: BlobPath,
        revision: Revision,
        preconditions: Preconditions,
    },
    SetBlobTags {
        blob: BlobPath,
        revision: Revision,
        tags: Tags,
        preconditions: Preconditions,
    },
    SetImmutabilityPolicy {
        blob: BlobPath,
        revision: Revision,
        policy: ImmutabilityPolicy,
        unmodified_since: Option<Timestamp>,
    },
    DeleteImmutabilityPolicy {
        blob: BlobPath,
        revision: Revision,
    },
    SetLegalHold {
        blob: BlobPath,
        revision: Revision,
        hold: bool,
    },
    LeaseBlob {
        blob: BlobPath,
        action: LeaseAction,
        conditions: Conditions,
    },
    SnapshotBlob {
        blob: BlobPath,
        /// Empty: that of the blob.
        metadata: Metadata,
        preconditions: Preconditions,
        encryption: Encryption,
    },
    DeleteBlob(DeleteBlob),
    UndeleteBlob {
        blob: BlobPath,
    },

    PutBlockList(PutBlockList),
    GetBlockList {
        blob: BlobPath,
        revision: Revision,
        list: BlockListType,
        preconditions: Preconditions,
    },
    SealBlob {
        blob: BlobPath,
        position: Option<u64>,
        preconditions: Preconditions,
    },
    ClearPages(PageWrite),
    GetPageRanges(GetPageRanges),

    /// What this service does not do.
    NotImplemented(NotImplemented),
}

impl Operation {
    /// Whether it frees space on the disk, in the end, or is needed to get there: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        match self {
            Self::DeleteBlob(_) | Self::DeleteContainer { .. } | Self::AbortCopy { .. } => true,
            // What is leased is not deleted, and what is retained is not freed.
            Self::LeaseBlob { .. } | Self::LeaseContainer { .. } | Self::SetServiceProperties(_) => true,
            _ => false,
        }
    }
}

/// What is carried out with bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum UploadOperation {
    PutBlob(PutBlob),
    /// Unless the copy can share the content of its source: see [`SharedCopy`].
    PutBlobFromUrl(PutBlobFromUrl),
    /// Unless the copy can share the content of its source: see [`SharedCopy`].
    CopyBlob(CopyBlob),
    PutBlock(PutBlock),
    AppendBlock(AppendBlock),
    PutPages(PutPages),
}

/// How much is wanted to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Properties,
    Metadata,
}

/// Bytes that a request brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    /// `None`: the caller does not say.
    pub bytes: Option<u64>,
    /// More than this is refused, also where the caller does not say.
    pub max_bytes: u64,
    pub checksums: Checksums,
}

/// What a blob is made with, beside its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewBlob {
    pub http: HttpProperties,
    pub metadata: Metadata,
    pub tags: Tags,
    pub tier: Option<AccessTier>,
    pub encryption: Encryption,
    pub immutability: Option<ImmutabilityPolicy>,
    pub legal_hold: Option<bool>,
}

/// Put Blob of a block blob.
#[derive(Debug, Clone, PartialEq)]
pub struct PutBlob {
    pub blob: BlobPath,
    pub new: NewBlob,
    pub upload: Upload,
    pub preconditions: Preconditions,
}

/// Put Blob of the other types, which begin without bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct PutEmptyBlob {
    pub blob: BlobPath,
    pub new: NewBlob,
    pub content: EmptyContent,
    pub preconditions: Preconditions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyContent {
    Append,
    Page { bytes: u64, sequence_number: u64 },
}

#[derive(Debug, Clone, PartialEq)]
pub struct GetBlob {
    pub blob: BlobPath,
    pub revision: Revision,
    pub range: Option<ByteRange>,
    /// Wanted of the range.
    pub range_checksum: Option<RangeChecksum>,
    pub preconditions: Preconditions,
    pub encryption: Encryption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChecksum {
    Md5,
    Crc64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SetBlobProperties {
    pub blob: BlobPath,
    /// `None`: they stay, because something else is set.
    pub http: Option<HttpProperties>,
    /// The new length of a page blob.
    pub resize: Option<u64>,
    pub sequence_number: Option<SequenceNumberAction>,
    pub preconditions: Preconditions,
    pub encryption: Encryption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceNumberAction {
    Max(u64),
    Update(u64),
    Increment,
}

impl SequenceNumberAction {
    pub fn apply(self, before: u64) -> Result<u64, ErrorCode> {
        match self {
            Self::Max(number) => Ok(before.max(number)),
            Self::Update(number) => Ok(number),
            Self::Increment if before >= MAX_SEQUENCE_NUMBER => {
                Err(ErrorCode::SequenceNumberIncrementTooLarge)
            }
            Self::Increment => Ok(before + 1),
        }
    }
}

pub const MAX_SEQUENCE_NUMBER: u64 = i64::MAX as u64;

#[derive(Debug, Clone, PartialEq)]
pub struct DeleteBlob {
    pub blob: BlobPath,
    pub revision: Revision,
    pub snapshots: Option<DeleteSnapshots>,
    pub tier_conditions: TierConditions,
    /// Also what could be restored.
    pub permanently: bool,
    pub preconditions: Preconditions,
}

/// What must hold of the time at which the tier of a blob was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierConditions {
    pub modified_since: Option<Timestamp>,
    pub unmodified_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteSnapshots {
    /// With the blob.
    Include,
    /// And not the blob.
    Only,
}

/// Bytes that a request brings along, or that have to be fetched.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Sent(Upload),
    FromUrl(Box<FromUrl>),
}

impl Piece {
    /// What the caller says of the bytes.
    pub fn checksums(&self) -> &Checksums {
        match self {
            Self::Sent(upload) => &upload.checksums,
            Self::FromUrl(from) => &from.checksums,
        }
    }

    pub fn max_bytes(&self) -> u64 {
        match self {
            Self::Sent(upload) => upload.max_bytes,
            Self::FromUrl(from) => from.max_bytes,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct FromUrl {
    pub source: CopySource,
    /// `None`: all of the source.
    pub range: Option<ByteRange>,
    pub max_bytes: u64,
    pub checksums: Checksums,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutBlock {
    pub blob: BlobPath,
    pub id: BlockId,
    pub piece: Piece,
    pub preconditions: Preconditions,
    pub encryption: Encryption,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutBlockList {
    pub blob: BlobPath,
    pub blocks: Vec<ChosenBlock>,
    /// What the answer says of the list itself. It was compared with what the caller sent.
    pub list_checksums: Checksums,
    pub new: NewBlob,
    pub preconditions: Preconditions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AppendBlock {
    pub blob: BlobPath,
    pub piece: Piece,
    pub append: AppendConditions,
    pub preconditions: Preconditions,
    pub encryption: Encryption,
}

/// Put Page, but for the bytes. Without any, it clears the pages.
#[derive(Debug, Clone, PartialEq)]
pub struct PageWrite {
    pub blob: BlobPath,
    pub pages: PageRange,
    pub sequence: SequenceConditions,
    pub preconditions: Preconditions,
    pub encryption: Encryption,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutPages {
    pub write: PageWrite,
    /// As many bytes as there are in the range.
    pub piece: Piece,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GetPageRanges {
    pub blob: BlobPath,
    pub revision: Revision,
    pub since: Option<PreviousSnapshot>,
    pub range: Option<ByteRange>,
    /// The first byte that the page of ranges may speak of.
    pub from: Option<u64>,
    pub page_size: Option<usize>,
    pub preconditions: Preconditions,
}

/// What page ranges are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousSnapshot {
    At(Timestamp),
    /// Of a blob of another account or under another name.
    Url(String),
}

/// Operations that the protocol has and this service has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotImplemented {
    QueryBlobContents,
    RenameContainer,
    SetBlobExpiry,
}

impl NotImplemented {
    /// The error that the caller gets.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::QueryBlobContents | Self::RenameContainer => ErrorCode::NotImplemented,
            // Only accounts with a hierarchical namespace have it. Others get this error, from the real service too.
            Self::SetBlobExpiry => ErrorCode::BlobOperationNotSupported,
        }
    }
}

operation_kinds! {
    GetServiceProperties = "GetBlobServiceProperties", Read;
    SetServiceProperties = "SetBlobServiceProperties", Write;
    GetServiceStats = "GetBlobServiceStats", Read;
    GetAccountInformation = "GetAccountInformation", Read;
    GetUserDelegationKey = "GetUserDelegationKey", Read;
    ListContainers = "ListContainers", Read;
    FindBlobsByTags = "FindBlobsByTags", Read;
    FindBlobsByTagsInContainer = "FindBlobsByTagsInContainer", Read;
    Batch = "BlobBatch", Write;
    ContainerBatch = "ContainerBlobBatch", Write;
    CreateContainer = "CreateContainer", Write;
    GetContainerProperties = "GetContainerProperties", Read;
    GetContainerMetadata = "GetContainerMetadata", Read;
    SetContainerMetadata = "SetContainerMetadata", Write;
    GetContainerAcl = "GetContainerACL", Read;
    SetContainerAcl = "SetContainerACL", Write;
    LeaseContainer = "LeaseContainer", Write;
    BreakContainerLease = "BreakContainerLease", Write;
    DeleteContainer = "DeleteContainer", Write;
    RestoreContainer = "RestoreContainer", Write;
    RenameContainer = "RenameContainer", Write;
    ListBlobs = "ListBlobs", Read;
    PutBlob = "PutBlob", Write;
    PutBlobFromUrl = "PutBlobFromURL", Write;
    CopyBlob = "CopyBlob", Write;
    CopyBlobFromUrl = "CopyBlobFromURL", Write;
    AbortCopy = "AbortCopyBlob", Write;
    IncrementalCopy = "IncrementalCopyBlob", Write;
    GetBlob = "GetBlob", Read;
    GetBlobProperties = "GetBlobProperties", Read;
    GetBlobMetadata = "GetBlobMetadata", Read;
    SetBlobMetadata = "SetBlobMetadata", Write;
    SetBlobProperties = "SetBlobProperties", Write;
    SetBlobTier = "SetBlobTier", Write;
    GetBlobTags = "GetBlobTags", Read;
    SetBlobTags = "SetBlobTags", Write;
    SetBlobExpiry = "SetBlobExpiry", Write;
    SetImmutabilityPolicy = "SetBlobImmutabilityPolicy", Write;
    DeleteImmutabilityPolicy = "DeleteBlobImmutabilityPolicy", Write;
    SetLegalHold = "SetBlobLegalHold", Write;
    LeaseBlob = "LeaseBlob", Write;
    BreakBlobLease = "BreakBlobLease", Write;
    SnapshotBlob = "SnapshotBlob", Write;
    DeleteBlob = "DeleteBlob", Write;
    DeleteBlobVersion = "DeleteBlobVersion", Write;
    DeleteBlobPermanently = "PermanentDeleteBlob", Write;
    UndeleteBlob = "UndeleteBlob", Write;
    QueryBlobContents = "QueryBlobContents", Read;
    PutBlock = "PutBlock", Write;
    PutBlockFromUrl = "PutBlockFromURL", Write;
    PutBlockList = "PutBlockList", Write;
    GetBlockList = "GetBlockList", Read;
    AppendBlock = "AppendBlock", Write;
    AppendBlockFromUrl = "AppendBlockFromURL", Write;
    SealBlob = "SealBlob", Write;
    PutPages = "PutPage", Write;
    ClearPages = "ClearPage", Write;
    PutPagesFromUrl = "PutPageFromURL", Write;
    GetPageRanges = "GetPageRanges", Read;
    GetPageRangesDiff = "GetPageRangesDiff", Read;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers() {
        use SequenceNumberAction::*;
        for (action, before, expected) in [
            (Max(5), 3, Ok(5)),
            (Max(5), 7, Ok(7)),
            (Update(5), 7, Ok(5)),
            (Increment, 7, Ok(8)),
            (Increment, MAX_SEQUENCE_NUMBER, Err(ErrorCode::SequenceNumberIncrementTooLarge)),
        ] {
            assert_eq!(action.apply(before), expected, "{action:?} {before}");
        }
    }
}
