//! What answers say of containers and blobs in their headers.

use super::encode::Context;
use crate::metadata;
use crate::version::ServiceVersion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
};
use tepui_model::blob::{
    BlobProperties, Changed, Checksums, CopyState, Encryption, HttpProperties, ImmutabilityPolicy,
    LeaseState, LeaseView, OfType, TierView, Written, etag,
};
use tepui_model::{ServiceError, Timestamp};

/// Adds a header. A value that no header can hold is left out.
pub(super) fn put(headers: &mut HeaderMap, name: impl IntoName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name.into_name(), value);
    }
}

/// The name of a header, known when this was written.
pub(super) trait IntoName {
    fn into_name(self) -> HeaderName;
}

impl IntoName for HeaderName {
    fn into_name(self) -> HeaderName {
        self
    }
}

impl IntoName for &'static str {
    fn into_name(self) -> HeaderName {
        HeaderName::from_static(self)
    }
}

pub(super) fn put_changed(headers: &mut HeaderMap, Changed(at): Changed) {
    put(headers, ETAG, &format!("\"{}\"", etag::to_text(at)));
    put(headers, LAST_MODIFIED, &at.to_http());
}

pub(super) fn put_version(headers: &mut HeaderMap, version: Option<Timestamp>) {
    if let Some(version) = version {
        put(headers, "x-ms-version-id", &version.to_iso_7());
    }
}

pub(super) fn put_checksums(headers: &mut HeaderMap, checksums: &Checksums, version: ServiceVersion) {
    if let Some(md5) = checksums.md5 {
        put(headers, "content-md5", &md5.to_string());
    }
    if let Some(crc64) = checksums.crc64.filter(|_| version.has_crc64()) {
        put(headers, "x-ms-content-crc64", &crc64.to_string());
    }
}

/// What a write says of the encryption of what it wrote.
pub(super) fn put_encryption(headers: &mut HeaderMap, encryption: &Encryption, version: ServiceVersion) {
    if version.says_encrypted() {
        put(headers, "x-ms-request-server-encrypted", "true");
    }
    put_key_and_scope(headers, encryption);
}

fn put_key_and_scope(headers: &mut HeaderMap, encryption: &Encryption) {
    if let Some(key) = encryption.key {
        put(headers, "x-ms-encryption-key-sha256", &STANDARD.encode(key.sha256));
    }
    if let Some(scope) = &encryption.scope {
        put(headers, "x-ms-encryption-scope", scope);
    }
}

pub(super) fn put_written(headers: &mut HeaderMap, written: &Written, version: ServiceVersion) {
    put_changed(headers, written.changed);
    put_version(headers, written.version);
    put_encryption(headers, &written.encryption, version);
}

pub(super) fn put_lease(headers: &mut HeaderMap, lease: &LeaseView) {
    put(headers, "x-ms-lease-status", lease.state.status());
    put(headers, "x-ms-lease-state", lease.state.name());
    if let Some(duration) = lease.duration.filter(|_| lease.state == LeaseState::Leased) {
        put(headers, "x-ms-lease-duration", duration.name());
    }
}

pub(super) fn put_immutability(headers: &mut HeaderMap, policy: &ImmutabilityPolicy) {
    put(headers, "x-ms-immutability-policy-until-date", &policy.until.to_http());
    put(headers, "x-ms-immutability-policy-mode", policy.mode.name());
}

/// How much is said of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobHeaders {
    All,
    WithoutTier,
}

