//! Replies as a client reads them: the mirror of [`encode`](super::encode) and
//! [`BlobListWriter`](super::BlobListWriter). The bytes of a blob do not pass here: of Get Blob only the head is read.
//!
//! | | |
//! | --- | --- |
//! | `read.rs` | one arm for each operation |
//! | `read/properties.rs` | what replies say of blobs and containers, in headers and in lists |
//! | `read/lists.rs` | lists in XML |

mod lists;
mod properties;

pub use lists::{RemoteEntry, RemoteFound};
pub use properties::{RemoteBlob, RemoteChanged, RemoteContainer, RemoteLease, RemoteWritten};

use crate::blob::tags_text;
use crate::remote::{self, ReplyError, check, text};
use crate::version::ServiceVersion;
use crate::xml::{self, GeoReplication};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use http::{Response, StatusCode};
use std::ops::RangeInclusive;
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::{
    BlobServiceProperties, ByteRange, Call, Checksums, CopyBlob, CopyPace, CopyStatus, Detail,
    ImmutabilityMode, ImmutabilityPolicy, LeaseAction, LeaseId, LeaseOutcome, ListedBlock, Operation,
    PageState, PublicAccess, Revision, Tags, UploadOperation,
};
use tepui_model::metadata::Metadata;

/// What a service replies to an operation. ETags and markers are as the service spells them.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteReply {
    ServiceProperties(Box<BlobServiceProperties>),
    ServiceStats(GeoReplication),
    AccountInformation {
        sku: Option<String>,
        kind: Option<String>,
    },
    Containers {
        containers: Vec<RemoteContainer>,
        next: Option<String>,
    },
    Blobs {
        /// Blobs, and what begins alike up to the delimiter.
        entries: Vec<RemoteEntry>,
        next: Option<String>,
    },
    Found {
        blobs: Vec<RemoteFound>,
        next: Option<String>,
    },

    ContainerCreated(RemoteChanged),
    Container(Box<RemoteContainer>),
    ContainerAcl {
        changed: RemoteChanged,
        public_access: Option<PublicAccess>,
        identifiers: Vec<SignedIdentifier>,
    },
    /// Its metadata or its policies were set.
    ContainerSet(RemoteChanged),
    ContainerDeleted,
    ContainerRestored,
    /// Of a container or a blob.
    Lease {
        changed: RemoteChanged,
        outcome: LeaseOutcome,
    },

    /// A blob was put, or its blocks were made one.
    Put(RemoteWritten),
    CopyStarted {
        written: RemoteWritten,
        copy_id: String,
        status: CopyStatus,
    },
    CopyAborted,
    /// The bytes follow.
    Content(Box<RemoteContent>),
    Blob(Box<RemoteBlob>),
    Metadata {
        changed: RemoteChanged,
        metadata: Metadata,
    },
    MetadataSet(RemoteWritten),
    PropertiesSet {
        changed: RemoteChanged,
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
        written: RemoteWritten,
        snapshot: Timestamp,
    },
    BlobDeleted,
    BlobUndeleted,
    BlockPut(Checksums),
    BlockList {
        committed: Option<Vec<ListedBlock>>,
        uncommitted: Option<Vec<ListedBlock>>,
    },
    Appended {
        written: RemoteWritten,
        offset: u64,
        committed_blocks: u32,
    },
    Sealed(RemoteChanged),
    PagesPut {
        written: RemoteWritten,
        sequence_number: u64,
    },
    PageRanges {
        changed: RemoteChanged,
        blob_bytes: u64,
        ranges: Vec<(PageState, ByteRange)>,
        next: Option<String>,
    },
}

/// A blob whose bytes follow.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteContent {
    pub blob: RemoteBlob,
    /// What follows of it; `None`: all of it.
    pub range: Option<RangeInclusive<u64>>,
    /// Of the range, if they were asked for.
    pub checksums: Checksums,
}

/// The reply in a response to the request for an operation. That to Get Blob is read without its body, but a refusal of
/// it with its body.
pub fn read(
    call: &Call,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    check(response)?;
    match call {
        Call::Operation(operation) => read_operation(operation, version, response),
        Call::Upload(operation) => read_upload(operation, response),
        Call::List(_) => {
            lists::blobs(response.body().as_ref()).ok_or(ReplyError::Unreadable("a list of blobs"))
        }
        Call::Batch { .. } => Err(NOT_SENT),
    }
}

const NOT_SENT: ReplyError = ReplyError::Unreadable("an operation that clients do not send");

