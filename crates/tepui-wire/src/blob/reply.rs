//! Replies as responses. The other direction, for clients, is in `read.rs`.

pub mod read;

use super::answer_headers::{
    self, BlobHeaders, name, put, put_changed, put_checksums, put_encryption, put_word, put_written,
};
use super::{block_list_xml, list_xml, page_list_xml, tags_text};
use crate::address::Service;
use crate::head::Head;
use crate::metadata::{self, HeaderCase};
use crate::query::Query;
use crate::version::ServiceVersion;
use crate::xml::{self, GeoReplication};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use tepui_model::ServiceError;
use tepui_model::blob::{
    BlobProperties, BlockList, Changed, ContainerProperties, Content, CopyPace, CopyStatus, Detail,
    HttpProperties, ImmutabilityPolicy, LeaseOutcome, ListedBlock, Operation, PublicAccess, Reply,
    UploadOperation, Written,
};

pub use super::list_xml::BlobListWriter;

/// As many as answers about a blob have, with those that every answer has: the map need not grow.
const USUAL_HEADERS: usize = 24;

/// What an answer needs to know of its request and of its caller.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub head: Head<'a>,
    /// What a SAS says instead of the blob: see [`overrides`].
    pub overrides: Option<&'a HttpProperties>,
    /// Whether the caller may know of tags. Without, a blob does not tell how many it has.
    pub may_read_tags: bool,
}

/// What the SAS of a request wants reads to say instead of what is stored. Only for requests that have one.
pub fn overrides(query: &Query) -> HttpProperties {
    let given = |name| query.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    HttpProperties {
        content_type: given("rsct"),
        content_encoding: given("rsce"),
        content_language: given("rscl"),
        content_disposition: given("rscd"),
        cache_control: given("rscc"),
        content_md5: None,
    }
}

/// The answer to Get Block List, made in steps: it may be long.
pub struct BlockListWriter {
    committed_as: Option<(Changed, u64)>,
    printing: block_list_xml::Printing,
}

impl BlockListWriter {
    pub fn new(list: BlockList) -> Self {
        let printing = block_list_xml::Printing::new(list.committed, list.uncommitted);
        Self { committed_as: list.committed_as, printing }
    }

    /// Goes on. Whether there is more.
    pub fn step(&mut self) -> bool {
        self.printing.step()
    }

    /// The answer, with what was left.
    pub fn finish(self) -> Response<Vec<u8>> {
        let mut response = document(self.printing.finish());
        if let Some((at, bytes)) = self.committed_as {
            put_changed(response.headers_mut(), at);
            response.headers_mut().insert(name!("x-ms-blob-content-length"), bytes.into());
        }
        response
    }
}

/// The memory that it takes at most to write the answer to Get Block List: the list, and the body.
pub fn block_list_memory_bytes(list: &BlockList) -> usize {
    /// What the allocator adds to an id.
    const OVERHEAD: usize = 16;
    let blocks = [&list.committed, &list.uncommitted].into_iter().flatten();
    let held = blocks.map(|blocks| {
        let ids: usize = blocks.iter().map(|block| block.id.bytes().len() + OVERHEAD).sum();
        ids + blocks.capacity() * size_of::<ListedBlock>()
    });
    held.sum::<usize>() + block_list_xml::most_bytes(list)
}

/// What a reply answers.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    Operation(&'a Operation),
    Upload(&'a UploadOperation),
}

impl<'a> From<&'a Operation> for Asked<'a> {
    fn from(operation: &'a Operation) -> Self {
        Self::Operation(operation)
    }
}

impl<'a> From<&'a UploadOperation> for Asked<'a> {
    fn from(operation: &'a UploadOperation) -> Self {
        Self::Upload(operation)
    }
}

impl Asked<'_> {
    /// Whether it is a copy that the caller waits for.
    fn is_waiting_copy(self) -> bool {
        let copy = match self {
            Self::Operation(Operation::CopyBlob(shared)) => shared.copy(),
            Self::Upload(UploadOperation::CopyBlob(copy)) => copy,
            Self::Operation(_) | Self::Upload(_) => return false,
        };
        matches!(copy.pace, CopyPace::Waiting(_))
    }
}

