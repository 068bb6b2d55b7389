//! Headers of the Blob service: their names, and reading what they say.

use crate::request_headers::RequestHeaders;
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

/// The value of a header, trimmed. An empty one counts as absent: generated clients send them.
pub(crate) fn given<'a>(headers: &RequestHeaders<'a>, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then_some(value)
}

pub(crate) fn required<'a>(
    headers: &RequestHeaders<'a>,
    name: &'static str,
) -> Result<&'a str, ServiceError> {
    match given(headers, name) {
        Some(value) => Ok(value),
        None if headers.get(name).is_some_and(|value| !value.is_empty()) => Err(invalid(headers, name)),
        None => Err(missing(name)),
    }
}

/// A value read by a function that knows which there are.
pub(crate) fn word<T>(
    headers: &RequestHeaders<'_>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ServiceError> {
    match headers.get(name) {
        None => Ok(None),
        Some(value) if value.as_bytes().trim_ascii().is_empty() => Ok(None),
        Some(value) => {
            let read = value.to_str().ok().and_then(|text| parse(text.trim()));
            read.map(Some).ok_or_else(|| invalid(headers, name))
        }
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

/// A date of a condition. One that cannot be read is as good as none: clients send `null`, and the real
/// service does not mind.
pub(crate) fn lenient_date(headers: &RequestHeaders<'_>, name: &str) -> Option<Timestamp> {
    Timestamp::parse_http(given(headers, name)?)
}

pub(crate) fn missing(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::MissingRequiredHeader).with_detail("HeaderName", shown(name))
}

/// The value of this header, whatever it is, will not do.
pub(crate) fn invalid(headers: &RequestHeaders<'_>, name: &'static str) -> ServiceError {
    let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default();
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
        "range" => "Range",
        other => other,
    }
}
