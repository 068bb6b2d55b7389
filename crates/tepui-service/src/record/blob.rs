//! Records of containers, of blobs, and of what blobs are made of.

use super::{Reader, Writer, corrupt};
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
use tepui_storage::Extent;

/// A container as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredContainer {
    pub(crate) incarnation: Incarnation,
    /// Different in every write: finding it proves the commit that wrote it.
    pub(crate) stamp: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) metadata: Metadata,
    pub(crate) public_access: Option<PublicAccess>,
    pub(crate) acl: Vec<SignedIdentifier>,
    pub(crate) lease: Lease,
    pub(crate) encryption: ContainerEncryption,
    pub(crate) deleted: Option<Deleted>,
    pub(crate) protection: Protection,
}

/// Whether blobs of a container may have a legal hold or an immutability policy. Whoever protects a blob rests on
/// the container's row, so that the container is not deleted meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// No blob of it ever had one.
    Never,
    /// Some may. Whoever protects another blob need not change the container's row.
    Possible,
    /// Some may. Whoever protects another blob has to change this to `Possible` in the same commit, so that
    /// whoever deletes the container can look at its blobs and knows that none is protected meanwhile.
    Watched,
}

impl Protection {
    fn code(self) -> u64 {
        match self {
            Self::Never => 0,
            Self::Possible => 1,
            Self::Watched => 2,
        }
    }
}

/// When something was deleted, and until when it can be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deleted {
    pub(crate) at: Timestamp,
    pub(crate) until: Timestamp,
}

impl StoredContainer {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.number(self.incarnation.0);
        out.moment(self.stamp);
        out.moment(self.changed);
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
        Self::read(bytes).ok_or_else(|| corrupt("container"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes)?;
        Some(Self {
            incarnation: Incarnation(from.number()?),
            stamp: from.moment()?,
            changed: from.moment()?,
            metadata: from.metadata()?,
            public_access: from.optional(|from| PublicAccess::parse(from.str()?))?,
            acl: from.acl()?,
            lease: from.lease()?,
            encryption: ContainerEncryption { default_scope: from.text()?, deny_override: from.flag()? },
            deleted: from.deleted()?,
            protection: match from.0.is_empty() {
                // Written before this was kept.
                true => Protection::Possible,
                false => match from.number()? {
                    0 => Protection::Never,
                    1 => Protection::Possible,
                    2 => Protection::Watched,
                    _ => return None,
                },
            },
        })
    }
}

/// A state of a blob as it is stored. Lists borrow its texts, and do not read where its content is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StoredBlob<T = String, C = Content> {
    /// Different in every write: finding it proves the commit that wrote it.
    pub(crate) stamp: Timestamp,
    pub(crate) state: BlobState<T>,
    /// `None`: nobody has set it.
    pub(crate) tier: Option<StoredTier>,
    pub(crate) lease: Lease,
    /// The version that this is, if the account kept versions when it was written.
    pub(crate) version: Option<Timestamp>,
    /// When the last snapshot was made. Making one changes this row, so that nobody deletes the blob meanwhile.
    pub(crate) last_snapshot: Option<Timestamp>,
    pub(crate) deleted: Option<Deleted>,
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

/// Where the bytes of a blob are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Here.
    Inline(Bytes),
    /// In a row of its own, which lists need not read. Snapshots, versions and copies share it.
    Small(ContentId),
    /// All in one extent.
    Extent(Extent),
    /// In pieces, which are in rows of their own. Snapshots, versions and copies share them.
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
    /// Where it is on its way to from the archive, and when it is there.
    pub(crate) rehydrating: Option<(AccessTier, RehydratePriority, Timestamp)>,
}

impl StoredBlob {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        for moment in [self.stamp, self.changed, self.created] {
            out.moment(moment);
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
            out.moment(policy.until);
            out.text(policy.mode.name());
        });
        out.optional(self.legal_hold, Writer::flag);
        out.optional(self.version, Writer::moment);
        out.optional(self.last_snapshot, Writer::moment);
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
        Self::read(bytes).ok_or_else(|| corrupt("blob"))
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

/// A state of a blob as far as lists read it.
pub(crate) type ListedState<'a> = StoredBlob<&'a str, ()>;

impl<'a> ListedState<'a> {
    /// Reads it in its place: it is large, and lists read thousands.
    #[inline]
    pub(crate) fn read_listed(&mut self, bytes: &'a [u8]) -> Result<(), ServiceError> {
        self.fill(bytes).map(|_| ()).ok_or_else(|| corrupt("blob"))
    }
}