fn read_operation(
    operation: &Operation,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    let body = response.body().as_ref();
    let unreadable = ReplyError::Unreadable;
    let changed = || RemoteChanged::of_headers(response).ok_or(unreadable("when something was changed"));
    let written = || written(response);
    let number = |name| number(response, name);
    let told = |name| text(response, name);
    Ok(match operation {
        Operation::GetServiceProperties => RemoteReply::ServiceProperties(Box::new(
            xml::receive_blob_service_properties(body, version).ok_or(unreadable("service properties"))?,
        )),
        Operation::GetServiceStats => {
            RemoteReply::ServiceStats(xml::receive_service_stats(body).ok_or(unreadable("service stats"))?)
        }
        Operation::GetAccountInformation => RemoteReply::AccountInformation {
            sku: told("x-ms-sku-name").map(str::to_owned),
            kind: told("x-ms-account-kind").map(str::to_owned),
        },
        Operation::ListContainers(_) => lists::containers(body).ok_or(unreadable("a list of containers"))?,
        Operation::FindBlobsByTags(_) => lists::found(body).ok_or(unreadable("a list of found blobs"))?,
        Operation::CreateContainer { .. } => RemoteReply::ContainerCreated(changed()?),
        Operation::GetContainer { container, .. } => {
            let read = RemoteContainer::of_headers(container.as_str(), response, remote::metadata(response)?);
            RemoteReply::Container(Box::new(read.ok_or(unreadable("a container"))?))
        }
        Operation::GetContainerAcl { .. } => RemoteReply::ContainerAcl {
            changed: changed()?,
            public_access: told("x-ms-blob-public-access").and_then(PublicAccess::parse),
            identifiers: xml::parse_signed_identifiers(body)
                .map_err(|_| unreadable("stored access policies"))?,
        },
        Operation::SetContainerMetadata { .. } | Operation::SetContainerAcl { .. } => {
            RemoteReply::ContainerSet(changed()?)
        }
        Operation::DeleteContainer { .. } => RemoteReply::ContainerDeleted,
        Operation::RestoreContainer { .. } => RemoteReply::ContainerRestored,
        Operation::LeaseContainer { action, .. } | Operation::LeaseBlob { action, .. } => {
            RemoteReply::Lease {
                changed: changed()?,
                outcome: lease_outcome(action, told("x-ms-lease-id"), number("x-ms-lease-time"))
                    .ok_or(unreadable("what became of a lease"))?,
            }
        }
        Operation::PutEmptyBlob(_) | Operation::PutBlobFromUrl(_) | Operation::PutBlockList(_) => {
            RemoteReply::Put(written()?)
        }
        Operation::CopyBlob(shared) => copy_started(shared.copy(), response)?,
        Operation::IncrementalCopy { .. } => RemoteReply::CopyStarted {
            written: written()?,
            copy_id: told("x-ms-copy-id").ok_or(unreadable("the id of a copy"))?.to_owned(),
            status: told("x-ms-copy-status").and_then(CopyStatus::parse).ok_or(unreadable("the status"))?,
        },
        Operation::AbortCopy { .. } => RemoteReply::CopyAborted,
        Operation::GetBlob(_) => content(response).ok_or(unreadable("the head of a blob"))?,
        Operation::GetBlobProperties { detail: Detail::Metadata, .. } => {
            RemoteReply::Metadata { changed: changed()?, metadata: remote::metadata(response)? }
        }
        Operation::GetBlobProperties { detail: Detail::Properties, .. } => {
            let bytes = number(CONTENT_LENGTH.as_str()).ok_or(unreadable("the length of a blob"))?;
            let read = RemoteBlob::of_headers(response, bytes, remote::metadata(response)?);
            RemoteReply::Blob(Box::new(read.ok_or(unreadable("the properties of a blob"))?))
        }
        Operation::SetBlobMetadata { .. } => RemoteReply::MetadataSet(written()?),
        Operation::SetBlobProperties(_) => RemoteReply::PropertiesSet {
            changed: changed()?,
            sequence_number: number("x-ms-blob-sequence-number"),
        },
        Operation::SetBlobTier { .. } => {
            RemoteReply::TierSet { rehydrating: response.status() == StatusCode::ACCEPTED }
        }
        Operation::GetBlobTags { .. } => {
            RemoteReply::Tags(tags_text::parse_xml(body).map_err(|_| unreadable("tags"))?)
        }
        Operation::SetBlobTags { .. } => RemoteReply::TagsSet,
        Operation::SetImmutabilityPolicy { .. } => {
            RemoteReply::ImmutabilityPolicySet(policy(response).ok_or(unreadable("an immutability policy"))?)
        }
        Operation::DeleteImmutabilityPolicy { .. } => RemoteReply::ImmutabilityPolicyDeleted,
        Operation::SetLegalHold { hold, .. } => RemoteReply::LegalHoldSet(
            told("x-ms-legal-hold").map_or(*hold, |text| text.eq_ignore_ascii_case("true")),
        ),
        Operation::SnapshotBlob { .. } => RemoteReply::Snapshot {
            written: written()?,
            snapshot: told("x-ms-snapshot")
                .and_then(Revision::parse_moment)
                .ok_or(unreadable("the moment of a snapshot"))?,
        },
        Operation::DeleteBlob(_) => RemoteReply::BlobDeleted,
        Operation::UndeleteBlob { .. } => RemoteReply::BlobUndeleted,
        Operation::GetBlockList { .. } => lists::blocks(body).ok_or(unreadable("a list of blocks"))?,
        Operation::SealBlob { .. } => RemoteReply::Sealed(changed()?),
        Operation::ClearPages(_) => pages_put(response)?,
        Operation::GetPageRanges(_) => {
            let (ranges, next) = lists::pages(body).ok_or(unreadable("a list of pages"))?;
            let blob_bytes = number("x-ms-blob-content-length").ok_or(unreadable("the length of a blob"))?;
            RemoteReply::PageRanges { changed: changed()?, blob_bytes, ranges, next }
        }
        Operation::SetServiceProperties(_) | Operation::NotImplemented(_) => return Err(NOT_SENT),
    })
}

