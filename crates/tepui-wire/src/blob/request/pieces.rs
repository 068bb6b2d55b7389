//! Bytes that a request brings along, fetches or asks for: how many, which, and what their checksums are.

use super::Request;
use super::new_blob::{encryption, md5};
use crate::blob::conditions;
use crate::blob::headers::{self, flag, given};
use crate::blob::source;
use crate::blob::structured;
use crate::request_headers::RequestHeaders;
use http::header::TRANSFER_ENCODING;
use tepui_model::blob::{
    BlobPath, ByteRange, Checksums, Crc64Sum, FromUrl, GetBlob, Piece, RangeChecksum, Revision, Upload,
};
use tepui_model::{ErrorCode, ServiceError};

/// Of more bytes than this no checksum is told.
const MAX_CHECKED_RANGE_BYTES: u64 = 4 * 1024 * 1024;

/// What the caller says of the bytes of the body: not both.
pub(super) fn transfer_checksums(headers: &RequestHeaders<'_>) -> Result<Checksums, ServiceError> {
    checksums(headers, headers::CONTENT_MD5, headers::CONTENT_CRC64)
}

/// What the caller says of the bytes of the source: not both.
pub(super) fn source_checksums(headers: &RequestHeaders<'_>) -> Result<Checksums, ServiceError> {
    checksums(headers, headers::SOURCE_MD5, headers::SOURCE_CRC64)
}

fn checksums(
    headers: &RequestHeaders<'_>,
    of_md5: &'static str,
    of_crc64: &'static str,
) -> Result<Checksums, ServiceError> {
    let md5 = md5(headers, of_md5)?;
    // Fidelity: unlike an MD5, it has no error of its own. scenario: put-blob-bad-checksums
    let crc64 = headers::word(headers, of_crc64, Crc64Sum::parse)?;
    if md5.is_some() && crc64.is_some() {
        return Err(ErrorCode::BothCrc64AndMd5HeaderPresent.into());
    }
    Ok(Checksums { md5, crc64 })
}

/// The length of the body. `None` if it comes in chunks, and nobody knows before.
pub(super) fn body_bytes(headers: &RequestHeaders<'_>) -> Result<Option<u64>, ServiceError> {
    match headers::number(headers, headers::CONTENT_LENGTH)? {
        Some(bytes) => Ok(Some(bytes)),
        None if headers.map().contains_key(TRANSFER_ENCODING) => Ok(None),
        None => Err(ErrorCode::MissingContentLengthHeader.into()),
    }
}

/// What the body brings, without what may be around it: see [`structured`].
pub(super) fn upload(headers: &RequestHeaders<'_>, max_bytes: u64) -> Result<Upload, ServiceError> {
    let sent = body_bytes(headers)?;
    let bytes = match structured::asks(headers)? {
        true => Some(structured::plain_bytes(headers)?),
        false => sent,
    };
    if bytes.is_some_and(|bytes| bytes > max_bytes) {
        return Err(too_large(max_bytes));
    }
    Ok(Upload { bytes, max_bytes, checksums: transfer_checksums(headers)? })
}

/// The answer to more bytes than there may be.
pub fn too_large(max_bytes: u64) -> ServiceError {
    ServiceError::new(ErrorCode::RequestBodyTooLarge).with_detail("MaxLimit", max_bytes.to_string())
}

/// There must be something.
pub(super) fn not_empty(headers: &RequestHeaders<'_>, upload: Upload) -> Result<Upload, ServiceError> {
    match upload.bytes {
        Some(0) => Err(headers::invalid(headers, headers::CONTENT_LENGTH)),
        _ => Ok(upload),
    }
}

/// There must be nothing.
pub(super) fn no_body(headers: &RequestHeaders<'_>) -> Result<(), ServiceError> {
    match body_bytes(headers)? {
        Some(0) => Ok(()),
        Some(_) => Err(headers::invalid(headers, headers::CONTENT_LENGTH)),
        None => Err(ErrorCode::MissingContentLengthHeader.into()),
    }
}

/// Bytes to be fetched from a source.
pub(super) fn from_url(request: &Request<'_>, max_bytes: u64) -> Result<Piece, ServiceError> {
    let headers = &request.headers;
    no_body(headers)?;
    let source = source::decode(headers, request.head.target, request.rules)?;
    let range = headers::word(headers, headers::SOURCE_RANGE, ByteRange::parse)?;
    if range.and_then(ByteRange::bytes).is_some_and(|bytes| bytes > max_bytes) {
        return Err(headers::invalid(headers, headers::SOURCE_RANGE));
    }
    Ok(Piece::FromUrl(Box::new(FromUrl { source, range, max_bytes, checksums: source_checksums(headers)? })))
}

/// The range that a read asks for. One that cannot be read is none, and so is one from the end.
pub(super) fn range(headers: &RequestHeaders<'_>) -> Result<Option<ByteRange>, ServiceError> {
    let of_service = given(headers, headers::X_MS_RANGE)?;
    let of_http = given(headers, headers::RANGE)?;
    Ok(of_service.or(of_http).and_then(ByteRange::parse))
}

pub(super) fn get(
    request: &Request<'_>,
    blob: BlobPath,
    revision: Revision,
) -> Result<GetBlob, ServiceError> {
    let headers = &request.headers;
    let range = range(headers)?;
    let wanted = |name| Ok::<_, ServiceError>(flag(headers, name)?.unwrap_or(false));
    let range_checksum = match (wanted(headers::RANGE_GET_MD5)?, wanted(headers::RANGE_GET_CRC64)?) {
        (true, true) => return Err(ErrorCode::BothCrc64AndMd5HeaderPresent.into()),
        (true, false) => Some((headers::RANGE_GET_MD5, RangeChecksum::Md5)),
        (false, true) => Some((headers::RANGE_GET_CRC64, RangeChecksum::Crc64)),
        (false, false) => None,
    };
    if let Some((name, _)) = range_checksum {
        let range = range.ok_or_else(|| headers::invalid(headers, name))?;
        if range.bytes().is_some_and(|bytes| bytes > MAX_CHECKED_RANGE_BYTES) {
            return Err(headers::invalid_value(ErrorCode::OutOfRangeInput, name, "true"));
        }
    }
    Ok(GetBlob {
        blob,
        revision,
        range,
        range_checksum: range_checksum.map(|(_, checksum)| checksum),
        preconditions: conditions::of_read(headers)?,
        encryption: encryption(headers)?,
    })
}