/// The answer to an operation that succeeded. That to List Blobs comes from [`BlobListWriter::finish`]. That to
/// Get Blob has no body here: it is streamed, and its headers say how long it is.
pub fn encode<'a>(
    context: &Context<'_>,
    asked: impl Into<Asked<'a>>,
    reply: Reply,
) -> Result<Response<Vec<u8>>, ServiceError> {
    let case = case_of(&reply);
    let mut response = of_reply(context, asked.into(), reply)?;
    if !case.is_empty() {
        response.extensions_mut().insert(case);
    }
    Ok(response)
}

/// The case of the metadata that an answer has in its headers.
fn case_of(reply: &Reply) -> HeaderCase {
    match reply {
        Reply::Content(content) => HeaderCase::of(&content.properties.state.metadata),
        Reply::Blob(properties) => HeaderCase::of(&properties.state.metadata),
        Reply::Container(properties) => HeaderCase::of(&properties.metadata),
        _ => HeaderCase::default(),
    }
}

fn of_reply(
    context: &Context<'_>,
    asked: Asked<'_>,
    reply: Reply,
) -> Result<Response<Vec<u8>>, ServiceError> {
    let version = context.head.version;
    Ok(match reply {
        Reply::Content(content) => content_head(context, &content)?,
        Reply::Blob(properties) => match asked {
            Asked::Operation(Operation::GetBlobProperties { detail: Detail::Metadata, .. }) => {
                blob_metadata(&properties)?
            }
            _ => blob_head(context, &properties)?,
        },
        Reply::BlobPut { written, checksums } | Reply::BlockListPut { written, checksums } => {
            let mut response = written_as(StatusCode::CREATED, &written, version);
            put_checksums(response.headers_mut(), &checksums, version);
            response
        }
        Reply::BlockPut { checksums, encryption } => {
            let mut response = empty(StatusCode::CREATED);
            put_checksums(response.headers_mut(), &checksums, version);
            put_encryption(response.headers_mut(), &encryption, version);
            response
        }
        Reply::Appended { written, checksums, offset, committed_blocks } => {
            let mut response = written_as(StatusCode::CREATED, &written, version);
            let headers = response.headers_mut();
            put_checksums(headers, &checksums, version);
            headers.insert(name!("x-ms-blob-append-offset"), offset.into());
            headers.insert(name!("x-ms-blob-committed-block-count"), committed_blocks.into());
            response
        }
        Reply::PagesPut { written, checksums, sequence_number } => {
            let mut response = written_as(StatusCode::CREATED, &written, version);
            put_checksums(response.headers_mut(), &checksums, version);
            response.headers_mut().insert(name!("x-ms-blob-sequence-number"), sequence_number.into());
            response
        }
        Reply::MetadataSet(written) => written_as(StatusCode::OK, &written, version),
        Reply::PropertiesSet { written, sequence_number } => {
            let mut response = changed(StatusCode::OK, written.changed);
            if let Some(number) = sequence_number {
                response.headers_mut().insert(name!("x-ms-blob-sequence-number"), number.into());
            }
            response
        }
        Reply::Sealed(at) => {
            let mut response = changed(StatusCode::OK, at);
            put_word(response.headers_mut(), name!("x-ms-blob-sealed"), "true");
            response
        }
        Reply::Snapshot { written, snapshot } => {
            let mut response = changed(StatusCode::CREATED, written.changed);
            let headers = response.headers_mut();
            put(headers, name!("x-ms-snapshot"), snapshot.to_iso_7());
            answer_headers::put_version(headers, written.version);
            // The snapshot is not what this request has sent.
            put_word(headers, name!("x-ms-request-server-encrypted"), "false");
            response
        }
        Reply::CopyStarted { written, copy_id, status, checksums } => {
            let mut response = changed(StatusCode::ACCEPTED, written.changed);
            let headers = response.headers_mut();
            put(headers, name!("x-ms-copy-id"), &copy_id);
            put_word(headers, name!("x-ms-copy-status"), CopyStatus::name(status));
            answer_headers::put_version(headers, written.version);
            put_checksums(headers, &checksums, version);
            // Fidelity: only of copies that the caller has waited for. scenario: copy-from-url-checksums
            if asked.is_waiting_copy() {
                put_encryption(headers, &written.encryption, version);
            }
            response
        }
        Reply::CopyAborted | Reply::TagsSet => empty(StatusCode::NO_CONTENT),
        Reply::Lease { changed: at, outcome } => lease(at, outcome),
        Reply::TierSet { rehydrating } => {
            empty(if rehydrating { StatusCode::ACCEPTED } else { StatusCode::OK })
        }
        Reply::Tags(tags) => document(tags_text::print_xml(&tags)),
        Reply::ImmutabilityPolicySet(policy) => immutability(&policy),
        Reply::LegalHoldSet(hold) => {
            let mut response = empty(StatusCode::OK);
            put_word(response.headers_mut(), name!("x-ms-legal-hold"), if hold { "true" } else { "false" });
            response
        }
        Reply::ImmutabilityPolicyDeleted | Reply::BlobUndeleted => empty(StatusCode::OK),
        Reply::BlobDeleted { permanently } => {
            let mut response = empty(StatusCode::ACCEPTED);
            let permanently = if permanently { "true" } else { "false" };
            put_word(response.headers_mut(), name!("x-ms-delete-type-permanent"), permanently);
            response
        }
        Reply::BlockList(list) => BlockListWriter::new(list).finish(),
        Reply::PageRanges(ranges) => {
            let mut response = document(page_list_xml::print(&ranges));
            put_changed(response.headers_mut(), ranges.changed);
            response.headers_mut().insert(name!("x-ms-blob-content-length"), ranges.blob_bytes.into());
            response
        }
        Reply::Containers(page) => document(list_xml::print_containers(context, asked, &page)),
        Reply::Found(page) => document(list_xml::print_found(context, &page)),
        other => of_account_or_container(context, asked, other)?,
    })
}

