//! Records of containers, of blobs, and of their contents.

use super::{Kind, Reader, Writer, corrupt};
use crate::blob::encryption::plain_bytes;
use crate::blob::lease::Lease;
use crate::keyspace::{ContentId, Incarnation};
use bytes::Bytes;
use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::{
    AccessTier, BlobState, BlockId, ContainerEncryption, ContentMd5, CopyState, CopyStatus, CustomerKey,
    HttpProperties, ImmutabilityMode, ImmutabilityPolicy, IncrementalCopy, LeaseDuration, LeaseId, OfType,
    PublicAccess, RehydratePriority, Tags,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ServiceError, Timestamp};
use tepui_storage::{Extent, StoreId};

/// The catalogue row of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredContainer {
    pub(crate) incarnation: Incarnation,
    /// Unique to every write: reading it back proves the commit.
    pub(crate) stamp: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) metadata: Metadata,
    pub(crate) public_access: Option<PublicAccess>,
    pub(crate) acl: Vec<SignedIdentifier>,
    pub(crate) lease: Lease,
    pub(crate) encryption: ContainerEncryption,
    pub(crate) deleted: Option<SoftDelete>,
    pub(crate) protection: Protection,
}

/// Whether blobs of a container may have a legal hold or an immutability policy. A commit that protects a blob has the
/// container's row as a guard, so that it conflicts with a delete of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// No blob ever had one.
    Never,
    /// Some may. Protecting another blob need not write the container's row.
    Possible,
    /// Some may, and a delete of the container is checking them. Protecting another blob has to write `Possible` in the
    /// same commit, so that it conflicts with the delete.
    BeingChecked,
}

impl Protection {
    fn code(self) -> u64 {
        match self {
            Self::Never => 0,
            Self::Possible => 1,
            Self::BeingChecked => 2,
        }
    }
}

/// When a blob or container was soft-deleted, and until when it can be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoftDelete {
    pub(crate) at: Timestamp,
    pub(crate) until: Timestamp,
}

impl StoredContainer {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Container);
        out.number(self.incarnation.0);
        out.timestamp(self.stamp);
        out.timestamp(self.changed);
        out.pairs(self.metadata.iter());
        out.optional(self.public_access, |out, access| out.text(access.name()));
        out.acl(&self.acl);
        out.lease(&self.lease);
        out.text(&self.encryption.default_scope);
        out.flag(self.encryption.deny_override);
        out.deleted(self.deleted);
        out.number(self.protection.code());
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Container))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Container)?;
        Some(Self {
            incarnation: Incarnation(from.number()?),
            stamp: from.timestamp()?,
            changed: from.timestamp()?,
            metadata: from.metadata()?,
            public_access: from.optional(|from| PublicAccess::parse(from.str()?))?,
            acl: from.acl()?,
            lease: from.lease()?,
            encryption: ContainerEncryption { default_scope: from.text()?, deny_override: from.flag()? },
            deleted: from.deleted()?,
            protection: match from.0.is_empty() {
                // Written by builds without this field.
                true => Protection::Possible,
                false => match from.number()? {
                    0 => Protection::Never,
                    1 => Protection::Possible,
                    2 => Protection::BeingChecked,
                    _ => return None,
                },
            },
        })
    }
}

/// A revision of a blob. Lists borrow its texts, and do not decode the location of its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StoredBlob<T = String, C = Content> {
    /// Unique to every write: reading it back proves the commit.
    pub(crate) stamp: Timestamp,
    pub(crate) state: BlobState<T>,
    /// `None`: never set.
    pub(crate) tier: Option<StoredTier>,
    pub(crate) lease: Lease,
    /// Its version, if versioning was enabled when it was written.
    pub(crate) version: Option<Timestamp>,
    /// The time of the last snapshot. Snapshot Blob writes this row, so that it conflicts with a delete of the blob.
    pub(crate) last_snapshot: Option<Timestamp>,
    pub(crate) deleted: Option<SoftDelete>,
    pub(crate) content: C,
}

