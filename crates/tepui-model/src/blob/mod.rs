//! The Blob service: containers of blobs, and what can be asked of them.

pub mod access;
pub mod block;
pub mod checksum;
pub mod condition;
pub mod copy;
pub mod etag;
pub mod lease;
pub mod list;
pub mod name;
pub mod operation;
pub mod properties;
pub mod range;
pub mod reply;
pub mod settings;
mod subject;
pub mod tag_filter;
pub mod tags;
pub mod tier;

pub use block::{BlockId, BlockListType, BlockSearch, ChosenBlock, ListedBlock};
pub use checksum::{ChecksumAlgorithms, Checksums, ContentMd5, Crc64Sum, Md5Sum};
pub use condition::{
    AppendConditions, Conditions, EtagMatch, Preconditions, SequenceConditions, Unmet, Validators,
};
pub use copy::*;
pub use lease::{LeaseAction, LeaseDuration, LeaseId, LeaseOutcome, LeaseState, LeaseView};
pub use list::{
    BlobInclude, BlobMarker, ContainerMarker, FindBlobsByTags, FoundMarker, ListBlobs, ListContainers,
};
pub use name::{BlobName, BlobPath, ContainerName, Revision};
pub use operation::*;
pub use properties::*;
pub use range::{ByteRange, PageRange};
pub use reply::*;
pub use settings::{BlobServiceProperties, BlobServicePropertiesChange, DeleteRetention, StaticWebsite};
pub use subject::UploadOrigin;
pub use tag_filter::{TagComparison, TagFilter};
pub use tags::Tags;
pub use tier::{AccessTier, ArchiveStatus, RehydratePriority, TierView};
