//! What is known of containers and blobs beside their content.

use super::checksum::ContentMd5;
use super::lease::LeaseView;
use super::list::BlobMarker;
use super::name::Revision;
use super::tags::Tags;
use super::tier::{TierView, words};
use crate::Timestamp;
use crate::cost::Cost;
use crate::metadata::Metadata;
use std::fmt;

words! {
    /// Who may read without credentials. No one if it is not set.
    PublicAccess {
        /// Blobs, but not what blobs there are.
        Blob = "blob",
        Container = "container",
    }
}

words! {
    BlobType {
        Block = "BlockBlob",
        Append = "AppendBlob",
        Page = "PageBlob",
    }
}

words! {
    /// How a copy is getting on.
    CopyStatus {
        Pending = "pending",
        Success = "success",
        Aborted = "aborted",
        Failed = "failed",
    }
}

words! {
    ImmutabilityMode {
        Unlocked = "unlocked",
        Locked = "locked",
    }
}

/// When a container or a blob was last changed: its ETag, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed(pub Timestamp);

/// What a blob says of its content when it is served. Absent ones are not sent.
///
/// Texts are `&str` in lists: there are thousands of them, and they are only printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpProperties<T = String> {
    pub content_type: Option<T>,
    pub content_encoding: Option<T>,
    pub content_language: Option<T>,
    pub content_disposition: Option<T>,
    pub cache_control: Option<T>,
    pub content_md5: Option<ContentMd5>,
}

/// Until when a blob must not be changed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImmutabilityPolicy {
    pub until: Timestamp,
    pub mode: ImmutabilityMode,
}

/// The key that a caller brings along, as blobs remember it: its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CustomerKey {
    pub sha256: [u8; 32],
}

/// The key itself that a caller brings along. It lasts as long as the request, and is never stored or printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerSecret(pub [u8; 32]);

impl fmt::Debug for CustomerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerSecret(…)")
    }
}

/// How a blob is to be encrypted, as far as the caller says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encryption {
    pub key: Option<CustomerKey>,
    /// The key itself, in a request that has one.
    pub secret: Option<CustomerSecret>,
    pub scope: Option<String>,
}

impl Encryption {
    /// What is remembered of it.
    pub fn without_secret(&self) -> Self {
        Self { key: self.key, secret: None, scope: self.scope.clone() }
    }
}

/// The last copy whose destination a blob was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyState {
    pub id: String,
    /// Without any signature.
    pub source: String,
    pub status: CopyStatus,
    /// Bytes copied, and bytes in all.
    pub progress: (u64, u64),
    pub completed: Option<Timestamp>,
    pub description: Option<String>,
    /// Of an incremental copy, the last snapshot that it made.
    pub incremental: Option<IncrementalCopy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncrementalCopy {
    pub destination_snapshot: Option<Timestamp>,
}

/// What only one type of blob has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OfType {
    #[default]
    Block,
    Append {
        committed_blocks: u32,
        sealed: bool,
    },
    Page {
        sequence_number: u64,
    },
}

impl OfType {
    pub fn blob_type(self) -> BlobType {
        match self {
            Self::Block => BlobType::Block,
            Self::Append { .. } => BlobType::Append,
            Self::Page { .. } => BlobType::Page,
        }
    }
}

/// One state of a blob, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobState<T = String> {
    pub changed: Timestamp,
    pub created: Timestamp,
    pub bytes: u64,
    pub of_type: OfType,
    pub http: HttpProperties<T>,
    pub metadata: Metadata,
    pub tags: Tags,
    pub copy: Option<Box<CopyState>>,
    pub encryption: Encryption,
    pub immutability: Option<ImmutabilityPolicy>,
    pub legal_hold: Option<bool>,
}

/// Everything that answers say about one state of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobProperties<S = BlobState> {
    pub state: S,
    /// Block blobs have one.
    pub tier: Option<TierView>,
    /// `None` of snapshots, of previous versions, and of what is deleted: these cannot be leased.
    pub lease: Option<LeaseView>,
    pub last_accessed: Option<Timestamp>,
    pub version: Option<VersionView>,
}

impl BlobProperties<()> {
    /// The same of a state.
    pub fn of<S>(self, state: S) -> BlobProperties<S> {
        let Self { state: (), tier, lease, last_accessed, version } = self;
        BlobProperties { state, tier, lease, last_accessed, version }
    }
}

/// Of an account that keeps versions: which one this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionView {
    pub id: Timestamp,
    pub is_current: bool,
}

/// Everything that answers say about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerProperties {
    pub changed: Changed,
    pub metadata: Metadata,
    pub public_access: Option<PublicAccess>,
    pub lease: LeaseView,
    pub encryption: ContainerEncryption,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEncryption {
    pub default_scope: String,
    pub deny_override: bool,
}

impl Default for ContainerEncryption {
    fn default() -> Self {
        Self { default_scope: "$account-encryption-key".to_owned(), deny_override: false }
    }
}

/// What is deleted, but can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftDeleted {
    pub deleted: Timestamp,
    pub remaining_days: u32,
}

/// Takes the entries of a list of blobs one by one as they are found.
pub trait BlobSink: Send {
    fn accept(&mut self, listed: &ListedBlob<'_>);

    /// The size of what was accepted so far; a page ends when it gets large.
    fn bytes(&self) -> usize;
}

/// The end of a page of blobs; they themselves went to the [`BlobSink`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPage {
    /// Where the next page begins, if there is one.
    pub next: Option<BlobMarker>,
    pub cost: Cost,
}

/// One entry of a list of blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedBlob<'a> {
    /// Everything whose name begins like this, up to the delimiter.
    Prefix(&'a str),
    Blob(BlobEntry<'a>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobEntry<'a> {
    pub name: &'a str,
    pub revision: Revision,
    pub deleted: Option<SoftDeleted>,
    /// The blob is gone, but has versions.
    pub has_versions_only: bool,
    pub content: ListedContent<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedContent<'a> {
    Committed(BlobProperties<&'a BlobState<&'a str>>),
    /// There are blocks, but no blob yet.
    Uncommitted {
        lease: LeaseView,
    },
}