impl<T, C> Deref for StoredBlob<T, C> {
    type Target = BlobState<T>;

    fn deref(&self) -> &BlobState<T> {
        &self.state
    }
}

impl<T, C> DerefMut for StoredBlob<T, C> {
    fn deref_mut(&mut self) -> &mut BlobState<T> {
        &mut self.state
    }
}

/// The location of the bytes of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// In this row.
    Inline(Bytes),
    /// In a row of its own, which lists need not read. Shared by snapshots, versions and copies.
    Small(ContentId),
    /// All in one extent.
    Extent(Extent),
    /// In pieces, in rows of their own. Shared by snapshots, versions and copies.
    Listed(ContentId),
}

impl Default for Content {
    fn default() -> Self {
        Self::Inline(Bytes::new())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredTier {
    pub(crate) tier: AccessTier,
    pub(crate) changed: Timestamp,
    /// The tier that it is being rehydrated to, and when that is done.
    pub(crate) rehydrating: Option<(AccessTier, RehydratePriority, Timestamp)>,
}

impl StoredBlob {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Blob);
        for timestamp in [self.stamp, self.changed, self.created] {
            out.timestamp(timestamp);
        }
        out.number(self.bytes);
        out.of_type(self.of_type);
        out.http(&self.http);
        out.pairs(self.metadata.iter());
        out.pairs(self.tags.iter());
        out.optional(self.tier, Writer::tier);
        out.lease(&self.lease);
        out.optional(self.copy.as_deref(), Writer::copy_state);
        out.optional(self.encryption.key, |out, key| out.bytes(&key.sha256));
        out.optional(self.encryption.scope.as_deref(), Writer::text);
        out.optional(self.immutability, |out, policy| {
            out.timestamp(policy.until);
            out.text(policy.mode.name());
        });
        out.optional(self.legal_hold, Writer::flag);
        out.optional(self.version, Writer::timestamp);
        out.optional(self.last_snapshot, Writer::timestamp);
        out.deleted(self.deleted);
        match &self.content {
            Content::Inline(bytes) => {
                out.number(0);
                out.0.extend_from_slice(bytes);
            }
            Content::Extent(extent) => {
                out.number(1);
                out.extent(*extent);
            }
            Content::Listed(content) => {
                out.number(2);
                out.wide_number(content.0);
            }
            Content::Small(content) => {
                out.number(3);
                out.wide_number(content.0);
            }
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Blob))
    }

    fn read(bytes: &Bytes) -> Option<Self> {
        let mut blob = Self::default();
        let mut from = blob.fill(bytes)?;
        blob.content = match from.number()? {
            0 => Content::Inline(bytes.slice(bytes.len() - from.0.len()..)),
            1 => Content::Extent(from.extent()?),
            2 => Content::Listed(ContentId(from.wide_number()?)),
            3 => Content::Small(ContentId(from.wide_number()?)),
            _ => return None,
        };
        Some(blob)
    }
}

/// The part of a revision that lists decode.
pub(crate) type ListedState<'a> = StoredBlob<&'a str, ()>;

impl<'a> ListedState<'a> {
    /// Decodes in place: the type is large, and lists decode thousands.
    #[inline]
    pub(crate) fn read_listed(&mut self, bytes: &'a [u8]) -> Result<(), ServiceError> {
        self.fill(bytes).map(|_| ()).ok_or_else(|| corrupt(Kind::Blob))
    }
}