fn of_account_or_container(
    context: &Context<'_>,
    asked: Asked<'_>,
    reply: Reply,
) -> Result<Response<Vec<u8>>, ServiceError> {
    Ok(match reply {
        Reply::ContainerCreated(at) => changed(StatusCode::CREATED, at),
        Reply::ContainerMetadataSet(at) | Reply::ContainerAclSet(at) => changed(StatusCode::OK, at),
        Reply::Container(properties) => container(asked, &properties)?,
        Reply::ContainerAcl { changed: at, public_access, identifiers } => {
            let mut response = document(xml::print_signed_identifiers(&identifiers, Service::Blob));
            put_changed(response.headers_mut(), at);
            put_public_access(response.headers_mut(), public_access);
            response
        }
        Reply::ContainerDeleted => empty(StatusCode::ACCEPTED),
        Reply::ContainerRestored => empty(StatusCode::CREATED),
        Reply::ServiceProperties(properties) => {
            document(xml::print_blob_service_properties(&properties, context.head.version))
        }
        Reply::ServicePropertiesSet => empty(StatusCode::ACCEPTED),
        Reply::ServiceStats { last_sync } => {
            document(xml::print_service_stats(GeoReplication::Live { last_sync }, Service::Blob))
        }
        // All others are known to the caller.
        _ => account_information(context.head.version),
    })
}

fn account_information(version: ServiceVersion) -> Response<Vec<u8>> {
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    put_word(headers, name!("x-ms-sku-name"), "Standard_LRS");
    put_word(headers, name!("x-ms-account-kind"), "StorageV2");
    if version.says_hierarchical_namespace() {
        put_word(headers, name!("x-ms-is-hns-enabled"), "false");
    }
    response
}

fn container(asked: Asked<'_>, properties: &ContainerProperties) -> Result<Response<Vec<u8>>, ServiceError> {
    let mut response = changed(StatusCode::OK, properties.changed);
    let headers = response.headers_mut();
    metadata::encode(&properties.metadata, headers)?;
    if matches!(asked, Asked::Operation(Operation::GetContainer { detail: Detail::Metadata, .. })) {
        return Ok(response);
    }
    answer_headers::put_lease(headers, &properties.lease);
    put_public_access(headers, properties.public_access);
    put_word(headers, name!("x-ms-has-immutability-policy"), "false");
    put_word(headers, name!("x-ms-has-legal-hold"), "false");
    put_word(headers, name!("x-ms-immutable-storage-with-versioning-enabled"), "false");
    put(headers, name!("x-ms-default-encryption-scope"), &properties.encryption.default_scope);
    let deny = if properties.encryption.deny_override { "true" } else { "false" };
    put_word(headers, name!("x-ms-deny-encryption-scope-override"), deny);
    Ok(response)
}

