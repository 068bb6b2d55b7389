//! Lists as XML: of containers, of blobs, and of blobs that were found by their tags.

use super::reply::{Asked, Context, document};
use super::{marker, tags_text};
use crate::address::Service;
use crate::metadata;
use crate::percent;
use crate::version::ServiceVersion;
use crate::xml::{Opened, Printer, Tag, is_plain, is_xml_character, tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Response;
use tepui_model::blob::{
    BlobEntry, BlobInclude, BlobMarker, BlobProperties, BlobSink, BlobState, BlobType, ContainerPage,
    ContentMd5, CopyState, FoundPage, LeaseState, LeaseView, ListBlobs, ListedBlob, ListedContainer,
    ListedContent, OfType, Operation, Revision, SoftDeleted, TierView,
    etag::{self, EtagText},
};
use tepui_model::metadata::Metadata;

/// A list, whole.
fn list(
    context: &Context<'_>,
    echoed: &[(&str, &'static str)],
    next: Option<String>,
    entries: impl FnOnce(&mut Printer),
) -> Vec<u8> {
    let (mut body, root) = begin(context, None, echoed);
    entries(&mut body);
    end(body, root, next)
}

/// The root of every list, and what was asked for.
fn begin(
    context: &Context<'_>,
    container: Option<&str>,
    echoed: &[(&str, &'static str)],
) -> (Printer, Opened) {
    let mut body = Printer::new(Service::Blob);
    let endpoint = format!("{}/", context.head.target.base);
    let old_name = format!("{endpoint}{}", container.unwrap_or_default());
    let attributes = match (context.head.version.lists_name_endpoint(), container) {
        (true, Some(container)) => vec![("ServiceEndpoint", endpoint.as_str()), ("ContainerName", container)],
        (true, None) => vec![("ServiceEndpoint", endpoint.as_str())],
        (false, Some(_)) => vec![("ContainerName", old_name.as_str())],
        (false, None) => vec![("AccountName", old_name.as_str())],
    };
    let root = body.open("EnumerationResults", &attributes);
    for (parameter, element) in echoed {
        if let Some(value) = context.head.query.get_ignore_case(parameter).filter(|value| !value.is_empty()) {
            push_name(element, value, context.head.version, &mut body);
        }
    }
    (body, root)
}

/// Where to go on, and the end of the list.
fn end(mut body: Printer, root: Opened, next: Option<String>) -> Vec<u8> {
    body.leaf("NextMarker", next.as_deref().unwrap_or_default());
    body.close(root);
    body.finish()
}

/// A name that XML can hold as it is, or else escaped like a URL, if clients of the version know that.
fn push_name(element: &'static str, name: &str, version: ServiceVersion, body: &mut Printer) {
    if is_plain(name.as_bytes()) || name.chars().all(is_xml_character) || !version.lists_encoded_names() {
        return body.leaf(element, name);
    }
    let mut escaped = String::with_capacity(3 * name.len());
    percent::push_encoded(name, &mut escaped);
    body.parent_with(element, &[("Encoded", "true")], |body| body.text(&escaped));
}

fn push_metadata(pairs: &Metadata, body: &mut Printer) {
    body.parent("Metadata", |body| {
        for (name, value) in pairs.iter() {
            body.leaf(name, &metadata::readable(value));
        }
    });
}

#[inline(always)]
fn push_flag(tag: Tag, flag: bool, body: &mut Printer) {
    body.plain_leaf(tag, if flag { "true" } else { "false" });
}

#[inline(always)]
fn push_number(tag: Tag, number: u64, body: &mut Printer) {
    body.plain_leaf(tag, itoa::Buffer::new().format(number));
}

/// Such a text may be missing, but its element never is.
#[inline(always)]
fn push_http(tag: Tag, text: Option<&str>, body: &mut Printer) {
    body.text_leaf(tag, text.unwrap_or_default());
}

fn push_soft_deleted(deleted: Option<&SoftDeleted>, body: &mut Printer) {
    if let Some(deleted) = deleted {
        body.date(tag!("DeletedTime"), deleted.deleted);
        push_number(tag!("RemainingRetentionDays"), deleted.remaining_days.into(), body);
    }
}

fn push_lease(lease: &LeaseView, body: &mut Printer) {
    body.plain_leaf(tag!("LeaseStatus"), lease.state.status());
    body.plain_leaf(tag!("LeaseState"), lease.state.name());
    if let Some(duration) = lease.duration.filter(|_| lease.state == LeaseState::Leased) {
        body.leaf("LeaseDuration", duration.name());
    }
}

/// The body of List Containers.
pub(super) fn print_containers(context: &Context<'_>, asked: Asked<'_>, page: &ContainerPage) -> Vec<u8> {
    let echoed = [("prefix", "Prefix"), ("marker", "Marker"), ("maxresults", "MaxResults")];
    let next = page.next.as_ref().map(|next| marker::print_containers(&context.head.target.account, next));
    let with_metadata =
        matches!(asked, Asked::Operation(Operation::ListContainers(list)) if list.with_metadata);
    list(context, &echoed, next, |body| {
        body.parent("Containers", |body| {
            page.containers.iter().for_each(|container| push_container(container, with_metadata, body));
        });
    })
}

fn push_container(listed: &ListedContainer, with_metadata: bool, body: &mut Printer) {
    let properties = &listed.properties;
    body.parent("Container", |body| {
        body.leaf("Name", &listed.name);
        if let Some(deleted) = &listed.deleted {
            push_flag(tag!("Deleted"), true, body);
            body.leaf("Version", &deleted.version);
        }
        body.parent("Properties", |body| {
            body.date(tag!("Last-Modified"), properties.changed.0);
            // Quoted here, and not in lists of blobs.
            body.leaf("Etag", &format!("\"{}\"", etag::to_text(properties.changed.0)));
            push_lease(&properties.lease, body);
            if let Some(access) = properties.public_access {
                body.leaf("PublicAccess", access.name());
            }
            body.leaf("DefaultEncryptionScope", &properties.encryption.default_scope);
            push_flag(tag!("DenyEncryptionScopeOverride"), properties.encryption.deny_override, body);
            push_flag(tag!("HasImmutabilityPolicy"), false, body);
            push_flag(tag!("HasLegalHold"), false, body);
            push_flag(tag!("ImmutableStorageWithVersioningEnabled"), false, body);
            push_soft_deleted(listed.deleted.as_ref().map(|deleted| &deleted.since), body);
        });
        if with_metadata {
            push_metadata(&properties.metadata, body);
        }
    });
}

/// An entry of a list of blobs takes about so much.
const ENTRY_BYTES: usize = 800;

/// Writes a list of blobs while they are found.
pub struct BlobListWriter {
    body: Printer,
    root: Opened,
    blobs: Opened,
    shown: Shown,
}

/// What is shown of blobs.
#[derive(Clone, Copy)]
struct Shown {
    include: BlobInclude,
    version: ServiceVersion,
    /// Also how many there are.
    tags: bool,
}

impl BlobListWriter {
    pub fn new(context: &Context<'_>, list: &ListBlobs) -> Self {
        let echoed = [
            ("prefix", "Prefix"),
            ("marker", "Marker"),
            ("startfrom", "StartFrom"),
            ("maxresults", "MaxResults"),
            ("delimiter", "Delimiter"),
        ];
        let (mut body, root) = begin(context, Some(list.container.as_str()), &echoed);
        let blobs = body.open("Blobs", &[]);
        let shown =
            Shown { include: list.include, version: context.head.version, tags: context.may_read_tags };
        Self { body, root, blobs, shown }
    }

    /// The answer, once the page is complete.
    pub fn finish(mut self, next: Option<&BlobMarker>) -> Response<Vec<u8>> {
        self.body.close(self.blobs);
        document(end(self.body, self.root, next.map(marker::print_blobs)))
    }
}

impl BlobSink for BlobListWriter {
    fn accept(&mut self, listed: &ListedBlob<'_>) {
        self.body.make_room(ENTRY_BYTES);
        match listed {
            ListedBlob::Prefix(prefix) => {
                self.body.parent("BlobPrefix", |body| push_name("Name", prefix, self.shown.version, body));
            }
            ListedBlob::Blob(entry) => push_blob(entry, self.shown, &mut self.body),
        }
    }

    fn bytes(&self) -> usize {
        self.body.bytes()
    }
}

fn push_blob(entry: &BlobEntry<'_>, shown: Shown, body: &mut Printer) {
    body.parent("Blob", |body| {
        push_name("Name", entry.name, shown.version, body);
        if entry.deleted.is_some() {
            push_flag(tag!("Deleted"), true, body);
        }
        if let Revision::Snapshot(moment) = entry.revision {
            body.leaf("Snapshot", &moment.to_iso_7());
        }
        match &entry.content {
            ListedContent::Committed(properties) => push_committed(entry, properties, shown, body),
            ListedContent::Uncommitted { lease } => push_uncommitted(lease, shown.include, body),
        }
    });
}

fn push_committed(
    entry: &BlobEntry<'_>,
    properties: &BlobProperties<&BlobState<&str>>,
    shown: Shown,
    body: &mut Printer,
) {
    let (state, include) = (properties.state, shown.include);
    if let Some(of) = properties.version.filter(|_| shown.version.has_tags_and_versions()) {
        body.leaf("VersionId", &of.id.to_iso_7());
        if of.is_current {
            push_flag(tag!("IsCurrentVersion"), true, body);
        }
    }
    if entry.has_versions_only {
        push_flag(tag!("HasVersionsOnly"), true, body);
    }
    body.parent("Properties", |body| push_properties(entry, properties, shown, body));
    if include.metadata {
        match state.encryption.key {
            // What is encrypted with a caller's key is shown to nobody without it.
            Some(_) => body.parent_with("Metadata", &[("Encrypted", "true")], |_| {}),
            None => push_metadata(&state.metadata, body),
        }
    }
    if include.tags && shown.tags && !state.tags.is_empty() {
        tags_text::push(&state.tags, body);
    }
    body.text_leaf(tag!("OrMetadata"), "");
}

fn push_uncommitted(lease: &LeaseView, include: BlobInclude, body: &mut Printer) {
    body.parent("Properties", |body| {
        body.leaf("Content-Length", "0");
        body.leaf("BlobType", BlobType::Block.name());
        push_tier(&TierView::default(), body);
        push_lease(lease, body);
        push_flag(tag!("ServerEncrypted"), false, body);
    });
    if include.metadata {
        body.empty("Metadata");
    }
    body.text_leaf(tag!("OrMetadata"), "");
}

fn push_properties(
    entry: &BlobEntry<'_>,
    properties: &BlobProperties<&BlobState<&str>>,
    Shown { include, version, tags }: Shown,
    body: &mut Printer,
) {
    let state = properties.state;
    let http = &state.http;
    if version.says_creation_time() {
        body.date(tag!("Creation-Time"), state.created);
    }
    body.date(tag!("Last-Modified"), state.changed);
    body.plain_leaf(tag!("Etag"), EtagText::of(state.changed));
    push_number(tag!("Content-Length"), state.bytes, body);
    push_http(tag!("Content-Type"), http.content_type, body);
    push_http(tag!("Content-Encoding"), http.content_encoding, body);
    push_http(tag!("Content-Language"), http.content_language, body);
    match &http.content_md5 {
        Some(ContentMd5::Sum(md5)) => body.plain_leaf(tag!("Content-MD5"), md5.base64()),
        Some(other) => body.text_leaf(tag!("Content-MD5"), &other.to_string()),
        None => body.text_leaf(tag!("Content-MD5"), ""),
    }
    push_http(tag!("Cache-Control"), http.cache_control, body);
    push_http(tag!("Content-Disposition"), http.content_disposition, body);
    if let Some(accessed) = properties.last_accessed {
        body.date(tag!("LastAccessTime"), accessed);
    }
    if let OfType::Page { sequence_number } = state.of_type {
        push_number(tag!("x-ms-blob-sequence-number"), sequence_number, body);
    }
    body.plain_leaf(tag!("BlobType"), state.of_type.blob_type().name());
    if version.has_tiers() {
        properties.tier.iter().for_each(|tier| push_tier(tier, body));
    }
    match (&properties.lease, &entry.deleted) {
        (_, Some(_)) => body.text_leaf(tag!("LeaseStatus"), ""),
        (Some(lease), None) => push_lease(lease, body),
        (None, None) => {}
    }
    if include.copy {
        state.copy.iter().for_each(|copy| push_copy(copy, body));
    }
    push_flag(tag!("ServerEncrypted"), true, body);
    if let Some(key) = state.encryption.key {
        body.leaf("CustomerProvidedKeySha256", &STANDARD.encode(key.sha256));
    }
    if let Some(scope) = &state.encryption.scope {
        body.leaf("EncryptionScope", scope);
    }
    if let Some(incremental) = state.copy.as_ref().filter(|_| include.copy).and_then(|copy| copy.incremental)
    {
        push_flag(tag!("IncrementalCopy"), true, body);
        if let Some(snapshot) = incremental.destination_snapshot {
            body.leaf("CopyDestinationSnapshot", &snapshot.to_iso_7());
        }
    }
    push_soft_deleted(entry.deleted.as_ref(), body);
    if tags && !state.tags.is_empty() && version.has_tags_and_versions() {
        push_number(tag!("TagCount"), state.tags.len() as u64, body);
    }
    if let OfType::Append { sealed: true, .. } = state.of_type {
        push_flag(tag!("Sealed"), true, body);
    }
    if let Some(policy) = state.immutability.filter(|_| include.immutability_policy) {
        body.date(tag!("ImmutabilityPolicyUntilDate"), policy.until);
        body.leaf("ImmutabilityPolicyMode", policy.mode.name());
    }
    if let Some(hold) = state.legal_hold.filter(|_| include.legal_hold) {
        push_flag(tag!("LegalHold"), hold, body);
    }
}

fn push_tier(tier: &TierView, body: &mut Printer) {
    body.plain_leaf(tag!("AccessTier"), tier.tier.name());
    if tier.inferred {
        push_flag(tag!("AccessTierInferred"), true, body);
    }
    if let Some(changed) = tier.changed {
        body.date(tag!("AccessTierChangeTime"), changed);
    }
    if let Some(status) = tier.archive_status {
        body.leaf("ArchiveStatus", status.name());
    }
    if let Some(priority) = tier.rehydrate_priority {
        body.leaf("RehydratePriority", priority.name());
    }
}

fn push_copy(copy: &CopyState, body: &mut Printer) {
    body.leaf("CopyId", &copy.id);
    body.leaf("CopyStatus", copy.status.name());
    body.leaf("CopySource", &copy.source);
    body.leaf("CopyProgress", &format!("{}/{}", copy.progress.0, copy.progress.1));
    if let Some(completed) = copy.completed {
        body.date(tag!("CopyCompletionTime"), completed);
    }
    if let Some(description) = &copy.description {
        body.leaf("CopyStatusDescription", description);
    }
}

/// The body of Find Blobs by Tags.
pub(super) fn print_found(context: &Context<'_>, page: &FoundPage) -> Vec<u8> {
    let echoed = [("marker", "Marker"), ("where", "Where"), ("maxresults", "MaxResults")];
    list(context, &echoed, page.next.as_ref().map(marker::print_found), |body| {
        body.parent("Blobs", |body| {
            for found in &page.blobs {
                body.parent("Blob", |body| {
                    push_name("Name", &found.name, context.head.version, body);
                    body.leaf("ContainerName", &found.container);
                    tags_text::push(&found.tags, body);
                    if let Revision::Version(version) = found.revision {
                        body.leaf("VersionId", &version.to_iso_7());
                        if found.is_current_version {
                            push_flag(tag!("IsCurrentVersion"), true, body);
                        }
                    }
                });
            }
        });
    })
}