fn read_upload<B>(operation: &UploadOperation, response: &Response<B>) -> Result<RemoteReply, ReplyError> {
    let unreadable = ReplyError::Unreadable;
    Ok(match operation {
        UploadOperation::PutBlob(_) | UploadOperation::PutBlobFromUrl(_) => {
            RemoteReply::Put(written(response)?)
        }
        UploadOperation::CopyBlob(copy) => copy_started(copy, response)?,
        UploadOperation::PutBlock(_) => RemoteReply::BlockPut(properties::checksums(response)),
        UploadOperation::AppendBlock(_) => RemoteReply::Appended {
            written: written(response)?,
            offset: number(response, "x-ms-blob-append-offset").ok_or(unreadable("the offset of a block"))?,
            committed_blocks: number(response, "x-ms-blob-committed-block-count")
                .and_then(|count| count.try_into().ok())
                .ok_or(unreadable("the number of blocks"))?,
        },
        UploadOperation::PutPages(_) => pages_put(response)?,
    })
}

fn written<B>(response: &Response<B>) -> Result<RemoteWritten, ReplyError> {
    RemoteWritten::of_headers(response).ok_or(ReplyError::Unreadable("what was written"))
}

fn number<B>(response: &Response<B>, name: &str) -> Option<u64> {
    text(response, name).and_then(|text| text.parse().ok())
}

fn copy_started<B>(copy: &CopyBlob, response: &Response<B>) -> Result<RemoteReply, ReplyError> {
    let unreadable = ReplyError::Unreadable;
    Ok(RemoteReply::CopyStarted {
        written: written(response)?,
        copy_id: text(response, "x-ms-copy-id").ok_or(unreadable("the id of a copy"))?.to_owned(),
        status: match (text(response, "x-ms-copy-status"), copy.pace) {
            (Some(status), _) => CopyStatus::parse(status).ok_or(unreadable("the status of a copy"))?,
            (None, CopyPace::Waiting(_)) => CopyStatus::Success,
            (None, CopyPace::Background) => return Err(unreadable("the status of a copy")),
        },
    })
}

fn pages_put<B>(response: &Response<B>) -> Result<RemoteReply, ReplyError> {
    let sequence_number = number(response, "x-ms-blob-sequence-number");
    Ok(RemoteReply::PagesPut {
        written: written(response)?,
        sequence_number: sequence_number.ok_or(ReplyError::Unreadable("a sequence number"))?,
    })
}

fn lease_outcome(action: &LeaseAction, id: Option<&str>, left: Option<u64>) -> Option<LeaseOutcome> {
    let id = || id.and_then(LeaseId::parse);
    Some(match action {
        LeaseAction::Acquire { .. } => LeaseOutcome::Acquired(id()?),
        LeaseAction::Renew(_) => LeaseOutcome::Renewed(id()?),
        LeaseAction::Change { .. } => LeaseOutcome::Changed(id()?),
        LeaseAction::Release(_) => LeaseOutcome::Released,
        LeaseAction::Break { .. } => LeaseOutcome::Broken(Duration::from_secs(left?)),
    })
}

fn policy<B>(response: &Response<B>) -> Option<ImmutabilityPolicy> {
    Some(ImmutabilityPolicy {
        until: Timestamp::parse_http(text(response, "x-ms-immutability-policy-until-date")?)?,
        mode: ImmutabilityMode::parse(text(response, "x-ms-immutability-policy-mode")?)?,
    })
}

fn content<B>(response: &Response<B>) -> Option<RemoteReply> {
    let metadata = remote::metadata(response).ok()?;
    let whole = RemoteBlob::of_headers(response, text(response, CONTENT_LENGTH)?.parse().ok()?, metadata)?;
    let Some(range) = text(response, CONTENT_RANGE) else {
        let content = RemoteContent { blob: whole, range: None, checksums: Checksums::default() };
        return Some(RemoteReply::Content(Box::new(content)));
    };
    let (range, bytes) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let mut blob = RemoteBlob { bytes: bytes.parse().ok()?, ..whole };
    // The sum of the whole is told under another name, and that of the range takes its place.
    blob.http.content_md5 = text(response, "x-ms-blob-content-md5")
        .and_then(|text| tepui_model::blob::ContentMd5::parse(text).ok());
    let range = Some(first.parse().ok()?..=last.parse().ok()?);
    let checksums = properties::checksums(response);
    Some(RemoteReply::Content(Box::new(RemoteContent { blob, range, checksums })))
}
