//! What answers say of containers and blobs in their headers.

use super::reply::Context;
use crate::metadata;
use crate::version::ServiceVersion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
};
use tepui_model::blob::etag::EtagText;
use tepui_model::blob::{
    BlobProperties, Changed, Checksums, CopyState, Encryption, HttpProperties, ImmutabilityPolicy,
    LeaseState, LeaseView, OfType, TierView, Written,
};
use tepui_model::{ServiceError, Timestamp};

/// The name of a header, made of its text when this is compiled.
macro_rules! name {
    ($text:literal) => {
        const { http::HeaderName::from_static($text) }
    };
}
pub(super) use name;

/// Adds a header. A value that no header can hold is left out.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: impl AsRef<[u8]>) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
        headers.insert(name, value);
    }
}

/// Adds a header whose value is a word of the protocol.
pub(super) fn put_word(headers: &mut HeaderMap, name: HeaderName, word: &'static str) {
    headers.insert(name, HeaderValue::from_static(word));
}

pub(super) fn put_changed(headers: &mut HeaderMap, Changed(at): Changed) {
    put(headers, ETAG, EtagText::quoted(at));
    put(headers, LAST_MODIFIED, at.http_bytes());
}

pub(super) fn put_version(headers: &mut HeaderMap, version: Option<Timestamp>) {
    if let Some(version) = version {
        put(headers, name!("x-ms-version-id"), version.to_iso_7());
    }
}

pub(super) fn put_checksums(headers: &mut HeaderMap, checksums: &Checksums, version: ServiceVersion) {
    if let Some(md5) = checksums.md5 {
        put(headers, name!("content-md5"), md5.to_string());
    }
    if let Some(crc64) = checksums.crc64.filter(|_| version.has_crc64()) {
        put(headers, name!("x-ms-content-crc64"), crc64.to_string());
    }
}

/// What a write says of the encryption of what it wrote.
pub(super) fn put_encryption(headers: &mut HeaderMap, encryption: &Encryption, version: ServiceVersion) {
    if version.says_encrypted() {
        put_word(headers, name!("x-ms-request-server-encrypted"), "true");
    }
    put_key_and_scope(headers, encryption);
}

fn put_key_and_scope(headers: &mut HeaderMap, encryption: &Encryption) {
    if let Some(key) = encryption.key {
        put(headers, name!("x-ms-encryption-key-sha256"), STANDARD.encode(key.sha256));
    }
    if let Some(scope) = &encryption.scope {
        put(headers, name!("x-ms-encryption-scope"), scope);
    }
}

pub(super) fn put_written(headers: &mut HeaderMap, written: &Written, version: ServiceVersion) {
    put_changed(headers, written.changed);
    put_version(headers, written.version);
    put_encryption(headers, &written.encryption, version);
}

pub(super) fn put_lease(headers: &mut HeaderMap, lease: &LeaseView) {
    put_word(headers, name!("x-ms-lease-status"), lease.state.status());
    put_word(headers, name!("x-ms-lease-state"), lease.state.name());
    if let Some(duration) = lease.duration.filter(|_| lease.state == LeaseState::Leased) {
        put_word(headers, name!("x-ms-lease-duration"), duration.name());
    }
}

pub(super) fn put_immutability(headers: &mut HeaderMap, policy: &ImmutabilityPolicy) {
    put(headers, name!("x-ms-immutability-policy-until-date"), policy.until.http_bytes());
    put_word(headers, name!("x-ms-immutability-policy-mode"), policy.mode.name());
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
    let (version, state) = (context.head.version, &properties.state);
    put_http_properties(headers, &state.http, context.overrides);
    put_word(headers, ACCEPT_RANGES, "bytes");
    put_changed(headers, Changed(state.changed));
    if version.says_creation_time() {
        put(headers, name!("x-ms-creation-time"), state.created.http_bytes());
    }
    put_word(headers, name!("x-ms-blob-type"), state.of_type.blob_type().name());
    match state.of_type {
        OfType::Block => {}
        OfType::Append { committed_blocks, sealed } => {
            headers.insert(name!("x-ms-blob-committed-block-count"), committed_blocks.into());
            if sealed {
                put_word(headers, name!("x-ms-blob-sealed"), "true");
            }
        }
        OfType::Page { sequence_number } => {
            headers.insert(name!("x-ms-blob-sequence-number"), sequence_number.into());
        }
    }
    if let Some(lease) = &properties.lease {
        put_lease(headers, lease);
    }
    put_word(headers, name!("x-ms-server-encrypted"), "true");
    put_key_and_scope(headers, &state.encryption);
    if which == BlobHeaders::All && version.has_tiers() {
        properties.tier.iter().for_each(|tier| put_tier(headers, tier));
    }
    if version.has_tags_and_versions() {
        // Fidelity: only for who could read them. scenario: public-tag-count
        if !state.tags.is_empty() && context.may_read_tags {
            headers.insert(name!("x-ms-tag-count"), state.tags.len().into());
        }
        if let Some(of) = properties.version {
            put_version(headers, Some(of.id));
            if of.is_current {
                put_word(headers, name!("x-ms-is-current-version"), "true");
            }
        }
    }
    state.copy.iter().for_each(|copy| put_copy(headers, copy));
    state.immutability.iter().for_each(|policy| put_immutability(headers, policy));
    if let Some(hold) = state.legal_hold {
        put_word(headers, name!("x-ms-legal-hold"), if hold { "true" } else { "false" });
    }
    if let Some(accessed) = properties.last_accessed {
        put(headers, name!("x-ms-last-access-time"), accessed.http_bytes());
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
    if let Some(md5) = &stored.content_md5 {
        put(headers, name!("content-md5"), md5.to_string());
    }
}

fn put_tier(headers: &mut HeaderMap, tier: &TierView) {
    put_word(headers, name!("x-ms-access-tier"), tier.tier.name());
    if tier.inferred {
        put_word(headers, name!("x-ms-access-tier-inferred"), "true");
    }
    if let Some(changed) = tier.changed {
        put(headers, name!("x-ms-access-tier-change-time"), changed.http_bytes());
    }
    if let Some(status) = tier.archive_status {
        put_word(headers, name!("x-ms-archive-status"), status.name());
    }
    if let Some(priority) = tier.rehydrate_priority {
        put_word(headers, name!("x-ms-rehydrate-priority"), priority.name());
    }
}

fn put_copy(headers: &mut HeaderMap, copy: &CopyState) {
    put(headers, name!("x-ms-copy-id"), &copy.id);
    put(headers, name!("x-ms-copy-source"), &copy.source);
    put_word(headers, name!("x-ms-copy-status"), copy.status.name());
    put(headers, name!("x-ms-copy-progress"), format!("{}/{}", copy.progress.0, copy.progress.1));
    if let Some(completed) = copy.completed {
        put(headers, name!("x-ms-copy-completion-time"), completed.http_bytes());
    }
    if let Some(description) = &copy.description {
        put(headers, name!("x-ms-copy-status-description"), description);
    }
    if let Some(incremental) = copy.incremental {
        put_word(headers, name!("x-ms-incremental-copy"), "true");
        if let Some(snapshot) = incremental.destination_snapshot {
            put(headers, name!("x-ms-copy-destination-snapshot"), snapshot.to_iso_7());
        }
    }
}