impl<'a, T: From<&'a str>, C> StoredBlob<T, C> {
    /// Reads all but the content, which is what is left.
    #[inline(always)]
    fn fill(&mut self, bytes: &'a [u8]) -> Option<Reader<'a>> {
        let mut from = Reader::new(bytes)?;
        self.stamp = from.moment()?;
        self.state.changed = from.moment()?;
        self.state.created = from.moment()?;
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
            Some(ImmutabilityPolicy { until: from.moment()?, mode: ImmutabilityMode::parse(from.str()?)? })
        })?;
        self.state.legal_hold = from.optional(Reader::flag)?;
        self.version = from.optional(Reader::moment)?;
        self.last_snapshot = from.optional(Reader::moment)?;
        self.deleted = from.deleted()?;
        Some(from)
    }
}

/// A block that is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    pub(crate) put: Timestamp,
    pub(crate) content: BlockContent,
    /// The customer's key that it was put with.
    pub(crate) key: Option<CustomerKey>,
}

/// Where the bytes of a block are that is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockContent {
    Extent(Extent),
    /// Encrypted with the customer's key. Blocks with a key were once not.
    Encrypted(Extent),
    /// Nowhere: so many zeros.
    Zeros(u64),
}

/// The volume of blocks that are in none.
const NO_VOLUME: u64 = u64::MAX;

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

    pub(crate) fn source(self) -> Source {
        match self {
            Self::Extent(extent) => Source::Extent(extent),
            Self::Encrypted(extent) => Source::EncryptedExtent(extent, 0..self.bytes()),
            Self::Zeros(bytes) => Source::Zeros(bytes),
        }
    }

    /// As an extent, which zeros are not.
    fn stored(self) -> Extent {
        match self {
            Self::Extent(extent) | Self::Encrypted(extent) => extent,
            Self::Zeros(bytes) => Extent { volume: NO_VOLUME, offset: 0, bytes },
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
        let mut out = Writer::new();
        out.moment(self.put);
        out.extent(self.content.stored());
        // Records without a key end here, as all of them once did.
        if let Some(key) = self.key {
            out.bytes(&key.sha256);
        }
        // And those that are not encrypted here.
        if matches!(self.content, BlockContent::Encrypted(_)) {
            out.flag(true);
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            let (put, content) = (from.moment()?, BlockContent::from_stored(from.extent()?));
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
        Reader::new(bytes).and_then(read).ok_or_else(|| corrupt("block"))
    }
}

/// Where the destination of a copy is that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingCopy {
    pub(crate) container: Incarnation,
    pub(crate) name: String,
}

impl PendingCopy {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.number(self.container.0);
        out.text(&self.name);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read =
            |mut from: Reader<'_>| Some(Self { container: Incarnation(from.number()?), name: from.text()? });
        Reader::new(bytes).and_then(read).ok_or_else(|| corrupt("pending copy"))
    }
}

/// How often an extent is referred to: by contents, by blobs, and by blocks that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredExtent {
    pub(crate) bytes: u64,
    pub(crate) references: u64,
}

impl StoredExtent {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.number(self.bytes);
        out.number(self.references);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| Some(Self { bytes: from.number()?, references: from.number()? });
        Reader::new(bytes).and_then(read).ok_or_else(|| corrupt("extent"))
    }
}

/// A content of few bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallContent {
    pub(crate) references: u64,
    pub(crate) bytes: Bytes,
}

impl SmallContent {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.number(self.references);
        out.0.extend_from_slice(&self.bytes);
        out.finish()
    }

    pub(crate) fn decode(row: &Bytes) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            Some(Self { references: from.number()?, bytes: row.slice(row.len() - from.0.len()..) })
        };
        Reader::new(row).and_then(read).ok_or_else(|| corrupt("content"))
    }
}

/// What is known of a list of pieces as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentHead {
    /// By blobs, and by contents that go on from it.
    pub(crate) references: u64,
    /// The byte after the last one in its own pieces. Some of those who share it may have less.
    pub(crate) end: u64,
    /// The content whose first bytes it has, and how many of them.
    pub(crate) parent: Option<(ContentId, u64)>,
}

impl ContentHead {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
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
        Reader::new(bytes).and_then(read).ok_or_else(|| corrupt("content"))
    }
}

/// Pieces that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Where in the content the first of them begins.
    pub(crate) start: u64,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Of a block.
    pub(crate) id: Option<BlockId>,
    pub(crate) source: Source,
}

/// Where the bytes of a piece are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Inline(Bytes),
    /// All of an extent.
    Extent(Extent),
    /// A part of an extent.
    Slice(Extent, Range<u64>),
    /// Nowhere: they are zeros, whatever the parent has there.
    Zeros(u64),
    /// Encrypted with the caller's key, and which of the bytes that are.
    EncryptedInline(Bytes, Range<u64>),
    /// Encrypted with the caller's key, all of an extent, and which of the bytes that are.
    EncryptedExtent(Extent, Range<u64>),
}

impl Piece {
    pub(crate) fn bytes(&self) -> u64 {
        match &self.source {
            Source::Inline(bytes) => bytes.len() as u64,
            Source::Extent(extent) => extent.bytes,
            Source::Slice(_, range)
            | Source::EncryptedInline(_, range)
            | Source::EncryptedExtent(_, range) => range.end - range.start,
            Source::Zeros(bytes) => *bytes,
        }
    }
}