impl<'a, T: From<&'a str>, C> StoredBlob<T, C> {
    /// Decodes all but the content, and returns the rest of the record.
    #[inline(always)]
    fn fill(&mut self, bytes: &'a [u8]) -> Option<Reader<'a>> {
        let mut from = Reader::new(bytes, Kind::Blob)?;
        self.stamp = from.timestamp()?;
        self.state.changed = from.timestamp()?;
        self.state.created = from.timestamp()?;
        self.state.bytes = from.number()?;
        self.state.of_type = from.of_type()?;
        from.http(&mut self.state.http)?;
        self.state.metadata = from.metadata()?;
        self.state.tags = from.pairs().map(Tags::from_stored)?;
        self.tier = from.optional(Reader::tier)?;
        self.lease = from.lease()?;
        self.state.copy = from.optional(|from| from.copy_state().map(Box::new))?;
        self.state.encryption.key =
            from.optional(|from| Some(CustomerKey { sha256: from.bytes()?.try_into().ok()? }))?;
        self.state.encryption.scope = from.optional(Reader::text)?;
        self.state.immutability = from.optional(|from| {
            Some(ImmutabilityPolicy { until: from.timestamp()?, mode: ImmutabilityMode::parse(from.str()?)? })
        })?;
        self.state.legal_hold = from.optional(Reader::flag)?;
        self.version = from.optional(Reader::timestamp)?;
        self.last_snapshot = from.optional(Reader::timestamp)?;
        self.deleted = from.deleted()?;
        Some(from)
    }
}

/// An uncommitted block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    pub(crate) put: Timestamp,
    pub(crate) content: BlockContent,
    /// The customer-provided key of Put Block.
    pub(crate) key: Option<CustomerKey>,
}

/// The location of the bytes of an uncommitted block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockContent {
    Extent(Extent),
    /// Encrypted with the customer-provided key. Earlier builds did not encrypt.
    Encrypted(Extent),
    /// Not stored: this many zeros.
    Zeros(u64),
}

/// The volume number of blocks of zeros.
const NO_VOLUME: u64 = u64::MAX;
/// In place of a volume number: the number of a store follows, and then the volume. Without it, the extent is in
/// [`StoreId::LOCAL`].
const IN_STORE: u64 = u64::MAX - 1;

impl BlockContent {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Extent(extent) => extent.bytes,
            Self::Encrypted(extent) => plain_bytes(extent.bytes),
            Self::Zeros(bytes) => bytes,
        }
    }

    pub(crate) fn extent(self) -> Option<Extent> {
        match self {
            Self::Extent(extent) | Self::Encrypted(extent) => Some(extent),
            Self::Zeros(_) => None,
        }
    }

    pub(crate) fn source(self) -> PieceSource {
        match self {
            Self::Extent(extent) => PieceSource::Extent(extent),
            Self::Encrypted(extent) => PieceSource::EncryptedExtent(extent, 0..self.bytes()),
            Self::Zeros(bytes) => PieceSource::Zeros(bytes),
        }
    }

    /// The form on disk: zeros are an extent in no volume.
    fn stored(self) -> Extent {
        match self {
            Self::Extent(extent) | Self::Encrypted(extent) => extent,
            Self::Zeros(bytes) => Extent { store: StoreId::LOCAL, volume: NO_VOLUME, offset: 0, bytes },
        }
    }

    fn from_stored(extent: Extent) -> Self {
        match extent.volume {
            NO_VOLUME => Self::Zeros(extent.bytes),
            _ => Self::Extent(extent),
        }
    }
}

impl StoredBlock {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Block);
        out.timestamp(self.put);
        out.extent(self.content.stored());
        // Records without a key end here, as in earlier builds.
        if let Some(key) = self.key {
            out.bytes(&key.sha256);
        }
        // Records of unencrypted blocks end here.
        if matches!(self.content, BlockContent::Encrypted(_)) {
            out.flag(true);
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            let (put, content) = (from.timestamp()?, BlockContent::from_stored(from.extent()?));
            let key = match from.0.is_empty() {
                true => None,
                false => Some(CustomerKey { sha256: from.bytes()?.try_into().ok()? }),
            };
            let is_encrypted = !from.0.is_empty() && from.flag()?;
            let content = match content {
                BlockContent::Extent(extent) if is_encrypted => BlockContent::Encrypted(extent),
                content => content,
            };
            Some(Self { put, content, key })
        };
        Reader::new(bytes, Kind::Block).and_then(read).ok_or_else(|| corrupt(Kind::Block))
    }
}

