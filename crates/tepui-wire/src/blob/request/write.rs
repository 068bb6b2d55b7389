//! Operations as requests of a client: the mirror of [`Request::read`](super::Request::read) and of what follows it.
//! The bytes of uploads are the caller's to send: see [`RequestBody::Streamed`].
//!
//! Not written, and refused: batches, Set Blob Service Properties, Get User Delegation Key, and what this service has
//! not implemented (Query Blob Contents, Set Blob Expiry, Rename Container). Bodies in the structured form with
//! checksums inside are not written either.
//!
//! | | |
//! | --- | --- |
//! | `write.rs` | one arm for each operation |
//! | `write/content.rs` | operations that write the content of a blob |
//! | `write/parts.rs` | parts that several operations have: conditions, properties, keys, sources |

mod content;
mod parts;

use self::parts::{
    RANGE, date, flag, push_container_preconditions, push_encryption, push_http, push_immutability,
    push_lease_action, push_preconditions, push_tagged_preconditions, range_text,
};
use crate::address::Service;
use crate::blob::headers as header;
use crate::blob::{block_list_xml, marker, tag_filter_text, tags_text};
use crate::percent;
use crate::remote::{InvalidRequest, Outgoing, OutgoingRequest, RemoteService, RequestBody};
use crate::xml;
use http::Method;
use tepui_model::blob::list::MAX_PAGE_SIZE;
use tepui_model::blob::{
    BlobInclude, BlobPath, BlockListType, Call, ContainerName, DeleteBlob, DeleteSnapshots, Detail,
    FindBlobsByTags, GetBlob, GetPageRanges, ListBlobs, ListContainers, Operation, PreviousSnapshot,
    PublicAccess, RangeChecksum, Revision, SequenceNumberAction, SetBlobProperties, UploadOperation,
};

/// What services have told a client before, in their own words. Takes the place of what the operation says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// An ETag for `If-Match`.
    pub if_match: Option<&'a str>,
    /// An ETag for `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// Where a list goes on.
    pub marker: Option<&'a str>,
}

/// The request for what is asked of a service.
pub fn write(
    to: &RemoteService,
    call: &Call,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match call {
        Call::Operation(operation) => write_operation(to, operation, options),
        Call::Upload(operation) => match operation {
            UploadOperation::PutBlob(put) => content::put_blob(to, put, options),
            UploadOperation::PutBlobFromUrl(put) => content::put_blob_from_url(to, put, options),
            UploadOperation::CopyBlob(copy) => content::copy_blob(to, copy, options),
            UploadOperation::PutBlock(put) => content::put_block(to, put, options),
            UploadOperation::AppendBlock(append) => content::append_block(to, append, options),
            UploadOperation::PutPages(put) => content::put_pages(to, put, options),
        },
        Call::List(list) => list_blobs(to, list, options).empty(),
        Call::Batch { .. } => Err(NOT_WRITTEN),
    }
}

