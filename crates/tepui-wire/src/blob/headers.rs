//! Headers of the Blob service: their names, and reading what they say.

use crate::request_headers::RequestHeaders;
use http::HeaderValue;
use std::borrow::Cow;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

macro_rules! names {
    ($($name:ident = $text:literal;)*) => {
        $(pub(crate) const $name: &str = $text;)*
    };
}

names! {
    ACCESS_TIER = "x-ms-access-tier";
    APPEND_POSITION = "x-ms-blob-condition-appendpos";
    BLOB_CACHE_CONTROL = "x-ms-blob-cache-control";
    BLOB_CONTENT_DISPOSITION = "x-ms-blob-content-disposition";
    BLOB_CONTENT_ENCODING = "x-ms-blob-content-encoding";
    BLOB_CONTENT_LANGUAGE = "x-ms-blob-content-language";
    BLOB_CONTENT_LENGTH = "x-ms-blob-content-length";
    BLOB_CONTENT_MD5 = "x-ms-blob-content-md5";
    BLOB_CONTENT_TYPE = "x-ms-blob-content-type";
    BLOB_SEQUENCE_NUMBER = "x-ms-blob-sequence-number";
    BLOB_TYPE = "x-ms-blob-type";
    CONTENT_CRC64 = "x-ms-content-crc64";
    CONTENT_LENGTH = "content-length";
    CONTENT_MD5 = "content-md5";
    COPY_ACTION = "x-ms-copy-action";
    COPY_SOURCE = "x-ms-copy-source";
    COPY_SOURCE_AUTHORIZATION = "x-ms-copy-source-authorization";
    COPY_SOURCE_PROPERTIES = "x-ms-copy-source-blob-properties";
    COPY_SOURCE_TAGS = "x-ms-copy-source-tag-option";
    DEFAULT_ENCRYPTION_SCOPE = "x-ms-default-encryption-scope";
    DELETE_SNAPSHOTS = "x-ms-delete-snapshots";
    DELETED_CONTAINER_NAME = "x-ms-deleted-container-name";
    DELETED_CONTAINER_VERSION = "x-ms-deleted-container-version";
    DENY_SCOPE_OVERRIDE = "x-ms-deny-encryption-scope-override";
    ENCRYPTION_ALGORITHM = "x-ms-encryption-algorithm";
    ENCRYPTION_KEY = "x-ms-encryption-key";
    ENCRYPTION_KEY_SHA256 = "x-ms-encryption-key-sha256";
    ENCRYPTION_SCOPE = "x-ms-encryption-scope";
    IF_MATCH = "if-match";
    IF_MODIFIED_SINCE = "if-modified-since";
    IF_NONE_MATCH = "if-none-match";
    IF_TAGS = "x-ms-if-tags";
    IF_UNMODIFIED_SINCE = "if-unmodified-since";
    IMMUTABILITY_MODE = "x-ms-immutability-policy-mode";
    IMMUTABILITY_UNTIL = "x-ms-immutability-policy-until-date";
    LEASE_ACTION = "x-ms-lease-action";
    LEASE_BREAK_PERIOD = "x-ms-lease-break-period";
    LEASE_DURATION = "x-ms-lease-duration";
    LEASE_ID = "x-ms-lease-id";
    LEGAL_HOLD = "x-ms-legal-hold";
    MAX_SIZE = "x-ms-blob-condition-maxsize";
    PAGE_WRITE = "x-ms-page-write";
    PREVIOUS_SNAPSHOT_URL = "x-ms-previous-snapshot-url";
    PROPOSED_LEASE_ID = "x-ms-proposed-lease-id";
    PUBLIC_ACCESS = "x-ms-blob-public-access";
    RANGE = "range";
    RANGE_GET_CRC64 = "x-ms-range-get-content-crc64";
    RANGE_GET_MD5 = "x-ms-range-get-content-md5";
    REHYDRATE_PRIORITY = "x-ms-rehydrate-priority";
    REQUIRES_SYNC = "x-ms-requires-sync";
    SEAL_BLOB = "x-ms-seal-blob";
    SEQUENCE_EQUAL = "x-ms-if-sequence-number-eq";
    SEQUENCE_LESS = "x-ms-if-sequence-number-lt";
    SEQUENCE_AT_MOST = "x-ms-if-sequence-number-le";
    SEQUENCE_NUMBER_ACTION = "x-ms-sequence-number-action";
    SOURCE_CRC64 = "x-ms-source-content-crc64";
    SOURCE_IF_MATCH = "x-ms-source-if-match";
    SOURCE_IF_MODIFIED_SINCE = "x-ms-source-if-modified-since";
    SOURCE_IF_NONE_MATCH = "x-ms-source-if-none-match";
    SOURCE_IF_TAGS = "x-ms-source-if-tags";
    SOURCE_IF_UNMODIFIED_SINCE = "x-ms-source-if-unmodified-since";
    SOURCE_MD5 = "x-ms-source-content-md5";
    SOURCE_RANGE = "x-ms-source-range";
    STRUCTURED_BODY = "x-ms-structured-body";
    TAGS = "x-ms-tags";
    TIER_IF_MODIFIED_SINCE = "x-ms-access-tier-if-modified-since";
    TIER_IF_UNMODIFIED_SINCE = "x-ms-access-tier-if-unmodified-since";
    X_MS_RANGE = "x-ms-range";
}