impl Pieces {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.number(self.start);
        out.number(self.pieces.len() as u64);
        for piece in &self.pieces {
            out.optional(piece.id.as_ref(), |out, id| out.bytes(id.bytes()));
            match &piece.source {
                Source::Inline(bytes) => {
                    out.number(0);
                    out.bytes(bytes);
                }
                Source::Extent(extent) => {
                    out.number(1);
                    out.extent(*extent);
                }
                Source::Slice(extent, range) => {
                    out.number(2);
                    out.extent(*extent);
                    out.number(range.start);
                    out.number(range.end);
                }
                Source::Zeros(bytes) => {
                    out.number(3);
                    out.number(*bytes);
                }
                Source::EncryptedInline(bytes, range) => {
                    out.number(4);
                    out.bytes(bytes);
                    out.number(range.start);
                    out.number(range.end);
                }
                Source::EncryptedExtent(extent, range) => {
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
        Self::read(bytes).ok_or_else(|| corrupt("pieces"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes)?;
        let start = from.number()?;
        let pieces = from.list(|from| {
            let id = from.optional(|from| BlockId::from_bytes(from.bytes()?.to_vec()))?;
            let source = match from.number()? {
                0 => Source::Inline(Bytes::copy_from_slice(from.bytes()?)),
                1 => Source::Extent(from.extent()?),
                2 => {
                    let (extent, start, end) = (from.extent()?, from.number()?, from.number()?);
                    (start <= end && end <= extent.bytes).then_some(Source::Slice(extent, start..end))?
                }
                3 => Source::Zeros(from.number()?),
                4 => {
                    let bytes = Bytes::copy_from_slice(from.bytes()?);
                    Source::EncryptedInline(bytes, from.range()?)
                }
                5 => Source::EncryptedExtent(from.extent()?, from.range()?),
                _ => return None,
            };
            Some(Piece { id, source })
        })?;
        Some(Self { start, pieces })
    }
}

impl Writer {
    fn wide_number(&mut self, number: u128) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn extent(&mut self, extent: Extent) {
        for number in [extent.volume, extent.offset, extent.bytes] {
            self.number(number);
        }
    }

    fn deleted(&mut self, deleted: Option<Deleted>) {
        self.optional(deleted, |out, deleted| {
            out.moment(deleted.at);
            out.moment(deleted.until);
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
                self.moment(until);
            }
            Lease::Breaking { id, until } => {
                self.number(2);
                self.wide_number(id.0);
                self.moment(until);
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
        self.moment(tier.changed);
        self.optional(tier.rehydrating, |out, (to, priority, done)| {
            out.text(to.name());
            out.text(priority.name());
            out.moment(done);
        });
    }

    fn copy_state(&mut self, copy: &CopyState) {
        self.text(&copy.id);
        self.text(&copy.source);
        self.text(copy.status.name());
        self.number(copy.progress.0);
        self.number(copy.progress.1);
        self.optional(copy.completed, Self::moment);
        self.optional(copy.description.as_deref(), Self::text);
        self.optional(copy.incremental, |out, copy| out.optional(copy.destination_snapshot, Self::moment));
    }
}

impl<'a> Reader<'a> {
    fn range(&mut self) -> Option<Range<u64>> {
        let (start, end) = (self.number()?, self.number()?);
        (start <= end).then_some(start..end)
    }

    fn wide_number(&mut self) -> Option<u128> {
        let (number, rest) = self.0.split_first_chunk::<16>()?;
        self.0 = rest;
        Some(u128::from_le_bytes(*number))
    }

    fn extent(&mut self) -> Option<Extent> {
        Some(Extent { volume: self.number()?, offset: self.number()?, bytes: self.number()? })
    }

    fn deleted(&mut self) -> Option<Option<Deleted>> {
        self.optional(|from| Some(Deleted { at: from.moment()?, until: from.moment()? }))
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
                Lease::Leased { id, duration, until: self.moment()? }
            }
            2 => Lease::Breaking { id: LeaseId(self.wide_number()?), until: self.moment()? },
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
            changed: self.moment()?,
            rehydrating: self.optional(|from| {
                let (to, priority) = (from.str()?, from.str()?);
                Some((AccessTier::parse(to)?, RehydratePriority::parse(priority)?, from.moment()?))
            })?,
        })
    }

    fn copy_state(&mut self) -> Option<CopyState> {
        Some(CopyState {
            id: self.text()?,
            source: self.text()?,
            status: CopyStatus::parse(self.str()?)?,
            progress: (self.number()?, self.number()?),
            completed: self.optional(Self::moment)?,
            description: self.optional(Self::text)?,
            incremental: self.optional(|from| {
                Some(IncrementalCopy { destination_snapshot: from.optional(Self::moment)? })
            })?,
        })
    }
}

#[cfg(test)]
#[path = "blob_tests.rs"]
mod tests;