/// All that Get Blob and Get Blob Properties say, but for the length.
pub(super) fn put_blob(
    headers: &mut HeaderMap,
    properties: &BlobProperties,
    which: BlobHeaders,
    context: &Context<'_>,
) -> Result<(), ServiceError> {
    let (version, state) = (context.version, &properties.state);
    put_http_properties(headers, &state.http, context.overrides);
    put(headers, ACCEPT_RANGES, "bytes");
    put_changed(headers, Changed(state.changed));
    if version.says_creation_time() {
        put(headers, "x-ms-creation-time", &state.created.to_http());
    }
    put(headers, "x-ms-blob-type", state.of_type.blob_type().name());
    match state.of_type {
        OfType::Block => {}
        OfType::Append { committed_blocks, sealed } => {
            headers.insert("x-ms-blob-committed-block-count", committed_blocks.into());
            if sealed {
                put(headers, "x-ms-blob-sealed", "true");
            }
        }
        OfType::Page { sequence_number } => {
            headers.insert("x-ms-blob-sequence-number", sequence_number.into());
        }
    }
    if let Some(lease) = &properties.lease {
        put_lease(headers, lease);
    }
    put(headers, "x-ms-server-encrypted", "true");
    put_key_and_scope(headers, &state.encryption);
    if which == BlobHeaders::All && version.has_tiers() {
        properties.tier.iter().for_each(|tier| put_tier(headers, tier));
    }
    if version.has_tags_and_versions() {
        // Fidelity: only for who could read them. scenario: public-tag-count
        if !state.tags.is_empty() && context.may_read_tags {
            headers.insert("x-ms-tag-count", state.tags.len().into());
        }
        if let Some(of) = properties.version {
            put_version(headers, Some(of.id));
            if of.is_current {
                put(headers, "x-ms-is-current-version", "true");
            }
        }
    }
    state.copy.iter().for_each(|copy| put_copy(headers, copy));
    state.immutability.iter().for_each(|policy| put_immutability(headers, policy));
    if let Some(hold) = state.legal_hold {
        put(headers, "x-ms-legal-hold", if hold { "true" } else { "false" });
    }
    if let Some(accessed) = properties.last_accessed {
        put(headers, "x-ms-last-access-time", &accessed.to_http());
    }
    metadata::encode(&state.metadata, headers)
}

/// What is stored, and where a SAS says something else, that.
fn put_http_properties(headers: &mut HeaderMap, stored: &HttpProperties, overrides: Option<&HttpProperties>) {
    let mut one = |name: HeaderName, of: fn(&HttpProperties) -> &Option<String>| {
        let value = overrides.and_then(|overrides| of(overrides).as_ref()).or(of(stored).as_ref());
        if let Some(value) = value {
            put(headers, name, value);
        }
    };
    one(CONTENT_TYPE, |http| &http.content_type);
    one(CONTENT_ENCODING, |http| &http.content_encoding);
    one(CONTENT_LANGUAGE, |http| &http.content_language);
    one(CONTENT_DISPOSITION, |http| &http.content_disposition);
    one(CACHE_CONTROL, |http| &http.cache_control);
    if let Some(md5) = stored.content_md5 {
        put(headers, "content-md5", &md5.to_string());
    }
}

fn put_tier(headers: &mut HeaderMap, tier: &TierView) {
    put(headers, "x-ms-access-tier", tier.tier.name());
    if tier.inferred {
        put(headers, "x-ms-access-tier-inferred", "true");
    }
    if let Some(changed) = tier.changed {
        put(headers, "x-ms-access-tier-change-time", &changed.to_http());
    }
    if let Some(status) = tier.archive_status {
        put(headers, "x-ms-archive-status", status.name());
    }
    if let Some(priority) = tier.rehydrate_priority {
        put(headers, "x-ms-rehydrate-priority", priority.name());
    }
}

fn put_copy(headers: &mut HeaderMap, copy: &CopyState) {
    put(headers, "x-ms-copy-id", &copy.id);
    put(headers, "x-ms-copy-source", &copy.source);
    put(headers, "x-ms-copy-status", copy.status.name());
    put(headers, "x-ms-copy-progress", &format!("{}/{}", copy.progress.0, copy.progress.1));
    if let Some(completed) = copy.completed {
        put(headers, "x-ms-copy-completion-time", &completed.to_http());
    }
    if let Some(description) = &copy.description {
        put(headers, "x-ms-copy-status-description", description);
    }
    if let Some(incremental) = copy.incremental {
        put(headers, "x-ms-incremental-copy", "true");
        if let Some(snapshot) = incremental.destination_snapshot {
            put(headers, "x-ms-copy-destination-snapshot", &snapshot.to_iso_7());
        }
    }
}
