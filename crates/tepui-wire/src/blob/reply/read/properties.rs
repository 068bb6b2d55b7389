//! What replies say of blobs and containers: in headers, and under other names in the elements of lists.

use crate::metadata;
use crate::remote::text;
use crate::xml::document::Element;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Response;
use http::header::{ETAG, LAST_MODIFIED};
use tepui_model::Timestamp;
use tepui_model::blob::{
    AccessTier, ArchiveStatus, BlobType, Checksums, ContainerEncryption, ContentMd5, CopyState, CopyStatus,
    Crc64Sum, CustomerKey, DeletedContainer, Encryption, HttpProperties, ImmutabilityMode,
    ImmutabilityPolicy, IncrementalCopy, LeaseState, Md5Sum, OfType, PublicAccess, RehydratePriority,
    Revision, SoftDeleted, TierView, VersionView,
};
use tepui_model::metadata::Metadata;

/// When something was last changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteChanged {
    /// As headers have it, with quotes.
    pub etag: String,
    pub last_modified: Timestamp,
}

/// What writes tell of the blob they wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteWritten {
    pub changed: RemoteChanged,
    /// Where the account keeps versions.
    pub version: Option<Timestamp>,
    pub checksums: Checksums,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteLease {
    pub state: LeaseState,
    /// Only while it is leased.
    pub is_infinite: Option<bool>,
}

/// What is told of one state of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteBlob {
    pub changed: RemoteChanged,
    pub created: Option<Timestamp>,
    pub bytes: u64,
    pub of_type: OfType,
    pub http: HttpProperties,
    /// In lists only if it was asked for.
    pub metadata: Metadata,
    pub tag_count: usize,
    pub tier: Option<TierView>,
    pub lease: Option<RemoteLease>,
    pub copy: Option<Box<CopyState>>,
    pub version: Option<VersionView>,
    pub encryption: Encryption,
    pub immutability: Option<ImmutabilityPolicy>,
    pub legal_hold: Option<bool>,
    pub last_accessed: Option<Timestamp>,
}

/// What is told of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteContainer {
    pub name: String,
    pub changed: RemoteChanged,
    pub metadata: Metadata,
    pub public_access: Option<PublicAccess>,
    pub lease: RemoteLease,
    pub encryption: ContainerEncryption,
    pub deleted: Option<DeletedContainer>,
}

/// The texts of a reply, each known by the name of its header and by that of its element in lists.
pub(super) trait Texts {
    fn get(&self, header: &str, element: &str) -> Option<&str>;
}

impl<B> Texts for Response<B> {
    fn get(&self, header: &str, _: &str) -> Option<&str> {
        text(self, header)
    }
}

impl Texts for Element {
    fn get(&self, _: &str, element: &str) -> Option<&str> {
        let child = self.children.iter().find(|child| child.name == element)?;
        (!child.text.is_empty()).then_some(child.text.as_str())
    }
}