/// The destination of a pending copy, and until when the node that fetches its bytes is taken to be alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingCopy {
    pub(crate) container: Incarnation,
    pub(crate) name: String,
    pub(crate) until: Timestamp,
}

impl PendingCopy {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::PendingCopy);
        out.number(self.container.0);
        out.text(&self.name);
        out.timestamp(self.until);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |(version, mut from): (u8, Reader<'_>)| {
            let (container, name) = (Incarnation(from.number()?), from.text()?);
            // Version 1 had no time: its process does not run any more.
            let until = if version == 1 { Timestamp::MIN } else { from.timestamp()? };
            Some(Self { container, name, until })
        };
        let found = Reader::of_any_version(bytes, Kind::PendingCopy).and_then(read);
        found.ok_or_else(|| corrupt(Kind::PendingCopy))
    }
}

/// The reference count of an extent: from contents, blobs, and uncommitted blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredExtent {
    pub(crate) bytes: u64,
    pub(crate) references: u64,
}

impl StoredExtent {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Extent);
        out.number(self.bytes);
        out.number(self.references);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| Some(Self { bytes: from.number()?, references: from.number()? });
        Reader::new(bytes, Kind::Extent).and_then(read).ok_or_else(|| corrupt(Kind::Extent))
    }
}

/// A small content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallContent {
    pub(crate) references: u64,
    pub(crate) bytes: Bytes,
}

impl SmallContent {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::SmallContent);
        out.number(self.references);
        out.0.extend_from_slice(&self.bytes);
        out.finish()
    }

    pub(crate) fn decode(row: &Bytes) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            Some(Self { references: from.number()?, bytes: row.slice(row.len() - from.0.len()..) })
        };
        Reader::new(row, Kind::SmallContent).and_then(read).ok_or_else(|| corrupt(Kind::SmallContent))
    }
}

/// The head of a list of pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentHead {
    /// From blobs, and from contents that have it as their parent.
    pub(crate) references: u64,
    /// The end of its own pieces. Blobs that share it may be shorter.
    pub(crate) end: u64,
    /// The content whose first bytes it shows, and how many of them.
    pub(crate) parent: Option<(ContentId, u64)>,
}

impl ContentHead {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::ContentHead);
        out.number(self.references);
        out.number(self.end);
        out.optional(self.parent, |out, (content, bytes)| {
            out.wide_number(content.0);
            out.number(bytes);
        });
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            Some(Self {
                references: from.number()?,
                end: from.number()?,
                parent: from.optional(|from| Some((ContentId(from.wide_number()?), from.number()?)))?,
            })
        };
        Reader::new(bytes, Kind::ContentHead).and_then(read).ok_or_else(|| corrupt(Kind::ContentHead))
    }
}

/// A row of consecutive pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PieceRow {
    /// The offset of the first piece in the content.
    pub(crate) start: u64,
    pub(crate) pieces: Vec<StoredPiece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPiece {
    /// The id of its block, if it is one.
    pub(crate) id: Option<BlockId>,
    pub(crate) source: PieceSource,
}

/// The location of the bytes of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PieceSource {
    Inline(Bytes),
    /// All of an extent.
    Extent(Extent),
    /// A part of an extent.
    Slice(Extent, Range<u64>),
    /// Not stored: zeros, which hide the parent.
    Zeros(u64),
    /// Encrypted with the customer-provided key; the range is of the plaintext.
    EncryptedInline(Bytes, Range<u64>),
    /// An extent encrypted with the customer-provided key; the range is of the plaintext.
    EncryptedExtent(Extent, Range<u64>),
}

impl StoredPiece {
    pub(crate) fn bytes(&self) -> u64 {
        match &self.source {
            PieceSource::Inline(bytes) => bytes.len() as u64,
            PieceSource::Extent(extent) => extent.bytes,
            PieceSource::Slice(_, range)
            | PieceSource::EncryptedInline(_, range)
            | PieceSource::EncryptedExtent(_, range) => range.end - range.start,
            PieceSource::Zeros(bytes) => *bytes,
        }
    }
}

