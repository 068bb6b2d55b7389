//! What a blob is to be made with, beside its content.

use crate::blob::headers::{self, flag, given, given_utf8, invalid, is_given, required, word};
use crate::blob::tags_text;
use crate::crypto;
use crate::request_headers::RequestHeaders;
use crate::version::ServiceVersion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tepui_model::blob::{
    AccessTier, ContentMd5, CustomerKey, CustomerSecret, Encryption, HttpProperties, ImmutabilityMode,
    ImmutabilityPolicy, Md5Sum, NewBlob, RehydratePriority, Tags,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// Everything but the HTTP properties, which come from different headers.
pub(super) fn new_blob(
    headers: &RequestHeaders<'_>,
    version: ServiceVersion,
    http: HttpProperties,
) -> Result<NewBlob, ServiceError> {
    Ok(NewBlob {
        http,
        metadata: metadata(headers)?,
        tags: tags(headers)?,
        tier: tier(headers, version)?,
        encryption: encryption(headers)?,
        immutability: immutability(headers, None)?,
        legal_hold: flag(headers, headers::LEGAL_HOLD)?,
    })
}

fn text_of(headers: &RequestHeaders<'_>, name: &'static str) -> Result<Option<String>, ServiceError> {
    Ok(given_utf8(headers, name)?.map(str::to_owned))
}

/// Those that are said of the blob: `x-ms-blob-content-type` and its like.
pub(super) fn http_properties_of_blob(headers: &RequestHeaders<'_>) -> Result<HttpProperties, ServiceError> {
    Ok(HttpProperties {
        content_type: text_of(headers, headers::BLOB_CONTENT_TYPE)?,
        content_encoding: text_of(headers, headers::BLOB_CONTENT_ENCODING)?,
        content_language: text_of(headers, headers::BLOB_CONTENT_LANGUAGE)?,
        content_disposition: text_of(headers, headers::BLOB_CONTENT_DISPOSITION)?,
        cache_control: text_of(headers, headers::BLOB_CACHE_CONTROL)?,
        content_md5: match given(headers, headers::BLOB_CONTENT_MD5)? {
            Some(text) => Some(
                ContentMd5::parse(text)
                    .map_err(|code| headers::invalid_value(code, headers::BLOB_CONTENT_MD5, text))?,
            ),
            None => None,
        },
    })
}

/// Those that are said of the blob, and where they are not, of the request.
pub(super) fn http_properties(headers: &RequestHeaders<'_>) -> Result<HttpProperties, ServiceError> {
    let of_blob = http_properties_of_blob(headers)?;
    let or = |said: Option<String>, name| match said {
        Some(said) => Ok(Some(said)),
        None => text_of(headers, name),
    };
    Ok(HttpProperties {
        content_type: or(of_blob.content_type, "content-type")?
            .or_else(|| Some(DEFAULT_CONTENT_TYPE.to_owned())),
        content_encoding: or(of_blob.content_encoding, "content-encoding")?,
        content_language: or(of_blob.content_language, "content-language")?,
        content_disposition: or(of_blob.content_disposition, "content-disposition")?,
        cache_control: or(of_blob.cache_control, "cache-control")?,
        content_md5: of_blob.content_md5,
    })
}

pub(super) fn md5(headers: &RequestHeaders<'_>, name: &'static str) -> Result<Option<Md5Sum>, ServiceError> {
    let Some(text) = given(headers, name)? else { return Ok(None) };
    Md5Sum::parse(text).map(Some).map_err(|code| headers::invalid_value(code, name, text))
}

/// Fit for a blob or a container, which have no empty values.
pub(super) fn metadata(headers: &RequestHeaders<'_>) -> Result<Metadata, ServiceError> {
    let metadata = headers.metadata()?;
    let empty = metadata.iter().any(|(_, value)| value.trim().is_empty());
    if empty { Err(ErrorCode::InvalidMetadata.into()) } else { Ok(metadata) }
}

pub(super) fn tags(headers: &RequestHeaders<'_>) -> Result<Tags, ServiceError> {
    match given(headers, headers::TAGS)? {
        Some(text) => Ok(tags_text::parse_header(text)?),
        None => Ok(Tags::default()),
    }
}

/// A tier that the version knows.
pub(super) fn tier(
    headers: &RequestHeaders<'_>,
    version: ServiceVersion,
) -> Result<Option<AccessTier>, ServiceError> {
    word(headers, headers::ACCESS_TIER, |text| {
        AccessTier::parse(text).filter(|tier| match tier {
            AccessTier::Cold => version.has_cold_tier(),
            AccessTier::Smart => version.has_smart_tier(),
            _ => true,
        })
    })
}

pub(super) fn priority(headers: &RequestHeaders<'_>) -> Result<Option<RehydratePriority>, ServiceError> {
    word(headers, headers::REHYDRATE_PRIORITY, RehydratePriority::parse)
}

/// `unsaid`: the mode of a policy that names none. Without it, both headers are needed.
pub(super) fn immutability(
    headers: &RequestHeaders<'_>,
    unsaid: Option<ImmutabilityMode>,
) -> Result<Option<ImmutabilityPolicy>, ServiceError> {
    let until = word(headers, headers::IMMUTABILITY_UNTIL, Timestamp::parse_http)?;
    let mode = word(headers, headers::IMMUTABILITY_MODE, ImmutabilityMode::parse)?;
    match (until, mode.or(unsaid.filter(|_| until.is_some()))) {
        (Some(until), Some(mode)) => Ok(Some(ImmutabilityPolicy { until, mode })),
        (Some(_), None) => Err(headers::missing(headers::IMMUTABILITY_MODE)),
        (None, Some(_)) => Err(headers::missing(headers::IMMUTABILITY_UNTIL)),
        (None, None) => Ok(None),
    }
}

/// The caller's key, all three headers of it, and the scope.
pub(super) fn encryption(headers: &RequestHeaders<'_>) -> Result<Encryption, ServiceError> {
    let scope = given(headers, headers::ENCRYPTION_SCOPE)?.map(str::to_owned);
    let parts = [headers::ENCRYPTION_KEY, headers::ENCRYPTION_KEY_SHA256, headers::ENCRYPTION_ALGORITHM];
    if !parts.iter().any(|name| is_given(headers, name)) {
        return Ok(Encryption { scope, ..Encryption::default() });
    }
    let bytes = |name| {
        let decoded = STANDARD.decode(required(headers, name)?).ok();
        let bytes: Option<[u8; 32]> = decoded.and_then(|bytes| bytes.try_into().ok());
        // The key is told to nobody, not even to who sent it.
        bytes.ok_or_else(|| headers::invalid_value(ErrorCode::InvalidHeaderValue, name, ""))
    };
    let key = bytes(headers::ENCRYPTION_KEY)?;
    let sha256 = bytes(headers::ENCRYPTION_KEY_SHA256)?;
    required(headers, headers::ENCRYPTION_ALGORITHM)?;
    word(headers, headers::ENCRYPTION_ALGORITHM, |text| (text == "AES256").then_some(()))?;
    if sha256 != crypto::sha256(&key) {
        return Err(invalid(headers, headers::ENCRYPTION_KEY_SHA256));
    }
    Ok(Encryption { key: Some(CustomerKey { sha256 }), secret: Some(CustomerSecret(key)), scope })
}