fn is_true(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

impl RemoteChanged {
    pub(super) fn of_headers<B>(response: &Response<B>) -> Option<Self> {
        Self::of(response)
    }

    pub(super) fn of(texts: &impl Texts) -> Option<Self> {
        let etag = texts.get(ETAG.as_str(), "Etag")?;
        // Lists of blobs leave the quotes out.
        let etag = if etag.starts_with('"') { etag.to_owned() } else { format!("\"{etag}\"") };
        let last_modified = Timestamp::parse_http(texts.get(LAST_MODIFIED.as_str(), "Last-Modified")?)?;
        Some(Self { etag, last_modified })
    }
}

impl RemoteWritten {
    pub(super) fn of_headers<B>(response: &Response<B>) -> Option<Self> {
        Some(Self {
            changed: RemoteChanged::of(response)?,
            version: text(response, "x-ms-version-id").and_then(Revision::parse_moment),
            checksums: checksums(response),
        })
    }
}

pub(super) fn checksums<B>(response: &Response<B>) -> Checksums {
    Checksums {
        md5: text(response, "content-md5").and_then(|text| Md5Sum::parse(text).ok()),
        crc64: text(response, "x-ms-content-crc64").and_then(Crc64Sum::parse),
    }
}

impl RemoteLease {
    fn of(texts: &impl Texts) -> Option<Self> {
        let state = LeaseState::parse(texts.get("x-ms-lease-state", "LeaseState")?)?;
        let duration = texts.get("x-ms-lease-duration", "LeaseDuration");
        Some(Self { state, is_infinite: duration.map(|text| text.eq_ignore_ascii_case("infinite")) })
    }
}

impl RemoteBlob {
    pub(super) fn of_headers<B>(response: &Response<B>, bytes: u64, metadata: Metadata) -> Option<Self> {
        let mut blob = Self::of(response, bytes)?;
        blob.metadata = metadata;
        if let Some(id) = text(response, "x-ms-version-id").and_then(Revision::parse_moment) {
            let is_current = is_true(text(response, "x-ms-is-current-version"));
            blob.version = Some(VersionView { id, is_current });
        }
        Some(blob)
    }

    /// But for metadata and version, which lists have elsewhere.
    pub(super) fn of(texts: &impl Texts, bytes: u64) -> Option<Self> {
        let said = |header, element| texts.get(header, element).map(str::to_owned);
        let time = |header, element| texts.get(header, element).and_then(Timestamp::parse_http);
        let number = |header, element| texts.get(header, element).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            changed: RemoteChanged::of(texts)?,
            created: time("x-ms-creation-time", "Creation-Time"),
            bytes,
            of_type: match BlobType::parse(texts.get("x-ms-blob-type", "BlobType")?)? {
                BlobType::Block => OfType::Block,
                BlobType::Append => OfType::Append {
                    // Lists do not tell how many there are.
                    committed_blocks: number("x-ms-blob-committed-block-count", "")
                        .map_or(Some(0), |count| count.try_into().ok())?,
                    sealed: is_true(texts.get("x-ms-blob-sealed", "Sealed")),
                },
                BlobType::Page => OfType::Page {
                    sequence_number: number("x-ms-blob-sequence-number", "x-ms-blob-sequence-number")?,
                },
            },
            http: HttpProperties {
                content_type: said("content-type", "Content-Type"),
                content_encoding: said("content-encoding", "Content-Encoding"),
                content_language: said("content-language", "Content-Language"),
                content_disposition: said("content-disposition", "Content-Disposition"),
                cache_control: said("cache-control", "Cache-Control"),
                content_md5: texts
                    .get("content-md5", "Content-MD5")
                    .and_then(|text| ContentMd5::parse(text).ok()),
            },
            metadata: Metadata::default(),
            tag_count: number("x-ms-tag-count", "TagCount").map_or(Some(0), |count| count.try_into().ok())?,
            tier: tier(texts),
            lease: RemoteLease::of(texts),
            copy: copy(texts).map(Box::new),
            version: None,
            encryption: Encryption {
                key: texts
                    .get("x-ms-encryption-key-sha256", "CustomerProvidedKeySha256")
                    .and_then(|text| STANDARD.decode(text).ok()?.try_into().ok())
                    .map(|sha256| CustomerKey { sha256 }),
                secret: None,
                scope: said("x-ms-encryption-scope", "EncryptionScope"),
            },
            immutability: immutability(texts),
            legal_hold: texts.get("x-ms-legal-hold", "LegalHold").map(|text| is_true(Some(text))),
            last_accessed: time("x-ms-last-access-time", "LastAccessTime"),
        })
    }
}