impl PieceRow {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Pieces);
        out.number(self.start);
        out.number(self.pieces.len() as u64);
        for piece in &self.pieces {
            out.optional(piece.id.as_ref(), |out, id| out.bytes(id.bytes()));
            match &piece.source {
                PieceSource::Inline(bytes) => {
                    out.number(0);
                    out.bytes(bytes);
                }
                PieceSource::Extent(extent) => {
                    out.number(1);
                    out.extent(*extent);
                }
                PieceSource::Slice(extent, range) => {
                    out.number(2);
                    out.extent(*extent);
                    out.number(range.start);
                    out.number(range.end);
                }
                PieceSource::Zeros(bytes) => {
                    out.number(3);
                    out.number(*bytes);
                }
                PieceSource::EncryptedInline(bytes, range) => {
                    out.number(4);
                    out.bytes(bytes);
                    out.number(range.start);
                    out.number(range.end);
                }
                PieceSource::EncryptedExtent(extent, range) => {
                    out.number(5);
                    out.extent(*extent);
                    out.number(range.start);
                    out.number(range.end);
                }
            }
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Pieces))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Pieces)?;
        let start = from.number()?;
        let pieces = from.list(|from| {
            let id = from.optional(|from| BlockId::from_bytes(from.bytes()?.to_vec()))?;
            let source = match from.number()? {
                0 => PieceSource::Inline(Bytes::copy_from_slice(from.bytes()?)),
                1 => PieceSource::Extent(from.extent()?),
                2 => {
                    let (extent, start, end) = (from.extent()?, from.number()?, from.number()?);
                    (start <= end && end <= extent.bytes).then_some(PieceSource::Slice(extent, start..end))?
                }
                3 => PieceSource::Zeros(from.number()?),
                4 => {
                    let bytes = Bytes::copy_from_slice(from.bytes()?);
                    PieceSource::EncryptedInline(bytes, from.range()?)
                }
                5 => PieceSource::EncryptedExtent(from.extent()?, from.range()?),
                _ => return None,
            };
            Some(StoredPiece { id, source })
        })?;
        Some(Self { start, pieces })
    }
}

impl Writer {
    fn extent(&mut self, extent: Extent) {
        if extent.store != StoreId::LOCAL {
            self.number(IN_STORE);
            self.number(extent.store.0);
        }
        for number in [extent.volume, extent.offset, extent.bytes] {
            self.number(number);
        }
    }

    fn deleted(&mut self, deleted: Option<SoftDelete>) {
        self.optional(deleted, |out, deleted| {
            out.timestamp(deleted.at);
            out.timestamp(deleted.until);
        });
    }

    fn lease(&mut self, lease: &Lease) {
        match *lease {
            Lease::Available => self.number(0),
            Lease::Leased { id, duration, until } => {
                self.number(1);
                self.wide_number(id.0);
                let seconds = match duration {
                    LeaseDuration::Infinite => None,
                    LeaseDuration::Fixed(duration) => Some(duration.as_secs()),
                };
                self.optional(seconds, Self::number);
                self.timestamp(until);
            }
            Lease::Breaking { id, until } => {
                self.number(2);
                self.wide_number(id.0);
                self.timestamp(until);
            }
        }
    }

    fn of_type(&mut self, of_type: OfType) {
        match of_type {
            OfType::Block => self.number(0),
            OfType::Append { committed_blocks, sealed } => {
                self.number(1);
                self.number(committed_blocks.into());
                self.flag(sealed);
            }
            OfType::Page { sequence_number } => {
                self.number(2);
                self.number(sequence_number);
            }
        }
    }

    fn http(&mut self, http: &HttpProperties) {
        for text in [
            &http.content_type,
            &http.content_encoding,
            &http.content_language,
            &http.content_disposition,
            &http.cache_control,
        ] {
            self.optional(text.as_deref(), Self::text);
        }
        self.optional(http.content_md5.as_ref(), |out, md5| out.bytes(md5.bytes()));
    }