fn write_operation(
    to: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match operation {
        Operation::GetServiceProperties => service(to, Method::GET, "service", "properties").empty(),
        Operation::GetServiceStats => service(to, Method::GET, "service", "stats").empty(),
        Operation::GetAccountInformation => service(to, Method::GET, "account", "properties").empty(),
        Operation::ListContainers(list) => list_containers(to, list, options).empty(),
        Operation::FindBlobsByTags(find) => find_blobs(to, find, options).empty(),
        Operation::CreateContainer { .. }
        | Operation::GetContainer { .. }
        | Operation::SetContainerMetadata { .. }
        | Operation::GetContainerAcl { .. }
        | Operation::SetContainerAcl { .. }
        | Operation::LeaseContainer { .. }
        | Operation::DeleteContainer { .. }
        | Operation::RestoreContainer { .. } => of_container(to, operation, options),
        Operation::PutEmptyBlob(put) => content::put_empty_blob(to, put, options),
        Operation::PutBlobFromUrl(shared) => content::put_blob_from_url(to, shared.copy(), options),
        Operation::CopyBlob(shared) => content::copy_blob(to, shared.copy(), options),
        Operation::ClearPages(clear) => content::clear_pages(to, clear, options),
        Operation::PutBlockList(put) => {
            let mut out = blob(to, Method::PUT, &put.blob, Some("blocklist"));
            parts::push_new_blob(&mut out, &put.new);
            parts::push_tags(&mut out, &put.new.tags);
            push_preconditions(&mut out, &put.preconditions, options);
            out.whole(XML, block_list_xml::print_chosen(&put.blocks))
        }
        Operation::GetBlob(get) => get_blob(to, get, options).empty(),
        Operation::SetBlobProperties(set) => set_properties(to, set, options).empty(),
        Operation::DeleteBlob(delete) => delete_blob(to, delete, options).empty(),
        Operation::GetPageRanges(get) => page_ranges(to, get, options).empty(),
        Operation::AbortCopy { .. }
        | Operation::IncrementalCopy { .. }
        | Operation::GetBlobProperties { .. }
        | Operation::SetBlobMetadata { .. }
        | Operation::SetBlobTier { .. }
        | Operation::GetBlobTags { .. }
        | Operation::SetBlobTags { .. }
        | Operation::SetImmutabilityPolicy { .. }
        | Operation::DeleteImmutabilityPolicy { .. }
        | Operation::SetLegalHold { .. }
        | Operation::LeaseBlob { .. }
        | Operation::SnapshotBlob { .. }
        | Operation::UndeleteBlob { .. }
        | Operation::GetBlockList { .. }
        | Operation::SealBlob { .. } => of_blob(to, operation, options),
        Operation::SetServiceProperties(_) => Err(NOT_WRITTEN),
        Operation::NotImplemented(_) => Err(InvalidRequest("the operation is not implemented")),
    }
}

const XML: &str = "application/xml";
const NOT_WRITTEN: InvalidRequest = InvalidRequest("the operation is not written for clients");
const NOT_HERE: InvalidRequest = InvalidRequest("an operation of another kind");

fn service<'a>(to: &'a RemoteService, method: Method, restype: &str, comp: &str) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, "");
    out.parameter("restype", restype);
    out.parameter("comp", comp);
    out
}

fn container<'a>(
    to: &'a RemoteService,
    method: Method,
    name: &ContainerName,
    comp: Option<&str>,
) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, name.as_str());
    out.parameter("restype", "container");
    out.parameter_if("comp", comp);
    out
}

/// Slashes in the names of blobs stand as they are.
fn blob<'a>(to: &'a RemoteService, method: Method, path: &BlobPath, comp: Option<&str>) -> Outgoing<'a> {
    let mut text = path.container.as_str().to_owned();
    for segment in path.blob.as_str().split('/') {
        text.push('/');
        percent::push_encoded(segment, &mut text);
    }
    let mut out = Outgoing::new(to, method, &text);
    out.parameter_if("comp", comp);
    out
}

fn push_revision(out: &mut Outgoing<'_>, revision: Revision) {
    match revision {
        Revision::Base => {}
        Revision::Snapshot(moment) => out.parameter("snapshot", &moment.to_iso_7()),
        Revision::Version(moment) => out.parameter("versionid", &moment.to_iso_7()),
    }
}

fn push_page(out: &mut Outgoing<'_>, page_size: usize, from: Option<String>, options: &Options<'_>) {
    out.parameter_if("marker", options.marker.or(from.as_deref()));
    if page_size != MAX_PAGE_SIZE {
        out.parameter("maxresults", &page_size.to_string());
    }
}

fn push_include(out: &mut Outgoing<'_>, words: &[(&str, bool)]) {
    let included: Vec<&str> = words.iter().filter(|(_, wanted)| *wanted).map(|(word, _)| *word).collect();
    out.parameter_if("include", Some(&included.join(",")));
}