fn tier(texts: &impl Texts) -> Option<TierView> {
    Some(TierView {
        tier: AccessTier::parse(texts.get("x-ms-access-tier", "AccessTier")?)?,
        inferred: is_true(texts.get("x-ms-access-tier-inferred", "AccessTierInferred")),
        changed: texts
            .get("x-ms-access-tier-change-time", "AccessTierChangeTime")
            .and_then(Timestamp::parse_http),
        archive_status: texts.get("x-ms-archive-status", "ArchiveStatus").and_then(ArchiveStatus::parse),
        rehydrate_priority: texts
            .get("x-ms-rehydrate-priority", "RehydratePriority")
            .and_then(RehydratePriority::parse),
    })
}

fn copy(texts: &impl Texts) -> Option<CopyState> {
    let (done, all) = texts.get("x-ms-copy-progress", "CopyProgress")?.split_once('/')?;
    let snapshot = texts.get("x-ms-copy-destination-snapshot", "CopyDestinationSnapshot");
    Some(CopyState {
        id: texts.get("x-ms-copy-id", "CopyId")?.to_owned(),
        source: texts.get("x-ms-copy-source", "CopySource")?.to_owned(),
        status: CopyStatus::parse(texts.get("x-ms-copy-status", "CopyStatus")?)?,
        progress: (done.parse().ok()?, all.parse().ok()?),
        completed: texts
            .get("x-ms-copy-completion-time", "CopyCompletionTime")
            .and_then(Timestamp::parse_http),
        description: texts.get("x-ms-copy-status-description", "CopyStatusDescription").map(str::to_owned),
        incremental: is_true(texts.get("x-ms-incremental-copy", "IncrementalCopy"))
            .then(|| IncrementalCopy { destination_snapshot: snapshot.and_then(Revision::parse_moment) }),
    })
}

fn immutability(texts: &impl Texts) -> Option<ImmutabilityPolicy> {
    let until = texts.get("x-ms-immutability-policy-until-date", "ImmutabilityPolicyUntilDate")?;
    let mode = texts.get("x-ms-immutability-policy-mode", "ImmutabilityPolicyMode")?;
    Some(ImmutabilityPolicy { until: Timestamp::parse_http(until)?, mode: ImmutabilityMode::parse(mode)? })
}

/// Until when something can be restored, in a list.
pub(super) fn soft_deleted(properties: &Element) -> Option<SoftDeleted> {
    Some(SoftDeleted {
        deleted: Timestamp::parse_http(properties.get("", "DeletedTime")?)?,
        remaining_days: properties.get("", "RemainingRetentionDays")?.parse().ok()?,
    })
}

impl RemoteContainer {
    pub(super) fn of_headers<B>(name: &str, response: &Response<B>, metadata: Metadata) -> Option<Self> {
        Self::of(name.to_owned(), response, metadata)
    }

    pub(super) fn of_list(mut listed: Element) -> Option<Self> {
        let properties = listed.take("Properties")?;
        let metadata = match listed.take("Metadata") {
            Some(pairs) => metadata::receive(pairs)?,
            None => Metadata::default(),
        };
        let version = listed.take("Version").map(|version| version.text);
        let deleted = match (version, soft_deleted(&properties)) {
            (Some(version), Some(since)) => Some(DeletedContainer { version, since }),
            _ => None,
        };
        let container = Self::of(listed.take("Name")?.text, &properties, metadata)?;
        Some(Self { deleted, ..container })
    }

    fn of(name: String, texts: &impl Texts, metadata: Metadata) -> Option<Self> {
        let scope = texts.get("x-ms-default-encryption-scope", "DefaultEncryptionScope");
        Some(Self {
            name,
            changed: RemoteChanged::of(texts)?,
            metadata,
            public_access: texts.get("x-ms-blob-public-access", "PublicAccess").and_then(PublicAccess::parse),
            // Metadata alone is answered without it.
            lease: RemoteLease::of(texts).unwrap_or_default(),
            encryption: ContainerEncryption {
                default_scope: scope
                    .map_or_else(|| ContainerEncryption::default().default_scope, str::to_owned),
                deny_override: is_true(
                    texts.get("x-ms-deny-encryption-scope-override", "DenyEncryptionScopeOverride"),
                ),
            },
            deleted: None,
        })
    }
}
