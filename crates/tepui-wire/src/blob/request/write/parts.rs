//! Parts of requests that several operations have.

use super::Options;
use crate::blob::conditions;
use crate::blob::headers as header;
use crate::crypto;
use crate::percent;
use crate::remote::Outgoing;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tepui_model::Timestamp;
use tepui_model::blob::{
    ByteRange, Checksums, Conditions, CopySource, Encryption, HttpProperties, ImmutabilityPolicy,
    LeaseAction, LeaseDuration, NewBlob, PageRange, Preconditions, Tags,
};

/// The header in which ranges are sent: its like of HTTP is changed by some things between client and service.
pub(super) const RANGE: &str = header::X_MS_RANGE;

pub(super) fn flag(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

pub(super) fn date(time: Timestamp) -> [u8; 29] {
    time.http_bytes()
}

pub(super) fn range_text(range: ByteRange) -> String {
    match range.last {
        Some(last) => format!("bytes={}-{last}", range.first),
        None => format!("bytes={}-", range.first),
    }
}

pub(super) fn page_range_text(pages: PageRange) -> String {
    format!("bytes={}-{}", pages.start(), pages.end() - 1)
}

pub(super) fn push_checksums(
    out: &mut Outgoing<'_>,
    checksums: &Checksums,
    md5: &'static str,
    crc64: &'static str,
) {
    out.header_if(md5, checksums.md5.map(|sum| sum.to_string()));
    out.header_if(crc64, checksums.crc64.map(|sum| sum.to_string()));
}

pub(super) fn push_http(out: &mut Outgoing<'_>, http: &HttpProperties) {
    for (name, value) in [
        (header::BLOB_CONTENT_TYPE, &http.content_type),
        (header::BLOB_CONTENT_ENCODING, &http.content_encoding),
        (header::BLOB_CONTENT_LANGUAGE, &http.content_language),
        (header::BLOB_CONTENT_DISPOSITION, &http.content_disposition),
        (header::BLOB_CACHE_CONTROL, &http.cache_control),
    ] {
        out.header_if(name, value.as_ref());
    }
    out.header_if(header::BLOB_CONTENT_MD5, http.content_md5.as_ref().map(|md5| md5.to_string()));
}

/// `key=value&key2=value2`, each escaped as in a query.
pub(super) fn push_tags(out: &mut Outgoing<'_>, tags: &Tags) {
    let mut text = String::new();
    for (key, value) in tags.iter() {
        if !text.is_empty() {
            text.push('&');
        }
        percent::push_encoded(key, &mut text);
        text.push('=');
        percent::push_encoded(value, &mut text);
    }
    if !text.is_empty() {
        out.header(header::TAGS, text);
    }
}

/// Everything but the tags: copies may have those of their source.
pub(super) fn push_new_blob(out: &mut Outgoing<'_>, new: &NewBlob) {
    push_http(out, &new.http);
    out.metadata(&new.metadata);
    out.header_if(header::ACCESS_TIER, new.tier.map(|tier| tier.name()));
    push_encryption(out, &new.encryption);
    new.immutability.iter().for_each(|policy| push_immutability(out, policy));
    out.header_if(header::LEGAL_HOLD, new.legal_hold.map(flag));
}

pub(super) fn push_immutability(out: &mut Outgoing<'_>, policy: &ImmutabilityPolicy) {
    out.header(header::IMMUTABILITY_UNTIL, date(policy.until));
    out.header(header::IMMUTABILITY_MODE, policy.mode.name());
}

pub(super) fn push_encryption(out: &mut Outgoing<'_>, encryption: &Encryption) {
    out.header_if(header::ENCRYPTION_SCOPE, encryption.scope.as_ref());
    match &encryption.secret {
        Some(secret) => {
            out.header(header::ENCRYPTION_KEY, STANDARD.encode(secret.0));
            out.header(header::ENCRYPTION_KEY_SHA256, STANDARD.encode(crypto::sha256(&secret.0)));
            out.header(header::ENCRYPTION_ALGORITHM, "AES256");
        }
        None if encryption.key.is_some() => out.refuse("only the sum of a customer's key is known"),
        None => {}
    }
}

pub(super) fn push_source(out: &mut Outgoing<'_>, source: &CopySource) {
    out.header(header::COPY_SOURCE, &source.url);
    out.header_if(header::COPY_SOURCE_AUTHORIZATION, source.authorization.as_ref());
    conditions::push(out, &source.conditions, &conditions::OF_SOURCE);
}

pub(super) fn push_lease_action(out: &mut Outgoing<'_>, action: &LeaseAction) {
    let name = match action {
        LeaseAction::Acquire { duration, proposed } => {
            let seconds = match duration {
                LeaseDuration::Infinite => "-1".to_owned(),
                LeaseDuration::Fixed(duration) => duration.as_secs().to_string(),
            };
            out.header(header::LEASE_DURATION, seconds);
            out.header_if(header::PROPOSED_LEASE_ID, proposed.map(|id| id.to_string()));
            "acquire"
        }
        LeaseAction::Renew(id) => {
            out.header(header::LEASE_ID, id.to_string());
            "renew"
        }
        LeaseAction::Change { from, to } => {
            out.header(header::LEASE_ID, from.to_string());
            out.header(header::PROPOSED_LEASE_ID, to.to_string());
            "change"
        }
        LeaseAction::Release(id) => {
            out.header(header::LEASE_ID, id.to_string());
            "release"
        }
        LeaseAction::Break { period } => {
            out.header_if(header::LEASE_BREAK_PERIOD, period.map(|period| period.as_secs().to_string()));
            "break"
        }
    };
    out.header(header::LEASE_ACTION, name);
}

fn push_lease(out: &mut Outgoing<'_>, preconditions: &Preconditions) {
    out.header_if(header::LEASE_ID, preconditions.lease.map(|id| id.to_string()));
}

pub(super) fn push_preconditions(
    out: &mut Outgoing<'_>,
    preconditions: &Preconditions,
    options: &Options<'_>,
) {
    push_lease(out, preconditions);
    push_conditions(out, &preconditions.conditions, options);
}

/// Of operations on tags, whose blobs have headers of their own for conditions.
pub(super) fn push_tagged_preconditions(
    out: &mut Outgoing<'_>,
    preconditions: &Preconditions,
    options: &Options<'_>,
) {
    push_lease(out, preconditions);
    push_all(out, &preconditions.conditions, options, &conditions::OF_TAGGED_BLOB);
}

/// Of containers, which know no ETags here.
pub(super) fn push_container_preconditions(out: &mut Outgoing<'_>, preconditions: &Preconditions) {
    push_preconditions(out, preconditions, &Options::default());
}

pub(super) fn push_conditions(out: &mut Outgoing<'_>, conditions: &Conditions, options: &Options<'_>) {
    push_all(out, conditions, options, &conditions::OF_BLOB);
}

/// ETags as the service has spelled them take the place of what is known here.
fn push_all(
    out: &mut Outgoing<'_>,
    conditions: &Conditions,
    options: &Options<'_>,
    names: &conditions::Names,
) {
    let mut conditions = conditions.clone();
    for (name, etag, known) in [
        (names.if_match, options.if_match, &mut conditions.if_match),
        (names.if_none_match, options.if_none_match, &mut conditions.if_none_match),
    ] {
        if let Some(etag) = etag {
            out.header(name, etag);
            *known = None;
        }
    }
    conditions::push(out, &conditions, names);
}