fn put_public_access(headers: &mut HeaderMap, access: Option<PublicAccess>) {
    if let Some(access) = access {
        put_word(headers, name!("x-ms-blob-public-access"), access.name());
    }
}

/// The answer to Get Blob, but for its body.
fn content_head(context: &Context<'_>, content: &Content) -> Result<Response<Vec<u8>>, ServiceError> {
    let Content { properties, range, checksums } = content;
    let mut response = empty(if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK });
    let headers = response.headers_mut();
    let tier =
        if context.head.version.reads_name_tier() { BlobHeaders::All } else { BlobHeaders::WithoutTier };
    answer_headers::put_blob(headers, properties, tier, context)?;
    let bytes = match range {
        Some(range) => {
            let (first, last) = (range.start(), range.end());
            put(headers, CONTENT_RANGE, format!("bytes {first}-{last}/{}", properties.state.bytes));
            // The sum of the whole is told under another name, and that of the range takes its place.
            if let Some(whole) = headers.remove(name!("content-md5")) {
                headers.insert(name!("x-ms-blob-content-md5"), whole);
            }
            put_checksums(headers, checksums, context.head.version);
            last - first + 1
        }
        None => properties.state.bytes,
    };
    headers.insert(CONTENT_LENGTH, bytes.into());
    Ok(response)
}

/// The answer to Get Blob Properties.
fn blob_head(context: &Context<'_>, properties: &BlobProperties) -> Result<Response<Vec<u8>>, ServiceError> {
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    answer_headers::put_blob(headers, properties, BlobHeaders::All, context)?;
    headers.insert(CONTENT_LENGTH, properties.state.bytes.into());
    Ok(response)
}

fn blob_metadata(properties: &BlobProperties) -> Result<Response<Vec<u8>>, ServiceError> {
    let mut response = changed(StatusCode::OK, Changed(properties.state.changed));
    metadata::encode(&properties.state.metadata, response.headers_mut())?;
    Ok(response)
}

fn lease(at: Changed, outcome: LeaseOutcome) -> Response<Vec<u8>> {
    let status = match outcome {
        LeaseOutcome::Acquired(_) => StatusCode::CREATED,
        LeaseOutcome::Renewed(_) | LeaseOutcome::Changed(_) | LeaseOutcome::Released => StatusCode::OK,
        LeaseOutcome::Broken(_) => StatusCode::ACCEPTED,
    };
    let mut response = changed(status, at);
    match outcome {
        LeaseOutcome::Acquired(id) | LeaseOutcome::Renewed(id) | LeaseOutcome::Changed(id) => {
            put(response.headers_mut(), name!("x-ms-lease-id"), id.to_string());
        }
        LeaseOutcome::Broken(left) => {
            response.headers_mut().insert(name!("x-ms-lease-time"), left.as_secs().into());
        }
        LeaseOutcome::Released => {}
    }
    response
}

fn immutability(policy: &ImmutabilityPolicy) -> Response<Vec<u8>> {
    let mut response = empty(StatusCode::OK);
    answer_headers::put_immutability(response.headers_mut(), policy);
    response
}

fn written_as(status: StatusCode, written: &Written, version: ServiceVersion) -> Response<Vec<u8>> {
    let mut response = empty(status);
    put_written(response.headers_mut(), written, version);
    response
}

fn changed(status: StatusCode, at: Changed) -> Response<Vec<u8>> {
    let mut response = empty(status);
    put_changed(response.headers_mut(), at);
    response
}

pub(super) fn document<B>(body: B) -> Response<B> {
    let mut response = empty(StatusCode::OK).map(|_| body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn empty(status: StatusCode) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(USUAL_HEADERS);
    response
}