fn list_containers<'a>(to: &'a RemoteService, list: &ListContainers, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, Method::GET, "");
    out.parameter("comp", "list");
    out.parameter_if("prefix", Some(&list.prefix));
    let from = list.from.as_ref().map(|from| marker::print_containers(to.account(), from));
    push_page(&mut out, list.page_size, from, options);
    let words =
        [("metadata", list.with_metadata), ("deleted", list.with_deleted), ("system", list.with_system)];
    push_include(&mut out, &words);
    out
}

fn list_blobs<'a>(to: &'a RemoteService, list: &ListBlobs, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = container(to, Method::GET, &list.container, Some("list"));
    out.parameter_if("prefix", Some(&list.prefix));
    out.parameter_if("delimiter", list.delimiter.as_deref());
    push_page(&mut out, list.page_size, list.from.as_ref().map(marker::print_blobs), options);
    let BlobInclude {
        snapshots,
        metadata,
        uncommitted,
        copy,
        deleted,
        tags,
        versions,
        deleted_with_versions,
        immutability_policy,
        legal_hold,
    } = list.include;
    let words = [
        ("snapshots", snapshots),
        ("metadata", metadata),
        ("uncommittedblobs", uncommitted),
        ("copy", copy),
        ("deleted", deleted),
        ("tags", tags),
        ("versions", versions),
        ("deletedwithversions", deleted_with_versions),
        ("immutabilitypolicy", immutability_policy),
        ("legalhold", legal_hold),
    ];
    push_include(&mut out, &words);
    out
}

fn find_blobs<'a>(to: &'a RemoteService, find: &FindBlobsByTags, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = match &find.container {
        Some(name) => container(to, Method::GET, name, Some("blobs")),
        None => {
            let mut out = Outgoing::new(to, Method::GET, "");
            out.parameter("comp", "blobs");
            out
        }
    };
    out.parameter("where", &tag_filter_text::print(&find.filter));
    push_page(&mut out, find.page_size, find.from.as_ref().map(marker::print_found), options);
    push_include(&mut out, &[("deleted", find.with_deleted), ("versions", find.with_versions)]);
    out
}

fn push_public_access(out: &mut Outgoing<'_>, access: Option<PublicAccess>) {
    out.header_if(header::PUBLIC_ACCESS, access.map(PublicAccess::name));
}

fn of_container(
    to: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match operation {
        Operation::CreateContainer { container: name, metadata, public_access, encryption } => {
            let mut out = container(to, Method::PUT, name, None);
            out.metadata(metadata);
            push_public_access(&mut out, *public_access);
            if *encryption != Default::default() {
                out.header(header::DEFAULT_ENCRYPTION_SCOPE, &encryption.default_scope);
                out.header(header::DENY_SCOPE_OVERRIDE, flag(encryption.deny_override));
            }
            out.empty()
        }
        Operation::GetContainer { container: name, preconditions, detail } => {
            let comp = (*detail == Detail::Metadata).then_some("metadata");
            let mut out = container(to, Method::HEAD, name, comp);
            push_container_preconditions(&mut out, preconditions);
            out.empty()
        }
        Operation::SetContainerMetadata { container: name, metadata, preconditions } => {
            let mut out = container(to, Method::PUT, name, Some("metadata"));
            out.metadata(metadata);
            push_container_preconditions(&mut out, preconditions);
            out.empty()
        }
        Operation::GetContainerAcl { container: name, preconditions } => {
            let mut out = container(to, Method::GET, name, Some("acl"));
            push_container_preconditions(&mut out, preconditions);
            out.empty()
        }
        Operation::SetContainerAcl { container: name, public_access, identifiers, preconditions } => {
            let mut out = container(to, Method::PUT, name, Some("acl"));
            push_public_access(&mut out, *public_access);
            push_container_preconditions(&mut out, preconditions);
            out.whole(XML, xml::print_signed_identifiers(identifiers, Service::Blob))
        }
        Operation::LeaseContainer { container: name, action, conditions } => {
            let mut out = container(to, Method::PUT, name, Some("lease"));
            push_lease_action(&mut out, action);
            parts::push_conditions(&mut out, conditions, options);
            out.empty()
        }
        Operation::DeleteContainer { container: name, preconditions } => {
            let mut out = container(to, Method::DELETE, name, None);
            push_container_preconditions(&mut out, preconditions);
            out.empty()
        }
        Operation::RestoreContainer { container: name, deleted, deleted_version } => {
            let mut out = container(to, Method::PUT, name, Some("undelete"));
            out.header(header::DELETED_CONTAINER_NAME, deleted.as_str());
            out.header(header::DELETED_CONTAINER_VERSION, deleted_version);
            out.empty()
        }
        _ => Err(NOT_HERE),
    }
}