    fn tier(&mut self, tier: StoredTier) {
        self.text(tier.tier.name());
        self.timestamp(tier.changed);
        self.optional(tier.rehydrating, |out, (to, priority, done)| {
            out.text(to.name());
            out.text(priority.name());
            out.timestamp(done);
        });
    }

    fn copy_state(&mut self, copy: &CopyState) {
        self.text(&copy.id);
        self.text(&copy.source);
        self.text(copy.status.name());
        self.number(copy.progress.0);
        self.number(copy.progress.1);
        self.optional(copy.completed, Self::timestamp);
        self.optional(copy.description.as_deref(), Self::text);
        self.optional(copy.incremental, |out, copy| out.optional(copy.destination_snapshot, Self::timestamp));
    }
}

impl<'a> Reader<'a> {
    fn range(&mut self) -> Option<Range<u64>> {
        let (start, end) = (self.number()?, self.number()?);
        (start <= end).then_some(start..end)
    }

    fn extent(&mut self) -> Option<Extent> {
        let (store, volume) = match self.number()? {
            IN_STORE => (StoreId(self.number()?), self.number()?),
            volume => (StoreId::LOCAL, volume),
        };
        Some(Extent { store, volume, offset: self.number()?, bytes: self.number()? })
    }

    fn deleted(&mut self) -> Option<Option<SoftDelete>> {
        self.optional(|from| Some(SoftDelete { at: from.timestamp()?, until: from.timestamp()? }))
    }

    fn lease(&mut self) -> Option<Lease> {
        Some(match self.number()? {
            0 => Lease::Available,
            1 => {
                let id = LeaseId(self.wide_number()?);
                let duration = match self.optional(Self::number)? {
                    Some(seconds) => LeaseDuration::Fixed(Duration::from_secs(seconds)),
                    None => LeaseDuration::Infinite,
                };
                Lease::Leased { id, duration, until: self.timestamp()? }
            }
            2 => Lease::Breaking { id: LeaseId(self.wide_number()?), until: self.timestamp()? },
            _ => return None,
        })
    }

    fn of_type(&mut self) -> Option<OfType> {
        Some(match self.number()? {
            0 => OfType::Block,
            1 => {
                OfType::Append { committed_blocks: u32::try_from(self.number()?).ok()?, sealed: self.flag()? }
            }
            2 => OfType::Page { sequence_number: self.number()? },
            _ => return None,
        })
    }

    #[inline(always)]
    fn http<T: From<&'a str>>(&mut self, http: &mut HttpProperties<T>) -> Option<()> {
        for text in [
            &mut http.content_type,
            &mut http.content_encoding,
            &mut http.content_language,
            &mut http.content_disposition,
            &mut http.cache_control,
        ] {
            *text = self.optional(|from| from.str().map(T::from))?;
        }
        http.content_md5 = self.optional(|from| from.bytes().map(ContentMd5::from_bytes))?;
        Some(())
    }

    fn tier(&mut self) -> Option<StoredTier> {
        Some(StoredTier {
            tier: AccessTier::parse(self.str()?)?,
            changed: self.timestamp()?,
            rehydrating: self.optional(|from| {
                let (to, priority) = (from.str()?, from.str()?);
                Some((AccessTier::parse(to)?, RehydratePriority::parse(priority)?, from.timestamp()?))
            })?,
        })
    }

    fn copy_state(&mut self) -> Option<CopyState> {
        Some(CopyState {
            id: self.text()?,
            source: self.text()?,
            status: CopyStatus::parse(self.str()?)?,
            progress: (self.number()?, self.number()?),
            completed: self.optional(Self::timestamp)?,
            description: self.optional(Self::text)?,
            incremental: self.optional(|from| {
                Some(IncrementalCopy { destination_snapshot: from.optional(Self::timestamp)? })
            })?,
        })
    }
}

#[cfg(test)]
#[path = "blob_tests.rs"]
mod tests;