/// The only value of a header that is not blank. An empty one counts as absent: generated clients send them.
///
/// A header that is given is never overlooked, for it may be the condition of a deletion. One that was sent twice
/// has no value that can be read, unless it is a list: see [`given_list`].
fn only<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<Option<&'a HeaderValue>, ServiceError> {
    let mut lines = headers.all(name);
    let Some(value) = lines.next() else { return Ok(None) };
    match lines.next() {
        Some(_) => Err(invalid(headers, name)),
        None => Ok((!value.as_bytes().trim_ascii().is_empty()).then_some(value)),
    }
}

/// The value of a header, trimmed. Beyond ASCII there is nothing that it could say.
pub(crate) fn given<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<Option<&'a str>, ServiceError> {
    let Some(value) = only(headers, name)? else { return Ok(None) };
    value.to_str().map(|text| Some(text.trim())).map_err(|_| invalid(headers, name))
}

/// The value of a header that may be UTF-8, trimmed.
pub(crate) fn given_utf8<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<Option<&'a str>, ServiceError> {
    let Some(value) = only(headers, name)? else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    text.map(|text| Some(text.trim())).map_err(|_| invalid(headers, name))
}

/// The value of a header that is written by people, trimmed: UTF-8 if it is that, and else Latin-1. Python's
/// blocking client sends the one where the asynchronous one sends the other.
pub(crate) fn given_text<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<Option<Cow<'a, str>>, ServiceError> {
    let Some(value) = only(headers, name)? else { return Ok(None) };
    let bytes = value.as_bytes().trim_ascii();
    Ok(Some(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }))
}

/// The value of a header that is a list. Lines of it are one list.
pub(crate) fn given_list<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<Option<Cow<'a, str>>, ServiceError> {
    let mut list: Option<Cow<'a, str>> = None;
    for line in headers.all(name) {
        let line = line.to_str().map_err(|_| invalid(headers, name))?.trim();
        list = match list {
            _ if line.is_empty() => list,
            None => Some(Cow::Borrowed(line)),
            Some(before) => Some(Cow::Owned(format!("{before}, {line}"))),
        };
    }
    Ok(list)
}

/// Whether there is such a header and it is not blank, whether it can be read or not.
pub(crate) fn is_given(headers: &RequestHeaders<'_>, name: &str) -> bool {
    headers.all(name).any(|value| !value.as_bytes().trim_ascii().is_empty())
}

pub(crate) fn required<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<&'a str, ServiceError> {
    given(headers, name)?.ok_or_else(|| missing(name))
}

/// A value read by a function that knows which there are.
pub(crate) fn word<T>(
    headers: &RequestHeaders<'_>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ServiceError> {
    match given(headers, name)? {
        None => Ok(None),
        Some(text) => parse(text).map(Some).ok_or_else(|| invalid(headers, name)),
    }
}

pub(crate) fn required_word<T>(
    headers: &RequestHeaders<'_>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, ServiceError> {
    word(headers, name, parse)?.ok_or_else(|| missing(name))
}

/// A number without a sign, up to what an `Int64` holds.
pub(crate) fn number(headers: &RequestHeaders<'_>, name: &'static str) -> Result<Option<u64>, ServiceError> {
    word(headers, name, |text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| digits).map(i64::unsigned_abs)
    })
}

pub(crate) fn flag(headers: &RequestHeaders<'_>, name: &'static str) -> Result<Option<bool>, ServiceError> {
    word(headers, name, |text| match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    })
}

/// A date of a condition.
///
/// Fidelity: some clients send `null` for a condition that they do not have. scenario: write-conditions-met
pub(crate) fn date(
    headers: &RequestHeaders<'_>,
    name: &'static str,
) -> Result<Option<Timestamp>, ServiceError> {
    match given(headers, name)? {
        None | Some("null") => Ok(None),
        Some(text) => Timestamp::parse_http(text).map(Some).ok_or_else(|| invalid(headers, name)),
    }
}

pub(crate) fn missing(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::MissingRequiredHeader).with_detail("HeaderName", shown(name))
}

/// The value of this header, whatever it is, will not do. Secrets are not repeated, not even to who sent them.
pub(crate) fn invalid(headers: &RequestHeaders<'_>, name: &'static str) -> ServiceError {
    let mut value = String::new();
    for line in headers.all(name).filter(|_| !matches!(name, ENCRYPTION_KEY | COPY_SOURCE_AUTHORIZATION)) {
        value.push_str(if value.is_empty() { "" } else { "," });
        value.push_str(&String::from_utf8_lossy(line.as_bytes()));
    }
    invalid_value(ErrorCode::InvalidHeaderValue, name, &value)
}

pub(crate) fn invalid_value(code: ErrorCode, name: &'static str, value: &str) -> ServiceError {
    ServiceError::new(code).with_detail("HeaderName", shown(name)).with_detail("HeaderValue", value)
}

/// Headers of HTTP itself are told in their usual case.
fn shown(name: &'static str) -> &'static str {
    match name {
        "content-md5" => "Content-MD5",
        "content-length" => "Content-Length",
        "if-match" => "If-Match",
        "if-modified-since" => "If-Modified-Since",
        "if-none-match" => "If-None-Match",
        "if-unmodified-since" => "If-Unmodified-Since",
        "range" => "Range",
        other => other,
    }
}