fn of_blob(
    to: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    let put = |path: &BlobPath, comp: &str| blob(to, Method::PUT, path, Some(comp));
    match operation {
        Operation::AbortCopy { blob, copy_id, preconditions } => {
            let mut out = put(blob, "copy");
            out.parameter("copyid", copy_id);
            out.header(header::COPY_ACTION, "abort");
            push_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        Operation::IncrementalCopy { blob, source, preconditions } => {
            let mut out = put(blob, "incrementalcopy");
            parts::push_source(&mut out, source);
            push_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        Operation::GetBlobProperties { blob: path, revision, detail, preconditions, encryption } => {
            let comp = (*detail == Detail::Metadata).then_some("metadata");
            let mut out = blob(to, Method::HEAD, path, comp);
            push_revision(&mut out, *revision);
            push_preconditions(&mut out, preconditions, options);
            push_encryption(&mut out, encryption);
            out.empty()
        }
        Operation::SetBlobMetadata { blob, metadata, preconditions, encryption } => {
            let mut out = put(blob, "metadata");
            out.metadata(metadata);
            push_preconditions(&mut out, preconditions, options);
            push_encryption(&mut out, encryption);
            out.empty()
        }
        Operation::SetBlobTier { blob, revision, tier, priority, preconditions } => {
            let mut out = put(blob, "tier");
            push_revision(&mut out, *revision);
            out.header(header::ACCESS_TIER, tier.name());
            out.header_if(header::REHYDRATE_PRIORITY, priority.map(|priority| priority.name()));
            push_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        Operation::GetBlobTags { blob: path, revision, preconditions } => {
            let mut out = blob(to, Method::GET, path, Some("tags"));
            push_revision(&mut out, *revision);
            push_tagged_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        Operation::SetBlobTags { blob, revision, tags, preconditions } => {
            let mut out = put(blob, "tags");
            push_revision(&mut out, *revision);
            push_tagged_preconditions(&mut out, preconditions, options);
            out.whole(XML, tags_text::print_xml(tags))
        }
        Operation::SetImmutabilityPolicy { blob, revision, policy, unmodified_since } => {
            let mut out = put(blob, "immutabilitypolicies");
            push_revision(&mut out, *revision);
            push_immutability(&mut out, policy);
            out.header_if(header::IF_UNMODIFIED_SINCE, unmodified_since.map(date));
            out.empty()
        }
        Operation::DeleteImmutabilityPolicy { blob: path, revision } => {
            let mut out = blob(to, Method::DELETE, path, Some("immutabilitypolicies"));
            push_revision(&mut out, *revision);
            out.empty()
        }
        Operation::SetLegalHold { blob, revision, hold } => {
            let mut out = put(blob, "legalhold");
            push_revision(&mut out, *revision);
            out.header(header::LEGAL_HOLD, flag(*hold));
            out.empty()
        }
        Operation::LeaseBlob { blob, action, conditions } => {
            let mut out = put(blob, "lease");
            push_lease_action(&mut out, action);
            parts::push_conditions(&mut out, conditions, options);
            out.empty()
        }
        Operation::SnapshotBlob { blob, metadata, preconditions, encryption } => {
            let mut out = put(blob, "snapshot");
            out.metadata(metadata);
            push_preconditions(&mut out, preconditions, options);
            push_encryption(&mut out, encryption);
            out.empty()
        }
        Operation::UndeleteBlob { blob } => put(blob, "undelete").empty(),
        Operation::GetBlockList { blob: path, revision, list, preconditions } => {
            let mut out = blob(to, Method::GET, path, Some("blocklist"));
            push_revision(&mut out, *revision);
            out.parameter("blocklisttype", BlockListType::name(*list));
            push_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        Operation::SealBlob { blob, position, preconditions } => {
            let mut out = put(blob, "seal");
            out.header_if(header::APPEND_POSITION, position.map(|position| position.to_string()));
            push_preconditions(&mut out, preconditions, options);
            out.empty()
        }
        _ => Err(NOT_HERE),
    }
}

fn get_blob<'a>(to: &'a RemoteService, get: &GetBlob, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = blob(to, Method::GET, &get.blob, None);
    push_revision(&mut out, get.revision);
    out.header_if(RANGE, get.range.map(range_text));
    match get.range_checksum {
        Some(RangeChecksum::Md5) => out.header(header::RANGE_GET_MD5, "true"),
        Some(RangeChecksum::Crc64) => out.header(header::RANGE_GET_CRC64, "true"),
        None => {}
    }
    push_preconditions(&mut out, &get.preconditions, options);
    push_encryption(&mut out, &get.encryption);
    out
}

fn set_properties<'a>(to: &'a RemoteService, set: &SetBlobProperties, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = blob(to, Method::PUT, &set.blob, Some("properties"));
    if let Some(http) = &set.http {
        push_http(&mut out, http);
    }
    out.header_if(header::BLOB_CONTENT_LENGTH, set.resize.map(|bytes| bytes.to_string()));
    let (action, number) = match set.sequence_number {
        Some(SequenceNumberAction::Max(number)) => (Some("max"), Some(number)),
        Some(SequenceNumberAction::Update(number)) => (Some("update"), Some(number)),
        Some(SequenceNumberAction::Increment) => (Some("increment"), None),
        None => (None, None),
    };
    out.header_if(header::SEQUENCE_NUMBER_ACTION, action);
    out.header_if(header::BLOB_SEQUENCE_NUMBER, number.map(|number| number.to_string()));
    push_preconditions(&mut out, &set.preconditions, options);
    push_encryption(&mut out, &set.encryption);
    out
}

fn delete_blob<'a>(to: &'a RemoteService, delete: &DeleteBlob, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = blob(to, Method::DELETE, &delete.blob, None);
    push_revision(&mut out, delete.revision);
    let snapshots = delete.snapshots.map(|snapshots| match snapshots {
        DeleteSnapshots::Include => "include",
        DeleteSnapshots::Only => "only",
    });
    out.header_if(header::DELETE_SNAPSHOTS, snapshots);
    if delete.permanently {
        out.parameter("deletetype", "permanent");
    }
    out.header_if(header::TIER_IF_MODIFIED_SINCE, delete.tier_conditions.modified_since.map(date));
    out.header_if(header::TIER_IF_UNMODIFIED_SINCE, delete.tier_conditions.unmodified_since.map(date));
    push_preconditions(&mut out, &delete.preconditions, options);
    out
}

fn page_ranges<'a>(to: &'a RemoteService, get: &GetPageRanges, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = blob(to, Method::GET, &get.blob, Some("pagelist"));
    push_revision(&mut out, get.revision);
    match &get.since {
        Some(PreviousSnapshot::At(moment)) => out.parameter("prevsnapshot", &moment.to_iso_7()),
        Some(PreviousSnapshot::Url(url)) => out.header(header::PREVIOUS_SNAPSHOT_URL, url),
        None => {}
    }
    out.header_if(RANGE, get.range.map(range_text));
    let from = get.from.map(|from| from.to_string());
    out.parameter_if("marker", options.marker.or(from.as_deref()));
    out.parameter_if("maxresults", get.page_size.map(|size| size.to_string()).as_deref());
    push_preconditions(&mut out, &get.preconditions, options);
    out
}

/// The body of an upload, which the caller sends.
fn streamed(out: Outgoing<'_>, bytes: Option<u64>) -> Result<OutgoingRequest, InvalidRequest> {
    out.finish(RequestBody::Streamed { bytes })
}
